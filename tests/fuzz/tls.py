"""Fuzzing of decryption: a conversation over TLS, damaged in any way, in any pieces, with its key
log.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dcpinspect.transport.chunk import StreamChunk
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.keylog import KeyLog
from dcpinspect.transport.tls.stage import TlsStage
from tests.fuzz.framer import Program
from tests.tls.endpoint import Sealed
from tests.tls.invented import HANDSHAKE_RECORD, Invented, Piece, chunks, message, pieces

SUITES = (
    ("TLS_AES_128_GCM_SHA256", False),
    ("TLS_CHACHA20_POLY1305_SHA256", False),
    ("TLS_AES_256_GCM_SHA384", False),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", False),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", False),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", True),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", False),
)
SEARCH = 1 << 14
"""Secrets and sequence numbers that are tried for what began before the capture: of these
conversations some hundred have to be.
"""
_SIZES = (100, 0, 1, 24, 1400, 90, 300, 2, 5000, 60, 60, 700)
_RAW = (
    b"\x17\x03\x03\x00\x20",
    b"\x16\x03\x01\x40\x00",
    b"\x17\x03\x03\xff\xff",
    b"\x14\x03\x03\x00\x01\x01",
    b"\x17\x03\x03\0\0",
    b"\0",
)


@cache
def talk(number: int) -> Invented:
    """One of the conversations: each suite as it is mostly spoken, then with what is rare in it."""
    suite, encrypt_then_mac = SUITES[number % len(SUITES)]
    is_rare = number >= len(SUITES)
    made = Invented(suite, encrypt_then_mac=encrypt_then_mac, offers_early=is_rare)
    rng = random.Random(number)
    for place in range(3 * len(_SIZES)):
        direction = rng.randrange(2)
        size = _SIZES[place % len(_SIZES)]
        made.send(
            direction,
            rng.randbytes(size),
            padding=160
            if is_rare and place % 5 == 0 and "1305" not in suite and "GCM" not in suite
            else 0,
        )
        if is_rare and made.is_1_3 and place % 7 == 3:
            made.update(direction)
        elif is_rare and place % 4 == 1:
            made.send(direction, message(0) if made.is_1_3 else b"", kind=HANDSHAKE_RECORD)
    return made


@dataclass(frozen=True, slots=True)
class Damaged:
    """What is left of a conversation."""

    packets: list[Piece]
    sizes: list[int]
    """Packets of each batch."""
    is_start: bool
    is_end: bool
    is_lossy: bool
    """Packets are missing, and nothing else was done: what is there was said."""


def damaged(program: Program, writes: Sequence[tuple[int, bytes]]) -> Damaged:
    """Packets are taken away, changed, doubled, exchanged."""
    packets = pieces(writes, (1448, 100, 17, 500, 9000)[program.number(5)])
    is_start, is_end = program.number(8) != 1, program.number(4) != 1
    first = 0 if is_start else program.number(len(packets))
    is_lossy = True
    for _ in range(program.number(8)):
        kind, place = program.number(12), program.number(len(packets))
        piece = packets[place]
        if kind < 8:
            for one in range(place, min(place + 1 + kind // 3, len(packets))):
                packets[one] = replace(packets[one], is_lost=True)
            continue
        is_lossy = False
        at = program.number(len(piece.data) or 1)
        if kind == 8:
            flipped = bytearray(piece.data)
            if flipped:
                flipped[at] ^= 1 + program.number(255)
            packets[place] = replace(piece, data=bytes(flipped))
        elif kind == 9:
            raw = (_RAW[program.number(len(_RAW))] * (1 + program.number(400)))[
                : len(piece.data) - at
            ]
            packets[place] = replace(
                piece, data=piece.data[:at] + raw + piece.data[at + len(raw) :]
            )
        else:  # as if another packet of the side had been there
            like = piece.direction, len(piece.data)
            others = [
                one
                for one, other in enumerate(packets)
                if (other.direction, len(other.data)) == like
            ]
            other = others[program.number(len(others))]
            packets[place] = replace(piece, data=packets[other].data)
            if kind == 10:
                packets[other] = replace(packets[other], data=piece.data)
    kept = packets[first : len(packets) - (0 if is_end else program.number(len(packets)))]
    starts = [
        next((piece.start for piece in kept if piece.direction == side), 0) for side in (0, 1)
    ]
    moved = [
        Piece(one.direction, one.start - starts[one.direction], one.data, one.is_lost, one.packet)
        for one in kept
    ]
    sizes = [1 + program.number(12) for _ in range(program.number(40))]
    return Damaged(moved, sizes, is_start, is_end, is_lossy and is_start)


def _keys(said: Invented) -> KeyLog:
    keys = said.keys()
    keys.search = SEARCH
    return keys


def opened(keys: KeyLog, parts: Sequence[StreamChunk]) -> tuple[list[StreamChunk], TlsStage]:
    """What the stage makes of chunks, one call for each of them."""
    stage = TlsStage(keys)
    found = [
        chunk
        for place, part in enumerate(parts)
        for chunk in stage.plain([part], is_last=place == len(parts) - 1)
    ]
    return found, stage


def texts(found: Sequence[StreamChunk], direction: int) -> list[tuple[int, bytes]]:
    """Offset and bytes of each stretch without a hole."""
    joined: list[tuple[int, bytes]] = [(0, b"")]
    at = 0
    for chunk in found:
        if chunk.direction != direction:
            continue
        assert not chunk.is_start or (chunk.offset == 0 and not chunk.holes)
        assert all(start <= end <= chunk.offset for start, end in chunk.holes)
        assert (chunk.holes[0][0] if chunk.holes else chunk.offset) == at
        at = chunk.offset + len(chunk.data)
        if chunk.holes:
            joined.append((chunk.offset, b""))
        joined[-1] = (joined[-1][0], joined[-1][1] + chunk.data.tobytes())
    return [one for one in joined if one[1]]


def check(data: bytes) -> set[Hashable]:
    """Nothing is invented, nothing is raised, every byte is counted, and chunks of any size give
    the same.
    """
    program = Program(data)
    number = program.number(2 * len(SUITES))
    said = talk(number)
    what = damaged(program, said.writes)
    parts = chunks(what.packets, what.sizes, is_start=what.is_start, is_end=what.is_end)
    found, stage = opened(_keys(said), parts)
    about = stage.connections.get(1)
    if about is None or not about.is_open:
        assert [
            (chunk.direction, chunk.offset, chunk.data.tobytes())
            for chunk in sorted(found, key=_place)
        ] == [
            (chunk.direction, chunk.offset, chunk.data.tobytes())
            for chunk in sorted(parts, key=_place)
        ]
        return {(number, "closed")}
    for direction in (0, 1):
        got = texts(found, direction)
        held = untouched(what, said, direction) if what.is_lossy else []
        has_handshake = (
            said.ledgers[direction].records[: said.handshake[direction]]
            == held[: said.handshake[direction]]
        )
        # Of records that are lost with CBC, and of those that TLS sends for itself, it cannot be
        # known how much they said.
        _was_said(
            got,
            said,
            direction,
            is_exact=has_handshake and number < len(SUITES) and "CBC" not in SUITES[number][0],
        )
        _is_counted(what, about, found, direction)
        if what.is_lossy and what.is_end and _has_handshake(what, said):
            assert sum(len(text) for _, text in got) >= sum(
                record.plain_end - record.plain_start for record in held
            )
    whole, _ = opened(_keys(said), chunks(what.packets, is_start=what.is_start, is_end=what.is_end))
    if what.is_end and _has_handshake(what, said):
        assert [texts(whole, direction) for direction in (0, 1)] == [
            texts(found, direction) for direction in (0, 1)
        ]
    return {
        (
            number,
            side,
            bool(about.records[side].lost),
            bool(about.records[side].refused),
            len(texts(found, side)).bit_length(),
        )
        for side in (0, 1)
    }


def program(rng: random.Random) -> bytes:
    """Any numbers do."""
    return rng.randbytes(rng.randrange(4, 100))


def _place(chunk: StreamChunk) -> tuple[int, int, int]:
    return chunk.direction, chunk.offset, len(chunk.data)


def _was_said(
    got: Sequence[tuple[int, bytes]], said: Invented, direction: int, *, is_exact: bool
) -> None:
    """Each stretch is what whole records say, one behind the other; in the order in which they were
    said.
    """
    plain = bytes(said.plain[direction])
    edges = {
        edge
        for record in said.ledgers[direction].records
        for edge in (record.plain_start, record.plain_end)
    }
    at = 0
    for offset, text in got:
        if is_exact:
            assert plain[offset : offset + len(text)] == text
        place = plain.find(text, at)
        while place >= 0 and not {place, place + len(text)} <= edges:
            place = plain.find(text, place + 1)
        assert place >= 0
        at = place + len(text)


def _is_counted(
    what: Damaged, about: TlsConnection, found: Sequence[StreamChunk], direction: int
) -> None:
    records = about.records[direction]
    given = sum(
        len(piece.data)
        for piece in what.packets
        if piece.direction == direction and not piece.is_lost
    )
    assert records.plain == sum(len(chunk.data) for chunk in found if chunk.direction == direction)
    assert records.plain + records.overhead <= given
    if what.is_end:
        assert records.plain + records.overhead == given


def untouched(what: Damaged, said: Invented, direction: int) -> list[Sealed]:
    """The records that are there whole."""
    gone = [
        (piece.start, piece.end)
        for piece in what.packets
        if piece.direction == direction and piece.is_lost
    ]
    return [
        record
        for record in said.ledgers[direction].records
        if all(record.end <= start or end <= record.start for start, end in gone)
    ]


def _has_handshake(what: Damaged, said: Invented) -> bool:
    """Its hellos are there."""
    return what.is_start and all(
        said.ledgers[side].records[0] in untouched(what, said, side) for side in (0, 1)
    )
