"""Collection ids on the wire: unsigned LEB128 of a u32, in its shortest form."""

from __future__ import annotations

from dcpinspect.kernels.kernel import Ints, Octets, kernel, octet

LONGEST_ID = 5
"""Size in bytes of the longest u32."""


def decode_leb128(data: bytes | memoryview) -> tuple[int, int] | None:
    """Returns (number, bytes used) of the id at the start of ``data``; None if there is no valid id.

    Refused, as by a server: an id that does not end, needs more than five bytes, exceeds 32 bits or is not in its shortest form.
    """
    number = 0
    for used, byte in enumerate(bytes(data[:LONGEST_ID])):
        number |= (byte & 0x7F) << (7 * used)
        if not byte & 0x80:
            if (byte == 0 and used > 0) or number > 0xFFFF_FFFF:
                return None
            return number, used + 1
    return None


def encode_leb128(number: int) -> bytes:
    """Returns the shortest form of a u32; the way back from ``decode_leb128``."""
    if not 0 <= number <= 0xFFFF_FFFF:
        raise ValueError(f"{number} is not a collection id: 0 to 4294967295 are")
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@kernel("void(octets, octets, int64[::1], int64[::1], int64[::1], int64[::1])")
def read_collection_ids(data: Octets, is_keyed: Octets, start: Ints, size: Ints, number: Ints, used: Ints) -> None:
    """Reads the ids that keys begin with. ``used`` becomes the size of each id, or -1 if servers refuse it, and stays if there is none.

    Besides what ``decode_leb128`` refuses, servers refuse ids that are reserved (1 to 7), and a key of nothing but an id.
    """
    for i in range(len(start)):
        if is_keyed[i] == 0 or size[i] <= 0:
            continue
        value, count, byte = 0, 0, 0x80
        while byte >= 0x80 and count < min(size[i], 5):
            byte = octet(data, start[i] + count)
            value |= (byte & 0x7F) << 7 * count
            count += 1
        is_whole = byte < 0x80 and (byte > 0 or count == 1) and count < size[i]
        used[i] = count if is_whole and value <= 0xFFFF_FFFF and (value == 0 or value > 7) else -1
        number[i] = value
