"""Each state of a snapshot, and each rule for the start of a marker, by its smallest
conversation.
"""

from __future__ import annotations

import pytest

from dcpinspect.protocol.flags import ENDLESS
from tests.encode import encode
from tests.peers.script import Stream, failover_entries
from tests.streams.told import Record, Told, opened, tables


def streaming(
    *, start: int = 0, snapshot: tuple[int, int] | None = None, **request: object
) -> tuple[Told, Stream]:
    talk = opened()
    return talk, talk.stream(7, start=start, snapshot=snapshot, **request)  # type: ignore[arg-type] # passed on


def last_of(talk: Told) -> Record:
    return tables(talk).snapshots[-1]


# -- states
# -----------------------------------------------------------------------------------------------


def test_complete_by_its_last_event() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 2, "memory")
    stream.mutation(2, "k")
    assert last_of(talk)["state"] == "complete"


def test_complete_by_seqno_advanced() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "k")
    stream.seqno_advanced(2)
    assert last_of(talk)["state"] == "complete-seqno-advanced"


def test_open_where_the_capture_ends() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "k")
    assert last_of(talk)["state"] == "open"


@pytest.mark.parametrize("how", ["state-changed", "too-slow", "closed", "connection", "reset"])
def test_cut_by_whatever_ends_it_early(how: str) -> None:
    talk, stream = streaming()
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "k")
    if how == "closed":
        stream.close()
    elif how in ("connection", "reset"):
        talk.close(abort=how == "reset")
    else:
        stream.end(how)
    seen = tables(talk)
    assert [snapshot["state"] for snapshot in seen.snapshots] == ["cut"]
    assert seen.gaps == []


