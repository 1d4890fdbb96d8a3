from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.kernel import (
    COMPILE_FROM,
    COMPILE_FROM_THEN,
    LOAD_FROM,
    LOAD_FROM_THEN,
    Ints,
    Octets,
    be16,
    be32,
    be64,
    copy,
    kernel,
    le32,
    octet,
    step,
)
from dcpinspect.machine_code import Source


@kernel("int64(octets, uint64[::1], int64[::1])")
def read_numbers(data: Octets, wide: np.ndarray[tuple[int], np.dtype[np.uint64]], narrow: Ints) -> int:
    """Every kind of number at every place."""
    total = 0
    for i in range(len(data) - 7):
        wide[i] = be64(data, i)
        narrow[i] = be32(data, i) + le32(data, i) * 3 + be16(data, i) * 5 + (octet(data, i) - 256) * 7
        total += data[i]
    return total


@kernel("void(octets, uint8[::1], int64)")
def move(source: Octets, target: Octets, size: int) -> None:
    """Copies all but the first byte."""
    copy(target, 0, source, 1, size)


@step
def added(total: int, value: int) -> int:
    """What a loop does most of the time, with a way out."""
    if value % 3 == 0:
        return total
    return total + value * value


@kernel("int64(int64[::1])")
def sum_up(values: Ints) -> int:
    """Calls its step at two places."""
    total = added(0, values[0])
    for i in range(1, len(values)):
        total = added(total, values[i])
    return total


def test_a_step_is_a_part_of_its_kernel() -> None:
    values = np.arange(100)
    assert sum_up.interpreted(values) == sum_up.compiled(values) == sum(value * value for value in range(100) if value % 3)


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


THRESHOLDS = {(0, 0): (LOAD_FROM, COMPILE_FROM), (1, 0): (LOAD_FROM_THEN, COMPILE_FROM), (1, 1): (LOAD_FROM_THEN, COMPILE_FROM_THEN)}


@pytest.mark.parametrize(("is_loaded", "is_compiled"), THRESHOLDS)
@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("cost", [1, 10])
def test_a_kernel_is_loaded_or_compiled_once_it_has_seen_enough_work(
    is_loaded: int, is_compiled: int, is_kept: bool, cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DCPINSPECT_KERNELS", raising=False)
    for name, value in (("numba", 1), ("loaded", is_loaded), ("compiled", is_compiled)):
        monkeypatch.setitem(sys.modules["dcpinspect.kernel"]._state, name, value)

    @kernel("int64(int64)", cost=cost)
    def double(value: int) -> int:
        return 2 * value

    done: list[str] = []

    def load(source: Source) -> Callable[..., int] | None:
        done.append("load")
        return source.function if is_kept else None

    def make(source: Source) -> Callable[..., int]:
        done.append("make")
        return source.function

    monkeypatch.setattr("dcpinspect.machine_code.load", load)
    monkeypatch.setattr("dcpinspect.compiling.make", make)
    load_from, compile_from = (enough // cost for enough in THRESHOLDS[is_loaded, is_compiled])
    assert double(load_from - 1, 4) == 8
    assert done == []
    assert double(1, 5) == 10
    assert done == ["load"]
    assert double(compile_from - load_from - 1, 6) == 12
    assert done == ["load"]
    assert double(1, 7) == 14
    assert double(1, 8) == 16
    assert done == (["load"] if is_kept else ["load", "make"])


def test_without_numba_everything_runs_interpreted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setitem(sys.modules["dcpinspect.kernel"]._state, "numba", 1)

    @kernel("int64(int64)")
    def double(value: int) -> int:
        return 2 * value

    assert double(10 * COMPILE_FROM, 21) == 42
    with pytest.raises(RuntimeError, match="numba is not installed"):
        double.compiled(1)


def test_numba_is_not_loaded_for_small_work() -> None:
    unwanted = {"numba", "llvmlite", "dcpinspect.compiling", "dcpinspect.machine_code"}
    code = f"import sys, dcpinspect.protocol.framing; print(sys.modules.keys() & {unwanted})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_machine_code_is_not_made_where_nobody_can_wait_for_it() -> None:
    code = f"""
import numpy as np
from dcpinspect.kernel import kernel, make_no_machine_code
from dcpinspect.transport.headers import HeaderParser
make_no_machine_code()
from tests.test_kernel import move
size = {COMPILE_FROM} * 2
source, target = np.arange(100, dtype=np.uint8), np.zeros(99, np.uint8)
move(size, source, target, 99)
assert target.tolist() == source[1:].tolist()
import sys
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "/nonexistent"})
