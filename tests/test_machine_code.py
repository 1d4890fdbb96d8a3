"""Code of the package, or kept by an earlier process, is what runs, or it is compiled anew; nothing wrong with a file does harm, nor does
whoever else can write where it is kept."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect import compiling, machine_code
from dcpinspect.compiling import make
from dcpinspect.kernel import _helpers, be32, be64
from dcpinspect.machine_code import Code, Parameter, Source, parse_signature
from dcpinspect.transport import whose

NOTICE = "dcpinspect: compiling for large captures, once for this version (up to a minute)\n"
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
    return whose.WINDOW


WEIGH = "int64(octets, int64[:,::1], int64[::1], int64, boolean)"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiling, "_compiled", translated)
    return tmp_path / "cache"


_translate = compiling._compiled
_translated: dict[str, tuple[Any, str]] = {}


def translated(source: Source) -> tuple[Any, str]:
    """What numba makes of a function, which takes it a quarter of a second and is the same in every test."""
    key = source.fingerprint()
    if key not in _translated:
        _translated[key] = _translate(source)
    return _translated[key]


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
    assert same(make(source()))
    (file,) = kept(cache)
    assert file.name.startswith("weigh-")
    loaded = machine_code.load(source())
    assert loaded is not None
    assert same(loaded)


def test_numba_cache_dir_is_where_code_is_kept_when_it_is_set(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "elsewhere"))
    make(source())
    assert kept(cache) == []
    assert len(kept(tmp_path / "elsewhere")) == 1
    assert machine_code.load(source()) is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda *_: b"",
        lambda data, _: data[:31],
        lambda data, _: data[:-1],
        lambda data, _: data + b"\0",
        lambda data, _: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data, _: bytes(len(data)),
        lambda data, path: machine_code.sealed(path.with_name("other.o"), data[32:]),
        lambda data, path: machine_code.sealed(path.parent / "other" / path.name, data[32:]),
        lambda _, path: machine_code.sealed(path, b""),
        lambda _, path: machine_code.sealed(path, b"no object file"),
        lambda data, path: machine_code.sealed(path, data[32:300]),
    ],
    ids=[
        "empty",
        "cut in the hash",
        "cut",
        "longer",
        "a bit",
        "zeros",
        "another name",
        "another folder",
        "no code",
        "other code",
        "cut with its hash",
    ],
)
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(damage: Callable[[bytes, Path], bytes], cache: Path) -> None:
    make(source())
    (file,) = kept(cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole, file))
    assert machine_code.load(source()) is None
    assert same(make(source()))
    assert kept(cache) == [file]
    assert machine_code.load(source()) is not None


def test_code_with_a_symbol_that_there_is_not_is_as_good_as_none(cache: Path) -> None:
    make(source())
    (file,) = kept(cache)
    import llvmlite.binding as llvm

    text = "declare i32 @nowhere_to_be_found()\ndefine i32 @kernel() {\n  %r = call i32 @nowhere_to_be_found()\n  ret i32 %r\n}"
    code = machine_code.machine(*machine_code.processor()).emit_object(llvm.parse_assembly(text))
    file.write_bytes(machine_code.sealed(file, code))
    assert machine_code.load(source()) is None


def test_a_folder_in_place_of_the_file_does_no_harm(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "_told", {"compiling"})
    make(source())
    (file,) = kept(cache)
    file.unlink()
    (file / "x").mkdir(parents=True)
    assert machine_code.load(source()) is None
    assert same(make(source()))
    assert "compiled code cannot be saved" in capsys.readouterr().err
    assert kept(cache) == []


@pytest.mark.parametrize("processor", [("some-other-cpu", None), (None, "+some-other-feature")])
def test_code_of_another_processor_is_not_loaded(processor: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    make(source())
    here = machine_code.processor()
    monkeypatch.setattr(machine_code, "processor", lambda: tuple(new or old for new, old in zip(processor, here, strict=True)))
    assert machine_code.load(source()) is None


def test_code_of_another_llvmlite_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite

    make(source())
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
        patch.setattr(whose, "WINDOW", 7)
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
    code = make(source())
    values = arguments()
    values[place] = wrong
    with pytest.raises(TypeError, match="a kernel takes contiguous arrays of its own types"):
        code(*values)


def test_numbers_that_do_not_fit_and_missing_arguments_are_refused() -> None:
    code = make(source())
    data, rows, out, _, is_first = arguments()
    with pytest.raises(struct.error):
        code(data, rows, out, 2**63, is_first)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        code(data, rows, out, 1.5, is_first)
    with pytest.raises(ValueError, match="is longer than"):
        code(data, rows, out)


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
    warnings = [line for line in err.splitlines() if "compiled code cannot be saved" in line]
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


def plant(cache: Path) -> Path:
    """A file that nothing is wrong with but where it is."""
    make(source())
    (file,) = kept(cache)
    return file


def refused(path: Path, why: str) -> str:
    return (
        f"dcpinspect: {path} is not used for compiled code: {why}; "
        "set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that only you can write\n"
    )


def of_depth(file: Path, depth: int) -> Path:
    return [file, *file.parents][depth]


@pytest.mark.parametrize("depth", range(5), ids=["file", "processor", "machine-code", "dcpinspect", "cache"])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_nothing_is_taken_from_where_others_can_write(
    depth: int, mode: int, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = plant(cache)
    planted = of_depth(file, depth)
    if mode == 0o775 and depth > 2 and os.getuid() == planted.stat().st_gid != 0:
        pytest.skip("a group of its user alone is nobody else")
    monkeypatch.setattr(machine_code, "_told", {"compiling"})
    capsys.readouterr()
    planted.chmod(mode)
    assert machine_code.load(source()) is None
    assert capsys.readouterr().err == refused(planted, "other users can write it")
    before = file.read_bytes()
    if depth:
        file.write_bytes(b"planted")
        assert same(make(source()))
        assert file.read_bytes() == b"planted", "nor is anything kept there"
    planted.chmod(0o700)
    file.write_bytes(before)
    assert machine_code.load(source()) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.parametrize("depth", range(5), ids=["file", "processor", "machine-code", "dcpinspect", "cache"])
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_root_takes_nothing_from_what_belongs_to_another_user(
    depth: int, variable: str, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under sudo, with the variables of who called it."""
    monkeypatch.setenv(variable, str(cache))
    planted = of_depth(plant(cache), depth)
    monkeypatch.setattr(machine_code, "_told", {"compiling"})
    capsys.readouterr()
    os.chown(planted, 12_345, 12_345)
    assert machine_code.load(source()) is None
    assert capsys.readouterr().err == refused(planted, "it belongs to another user")


