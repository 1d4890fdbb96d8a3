"""Puts IP fragments together again, within bounds of memory and time.

Scapy's ``IPSession`` keeps fragments for ever, and refuses a datagram of which one fragment was
captured twice (``-i any``, a mirror port). So this module has its own table. It knows nothing of
headers: its caller says which datagram a fragment belongs to, and where in it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field

from dcpinspect.lazy_dataclass import dataclass

MAX_LENGTH = 65_535
MAX_PIECES = 256
"""Greatest number of fragments of one datagram: at the smallest MTU in use (576 bytes) the longest
datagram has 119.
"""
MAX_BYTES = 4 << 20
PIECE_COST = 256
"""What a fragment costs in addition to its bytes, so that tiny fragments are bounded too."""
MAX_AGE_NS = 5_000_000_000
"""Capture time after which the missing fragments are no longer expected. A fast sender reuses an
identification within seconds (RFC 4963).
"""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment of a datagram."""

    key: Hashable
    """What all fragments of its datagram have in common."""
    start: int
    """Where it begins in the datagram."""
    length: int
    """Number of bytes on the wire."""
    data: bytes
    """Its bytes, up to the first one that snaplen cut."""
    more: bool
    """Whether others follow."""
    head: bytes
    """The header of the datagram."""
    network: int = 0


@dataclass(frozen=True, slots=True)
class Datagram:
    """What the fragments of one datagram carried."""

    head: bytes
    """The header, as given with the fragment that begins the datagram."""
    data: bytes
    """The payload up to the first byte that snaplen cut."""
    length: int
    """Number of bytes of payload on the wire."""
    packets: tuple[int, ...] = field(default=(), compare=False)
    """The packets of its fragments, by the numbers given with them."""


@dataclass(slots=True)
class _Pieces:
    """The fragments of one datagram so far."""

    began_ns: int
    pieces: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """The captured bytes of fragments, by (first byte, byte after the last), in order of arrival.
    """
    size: int = 0
    """Number of bytes in all fragments; those that overlap count twice."""
    end: int = 0
    """The byte after the last one of any fragment."""
    packets: list[int] = field(default_factory=list)
    head: bytes = b""
    total: int = -1
    is_complete: bool = False

    def holds(self, start: int, end: int, data: bytes) -> bool | None:
        """Returns whether this very fragment is here already; ``None`` if it cannot belong to the
        same datagram.
        """
        same_range = self.pieces.get((start, end))
        if same_range is not None:
            size = min(len(data), len(same_range))
            return True if data[:size] == same_range[:size] else None
        if self.is_complete or (self.total >= 0 and end > self.total):
            return None
        return False

    def add(self, start: int, end: int, data: bytes, packet: int) -> None:
        """Adds a fragment."""
        self.pieces[start, end] = data
        self.packets.append(packet)
        self.size += end - start
        self.end = max(self.end, end)

    @property
    def are_all(self) -> bool:
        """Whether no byte is missing."""
        if self.total < 0 or self.size < self.total:
            return False
        end = 0
        for start, stop in sorted(self.pieces):
            if start > end:
                break
            end = max(end, stop)
        return end >= self.total

    def datagram(self) -> Datagram:
        """Returns the datagram; where fragments overlap, the first copy counts."""
        data = bytearray(self.total)
        captured = 0
        for (start, _), piece in reversed(self.pieces.items()):
            data[start : start + len(piece)] = piece
        for start, size in sorted((start, len(piece)) for (start, _), piece in self.pieces.items()):
            if start > captured:
                break
            captured = max(captured, start + size)
        return Datagram(
            self.head, bytes(data[: min(captured, self.total)]), self.total, tuple(self.packets)
        )


class Fragments:
    """Datagrams that wait for fragments, and those just completed, to recognise copies."""

    def __init__(self) -> None:
        self.lost = 0
        """Number of fragments whose datagram was never completed."""
        self._waiting: dict[Hashable, _Pieces] = {}
        self._bytes = 0

    def add(self, fragment: Fragment, time_ns: int, packet: int = -1) -> Datagram | None:
        """Returns the datagram that this fragment, of packet ``packet``, completes; None if some
        are missing. Raises ``ValueError`` for an impossible one.
        """
        key, data, more = fragment.key, fragment.data, fragment.more
        start, length = fragment.start, fragment.length
        end = start + length
        if length <= 0 or end > MAX_LENGTH or (more and length % 8):
            raise ValueError("no such fragment")
        self._make_room(time_ns, len(data) + PIECE_COST)
        datagram = self._waiting.get(key)
        if datagram is not None:
            held = datagram.holds(start, end, data)
            if held:
                return None
            if (
                held is None
                or len(datagram.pieces) == MAX_PIECES
                or (not more and datagram.end > end)
            ):
                self._drop(key)  # the sender has reused its identification
                datagram = None
        if datagram is None:
            datagram = self._waiting[key] = _Pieces(time_ns)
        datagram.add(start, end, data, packet)
        self._bytes += len(data) + PIECE_COST
        if start == 0:
            datagram.head = datagram.head or fragment.head
        if not more:
            datagram.total = end
        if not datagram.are_all:
            return None
        datagram.is_complete = True
        return datagram.datagram()

    def finish(self) -> None:
        """Drops everything that waits: no more fragments come."""
        while self._waiting:
            self._drop(next(iter(self._waiting)))

    def _make_room(self, time_ns: int, size: int) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            if (
                self._bytes + size <= MAX_BYTES
                and time_ns - self._waiting[key].began_ns <= MAX_AGE_NS
            ):
                break
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        datagram = self._waiting.pop(key)
        self._bytes -= sum(len(data) + PIECE_COST for data in datagram.pieces.values())
        if not datagram.is_complete:
            self.lost += len(datagram.pieces)
