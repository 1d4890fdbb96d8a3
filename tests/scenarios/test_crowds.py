"""Captures of very many connections: little is kept of each, next to nothing of one that has ended,
and nothing depends on batches.

Captures of very many messages, too: of them nothing is kept.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.contents import Contents
from dcpinspect.streams.flow_control import FlowControl
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.tracker import Tracker
from tests import damage
from tests.crowd import KINDS, PORT, crowd
from tests.streams.told import opened, packets
from tests.transport_views import connections

pytestmark = pytest.mark.slow

FEW, MANY = 250, 500
EVENTS = 3000


def written(folder: Path, count: int, *, closed: bool, port: int = PORT) -> Path:
    path = folder / f"{count}.pcap"
    with path.open("wb") as file:
        file.writelines(crowd(KINDS, count, closed=closed, port=port))
    return path


def kept(path: Path, *, find_ports: bool) -> int:
    """Bytes that an engine holds after all packets of a capture, in small batches."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    engine = Engine([path.name], find_ports=find_ports)
    with open_capture(path, batch_bytes=1 << 16) as opened:
        for batch in opened:
            engine.feed(batch)
    del batch
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    assert len(connections(engine.transport)) >= int(path.stem)
    return after - before


@pytest.mark.parametrize(
    ("closed", "find_ports", "limit"),
    [(True, False, 1500), (False, False, 3500), (False, True, 4500)],
)
def test_memory_grows_by_little_with_each_connection(
    tmp_path: Path, closed: bool, find_ports: bool, limit: int
) -> None:
    """The kinds in the crowd brought 13 kB each once, those of text and TLS half a megabyte, and
    the closed ones 4 kB.
    """
    port = 9999 if find_ports else PORT
    paths = [
        written(tmp_path, count, closed=closed, port=port) for count in (len(KINDS), FEW, MANY)
    ]
    tracemalloc.start()
    try:
        _, few, many = (
            kept(path, find_ports=find_ports) for path in paths
        )  # the first one: tables that are made once
    finally:
        tracemalloc.stop()
    assert 100 < (many - few) / (MANY - FEW) < limit


def read(path: Path, batch_bytes: int, *, find_ports: bool) -> list[object]:
    """Rows, coverage and links."""
    engine = Engine([path.name], find_ports=find_ports)
    with open_capture(path, batch_bytes=batch_bytes) as opened:
        found: list[object] = [
            row for batch in opened for row in damage.rows_in(engine.feed(batch))
        ]
    found += damage.rows_in(engine.finish())
    found += [
        tuple((one.name, getattr(direction, one.name)) for one in fields(direction))
        for direction in engine.coverage.directions
    ]
    return [*found, *engine.links]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("find_ports", [True, False])
def test_a_crowd_reads_the_same_in_any_batches(
    tmp_path: Path, closed: bool, find_ports: bool
) -> None:
    path = written(tmp_path, 60, closed=closed, port=9999 if find_ports else PORT)
    whole = read(path, 1 << 24, find_ports=find_ports)
    assert len(whole) >= 2 * 60
    for batch_bytes in (4000, 300):
        assert read(path, batch_bytes, find_ports=find_ports) == whole


def test_every_byte_of_a_crowd_is_accounted_for(tmp_path: Path) -> None:
    def parts(path: Path) -> Iterable[PacketBatch]:
        with open_capture(path, batch_bytes=2000) as opened:
            yield from opened

    for closed in (True, False):
        reading = damage.read(parts(written(tmp_path, 60, closed=closed)))
        assert sum(map(len, reading.rows.values())) == (3 + 5) * 5


def test_memory_does_not_grow_with_messages() -> None:
    """What is known of a stream takes as much after five times as many events: there are no gaps
    among them.

    NumPy keeps up to 30 kB of small blocks that were freed, whatever the events: so there are
    enough events to see 12 bytes of each.
    """
    talk = opened(connection_buffer_size="100000")
    talk.ack_after = 1000
    streams = [talk.stream(vbucket) for vbucket in (7, 8)]
    for stream in streams:
        stream.snapshot(0, 10**9, "memory")
    for seqno in range(1, EVENTS + 1):
        for stream in streams:
            stream.mutation(seqno, f"k{seqno % 50}")
    captured = packets(talk)
    batches = damage.batches(captured, [100] * (len(captured) // 100))
    tracker, held = Tracker(), []
    tracker.flow, tracker.noops, tracker.contents = FlowControl(), Noops(), Contents(1000)
    engine = Engine(["told.pcap"], ports=(PORT,))
    tracemalloc.start()
    try:
        for number, batch in enumerate(filter(None, map(engine.feed, batches))):
            tracker.feed(batch)
            if number % 10 == 0:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    (items,) = {record["items"] for record in tracker.tables(engine.links).streams.records()}
    assert items > EVENTS - 100
    assert held[-1] - held[len(held) // 5] < 12 * EVENTS
