"""The library is used if it is that of the package's own sources; else everything runs interpreted,
and one line says so.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect.kernels.kernel import be32
from dcpinspect.kernels.library import NAME, Code, Parameter, load_library, parse_signature
from dcpinspect.transport import packet_owners
from tests.kernels.made import made

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOUR = str(ROOT / "sample_captures" / "tour.pcapng")
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
    return packet_owners.WINDOW


WEIGH = "int64(octets, int64[:,::1], int64[::1], int64, boolean)"


@pytest.fixture(scope="module")
def code() -> Code:
    return made(weigh, WEIGH)


def arguments() -> list[Any]:
    rng = np.random.default_rng(2)
    data = np.frombuffer(rng.bytes(20), np.uint8)
    return [data, rng.integers(-(2**31), 2**31, (7, 3)), np.zeros(7, np.int64), -5, True]


def test_machine_code_does_the_same(code: Code) -> None:
    ours, theirs = arguments(), arguments()
    expected = weigh(ours[0].data, *ours[1:])
    assert code(*theirs) == expected
    assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


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
    "text",
    [
        "",
        "int64",
        "int64(float64)",
        "uint64(int64)",
        "void(int64[:])",
        "void(int64 int64)",
        "void(int64",
        "void(,)",
    ],
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
    ids=[
        "type",
        "steps",
        "dimensions",
        "sign",
        "byte order",
        "transposed",
        "alignment",
        "read-only",
    ],
)
def test_arrays_that_the_code_would_misread_are_refused(
    place: int, wrong: np.ndarray[Any, Any], code: Code
) -> None:
    values = arguments()
    values[place] = wrong
    with pytest.raises(TypeError, match="a kernel takes contiguous arrays of its own types"):
        code(*values)


def test_numbers_that_do_not_fit_and_missing_arguments_are_refused(code: Code) -> None:
    data, rows, out, _, is_first = arguments()
    with pytest.raises(struct.error):
        code(data, rows, out, 2**63, is_first)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        code(data, rows, out, 1.5, is_first)
    with pytest.raises(ValueError, match="is longer than"):
        code(data, rows, out)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, with its library."""
    return Path(
        shutil.copytree(
            ROOT / "dcpinspect",
            tmp_path / "dcpinspect",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    )


def run(place: Path) -> tuple[str, str]:
    """What is printed of a sample, and what is said beside it."""
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "dcpinspect", "read", TOUR]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout, done.stderr


def told(why: str) -> str:
    return (
        "dcpinspect: kernels run interpreted, many times slower, without their machine code "
        f"({why}); "
        "to make it, install numba (the extra dcpinspect[build]) and run: python -m "
        "dcpinspect.kernels.build\n"
    )


def test_of_the_sources_it_was_made_from_it_is_used_in_silence(package: Path) -> None:
    assert run(package.parent) == (run(ROOT)[0], "")


@pytest.mark.parametrize("name", ["streams/records.py", "kernels/structs.py", "protocol/header.py"])
def test_never_does_old_code_run_with_new_sources(name: str, package: Path) -> None:
    """Not even a comment may differ: what is in the files is compared, not what it means."""
    with (package / name).open("a") as file:
        file.write("# changed\n")
    assert run(package.parent) == (run(ROOT)[0], told("it was made from other sources"))


def test_a_source_that_no_kernel_is_made_of_may_change(package: Path) -> None:
    with (package / "findings" / "gaps.py").open("a") as file:
        file.write("# changed\n")
    assert run(package.parent)[1] == ""


def test_without_it_everything_is_the_same_and_a_line_says_what_to_install(package: Path) -> None:
    (package / NAME).unlink()
    assert run(package.parent) == (run(ROOT)[0], told("there is none for this platform"))


@pytest.mark.parametrize("content", [b"", b"no library"])
def test_what_cannot_be_loaded_is_as_good_as_none(content: bytes, package: Path) -> None:
    (package / NAME).write_bytes(content)
    out, err = run(package.parent)
    assert out == run(ROOT)[0]
    assert err.startswith(
        "dcpinspect: kernels run interpreted, many times slower, without their machine code ("
    )
    assert len(err.splitlines()) == 1


def test_another_library_under_its_name_is_not_used(package: Path) -> None:
    import _ctypes

    shutil.copy(_ctypes.__file__, package / NAME)
    assert run(package.parent)[1] == told("it was made from other sources")


def test_it_is_found_in_a_package_that_is_an_archive(package: Path) -> None:
    """As on executors of Spark."""
    archive = shutil.make_archive(
        str(package.parent / "package"), "zip", package.parent, "dcpinspect"
    )
    assert run(Path(archive)) == (run(ROOT)[0], "")


def test_the_library_of_this_tree_is_up_to_date() -> None:
    """The other tests would prove nothing of machine code."""
    assert load_library().fits()
