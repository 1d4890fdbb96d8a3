from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.kernel import COMPILE_FROM, COMPILE_FROM_THEN, Ints, Kernel, Octets, be16, be32, be64, copy, kernel, le32


@kernel("uint64(octets, uint64[::1], int64[::1])")
def read_numbers(data: Octets, wide: np.ndarray[tuple[int], np.dtype[np.uint64]], narrow: Ints) -> int:
    """Every kind of number at every place."""
    total = 0
    for i in range(len(data) - 7):
        wide[i] = be64(data, i)
        narrow[i] = be32(data, i) + le32(data, i) * 3 + be16(data, i) * 5
        total += data[i]
    return total


@kernel("void(octets, uint8[::1], int64)")
def move(source: Octets, target: Octets, size: int) -> None:
    """Copies all but the first byte."""
    copy(target, 0, source, 1, size)


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


@pytest.mark.parametrize(("is_loaded", "enough"), [(0, COMPILE_FROM), (1, COMPILE_FROM_THEN)])
def test_a_kernel_compiles_once_it_has_seen_enough_work(is_loaded: int, enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCPINSPECT_KERNELS", raising=False)
    monkeypatch.setitem(sys.modules["dcpinspect.kernel"]._state, "loaded", is_loaded)

    @kernel("int64(int64)")
    def double(value: int) -> int:
        return 2 * value

    compiled: list[str] = []

    def compiled_form(kernel: Kernel[..., int]) -> Callable[..., int]:
        compiled.append(kernel.__name__)
        return kernel.function

    monkeypatch.setattr("dcpinspect.kernel._compiled_form", compiled_form)
    assert double(enough - 1, 4) == 8
    assert not compiled
    assert double(1, 5) == 10
    assert double(1, 6) == 12
    assert compiled == ["double"]


def test_without_numba_everything_runs_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setitem(sys.modules["dcpinspect.kernel"]._state, "numba", 1)

    @kernel("int64(int64)")
    def double(value: int) -> int:
        return 2 * value

    assert double(10 * COMPILE_FROM, 21) == 42
    with pytest.raises(RuntimeError, match="numba is not installed"):
        double.compiled(1)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PATH": "", **environment})


def script(tmp_path: Path) -> str:
    (tmp_path / "doubling.py").write_text(
        'from dcpinspect.kernel import kernel\n@kernel("int64(int64)")\ndef double(value: int) -> int:\n    return 2 * value\n'
    )
    return f"import sys; sys.path[:0] = [{str(Path.cwd())!r}, {str(tmp_path)!r}]; import doubling; print(doubling.double(10**9, 21))"


def test_first_compilation_says_so_and_the_second_process_finds_the_cache(tmp_path: Path) -> None:
    code = script(tmp_path)
    first = run(code, XDG_CACHE_HOME=str(tmp_path / "cache"))
    second = run(code, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (first.stdout, second.stdout) == ("42\n", "42\n")
    assert first.stderr == "dcpinspect: compiling for large captures, once for this version (up to 15 s)\n"
    assert second.stderr == ""


def test_unwritable_cache_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(script(tmp_path), XDG_CACHE_HOME=str(tmp_path / "file"))
    warnings = [line for line in done.stderr.splitlines() if "compiled code is not kept" in line]
    assert done.stdout == "42\n"
    assert len(warnings) == 1
    assert warnings[0].endswith("set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that can be written")


def test_numba_is_not_loaded_for_small_work() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path.cwd())!r}); import dcpinspect.protocol.framing as f; print('numba' in sys.modules)"
    assert run(code).stdout == "False\n"
