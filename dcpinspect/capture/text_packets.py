"""Text that stands for connections, as a pcap file that is made from it while it is read.

Pieces become TCP segments between the ends that the text has. What it lacks is made up, as little
as possible, and told in ``remark``. No handshake is made up, so connections begin in the middle.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import replace

from dcpinspect.capture.compressed import Raw
from dcpinspect.capture.hex_lines import (
    Ends,
    Frame,
    HexPiece,
    LineProblem,
    SentBytes,
    TextForm,
    form_of,
)
from dcpinspect.capture.no_capture import is_in_hex

HEAD = 1 << 14
"""Number of bytes by which a text is recognised."""
_READ = 1 << 18
_MOST_LINE = 1 << 20
"""Greatest size of a line in bytes; a segment of 64 KiB as hex digits has 131,072."""
_SEGMENT = 1 << 15
_RAW_IP = 101
_PCAP_NS = 0xA1B2_3C4D
_FIRST_SEQ = 1
_MOST_NS = (1 << 32) * 10**9 - 1
_ACK_PUSH = 0x18


class TextPackets:
    """A readable stream with the pcap file that a text becomes."""

    def __init__(self, raw: Raw, form: TextForm) -> None:
        """``raw``: its first bytes are those recognised."""
        self.problem: str | None = None
        """The first place that has no known form, and how many such places there are."""
        self.remark = f"{form.name}; {form.lacks}"
        self._raw = raw
        self._form = form
        self._problems = 0
        self._made = self._pcap()
        self._rest = memoryview(b"")

    def readinto(self, target: memoryview, /) -> int:
        """Fills ``target`` from its start; returns 0 at the end."""
        size = 0
        while size < len(target):
            if not self._rest:
                made = next(self._made, None)
                if made is None:
                    break
                self._rest = memoryview(made)
            taken_bytes = self._rest[: len(target) - size]
            target[size : size + len(taken_bytes)] = taken_bytes
            self._rest = self._rest[len(taken_bytes) :]
            size += len(taken_bytes)
        return size

    def close(self) -> None:
        """Frees the file."""
        self._raw.close()

    def _lines(self) -> Iterator[tuple[int, str]]:
        buffer = memoryview(bytearray(_READ))
        line_start, number, is_long = b"", 0, False
        while size := self._raw.readinto(buffer):
            *lines, tail = bytes(buffer[:size]).split(b"\n")
            for line in lines:
                number += 1
                if is_long or len(line_start) + len(line) > _MOST_LINE:
                    self._note(LineProblem(number, "a line that is too long"))
                else:
                    yield number, (line_start + line).decode("latin-1").rstrip("\r")
                line_start, is_long = b"", False
            if not is_long:
                line_start += tail
            if len(line_start) > _MOST_LINE:
                line_start, is_long = b"", True
        if is_long:
            self._note(LineProblem(number + 1, "a line that is too long"))
        elif line_start:
            yield number + 1, line_start.decode("latin-1").rstrip("\r")

    def _note(self, problem: LineProblem) -> None:
        self._problems += 1
        if self._problems == 1:
            self._first = f"line {problem.line}: {problem.what}" if problem.line else problem.what
        more = f", and {self._problems - 1:,} more such places" if self._problems > 1 else ""
        self.problem = f"{self._first}{more}"

    def _pcap(self) -> Iterator[bytes]:
        segments = _Segments()
        link = None
        for piece in self._form.pieces(self._lines()):
            if isinstance(piece, LineProblem):
                self._note(piece)
                continue
            kind = piece.link_type if isinstance(piece, Frame) else _RAW_IP
            if link != kind:
                link = kind
                yield _header(link)  # as of another file behind the first
            if piece.time_ns is not None and not 0 <= piece.time_ns <= _MOST_NS:
                self._note(
                    LineProblem(0, "times before 1970 or after 2106, which no pcap file has")
                )
                piece = replace(piece, time_ns=None)
            yield from segments.records(piece)
        if link is None:
            yield _header(_RAW_IP)


def _header(link: int) -> bytes:
    return struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, 1 << 18, link)


class _Segments:
    """TCP segments of the connections of a text, with times that never go back."""

    def __init__(self) -> None:
        self._seqs: dict[Ends, list[int]] = {}
        self._addresses: dict[str, bytes] = {}
        self._last_ns = 0

    def records(self, piece: HexPiece) -> Iterator[bytes]:
        """Yields the pcap records of one piece."""
        if isinstance(piece, Frame):
            yield self._record(piece.time_ns, piece.data)
        elif isinstance(piece, SentBytes):
            seqs = self._seqs.setdefault(piece.ends, [_FIRST_SEQ, _FIRST_SEQ])
            for start in range(0, len(piece.data), _SEGMENT):
                data = piece.data[start : start + _SEGMENT]
                yield self._record(piece.time_ns, self._packet(piece, seqs, data))
                seqs[piece.direction] += len(data)
            seqs[piece.direction] += piece.lost

    def _record(self, time_ns: int | None, packet: bytes) -> bytes:
        self._last_ns = min(self._last_ns + 1000, _MOST_NS) if time_ns is None else time_ns
        seconds, nanoseconds = divmod(self._last_ns, 10**9)
        return struct.pack("<IIII", seconds, nanoseconds, len(packet), len(packet)) + packet

    def _packet(self, piece: SentBytes, seqs: list[int], data: bytes) -> bytes:
        (client, client_port), (server, server_port) = piece.ends
        source, target = self._address(client, None), self._address(server, None)
        if len(source) != len(target):
            source = self._address(client, len(target))
        ports = client_port & 0xFFFF, server_port & 0xFFFF
        if piece.direction:
            source, target, ports = target, source, (ports[1], ports[0])
        seq, ack = seqs[piece.direction], seqs[1 - piece.direction]
        tcp = struct.pack(
            ">HHIIBBHHH",
            *ports,
            seq & 0xFFFFFFFF,
            ack & 0xFFFFFFFF,
            5 << 4,
            _ACK_PUSH,
            0xFFFF,
            0,
            0,
        )
        if len(source) == 16:
            return (
                struct.pack(">IHBB", 6 << 28, len(tcp) + len(data), 6, 64)
                + source
                + target
                + tcp
                + data
            )
        return (
            struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0)
            + source
            + target
            + tcp
            + data
        )

    def _address(self, host: str, size: int | None) -> bytes:
        """Returns the address of a host; an address for documentation if the host is a name, or has
        to be of the other family.
        """
        try:
            address = ipaddress.ip_address(host).packed
        except ValueError:
            address = b""
        if address and size in (None, len(address)):
            return address
        if size == 16:
            return bytes.fromhex("20010db8000000000000000000000001")
        number = 2 + len(self._addresses) % 253 if host not in self._addresses else 0
        return self._addresses.setdefault(host, bytes((192, 0, 2, number)))


def text_packets(head: bytes, raw: Raw) -> TextPackets | None:
    """Returns the capture that a text stands for; None if its beginning has no known form."""
    if b"\x00" in head or is_in_hex(head):
        return None
    form = form_of(head.decode("latin-1"))
    return TextPackets(raw, form) if form is not None else None
