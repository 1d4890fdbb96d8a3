from __future__ import annotations

from dcpinspect.reading.store.store import Store
from dcpinspect.tui.field_links import WORDS, links_of, target


def test_request_and_answer_lead_to_each_other(store: Store) -> None:
    requests = [
        row
        for row in range(1, store.rows + 1)
        if links_of(store.messages([row])).get("opaque") == "request"
    ]
    assert len(requests) == 30
    for row in requests[::6]:
        asked = target(store, row, "request")
        assert asked is not None
        assert target(store, asked, "answer") == row


def test_an_item_leads_to_its_marker_its_stream_and_the_version_before(store: Store) -> None:
    names = {row: store.messages([row]).name_of(0) for row in range(1, store.rows + 1)}
    items = [row for row, name in names.items() if name == "dcp_mutation"][::20]
    for row in items:
        batch = store.messages([row])
        marker, stream = target(store, row, "marker"), target(store, row, "stream")
        assert marker is not None
        assert stream is not None
        assert names[marker] == "dcp_snapshot_marker"
        assert names[stream] == "dcp_stream_req"
        for other in (marker, stream):
            assert store.messages([other]).vbucket.value_at(0) == batch.vbucket.value_at(0)
        before = target(store, row, "previous")
        assert before is None or store.messages([before]).key_of(0) == batch.key_of(0)
        assert set(links_of(batch).values()) <= WORDS.keys()


def test_what_is_not_in_the_capture_leads_nowhere(store: Store) -> None:
    assert target(store, 1, "marker") is None
