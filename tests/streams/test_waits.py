"""Since when streams wait for a seqno that their server is known to have."""

from __future__ import annotations

import pytest

from tests.streams.told import Told, opened, tables


def at_five() -> Told:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "k")
    return talk


@pytest.mark.parametrize(("every", "grows"), [(0.25, 0), (1, 0), (4, 0), (1, 1), (4, 1)])
def test_a_wait_begins_with_the_first_answer_that_told_of_more_however_many_follow(
    every: float, grows: int
) -> None:
    talk = at_five()
    talk.high_seqnos({7: 5})
    for number in range(int(20 / every)):
        talk.high_seqnos({7: 9 + grows * number})
        talk.wait(every)
    talk.noop()
    wait = tables(talk).tables.waits.get(0)
    assert wait is not None
    newest = 9 + grows * (int(20 / every) - 1)
    assert (wait.connection, wait.at.row, wait.newest, round(wait.idle_ns / 1e9), wait.is_long) == (
        1,
        12,
        newest,
        20,
        True,
    )


def test_of_answers_that_are_ever_higher_so_many_are_kept_that_the_wait_is_told() -> None:
    talk = at_five()
    for number in range(500):
        talk.high_seqnos({7: 6 + number})
        talk.wait(0.01)
    talk.noop()
    wait = tables(talk).tables.waits.get(0)
    assert wait is not None
    assert wait.is_long


@pytest.mark.parametrize(("seconds", "verdict"), [(4, "silent"), (6, "behind")])
def test_a_stream_without_a_marker_waits_for_its_backfill_first(seconds: int, verdict: str) -> None:
    """As long as ``server-owes-seqno`` says nothing of it."""
    talk = opened()
    talk.stream(7)
    talk.high_seqnos({7: 5})
    talk.wait(seconds)
    talk.noop()
    assert [one["verdict"] for one in tables(talk).streams] == [verdict]


def test_who_is_told_by_nobody_or_of_nothing_more_does_not_wait() -> None:
    talk = at_five()
    assert tables(talk).tables.waits.get(0) is None
    talk.high_seqnos({7: 5, 8: 90})
    talk.wait(9)
    talk.noop()
    seen = tables(talk)
    assert (seen.tables.waits.get(0), seen.tables.waits.are_long.tolist()) == (None, [False])
