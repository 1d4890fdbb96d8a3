"""Text that stands for packets: dumps with offsets, as ``tcpdump -X`` and ``tshark -x`` print and
``text2pcap`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from dcpinspect.capture.packet_walk import MAX_PACKET
from dcpinspect.lazy_dataclass import dataclass

Lines = Iterator[tuple[int, str]]
"""Number and text of each line."""


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


HexPiece = Frame | LineProblem


@dataclass(frozen=True, slots=True)
class TextForm:
    """One form of text."""

    name: str
    lacks: str
    """What is made up, because the text does not have it."""
    begins: re.Pattern[str]
    """Matches somewhere in the first lines of a text of this form."""


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


_IN_IP = frozenset((0, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 59, 60, 132, 137))
_ETHERNET, _RAW_IP, _COOKED, _COOKED_2, _NULL = 1, 101, 113, 276, 0
_IP_AT = {_ETHERNET: 14, _RAW_IP: 0, _COOKED: 16, _COOKED_2: 20, _NULL: 4}
"""Where IP begins, by link type."""
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


def _lacks_end(frame: Frame) -> bool:
    """Returns whether the header of an IP packet tells more bytes than there are."""
    packet = frame.data[_IP_AT[frame.link_type] :]
    version = packet[0] >> 4 if packet else 0
    size = {4: int.from_bytes(packet[2:4]), 6: 40 + int.from_bytes(packet[4:6])}.get(version, 0)
    return len(packet) < size


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
    """Yields the packets of a dump whose offsets begin at 0 again for each."""
    data, is_wanted, begun, longest = bytearray(), True, 0, 0
    clock, time_ns, link_type = _Clock(), None, None

    def finished_frame() -> HexPiece:
        nonlocal link_type, longest
        content = bytes(data)
        longest = max(longest, len(content))
        data.clear()
        link_type = own_type if (own_type := _link_type(content)) is not None else link_type
        if link_type is None:
            return LineProblem(
                begun, "no packet begins with these bytes; 'dcpinspect explain -' is for messages"
            )
        return Frame(content, link_type, time_ns)

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
        if start == 0:
            if data:
                yield finished_frame()
            begun = number
        if start != len(data) or start >= MAX_PACKET:
            expected = len(data) % MAX_PACKET
            yield LineProblem(number, f"offset {start} where {expected} was to come")
            data.clear()
            continue
        data += bytes.fromhex(grouped[2]) if grouped is not None else _row(text, match.end())
    if data:
        latest = finished_frame()
        if isinstance(latest, Frame) and len(latest.data) < longest and _lacks_end(latest):
            yield LineProblem(begun, "cut short, the text ends within the packet that begins here")
        else:
            yield latest


_MULTILINE = re.MULTILINE
_NO_TIMES = "it has no times, so packets are 1 us apart from 1970 on"
_FIRST_ROW = r" .*\n(?:.*\n)?[ \t]*(?:0x)?0000:\s+[0-9A-Fa-f]{4}\b"
_TCPDUMP = "text of tcpdump"
FORMS = (
    TextForm(
        _TCPDUMP,
        "times have no time zone and are read as UTC",
        re.compile(rf"^{_NUMBERED}\d{{4}}-\d\d-\d\d {_OF_DAY}{_FIRST_ROW}", _MULTILINE),
    ),
    TextForm(
        _TCPDUMP,
        "nothing is made up",
        re.compile(rf"^{_NUMBERED}\d{{9,10}}\.\d{{6,9}}{_FIRST_ROW}", _MULTILINE),
    ),
    TextForm(
        _TCPDUMP,
        "times have no date, so the day is 1970-01-01",
        re.compile(rf"^{_NUMBERED}{_OF_DAY}{_FIRST_ROW}", _MULTILINE),
    ),
    TextForm(
        "hex dump",
        _NO_TIMES,
        re.compile(r"^[ \t]*(?:0x)?0{4,8}:\s+[0-9A-Fa-f]{4} [0-9A-Fa-f]{2,4}\b", _MULTILINE),
    ),
    TextForm(
        "hex dump",
        _NO_TIMES,
        re.compile(r"^(?:0x)?0{4,8}:?\s+[0-9A-Fa-f]{2} [0-9A-Fa-f]{2} [0-9A-Fa-f]{2} ", _MULTILINE),
    ),
)
"""The forms; if several fit, the first one is taken."""


def form_of(head: str) -> TextForm | None:
    """Returns the form of a text by its beginning; None for no known form."""
    return next((form for form in FORMS if form.begins.search(head)), None)
