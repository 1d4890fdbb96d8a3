"""Fuzzing of whole captures: any file, and any TCP packets, through the engine."""

from __future__ import annotations

import os
import random
import struct
import tempfile
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from dcpinspect.protocol import brief
from tests import builders, damage
from tests.fuzz.framer import PIECES

STREAM = b"".join(PIECES[i % len(PIECES)] for i in (3, 4, 0, 5, 0, 1, 6, 9, 2, 0, 10, 7, 1, 8, 0, 11, 0, 0, 1, 2))

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
"""Where files are made: on a disk that takes as long as reading them."""


def compare(batches: Callable[[int], Iterable[PacketBatch]], limits: Iterable[int]) -> set[Hashable]:
    """Reads the same packets in batches of several sizes, by framers and in columns.

    Accounts hold (``damage.read`` sees to it), all columns of all rows are equal.
    """
    readings: list[list[tuple[object, ...]]] = []
    for limit in limits:
        if not readings:
            first = damage.read(batches(limit))
        with patch.object(brief, "MANY", 1 if readings else brief.MANY):  # once as in a flood
            readings.append(damage.engine_rows(batches(limit), files=2))
    assert all(rows == readings[0] for rows in readings[1:])
    counts = (first.late, first.duplicate, first.unfinished, len(first.holes), len(readings[0]))
    found: set[Hashable] = {(name, count.bit_length()) for name, count in enumerate(counts)}
    for flow, rows in first.rows.items():
        found |= {(row.data[:2], bool(row.missing), row.heuristic, flow[2]) for row in rows}
    return found


def check_file(content: bytes) -> set[Hashable]:
    """A file, however damaged, is read or refused, and in the same way in buffers of any size."""
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(content)

        def batches(size: int) -> Iterable[PacketBatch]:
            try:
                opened = open_capture(file.name, batch_bytes=size)
            except CaptureError:
                return
            with opened:
                yield from opened

        return compare(batches, (1 << 20, 200))


def packets(program: bytes) -> list[damage.Packet]:
    """TCP packets of two address pairs: eight bytes each say which, and what is in it."""
    made = []
    time_ns = builders.START_NS
    for at in range(0, len(program) - 7, 8):
        kind, flags, place, size, cut, wait, acked, jump = program[at : at + 8]
        side, pair = kind & 1, kind >> 1 & 1
        start = (place << 3) % len(STREAM) if kind & 4 else place
        payload = STREAM[start : start + size * (1 if kind & 8 else 4)]
        isn = (1000, (1 << 32) - 500)[side]
        if kind & 0xE0 == 0xE0:  # now and then a number from elsewhere
            isn += jump << 24
        seq = isn + (0 if flags & 2 else 1 + start)
        wire = len(payload) + (jump * 50 if kind & 16 else 0)
        ports = (40_000 + pair, 11_210) if side == 0 else (11_210, 40_000 + pair)
        data = (
            bytes.fromhex("4500")
            + struct.pack(
                ">HHHBBH4s4s",
                0 if wire > 65_000 else 40 + wire,
                0,
                0x4000,
                64,
                6,
                0,
                b"\x0a\0\0" + bytes([side]),
                b"\x0a\0\0" + bytes([1 - side]),
            )
            + struct.pack(
                ">HHIIBBHHH",
                *ports,
                seq % (1 << 32),
                ((1 << 32) - 500 if side == 0 else 1000) + 1 + (acked << 3) & 0xFFFFFFFF,
                0x50,
                flags,
                0,
                0,
                0,
            )
            + payload
        )
        held = len(data) - (cut if kind & 16 else 0)
        time_ns += (wait << 10) if wait < 240 else 1 << 28
        made.append(damage.Packet(data[: max(held, 1)], 40 + wire, time_ns, 101, ("", "", 0), 0, 0, 0, False))
    return made


def check_packets(program: bytes, limits: Sequence[int] = (1, 3)) -> set[Hashable]:
    """TCP packets in any order, with any numbers, are read in the same way in batches of any size."""
    made = packets(program)
    files = 2 if len(program) % 2 else 1
    return compare(lambda size: damage.batches(made, [size] * len(made), files=files), (len(made) + 1, *limits))


def program(rng: random.Random, count: int = 60) -> bytes:
    """Packets that mostly make sense."""
    out = bytearray()
    places = [0, 0]
    for _ in range(rng.randrange(count)):
        side = rng.randrange(2)
        flags = rng.choices((16, 24, 2, 18, 17, 4), (60, 20, 4, 4, 2, 1))[0]
        size = rng.randrange(60)
        place = places[side] if rng.random() < 0.8 else rng.randrange(256)
        places[side] = min(255, place + size // 2)
        kind = side | rng.choices((0, 2, 16, 0xE0), (80, 10, 8, 2))[0] | 4
        out += bytes(
            [
                kind,
                flags,
                place,
                size,
                rng.randrange(80),
                rng.randrange(256),
                rng.choice((places[1 - side], rng.randrange(256))),
                rng.randrange(256),
            ]
        )
    return bytes(out)


@cache
def files() -> tuple[bytes, ...]:
    """Small captures to begin with, in several forms."""
    segments = builders.conversation(STREAM[:200], STREAM[:900], sizes=[40, 300, 7, 90])
    packets = builders.recorded(builders.damaged(segments, loss={6}, swaps={9}))
    forms = (builders.pcap(packets), builders.pcap(packets, order=">", magic=0xA1B23C4D), builders.pcapng(packets))
    return (*forms, builders.pcapng(packets, order=">"), builders.pcap(builders.recorded(segments, snaplen=120)))


def small(rng: random.Random) -> bytes:
    """Few packets, which are read in no time."""
    return program(rng, 12)


def file(rng: random.Random) -> bytes:
    """One of the small captures."""
    return rng.choice(files())
