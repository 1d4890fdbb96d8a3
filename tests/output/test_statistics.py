from __future__ import annotations

import numpy as np

from dcpinspect.output.statistics import Statistics
from dcpinspect.reading.reading import Reading
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
