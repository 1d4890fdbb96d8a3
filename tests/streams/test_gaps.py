"""Each cause of a gap by its smallest conversation; where several hold, the first one counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcpinspect.protocol.flags import CHECKPOINT, DISK, HISTORY, MEMORY
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import words as w
from dcpinspect.streams.gaps import StreamFacts, causes
from dcpinspect.streams.record_codes import (
    AFTER_EVENT,
    AFTER_IN_RANGE,
    AFTER_UNMARKED,
    BEGINS_IN_RANGE,
    FROM_START,
    IN_RANGE,
    IS_ADVANCED,
    IS_LOST,
    IS_TAIL,
    MARKER_LOST,
    MAY_LACK_MARKERS,
    SAME_SNAPSHOT,
)
from dcpinspect.streams.records import Gaps, Snapshots
from tests.peers.script import Stream
from tests.streams.told import Record, Seen, Told, opened, packets, tables


def streaming(
    *, end: int = 100, kinds: tuple[str, ...] = ("memory", "checkpoint"), **options: object
) -> tuple[Told, Stream]:
    talk = opened()
    stream = talk.stream(7, value=options.pop("value", None))  # type: ignore[arg-type] # passed on
    stream.snapshot(0, end, *kinds, **options)  # type: ignore[arg-type] # passed on
    return talk, stream


def only(talk: Told) -> Record:
    (gap,) = tables(talk).gaps
    return gap


def test_de_duplicated_within_a_snapshot_and_at_its_edge() -> None:
    talk, stream = streaming(end=5)
    stream.mutation(2, "a")
    stream.mutation(5, "b")
    stream.snapshot(6, 9, "memory", "checkpoint")
    stream.mutation(8, "c")
    found = [
        (gap["after_seqno"], gap["before_seqno"], gap["width"], gap["cause"])
        for gap in tables(talk).gaps
    ]
    assert found == [
        (0, 2, 1, "deduplicated"),
        (2, 5, 2, "deduplicated"),
        (5, 8, 2, "deduplicated"),
    ]


@pytest.mark.parametrize(
    ("kinds", "settings", "rest"),
    [
        (("memory", "checkpoint"), {}, ", or hidden from this client"),
        (("memory", "checkpoint"), {"enable_sync_writes": "true"}, ""),
        (
            ("disk",),
            {},
            ", from disk, or purged by compaction or hidden from this client",
        ),
        (
            ("disk",),
            {"enable_sync_writes": "true"},
            ", from disk, or purged by compaction",
        ),
    ],
)
def test_the_evidence_says_on_which_side_of_the_marker_it_lies(
    kinds: tuple[str, ...], settings: dict[str, Any], rest: str
) -> None:
    talk = opened(**settings)
    stream = talk.stream(7)
    stream.snapshot(100, 200, *kinds)
    stream.mutation(150, "a")
    stream.mutation(200, "b")
    stream.snapshot(210, 300, *kinds)
    stream.mutation(210, "c")
    stream.mutation(215, "d")
    assert [
        (gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in tables(talk).gaps
    ] == [
        (0, 150, "deduplicated"),
        (150, 200, "deduplicated"),
        (200, 210, "deduplicated"),
        (210, 215, "deduplicated"),
    ]
    row = [snapshot["row"] for snapshot in tables(talk).snapshots]
    assert [gap["evidence"] for gap in tables(talk).gaps] == [
        (
            "between 0, where the stream begins, and the first event of the marker 100–200 in row "
            f"{row[0]}{rest}"
        ),
        f"within the marker 100–200 in row {row[0]}{rest}",
        f"between what came before and the first event of the marker 210–300 in row {row[1]}{rest}",
        f"within the marker 210–300 in row {row[1]}{rest}",
    ]


@pytest.mark.parametrize(
    ("asked", "granted", "hides"), [(("Collections",), (), False), (("JSON",), ("JSON",), True)]
)
def test_a_server_without_durable_writes_and_collections_hides_nothing(
    asked: list[str], granted: list[str], hides: bool
) -> None:
    """A server that does not grant collections to who asks is older than 7.0, and one that does not
    know the setting than 6.5.
    """
    talk = Told("old:1")
    talk.hello("old/1.0", *asked, granted=granted)
    talk.open("old:1", "producer")
    talk.control("enable_expiry_opcode", "true", status=0 if hides else Status.EINVAL)
    changes = talk.stream(7)
    changes.snapshot(0, 3, "memory", "checkpoint")
    for seqno in (1, 3):
        changes.mutation(seqno, f"k{seqno}")
    (found,) = tables(talk).gaps
    assert found["evidence"].endswith(", or hidden from this client" if hides else "")


def test_a_marker_that_begins_right_behind_what_came_has_the_gap_within() -> None:
    talk, stream = streaming(end=5)
    stream.mutation(5, "a")
    stream.snapshot(6, 9, "memory", "checkpoint")
    stream.mutation(8, "b")
    assert tables(talk).gaps[1]["evidence"].startswith("within the marker 6–9 in row")


def test_from_the_latest_seqno_on_a_stream_begins_at_its_first_marker() -> None:
    talk = opened()
    stream = talk.stream(7, start=0, flags=["from-latest"])
    stream.snapshot(100, 200, "memory", "checkpoint")
    stream.mutation(150, "a")
    found = only(talk)
    assert (found["after_seqno"], found["evidence"][:24]) == (100, "within the marker 100–20")


def test_from_disk_the_evidence_names_compaction_too() -> None:
    talk, stream = streaming(kinds=("disk", "checkpoint"))
    stream.mutation(9, "a")
    found = only(talk)
    assert found["cause"] == "deduplicated"
    assert "purged by compaction" in found["evidence"]


def test_without_gaps_there_are_none() -> None:
    talk, stream = streaming()
    for seqno in (1, 2, 3):
        stream.mutation(seqno, "a")
    assert tables(talk).gaps == []


def test_lost_bytes_between_the_two_messages_outrank_all_else() -> None:
    talk, stream = streaming(value={"collections": ["8"]})
    stream.mutation(1, "a")
    with talk.lost():
        stream.mutation(2, "b")
    stream.mutation(3, "c")
    found = only(talk)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (1, 3, "capture-loss")
    assert "from the server could not be read, between frames" in found["evidence"]
    assert len(found["rows"]) == 2


def test_a_loss_elsewhere_is_no_cause() -> None:
    talk, stream = streaming()
    stream.mutation(1, "a")
    with talk.lost():
        talk.noop()
    stream.mutation(2, "b")
    stream.mutation(5, "c")
    assert only(talk)["cause"] == "deduplicated"


def test_seqno_advanced_accounts_for_what_is_hidden() -> None:
    talk, stream = streaming(end=9, value={"collections": ["8"]})
    stream.mutation(1, "a")
    stream.seqno_advanced(9)
    stream.snapshot(10, 11, "memory", "checkpoint")
    stream.mutation(10, "b")
    found = only(talk)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (
        1,
        10,
        "seqno-advanced",
    )


def test_what_a_request_leaves_out_is_filtered() -> None:
    for value in ({"collections": ["8"]}, {"scope": "8"}):
        talk, stream = streaming(value=value)
        stream.mutation(4, "a", collection=8)
        assert only(talk)["cause"] == "filtered"
    talk, stream = streaming(value={"uid": "5"})
    stream.mutation(4, "a")
    assert only(talk)["cause"] == "deduplicated"


def test_deletions_left_out_of_the_first_backfill_are_filtered_from_disk_only() -> None:
    for kind, cause in (("disk", "filtered"), ("memory", "deduplicated")):
        talk = opened("test:1", "skip-deletes-in-initial-backfill")
        stream = talk.stream(7)
        stream.snapshot(0, 9, kind, "checkpoint")
        stream.mutation(4, "a")
        assert only(talk)["cause"] == cause


def test_above_the_greatest_visible_seqno_everything_is_invisible() -> None:
    talk, stream = streaming(end=9, version="v2.0", max_visible_seqno=4)
    stream.mutation(1, "a")
    stream.mutation(4, "b")
    stream.mutation(9, "c")
    found = [(gap["after_seqno"], gap["cause"]) for gap in tables(talk).gaps]
    assert found == [(1, "deduplicated"), (4, "invisible")]


def test_the_rest_of_a_snapshot_that_never_came_is_its_tail_and_the_next_gap_starts_behind_it() -> (
    None
):
    talk, stream = streaming(end=9)
    stream.mutation(4, "a")
    stream.snapshot(10, 20, "memory", "checkpoint")
    stream.mutation(12, "b")
    found = [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in tables(talk).gaps]
    assert found == [(0, 4, "deduplicated"), (4, 10, "snapshot-tail"), (9, 12, "deduplicated")]


def test_a_snapshot_with_history_has_every_change_of_collections_that_keep_it() -> None:
    kinds = ("disk", "checkpoint", "history", "may-duplicate-keys")
    talk, stream = streaming(kinds=kinds)
    stream.mutation(2, "a")
    stream.mutation(4, "b")
    assert [gap["cause"] for gap in tables(talk).gaps] == ["deduplicated", "unexplained"]
    talk, stream = streaming(kinds=kinds, value={"collections": ["8"]})
    stream.mutation(2, "a", collection=8)
    stream.mutation(4, "b", collection=8)
    assert [gap["cause"] for gap in tables(talk).gaps] == ["filtered", "filtered"]


def test_what_no_marker_covers_is_unexplained() -> None:
    talk, stream = streaming(end=5)
    stream.mutation(5, "a")
    stream.mutation(9, "b")
    first, second = tables(talk).gaps
    assert (first["cause"], second["cause"]) == ("deduplicated", "unexplained")
    assert "the second is outside of the marker 0–5 in row" in second["evidence"]


def test_what_lies_behind_an_event_outside_of_its_marker_is_unexplained() -> None:
    talk, stream = streaming(end=5)
    stream.mutation(5, "a")
    stream.mutation(9, "b")
    stream.snapshot(20, 30, "memory", "checkpoint")
    stream.mutation(25, "c")
    found = tables(talk).gaps[-1]
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (9, 25, "unexplained")
    assert "no marker covers the first" in found["evidence"]


def test_an_event_before_any_marker_explains_nothing_on_either_side() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.mutation(3, "a")
    stream.snapshot(5, 9, "memory", "checkpoint")
    stream.mutation(7, "b")
    first, second = tables(talk).gaps
    assert (first["cause"], second["cause"]) == ("unexplained", "unexplained")
    assert (
        "no marker covers the second" in first["evidence"],
        "no marker covers the first" in second["evidence"],
    ) == (True, True)


@pytest.mark.parametrize("how", ["seqno-advanced", "oso"])
def test_seqno_advanced_and_the_end_of_what_came_in_no_order_are_edges_of_what_follows(
    how: str,
) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    if how == "oso":
        stream.oso("start")
        for seqno in (2, 1, 3):
            stream.mutation(seqno, f"k{seqno}")
        stream.oso("end")
    else:
        stream.snapshot(0, 3, "memory")
        for seqno in (1, 2):
            stream.mutation(seqno, f"k{seqno}")
        stream.seqno_advanced(3)
    stream.snapshot(10, 12, "memory", "checkpoint")
    stream.mutation(12, "c")
    found = tables(talk).gaps[-1]
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (3, 12, "deduplicated")
    assert found["evidence"].startswith(
        "between what came before and the first event of the marker 10–12"
    )


def test_a_marker_without_a_range_explains_nothing() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.send("dcp_snapshot_marker", generation="upr")
    stream.mutation(4, "a")
    assert only(talk)["cause"] == "unexplained"


def test_before_the_first_marker_of_an_implicit_stream_nobody_knows_what_is_missing() -> None:
    talk, stream = streaming()
    talk.begin()
    stream.mutation(40, "a")
    stream.mutation(42, "b")
    stream.snapshot(50, 60, "memory", "checkpoint")
    stream.mutation(52, "c")
    found = only(talk)
    assert (found["after_seqno"], found["before_seqno"], found["cause"]) == (42, 52, "capture-loss")
    assert "marker" in found["evidence"]


def test_what_a_request_that_was_not_captured_may_leave_out_nobody_knows() -> None:
    talk, stream = streaming(value={"collections": ["8"]})
    talk.begin()
    stream.snapshot(0, 9, "memory")
    stream.mutation(2, "a", collection=8)
    stream.mutation(5, "a", collection=8)
    found = only(talk)
    assert (found["cause"], found["evidence"]) == (
        "deduplicated",
        "the request was not captured, so they are de-duplicated or left out",
    )
    assert found["rows"] == [1, 2, 3]


def test_without_collections_nothing_can_be_left_out() -> None:
    talk = Told("x")
    talk.hello("old/1", "JSON")
    talk.open("x:1", "producer")
    with talk.lost():
        stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for seqno in (1, 2, 5, 6):
        stream.mutation(seqno, "a")
    assert only(talk)["cause"] == "deduplicated"


def test_where_a_marker_was_lost_nobody_knows_what_is_missing_later() -> None:
    talk, stream = streaming(end=5)
    stream.mutation(5, "a")
    with talk.lost():
        stream.snapshot(6, 20, "memory", "checkpoint")
    for seqno in (6, 7, 9, 10, 11):
        stream.mutation(seqno, "b")
    assert [(gap["after_seqno"], gap["cause"]) for gap in tables(talk).gaps] == [
        (0, "deduplicated"),
        (7, "capture-loss"),
    ]
    assert "was not captured" in tables(talk).gaps[1]["evidence"]


def test_cached_documents_have_seqnos_in_no_order_and_no_gaps() -> None:
    talk = opened()
    stream = talk.stream(7, start=50, flags=["takeover", "active-only", "cache-transfer"])
    stream.cache_transfer(
        [{"by_seqno": 30, "key": "a", "value": b"{}"}, {"by_seqno": 3, "key": "b", "value": b"{}"}]
    )
    stream.cache_transfer_end()
    stream.snapshot(50, 51, "memory", "checkpoint")
    stream.mutation(51, "c")
    seen = tables(talk)
    assert not seen.anomalies
    assert not seen.gaps


def test_gaps_stand_in_the_order_of_the_rows_that_end_them() -> None:
    talk = opened()
    one, other = talk.stream(7), talk.stream(8)
    for stream in (one, other):
        stream.snapshot(0, 50, "memory")
    for seqno in (3, 9):
        one.mutation(seqno, "a")
        other.mutation(seqno, "a")
    assert [(gap["vbucket"], gap["before_seqno"]) for gap in tables(talk).gaps] == [
        (7, 3),
        (8, 3),
        (7, 9),
        (8, 9),
    ]


def test_a_request_without_its_value_may_have_named_collections() -> None:
    talk = opened()
    stream = talk.stream(7, value={"collections": ["0", "8"]})
    stream.snapshot(0, 9, "memory", "checkpoint", "history")
    stream.mutation(1, "a")
    stream.mutation(4, "d")
    (gap,) = tables(talk).gaps
    assert gap["cause"] == "filtered"
    (gap,) = Seen([packet.cut(130) for packet in packets(talk)]).gaps
    assert (gap["cause"], gap["evidence"]) == (
        "deduplicated",
        "the value of the request in row 5 was not captured, so they are de-duplicated or left out",
    )


def test_a_request_with_options_alone_names_no_collections() -> None:
    talk = opened("test:1", "skip-deletes-in-initial-backfill")
    stream = talk.stream(7, value={"uid": "1"})
    stream.snapshot(0, 9, "disk", "checkpoint")
    stream.mutation(4, "d")
    (gap,) = tables(talk).gaps
    assert (gap["cause"], gap["evidence"]) == (
        "filtered",
        (
            "filtered or de-duplicated, because the connection was opened without deletions of the "
            "first backfill"
        ),
    )


def cause_of(
    flags: int, kinds: int = MEMORY | CHECKPOINT, *, visible: int | None = None, **facts: bool
) -> str:
    """The cause of a gap from 4 to 6 in the marker 0–9 of a stream of which all is known, except
    for what ``facts`` say.
    """
    snapshots, gaps = Snapshots.zeros(1), Gaps.zeros(1)
    snapshot, gap = snapshots[0], gaps[0]
    snapshot.start, snapshot.end, snapshot.flags, snapshot.layout = 0, 9, kinds, 1
    if visible is not None:
        snapshot.seqnos.present, snapshot.seqnos.max_visible = 1, visible
    gap.after, gap.before, gap.flags = 4, 6, flags
    known = {
        "is_asked": True,
        "is_opened": True,
        "has_filter": False,
        "skips_deletes": False,
        "lacks_history": False,
    } | facts
    (found,) = causes(
        gaps, snapshots, StreamFacts(**{name: np.array([holds]) for name, holds in known.items()})
    )
    return w.CAUSES[int(found)]


WITHIN = IN_RANGE | BEGINS_IN_RANGE | AFTER_EVENT | AFTER_IN_RANGE | SAME_SNAPSHOT


UNMARKED = IN_RANGE | AFTER_EVENT | AFTER_UNMARKED


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        # the marker of what follows has the whole gap
        (IN_RANGE | AFTER_EVENT | BEGINS_IN_RANGE, "deduplicated"),
        (UNMARKED | BEGINS_IN_RANGE | MAY_LACK_MARKERS, "deduplicated"),
        # what is before the gap is the end of a snapshot, or nothing came
        (IN_RANGE, "deduplicated"),
        (IN_RANGE | FROM_START | AFTER_UNMARKED | MAY_LACK_MARKERS, "deduplicated"),
        # two markers have one end each
        (IN_RANGE | AFTER_EVENT | AFTER_IN_RANGE, "deduplicated"),
        (IN_RANGE | AFTER_EVENT, "unexplained"),
        # an event without a marker
        (UNMARKED | MAY_LACK_MARKERS, "capture-loss"),
        (UNMARKED, "unexplained"),
        # the second event has none
        (AFTER_EVENT | AFTER_IN_RANGE, "unexplained"),
        (AFTER_EVENT | AFTER_IN_RANGE | MARKER_LOST, "capture-loss"),
        (0, "unexplained"),
    ],
)
def test_what_is_known_of_both_ends_makes_the_cause(facts: int, cause: str) -> None:
    assert cause_of(facts) == cause


@pytest.mark.parametrize("lost", [IS_LOST, MARKER_LOST])
def test_a_loss_outranks_every_other_cause(lost: int) -> None:
    assert cause_of(WITHIN | lost | IS_ADVANCED) == "capture-loss"
    assert cause_of(WITHIN | lost, visible=4) == "capture-loss"
    assert cause_of(lost | IS_TAIL) == "capture-loss"
    assert cause_of(WITHIN | lost, DISK | HISTORY) == "capture-loss"
    assert cause_of(WITHIN | lost, has_filter=True) == "capture-loss"


def test_seqno_advanced_outranks_what_is_invisible_which_outranks_a_tail_which_outranks_a_filter() -> (
    None
):
    assert cause_of(WITHIN | IS_ADVANCED, visible=4, has_filter=True) == "seqno-advanced"
    assert cause_of(IS_TAIL, visible=4, has_filter=True) == "invisible"
    assert cause_of(WITHIN, visible=4, has_filter=True) == "invisible"
    assert cause_of(IS_TAIL, visible=5, has_filter=True) == "snapshot-tail"
    assert cause_of(WITHIN, visible=5, has_filter=True) == "filtered"


def test_a_filter_that_is_known_is_no_doubt_about_what_else_was_asked_for() -> None:
    assert cause_of(WITHIN, has_filter=True, is_asked=False) == "filtered"
    assert cause_of(WITHIN, DISK, has_filter=True, is_opened=False) == "filtered"


def test_whether_deletions_are_left_out_is_a_doubt_from_disk_only() -> None:
    assert cause_of(WITHIN, DISK | HISTORY, is_opened=False) == "deduplicated"
    assert cause_of(WITHIN, MEMORY | HISTORY, is_opened=False) == "unexplained"


def test_where_the_open_was_not_captured_a_backfill_may_leave_out_deletions() -> None:
    for kind, is_unclear in (("disk", True), ("memory", False)):
        talk = opened()
        talk.begin()
        stream = talk.stream(7)
        stream.snapshot(0, 9, kind, "checkpoint")
        stream.mutation(2, "a")
        stream.mutation(5, "b")
        found = tables(talk).gaps
        assert {gap["cause"] for gap in found} == {"deduplicated"}
        assert {
            gap["evidence"].startswith("the open of the connection was not captured")
            for gap in found
        } == {is_unclear}


def test_the_greatest_visible_seqno_is_the_reason_rather_than_seqno_advanced_or_a_tail() -> None:
    talk, stream = streaming(end=9, version="v2.0", max_visible_seqno=2)
    stream.mutation(1, "a")
    stream.mutation(2, "b")
    stream.snapshot(10, 20, "memory", "checkpoint", version="v2.0", max_visible_seqno=12)
    for seqno in (10, 11, 12):
        stream.mutation(seqno, "c")
    stream.seqno_advanced(20)
    assert [
        (gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in tables(talk).gaps
    ] == [
        (2, 10, "invisible"),
        (12, 21, "seqno-advanced"),
    ]


def test_the_rows_of_a_gap_are_those_that_show_its_cause() -> None:
    talk, stream = streaming(end=9, version="v2.0", max_visible_seqno=4)  # in row 7
    for seqno in (1, 4, 9):
        stream.mutation(seqno, "a")
    stream.snapshot(10, 20, "memory", "checkpoint")  # in row 11
    stream.mutation(10, "b")
    stream.mutation(11, "b")
    stream.snapshot(21, 30, "memory", "checkpoint")
    stream.seqno_advanced(30)
    assert [(gap["cause"], gap["rows"]) for gap in tables(talk).gaps] == [
        ("deduplicated", [7, 8, 9]),
        ("invisible", [7, 9, 10]),
        ("snapshot-tail", [11, 14]),
        ("seqno-advanced", [15]),
    ]


def test_deletions_that_the_client_asked_to_leave_out_are_missing_in_no_history() -> None:
    talk = opened("c:1", "skip-deletes-in-initial-backfill", change_streams="true")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk", "checkpoint", "history")
    for seqno in (1, 3, 9):
        stream.mutation(seqno, f"k{seqno}")
    assert [gap["cause"] for gap in tables(talk).gaps] == ["filtered", "filtered"]
