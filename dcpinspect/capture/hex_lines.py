"""Text that stands for the bytes of connections, line by line: finds which form it has, and the
pieces it is made of.

The forms are: what ``tcpdump -X`` and ``tshark -x`` print and ``text2pcap`` reads; the follow view
of Wireshark (``tshark -z follow,tcp,hex|raw,0``); and plain hex digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime

from dcpinspect.lazy_dataclass import dataclass

CLIENT, SERVER = ("192.0.2.1", 50_000), ("192.0.2.2", 11_210)
"""Ends of a connection whose addresses are not in the text: addresses for documentation (RFC 5737),
and the server's usual port.
"""

MOST_PIECE = 1 << 15
"""Greatest number of bytes that are gathered before they are handed on, if the text does not say
how they were sent.
"""

Ends = tuple[tuple[str, int], tuple[str, int]]
"""Address and port of the client and of the server."""
Lines = Iterator[tuple[int, str]]
"""Number and text of each line."""


@dataclass(frozen=True, slots=True)
class SentBytes:
    """Bytes that one side sent."""

    ends: Ends
    direction: int
    """0: from the client; 1: from the server."""
    time_ns: int | None
    data: bytes
    lost: int = 0
    """Number of bytes after these that the text should have, but lacks."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A packet as it was captured."""

    data: bytes
    link_type: int
    time_ns: int | None = None


@dataclass(frozen=True, slots=True)
class LineProblem:
    """Something in the text that has no known form; it was left out."""

    line: int
    what: str


HexPiece = SentBytes | Frame | LineProblem


@dataclass(frozen=True, slots=True)
class TextForm:
    """One form of text."""

    name: str
    lacks: str
    """What is made up, because the text does not have it."""
    begins: re.Pattern[str]
    """Matches somewhere in the first lines of a text of this form."""
    pieces: Callable[[Lines], Iterator[HexPiece]]


_PUSHED = frozenset((*range(0x55, 0x5D), 0x5F, 0x60, *range(0x62, 0x68)))
"""Requests that producers send, so that their answers come from clients."""
_REQUESTS, _ANSWERS = frozenset((0x80, 0x08)), frozenset((0x81, 0x18))
_OFFSET = re.compile(r"(?:0x)?([0-9A-Fa-f]{4,16}):?\s+(?=[0-9A-Fa-f]{2}(?:\s|$))")
_GROUPED = re.compile(
    r"\s*(?:0x)?([0-9A-Fa-f]{4,16}):\s+((?:[0-9A-Fa-f]{4} "
    r"){0,127}[0-9A-Fa-f]{2}(?:[0-9A-Fa-f]{2})?)(?=\s|$)(?! [0-9A-Fa-f])"
)
"""A row of tcpdump or xxd: bytes in pairs, and two spaces before the text beside them."""
_NUMBERED, _OF_DAY = r"(?:\s{0,4}\d{1,9}  )?", r"(\d\d):(\d\d):(\d\d)\.(\d{6}(?:\d{3})?)"
_WHEN = re.compile(
    rf"{_NUMBERED}(?:(?:(\d{{4}}-\d\d-\d\d) )?{_OF_DAY}|(\d{{9,10}})\.(\d{{6}}(?:\d{{3}})?)) "
)
"""The time in tcpdump's line before a packet: date, time of day; or seconds since 1970."""
_BYTE = re.compile(r"[0-9A-Fa-f]{2}(?=\s|$)")
_WIDTH = 16
"""Number of bytes in a line."""
_TITLE = re.compile(r"([A-Z][\w ()-]{0,60}) \((\d{1,9}) bytes?\):?\s*")
_NODE = re.compile(r"Node ([01]): (\S{1,253}):(\d{1,5})\s*")


