from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.kernel import be16, be32, copy, inlined, kernel, le32, octet
from tests.kernels.made import compile_here


@kernel("int64(octets, uint64[::1], int64[::1])")
def read_numbers(
    data: ByteArray, wide: np.ndarray[tuple[int], np.dtype[np.uint64]], narrow: IntArray
) -> int:
    """Every kind of number at every place."""
    total = 0
    for i in range(len(data) - 7):
        wide[i] = (np.uint64(be32(data, i)) << np.uint64(32)) | np.uint64(be32(data, i + 4))
        narrow[i] = (
            be32(data, i) + le32(data, i) * 3 + be16(data, i) * 5 + (octet(data, i) - 256) * 7
        )
        total += data[i]
    return total


@kernel("void(octets, uint8[::1], int64)")
def move(source: ByteArray, target: ByteArray, size: int) -> None:
    """Copies all but the first byte."""
    copy(target, 0, source, 1, size)


@inlined
def added(total: int, value: int) -> int:
    """What a loop does most of the time, with a way out."""
    if value % 3 == 0:
        return total
    return total + value * value


@kernel("int64(int64[::1])")
def sum_up(values: IntArray) -> int:
    """Calls its step at two places."""
    total = added(0, values[0])
    for i in range(1, len(values)):
        total = added(total, values[i])
    return total


def test_a_step_is_a_part_of_its_kernel() -> None:
    values = np.arange(100)
    assert (
        sum_up.interpreted(values)
        == sum_up.compiled(values)
        == sum(value * value for value in range(100) if value % 3)
    )


def test_both_forms_give_equal_numbers_also_above_2_to_the_63() -> None:
    data = np.random.default_rng(1).integers(0, 256, 500, np.uint8)
    data[:8] = 255
    results = []
    for form in (read_numbers.interpreted, read_numbers.compiled):
        wide, narrow = np.zeros(493, np.uint64), np.zeros(493, np.int64)
        total = form(data, wide, narrow)
        results.append((int(total), wide.tolist(), narrow.tolist()))
    assert results[0] == results[1]
    assert results[0][1][0] == 2**64 - 1


def test_read_only_bytes_are_taken_by_both_forms() -> None:
    source = np.frombuffer(b"abcdef", np.uint8)
    for form in (move.interpreted, move.compiled):
        target = np.zeros(5, np.uint8)
        form(source, target, 5)
        assert target.tobytes() == b"bcdef"


@pytest.fixture(scope="module", autouse=True)
def machine_code() -> None:
    compile_here(read_numbers, move, sum_up)


def test_a_call_runs_the_compiled_form_and_where_there_is_none_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    @kernel("int64(int64)")
    def double(value: int) -> int:
        told.append("interpreted")
        return 2 * value

    assert (double(21), double.is_compiled, told) == (42, False, ["interpreted"])
    with pytest.raises(RuntimeError, match="there is no machine code of double"):
        double.compiled(1)
    vars(double)["code"] = lambda value: 2 * value
    assert (double(21), double.is_compiled, told) == (42, True, ["interpreted"])
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", True)
    assert (double(21), double.is_compiled, told) == (42, False, ["interpreted"] * 2)


def test_a_call_goes_to_machine_code_from_the_first_on_and_nothing_is_compiled_meanwhile() -> None:
    code = """
import sys
from dcpinspect.kernels.gathering import copy_pieces, gathered
import numpy as np
data, _ = gathered(np.arange(9, dtype=np.uint8), np.array([3]), np.array([2]))
assert data.tolist() == [3, 4]
assert copy_pieces.is_compiled
print({"numba", "llvmlite", "dcpinspect.kernels.build"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")
