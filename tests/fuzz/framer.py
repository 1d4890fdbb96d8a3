"""Fuzzing of framing: any bytes, with any holes, in any pieces."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from itertools import pairwise

import numpy as np

from dcpinspect.protocol import resync
from dcpinspect.protocol.framed import Framed
from dcpinspect.protocol.framing import Framer
from dcpinspect.transport.chunk import StreamChunk
from tests.builders import Row, message, mutation, rows_of
from tests.transport_views import segments_of

PIECES = (
    mutation(1),
    mutation(2, vbucket=3, opaque=0x33, value=b"v" * 90),
    mutation(7, vbucket=9, opaque=0x99, key=b"k" * 30, value=b""),
    message(opcode=0x53, extras=bytes(48), specific=3, opaque=0x33),
    message(magic=0x81, opcode=0x53, value=bytes(16), opaque=0x33),
    message(opcode=0x56, extras=bytes(20), specific=7, opaque=0x11),
    message(opcode=0x5C),
    message(magic=0x82, opcode=1, extras=bytes(4)),
    message(magic=0x08, opcode=0x57, extras=bytes(31), key=b"key", specific=7, opaque=0x11)[:2]
    + b"\x03\x03"
    + bytes(20)
    + b"\x00" * 50,
    message(
        extras=bytes(31),
        key=b"doc",
        value=b"".join(mutation(n, vbucket=20, opaque=0xBAD) for n in range(6)),
        specific=7,
        opaque=0x11,
    ),
    message(extras=bytes(31), key=b"big", value=bytes(600), specific=7, opaque=0x11),
    b"\x80\x57\x00\x03\x1f\x00\x00\x07\xff\xff\xff\xf0",
)
"""What a program can put into the stream beside raw bytes."""


class Program:
    """Bytes that say what to do: numbers from the end, so that a change at the front does not move
    them.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, below: int) -> int:
        """The next number; 0 when there are no more bytes."""
        width = 1 if below <= 256 else 2
        taken, self.data = self.data[-width:], self.data[:-width]
        return int.from_bytes(taken, "big") % below


def build(program: Program) -> tuple[bytes, list[tuple[int, int]], list[int], list[int], bool]:
    """A stream: its bytes (holes zero), holes, where segments begin, where chunks begin, whether it
    begins at a SYN.
    """
    is_start = program.number(2) == 1
    resync.TRIAL_BYTES = (64, 500, 2000, 256 << 10)[program.number(4)]
    resync._SCAN = (24, 100, 4096)[program.number(3)]
    gaps = [(program.number(1 << 12), program.number(300)) for _ in range(program.number(5))]
    segments = [program.number(400) for _ in range(program.number(24))]
    chunks = [program.number(900) for _ in range(program.number(16))]
    out = bytearray()
    code = program.data
    at = 0
    while at < len(code) and len(out) < 12_000:
        size = code[at] & 63
        if code[at] < 64:
            out += code[at + 1 : at + 1 + size]
            at += 1 + size
        else:
            piece = bytearray(PIECES[size % len(PIECES)])
            if code[at] >= 192 and at + 2 < len(code):  # one byte changed
                piece[code[at + 1] % min(len(piece), 40)] = code[at + 2]
                at += 2
            out += piece
            at += 1
    holes: list[tuple[int, int]] = []
    for start, length in sorted(gaps):
        low = max(start, holes[-1][1] + 1 if holes else 0)
        high = min(start + length, len(out))
        if high > low:
            holes.append((low, high))
            out[low:high] = bytes(high - low)
    return (
        bytes(out),
        holes,
        _cuts(segments, len(out), holes),
        _cuts(chunks, len(out), holes),
        is_start,
    )


def _cuts(sizes: Iterable[int], end: int, holes: list[tuple[int, int]]) -> list[int]:
    """Places to cut at, none inside a hole."""
    at = 0
    cuts = {0}
    for size in sizes:
        at += size + 1
        cuts.add(next((high for low, high in holes if low < at < high), at))
    return sorted(cut for cut in cuts if cut < end)


def chunks(
    data: bytes,
    holes: list[tuple[int, int]],
    segments: list[int],
    cuts: list[int],
    *,
    is_start: bool,
) -> list[StreamChunk]:
    """The stream in chunks that begin at ``cuts``; packets come from segments, each hole is one
    that a later packet decided.
    """
    begins = sorted(
        {*segments, *cuts, *(edge for hole in holes for edge in hole if edge < len(data))}
    )
    packet = [int(np.searchsorted(segments, begin, "right")) for begin in begins]
    lost = [any(low <= begin < high for low, high in holes) for begin in begins]
    release = np.maximum.accumulate(
        np.array([number + 3 * gone for number, gone in zip(packet, lost, strict=True)], np.int64)
    )
    found = []
    for start, end in pairwise([*cuts, len(data)]):
        rows = [i for i, begin in enumerate(begins) if start <= begin < end]
        numbers = np.array([packet[i] for i in rows], np.int64)
        frame = np.array([0 if lost[i] else packet[i] + 1 for i in rows], np.int64)
        columns = segments_of(
            np.array([begins[i] for i in rows], np.int64),
            numbers,
            frame,
            numbers * 0,
            numbers * 1000,
            release[rows],
        )
        inside = tuple((low, high) for low, high in holes if start <= low < end)
        part = np.frombuffer(data[start:end], np.uint8)
        found.append(
            StreamChunk(
                1, 1, start, part, columns, inside, is_start and start == 0, end == len(data)
            )
        )
    return found


