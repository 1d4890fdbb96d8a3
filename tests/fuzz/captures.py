"""Fuzzing of whole captures: any file, and any TCP packets, through the engine."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from unittest.mock import patch

import numpy as np

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from dcpinspect.protocol import first_bytes
from tests import builders, damage
from tests.fuzz.framer import PIECES

STREAM = b"".join(
    PIECES[i % len(PIECES)] for i in (3, 4, 0, 5, 0, 1, 6, 9, 2, 0, 10, 7, 1, 8, 0, 11, 0, 0, 1, 2)
)

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
"""Where files are made: on a disk that takes as long as reading them."""


def compare(
    batches: Callable[[int], Iterable[PacketBatch]], limits: Iterable[int]
) -> damage.Reading:
    """Reads the same packets in batches of several sizes, by framers and in columns.

    Accounts hold (``damage.read`` sees to it), all columns of all rows are equal.
    """
    readings: list[list[tuple[object, ...]]] = []
    for limit in limits:
        if not readings:
            first = damage.read(batches(limit))
        with patch.object(
            first_bytes, "MANY", 1 if readings else first_bytes.MANY
        ):  # once as in a flood
            readings.append(damage.engine_rows(batches(limit), files=2))
    assert all(rows == readings[0] for rows in readings[1:])
    return first


def seen(reading: damage.Reading, flows: Iterable[damage.Flow]) -> set[Hashable]:
    """What there was to see in these."""
    flows = list(flows)
    counts = [sum(reading.counts[flow][place] for flow in flows) for place in range(3)]
    counts += [
        sum(bool(reading.holes[flow]) for flow in flows),
        sum(len(reading.rows[flow]) for flow in flows),
    ]
    found: set[Hashable] = {(place, count.bit_length()) for place, count in enumerate(counts)}
    for flow in flows:
        found |= {
            (row.data[:2], bool(row.missing), row.heuristic, flow[2]) for row in reading.rows[flow]
        }
    return found


def check_file(content: bytes) -> set[Hashable]:
    """A file, however damaged, is read or refused, and in the same way in buffers of any size."""
    contents = content.split(_NEXT_FILE)
    if len(contents) > 1:
        return set().union(*check_files(contents))
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(content)
        reading = compare(lambda size: _opened(file.name, size) or (), _BUFFERS)
    return seen(reading, list(reading.rows))


def check_files(contents: Sequence[bytes]) -> list[set[Hashable]]:
    """The same of many: each gives the same packets in buffers of any size, and all these together
    the same rows in any batches.

    They take turns in one capture, those of each file in a network of its own: the engine takes
    most of the time, and for a batch of many files it takes as long as for one of a single file.
    """
    turns = zip_longest(
        *(_packets_of(content, network) for network, content in enumerate(contents))
    )
    return _compared([one for turn in turns for one in turn if one is not None], len(contents))


def _opened(path: str, size: int) -> list[PacketBatch] | None:
    """What is in a file; None if it is refused."""
    try:
        opened = open_capture(path, batch_bytes=size)
    except CaptureError:
        return None
    with opened:
        return list(opened)


def _packets_of(content: bytes, network: int) -> list[damage.Packet]:
    """The packets of a file, whose addresses become those of a network."""
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(content)
        found, again = (_told(_opened(file.name, size)) for size in _BUFFERS)
    assert found == again
    return [
        damage.Packet(
            _in_network(data[:_HEADERS], network) + data[_HEADERS:],
            *about,
            ("", "", 0),
            0,
            0,
            0,
            False,
        )
        for data, about, _ in found or ()
    ]


def _in_network(headers: bytes, network: int) -> bytes:
    for host in _HOSTS:
        headers = headers.replace(bytes([10, 0, 0, host]), bytes([10, 0, network, host]))
    return headers


def _told(
    batches: Sequence[PacketBatch] | None,
) -> list[tuple[bytes, tuple[int, int, int], tuple[int, int, int]]] | None:
    """All that is said of each packet: its bytes; how many it had, when and on what link; where in
    the file it stands, and its numbers.
    """
    if batches is None:
        return None
    told = []
    for batch in batches:
        about = np.stack((batch.wire, batch.time_ns, batch.link_type), axis=1).tolist()
        places = np.stack(
            (batch.file_offset + batch.offset, batch.frames, batch.packets), axis=1
        ).tolist()
        for at, size, said, place in zip(
            batch.offset.tolist(), batch.captured.tolist(), about, places, strict=True
        ):
            told.append((batch.data[at : at + size].tobytes(), tuple(said), tuple(place)))
    return told


_BUFFERS = (1 << 20, 200)
_NEXT_FILE = b"another file:"
"""Between files that are read together."""
_HOSTS = 1, 2
"""The hosts of network 10.0.0 that the first files speak of."""
_HEADERS = 88
"""Bytes at the start of a packet, in which its addresses are, also those inside a tunnel."""


def joined_files(contents: Sequence[bytes]) -> bytes:
    """One input for these."""
    return _NEXT_FILE.join(contents)


def packets(program: bytes, network: int = 0) -> list[damage.Packet]:
    """TCP packets of two address pairs of a network: eight bytes each say which, and what is in
    it.
    """
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
                bytes([10, 0, network, side]),
                bytes([10, 0, network, 1 - side]),
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
        made.append(
            damage.Packet(
                data[: max(held, 1)], 40 + wire, time_ns, 101, ("", "", 0), 0, 0, 0, False
            )
        )
    return made


def check_packets(program: bytes) -> set[Hashable]:
    """TCP packets in any order, with any numbers, are read in the same way in batches of any
    size.
    """
    programs = program.split(_NEXT)
    if len(programs) > 1:
        return set().union(*check_together(programs))
    made = packets(program)
    files = 2 if len(program) % 2 else 1
    limits = (len(made) + 1, 1, 1 + len(program) % 3)
    reading = compare(lambda size: damage.batches(made, [size] * len(made), files=files), limits)
    return seen(reading, list(reading.rows))


def check_together(programs: Sequence[bytes]) -> list[set[Hashable]]:
    """The same of many as one capture, each in a network of its own: most of the time is the same
    for few packets and for many.

    What there was to see is told of each.
    """
    made = sorted(
        (one for number, program in enumerate(programs) for one in packets(program, number)),
        key=lambda one: one.time_ns,
    )
    return _compared(made, len(programs))


def _compared(made: Sequence[damage.Packet], count: int) -> list[set[Hashable]]:
    """Reads packets of so many networks at once, and in a dozen batches; what there was to see, by
    network.
    """
    rng = random.Random(sum(zlib.crc32(one.data) for one in made))
    files = 1 + len(made) % 2
    cut = [rng.randrange(1, 2 + len(made) // 6) for _ in made]
    reading = compare(lambda size: damage.batches(made, cut if size else (), files=files), (0, 1))
    own: dict[str, list[damage.Flow]] = defaultdict(list)
    for flow in reading.rows:
        own[flow[0].rpartition(".")[0]].append(flow)
    return [seen(reading, own[f"10.0.{number}"]) for number in range(count)]


_NEXT = b"\xff" * 8
"""In place of a packet: another program begins."""


def joined(programs: Sequence[bytes]) -> bytes:
    """One that says what they say, side by side."""
    return _NEXT.join(program[: len(program) // 8 * 8] for program in programs)


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
    forms = (
        builders.pcap(packets),
        builders.pcap(packets, order=">", magic=0xA1B23C4D),
        builders.pcapng(packets),
    )
    changed = [form.replace(b"\n", b"\r\n") for form in (forms[0], forms[2])] + [
        b"tcpdump: listening\n" + forms[0]
    ]
    tunneled = [
        replace(one, data=_GTP + one.data[14:], wire=len(_GTP) + one.wire - 14) for one in packets
    ]
    flogged = [
        replace(one, data=_NFLOG + one.data[14:], wire=len(_NFLOG) + one.wire - 14, link_type=239)
        for one in packets
    ]
    more = (
        builders.pcapng(packets, order=">"),
        builders.pcap(builders.recorded(segments, snaplen=120)),
        builders.pcap(tunneled),
    )
    return (*forms, *more, builders.pcap(flogged), *changed, _as_text(packets))


_GTP = bytes.fromhex(
    "020000000001 020000000002 0800 4500 0600 0000 0000 4011 0000 c0000201 c0000202 0868 0868 "
    "05ec 0000 34ff 05d8 00000007"
)
_GTP += bytes.fromhex("00000085 01100500")
"""Ethernet, IP, UDP and GTP-U with an extension header."""
_NFLOG = bytes.fromhex("02000005 08000100 08000300 60000900")


def _as_text(packets: Sequence[builders.Recorded]) -> bytes:
    """What tcpdump prints of packets."""
    out = []
    for number, packet in enumerate(packets[:6]):
        out.append(f"10:49:58.{number:06} IP a > b: x")
        rows = (
            packet.data[start : start + 16].hex(" ", -2) for start in range(0, len(packet.data), 16)
        )
        out += [f"\t0x{16 * place:04x}:  {row}" for place, row in enumerate(rows)]
    return "\n".join(out).encode()


def small(rng: random.Random) -> bytes:
    """Few packets, which are read in no time."""
    return program(rng, 12)


def file(rng: random.Random) -> bytes:
    """One of the small captures."""
    return rng.choice(files())
