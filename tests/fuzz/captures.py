"""Coverage-guided fuzzing of whole captures: any file, and any TCP packets, through the engine.

``python -m tests.fuzz.captures`` runs until it finds something or is stopped; libFuzzer's options follow, such as
``-max_total_time=600 corpus/``. Needs atheris. ``check`` is what must hold; hypothesis calls it too.
"""

from __future__ import annotations

import os
import random
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError
from tests import builders, damage
from tests.fuzz.framer import PIECES

STREAM = b"".join(PIECES[i % len(PIECES)] for i in (3, 4, 0, 5, 0, 1, 6, 9, 2, 0, 10, 7, 1, 8, 0, 11, 0, 0, 1, 2))


def compare(batches: Callable[[int], Iterable[PacketBatch]], limits: Iterable[int]) -> None:
    """Reads the same packets in batches of several sizes: accounts hold (``damage.read`` sees to it), all columns of all rows are equal."""
    readings = []
    for limit in limits:
        damage.read(batches(limit))
        readings.append(damage.engine_rows(batches(limit), files=2))
    assert all(rows == readings[0] for rows in readings[1:])


def check_file(content: bytes) -> None:
    """A file, however damaged, is read or refused, and in the same way in buffers of any size."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)

        def batches(size: int) -> Iterable[PacketBatch]:
            try:
                opened = open_capture(file.name, batch_bytes=size)
            except CaptureError:
                return
            with opened:
                yield from opened

        compare(batches, (1 << 20, 200))


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


def check_packets(program: bytes) -> None:
    """TCP packets in any order, with any numbers, are read in the same way in batches of any size."""
    made = packets(program)
    compare(lambda size: damage.batches(made, [size] * len(made), files=2 if len(program) % 2 else 1), (len(made) + 1, 1, 3))


def check(data: bytes) -> None:
    """One or the other, by the first byte."""
    if data[:1] < b"\x40":
        check_packets(data[1:])
    else:
        check_file(data[1:])


def seeds(folder: Path) -> None:
    """Writes captures to begin with."""
    rng = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    segments = builders.conversation(STREAM[:600], STREAM, sizes=[rng.randrange(1, 400) for _ in range(40)])
    for number, damaged in enumerate((segments, builders.damaged(segments, loss={6, 9}, swaps={12}, duplicates={14}))):
        recorded = builders.recorded(damaged)
        for name, content in (
            ("pcap", builders.pcap(recorded)),
            ("swapped", builders.pcap(recorded, order=">", magic=0xA1B23C4D)),
            ("snaplen", builders.pcap(builders.recorded(damaged, snaplen=120))),
            ("pcapng", builders.pcapng(recorded)),
            ("big", builders.pcapng(recorded, order=">")),
        ):
            (folder / f"{name}-{number}").write_bytes(b"\xff" + content)
    for number in range(40):
        (folder / f"packets-{number}").write_bytes(b"\0" + program(rng))


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


def main() -> None:
    """Runs atheris."""
    os.environ["DCPINSPECT_KERNELS"] = "interpreted"  # so that coverage sees them
    import atheris

    from dcpinspect.capture import pcap, pcapng
    from dcpinspect.protocol import framing, resync, stretch, walk
    from dcpinspect.transport import entries, flows, headers, ordering, reassembly, waiting
    from tests.fuzz.framer import instrument

    for module in (pcap, pcapng, headers, ordering, waiting, flows, entries, reassembly, framing, walk, resync, stretch):
        instrument(atheris, module)
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder))
        atheris.Setup([*sys.argv, folder], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
