from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.transport import columns as c
from dcpinspect.transport.waiting import NODE_COST, insert, unlink_head

SEGMENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.booleans()), max_size=30)
"""Stream offset, length, and whether the bytes were captured."""


@given(SEGMENTS)
def test_the_first_copy_of_every_byte_waits_in_order(segments: list[tuple[int, int, bool]]) -> None:
    flows, nodes = np.zeros((1, c.FLOW), np.int64), np.zeros((200, c.NODE), np.int64)
    flows[0, [c.HEAD, c.TAIL]] = -1
    fresh, counters = np.zeros(200, np.int64), np.zeros(c.COUNTERS, np.int64)
    counters[c.FREE] = -1
    expected: dict[int, int | None] = {}  # stream offset -> place of the byte in the data
    for packet, (start, length, is_there) in enumerate(segments):
        source = 1000 * packet if is_there else c.HOLE
        new = {start + i: source + i if is_there else None for i in range(length) if start + i not in expected}
        assert insert(0, start, length, source, packet, 0, 0, 0, 0, flows, nodes, fresh, counters) == len(new)
        expected |= new

    found: dict[int, int | None] = {}
    edges, cost = [], 0
    assert counters[c.LIVE] == flows[0, c.NODES] == counters[c.FRESH]
    while (k := int(flows[0, c.HEAD])) >= 0:
        at, length, source = nodes[k, [c.N_OFFSET, c.N_LENGTH, c.N_SOURCE]].tolist()
        assert flows[0, c.WAITING] == counters[c.TOTAL_WAITING]
        edges += [at, at + length]
        cost += NODE_COST + (length if source != c.HOLE else 0)
        found |= {at + i: source + i if source >= 0 else None for i in range(length)}
        unlink_head(0, flows, nodes, counters)
    assert found == expected
    assert all(before <= after for before, after in pairwise(edges))
    assert flows[0, [c.TAIL, c.NODES, c.WAITING]].tolist() == [-1, 0, 0]
    assert counters[[c.LIVE, c.TOTAL_WAITING]].tolist() == [0, 0]
    assert cost == NODE_COST * len(edges) // 2 + sum(place is not None for place in expected.values())


def test_nodes_that_were_given_back_are_used_again() -> None:
    flows, nodes = np.zeros((1, c.FLOW), np.int64), np.zeros((4, c.NODE), np.int64)
    flows[0, [c.HEAD, c.TAIL]] = -1
    fresh, counters = np.zeros(100, np.int64), np.zeros(c.COUNTERS, np.int64)
    counters[c.FREE] = -1
    for number in range(20):
        insert(0, 10 * number, 5, 0, number, 0, 0, 0, 0, flows, nodes, fresh, counters)
        insert(0, 10 * number + 5, 5, 0, number, 0, 0, 0, 0, flows, nodes, fresh, counters)
        unlink_head(0, flows, nodes, counters)
        unlink_head(0, flows, nodes, counters)
    assert (counters[c.TOP], counters[c.LIVE]) == (2, 0)
