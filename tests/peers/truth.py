"""What the peers said, beside each sample capture: to compare a reading with, byte by byte.

``load("tour")`` reads ``sample_captures/tour.sent.ndjson``. A small sample holds every message
whole; the large one holds a digest each, so use ``Message.is_data`` where both should work.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from dcpinspect.protocol.header import decode_header
from dcpinspect.protocol.opcodes import opcode_name
from tests.peers.endpoint import Address
from tests.peers.play import Said

SAMPLES = Path(__file__).parents[2] / "sample_captures"

Direction = Literal["c2s", "s2c"]

DIGEST = 4
"""Bytes of SHA-256 that the large sample keeps of each message; a digest does not compress."""

Ranges = tuple[tuple[int, int], ...]
"""Half-open byte ranges."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as its sender wrote it."""

    name: str
    """Command, as ``opcode_name`` says it."""
    length: int
    digest: str
    """The first bytes of its SHA-256, in hexadecimal."""
    data: bytes | None
    """All of it, or None in the large sample."""
    missing: Ranges = ()
    """Which of its bytes are not in the capture, from its first byte; none for a message that is
    there as a whole.
    """

    @property
    def is_whole(self) -> bool:
        """The capture has all of it."""
        return not self.missing

    @property
    def is_absent(self) -> bool:
        """The capture has none of it."""
        return self.missing == ((0, self.length),)

    def is_data(self, data: bytes) -> bool:
        """True when these are its bytes."""
        return len(data) == self.length and (
            data == self.data if self.data is not None else digest(data) == self.digest
        )


@dataclass(frozen=True, slots=True)
class Connection:
    """Who spoke to whom, and every message of each direction in order."""

    name: str
    """Its part in the story."""
    client: Address
    server: Address
    c2s: list[Message]
    s2c: list[Message]


def digest(data: bytes) -> str:
    """What the large sample keeps of a message."""
    return sha256(data).digest()[:DIGEST].hex()


def truth_file(name: str) -> Path:
    """Where a sample's truth is, by the sample's name without suffixes."""
    plain = SAMPLES / f"{name}.sent.ndjson"
    return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")


def load(name: str) -> list[Connection]:
    """The connections of a sample, in the order in which they were opened."""
    path = truth_file(name)
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    connections: list[Connection] = []
    for line in content.splitlines():
        entry = json.loads(line)
        if "client" in entry:
            client, server = (
                (str(entry[who][0]), int(entry[who][1])) for who in ("client", "server")
            )
            connections.append(Connection(entry["name"], client, server, [], []))
            continue
        messages = (
            connections[entry["connection"] - 1].c2s
            if entry["direction"] == "c2s"
            else connections[entry["connection"] - 1].s2c
        )
        messages += _unpacked(entry) if "digests" in entry else [_message(entry)]
    return connections


def _message(entry: dict[str, Any]) -> Message:
    data = bytes.fromhex(entry["hex"])
    missing = tuple((first, end) for first, end in entry.get("missing", ()))
    return Message(entry["name"], entry["length"], digest(data), data, missing)


def _unpacked(entry: dict[str, Any]) -> Iterable[Message]:
    digests = entry["digests"]
    for number, (name, length) in enumerate(zip(entry["names"], entry["lengths"], strict=True)):
        start = number * 2 * DIGEST
        yield Message(entry["opcodes"][name], length, digests[start : start + 2 * DIGEST], None)


def message_name(data: bytes) -> str:
    """The command of a message's bytes."""
    header = decode_header(data)
    return opcode_name(header.opcode, server=header.is_server)


def save(
    name: str,
    said: Sequence[Said],
    missing: dict[tuple[int, Direction], list[Ranges]],
    *,
    digests: bool = False,
) -> Path:
    """Write a sample's truth; ``missing`` gives, by (connection, direction), the ranges of each
    message that the capture lacks.
    """
    lines: list[dict[str, Any]] = []
    for number, talk in enumerate(said, 1):
        lines.append(
            {
                "connection": number,
                "name": talk.name,
                "client": list(talk.client),
                "server": list(talk.server),
            }
        )
        directions: tuple[tuple[Direction, list[bytes]], ...] = (
            ("c2s", talk.c2s),
            ("s2c", talk.s2c),
        )
        for direction, messages in directions:
            start = {"connection": number, "direction": direction}
            if digests:
                names = [message_name(data) for data in messages]
                known = list(dict.fromkeys(names))
                numbers = {name: n for n, name in enumerate(known)}
                lines.append(
                    start
                    | {
                        "opcodes": known,
                        "names": [numbers[name] for name in names],
                        "lengths": [len(data) for data in messages],
                    }
                    | {"digests": "".join(map(digest, messages))}
                )
                continue
            for data, lost in zip(messages, missing[number, direction], strict=True):
                entry = (
                    start
                    | {"name": message_name(data), "length": len(data)}
                    | ({"missing": lost} if lost else {})
                )
                lines.append(entry | {"hex": data.hex()})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
    plain = SAMPLES / f"{name}.sent.ndjson"
    path = plain.with_name(f"{plain.name}.gz") if digests else plain
    path.write_bytes(gzip.compress(text, 9, mtime=0) if digests else text)
    return path


def lost_ranges(messages: Sequence[bytes], captured: Sequence[tuple[int, int]]) -> list[Ranges]:
    """For each message of a stream, what the captured ranges of the stream leave out; ranges in
    order, apart from each other.
    """
    edges = [0, *(edge for pair in captured for edge in pair)]
    holes = [
        (first, end)
        for first, end in zip(edges[::2], [*edges[1::2], sum(map(len, messages))], strict=True)
        if first < end
    ]
    out: list[Ranges] = []
    ends = [0]
    for data in messages:
        ends.append(ends[-1] + len(data))
    at = 0
    for start, end in pairwise(ends):
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        lost = []
        for first, stop in holes[at:]:
            if first >= end:
                break
            lost.append((max(first, start) - start, min(stop, end) - start))
        out.append(tuple(lost))
    return out
