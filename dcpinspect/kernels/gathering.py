"""Brings pieces of bytes together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.kernels.kernel import Ints, Octets, copy, kernel


@kernel("void(octets, int64[::1], int64[::1], uint8[::1], int64[::1])")
def copy_pieces(data: Octets, start: Ints, size: Ints, output: Octets, target: Ints) -> None:
    """Copies ranges of bytes, each to its place. One copy for each range."""
    for i in range(len(size)):
        copy(output, target[i], data, start[i], size[i])


def gathered(data: Octets, start: npt.NDArray[np.integer], size: npt.NDArray[np.integer]) -> tuple[Octets, Ints]:
    """Returns ranges of bytes one behind the other, and where each begins then."""
    begin: Ints = np.ascontiguousarray(start, np.int64)
    length: Ints = np.ascontiguousarray(size, np.int64)
    output, target = np.empty(int(length.sum()), np.uint8), np.cumsum(length) - length
    copy_pieces(data, begin, length, output, target)
    return output, target
