"""What a capture shows and lacks of a connection is said in one place, for any time and either
side.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dcpinspect.streams.visibility import EVER, Visibility
from tests.streams.told import Seen, Told, opened, packets

CLIENT, SERVER = 0, 1


def seen(talk: Told, *, mid_stream: bool = False) -> tuple[Visibility, list[int]]:
    """(what is seen of it, times of its events)."""
    captured = packets(talk)
    found = Seen(captured[6:] if mid_stream else captured)
    known = found.tracker.state.known_tables
    return Visibility(
        known, {link.number: link for link in found.links}
    ), known.streams.latest.time.tolist()


def events(*lost: int) -> Told:
    """A stream of nine events, of which some were not captured."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for seqno in range(1, 10):
        if seqno in lost:
            with talk.lost():
                stream.mutation(seqno, "k")
        else:
            stream.mutation(seqno, "k")
    talk.noop()
    return talk


def test_a_whole_capture_lacks_nothing() -> None:
    sight, _ = seen(events())
    assert [sight.between(1, way) for way in (CLIENT, SERVER)] == ["complete", "complete"]
    assert sight.is_complete(1)
    assert sight.is_complete_so_far(1)
    assert not sight.has_lost(1, SERVER)
    assert sight.known_until_ns(1, SERVER) == EVER
    assert not sight.incomplete_consumers[1]


def test_a_loss_is_of_its_direction_and_of_its_time() -> None:
    sight, (latest,) = seen(events(5))
    assert [sight.between(1, way) for way in (CLIENT, SERVER)] == ["complete", "lost"]
    begun = sight.known_until_ns(1, SERVER)
    assert begun < latest
    assert sight.between(1, SERVER, 0, begun) == "complete"
    assert sight.between(1, SERVER, begun, latest) == "lost"
    assert sight.between(1, SERVER, latest) == "complete"
    assert sight.has_lost(1, SERVER)
    assert not sight.has_lost(1, SERVER, 1)
    assert not sight.is_complete_so_far(1)


@pytest.mark.parametrize("time_ns", [0, 1])
def test_times_that_are_all_equal_hide_no_loss(time_ns: int) -> None:
    for captured in (packets(events(5)), packets(events())[6:]):
        found = Seen([replace(packet, time_ns=time_ns) for packet in captured])
        sight = Visibility(
            found.tracker.state.known_tables, {link.number: link for link in found.links}
        )
        assert not sight.is_complete(1)


def test_of_several_losses_each_counts_for_its_own_time() -> None:
    sight, (latest,) = seen(events(3, 7))
    first = sight.known_until_ns(1, SERVER)
    assert sight.has_lost(1, SERVER, 1)
    assert not sight.has_lost(1, SERVER, 2)
    assert sight.between(1, SERVER, first, first + 1) == "lost"
    assert sight.between(1, SERVER, latest) == "complete"


def test_what_was_said_before_the_capture_is_unknown_and_not_lost() -> None:
    sight, (latest, *_) = seen(events(), mid_stream=True)
    assert [sight.between(1, way) for way in (CLIENT, SERVER)] == ["unknown", "unknown"]
    assert sight.between(1, SERVER, latest) == "complete"
    assert not sight.has_lost(1, SERVER)
    assert sight.incomplete_consumers[1]


@pytest.mark.parametrize(
    ("lost", "may_have", "is_incomplete"), [(64, True, True), (60, False, True), (20, False, False)]
)
def test_only_a_hole_of_the_size_of_a_request_may_hide_one(
    lost: int, may_have: bool, is_incomplete: bool
) -> None:
    talk = opened()
    talk.stream(7)
    with talk.lost():
        talk.send("client", bytes(lost))
    talk.noop()
    talk.noop()
    sight, _ = seen(talk)
    assert bool(sight.may_have_asked[1]) is may_have
    assert bool(sight.incomplete_consumers[1]) is is_incomplete


@pytest.mark.parametrize(("version", "may_move"), [("upr", True), ("v1", False)])
def test_an_event_that_was_lost_may_go_on_with_a_snapshot_without_a_range(
    version: str, may_move: bool
) -> None:
    talk = opened()
    stream = talk.stream(7)
    if version == "upr":
        stream.send("dcp_snapshot_marker", generation="upr")
    else:
        stream.snapshot(0, 2, "memory")
    stream.mutation(1, "k")
    stream.mutation(2, "k")
    with talk.lost():
        stream.deletion(3, "k")
    talk.noop()
    found = Seen(packets(talk))
    known = found.tracker.state.known_tables
    sight = Visibility(known, {link.number: link for link in found.links})
    (stream_row,) = known.streams
    assert sight.may_move(1, stream_row, known.snapshots) is may_move
