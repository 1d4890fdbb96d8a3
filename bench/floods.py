"""Many connections beside tshark: whole processes, the same capture, the same run; processor time
and memory of each connection.

    python -m bench.floods [--connections 200000] [--kinds syn,http,…] [--jobs read,check,…] [--folder DIR]

Each capture has so many connections of one kind. ``streams`` has a twentieth of them, with four
streams each.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.captures import START_NS
from bench.read import Timing, row, timed
from dcpinspect.transport.headers import ACK, FIN, RST, SYN
from tests.encode import encode

BLOCK = 50_000
"""Connections that are made at once."""
SERVER = bytes([10, 200, 0, 1])
NOOP = encode("noop", opaque=7)
NOOP_DONE = encode("noop", "response", opaque=7)


@dataclass
class Talk:
    """The packets of one connection: which end sent each, its flags and payload, and the numbers of
    both ends.
    """

    port: int = 11_210
    packets: list[tuple[bool, int, bytes, int, int]] = field(default_factory=list)
    next: dict[bool, int] = field(default_factory=lambda: {True: 1000, False: 5000})

    def add(self, is_client: bool, flags: int, payload: bytes = b"") -> Talk:
        """One more packet."""
        self.packets.append(
            (
                is_client,
                flags,
                payload,
                self.next[is_client],
                self.next[not is_client] if flags & ACK else 0,
            )
        )
        self.next[is_client] += len(payload) + bool(flags & (SYN | FIN))
        return self

    def opened(self) -> Talk:
        """With a handshake."""
        return self.add(True, SYN).add(False, SYN | ACK).add(True, ACK)

    def closed(self) -> Talk:
        """With both FINs."""
        return self.add(True, FIN | ACK).add(False, FIN | ACK).add(True, ACK)


def streams() -> Talk:
    """Four streams with five items each."""
    talk = Talk().opened()
    for vbucket in range(4):
        opaque = 20 + vbucket
        ask = encode(
            "dcp_stream_req", vbucket=vbucket, opaque=opaque, start_seqno=0, end_seqno=2**64 - 1
        )
        log = encode(
            "dcp_stream_req",
            "response",
            opaque=opaque,
            failover_log=[{"uuid": 0x1234 + vbucket, "seqno": 0}],
        )
        marker = encode(
            "dcp_snapshot_marker",
            vbucket=vbucket,
            opaque=opaque,
            start_seqno=1,
            end_seqno=5,
            snapshot_type=1,
        )
        items = [
            encode(
                "dcp_mutation",
                vbucket=vbucket,
                opaque=opaque,
                by_seqno=seqno,
                rev_seqno=1,
                key=b"key",
                value=b"{}",
                cas=1,
            )
            for seqno in range(1, 6)
        ]
        talk.add(True, ACK, ask).add(False, ACK, log + marker + b"".join(items[:4])).add(
            False, ACK, items[4]
        )
    return talk.closed()


KINDS = {
    "syn": lambda: Talk().add(True, SYN),
    "reset": lambda: Talk().add(True, RST),
    "refused": lambda: Talk().add(True, SYN).add(False, RST | ACK),
    "middle": lambda: Talk().add(True, ACK, b"hello"),
    "http": lambda: Talk().opened().add(True, ACK, b"GET / HTTP/1.0\r\n\r\n").closed(),
    "noop": lambda: Talk().opened().add(True, ACK, NOOP).add(False, ACK, NOOP_DONE).closed(),
    "streams": streams,
}
JOBS = {
    "read": ["read"],
    "read -w": ["read", "-w", "{out}"],
    "check": ["check"],
    "tui": ["tui", "--screenshot", "overview", "-o", "{picture}"],
}


def make(path: Path, talk: Talk, connections: int) -> None:
    """A pcap file with so many connections that are all alike, one after the other."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for first in range(0, connections, BLOCK):
            number = np.arange(first, min(first + BLOCK, connections))
            file.write(
                np.concatenate(
                    [_records(talk, place, number) for place in range(len(talk.packets))], axis=1
                ).tobytes()
            )


def _records(
    talk: Talk, place: int, number: np.typing.NDArray[np.int64]
) -> np.typing.NDArray[np.uint8]:
    """The pcap records of one packet of each connection, a row each."""
    is_client, flags, payload, sequence, acknowledged = talk.packets[place]
    size = 40 + len(payload)
    ends = (b"\0\0\0\0", SERVER) if is_client else (SERVER, b"\0\0\0\0")
    ports = (0, talk.port) if is_client else (talk.port, 0)
    record = (
        struct.pack("<IIII", 0, 0, 14 + size, 14 + size)
        + bytes.fromhex("0200000000020200000000010800")
        + struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0x4000, 64, 6, 0, *ends)
        + struct.pack(">HHIIBBHHH", *ports, sequence, acknowledged, 0x50, flags, 4096, 0, 0)
        + payload
    )
    rows = np.tile(np.frombuffer(record, np.uint8), (len(number), 1))
    time = START_NS + (number * len(talk.packets) + place) * 2_000
    address, port = (42, 50) if is_client else (46, 52)
    for offset, values, form in (
        (0, time // 1_000_000_000, "<u4"),
        (4, time % 1_000_000_000, "<u4"),
        (address, 10 << 24 | number, ">u4"),
        (port, 20_000 + number % 40_000, ">u2"),
    ):
        width = int(form[-1])
        rows[:, offset : offset + width] = values.astype(form).view(np.uint8).reshape(-1, width)
    return rows


def main() -> None:
    """Make the captures, run both, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--connections", type=int, default=200_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    arguments = parser.parse_args()
    tshark = shutil.which("tshark")
    if tshark is None:
        raise SystemExit("tshark is not installed: there is nothing to compare with")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    row("connections", "job", "processor time", "of tshark", "each", "memory", "of tshark")
    row(*["---"] * 7)
    for kind in arguments.kinds.split(","):
        count = arguments.connections // 20 if kind == "streams" else arguments.connections
        path = arguments.folder / f"{kind}-{count}.pcap"
        make(path, KINDS[kind](), count)
        theirs = timed([tshark, "-r", str(path)], arguments.repeat)
        for job in arguments.jobs.split(","):
            report(f"{count:,} {kind}", job, count, run(JOBS[job], path, arguments.repeat), theirs)
        path.unlink()


def run(job: Sequence[str], path: Path, repeat: int) -> Timing:
    """One job of ours on a capture."""
    names = {"{out}": f"{path}.out.pcapng", "{picture}": f"{path}.svg"}
    command, *options = [names.get(word, word) for word in job]
    done = timed(
        [sys.executable, "-m", "dcpinspect", command, str(path), *options], repeat, ends=(0, 1, 2)
    )  # 1: findings; 2: there was nothing to check
    for name in names.values():
        Path(name).unlink(missing_ok=True)
    return done


def report(what: str, job: str, count: int, ours: Timing, theirs: Timing) -> None:
    """One row."""
    each = f"{ours.cpu / count * 1e6:.1f} us"
    row(
        what,
        f"`{job}`",
        f"{ours.cpu:.2f} s",
        f"{theirs.cpu:.2f} s",
        each,
        f"{ours.memory_mib:.0f} MiB",
        f"{theirs.memory_mib:.0f} MiB",
    )


if __name__ == "__main__":
    main()
