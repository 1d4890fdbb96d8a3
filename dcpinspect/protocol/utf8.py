"""The sizes of UTF-8 characters, for kernels."""

from __future__ import annotations

from dcpinspect.arrays import ByteArray
from dcpinspect.kernels.kernel import kernel_function


@kernel_function
def character_size(data: ByteArray, at: int, end: int) -> int:
    """Returns the size of the UTF-8 character at ``at``, not ASCII; 0 if it does not decode."""
    first = data[at]
    if first < 0xC2:
        return 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4 if first < 0xF5 else 0
    if size == 0 or at + size > end:
        return 0
    for i in range(1, size):
        if data[at + i] & 0xC0 != 0x80:
            return 0
    second = data[at + 1]
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    return size


@kernel_function
def sequence_size(data: ByteArray, at: int, end: int) -> int:
    """Returns the size in bytes of the UTF-8 character at ``at``; 0 for one that the plain path
    must not write.

    Refused: what does not decode, and the characters that JSON leaves raw and terminals act on (C1
    controls, line and paragraph separators, marks of reading order).
    """
    size = character_size(data, at, end)
    if size == 0:
        return 0
    first, second = data[at], data[at + 1]
    if (first == 0xC2 and second < 0xA0) or (first == 0xD8 and second == 0x9C):
        return 0
    if (first == 0xE2 and (second == 0x80 or second == 0x81)) or (first == 0xF3 and second == 0xA0):
        return 0
    return size
