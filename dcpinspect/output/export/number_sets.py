"""Large and dense sets of numbers."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray


class LineMarks:
    """A set of packets or messages, by their number in the whole reading; one bit each."""

    def __init__(self) -> None:
        self._bits = np.zeros(1024, np.uint8)

    def add(self, numbers: IntArray) -> None:
        """Adds numbers."""
        if not len(numbers):
            return
        need = int(numbers.max()) // 8 + 1
        if need > len(self._bits):
            self._bits = np.concatenate(
                (self._bits, np.zeros(max(need, 2 * len(self._bits)) - len(self._bits), np.uint8))
            )
        np.bitwise_or.at(self._bits, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))

    def has(self, numbers: IntArray) -> BoolArray:
        """Returns which of the numbers are in the set."""
        byte = numbers >> 3
        bit = self._bits[np.minimum(byte, len(self._bits) - 1)] >> (numbers & 7) & 1
        is_marked: BoolArray = (byte < len(self._bits)) & (bit != 0)
        return is_marked

    def within(self, first: int, count: int) -> IntArray:
        """Returns which of ``count`` numbers from ``first`` on are in the set, less ``first``."""
        start = first // 8
        bits = np.unpackbits(self._bits[start : (first + count) // 8 + 1], bitorder="little")[
            first - 8 * start :
        ][:count]
        distances: IntArray = np.flatnonzero(bits)
        return distances

    @property
    def end(self) -> int:
        """One past the greatest number, or 0."""
        used = np.flatnonzero(self._bits)
        return 8 * int(used[-1]) + int(self._bits[used[-1]]).bit_length() if len(used) else 0
