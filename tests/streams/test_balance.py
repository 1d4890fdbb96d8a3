"""How full a window was at most."""

from __future__ import annotations

import pytest

from dcpinspect.reading.engine import Engine
from dcpinspect.streams.balance import Balance
from tests.damage import PORT, batches
from tests.streams.told import opened, packets, tables


@pytest.mark.parametrize("sizes", [(), (1,)])
def test_the_greatest_sum_of_what_was_counted_and_not_acknowledged(sizes: tuple[int, ...]) -> None:
    talk = opened(connection_buffer_size="1000")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    stream.mutation(2, "b")
    most = int(tables(talk).connections[0]["outstanding_bytes"])
    talk.acknowledge()
    stream.mutation(3, "c")
    after = int(tables(talk).connections[0]["outstanding_bytes"])
    assert 0 < after < most
    engine, balance = Engine(["told.pcap"], ports=(PORT,)), Balance()
    for batch in [*(engine.feed(part) for part in batches(packets(talk), sizes)), engine.finish()]:
        if batch is not None:
            balance.feed(batch)
    assert balance.greatest == {1: most}
