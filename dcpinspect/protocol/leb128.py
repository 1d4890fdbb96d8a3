"""Collection ids on the wire: unsigned LEB128 of a u32, in its shortest form."""

from __future__ import annotations

MAX_SIZE = 5
"""Bytes of the longest u32."""


def decode_leb128(data: bytes | memoryview) -> tuple[int, int] | None:
    """(number, bytes used) of the id at the start of ``data``; None when none stands there.

    Refused, as a server does: an id that does not end, needs more than five bytes, exceeds 32 bits or
    is not in its shortest form.
    """
    number = 0
    for used, byte in enumerate(bytes(data[:MAX_SIZE])):
        number |= (byte & 0x7F) << (7 * used)
        if not byte & 0x80:
            if (byte == 0 and used > 0) or number > 0xFFFF_FFFF:
                return None
            return number, used + 1
    return None


def encode_leb128(number: int) -> bytes:
    """The shortest form of a u32; the way back from ``decode_leb128``."""
    if not 0 <= number <= 0xFFFF_FFFF:
        raise ValueError(f"{number} is not a collection id: 0 to 4294967295 are")
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
