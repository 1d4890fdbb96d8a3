"""Bytes out of pasted text: plain hex, colons, 0x…, and the dumps of xxd, hexdump -C, tcpdump -X and Wireshark."""

from __future__ import annotations

import re

_OFFSET = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,8})(?::\s+|\s{2,}|\s*$)")
_GROUP = re.compile(r"[0-9a-fA-F]+")
_SECOND_HALF = re.compile(r"[0-9a-fA-F]{2}(?: |$)")
_BARS = re.compile(r" \|.*\|\s*$")
_OTHER = re.compile(r"[^0-9a-fA-F\s:.,;-]")

MAX_REPEATED = 1 << 20
"""Bytes that one ``*`` of a dump may stand for."""


class HexError(ValueError):
    """The text is not hex digits in any form that is known; says where it stops being that."""


def parse_hex(text: str) -> list[bytes]:
    """The bytes that pasted text stands for; of a dump of several packets, each one's.

    Raises HexError, with line and column, when it is none of the known forms.
    """
    lines = text.splitlines() or [text]
    return _dump(lines) or [b"".join(_plain_line(line, number) for number, line in enumerate(lines, 1))]


def _dump(lines: list[str]) -> list[bytes]:
    """The packets of a dump, whose offsets count its bytes; lines without an offset are headlines. Empty when it is no dump."""
    packets: list[bytearray] = []
    first = 0
    row = b""
    is_squeezed = False
    for line in lines:
        found = _OFFSET.match(line)
        if found is None:
            is_squeezed = line.strip() == "*"
            continue
        offset, data = int(found[1], 16), _dump_line(line[found.end() :])
        if not packets or (offset == 0 and data):
            packets.append(bytearray())
            first = offset
        left_out = offset - first - len(packets[-1])
        if is_squeezed and row and 0 < left_out <= MAX_REPEATED:
            packets[-1] += (row * (left_out // len(row) + 1))[:left_out]
        elif left_out:
            return []
        packets[-1] += data
        row, is_squeezed = data, False
    is_counted = first == 0 or len(packets[0]) > len(row) or any(":" in line for line in lines)
    return [bytes(packet) for packet in packets if packet] if packets and is_counted else []


def _dump_line(rest: str) -> bytes:
    """The hex column of one line of a dump, between the offset and two blanks, or a bar, before the letters."""
    has_bars = _BARS.search(rest) is not None
    rest = rest.partition("|")[0]
    out = bytearray()
    at = 0
    while (group := _GROUP.match(rest, at)) and len(group[0]) % 2 == 0:
        out += bytes.fromhex(group[0])
        at = group.end()
        blanks = len(rest) - at - len(rest[at:].lstrip(" "))
        at += blanks
        # hexdump -C and older Wireshark leave two blanks in the middle of 16 bytes, everybody leaves them before the letters.
        if blanks > 1 and not has_bars and not (blanks == 2 and len(out) == 8 and _SECOND_HALF.match(rest, at)):
            break
    return bytes(out)


def _plain_line(line: str, number: int) -> bytes:
    line = re.sub(r"[0\\]x", "  ", line)
    other = _OTHER.search(line)
    if other is not None:
        raise HexError(f"{other[0]!r} in line {number}, column {other.start() + 1} is no hex digit")
    groups = _GROUP.findall(line)
    if len(groups) > 1:
        groups = [group.zfill(2) for group in groups]
    if any(len(group) % 2 for group in groups):
        raise HexError(f"an odd number of hex digits in line {number}")
    return bytes.fromhex("".join(groups))


def tcp_payload(data: bytes) -> bytes:
    """What a packet carries when ``data`` begins with Ethernet, Linux cooked, IPv4 or IPv6 and TCP headers; else ``data`` itself."""
    for at, ethertype in _LINKS:
        if ethertype is not None and data[ethertype : ethertype + 2] not in (b"\x08\x00", b"\x86\xdd"):
            continue
        if len(data) >= at + 40 and data[at] >> 4 == 4 and data[at + 9] == 6:
            size, tcp = int.from_bytes(data[at + 2 : at + 4], "big"), at + (data[at] & 0x0F) * 4
        elif len(data) >= at + 60 and data[at] >> 4 == 6 and data[at + 6] == 6:
            size, tcp = 40 + int.from_bytes(data[at + 4 : at + 6], "big"), at + 40
        else:
            continue
        header = (data[tcp + 12] >> 4) * 4 if len(data) > tcp + 12 else 0
        if header >= 20:
            return data[tcp + header : at + size]
    return data


_LINKS = ((0, None), (14, 12), (18, 16), (16, 14), (20, 0))
"""Where IP begins and where a header before it says so: none, Ethernet, with a VLAN, Linux cooked, its second version."""
