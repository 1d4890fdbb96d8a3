"""Whether a connection is TLS, judged by the first bytes of its directions.

The verdict depends on the bytes and on the packets that brought them, never on the chunks that they
come in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.transport.chunk import StreamChunk
from dcpinspect.transport.tls.tls_records import (
    ALERT,
    ANY_RECORD,
    HANDSHAKE_RECORD,
    HEADER,
    MOST_RECORD,
    RECORD,
    record_end,
)

_MOST_HEAD = 2 * MOST_RECORD
"""Bytes of a direction looked at in mid-stream: two records have to chain there."""
_START = HEADER + 1
"""Number of bytes that tell how a direction begins."""
_TAIL = 32
"""Number of latest bytes that are kept, because the header of a message may have begun in them."""
_BEGINNING = re.compile(rb"[\x15-\x17](?:\x03\x03|\x03?\Z)")
"""Matches the start of a record, as ``ANY_RECORD``, or the first of its bytes at the end."""
_HELLOS = (1, 2)
_NO_COLUMNS: IntArray = np.empty((2, 0), np.int64)


FirstHeader = Callable[[ByteArray, bool], int]
"""Returns the number of bytes that show that one of them may begin a message; 0: none may. The
second parameter: the first byte has to begin it.
"""


def no_header(_: ByteArray, __: bool) -> int:
    """Returns 0: no byte can begin the header of a message."""
    return 0


class _Verdict(NamedTuple):
    release: int
    """The packet that brought the byte which decided."""
    is_tls: bool


class _Head:
    """The first bytes of a direction."""

    __slots__ = ("base", "columns", "data", "end", "is_ended", "is_start", "release", "verdict")

    def __init__(self, chunk: StreamChunk) -> None:
        self.data = b""
        self.base = 0
        """Stream offset of ``data``: what was before begins no record and no message."""
        self.end = 0
        """Stream offset of the end of what came; ``data`` may have less."""
        self.columns = _NO_COLUMNS
        """Stream offset and release packet of the segments from the first record on."""
        self.release = 0
        """Release of the latest segment that was looked at."""
        self.is_start = chunk.is_start and not (chunk.holes and chunk.holes[0][0] < _START)
        self.is_ended = False
        self.verdict: _Verdict | None = None

    def add(self, chunk: StreamChunk) -> None:
        self.is_ended |= chunk.is_end
        segments = chunk.segments
        columns = np.stack((segments.offset, segments.release))
        self.columns = np.concatenate((self.columns, columns), axis=1)
        if chunk.offset > self.end:  # a hole that was not filled
            self.data += bytes(min(chunk.offset - self.end, _MOST_HEAD))
        self.data += chunk.data[:_MOST_HEAD].tobytes()
        self.end = chunk.offset + len(chunk.data)

    def judge(self, first_header: FirstHeader) -> _Verdict | None:
        """Returns the verdict if it is certain; call this again with more bytes."""
        data, base, columns = self.data[: _MOST_HEAD - self.base], self.base, self.columns
        edges = {*columns[0].tolist(), self.end}
        header = first_header(np.frombuffer(data, np.uint8), self.is_start and not base)
        verdict = (_of_start(data) if self.is_start and not base else None) or _of_middle(
            data, base, edges, header
        )
        if verdict is not None:
            end, is_tls = verdict
            packet_index = int(np.searchsorted(columns[0], base + end - 1, "right")) - 1
            return _Verdict(
                int(columns[1, packet_index]) if packet_index >= 0 else self.release, is_tls
            )
        self._keep(data)
        return None

    def _keep(self, data: bytes) -> None:
        """Keeps what may still be needed for the verdict: little, for bytes that look like records
        are rare in other streams.
        """
        dropped = max(0, min(_record_in(data), len(data) - _TAIL))
        self.base += dropped
        self.data = data[dropped:]
        self.release = int(self.columns[1].max(initial=self.release))
        if self.record == self.end:  # a deciding byte has not come yet
            self.columns = _NO_COLUMNS

    @property
    def record(self) -> int:
        """Stream offset from which on a record may begin."""
        return self.base + _record_in(self.data)


class Doubt:
    """One connection, until it is certain what both its directions are."""

    __slots__ = ("_first_header", "_heads", "chunks", "is_watched")

    def __init__(self, first_header: FirstHeader = no_header, *, is_watched: bool = False) -> None:
        """``is_watched``: its chunks have passed already, and are only looked at."""
        self.is_watched = is_watched
        self.chunks: list[StreamChunk] = []
        """The chunks that have come."""
        self._first_header = first_header
        self._heads: list[_Head | None] = [None, None]

    def add(self, chunk: StreamChunk) -> None:
        """Takes the next bytes of a direction."""
        self.chunks.append(chunk)
        head = self._heads[chunk.direction]
        if head is None:
            head = self._heads[chunk.direction] = _Head(chunk)
        if head.verdict is None:
            head.add(chunk)

    @property
    def held(self) -> int:
        """Number of bytes that it keeps, roughly."""
        heads = sum(
            len(head.data) + head.columns.nbytes for head in self._heads if head is not None
        )
        return heads + sum(1000 + len(chunk.data) for chunk in self.chunks)

    def judge(self, *, is_last: bool = False) -> list[bool | None]:
        """Returns for each direction whether it is TLS; None if that is not certain yet.
        ``is_last``: no more bytes come.

        A direction is also TLS if it is still uncertain when the other one turns out to be TLS, or
        if it ended before it was certain.
        """
        for head in self._heads:
            if head is not None and head.verdict is None:
                head.verdict = head.judge(self._first_header)
                if head.verdict is not None:
                    head.data, head.columns = b"", _NO_COLUMNS
        if self.is_watched:
            held = [(chunk, self._heads[chunk.direction]) for chunk in self.chunks]
            self.chunks = [
                held_chunk.since(head.record)
                for held_chunk, head in held
                if head is not None and held_chunk.offset + len(held_chunk.data) > head.record
            ]
        verdicts = [None if head is None else head.verdict for head in self._heads]
        proof = min(
            (
                head_verdict.release
                for head_verdict in verdicts
                if head_verdict is not None and head_verdict.is_tls
            ),
            default=None,
        )
        if proof is None:
            has_ended = [head is not None and head.is_ended for head in self._heads]
            is_last |= all(
                is_over or verdict is not None
                for is_over, verdict in zip(has_ended, verdicts, strict=True)
            )
            return [
                False if head_verdict is not None or is_last else None for head_verdict in verdicts
            ]
        return [
            head_verdict is None or head_verdict.is_tls or proof < head_verdict.release
            for head_verdict in verdicts
        ]


def _record_in(data: bytes) -> int:
    """Returns the number of the first byte from which on a record may begin."""
    match = _BEGINNING.search(data)
    return 0 if len(data) < _START else len(data) if match is None else match.start()


def _of_start(data: bytes) -> tuple[int, bool] | None:
    """Returns the number of bytes that show that a direction begins with a hello or an alert; None
    if it does not, or is too short.

    A framer is certain after the same bytes, so no message is found in them, whenever they are
    looked at.
    """
    size, is_alert = int.from_bytes(data[3:HEADER], "big"), data[:1] == bytes([ALERT])
    fits = (
        size == 2
        if is_alert
        else data[:1] == bytes([HANDSHAKE_RECORD]) and 0 < size <= MOST_RECORD - HEADER
    )
    is_so = (
        fits and len(data) >= _START and data[1] == 3 and data[2] <= 4 and data[HEADER] in _HELLOS
    )
    return (_START, True) if is_so else None


def _of_middle(data: bytes, base: int, edges: set[int], header: int) -> tuple[int, bool] | None:
    """Returns the number of bytes that decide, and whether it is TLS, in the middle of a stream;
    None if it is not certain.

    TLS is shown by two records that chain, or by one that fills the first packets. ``base``: stream
    offset of the bytes. ``edges``: where packets begin. ``header``: number of bytes that show that
    it is not TLS; 0: that is not shown.
    """
    stop = header or len(data)
    best: int | None = None
    match = ANY_RECORD.search(data, 0, stop)
    while match is not None and (best is None or match.start() < best):
        end = _proof(data, match.start(), base, edges)
        if end is not None and end <= stop and (best is None or end < best):
            best = end
        match = ANY_RECORD.search(data, match.start() + 1, stop)
    if best is not None:
        return best, True
    if header:
        return header, False
    return (_MOST_HEAD - base, False) if base + len(data) >= _MOST_HEAD else None


def _proof(data: bytes, offset: int, base: int, edges: set[int]) -> int | None:
    """Returns where the bytes end that show a record at this place; None if there is no record."""
    start, end = base + offset, record_end(data, offset)
    if offset + HEADER > len(data) or end - offset > MOST_RECORD:
        return None
    offset = end
    if offset <= len(data) and not start and offset in edges:
        return offset
    if offset + HEADER > len(data) or not RECORD.match(data, offset) or data[offset + 3] >= 0x49:
        return None
    return offset + HEADER
