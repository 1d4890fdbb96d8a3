from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.transport import chunk
from dcpinspect.transport import flow_records as r
from dcpinspect.transport.flow_records import END, HOLE, RECENT_HOLES, TransportTables
from dcpinspect.transport.flows import (
    close_side,
    close_sides,
    drop_stray,
    enter_hole,
    flow_to_write,
    give_up_hole,
    late_bytes,
)
from dcpinspect.transport.waiting import insert, new_node


class Flow:
    """Flow 0 and what is entered for it; 10 bytes of it have been entered before."""

    def __init__(self) -> None:
        self.tables = tables = TransportTables()
        tables.connections, tables.flows, tables.nodes = (
            r.TcpConnectionRows.zeros(1),
            r.Flows.zeros(6),
            r.Nodes.zeros(20),
        )
        tables.recent, tables.entries, tables.fresh = (
            r.FlowHoles.zeros(4 * RECENT_HOLES),
            chunk.StreamEntries.zeros(20),
            np.zeros(20, np.int64),
        )
        tables.address_pairs, tables.counts = r.EndpointPairs.zeros(1), r.TableCounts.single()
        tables.lates, tables.routes = r.LateRows.zeros(1), r.Routes.zeros(1)
        tables.shuts = r.ShutSpells.zeros(1)
        tables.segment, tables.stray, tables.counts.connections = (
            r.Segment.single(),
            r.Segment.single(),
            1,
        )
        tables.sides = r.Sides.reset(2)
        tables.sides.packets[:] = 1
        self.flow, self.packet = tables.flows[flow_to_write(tables, 0)], tables.segment.packet
        tables.sides[0].has_base, self.flow.next, self.packet.number = 1, 10, 9

    def wait(self, offset: int, length: int, source: int) -> None:
        packet = chunk.Packet.single()
        packet.number, packet.frame = 3, 4
        new = insert(self.tables, self.flow, offset, length, source, packet)
        self.flow.unique += new if source >= 0 else 0

    @property
    def entered(self) -> list[tuple[int, int, int]]:
        """Stream offset, length, source."""
        return [
            (entry.offset, entry.length, entry.source)
            for entry in self.tables.entries[: self.tables.counts.entries]
        ]


def test_a_gap_that_is_given_up_lets_go_of_all_that_follows_it() -> None:
    one = Flow()
    one.wait(15, 5, 100)
    one.wait(20, 5, HOLE)
    one.wait(25, 5, 200)
    one.wait(31, 5, 300)
    give_up_hole(one.tables, one.flow, one.packet)
    assert one.entered == [(10, 5, HOLE), (15, 5, 100), (20, 5, HOLE), (25, 5, 200)]
    assert (one.flow.next, one.flow.holes, one.flow.missing, one.flow.cut_off) == (30, 2, 10, 5)
    assert one.tables.entries.packet.number[:4].tolist() == [9, 3, 3, 3]
    assert one.tables.entries.packet.frame[:4].tolist() == [0, 4, 0, 4]


def test_late_bytes_are_those_of_recent_holes_and_from_before_the_capture() -> None:
    one = Flow()
    assert late_bytes(one.tables, one.flow, -5, 10) == 5
    one.tables.sides[0].started = 1
    assert late_bytes(one.tables, one.flow, -5, 10) == 0
    for _ in range(RECENT_HOLES + 1):
        enter_hole(one.tables, one.flow, 4, one.packet)
        one.flow.next += 6
    assert one.tables.counts.recent == one.flow.recent == 1
    assert late_bytes(one.tables, one.flow, 20, 30) == 4
    assert late_bytes(one.tables, one.flow, 10, 20) == 10, "of a forgotten hole, for all we know"
    assert late_bytes(one.tables, one.flow, 0, 200) == 20 + 4 * RECENT_HOLES


@pytest.mark.parametrize(
    ("column", "at", "hole"),
    [
        ("acked_to", 10, 0),
        ("acked_to", 11, 0),  # of a FIN
        ("acked_to", 30, 20),
        ("fin_at", 11, 1),
    ],
)
def test_at_the_end_what_was_acknowledged_or_closed_and_never_seen_is_a_hole(
    column: str, at: int, hole: int
) -> None:
    one = Flow()
    setattr(one.flow, column, at)
    one.tables.sides[0].has_fin = column == "fin_at"
    close_side(one.tables, 0, one.packet)
    assert one.entered == ([(10, hole, HOLE)] if hole else []) + [(10 + hole, 0, END)]
    close_side(one.tables, 0, one.packet)
    assert len(one.entered) == 1 + (hole > 0)


def test_bytes_beyond_the_fin_are_late() -> None:
    one = Flow()
    one.flow.fin_at, one.tables.sides[0].has_fin = 20, 1
    one.wait(12, 8, 100)
    one.wait(25, 5, 200)
    close_side(one.tables, 0, one.packet)
    assert one.entered == [(10, 2, HOLE), (12, 8, 100), (20, 0, END)]
    assert (one.flow.unique, one.flow.late, one.flow.waiting) == (8, 5, 0)


def test_a_stray_segment_counts_as_late() -> None:
    one = Flow()
    one.flow.stray = new_node(one.tables, 9_000, 30, 100, one.packet)
    drop_stray(one.tables, one.flow)
    assert (one.flow.stray, one.flow.late, one.flow.payload) == (-1, 30, 30)
    assert one.tables.counts.live == 0


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_flows_are_closed_as_far_as_there_is_room(form: str) -> None:
    one = Flow()
    one.tables.sides[1].has_base, one.tables.flows[flow_to_write(one.tables, 1)].next = 1, 33
    one.tables.entries = one.tables.entries[:8]
    stopped = getattr(close_sides, form)(0, one.tables)
    assert (stopped, one.entered) == (1, [(10, 0, END)])
    one.tables.counts.entries = 0
    assert getattr(close_sides, form)(stopped, one.tables) == 2
    assert one.entered == [(33, 0, END)]
