"""Brings pieces of bytes together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.kernel import copy, kernel


@kernel("void(octets, int64[::1], int64[::1], uint8[::1], int64[::1])")
def copy_pieces(
    data: ByteArray, start: IntArray, size: IntArray, output: ByteArray, target: IntArray
) -> None:
    """Copies ranges of bytes, each to its place. One copy for each range."""
    for i in range(len(size)):
        copy(output, target[i], data, start[i], size[i])


def gathered(
    data: ByteArray, start: npt.NDArray[np.integer], size: npt.NDArray[np.integer]
) -> tuple[ByteArray, IntArray]:
    """Returns ranges of bytes one behind the other, and where each begins then."""
    begin: IntArray = np.ascontiguousarray(start, np.int64)
    length: IntArray = np.ascontiguousarray(size, np.int64)
    output, target = np.empty(int(length.sum()), np.uint8), np.cumsum(length) - length
    copy_pieces(data, begin, length, output, target)
    return output, target
