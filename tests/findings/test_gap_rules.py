"""Rules about seqnos that did not come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dcpinspect.findings import gap_rules as rules
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from tests.builders import Recorded, pcap
from tests.findings.checked import findings
from tests.peers.script import Stream
from tests.streams.told import Told, opened, packets, tables

HISTORY = ("disk", "checkpoint", "history", "may-duplicate-keys")
LOG = [(0xABCD, 0)]


def of(rule: str, *talks: Told) -> list[Finding]:
    return [one for one in findings(*talks) if one.rule == rule]


def events(stream: Stream, seqnos: Sequence[int]) -> None:
    for seqno in seqnos:
        stream.mutation(seqno, f"k{seqno}")


# -- gap-in-history-snapshot
# --------------------------------------------------------------------------------------------


SEES_ALL = {"enable_sync_writes": "true", "flatbuffers_system_events": "true"}


def history(
    seqnos: Sequence[int] = (2, 4, 5), controls: Mapping[str, str] = SEES_ALL, **request: object
) -> tuple[Told, Stream]:
    talk = opened(**controls)  # type: ignore[arg-type] # passed on
    stream = talk.stream(7, **request)  # type: ignore[arg-type] # passed on
    stream.snapshot(0, 9, *HISTORY)
    events(stream, seqnos)
    return talk, stream


def test_history_lacks_nothing_between_two_events() -> None:
    talk, _ = history()
    (found,) = of("gap-in-history-snapshot", talk)
    assert (found.severity, found.message, found.vbuckets, found.seqnos) == (
        "warning",
        "1 seqno missing between 2 and 4 in a history snapshot",
        (7,),
        (2, 4),
    )
    (first, second) = next(gap for gap in tables(talk).gaps if gap["cause"] == "unexplained")[
        "rows"
    ]
    assert [place.row for place in found.places] == [second, first]
    assert all(
        place.time_ns and place.stream_offset and place.direction == "s2c" for place in found.places
    )


@pytest.mark.parametrize("lacking", SEES_ALL)
def test_what_may_be_hidden_from_the_client_accuses_nobody(lacking: str) -> None:
    talk, _ = history(controls={key: value for key, value in SEES_ALL.items() if key != lacking})
    (found,) = of("gap-in-history-snapshot", talk)
    assert (found.severity, found.seqnos) == ("note", (2, 4))


@pytest.mark.parametrize(("is_told", "severity"), [(False, "note"), (True, "warning")])
def test_below_the_start_a_collection_may_be_made_that_keeps_no_history(
    is_told: bool, severity: str
) -> None:
    talk = opened(**SEES_ALL)  # type: ignore[arg-type] # passed on
    if is_told:
        other = talk.stream(8)
        other.snapshot(0, 1, "memory")
        made = {"manifest_uid": 1, "scope_id": 0, "collection_id": 9, "history": 1}
        other.system_event(1, "begin-collection", "c", version="v2", **made)
    stream = talk.stream(7, start=100)
    stream.snapshot(100, 109, *HISTORY)
    events(stream, (102, 105))
    assert [one.severity for one in of("gap-in-history-snapshot", talk)] == [severity]


def test_history_may_begin_above_the_start_and_a_snapshot_without_it_may_lack_anything() -> None:
    talk, _ = history((4, 5))
    assert of("gap-in-history-snapshot", talk) == []
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk", "checkpoint")
    events(stream, (2, 4, 5))
    assert of("gap-in-history-snapshot", talk) == []


def test_a_stream_of_some_collections_and_a_collection_without_history_have_gaps_in_history() -> (
    None
):
    talk, _ = history(value={"collections": ["0"]})
    assert of("gap-in-history-snapshot", talk) == []
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.system_event(
        1,
        "begin-collection",
        "c",
        version="v2",
        manifest_uid=1,
        scope_id=0,
        collection_id=9,
        history=0,
    )
    stream.snapshot(2, 9, *HISTORY)
    events(stream, (2, 9))
    assert of("gap-in-history-snapshot", talk) == []


def test_a_hole_in_history_accuses_nobody() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, *HISTORY)
    events(stream, (2,))
    with talk.lost():
        events(stream, (3,))
    events(stream, (4, 5))
    assert of("gap-in-history-snapshot", talk) == []


# -- gap-unexplained
# --------------------------------------------------------------------------------------------------


def upr(talk: Told, vbucket: int = 7) -> Stream:
    """A stream whose marker has no range."""
    stream = talk.stream(vbucket)
    stream.send("dcp_snapshot_marker", generation="upr")
    return stream


def test_a_gap_that_no_cause_fits_is_a_note_with_both_neighbours() -> None:
    talk = opened()
    events(upr(talk), (4,))
    (found,) = of("gap-unexplained", talk)
    assert (found.severity, found.message) == (
        "note",
        "3 seqnos missing between 0 and 4, no cause fits",
    )
    assert [place.row for place in found.places] == list(reversed(tables(talk).gaps[0]["rows"]))


def test_many_gaps_of_a_vbucket_are_one_finding_with_the_first_three_and_the_last() -> None:
    talk = opened()
    seqnos = range(2, 42, 2)
    events(upr(talk), seqnos)
    (found,) = of("gap-unexplained", talk)
    rows = [gap["rows"][1] for gap in tables(talk).gaps]
    assert (found.count, len(rows)) == (20, 20)
    assert {rows[0], rows[1], rows[2], rows[19]} <= {place.row for place in found.places}
    assert not {rows[4], rows[10]} & {place.row for place in found.places}


def test_gaps_of_many_vbuckets_are_one_finding() -> None:
    talk = opened()
    for vbucket in (3, 4, 5, 9):
        events(upr(talk, vbucket), (4, 9))
    (found,) = of("gap-unexplained", talk)
    assert (found.count, found.vbuckets) == (8, (3, 4, 5, 9))


def test_gaps_that_differ_are_one_finding_whose_cases_say_between_which_seqnos() -> None:
    talk = opened()
    for vbucket, seqno in ((3, 4), (4, 9), (5, 20), (6, 31)):
        events(upr(talk, vbucket), (seqno,))
    (found,) = of("gap-unexplained", talk)
    assert found.what == "seqnos are missing, no cause fits"
    assert [dict(case.facts) for case in found.cases] == [
        {"after": 0, "before": seqno} for seqno in (4, 9, 20, 31)
    ]


def test_what_lies_outside_of_its_marker_or_before_any_is_not_told_twice() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    events(stream, (5, 9))
    assert {gap["cause"] for gap in tables(talk).gaps} >= {"unexplained"}
    assert (len(of("seqno-outside-snapshot", talk)), of("gap-unexplained", talk)) == (1, [])
    talk = opened()
    events(talk.stream(7), (5,))
    assert (len(of("event-before-marker", talk)), of("gap-unexplained", talk)) == (1, [])


def test_holes_and_beginnings_in_the_middle_leave_nothing_unexplained() -> None:
    talk = opened()
    stream = upr(talk)
    events(stream, (1,))
    with talk.lost():
        events(stream, (2, 3))
    events(stream, (4,))
    assert of("gap-unexplained", talk) == []
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    events(stream, (4, 9))
    assert of("gap-unexplained", talk) == []


def test_what_has_a_cause_is_not_unexplained() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory", "checkpoint")
    events(stream, (4, 9))
    stream.snapshot(12, 20, "memory", "checkpoint")
    events(stream, (15,))
    assert len(tables(talk).gaps) == 3
    assert of("gap-unexplained", talk) == []


# -- item-missing
# --------------------------------------------------------------------------------------------------


def pair(
    *,
    lost: bool = False,
    late: bool = False,
    log: Sequence[tuple[int, int]] = LOG,
    **request: object,
) -> tuple[Told, Told]:
    """Two clients with the same vbucket; the second lacks seqno 4. ``late``: its beginning was not
    captured.
    """
    talks = (
        opened("one:1", "include-delete-times"),
        opened("two:1", "include-delete-times", port=50_001),
    )
    for talk in talks:
        lacks = talk is talks[1]
        if late and lacks:
            talk.begin()
        stream = talk.stream(7, log=log if lacks else LOG, **(request if lacks else {}))  # type: ignore[arg-type] # passed on
        stream.snapshot(0, 2, "memory", "checkpoint")
        events(stream, (1, 2))
        stream.snapshot(3, 9, "memory", "checkpoint")
        events(stream, (3,))
        if not lacks:
            events(stream, (4,))
        elif lost:
            with talk.lost():
                events(stream, (4,))
        events(stream, range(5, 10))
    return talks


def test_a_change_that_another_stream_brought_had_to_come() -> None:
    one, two = pair()
    (found,) = of("item-missing", one, two)
    assert (found.severity, found.message) == (
        "error",
        "k4 seqno 4 was sent to connection 1, not to connection 2",
    )
    assert (found.connections, found.vbuckets, found.seqnos) == ((2,), (7,), (4,))
    (gap,) = tables(one, two).gaps
    assert [(place.row, place.connection) for place in found.places] == [
        (gap["rows"][1], 2),
        (gap["rows"][0], 1),
    ]
    assert of("gap-unexplained", one, two) == []


def test_all_changes_that_had_to_come_are_counted_and_named() -> None:
    talks = (
        opened("one:1", "include-delete-times"),
        opened("two:1", "include-delete-times", port=50_001),
    )
    for talk in talks:
        stream = talk.stream(7, log=LOG)
        stream.snapshot(0, 2, "memory", "checkpoint")
        events(stream, (1, 2))
        stream.snapshot(3, 12, "memory", "checkpoint")
        events(stream, range(3, 13) if talk is talks[0] else (3, 7, 9, 10, 11, 12))
    (found,) = of("item-missing", *talks)
    assert (
        found.message
        == "4 documents, seqnos 4–6, 8, were sent to connection 1, not to connection 2"
    )
    assert (found.count, found.seqnos, len(found.places)) == (4, (4, 5, 6, 8), 4)


def test_files_are_read_again_for_it(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(
        pcap(
            Recorded(packet.data, packet.wire, packet.time_ns, packet.link_type)
            for packet in packets(*pair())
        )
    )
    with Reading([str(path)]) as reading:
        reading.check()
        for _ in reading:
            pass
        assert [one.message for one in reading.findings() if one.rule == "item-missing"] == [
            "k4 seqno 4 was sent to connection 1, not to connection 2"
        ]
        assert reading.by_name()["gaps"].values("cause") == ["unexplained"]


def test_where_keys_are_replaced_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(
        pcap(
            Recorded(packet.data, packet.wire, packet.time_ns, packet.link_type)
            for packet in packets(*pair())
        )
    )
    with Reading([str(path)]) as reading:
        reading.check(redactor=Redactor())
        for _ in reading:
            pass
        assert [one.message for one in reading.findings() if one.rule == "item-missing"] == [
            "seqno 4 was sent to connection 1, not to connection 2"
        ]


def test_of_two_stream_ids_on_one_connection_the_other_is_named() -> None:
    talk = opened(enable_stream_id="true")
    for sid in (1, 2):
        stream = talk.stream(7, log=LOG, value={"sid": sid})
        stream.snapshot(0, 2, "memory", "checkpoint")
        events(stream, (1, 2))
        stream.snapshot(3, 9, "memory", "checkpoint")
        events(stream, [seqno for seqno in range(3, 10) if seqno != 4 or sid == 1])
    assert [one.message for one in of("item-missing", talk)] == [
        "k4 seqno 4 was sent to sid 1, not to sid 2"
    ]


def test_another_filter_another_branch_and_a_hole_accuse_nobody() -> None:
    assert of("item-missing", *pair(value={"collections": ["8"]})) == []
    assert of("item-missing", *pair(log=[(0xEEEE, 0)])) == []
    assert of("item-missing", *pair(lost=True)) == []


def test_who_was_not_heard_asking_misses_nothing() -> None:
    assert of("item-missing", *pair(late=True)) == []


def test_the_same_stream_again_after_a_reconnect_lacks_a_document_out_of_order() -> None:
    before = opened()
    stream = before.stream(7, log=LOG)
    for start, end in ((0, 3), (4, 6), (7, 9)):
        stream.snapshot(start, end, "memory", "checkpoint")
        events(stream, range(max(start, 1), end + 1))
    before.close()
    after = opened("test:2", port=50_001, enable_out_of_order_snapshots="true")
    stream = after.stream(7, log=LOG)
    stream.oso("start")
    events(stream, (9, 8, 7, 6, 4, 3, 2, 1))
    stream.oso("end")
    (found,) = of("item-missing", before, after)
    assert (found.message, found.seqnos, found.connection) == (
        "k5 seqno 5 was sent to connection 1, not to connection 2",
        (5,),
        2,
    )
    (record,) = tables(before, after).gaps
    assert [place.row for place in found.places][1] == record["rows"][0]
    assert all(
        place.time_ns and place.stream_offset and place.direction == "s2c" for place in found.places
    )


def test_gaps_are_told_in_order_of_rows_whatever_their_order_in_the_table() -> None:
    """A request that is read late can tell of an earlier gap than those before it in the table."""
    talk, _ = history((2, 4, 6, 8, 10, 12))
    seen = tables(talk)
    context, gaps = Context(seen.tracker, seen.links), seen.tables.all_gaps.table
    one, other = (
        list(rules._bulk(context, some, "gap-unexplained", "note")) for some in (gaps, gaps[::-1])
    )
    assert len(one) == 4
    assert one == other
