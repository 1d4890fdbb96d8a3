from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.transport import chunk
from dcpinspect.transport import flow_records as r
from dcpinspect.transport.flow_records import END, HELD, HOLE, TransportTables
from dcpinspect.transport.next_bytes import GatherTables, enter, gather


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_bytes_of_entries_are_copied_to_their_places(form: str) -> None:
    tables, packet, flow = TransportTables(), chunk.Packet.single(), r.Flow.single()
    tables.entries, tables.counts, tables.segment = (
        chunk.StreamEntries.zeros(10),
        r.TableCounts.single(),
        r.Segment.single(),
    )
    tables.segment.packet.number = 15
    packet.number, packet.frame, packet.file, packet.time, flow.number = 11, 12, 13, 14, 7
    for offset, length, source in ((100, 3, 5), (103, 4, HOLE), (107, 2, HELD - 1), (109, 0, END)):
        flow.next = offset
        enter(tables, flow, length, source, packet)
    assert tables.counts.entries == 4
    entry = tables.entries[2]
    assert (entry.side, entry.offset, entry.length, entry.source, entry.place, entry.release) == (
        7,
        107,
        2,
        HELD - 1,
        -1,
        15,
    )
    assert (entry.packet.number, entry.packet.frame, entry.packet.file, entry.packet.time) == (
        11,
        12,
        13,
        14,
    )
    target = np.full(9, ord("."), np.uint8)
    data, held = np.frombuffer(b"01234567", np.uint8), np.frombuffer(b"abcd", np.uint8)
    getattr(gather, form)(data, held, GatherTables(tables.entries[:4]), target, 100)
    assert target.tobytes() == b"567....bc"
