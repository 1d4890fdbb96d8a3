from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.kernels.gathering import copy_pieces, gathered


def column(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_pieces_are_copied_each_to_its_place() -> None:
    data, out = np.arange(10, dtype=np.uint8), np.zeros(6, np.uint8)
    copy_pieces(data, column(7, 0), column(3, 2), out, column(0, 4))
    assert out.tolist() == [7, 8, 9, 0, 0, 1]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int16])
def test_pieces_are_brought_together_in_their_order(kind: type[np.signedinteger]) -> None:
    found, begins = gathered(
        np.arange(10, dtype=np.uint8), np.array([7, 4, 0], kind), np.array([3, 0, 2], kind)
    )
    assert (found.tolist(), begins.tolist()) == ([7, 8, 9, 0, 1], [0, 3, 3])


def test_no_pieces_are_no_bytes() -> None:
    found, begins = gathered(np.arange(10, dtype=np.uint8), column(), column())
    assert (len(found), len(begins)) == (0, 0)
