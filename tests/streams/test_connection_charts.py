"""What is charted by connection: how full a window was at most, and the slowest answers."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.reading.engine import Engine
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.connection_charts import ConnectionCharts
from tests.damage import PORT, batches
from tests.streams.told import opened, packets, tables
from tests.tui.screens import SAMPLES


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
    engine, charts = Engine(["told.pcap"], ports=(PORT,)), ConnectionCharts()
    for batch in [*(engine.feed(part) for part in batches(packets(talk), sizes)), engine.finish()]:
        if batch is not None:
            charts.feed(batch)
    assert charts.most_outstanding == {1: most}


@pytest.mark.parametrize("sample", ["rollback.pcap", "tour.pcapng"])
def test_the_slowest_answer_of_each_connection_is_kept_noops_apart(sample: str) -> None:
    charts = ConnectionCharts()
    slowest: dict[tuple[bool, int], int] = {}
    with Reading([str(SAMPLES / sample)]) as reading:
        for batch in reading:
            charts.feed(batch)
            rtt = batch.rtt_ns
            for row in np.flatnonzero(
                batch.decoded.is_response & (True if rtt.valid is None else rtt.valid)
            ).tolist():
                key = int(batch.decoded.opcode[row]) in (0x0A, 0x5C), int(batch.connection[row])
                slowest[key] = max(slowest.get(key, 0), int(rtt.values[row]), 1)
    for is_noop, series in ((False, charts.answers), (True, charts.noops)):
        assert {number: int(row.max()) for number, row in series.rows.items()} == {
            number: most for (noop, number), most in slowest.items() if noop == is_noop
        }
    assert charts.answers.rows