def _row(text: str, column: int) -> bytes:
    """Returns the bytes in a line of a dump, from a place on.

    There are single spaces between them, two in the middle, and more before the text beside them.
    """
    row_bytes = bytearray()
    while len(row_bytes) < _WIDTH and (octet := _BYTE.match(text, column)):
        row_bytes.append(int(octet[0], 16))
        column = octet.end()
        spaces = len(text) - column - len(text[column:].lstrip(" "))
        if spaces != 1 and not (spaces == 2 and len(row_bytes) == _WIDTH // 2):
            break
        column += spaces
    return bytes(row_bytes)


def _direction(data: bytes) -> int:
    """Returns who most likely sent a message: 0, the client, unless it is an answer to a client, or
    something that only producers send.
    """
    if len(data) < 2:
        return 0
    is_pushed = data[1] in _PUSHED
    return (
        int(is_pushed) if data[0] in _REQUESTS else int(not is_pushed) if data[0] in _ANSWERS else 0
    )


_IN_IP = frozenset((0, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 59, 60, 132, 137))
_ETHERNET, _RAW_IP, _COOKED, _COOKED_2, _NULL = 1, 101, 113, 276, 0
_FAMILIES = tuple(
    number.to_bytes(4, order) for number in (2, 10, 24, 28, 30) for order in ("little", "big")
)


def _is_ip(data: bytes) -> bool:
    """Returns whether bytes begin as an IP packet; its checksum may be left to the network card."""
    if len(data) >= 40 and data[0] >> 4 == 6:
        return data[6] in _IN_IP and len(data) <= 40 + int.from_bytes(data[4:6])
    size = 4 * (data[0] & 15) if data and data[0] >> 4 == 4 else 0
    if (
        not 20 <= size <= len(data)
        or data[9] not in {*_IN_IP, 1, 2, 89}
        or int.from_bytes(data[2:4]) < size
    ):
        return False
    words = sum(int.from_bytes(data[offset : offset + 2]) for offset in range(0, size, 2))
    return data[10:12] == b"\0\0" or (words % 0xFFFF == 0 and words > 0)


def _link_type(data: bytes) -> int | None:
    """Returns the link type of a packet by its bytes; None if they are no packet that begins as
    Ethernet, IP, or what ``-i any`` gives.
    """
    kind = data[12:14]
    if len(data) >= 34 and (
        (kind in _KINDS_OF_IP and data[14] >> 4 in (4, 6))
        or kind in (b"\x81\x00", b"\x88\xa8", b"\x08\x06")
    ):
        return _ETHERNET
    if _is_ip(data):
        return _RAW_IP
    if data[:2] in _KINDS_OF_IP and data[2:4] == b"\0\0" and _is_ip(data[20:]):
        return _COOKED_2
    if data[14:16] in _KINDS_OF_IP and data[0] == 0 and _is_ip(data[16:]):
        return _COOKED
    return _NULL if data[:4] in _FAMILIES and _is_ip(data[4:]) else None


_KINDS_OF_IP = (b"\x08\x00", b"\x86\xdd")


class _Clock:
    """The times in the lines of tcpdump, as nanoseconds since 1970."""

    def __init__(self) -> None:
        self._last = 0
        self._days = 0

    def read(self, text: str) -> int | None:
        """Returns the time that a line begins with; None if there is none."""
        match = _WHEN.match(text)
        if match is None:
            return None
        date, hours, minutes, seconds, fraction, since_1970, fraction_since_1970 = match.groups()
        if since_1970:
            return int(since_1970) * 10**9 + int(fraction_since_1970.ljust(9, "0"))
        time_ns = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 10**9 + int(
            fraction.ljust(9, "0")
        )
        if date:
            try:
                second = datetime.fromisoformat(f"{date} {hours}:{minutes}:{seconds}+00:00")
            except ValueError:  # no such day
                return None
            return int(second.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))
        if time_ns + _HALF_A_DAY < self._last:
            self._days += 1  # midnight
        self._last = time_ns
        return time_ns + self._days * 2 * _HALF_A_DAY


_HALF_A_DAY = 43_200 * 10**9


def dump(lines: Lines) -> Iterator[HexPiece]:
    """Yields packets, or what they carried, from a dump with offsets that begin at 0 again."""
    data, is_wanted, number = bytearray(), True, 0
    clock, time_ns, link_type = _Clock(), None, None

    def finished_frame() -> HexPiece:
        nonlocal link_type
        content = bytes(data)
        data.clear()
        link_type = own_type if (own_type := _link_type(content)) is not None else link_type
        if link_type is not None:
            return Frame(content, link_type, time_ns)
        return SentBytes((CLIENT, SERVER), _direction(content), time_ns, content)

    for number, text in lines:
        if title := _TITLE.fullmatch(text):
            is_wanted = title[1] == "Frame"
            continue
        if not text.strip():
            is_wanted = True  # the next packet
        offset = _OFFSET.match(text)
        grouped = None if offset is not None else _GROUPED.match(text)
        match = offset or grouped
        if match is None or not is_wanted:
            if match is None and (when := clock.read(text)) is not None:
                if data:
                    yield finished_frame()
                time_ns = when
            continue
        start = int(match[1], 16)
        if start == 0 and data:
            yield finished_frame()
        if start != len(data):
            yield LineProblem(number, f"offset {start} where {len(data)} was to come")
            data.clear()
            continue
        data += bytes.fromhex(grouped[2]) if grouped is not None else _row(text, match.end())
    if data:
        yield finished_frame()


