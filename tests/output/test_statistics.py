from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.output.statistics import Statistics
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.io_series import Intervals
from tests.tui.screens import SAMPLES


def test_only_the_rows_that_are_given_are_counted() -> None:
    counted, some = Statistics(), Statistics(of_all=False)
    with Reading([str(SAMPLES / "rollback.pcap")], track=True) as reading:
        for batch in reading:
            counted.feed(batch)
            some.feed(batch, np.flatnonzero(batch.vbucket.values == 7))
        rows, few = counted.rows(reading), some.rows(reading)
    assert counted.messages == reading.messages
    assert 0 < some.messages < counted.messages
    assert {row["section"] for row in rows} >= {"snapshots", "capture"}
    assert "snapshots" not in {row["section"] for row in few}


@pytest.mark.parametrize("name", ["capture-loss.pcap", "tour.pcapng", "rollback.pcap"])
def test_time_is_divided_at_the_same_places_as_by_io(name: str) -> None:
    counted = Statistics()
    with Reading([str(SAMPLES / name)], track=True) as reading:
        batches = [*reading]
        for batch in batches:
            counted.feed(batch)
        charts, rows = counted.charts(reading, reading.tables), counted.rows(reading)
    intervals = Intervals(charts.span_ns)
    for batch in batches:
        intervals.feed(batch, np.arange(len(batch)))
    sums = np.zeros(charts.used, np.int64)
    for since_ns, messages in intervals.records().rows("relative_ns", "messages"):
        sums[since_ns // charts.span_ns] += messages
    drawn = np.sum([command.messages[: charts.used] for command in charts.commands], axis=0)
    assert drawn.tolist() == sums.tolist()
    throughput = [row for row in rows if row["section"] == "throughput"]
    assert [row["count"] for row in throughput] == sums.tolist()
    assert throughput[0]["time"] == charts.ends[0]
