"""Finds which values of a column differ, if few do: numbers of kinds, connections, words. Sorting
them takes six times as long. And says where tables of kernels begin to look for a pair of numbers.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.kernel import kernel, kernel_function

_MOST = 256
"""Number of values that are told apart without sorting: a value takes so many steps at most,
whoever chose the values.
"""
_SLOTS = 1024
_SPREAD = 0x9E37_79B9
"""Multiplied by this number, numbers that are close have different middle bits."""


def distinct(values: IntArray) -> tuple[IntArray, IntArray]:
    """Returns (place of the first occurrence of each different value, in any order; for each value
    the number of the one that it equals).
    """
    if number_values.is_compiled:
        first, inverse = np.empty(_MOST, np.int64), np.empty(len(values), np.int64)
        count = int(
            number_values(
                np.require(values, np.int64, ("C",)), np.full(_SLOTS, -1, np.int64), first, inverse
            )
        )
        if count >= 0:
            return first[:count], inverse
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first, inverse


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1])")
def number_values(values: IntArray, slots: IntArray, first: IntArray, inverse: IntArray) -> int:
    """Numbers values by when they first came; returns how many differ, or -1 if there are more than
    room in ``first``.

    ``slots`` are -1, and several times as many as ``first``.
    """
    count = 0
    for i in range(len(values)):
        value = values[i]
        low = (value ^ value >> 32) & 0x7FFF_FFFF
        slot = low * _SPREAD >> 16 & (_SLOTS - 1)
        while slots[slot] >= 0 and values[first[slots[slot]]] != value:
            slot = slot + 1 & (_SLOTS - 1)
        if slots[slot] < 0:
            if count == len(first):
                return -1
            first[count], slots[slot] = i, count
            count += 1
        inverse[i] = slots[slot]
    return count


@kernel_function
def slot_for(key: int, other: int, seed: int, slots: int) -> int:
    """Returns the slot where the search for a pair of numbers begins, the second of them of 32
    bits. Products stay below 2^63, so both forms of a kernel agree.
    """
    mixed = (key & 0x7FFFFFFF) * 0x2545F491 + ((key >> 31) & 0x7FFFFFFF)
    mixed = (mixed ^ (mixed >> 29) ^ seed) & 0x7FFFFFFF
    mixed = mixed * 0x1B873593 + (other & 0xFFFFFFFF) * 0x4F6CDD1D
    mixed = (mixed ^ (mixed >> 32)) & 0x7FFFFFFF
    mixed = mixed * 0x2C1B3C6D
    return int((mixed ^ (mixed >> 17)) & (slots - 1))
