"""A consumer over all its connections: which may be its own, and what it had received."""

from __future__ import annotations

import pytest

from dcpinspect.streams.consumers import Consumers
from dcpinspect.streams.records import LEAST
from tests.streams.told import Seen, Told, opened, packets


def consumers(*talks: Told) -> Consumers:
    seen = Seen(packets(*talks))
    return seen.tracker.tables(seen.links).seen.consumers


def test_connections_without_a_beginning_may_be_anybodys_of_their_host() -> None:
    late = opened("elastic:1", port=50_003)
    late.begin()
    late.stream(9)
    found = consumers(
        opened("kafka:1", port=50_001),
        opened("kafka:2", port=50_002),
        late,
        opened("elastic:2", port=50_004),
    )
    assert found.may_be(1) == {1, 2, 3}
    assert found.may_be(3) == {1, 2, 3, 4}


@pytest.mark.parametrize(("hides", "received"), [(False, 5), (True, None)])
def test_what_it_had_received_is_known_unless_a_hole_may_have_brought_more(
    hides: bool, received: int | None
) -> None:
    first, second = opened(port=50_001), opened(port=50_002)
    stream = first.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "k")
    if hides:
        with first.lost():
            stream.snapshot(5, 9, "memory")
            stream.mutation(9, "k")
        first.noop()
    second.wait(1)
    second.stream(7, start=9)
    found = consumers(first, second)
    before = found.received_before(1)
    assert (before is None) == (received is None)
    assert before is None or before - LEAST == received
    assert found.received_before(0) is None
