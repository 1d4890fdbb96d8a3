from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dcpinspect.arrays import LARGE, give_back, grown, only, unique


def test_a_table_keeps_its_rows_and_at_least_doubles() -> None:
    table = np.arange(6).reshape(3, 2)
    larger = grown(table, 4)
    assert larger.shape == (6, 2)
    assert larger[:3].tolist() == table.tolist()
    assert not larger[3:].any()
    assert grown(table, 100).shape == (100, 2)


def test_a_large_table_grows_as_a_small_one() -> None:
    kind = np.dtype([("wide", np.int64), ("narrow", np.int8)], align=True)
    table = np.zeros(LARGE // kind.itemsize + 1, kind)
    table["wide"], table["narrow"] = np.arange(len(table)), 7
    larger = grown(table, 0)
    assert larger.dtype == kind
    assert len(larger) == 2 * len(table)
    assert (larger[: len(table)] == table).all()
    assert larger[len(table) :].tobytes() == bytes(len(table) * kind.itemsize)
    larger["narrow"] = 9
    kept = only(larger, np.array([1, 3]))
    assert (kept["narrow"].sum(), kept["wide"].sum()) == (18, 4)


def test_new_rows_hold_a_value_of_the_same_type() -> None:
    larger = grown(np.array([1, 2], np.int8), 0, -1)
    assert larger.dtype == np.int8
    assert larger.tolist() == [1, 2, -1, -1]


def test_memory_can_be_given_back_at_any_time() -> None:
    table = np.ones(1 << 20)
    give_back()
    assert table.sum() == 1 << 20


def test_only_some_rows_stay_where_they_are() -> None:
    table = np.arange(1, 9).reshape(4, 2)
    assert only(table, np.array([0, 2])).tolist() == [[1, 2], [0, 0], [5, 6], [0, 0]]
    assert table.all()


FORK = """
import os
import numpy as np
import pytest
from dcpinspect.arrays import LARGE, grown

table = grown(np.zeros(LARGE, np.int8), 0)
if not (child := os.fork()):
    table[:] = 1
    os._exit(0)
os.waitpid(child, 0)
assert not table.any()
"""


def test_a_process_that_is_forked_writes_to_no_large_table_of_ours() -> None:
    assert subprocess.run([sys.executable, "-c", FORK], check=False).returncode == 0


@pytest.mark.parametrize(
    "values", [[], [3], [2, 1, 2, 2, 1], [[4, 4], [1, 4]], [2**63 - 1, -(2**63), 0, -1]]
)
def test_the_different_values_are_those_of_numpy(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert unique(array).tolist() == np.unique(array).tolist()
    assert unique(array).dtype == array.dtype
