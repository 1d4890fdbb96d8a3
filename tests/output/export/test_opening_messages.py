"""What a connection agreed on is remembered until it turns out whether it is wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.output.export.number_sets import LineMarks
from dcpinspect.output.export.opening_messages import MAX_OPENING, Openings
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.encode import encode

CONTROL = encode("dcp_control", opaque=2, key="enable_noop", value="true")
GET = encode("get", opaque=3, key="k")


@pytest.mark.parametrize("batch_bytes", [500, 1 << 20])
def test_the_first_ones_of_each_connection(tmp_path: Path, batch_bytes: int) -> None:
    talks = [builders.Conversation(client=("10.0.0.1", 20_000 + number)) for number in range(2)]
    for talk, count in zip(talks, (3, MAX_OPENING + 20), strict=True):
        talk.handshake()
        for _ in range(count):
            talk.stream(True, CONTROL + GET)
    path = tmp_path / "x.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded([segment for talk in talks for segment in talk.segments]))
    )
    openings = Openings()
    with Reading(open_capture(path, batch_bytes=batch_bytes)) as reading:
        for batch in reading:
            rows = openings.fresh(batch)
            openings.add(
                batch.connection[rows],
                1000 + batch.row[rows],
                batch.connection[rows],
                batch.row[rows],
            )
    for connection, expected in ((1, [1, 3, 5]), (2, list(range(7, 7 + 2 * MAX_OPENING, 2)))):
        wanted = LineMarks()
        wanted.add(np.array([connection]))
        packets, found = openings.of_connections(wanted)
        assert (packets.tolist(), found.tolist()) == ([1000 + row for row in expected], expected)
