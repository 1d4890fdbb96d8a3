"""What could not be read stands before the message that comes after it, in whatever batches."""

from __future__ import annotations

import pytest

from dcpinspect.reading.engine import Engine
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets

Loss = tuple[int, int, int, int, int]


def losses(talk: Told, sizes: list[int]) -> tuple[list[Loss], list[int]]:
    """(row after it, connection, direction, start, end) of each loss, and the rows of the
    reading.
    """
    engine = Engine(["told.pcap"], ports=(PORT,))
    found, rows = [], []
    for batch in [*(engine.feed(part) for part in batches(packets(talk), sizes)), engine.finish()]:
        if batch is not None:
            lost = batch.losses
            columns = (
                batch.row[lost.before],
                lost.connection,
                lost.direction,
                lost.start,
                lost.end,
            )
            found += list(zip(*(column.tolist() for column in columns), strict=True))
            rows += batch.row.tolist()
    return found, rows


def lossy() -> Told:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 90, "memory")
    for seqno in range(1, 41):
        if seqno in (5, 6, 20):
            with talk.lost():
                stream.mutation(seqno, "k")
        else:
            stream.mutation(seqno, "k")
    return talk


@pytest.mark.parametrize("sizes", [[], [1] * 200, [7] * 40])
def test_losses_stand_before_the_next_message_of_their_direction(sizes: list[int]) -> None:
    found, rows = losses(lossy(), sizes)
    assert rows == list(range(1, 45))
    assert [
        (row, connection, direction, end - start)
        for row, connection, direction, start, end in found
    ] == [
        (12, 1, 1, 114),
        (25, 1, 1, 57),
    ]


def test_a_side_that_begins_in_the_middle_although_the_other_was_seen_from_its_syn_on_has_lost_something() -> (
    None
):
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    syn, *rest = packets(talk)
    engine = Engine(["told.pcap"], ports=(PORT,))
    last = [one for one in rest if one.flow[2] == 1 and len(one.data) > 60][-1]
    found = [*(engine.feed(part) for part in batches([syn, last])), engine.finish()]
    (batch,) = [one for one in found if one is not None]
    assert (batch.direction.tolist(), batch.losses.before.tolist()) == ([1], [0])


def test_without_losses_there_are_none() -> None:
    talk = opened()
    talk.stream(7)
    assert losses(talk, [])[0] == []
