"""Reads bytes from pasted text: plain hex, colons, 0x…, arrays and strings of C, and the dumps of
xxd, hexdump -C, tcpdump -X, PowerShell and Wireshark.
"""

from __future__ import annotations

import re

_OFFSET = re.compile(
    r"\s*(?:0x)?(?:([0-9a-fA-F]{4,8})(?::\s+|\s{2,}|\s*$)|([0-9a-fA-F]{16}) (?! ))"
)
"""The second form is of PowerShell 7, which puts one blank also before the letters."""
_ROW = 16
"""Bytes of a row of PowerShell 7."""
_GROUP = re.compile(r"[0-9a-fA-F]+")
_SECOND_HALF = re.compile(r"[0-9a-fA-F]{2}(?: |$)")
_BARS = re.compile(r" \|.*\|\s*$")
_OF_C = re.compile(r"/\*.*?\*/|^[^{}\n]*\{|\};?|\"|\\$")
"""What arrays and strings of C have around their bytes."""
_OTHER = re.compile(r"[^0-9a-fA-F\s:.,;-]")

MAX_REPEATED = 1 << 20
"""Greatest number of bytes that one ``*`` of a dump may stand for."""


class HexError(ValueError):
    """The text is not hex digits in any known form; the message says where it stops being that."""


def parse_hex(text: str) -> list[bytes]:
    """Returns the bytes that pasted text stands for; one element for each packet of a dump.

    Raises HexError, with line and column, if the text is none of the known forms.
    """
    lines = text.splitlines() or [text]
    if dumped := _dump(lines):
        return dumped
    if "0x" in text or "\\x" in text:
        lines = [_OF_C.sub(lambda around: " " * len(around[0]), line.rstrip()) for line in lines]
    return [b"".join(_plain_line(line, number) for number, line in enumerate(lines, 1))]


def _dump(lines: list[str]) -> list[bytes]:
    """Returns the packets of a dump whose offsets count its bytes; empty if it is no dump. Lines
    without an offset are headlines.
    """
    packets: list[bytearray] = []
    first = 0
    row = b""
    is_squeezed = False
    for line in lines:
        match = _OFFSET.match(line)
        if match is None:
            is_squeezed = line.strip() == "*"
            continue
        offset, data = int(match[1] or match[2], 16), _dump_line(line[match.end() :])
        data = data[:_ROW] if match[2] else data
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


def _dump_line(line_text: str) -> bytes:
    """Returns the hex column of one line of a dump: it is between the offset and two blanks, or a
    bar, before the letters.
    """
    has_bars = _BARS.search(line_text) is not None
    line_text = line_text.partition("|")[0]
    dumped_bytes = bytearray()
    column = 0
    while (group := _GROUP.match(line_text, column)) and len(group[0]) % 2 == 0:
        dumped_bytes += bytes.fromhex(group[0])
        column = group.end()
        blanks = len(line_text) - column - len(line_text[column:].lstrip(" "))
        column += blanks
        # hexdump -C and older Wireshark put two blanks in the middle of 16 bytes; all programs put
        # them before the letters.
        if (
            blanks > 1
            and not has_bars
            and not (
                blanks == 2 and len(dumped_bytes) == 8 and _SECOND_HALF.match(line_text, column)
            )
        ):
            break
    return bytes(dumped_bytes)


def _plain_line(line: str, number: int) -> bytes:
    line = re.sub(r"[0\\]x", "  ", line)
    wrong_letter = _OTHER.search(line)
    if wrong_letter is not None:
        raise HexError(
            f"{wrong_letter[0]!r} in line {number}, column {wrong_letter.start() + 1} is no "
            "hex digit"
        )
    groups = _GROUP.findall(line)
    if len(groups) > 1:
        groups = [group.zfill(2) for group in groups]
    if any(len(group) % 2 for group in groups):
        raise HexError(f"an odd number of hex digits in line {number}")
    return bytes.fromhex("".join(groups))


def tcp_payload(data: bytes) -> bytes:
    """Returns what a packet carries if ``data`` begins with Ethernet, Linux cooked, IPv4 or IPv6
    and TCP headers; else ``data`` itself.
    """
    for link_size, ethertype in _LINKS:
        if ethertype is not None and data[ethertype : ethertype + 2] not in (
            b"\x08\x00",
            b"\x86\xdd",
        ):
            continue
        if len(data) >= link_size + 40 and data[link_size] >> 4 == 4 and data[link_size + 9] == 6:
            size = int.from_bytes(data[link_size + 2 : link_size + 4], "big")
            tcp = link_size + (data[link_size] & 0x0F) * 4
        elif len(data) >= link_size + 60 and data[link_size] >> 4 == 6 and data[link_size + 6] == 6:
            size = 40 + int.from_bytes(data[link_size + 4 : link_size + 6], "big")
            tcp = link_size + 40
        else:
            continue
        header = (data[tcp + 12] >> 4) * 4 if len(data) > tcp + 12 else 0
        if header >= 20:
            return data[tcp + header : link_size + size]
    return data


_LINKS = ((0, None), (14, 12), (18, 16), (16, 14), (20, 0))
"""Where IP begins, and where a header before it says so: no header, Ethernet, Ethernet with a VLAN,
Linux cooked, its second version.
"""
