"""The events of a batch, with their streams."""

from __future__ import annotations

from collections import Counter

import pytest

from dcpinspect.diff.event_batches import SCHEMA, event_batch
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.select import Selection
from tests.peers.truth import SAMPLES


@pytest.mark.parametrize("name", ["tour.pcapng", "rollback.pcap", "capture-loss.pcap"])
def test_every_event_is_there_with_the_stream_that_counts_it(name: str) -> None:
    counted: Counter[int] = Counter()
    with Reading([str(SAMPLES / name)], track=True) as reading:
        assert reading.tracker is not None
        for batch in reading:
            found = event_batch(batch, reading.tracker.state, Selection(), None)
            assert found.schema == SCHEMA
            counted.update(found.column("stream").to_pylist())
        items = reading.tracker.state.known_tables.streams.items.tolist()
    assert sum(counted.values()) > 0
    assert all(counted[number] <= count for number, count in enumerate(items))
    assert sum(counted.values()) >= 0.9 * sum(
        items
    )  # prepares that were lost in part are events of no seqno


def test_keys_may_be_replaced_and_events_chosen() -> None:
    def keys(redactor: Redactor | None, wanted: Selection) -> list[str]:
        with Reading([str(SAMPLES / "rollback.pcap")], track=True) as reading:
            assert reading.tracker is not None
            batches = [
                event_batch(batch, reading.tracker.state, wanted, redactor) for batch in reading
            ]
        return [key for batch in batches for key in batch.column("key_text").to_pylist()]

    plain, hidden = keys(None, Selection()), keys(Redactor(b"salt"), Selection())
    assert "order::7-2" in plain
    assert not set(plain) & set(hidden)
    assert len(keys(None, Selection(vbuckets=(range(7, 8),)))) < len(plain) / 2
    assert keys(None, Selection(vbuckets=(range(500, 501),))) == []