def follow_hex(lines: Lines) -> Iterator[HexPiece]:
    """Reads the follow view as a dump: the lines of the second node are indented, and offsets count
    for each direction.
    """
    nodes, seen = [CLIENT, SERVER], [0, 0]
    direction, data = 0, bytearray()
    for number, text in lines:
        if node := _NODE.fullmatch(text):
            nodes[int(node[1])] = node[2].strip("[]"), int(node[3])
            continue
        body = text.lstrip(" \t")
        offset = _OFFSET.match(body)
        if offset is None:
            continue
        line_direction = int(body != text)
        line_offset = int(offset[1], 16)
        row = _row(body, offset.end())
        if line_offset < seen[line_direction]:
            yield LineProblem(
                number, f"offset {line_offset} where {seen[line_direction]} was to come"
            )
            continue
        lost = line_offset - seen[line_direction]
        if data and (line_direction != direction or lost or len(data) >= MOST_PIECE):
            yield SentBytes((nodes[0], nodes[1]), direction, None, bytes(data))
            data.clear()
        if lost:
            yield SentBytes((nodes[0], nodes[1]), line_direction, None, b"", lost)
        direction = line_direction
        data += row
        seen[line_direction] = line_offset + len(row)
    if data:
        yield SentBytes((nodes[0], nodes[1]), direction, None, bytes(data))


def follow_raw(lines: Lines) -> Iterator[HexPiece]:
    """Reads the follow view as hex digits, one segment on each line."""
    nodes = [CLIENT, SERVER]
    for number, text in lines:
        if node := _NODE.fullmatch(text):
            nodes[int(node[1])] = node[2].strip("[]"), int(node[3])
        elif re.fullmatch(r"\t?(?:[0-9A-Fa-f]{2})+\s*", text):
            yield SentBytes(
                (nodes[0], nodes[1]), int(text.startswith("\t")), None, bytes.fromhex(text.strip())
            )
        elif re.fullmatch(r"\t?[0-9A-Fa-f]+\s*", text):
            yield LineProblem(number, "half a byte")


def plain(lines: Lines) -> Iterator[HexPiece]:
    """Reads hex digits alone: bytes of one side."""
    direction = None
    for number, text in lines:
        digits = re.sub(r"0x|[\s:,]", "", text)
        if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits):
            yield LineProblem(number, "no pairs of hex digits")
            continue
        data = bytes.fromhex(digits)
        if data:
            direction = _direction(data) if direction is None else direction
            yield SentBytes((CLIENT, SERVER), direction, None, data)


_MULTILINE = re.MULTILINE
_NO_TIMES = "it has no times, so packets are 1 us apart from 1970 on"
_NO_ENDS = "addresses are made up"
_FIRST_ROW = r" .*\n(?:.*\n)?[ \t]*(?:0x)?0000:\s+[0-9A-Fa-f]{4}\b"
_TCPDUMP = "text of tcpdump"
FORMS = (
    TextForm(
        _TCPDUMP,
        "times have no time zone and are read as UTC",
        re.compile(rf"^{_NUMBERED}\d{{4}}-\d\d-\d\d {_OF_DAY}{_FIRST_ROW}", _MULTILINE),
        dump,
    ),
    TextForm(
        _TCPDUMP,
        "nothing is made up",
        re.compile(rf"^{_NUMBERED}\d{{9,10}}\.\d{{6,9}}{_FIRST_ROW}", _MULTILINE),
        dump,
    ),
    TextForm(
        _TCPDUMP,
        "times have no date, so the day is 1970-01-01",
        re.compile(rf"^{_NUMBERED}{_OF_DAY}{_FIRST_ROW}", _MULTILINE),
        dump,
    ),
    TextForm(
        "follow view as hex digits",
        _NO_TIMES,
        re.compile(r"^Follow: tcp,raw\s*$", _MULTILINE),
        follow_raw,
    ),
    TextForm(
        "follow view as a hex dump",
        _NO_TIMES,
        re.compile(r"^Follow: tcp,hex\s*$", _MULTILINE),
        follow_hex,
    ),
    TextForm(
        "follow view as a hex dump",
        f"{_NO_ENDS}; {_NO_TIMES}",
        re.compile(r"^(?:\t|    )00000000  (?:[0-9A-Fa-f]{2} ){2}", _MULTILINE),
        follow_hex,
    ),
    TextForm(
        "hex dump",
        _NO_TIMES,
        re.compile(r"^[ \t]*(?:0x)?0{4,8}:\s+[0-9A-Fa-f]{4} [0-9A-Fa-f]{2,4}\b", _MULTILINE),
        dump,
    ),
    TextForm(
        "hex dump",
        _NO_TIMES,
        re.compile(r"^(?:0x)?0{4,8}:?\s+[0-9A-Fa-f]{2} [0-9A-Fa-f]{2} [0-9A-Fa-f]{2} ", _MULTILINE),
        dump,
    ),
    TextForm(
        "hex digits",
        f"one side alone; {_NO_ENDS}; {_NO_TIMES}",
        re.compile(
            r"\A\s*(?:0x)?(?:8[012]|08|18)[\s:,]?(?:(?:0x)?[0-9A-Fa-f]{2}[\s:,]*){23}[0-9A-Fa-fx\s:,]*\Z"
        ),
        plain,
    ),
)
"""The forms; if several fit, the first one is taken."""


def form_of(head: str) -> TextForm | None:
    """Returns the form of a text by its beginning; None for no known form."""
    return next((form for form in FORMS if form.begins.search(head)), None)
