"""Code kept by one process is what another one runs, or it is compiled anew; nothing wrong with a file does harm."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect import machine_code
from dcpinspect.kernel import _helpers, be32, be64
from dcpinspect.machine_code import Code, Parameter, Source, parse_signature
from dcpinspect.transport import ordering

NOTICE = "dcpinspect: compiling for large captures, once for this version (up to 15 s)\n"
TABLE = np.arange(10, dtype=np.int64)
FACTOR = 3


def weigh(data: Any, rows: Any, out: Any, count: int, is_first: bool) -> int:
    """Something with every kind of parameter."""
    total = 0
    for row in range(rows.shape[0]):
        out[row] = rows[row, 0] * FACTOR + TABLE[row]
        total += be32(data, row) * rows[row, rows.shape[1] - 1]
    return total + count if is_first else -total


def of_module() -> int:
    """A constant of another module."""
    return ordering.WINDOW


WEIGH = "int64(octets, int64[:,::1], int64[::1], int64, boolean)"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return tmp_path / "cache"


def source(function: Callable[..., Any] = weigh, signature: str = WEIGH) -> Source:
    return Source(function, signature, _helpers)


def arguments() -> list[Any]:
    rng = np.random.default_rng(2)
    data = np.frombuffer(rng.bytes(20), np.uint8)
    return [data, rng.integers(-(2**31), 2**31, (7, 3)), np.zeros(7, np.int64), -5, True]


def same(code: Code) -> bool:
    ours, theirs = arguments(), arguments()
    expected = weigh(ours[0].data, *ours[1:])
    return code(*theirs) == expected and all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def kept(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_code_that_was_made_is_loaded_and_does_the_same(cache: Path) -> None:
    assert machine_code.load(source()) is None
    assert same(machine_code.make(source()))
    (file,) = kept(cache)
    assert file.name.startswith("weigh-")
    loaded = machine_code.load(source())
    assert loaded is not None
    assert same(loaded)


def test_numba_cache_dir_is_where_code_is_kept_when_it_is_set(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "elsewhere"))
    machine_code.make(source())
    assert kept(cache) == []
    assert len(kept(tmp_path / "elsewhere")) == 1
    assert machine_code.load(source()) is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:31],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: bytes(len(data)),
        lambda _: hashlib.sha256(b"").digest(),
        lambda _: hashlib.sha256(b"no object file").digest() + b"no object file",
        lambda data: hashlib.sha256(data[32:300]).digest() + data[32:300],
    ],
    ids=["empty", "cut in the hash", "cut", "longer", "a bit", "zeros", "no code", "other code", "cut with its hash"],
)
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(damage: Callable[[bytes], bytes], cache: Path) -> None:
    machine_code.make(source())
    (file,) = kept(cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert machine_code.load(source()) is None
    assert same(machine_code.make(source()))
    assert kept(cache) == [file]
    assert machine_code.load(source()) is not None


def test_code_with_a_symbol_that_there_is_not_is_as_good_as_none(cache: Path) -> None:
    machine_code.make(source())
    (file,) = kept(cache)
    import llvmlite.binding as llvm

    text = "declare i32 @nowhere_to_be_found()\ndefine i32 @kernel() {\n  %r = call i32 @nowhere_to_be_found()\n  ret i32 %r\n}"
    code = machine_code._machine().emit_object(llvm.parse_assembly(text))
    file.write_bytes(hashlib.sha256(code).digest() + code)
    assert machine_code.load(source()) is None


def test_code_that_cannot_be_linked_runs_in_numba_and_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_object", lambda *_: b"no object file")
    assert same(machine_code.make(source()))
    assert kept(cache) == []


def test_a_folder_in_place_of_the_file_does_no_harm(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "_told", {"compiling"})
    machine_code.make(source())
    (file,) = kept(cache)
    file.unlink()
    (file / "x").mkdir(parents=True)
    assert machine_code.load(source()) is None
    assert same(machine_code.make(source()))
    assert "compiled code is not kept" in capsys.readouterr().err
    assert kept(cache) == []


@pytest.mark.parametrize("processor", [("some-other-cpu", None), (None, "+some-other-feature")])
def test_code_of_another_processor_is_not_loaded(processor: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    machine_code.make(source())
    here = machine_code._processor()
    monkeypatch.setattr(machine_code, "_processor", lambda: tuple(new or old for new, old in zip(processor, here, strict=True)))
    assert machine_code.load(source()) is None


def test_code_of_another_llvmlite_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    machine_code.make(source())
    monkeypatch.setattr(llvmlite, "__version__", "0.0.1")
    assert machine_code.load(source()) is None


def test_the_fingerprint_is_the_same_in_every_process_and_tells_whatever_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(value: int) -> int:
        return value + 1

    def helped(data: Any) -> int:
        return int(be64(data, 0))

    before = source().fingerprint()
    script = "from tests.test_machine_code import source; print(source().fingerprint())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == before
    assert source(signature=WEIGH.replace("int64[::1]", "uint64[::1]")).fingerprint() != before
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "FACTOR", 4)
        assert source().fingerprint() != before
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "TABLE", TABLE[::-1].copy())
        assert source().fingerprint() != before
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "be32", other)
        assert source().fingerprint() != before
    assert source().fingerprint() == before
    with_module = source(of_module, "int64()").fingerprint()
    with monkeypatch.context() as patch:
        patch.setattr(ordering, "WINDOW", 7)
        assert source(of_module, "int64()").fingerprint() != with_module
    with_helper = source(helped, "int64(octets)").fingerprint()
    monkeypatch.setitem(_helpers, be64, other)
    assert source(helped, "int64(octets)").fingerprint() != with_helper


def test_a_signature_has_parameters() -> None:
    assert parse_signature(WEIGH) == (
        "int64",
        (
            Parameter("u1", 1, True),
            Parameter("i8", 2, False),
            Parameter("i8", 1, False),
            Parameter("i8", 0, False),
            Parameter("boolean", 0, False),
        ),
    )
    assert parse_signature("void()") == ("void", ())


@pytest.mark.parametrize(
    "text", ["", "int64", "int64(float64)", "uint64(int64)", "void(int64[:])", "void(int64 int64)", "void(int64", "void(,)"]
)
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no signature of a kernel"):
        parse_signature(text)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, np.zeros(20, np.int8)),
        (0, np.zeros(40, np.uint8)[::2]),
        (1, np.zeros(21, np.int64)),
        (1, np.zeros((7, 3), np.uint64)),
        (1, np.zeros((7, 3), ">i8")),
        (1, np.zeros((3, 7), np.int64).T),
        (2, np.zeros(57, np.uint8)[1:].view(np.int64)),
        (2, np.frombuffer(bytes(56), np.int64)),
    ],
    ids=["type", "steps", "dimensions", "sign", "byte order", "transposed", "alignment", "read-only"],
)
def test_arrays_that_the_code_would_misread_are_refused(place: int, wrong: np.ndarray[Any, Any]) -> None:
    code = machine_code.make(source())
    values = arguments()
    values[place] = wrong
    with pytest.raises(TypeError, match="a kernel takes contiguous arrays of its own types"):
        code(*values)


def test_numbers_that_do_not_fit_and_missing_arguments_are_refused() -> None:
    code = machine_code.make(source())
    data, rows, out, _, is_first = arguments()
    with pytest.raises(struct.error):
        code(data, rows, out, 2**63, is_first)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        code(data, rows, out, 1.5, is_first)
    with pytest.raises(ValueError, match="is longer than"):
        code(data, rows, out)


def test_an_exception_in_compiled_code_is_an_error() -> None:
    def fail(value: int) -> int:
        if value > 3:
            raise ValueError
        return value

    code = machine_code.make(source(fail, "int64(int64)"))
    assert code(3) == 3
    with pytest.raises(RuntimeError, match="a compiled kernel raised an exception"):
        code(4)


SCRIPT = """
import sys
from dcpinspect.kernel import kernel

