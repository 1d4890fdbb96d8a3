"""Numbers keys of two integers from 0 on, by an exact hash table that no sender can guess."""

from __future__ import annotations

import os

import numpy as np

from dcpinspect.arrays import IntArray, grown
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.transport.headers import HALF

KEY = 2
"""Number of integers in a key."""
_BLOCK = 64
"""Number of keys whose places in the table are looked at together: a flood has millions of keys,
and memory answers many questions at once sooner than one after the other.
"""
_PRIME = (1 << 31) - 1
_MIX = 0x45D9F3B


class KeyNumbers:
    """The number of each key, in the order in which keys first came."""

    def __init__(self) -> None:
        self._secret = (1 << 16) + int.from_bytes(os.urandom(8)) % (_PRIME - (1 << 16))
        self._looked_up = np.zeros((2, _BLOCK), np.int64)  # kept in states, so no old memory
        self._count = np.zeros(1, np.int64)
        self.reset(np.empty((0, KEY), np.int64))

    @property
    def count(self) -> int:
        """Number of known keys."""
        return int(self._count[0])

    def reset(self, known_keys: IntArray) -> None:
        """Makes these, [n, KEY], the known keys, which differ; the first one has number 0."""
        rows = 1 << (len(known_keys) + 2 * _BLOCK).bit_length()
        self._count[0] = len(known_keys)
        self.keys: IntArray = grown(known_keys, rows)
        # half full at most, so that finding a key takes few steps
        self._table: IntArray = np.full(2 * rows, -1, np.int32)
        refill_table(self._secret, self._table, self.keys, len(known_keys))

    def find(self, wanted_keys: IntArray) -> IntArray:
        """Returns the number of each of these keys, [n, KEY]; new keys get the next numbers."""
        numbers = np.empty(len(wanted_keys), np.int64)
        done = 0
        while done < len(wanted_keys):
            if self.count + _BLOCK > len(self.keys):
                self.reset(self.keys[: self.count])
            tables = self._table, self.keys, self._count, self._looked_up
            done += int(find_keys(wanted_keys[done:], numbers[done:], self._secret, *tables))
        return numbers


@kernel_function
def slot_of(keys: IntArray, row: int, secret: int, slots: int) -> int:
    """Returns the slot of a key: a polynomial hash over the prime 2**31 - 1 at a secret point.

    The bits are mixed at the end (as MurmurHash3 does): successive ports, as in a scan, make steps
    of equal width, whose low bits alone may be few.
    """
    value = 0
    for half in range(KEY):
        words = keys[row, half]
        value = (value * secret + (words >> 32) + HALF) % _PRIME
        value = (value * secret + (words & 0xFFFF_FFFF)) % _PRIME
    value = ((value ^ (value >> 16)) * _MIX) & 0xFFFF_FFFF
    value = ((value ^ (value >> 13)) * _MIX) & 0xFFFF_FFFF
    return int((value ^ (value >> 16)) & (slots - 1))


@kernel_function
def is_same(keys: IntArray, row: int, other_keys: IntArray, other_row: int) -> bool:
    """Returns whether two keys are the same."""
    return bool(
        keys[row, 0] == other_keys[other_row, 0] and keys[row, 1] == other_keys[other_row, 1]
    )


@kernel(
    "int64(int64[:,::1], int64[::1], int64, int32[::1], int64[:,::1], int64[::1], int64[:,::1])"
)
def find_keys(
    wanted_keys: IntArray,
    numbers: IntArray,
    secret: int,
    table: IntArray,
    keys: IntArray,
    counts: IntArray,
    looked_up: IntArray,
) -> int:
    """Writes the number of each wanted key; enters new keys and counts them in ``counts[0]``.
    Returns the number of wanted keys done before room ran out. A few steps for each key.
    """
    count = counts[0]
    start = 0
    while start < len(wanted_keys) and count + _BLOCK <= len(keys):
        stop = min(start + _BLOCK, len(wanted_keys))
        # what is at these places of the table is only needed below, so that nothing waits for it
        for i in range(start, stop):
            if i == 0 or not is_same(wanted_keys, i, wanted_keys, i - 1):
                looked_up[0, i - start] = slot_of(wanted_keys, i, secret, len(table))
                looked_up[1, i - start] = table[looked_up[0, i - start]]
        for i in range(start, stop):
            # successive packets are often of one connection
            if i > 0 and is_same(wanted_keys, i, wanted_keys, i - 1):
                numbers[i] = numbers[i - 1]
                continue
            slot = looked_up[0, i - start]
            number = table[slot]
            while number >= 0 and not is_same(wanted_keys, i, keys, number):
                slot = (slot + 1) & (len(table) - 1)
                number = table[slot]
            if number < 0:
                number = count
                table[slot] = count
                keys[count, 0], keys[count, 1] = wanted_keys[i, 0], wanted_keys[i, 1]
                count += 1
            numbers[i] = number
        start = stop
    counts[0] = count
    return start


@kernel("void(int64, int32[::1], int64[:,::1], int64)")
def refill_table(secret: int, table: IntArray, keys: IntArray, count: int) -> None:
    """Enters the first ``count`` keys into an empty table. A few steps for each key."""
    slots = len(table)
    for i in range(count):
        slot = slot_of(keys, i, secret, slots)
        while table[slot] >= 0:
            slot = (slot + 1) & (slots - 1)
        table[slot] = i
