"""Other protocols on a port that should carry messages: TLS, memcached's text protocol, and HTTP.

A direction that has not shown a message yet may be one of these. Its first bytes are looked at
beside the search for messages. What it begins with, after a handshake, is certain. In the middle of
a stream it is not, since the value of a message may hold anything. Then the search goes on, and
what was recognised only explains why nothing was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray

TLS = "tls"
MEMCACHED_TEXT = "memcached-text"
HTTP = "http"
NAMES = frozenset((TLS, MEMCACHED_TEXT, HTTP))

MAX_LOOKED_AT = 256 << 10
"""Number of bytes of a direction that are looked at: more than ten TLS records."""
_PROOF = 3
"""Number of TLS records that chain, or of lines of text, that are enough in the middle of a stream.
"""
_MAX_LINE = 2048
"""Size of the longest line: memcached's own limit."""
_MAX_RECORD = 18_432
"""2^14 bytes and what encryption may add (RFC 5246, 6.2.3)."""
_RECORD_HEADER = 5
_HANDSHAKE, _ALERT = 0x16, 0x15

_KEY = rb"[!-~]{1,250}"
_LINE = re.compile(
    rb"(?:(?:gets?|touch|incr|decr|delete|gats?|mg|md|ma|me) " + _KEY + rb"(?: [ -~]*)?"
    rb"|(?:set|add|replace|append|prepend|cas) " + _KEY + rb" \d+ -?\d+ \d+(?: \d+)?(?: noreply)?"
    rb"|ms " + _KEY + rb" \d+(?: [ -~]*)?"
    rb"|stats(?: [a-z]+)?|version|verbosity \d+|flush_all(?: \d+)?(?: noreply)?|quit|mn"
    rb"|VALUE " + _KEY + rb" \d+ \d+(?: \d+)?|STAT " + _KEY + rb" [ -~]*|VERSION [ -~]+"
    rb"|END|STORED|NOT_STORED|EXISTS|NOT_FOUND|DELETED|TOUCHED|ERROR|CLIENT_ERROR [ "
    rb"-~]*|SERVER_ERROR [ -~]*|OK|RESET"
    rb"|VA \d+(?: [ -~]*)?|HD(?: [ -~]*)?|EN|MN)\r\n"
)


_HTTP_LINE = re.compile(rb"(?:[A-Z]{3,16} [!-~]+ HTTP/\d\.\d|HTTP/\d\.\d \d{3}(?: [ -~]*)?)\r?\n")
"""The first line of a request or an answer, also the one by which a client begins HTTP/2."""

_LINE_STARTS = (
    b"ge to in de ga mg md ma me se ad re ap pr ca ms st ve fl qu mn VA ST VE EN NO EX "
    b"DE TO ER CL SE OK RE HD MN"
)
_HTTP_STARTS = b"GE HE PO PU DE OP TR CO PA PR HT"
"""The first two letters of each of these lines; those of a PROXY header (transport/proxy.py) are
among them, or end a line.
"""


def _starts(*pairs: bytes) -> BoolArray:
    is_start = np.zeros(1 << 16, np.bool_)
    is_start[[start[0] << 8 | start[1] for start in pairs]] = True
    return is_start


_BEGINS_HTTP = _starts(*_HTTP_STARTS.split())
_BEGINS_LINE = _starts(*_LINE_STARTS.split(), b"\r\n") | _BEGINS_HTTP


def begins_http(data: ByteArray, start: IntArray) -> BoolArray:
    """Returns, for pieces of ``data``, whether they may begin a line of HTTP by two letters."""
    letters_start = np.minimum(start, max(0, len(data) - 2))
    return (
        _BEGINS_HTTP[data[letters_start].astype(np.int64) << 8 | data[letters_start + 1]]
        if len(data) > 1
        else start < 0
    )


def is_http(data: ByteArray) -> bool:
    """Returns whether a stream that begins with these bytes is HTTP."""
    return _HTTP_LINE.match(data[:_MAX_LINE].tobytes()) is not None


def may_be_foreign(data: ByteArray, start: IntArray, end: IntArray) -> BoolArray:
    """Returns, for successive pieces of ``data``, whether any line may be one of text, or any bytes
    the start of a TLS record.

    This holds for everything that a ``Recogniser`` would name, and for some more.
    """
    is_foreign = np.zeros(len(start), dtype=np.bool_)
    if len(data) < 3:
        return ~is_foreign
    lines = 1 + np.flatnonzero(data[:-2] == ord("\n"))
    line_start = np.concatenate((start, lines))
    line_start = line_start[line_start + 2 <= len(data)]
    line_start = line_start[
        _BEGINS_LINE[data[line_start].astype(np.int64) << 8 | data[line_start + 1]]
    ]
    kind, version, minor = data[:-2], data[1:-1], data[2:]
    records = np.flatnonzero((kind >= 0x14) & (kind <= 0x17) & (version == 3) & (minor <= 4))
    is_foreign[np.searchsorted(start, np.concatenate((line_start, records)), "right") - 1] = True
    is_foreign |= (end - start < 3) & (data[start] == _HANDSHAKE)
    return is_foreign


_RECORD = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")
"""Matches the start of a TLS record's header: type and version."""
_OTHER_BYTES = re.compile(rb"[^ -~\r\n]")
"""Matches a byte that no line of text holds."""
_MAX_DUE = 64
"""Greatest number of places waited for where a record should begin; cipher text shows one by chance
every three million bytes.
"""


