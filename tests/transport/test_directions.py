from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from dcpinspect.kernels.kernel import Kernel
from dcpinspect.transport import directions, flow_records
from dcpinspect.transport.chunk import StreamEntries
from dcpinspect.transport.directions import MOST_FIRST, Directions
from dcpinspect.transport.flow_records import END, HELD, HOLE, TransportTables


def tables_of(chance: random.Random, sides: int) -> TransportTables:
    """Entries of directions as reassembly may leave them, in any order of directions; some
    connections have no flows.
    """
    tables = TransportTables()
    tables.counts, tables.connections, tables.sides = (
        flow_records.TableCounts.single(),
        flow_records.TcpConnectionRows.zeros(sides),
        flow_records.Sides.zeros(2 * sides),
    )
    tables.flows, tables.entries = (
        flow_records.Flows.reset(2 + 2 * sides),
        StreamEntries.zeros(40 * sides),
    )
    tables.recent, tables.nodes, tables.address_pairs = (
        flow_records.FlowHoles.zeros(1),
        flow_records.Nodes.zeros(1),
        flow_records.EndpointPairs.zeros(1),
    )
    tables.lates, tables.routes = flow_records.LateRows.zeros(1), flow_records.Routes.zeros(1)
    tables.shuts = flow_records.ShutSpells.zeros(1)
    tables.segment, tables.stray, tables.fresh = (
        flow_records.Segment.single(),
        flow_records.Segment.single(),
        np.zeros(1, np.int64),
    )
    queues = []
    for side in range(sides):
        if chance.random() < 0.5:
            tables.connections[side >> 1].flows = 2 + (side & -2)
        flow = tables.flows[2 + side]
        flow.released, flow.opened_by = (
            chance.randrange(50),
            chance.choice((0, 0, chance.randrange(200))),
        )
        tables.sides[side].started = chance.randrange(2)
        pieces: list[tuple[int, int]] = [
            (
                chance.randrange(1, 9 if chance.random() < 0.9 else MOST_FIRST),
                chance.choice((chance.randrange(1000),) * 9 + (HOLE, HELD - 5)),
            )
            for _ in range(chance.choice((0, 1, 1, 1, 2, 5)))
        ]
        queues.append(
            [(side, *piece) for piece in pieces]
            + ([(side, 0, END)] if chance.random() < 0.5 else [])
        )
    offsets = [chance.choice((0, 0, 0, 100)) for _ in range(sides)]
    while any(queues):
        side, length, source = chance.choice([queue for queue in queues if queue]).pop(0)
        entry = tables.entries[tables.counts.entries]
        entry.side, entry.length, entry.source, entry.offset = side, length, source, offsets[side]
        offsets[side] += length
        entry.release = chance.randrange(100)
        entry.packet.number, entry.packet.frame, entry.packet.file, entry.packet.time = (
            chance.randrange(1 << 40) for _ in range(4)
        )
        tables.counts.entries += 1
    return tables


_PACKET = ("number", "frame", "file", "time")


def rows_of(
    entries: StreamEntries, names: str, of_packet: tuple[str, ...]
) -> list[tuple[int, ...]]:
    """These columns of entries, and of their packets, row by row."""
    columns = [getattr(entries, name) for name in names.split()]
    columns += [getattr(entries.packet, name) for name in of_packet]
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_directions_have_their_entries_and_their_first_bytes(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = directions.list_directions
    assert isinstance(kernel, Kernel)
    monkeypatch.setattr(directions, "list_directions", getattr(kernel, form))
    chance, data = random.Random(11), np.zeros(1000, np.uint8)
    pieces_seen = 0
    for _ in range(60):
        tables = tables_of(chance, chance.randrange(2, 30))
        if not tables.counts.entries:
            continue
        made = sorted(
            (tables.entries[at] for at in range(tables.counts.entries)),
            key=lambda entry: entry.side,
        )
        found = Directions(tables)
        first = found.first_bytes(data, lambda entries: entries.length + 7)
        starts, stops, holes = (column.tolist() for column in found.edges)
        listed = first.directions
        released = tables.flows.released.copy()
        pieces: list[tuple[int, ...]] = []
        ends: list[tuple[int, ...]] = []
        for at, (side, group) in enumerate(itertools.groupby(made, key=lambda entry: entry.side)):
            own = list(group)
            assert [(entry.offset, entry.source, entry.release) for entry in own] == [
                (entry.offset, entry.source, entry.release)
                for entry in found.entries[starts[at] : stops[at]]
            ]
            assert holes[at] == sum(entry.source == HOLE for entry in own)
            has_flow = tables.connections[side >> 1].flows > 0
            flow = tables.flows[2 + side if has_flow else side & 1]
            before, begin, last = max(flow.released, flow.opened_by), own[0], own[-1]
            is_started, is_end = bool(tables.sides[side].started), last.source == END
            given = own[: len(own) - is_end]
            is_whole = all(entry.source >= 0 for entry in given) and begin.offset == 0
            length = sum(entry.length for entry in given)
            if len(given) > 1:
                is_whole &= is_started and length <= MOST_FIRST
            assert listed.number[at] == side
            assert listed.pieces[at] == len(given)
            assert listed.length[at] == (0 if not given else length if is_whole else -1)
            assert (listed.is_start[at], listed.is_end[at]) == (is_started, is_end)
            assert listed.end_release[at] == max(before, *(entry.release for entry in own))
            if is_end:
                ends.append((side, last.offset, last.packet.number, last.packet.time))
            for entry in given if is_whole else ():
                before = max(before, entry.release)
                packet = entry.packet
                pieces.append(
                    (
                        side,
                        entry.offset,
                        entry.source,
                        entry.length,
                        before,
                        entry.length + 7,
                        *(packet.number, packet.frame, packet.file, packet.time),
                    )
                )
            if has_flow and at % 2:
                released[2 + side] = listed.end_release[at]
        assert rows_of(first.pieces, "side offset source length release place", _PACKET) == pieces
        assert rows_of(first.ends, "side offset", ("number", "time")) == ends
        pieces_seen += len(pieces)
        found.release(np.arange(len(starts)) % 2 != 0)
        assert tables.flows.released.tolist() == released.tolist()
    assert pieces_seen > 100
