from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from dcpinspect.transport import columns as c
from dcpinspect.transport.flows import close_flow, close_flows, drop_stray, enter_hole, give_up_gap, late_bytes
from dcpinspect.transport.waiting import insert, new_node

Table = npt.NDArray[np.int64]


class Flow:
    """Flow 0 and what is entered for it; 10 bytes of it have been entered before."""

    def __init__(self) -> None:
        self.flows, self.nodes = np.zeros((2, c.FLOW), np.int64), np.zeros((20, c.NODE), np.int64)
        self.flows[:, [c.BASE, c.FIN_AT, c.ACKED_TO, c.HEAD, c.TAIL, c.STRAY]] = -1
        self.flows[0, [c.BASE, c.NEXT]] = 500, 10
        self.recent, self.entries = np.zeros((4, 2 * c.RECENT_HOLES), np.int64), np.zeros((20, c.ENTRY), np.int64)
        self.fresh, self.counters = np.zeros(20, np.int64), np.zeros(c.COUNTERS, np.int64)
        self.counters[[c.FREE, c.CONNECTIONS]] = -1, 1

    @property
    def tables(self) -> tuple[Table, Table, Table, Table, Table]:
        return self.flows, self.recent, self.nodes, self.entries, self.counters

    def wait(self, offset: int, length: int, source: int) -> None:
        new = insert(0, offset, length, source, 3, 4, 0, 0, 0, self.flows, self.nodes, self.fresh, self.counters)
        self.flows[0, c.UNIQUE] += new if source >= 0 else 0

    @property
    def entered(self) -> list[tuple[int, int, int]]:
        """Stream offset, length, source."""
        rows = self.entries[: self.counters[c.ENTRIES], [c.E_OFFSET, c.E_LENGTH, c.E_SOURCE]].tolist()
        return [(offset, length, source) for offset, length, source in rows]


def test_a_gap_that_is_given_up_lets_go_of_all_that_follows_it() -> None:
    flow = Flow()
    flow.wait(15, 5, 100)
    flow.wait(20, 5, c.HOLE)
    flow.wait(25, 5, 200)
    flow.wait(31, 5, 300)
    give_up_gap(0, 9, 0, 0, *flow.tables)
    assert flow.entered == [(10, 5, c.HOLE), (15, 5, 100), (20, 5, c.HOLE), (25, 5, 200)]
    assert flow.flows[0, [c.NEXT, c.HOLES, c.MISSING, c.CUT_OFF]].tolist() == [30, 2, 10, 5]
    assert flow.entries[:4, c.E_PACKET].tolist() == [9, 3, 3, 3]


def test_late_bytes_are_those_of_recent_holes_and_from_before_the_capture() -> None:
    flow = Flow()
    assert late_bytes(0, -5, 10, flow.flows, flow.recent) == 5
    for _ in range(c.RECENT_HOLES + 1):
        enter_hole(0, 4, 9, 0, 0, flow.flows, flow.recent, flow.entries, flow.counters)
        flow.flows[0, c.NEXT] += 6
    assert flow.counters[c.RECENTS] == flow.flows[0, c.RECENT] == 1
    assert late_bytes(0, 20, 30, flow.flows, flow.recent) == 4
    assert late_bytes(0, 10, 20, flow.flows, flow.recent) == 0, "forgotten"
    assert late_bytes(0, 0, 200, flow.flows, flow.recent) == 4 * c.RECENT_HOLES


@pytest.mark.parametrize(
    ("column", "at", "hole"),
    [
        (c.ACKED_TO, 10, 0),
        (c.ACKED_TO, 11, 0),  # of a FIN
        (c.ACKED_TO, 30, 20),
        (c.FIN_AT, 11, 1),
    ],
)
def test_at_the_end_what_was_acknowledged_or_closed_and_never_seen_is_a_hole(column: int, at: int, hole: int) -> None:
    flow = Flow()
    flow.flows[0, column] = at
    close_flow(0, 9, 0, 0, 0, *flow.tables)
    assert flow.entered == ([(10, hole, c.HOLE)] if hole else []) + [(10 + hole, 0, c.END)]
    close_flow(0, 9, 0, 0, 0, *flow.tables)
    assert len(flow.entered) == 1 + (hole > 0)


def test_bytes_beyond_the_fin_are_late() -> None:
    flow = Flow()
    flow.flows[0, c.FIN_AT] = 20
    flow.wait(12, 8, 100)
    flow.wait(25, 5, 200)
    close_flow(0, 9, 0, 0, 0, *flow.tables)
    assert flow.entered == [(10, 2, c.HOLE), (12, 8, 100), (20, 0, c.END)]
    assert flow.flows[0, [c.UNIQUE, c.LATE, c.WAITING]].tolist() == [8, 5, 0]


def test_a_stray_segment_counts_as_late() -> None:
    flow = Flow()
    flow.flows[0, c.STRAY] = new_node(9_000, 30, 100, 3, 4, 0, 0, flow.nodes, flow.fresh, flow.counters)
    drop_stray(0, flow.flows, flow.nodes, flow.counters)
    assert flow.flows[0, [c.STRAY, c.LATE, c.PAYLOAD_BYTES]].tolist() == [-1, 30, 30]
    assert flow.counters[c.LIVE] == 0


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_flows_are_closed_as_far_as_there_is_room(form: str) -> None:
    flow = Flow()
    flow.flows[1, [c.BASE, c.NEXT]] = 700, 33
    flow.entries = flow.entries[:8]
    stopped = getattr(close_flows, form)(0, 9, 0, 0, *flow.tables)
    assert (stopped, flow.entered) == (1, [(10, 0, c.END)])
    flow.counters[c.ENTRIES] = 0
    assert getattr(close_flows, form)(stopped, 9, 0, 0, *flow.tables) == 2
    assert flow.entered == [(33, 0, c.END)]
