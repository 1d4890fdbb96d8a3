from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.transport import flow_records as r
from dcpinspect.transport.flow_records import HOLE, TransportTables
from dcpinspect.transport.waiting import NODE_COST, insert, make_way, unlink

SEGMENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.booleans()), max_size=30)
"""Stream offset, length, and whether the bytes were captured."""


def empty(nodes: int) -> TransportTables:
    tables = TransportTables()
    tables.connections, tables.flows, tables.nodes = (
        r.ConnectionRows.zeros(1),
        r.Flows.reset(1),
        r.Nodes.zeros(nodes),
    )
    tables.sides, tables.segment = r.Sides.zeros(2), r.Segment.single()
    tables.fresh, tables.counts = np.zeros(200, np.int64), r.TableCounts.single()
    return tables


def packet(number: int) -> r.Packet:
    one = r.Packet.single()
    one.number = number
    return one


@given(SEGMENTS)
def test_the_first_copy_of_every_byte_waits_in_order(segments: list[tuple[int, int, bool]]) -> None:
    tables = empty(200)
    flow, counts = tables.flows[0], tables.counts
    expected: dict[int, int | None] = {}  # stream offset -> place of the byte in the data
    for number, (start, length, is_there) in enumerate(segments):
        source = 1000 * number if is_there else HOLE
        new = {
            start + i: source + i if is_there else None
            for i in range(length)
            if start + i not in expected
        }
        assert insert(tables, flow, start, length, source, packet(number)) == len(new)
        expected |= new

    found: dict[int, int | None] = {}
    edges, cost = [], 0
    assert counts.live == flow.nodes == counts.fresh
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


@given(SEGMENTS)
def test_a_copy_has_the_bytes_that_were_cut_off_and_the_time_of_the_first(
    segments: list[tuple[int, int, bool]],
) -> None:
    tables = empty(400)
    flow = tables.flows[0]
    expected: dict[int, int | None] = {}  # stream offset -> place of the byte in the data
    seen_first: dict[int, int] = {}  # of bytes that were cut off
    for number, (start, length, is_there) in enumerate(segments):
        offsets = range(start, start + length)
        tables.segment.packet.time = number
        if is_there:
            times = {seen_first.pop(i) for i in offsets if i in seen_first}
            assert make_way(tables, flow, start, start + length) == min(times, default=number)
            expected = {i: place for i, place in expected.items() if i in seen_first or place}
        one = packet(number)
        one.time = number
        source = 1 + 1000 * number if is_there else HOLE
        insert(tables, flow, start, length, source, one)
        new = [i for i in offsets if i not in expected]
        expected |= {i: source + i - start if is_there else None for i in new}
        seen_first |= {} if is_there else dict.fromkeys(new, number)

    found: dict[int, int | None] = {}
    while flow.head >= 0:
        node = tables.nodes[flow.head]
        places = range(node.source, node.source + node.length)
        found |= {
            node.offset + i: place if node.source != HOLE else None
            for i, place in enumerate(places)
        }
        unlink(tables, flow, flow.head)
    assert found == expected
    assert (flow.tail, flow.near, flow.nodes, flow.waiting, tables.counts.live) == (-1, -1, 0, 0, 0)