@kernel("int64(int64)")
def double(value: int) -> int:
    return 2 * value

print(double(10**9, 21), "numba" in sys.modules)
"""


def start(**environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": "", **environment}
    )


def run(**environment: str) -> tuple[str, str]:
    out, err = start(**environment).communicate()
    return out, err


def test_first_compilation_says_so_and_the_second_process_loads_it_without_numba(cache: Path) -> None:
    assert run(XDG_CACHE_HOME=str(cache)) == ("42 True\n", NOTICE)
    assert run(XDG_CACHE_HOME=str(cache)) == ("42 False\n", "")


def test_processes_that_compile_at_once_keep_one_whole_file(cache: Path) -> None:
    processes = [start(XDG_CACHE_HOME=str(cache)) for _ in range(4)]
    for process in processes:
        out, err = process.communicate()
        assert out.startswith("42 ")
        assert err in ("", NOTICE)
    assert len(kept(cache)) == 1
    assert run(XDG_CACHE_HOME=str(cache)) == ("42 False\n", "")


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out, err = run(XDG_CACHE_HOME=str(tmp_path / "file"))
    warnings = [line for line in err.splitlines() if "compiled code is not kept" in line]
    assert out == "42 True\n"
    assert len(warnings) == 1
    assert warnings[0].endswith("set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that can be written")


def test_a_read_only_cache_is_used_in_silence(cache: Path) -> None:
    run(XDG_CACHE_HOME=str(cache))
    (file,) = kept(cache)
    file.chmod(0o400)
    file.parent.chmod(0o500)
    try:
        assert run(XDG_CACHE_HOME=str(cache)) == ("42 False\n", "")
    finally:
        file.parent.chmod(0o700)


def test_numba_switched_off_is_as_good_as_none(cache: Path) -> None:
    assert run(XDG_CACHE_HOME=str(cache), NUMBA_DISABLE_JIT="1") == ("42 True\n", "")
    assert not os.path.exists(cache)