class Recogniser:
    """Follows the first bytes of one direction. While they may matter, it keeps the current line of
    text and the last 4 bytes.
    """

    __slots__ = (
        "_certain",
        "_due",
        "_end",
        "_head",
        "_is_tls",
        "_left",
        "_line",
        "_lines",
        "_name",
        "_size",
        "_tail",
        "_whole",
    )

    def __init__(self) -> None:
        self._name: str | None = None
        self._certain: tuple[str, int] | None = None
        self._left = MAX_LOOKED_AT
        self._end = 0  # stream offset after the last byte looked at
        self._begin(None)

    def _begin(self, head: bytes | None) -> None:
        """Begins another run of bytes without a hole; ``head``: takes its first bytes."""
        self._size = 0
        self._head = head
        self._line: bytes | None = b""  # the current line so far; None if it is no text
        self._lines = 0
        self._tail = b""
        self._whole = 0  # how far the run is nothing but records
        self._due: dict[int, int] | None = (
            # place where the next record should begin -> number of records that chain up to it
            None
        )
        self._is_tls = False

    def add(
        self, data: ByteArray, offset: int, holes: Sequence[tuple[int, int]], *, is_start: bool
    ) -> None:
        """Takes the next bytes of the direction, from stream offset ``offset`` on; ``holes``:
        [start, end) of missing bytes.
        """
        position, end = offset, offset + len(data)
        for hole, after in (*holes, (end, end)):
            stop = min(end, position + self._left, hole)
            if stop > position:
                if position != self._end or not self._size:
                    self.name()
                    self._begin(b"" if is_start and position == offset else None)
                self._extend(data[position - offset : stop - offset].tobytes(), position)
                self._end = stop
                self._left -= stop - position
            position = max(position, after)

    def certain(self) -> tuple[str, int] | None:
        """Returns the protocol that the direction begins with, and the stream offset after the byte
        that proves it; None if not certain.
        """
        return self._certain

    def name(self) -> str | None:
        """Returns the protocol that the bytes so far look like, or None."""
        if self._name is None and self._size:
            if self._certain is not None:
                self._name = self._certain[0]
            elif self._is_tls or self._whole == self._size:
                self._name = TLS
            elif self._lines >= _PROOF or (self._lines == _PROOF - 1 and self._size < _MAX_LINE):
                self._name = MEMCACHED_TEXT
        return self._name

    def _extend(self, piece: bytes, at: int) -> None:
        if self._head is not None and len(self._head) <= _RECORD_HEADER:
            before = len(self._head)
            self._head = head = self._head + piece[: _RECORD_HEADER + 1 - before]
            if _is_tls_start(head):
                self._certain = TLS, at - before + _RECORD_HEADER + 1
        if self._lines < _PROOF and not self._is_tls:
            self._read_lines(piece, at)
        if not self._is_tls:
            self._read_records(piece)
        self._size += len(piece)

    def _read_lines(self, piece: bytes, at: int) -> None:
        start = 0
        while (end := piece.find(b"\n", start) + 1) > 0:
            self._read_line(piece[start:end])
            is_first = (
                self._head is not None
                and self._line is not None
                and self._size + end == len(self._line) <= _MAX_LINE
            )
            if is_first and self._line is not None and _HTTP_LINE.fullmatch(self._line):
                self._certain = HTTP, at + end
            elif self._line is not None and _LINE.match(self._line):
                self._lines += 1
                if is_first:
                    self._certain = MEMCACHED_TEXT, at + end
            self._line = b""
            start = end
        self._read_line(piece[start:])

    def _read_line(self, line_bytes: bytes) -> None:
        """Takes more of the current line. The middle of a long line is dropped: its beginning tells
        what it is.
        """
        if self._line is None or _OTHER_BYTES.search(line_bytes):
            self._line = None
            return
        line = self._line + line_bytes
        if len(line) > _MAX_LINE + 2:
            self._line = None if b"\r" in line[_MAX_LINE:-2] else line[:_MAX_LINE] + line[-2:]
        else:
            self._line = line

    def _read_records(self, piece: bytes) -> None:
        """Takes bytes that may be records: three records that chain are TLS."""
        data = self._tail + piece
        origin = self._size - len(self._tail)
        for match in _RECORD.finditer(data, 0, max(0, len(data) - 2)):
            record_start = match.start()
            length = data[record_start + 3] << 8 | data[record_start + 4]
            if 0 < length <= _MAX_RECORD:
                self._meet_record(
                    origin + record_start, origin + record_start + _RECORD_HEADER + length
                )
        self._tail = data[1 - _RECORD_HEADER :]

    def _meet_record(self, at: int, after: int) -> None:
        if self._due is None or len(self._due) >= _MAX_DUE:
            self._due = {
                due_offset: count
                for due_offset, count in (self._due or {}).items()
                if due_offset >= at
            }
        count = self._due.pop(at, 0) + 1
        if at == self._whole:
            self._whole = after
        if count >= _PROOF:
            self._is_tls, self._due = True, None
        elif len(self._due) < _MAX_DUE:
            self._due[after] = max(count, self._due.get(after, 0))


def _is_tls_start(head: bytes) -> bool:
    """Returns whether a direction beginning with these 6 bytes is TLS: a hello, or an alert."""
    if (
        len(head) <= _RECORD_HEADER
        or not _RECORD.match(head)
        or not 0 < (head[3] << 8 | head[4]) <= _MAX_RECORD
    ):
        return False
    is_alert = head[0] == _ALERT and head[3:5] == b"\0\2"
    return (head[0] == _HANDSHAKE or is_alert) and head[5] in (1, 2)
