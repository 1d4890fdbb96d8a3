"""Collection ids on the wire: unsigned LEB128 of a u32, in its shortest form."""

from __future__ import annotations

from typing import Any

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.kernel import kernel, kernel_function, octet

LONGEST_ID = 5
"""Size in bytes of the longest u32."""


@kernel_function
def id_at(data: Any, at: int, end: int) -> int:  # Any: array, bytes or memoryview
    """Returns the id at the start of [at, end), times eight, and the bytes that it uses; -1 if
    there is no valid id.

    Refused, as by a server: an id that does not end, needs more than five bytes, exceeds 32 bits or
    is not in its shortest form.
    """
    number = 0
    for used in range(min(end - at, LONGEST_ID)):
        byte = octet(data, at + used)
        number |= (byte & 0x7F) << (7 * used)
        if byte < 0x80:
            return (
                -1 if (byte == 0 and used > 0) or number > 0xFFFF_FFFF else number << 3 | (used + 1)
            )
    return -1


@kernel_function
def is_refused_in_key(number: int, used: int, size: int) -> bool:
    """Returns whether servers refuse an id in a key of ``size`` bytes: it is reserved (1 to 7), or
    the key has nothing else.
    """
    return 1 <= number <= 7 or used == size


def decode_leb128(data: bytes | memoryview) -> tuple[int, int] | None:
    """Returns (number, bytes used) of the id at the start of ``data``; None for no valid id."""
    id_and_size = id_at(data, 0, len(data))
    return None if id_and_size < 0 else (id_and_size >> 3, id_and_size & 7)


@kernel("void(octets, octets, int64[::1], int64[::1], int64[::1], int64[::1])")
def read_collection_ids(
    data: ByteArray,
    is_keyed: ByteArray,
    start: IntArray,
    size: IntArray,
    number: IntArray,
    used: IntArray,
) -> None:
    """Reads the ids that keys begin with. ``used`` becomes the size of each id, or -1 if servers
    refuse it, and stays if there is none.
    """
    for i in range(len(start)):
        if is_keyed[i] == 0 or size[i] <= 0:
            continue
        id_and_size = id_at(data, start[i], start[i] + size[i])
        number[i] = id_and_size >> 3
        used[i] = (
            -1
            if id_and_size < 0 or is_refused_in_key(id_and_size >> 3, id_and_size & 7, size[i])
            else id_and_size & 7
        )
