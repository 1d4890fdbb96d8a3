"""What dcpinspect reads of a TLS capture with a key log, and what was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls.keylog import KeyLog
from tests.damage import Packet
from tests.tls.damage import Tape, untouched
from tests.tls.peers import Recorded

Message = tuple[str, int, bytes]
"""The client's address, direction, bytes."""


def read(
    path: Path, keylog: Path | None, *, find_ports: bool = False
) -> tuple[list[Message], list[Message], Reading]:
    """Whole messages, those that bytes are missing of, and the reading."""
    whole: list[Message] = []
    hit: list[Message] = []
    keys = KeyLog([str(keylog)] if keylog is not None and keylog.exists() else [])
    with Reading([str(path)], keys=keys, find_ports=find_ports) as reading:
        reading.check()
        for batch in reading:
            missing = set(batch.missing.row.tolist())
            for place in range(len(batch)):
                client = batch.endpoints.client[int(batch.connection[place]) - 1]
                found = (client, int(batch.direction[place]), bytes(batch.bytes_of(place)))
                (hit if place in missing else whole).append(found)
    for one in reading.coverage.directions:
        decoded = one.decoded + sum(one.skipped.values()) + one.unfinished + one.not_decodable
        assert one.unique == decoded + one.tls
    return whole, hit, reading


def said(recorded: Recorded) -> list[Message]:
    ways = [(connection.said, way) for connection in recorded.connections for way in (0, 1)]
    return [
        (f"{talk.client[0]}:{talk.client[1]}", way, data)
        for talk, way in ways
        for data in (talk.c2s, talk.s2c)[way]
    ]


def expected(tape: Tape, packets: Sequence[Packet]) -> Counter[bytes]:
    left = untouched(tape, packets)
    return Counter(
        tape.messages[flow][number] for flow, one in left.items() for number in one.messages
    )


def has_hellos(tape: Tape, packets: Sequence[Packet]) -> bool:
    """The first record of each direction is there: without it TLS 1.2 cannot be read."""
    return all(0 in one.records for one in untouched(tape, packets).values())
