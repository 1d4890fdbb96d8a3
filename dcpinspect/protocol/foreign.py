"""Other protocols on a port that should carry messages: TLS, and memcached's text protocol.

A direction that has not shown a message yet may be one of these. Its first bytes are looked at beside the search for messages. What it
begins with, after a handshake, is certain. In the middle of a stream it is not, since a value of a message may hold anything: then the
search goes on, and what was recognised only explains why nothing was found.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Column = npt.NDArray[np.int64]

TLS = "tls"
MEMCACHED_TEXT = "memcached-text"
NAMES = frozenset((TLS, MEMCACHED_TEXT))

MAX_LOOKED_AT = 256 << 10
"""Bytes of a direction that are looked at: more than ten TLS records."""
_PROOF = 3
"""TLS records that chain, or lines of text, in the middle of a stream."""
_MAX_LINE = 2048
"""memcached's own limit."""
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
    rb"|END|STORED|NOT_STORED|EXISTS|NOT_FOUND|DELETED|TOUCHED|ERROR|CLIENT_ERROR [ -~]*|SERVER_ERROR [ -~]*|OK|RESET"
    rb"|VA \d+(?: [ -~]*)?|HD(?: [ -~]*)?|EN|MN)\r\n"
)


class Recogniser:
    """Keeps the first bytes of one direction, of these no more than the run without holes at hand."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._run = bytearray()
        self._origin = 0
        self._is_start = False
        self._left = MAX_LOOKED_AT

    def add(self, data: Bytes, offset: int, holes: Column, *, is_start: bool) -> None:
        """The next bytes of the direction, from stream offset ``offset`` on; ``holes`` as in ``Stretch.holes``."""
        at, end = offset, offset + len(data)
        for hole, after in [*holes.tolist(), [end, end]]:
            stop = min(end, at + self._left, hole)
            if stop > at:
                if at != self._origin + len(self._run) or not self._run:
                    self.name()
                    self._run, self._origin = bytearray(), at
                    self._is_start = is_start and at == offset
                self._run += data[at - offset : stop - offset].tobytes()
                self._left -= stop - at
            at = max(at, after)

    def certain(self) -> tuple[str, int] | None:
        """What the direction begins with, and the stream offset after the byte that proves it."""
        if not self._is_start or not self._run:
            return None
        first = bytes(self._run[:_MAX_LINE])
        if line := _LINE.match(first):
            return MEMCACHED_TEXT, self._origin + line.end()
        if len(first) > _RECORD_HEADER and _records(first[: _RECORD_HEADER + 1]):
            is_hello = first[0] == _HANDSHAKE and first[5] in (1, 2)
            is_alert = first[0] == _ALERT and first[3:5] == b"\0\2" and first[5] in (1, 2)
            if is_hello or is_alert:
                return TLS, self._origin + _RECORD_HEADER + 1
        return None

    def name(self) -> str | None:
        """What the bytes so far look like."""
        if self._name is None and self._run:
            run = bytes(self._run)
            certain = self.certain()
            self._name = certain[0] if certain else TLS if _is_tls(run) else MEMCACHED_TEXT if _is_memcached_text(run) else None
        return self._name


def _records(run: bytes) -> dict[int, int]:
    """Where ``run`` has what may be the header of a record, and where the next one would be."""
    data = np.frombuffer(run, np.uint8)
    last = len(data) - _RECORD_HEADER + 1
    if last <= 0:
        return {}
    length = (data[3 : last + 3].astype(np.int64) << 8) | data[4 : last + 4]
    is_header = (data[:last] >= 0x14) & (data[:last] <= 0x17) & (data[1 : last + 1] == 3) & (data[2 : last + 2] <= 4)
    at = np.flatnonzero(is_header & (length > 0) & (length <= _MAX_RECORD))
    return dict(zip(at.tolist(), (at + _RECORD_HEADER + length[at]).tolist(), strict=True))


def _is_tls(run: bytes) -> bool:
    """Three records that chain, or nothing but records."""
    counts: dict[int, int] = {}
    whole = 0
    for at, after in _records(run).items():
        count = counts.pop(at, 0) + 1
        whole = after if at == whole else whole
        if count == _PROOF or whole == len(run):
            return True
        counts[after] = max(count, counts.get(after, 0))
    return False


def _is_memcached_text(run: bytes) -> bool:
    """Three lines, or two of few."""
    lines = [match.start() for match in _LINE.finditer(run) if match.start() == 0 or run[match.start() - 1] == 0x0A]
    return len(lines) >= _PROOF or (len(lines) == _PROOF - 1 and len(run) < _MAX_LINE)
