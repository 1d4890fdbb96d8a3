"""Events of one vbucket: all of them, seqno by seqno, or together where there are too many."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.items import MOST, VbucketItems
from dcpinspect.streams.state import unbiased
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets


def gathered(
    talk: Told,
    *,
    most: int = MOST,
    sizes: tuple[int, ...] = (),
    connections: tuple[range, ...] = (),
) -> VbucketItems:
    engine, found = Engine(["told.pcap"], ports=(PORT,)), VbucketItems(7, connections, limit=most)
    for batch in [*(engine.feed(part) for part in batches(packets(talk), sizes)), engine.finish()]:
        if batch is not None:
            found.feed(batch)
    return found


def conversation(seqnos: int) -> Told:
    talk = opened()
    first, other = talk.stream(7), talk.stream(8)
    first.snapshot(0, seqnos, "memory")
    other.snapshot(0, 5, "memory")
    for seqno in range(1, seqnos + 1, 2):
        first.mutation(seqno, "a")
    other.mutation(5, "b")
    first.end("closed")
    second = talk.stream(7, start=seqnos)
    second.snapshot(seqnos, seqnos + 2, "memory")
    second.deletion(seqnos + 2, "a")
    return talk


@pytest.mark.parametrize("sizes", [(), (1, 2, 3)])
def test_every_event_of_the_vbucket_is_there_with_the_requests_before_it(
    sizes: tuple[int, ...],
) -> None:
    table = gathered(conversation(9), sizes=sizes).table
    assert (unbiased(table.first).tolist(), unbiased(table.last).tolist()) == (
        [1, 3, 5, 7, 9, 11],
    ) * 2
    assert table.count.tolist() == [1] * 6
    assert table.requests.tolist() == [1] * 5 + [2]
    assert set(table.connection.tolist()) == {1}
    assert set(table.sid.tolist()) == {-1}


def test_connections_that_nobody_asked_for_are_left_out() -> None:
    assert len(gathered(conversation(9), connections=(range(2, 5),)).table) == 0
    assert len(gathered(conversation(9), connections=(range(1, 2),)).table) == 6


def test_too_many_events_are_told_together_and_never_those_of_two_streams() -> None:
    whole, few = gathered(conversation(99)), gathered(conversation(99), most=16)
    table = few.table
    assert len(table) <= 16
    for requests in (1, 2):
        own, all_of_it = (one[one.requests == requests] for one in (table, whole.table))
        assert own.count.sum() == len(all_of_it)
        assert (own.first.min(), own.last.max()) == (all_of_it.first.min(), all_of_it.last.max())
        for item in own:
            inside = (all_of_it.first >= item.first) & (all_of_it.first <= item.last)
            assert np.count_nonzero(inside) == item.count
    assert few.last_rows == whole.last_rows


@pytest.mark.parametrize("sizes", [(), (1, 2, 3)])
def test_a_refusal_is_about_the_event_before_it(sizes: tuple[int, ...]) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(1, "a")
    stream.mutation(2, "b")
    talk.answer("dcp_mutation", stream.opaque, by="client", status=Status.ERANGE)
    stream.mutation(3, "c")
    assert gathered(talk, sizes=sizes).table.refused.tolist() == [0, 1, 0]
