"""Bytes out of pasted text: plain hex, colons, 0x…, and the dumps of xxd, hexdump -C, tcpdump -X and Wireshark."""

from __future__ import annotations

import re

_OFFSET = re.compile(r"^\s*(?:0x)?[0-9a-fA-F]{4,8}(?::|\s{2})\s*(?=[0-9a-fA-F])")
_GROUP = re.compile(r"[0-9a-fA-F]+")
_PLAIN = re.compile(r"^[0-9a-fA-F\s:.,;\\x-]*$")


class HexError(ValueError):
    """The text is not hex digits in any form that is known; says where it stops being that."""


def parse_hex(text: str) -> bytes:
    """The bytes that pasted text stands for.

    Raises HexError, with line and column, when it is none of the known forms.
    """
    lines = text.splitlines() or [text]
    if all(_OFFSET.match(line) for line in lines if line.strip()):
        return b"".join(_dump_line(line, number) for number, line in enumerate(lines, 1) if line.strip())
    return b"".join(_plain_line(line, number) for number, line in enumerate(lines, 1))


def looks_like_hex(text: str) -> bool:
    """True for text that can only be meant as bytes: a dump, or four bytes and more of hex digits."""
    try:
        return len(parse_hex(text)) >= 4
    except HexError:
        return False


def _dump_line(line: str, number: int) -> bytes:
    """The hex column of one line of a dump: after the offset, before two blanks or a bar and the letters."""
    found = _OFFSET.match(line)
    rest = line[found.end() :] if found else line
    rest = rest.partition("|")[0]
    out = bytearray()
    at = 0
    while group := _GROUP.match(rest, at):
        if len(group[0]) % 2:
            break
        out += bytes.fromhex(group[0])
        at = group.end()
        blanks = len(rest) - at - len(rest[at:].lstrip(" "))
        at += blanks
        # hexdump -C and older Wireshark leave two blanks in the middle of 16 bytes, everybody leaves them before the letters.
        if blanks != 1 and not (blanks == 2 and len(out) == 8 and re.match(r"(?:[0-9a-fA-F]{2} ){2}", rest[at:])):
            break
    if not out:
        raise HexError(f"line {number} has no hex digits after its offset")
    return bytes(out)


def _plain_line(line: str, number: int) -> bytes:
    if not _PLAIN.match(line):
        column = next(at for at, letter in enumerate(line) if not _PLAIN.match(letter))
        raise HexError(f"{line[column]!r} in line {number}, column {column + 1} is no hex digit")
    parts = re.sub(r"(?:0|\\)x", " ", line)
    groups = re.split(r"[\s:.,;-]+", parts.strip())
    digits = "".join(
        group if len(group) % 2 == 0 else f"0{group}" if len(group) == 1 and len(groups) > 1 else "?" for group in groups if group
    )
    if "?" in digits or "x" in digits:
        raise HexError(f"an odd number of hex digits in line {number}")
    return bytes.fromhex(digits)


def tcp_payload(data: bytes) -> bytes:
    """What a packet carries when ``data`` begins with Ethernet, IPv4 or IPv6 and TCP headers; else ``data`` itself."""
    at = 0
    if len(data) > 14 and data[12:14] in (b"\x08\x00", b"\x86\xdd"):
        at = 14
    if len(data) >= at + 40 and data[at] >> 4 == 4 and data[at + 9] == 6 and int.from_bytes(data[at + 2 : at + 4], "big") <= len(data) - at:
        end = at + int.from_bytes(data[at + 2 : at + 4], "big")
        at += (data[at] & 0x0F) * 4
    elif len(data) >= at + 60 and data[at] >> 4 == 6 and data[at + 6] == 6:
        end = at + 40 + int.from_bytes(data[at + 4 : at + 6], "big")
        at += 40
    else:
        return data
    header = (data[at + 12] >> 4) * 4 if len(data) > at + 12 else 0
    return data[at + header : end] if header >= 20 else data