def test_unknown_when_the_next_marker_may_be_of_the_same_snapshot() -> None:
    """A marker that runs backwards says no range: it may be that of the history."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk")
    stream.mutation(3, "a")
    stream.snapshot(9, 0, "disk", "history")
    stream.mutation(9, "b")
    assert tables(talk).snapshots[0]["state"] == "unknown"


def test_incomplete_when_the_next_marker_comes_too_early() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    stream.mutation(1, "k")
    stream.snapshot(6, 9, "memory", "checkpoint")
    stream.mutation(6, "k")
    seen = tables(talk)
    assert [snapshot["state"] for snapshot in seen.snapshots] == ["incomplete", "open"]
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (1, 6, "snapshot-tail")
    ]


def test_unknown_when_the_end_may_have_been_lost() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    stream.mutation(1, "k")
    with talk.lost():
        stream.mutation(5, "k")
    stream.snapshot(6, 9, "memory", "checkpoint")
    stream.mutation(6, "k")
    seen = tables(talk)
    assert [snapshot["state"] for snapshot in seen.snapshots] == ["unknown", "open"]
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (1, 6, "capture-loss")
    ]


def test_unknown_when_the_capture_lacks_what_came_last() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    stream.mutation(1, "k")
    with talk.lost():
        stream.mutation(2, "k")
    talk.noop()
    assert last_of(talk)["state"] == "unknown"


def test_complete_although_something_inside_was_lost() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    with talk.lost():
        stream.mutation(1, "k")
    stream.mutation(5, "k")
    assert (last_of(talk)["state"], last_of(talk)["lost_seqnos"]) == ("complete", 4)


def test_seqnos_that_were_lost_count_for_the_snapshot_that_has_them_in_its_range() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    for seqno in range(1, 6):
        stream.mutation(seqno, "k")
    stream.snapshot(8, 9, "memory")
    with talk.lost():
        stream.mutation(8, "k")
    stream.mutation(9, "k")
    assert [snapshot["lost_seqnos"] for snapshot in tables(talk).snapshots] == [None, 1]


# -- conventions
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "asked"), [(7, 7), (5, 7)])
@pytest.mark.parametrize(
    ("kinds", "convention"),
    [
        (["memory"], "memory-1"),
        (["memory", "checkpoint"], "memory-1"),
        (["disk"], "disk-1"),
        (["disk", "checkpoint"], "disk-1"),
    ],
)
def test_the_first_marker_starts_at_the_request_or_its_snapshot(
    start: int, asked: int, kinds: list[str], convention: str
) -> None:
    talk, stream = streaming(start=asked, snapshot=(start, 9))
    stream.snapshot(start, 20, *kinds)
    assert last_of(talk)["convention"] == convention


def test_a_marker_after_a_prologue_is_still_the_first() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 20, "disk", "checkpoint")
    stream.snapshot(0, 20, "disk", "checkpoint", "history")
    assert [snapshot["convention"] for snapshot in tables(talk).snapshots] == ["disk-1", "disk-1"]


def after_first(*kinds: str, start: int = 6, first: int | None = None) -> Record:
    """The second marker of a stream, and its first event."""
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory", "checkpoint")
    stream.mutation(5, "k")
    stream.snapshot(start, 20, *kinds)
    if first is not None:
        stream.mutation(first, "k")
    return last_of(talk)


@pytest.mark.parametrize("first", [None, 6, 9])
def test_a_later_marker_with_the_checkpoint_flag_starts_at_its_checkpoint(
    first: int | None,
) -> None:
    assert after_first("memory", "checkpoint", first=first)["convention"] == "memory-2"
    assert after_first("disk", "checkpoint", first=first)["convention"] == "disk-later"


@pytest.mark.parametrize(
    ("first", "convention"), [(None, "unknown"), (6, "memory-3"), (9, "irregular")]
)
def test_a_memory_marker_without_the_checkpoint_flag_starts_with_the_event_that_follows(
    first: int | None, convention: str
) -> None:
    assert after_first("memory", first=first)["convention"] == convention


@pytest.mark.parametrize(
    ("first", "convention"),
    [(None, "unknown"), (6, "disk-3-first-event"), (9, "disk-later"), (5, "irregular")],
)
def test_a_disk_marker_of_a_server_without_the_checkpoint_flag_is_a_later_backfill(
    first: int | None, convention: str
) -> None:
    assert after_first("disk", first=first)["convention"] == convention


def test_a_disk_marker_whose_first_event_may_be_lost_is_of_no_known_convention() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory", "checkpoint")
    stream.mutation(5, "k")
    stream.snapshot(6, 20, "disk")
    with talk.lost():
        stream.mutation(6, "k")
    stream.mutation(9, "k")
    assert last_of(talk)["convention"] == "unknown"


@pytest.mark.parametrize(
    ("first", "convention"), [(None, "unknown"), (9, "memory-3"), (10, "irregular")]
)
def test_a_first_memory_marker_above_the_request_is_the_specifications_own_example(
    first: int | None, convention: str
) -> None:
    talk, stream = streaming(start=5)
    stream.snapshot(9, 20, "memory")
    if first is not None:
        stream.mutation(first, "k")
    assert last_of(talk)["convention"] == convention


@pytest.mark.parametrize("kinds", [["disk", "checkpoint"], ["memory", "checkpoint"]])
def test_a_first_marker_anywhere_else_is_irregular(kinds: list[str]) -> None:
    talk, stream = streaming(start=5)
    stream.snapshot(9, 20, *kinds)
    assert last_of(talk)["convention"] == "irregular"


def test_flags_of_zero_are_read_as_memory() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5)
    found = last_of(talk)
    assert (found["type"], found["flags"], found["convention"]) == ("memory", [], "memory-1")


def test_from_latest_starts_where_the_server_says() -> None:
    talk, stream = streaming(flags=["from-latest"])
    stream.snapshot(70, 75, "memory", "checkpoint")
    stream.mutation(75, "k")
    seen = tables(talk)
    assert seen.snapshots[0]["convention"] == "memory-1"
    assert [(gap["after_seqno"], gap["before_seqno"]) for gap in seen.gaps] == [(70, 75)]


def test_without_the_request_the_first_marker_is_unknown_and_later_ones_are_not() -> None:
    talk, stream = streaming()
    talk.begin()
    stream.snapshot(4, 5, "memory", "checkpoint")
    stream.mutation(5, "k")
    stream.snapshot(6, 9, "memory", "checkpoint")
    assert [snapshot["convention"] for snapshot in tables(talk).snapshots] == [
        "unknown",
        "memory-2",
    ]


def test_where_the_first_marker_may_be_lost_the_next_one_is_unknown_unless_it_starts_at_the_request() -> (
    None
):
    for start, convention in ((0, "memory-1"), (6, "unknown")):
        talk, stream = streaming()
        with talk.lost():
            stream.snapshot(0, 5, "memory", "checkpoint")
        stream.snapshot(start, 9, "memory", "checkpoint")
        assert last_of(talk)["convention"] == convention


@pytest.mark.parametrize(
    ("asked", "convention"), [(0, "disk-later"), (2, "disk-later"), (3, "unknown")]
)
def test_after_a_loss_a_marker_may_be_of_another_stream_only_if_a_request_may_be_lost(
    asked: int, convention: str
) -> None:
    """A header of 24 bytes, twice, leaves no room for the 64 bytes of the shortest request; three
    of them do.
    """
    talk, stream = streaming()
    stream.snapshot(0, 5, "disk", "checkpoint")
    with talk.lost():
        stream.mutation(5, "k")
        for _ in range(asked):
            talk.ask("get_all_vb_seqnos", {"seqnos": []})
    stream.snapshot(6, 9, "disk", "checkpoint")
    stream.mutation(6, "k")
    talk.noop()
    assert last_of(talk)["convention"] == convention


def test_a_first_event_that_may_be_lost_decides_nothing() -> None:
    talk, stream = streaming()
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "k")
    stream.snapshot(6, 9, "memory")
    with talk.lost():
        stream.mutation(6, "k")
    stream.mutation(7, "k")
    assert last_of(talk)["convention"] == "unknown"


def test_what_newer_markers_say_is_in_the_table() -> None:
    talk, stream = streaming()
    seqnos = {
        "max_visible_seqno": 8,
        "high_completed_seqno": 7,
        "purge_seqno": 2,
        "high_prepared_seqno": 9,
    }
    stream.snapshot(0, 9, "disk", "checkpoint", version="v2.2", **seqnos)
    found = last_of(talk)
    assert {key: found[key] for key in seqnos} == seqnos
    assert (found["layout"], found["index"], found["start_seqno"], found["end_seqno"]) == (
        "v2.2",
        1,
        0,
        9,
    )


@pytest.mark.parametrize(("lost", "state"), [(1, "incomplete"), (3, "unknown")])
def test_what_came_last_in_a_snapshot_is_known_if_nothing_was_lost_after_it(
    lost: int, state: str
) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory", "checkpoint")
    for seqno in (1, 2, 3):
        if seqno == lost:
            with talk.lost():
                stream.mutation(seqno, f"k{seqno}")
        else:
            stream.mutation(seqno, f"k{seqno}")
    stream.snapshot(6, 9, "memory", "checkpoint")
    stream.mutation(9, "z")
    assert tables(talk).snapshots[0]["state"] == state


@pytest.mark.parametrize(("state", "expected"), [("active", "complete"), ("replica", "unknown")])
def test_a_snapshot_of_a_replica_may_have_been_continued_in_a_hole(
    state: str, expected: str
) -> None:
    talk = opened()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 9}]}, state=state)
    stream = talk.stream(7)
    stream.snapshot(0, 5, "disk", "checkpoint")
    stream.mutation(1, "a")
    with talk.lost():
        stream.snapshot(3, 5, "memory")
        stream.mutation(3, "b")
    stream.mutation(5, "c")
    assert last_of(talk)["state"] == expected


@pytest.mark.parametrize(("kind", "convention"), [("memory", "memory-1"), ("disk", "disk-1")])
def test_the_first_marker_may_start_inside_the_snapshot_that_the_request_names(
    kind: str, convention: str
) -> None:
    talk, stream = streaming(start=7, snapshot=(5, 9))
    stream.snapshot(7, 20, kind, "checkpoint")
    assert last_of(talk)["convention"] == convention


@pytest.mark.parametrize(("start", "convention"), [(5, "memory-1"), (0, "irregular")])
def test_a_request_of_the_first_specification_names_no_snapshot(
    start: int, convention: str
) -> None:
    talk = opened()
    asked = encode(
        "dcp_stream_req",
        generation="upr",
        vbucket=7,
        opaque=5,
        start_seqno=5,
        end_seqno=ENDLESS,
        vbucket_uuid=1,
    )
    talk.send("client", asked)
    talk.answer("dcp_stream_req", 5, **failover_entries([(1, 0)]))
    Stream(talk, 7, 5).snapshot(start, 20, "memory", "checkpoint")
    assert last_of(talk)["convention"] == convention


def test_a_marker_of_memory_and_disk_at_once_is_neither() -> None:
    talk, stream = streaming()
    for start, end in ((0, 5), (6, 9)):
        stream.snapshot(start, end, "memory", "disk", "checkpoint")
        stream.mutation(end, "k")
    assert [(found["type"], found["convention"]) for found in tables(talk).snapshots] == [
        ("unknown", "irregular")
    ] * 2


@pytest.mark.parametrize(
    ("status", "state"),
    [(None, "unknown"), (0, "unknown"), (4, "complete")],
    ids=["lost", "granted", "refused"],
)
def test_history_may_follow_in_a_hole_if_it_was_asked_for_and_not_refused(
    status: int | None, state: str
) -> None:
    talk = opened()
    talk.send("client", encode("dcp_control", opaque=90, key="change_streams", value="true"))
    if status is None:
        with talk.lost():
            talk.answer("dcp_control", 90)
    else:
        talk.answer("dcp_control", 90, status=status)
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk", "checkpoint")
    with talk.lost():
        stream.snapshot(0, 9, "disk", "checkpoint", "history", "may-duplicate-keys")
    stream.mutation(9, "k")
    assert [one["state"] for one in tables(talk).snapshots] == [state]