def stepped(parts: list[StreamChunk]) -> list[StreamChunk]:
    """The same chunks, cut before every hole, which is then stepped over instead of filled."""
    found = []
    for part in parts:
        edges = [
            part.offset,
            *(low for low, _ in part.holes if low > part.offset),
            part.offset + len(part.data),
        ]
        holes = dict(part.holes)
        for start, end in pairwise(edges):
            begin = holes.get(start, start)
            rows = (part.segments.offset >= start) & (part.segments.offset < end)
            columns = part.segments[np.flatnonzero(rows)]
            own = ((start, begin),) if begin > start else ()
            body = part.data[begin - part.offset : end - part.offset]
            last = part.is_end and end == edges[-1]
            found.append(
                StreamChunk(
                    1, 1, begin, body, columns, own, part.is_start and start == part.offset, last
                )
            )
    return found


def framed(parts: list[StreamChunk]) -> tuple[list[Row], list[tuple[int, int, str]], int, Framer]:
    """Rows, skipped ranges, unfinished bytes; the framer for its account."""
    framer = Framer()
    results: list[Framed] = [result for result in map(framer.feed, parts) if result is not None]
    rows = [row for result in results for row in rows_of(result)]
    skipped = [
        one
        for result in results
        for one in zip(
            result.skipped_start.tolist(),
            result.skipped_end.tolist(),
            result.skipped_reason,
            strict=True,
        )
    ]
    return rows, skipped, sum(result.unfinished for result in results), framer


def check(program: bytes) -> set[Hashable]:
    """Messages, skipped and unfinished bytes cover the stream, each byte once, and are the same in
    any chunks.
    """
    before = resync.TRIAL_BYTES, resync._SCAN
    try:
        return _checked(*build(Program(program)))
    finally:
        resync.TRIAL_BYTES, resync._SCAN = before


def _checked(
    data: bytes, holes: list[tuple[int, int]], segments: list[int], cuts: list[int], is_start: bool
) -> set[Hashable]:
    if not data:
        return set()
    whole = chunks(data, holes, segments, [0], is_start=is_start)
    rows, skipped, unfinished, framer = framed(whole)
    account = framer.account
    assert account.messages + account.skipped + account.unfinished == len(data) - sum(
        high - low for low, high in holes
    )
    assert unfinished == account.unfinished
    places = [(row.stream_offset, row.stream_offset + len(row.data)) for row in rows]
    assert places == sorted(places)
    places = sorted(places + [(start, end) for start, end, _ in skipped])
    assert all(before[1] == after[0] for before, after in pairwise(places))
    assert not places or (places[0][0] == 0 and places[-1][1] <= len(data))
    for row in rows:
        start, end = row.stream_offset, row.stream_offset + len(row.data)
        assert row.data == data[start:end]
        assert end - start == 24 + int.from_bytes(row.data[8:12], "big")
        assert row.missing == tuple(
            (max(low, start) - start, min(high, end) - start)
            for low, high in holes
            if low < end and high > start
        )
        assert not row.missing or row.missing[0][0] >= 24
        assert row.release >= row.last_frame - 1
    pieces = chunks(data, holes, segments, cuts, is_start=is_start)
    for other in (pieces, stepped(whole), stepped(pieces)):
        again = framed(other)
        assert again[0] == rows
        assert again[1:3] == (skipped, unfinished)
        assert again[3].account == account
    told = {(row.data[:2], bool(row.missing), row.heuristic) for row in rows}
    return {
        *told,
        *((reason, len(holes)) for _, _, reason in skipped),
        (bool(unfinished), is_start, account.first_fault is None),
    }


def program(rng: random.Random) -> bytes:
    """A stream of a few messages, some of them changed, and numbers."""
    made = bytearray()
    for _ in range(rng.randrange(1, 16)):
        code = rng.choice((64, 64, 192, 0)) + rng.randrange(64)
        made.append(code)
        made += rng.randbytes(code if code < 64 else 2 if code >= 192 else 0)
    return bytes(made) + rng.randbytes(rng.randrange(40))