@pytest.mark.parametrize("depth", range(3), ids=["file", "processor", "machine-code"])
def test_no_link_is_followed(depth: int, cache: Path) -> None:
    place = of_depth(plant(cache), depth)
    place.rename(cache / "moved")
    place.symlink_to(cache / "moved")
    assert machine_code.load(source()) is None


def test_folders_are_made_for_their_owner_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        file = plant(cache)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(place.stat().st_mode) for place in list(file.parents)[:4]} == {0o700}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_the_package_brings_comes_first_and_the_cache_is_not_looked_at(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = ship_elsewhere(tmp_path, monkeypatch)
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    code = machine_code.load(source())
    assert code is not None
    assert same(code)
    assert capsys.readouterr().err == ""
    assert kept(cache) == []
    for file in kept(shipped):
        file.write_bytes(file.read_bytes()[:-1])
    assert machine_code.load(source()) is None


def ship_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a process of its own, which afterwards compiles for no other processors."""
    script = (
        "from pathlib import Path; from dcpinspect.compiling import ship; from tests.test_machine_code import source; "
        f"ship(source(), Path({str(tmp_path / 'shipped')!r}))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    monkeypatch.setattr(machine_code, "_SHIPPED", tmp_path / "shipped")
    return tmp_path / "shipped"


def test_where_nothing_was_kept_nothing_is_said(cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_told", set())
    cache.mkdir()
    cache.chmod(0o777)
    assert machine_code.load(source()) is None
    assert capsys.readouterr().err == ""
    make(source())
    assert "is not used for compiled code" in capsys.readouterr().err
    assert kept(cache) == []
