from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.tables.round_trip_series import RoundTrips
from tests.tui.screens import SAMPLES


@pytest.mark.parametrize("sample", ["rollback.pcap", "tour.pcapng"])
def test_the_slowest_answer_of_each_connection_is_kept_noops_apart(sample: str) -> None:
    trips = RoundTrips()
    slowest: dict[tuple[bool, int], int] = {}
    with Reading([str(SAMPLES / sample)]) as reading:
        for batch in reading:
            trips.feed(batch)
            rtt = batch.rtt_ns
            for row in np.flatnonzero(
                batch.decoded.is_response & (True if rtt.valid is None else rtt.valid)
            ).tolist():
                key = int(batch.decoded.opcode[row]) in (0x0A, 0x5C), int(batch.connection[row])
                slowest[key] = max(slowest.get(key, 0), int(rtt.values[row]), 1)
    for is_noop, series in ((False, trips.answers), (True, trips.noops)):
        assert {number: int(row.max()) for number, row in series.rows.items()} == {
            number: most for (noop, number), most in slowest.items() if noop == is_noop
        }
    assert trips.answers.rows
