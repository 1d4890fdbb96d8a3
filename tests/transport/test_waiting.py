from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.transport import chunk
from dcpinspect.transport import flow_records as r
from dcpinspect.transport.flow_records import HOLE, TransportTables
from dcpinspect.transport.waiting import NODE_COST, insert, make_way, unlink

SEGMENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.booleans()), max_size=30)
"""Stream offset, length, and whether the bytes were captured."""


def empty(nodes: int) -> TransportTables:
    tables = TransportTables()
    tables.connections, tables.flows, tables.nodes = (
        r.TcpConnectionRows.zeros(1),
        r.Flows.reset(1),
        r.Nodes.zeros(nodes),
    )
    tables.sides, tables.segment = r.Sides.zeros(2), r.Segment.single()
    tables.fresh, tables.counts = np.zeros(400, np.int64), r.TableCounts.single()
    return tables


def packet(number: int) -> chunk.Packet:
    one = chunk.Packet.single()
    one.number = number
    return one


@given(SEGMENTS)
def test_the_first_copy_of_every_byte_waits_in_order(segments: list[tuple[int, int, bool]]) -> None:
    _check_waiting(segments, are_copies_awaited=False)


@given(SEGMENTS)
def test_bytes_take_the_place_of_what_was_cut_off(segments: list[tuple[int, int, bool]]) -> None:
    _check_waiting(segments, are_copies_awaited=True)


def _check_waiting(segments: list[tuple[int, int, bool]], *, are_copies_awaited: bool) -> None:
    tables = empty(400)
    flow, counts = tables.flows[0], tables.counts
    expected: dict[int, int | None] = {}  # stream offset -> place of the byte in the data
    for number, (start, length, is_there) in enumerate(segments):
        source = 1000 * number if is_there else HOLE
        new = {
            start + i: source + i if is_there else None
            for i in range(length)
            if start + i not in expected
            or (are_copies_awaited and is_there and expected[start + i] is None)
        }
        if are_copies_awaited and is_there:
            make_way(tables, flow, start, start + length)
        assert insert(tables, flow, start, length, source, packet(number)) == len(new)
        expected |= new

    found: dict[int, int | None] = {}
    edges, cost = [], 0
    assert counts.live == flow.nodes
    assert counts.fresh == counts.live or are_copies_awaited
    while flow.head >= 0:
        node = tables.nodes[flow.head]
        at, length, source = node.offset, node.length, node.source
        assert flow.waiting == counts.waiting
        edges += [at, at + length]
        cost += NODE_COST + (length if source != HOLE else 0)
        found |= {at + i: source + i if source >= 0 else None for i in range(length)}
        unlink(tables, flow, flow.head)
    assert found == expected
    assert all(before <= after for before, after in pairwise(edges))
    assert (flow.tail, flow.nodes, flow.waiting) == (-1, 0, 0)
    assert (counts.live, counts.waiting) == (0, 0)
    assert cost == NODE_COST * len(edges) // 2 + sum(
        place is not None for place in expected.values()
    )


def test_nodes_that_were_given_back_are_used_again() -> None:
    tables = empty(4)
    for number in range(20):
        insert(tables, tables.flows[0], 10 * number, 5, 0, packet(number))
        insert(tables, tables.flows[0], 10 * number + 5, 5, 0, packet(number))
        unlink(tables, tables.flows[0], tables.flows[0].head)
        unlink(tables, tables.flows[0], tables.flows[0].head)
    assert (tables.counts.top, tables.counts.live) == (2, 0)
