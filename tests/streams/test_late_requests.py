"""Requests that are read after their answers, held back behind a hole; or only recorded after them,
by two clocks.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.damage import Packet
from tests.streams.told import Seen, Told, opened, packets, tables


def late(talk: Told) -> list[tuple[object, ...]]:
    """What the streams are where the client's side can be read only at the end of the capture."""
    return [
        (one["requested_start"], one["answer"], one["items"], one["verdict"])
        for one in tables(talk).streams
    ]


def test_a_request_that_is_read_late_is_that_of_the_stream_that_has_begun() -> None:
    talk = opened()
    talk.begin()
    stream = talk.stream(7, start=4)
    stream.snapshot(4, 6, "memory")
    for seqno in (5, 6):
        stream.mutation(seqno, "k")
    for _ in range(4):
        talk.noop()
    assert late(talk) == [(4, "accepted", 2, "caught-up")]


def test_a_refusal_is_of_no_stream_that_has_begun() -> None:
    talk = opened()
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 6, "memory")
    talk.begin()
    for seqno in (1, 2, 3, 4):
        stream.mutation(seqno, "k")
    talk.stream(7, opaque=9, status=2)
    stream.mutation(5, "k")
    talk.stream(8)
    assert late(talk)[:2] == [(None, "unknown", 5, "unknown-capture"), (0, "refused", 0, "refused")]


def test_requests_that_are_read_late_are_those_of_the_streams_that_followed_them() -> None:
    talk = opened()
    with talk.lost():
        talk.acknowledge()  # what the client says after it waits for what may still fill the hole
    talk.stream(7, start=3, opaque=9).end("too-slow")
    talk.stream(7, start=4, opaque=9).close()
    stream = talk.stream(7, start=5, opaque=9)
    stream.snapshot(5, 8, "memory")
    for seqno in (6, 7, 8):
        stream.mutation(seqno, "k")
    for _ in range(4):
        talk.noop()
    found = sorted(late(talk), key=lambda one: str(one[0]))
    assert [(start, answer, items) for start, answer, items, _ in found] == [
        (3, "accepted", 0),
        (4, "accepted", 0),
        (5, "accepted", 3),
    ]
    assert found[2][3] == "caught-up"


@pytest.mark.parametrize("opaque", [9, 10])
def test_a_stream_goes_on_when_the_request_of_the_one_before_it_is_read_late(opaque: int) -> None:
    talk = opened()
    talk.stream(7, start=3, opaque=8).end("too-slow")
    with talk.lost():
        talk.acknowledge()  # what the client says after it waits for what may still fill the hole
    talk.stream(7, start=4, opaque=9).close()
    stream = talk.stream(7, start=5, opaque=opaque)
    stream.snapshot(5, 9, "memory")
    talk.wait(1)
    talk.noop()
    for seqno in (6, 7, 8, 9):
        stream.mutation(seqno, "k")
        talk.noop()
    assert late(talk)[1:] == [
        (4, "accepted", 0, "unknown-capture"),
        (5, "accepted", 4, "caught-up"),
    ]


def test_the_answer_after_two_requests_that_were_read_late_is_to_the_second() -> None:
    talk = opened()
    with talk.lost():
        talk.acknowledge()  # what the client says after it waits for what may still fill the hole
    asked = talk.stream_request(7, 9, start=2)
    with talk.lost():
        talk.stream_answer(asked)
    stream = talk.stream(7, start=5, opaque=9)
    stream.snapshot(5, 6, "memory")
    stream.mutation(6, "k")
    for _ in range(4):
        talk.noop()
    assert sorted(late(talk), key=str) == [
        (2, "unknown", 0, "unknown-capture"),
        (5, "accepted", 1, "caught-up"),
    ]


def recorded_late(captured: list[Packet], place: int, by: int) -> list[Packet]:
    """A packet comes so many places later, as where the two directions have two clocks."""
    late = replace(captured[place], time_ns=captured[place + by].time_ns + 1)
    return [
        *captured[:place],
        *captured[place + 1 : place + by + 1],
        late,
        *captured[place + by + 1 :],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("by", [1, 3, 5, 7])
def test_streams_are_the_same_where_a_packet_was_recorded_after_what_answers_it(
    direction: int, by: int
) -> None:
    talk = opened(set_noop_interval="20")
    for start in (0, 2):
        stream = talk.stream(7, start=start, opaque=9)
        stream.snapshot(start, start + 2, "memory")
        for seqno in (start + 1, start + 2):
            stream.mutation(seqno, f"k{seqno}")
        stream.end("too-slow")
        talk.noop()
    told = packets(talk)

    def seen(captured: list[Packet]) -> tuple[object, ...]:
        found = Seen(captured)
        assert Seen(captured, [1] * len(captured)).everything() == found.everything()
        return [
            (one["requested_start"], one["answer"], one["items"], one["snapshots"])
            for one in found.streams
        ], found.anomalies

    expected = seen(told)
    assert expected == ([(0, "accepted", 2, 1), (2, "accepted", 2, 1)], [])
    for place, packet in enumerate(told[:-by]):
        passed = told[place + 1 : place + by + 1]
        if (
            packet.size
            and packet.flow[2] == direction
            and not any(one.size and one.flow == packet.flow for one in passed)
        ):
            assert seen(recorded_late(told, place, by)) == expected, place


@pytest.mark.parametrize("events_before", [0, 3])
@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "de-duplicated"])
@pytest.mark.parametrize("start", [0, 50])
def test_a_gap_behind_the_start_is_told_where_the_request_is_read_late(
    start: int, is_lost: bool, events_before: int
) -> None:
    talk = opened()
    with talk.lost():
        talk.acknowledge()  # what the client says after it waits for what may still fill the hole
    stream = talk.stream(7, start=start)
    stream.snapshot(start, start + 10, "memory")
    if is_lost and events_before:
        with talk.lost():
            stream.mutation(start + 1, "a")
    for seqno in range(2, 2 + events_before):
        stream.mutation(start + seqno, f"k{seqno}")
    talk.wait(1)
    talk.noop()
    if is_lost and not events_before:
        with talk.lost():
            stream.mutation(start + 1, "a")
    for seqno in range(2 + events_before, 11):
        stream.mutation(start + seqno, f"k{seqno}")
    captured = packets(talk)
    seen = Seen(captured)
    (gap,) = seen.gaps
    assert (gap["after_seqno"], gap["before_seqno"], gap["cause"]) == (
        start,
        start + 2,
        "capture-loss" if is_lost else "deduplicated",
    )
    assert seen.streams[0]["gaps"] == 1
    assert Seen(captured, [1] * len(captured)).everything() == seen.everything()


@pytest.mark.parametrize("events_before", [0, 1])
def test_nothing_is_missing_before_the_first_seqno_of_a_stream_that_was_asked_for_late_and_came_whole(
    events_before: int,
) -> None:
    talk = opened()
    with talk.lost():
        talk.acknowledge()
    stream = talk.stream(7, start=4)
    stream.snapshot(4, 6, "memory")
    for seqno in range(5, 5 + events_before):
        stream.mutation(seqno, f"k{seqno}")
    talk.wait(1)
    talk.noop()
    for seqno in range(5 + events_before, 7):
        stream.mutation(seqno, f"k{seqno}")
    assert tables(talk).gaps == []
