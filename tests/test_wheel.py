"""A wheel brings the machine code of every kernel for each Python of its platform; and where it
cannot, it says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import hatch_build
from dcpinspect.kernels.build import kernels

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TOUR = str(ROOT / "sample_captures" / "tour.pcapng")


def build(
    folder: Path, target: str = "wheel", *, environment: Mapping[str, str] | None = None
) -> tuple[Path, str]:
    """A wheel, and what was said while it was built."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


def libraries(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith((".so", ".o"))]


def test_who_installs_a_wheel_needs_no_compiler_and_no_numba(tmp_path: Path) -> None:
    wheel, _ = build(tmp_path)
    assert "-py3-none-" in wheel.name
    assert "-any" not in wheel.name
    assert libraries(wheel) == [hatch_build.NAME]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")  # what installing it does
    script = f"""
import sys
for name in ("numba", "llvmlite"):
    sys.modules[name] = None
from dcpinspect.cli.main import main
from dcpinspect.kernels.gathering import copy_pieces
status = main(["read", {TOUR!r}])
assert copy_pieces.is_compiled
assert main.__code__.co_filename.startswith({str(tmp_path)!r})
sys.exit(status)
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    here = subprocess.run(
        [sys.executable, "-m", "dcpinspect", "read", TOUR],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (here.stdout, b"")


@pytest.mark.parametrize(
    ("target", "environment", "says"),
    [
        (
            "wheel",
            {"PATH": ""},
            "without machine code, kernels will run interpreted, many times slower: dcpinspect: ",
        ),
        ("wheel", {"HATCH_BUILD_NO_HOOKS": "true"}, ""),
        ("wheel:editable", {}, ""),
    ],
    ids=["no linker", "asked for", "editable"],
)
def test_without_machine_code_a_wheel_is_for_every_platform(
    target: str, environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    wheel, said = build(tmp_path, target, environment=environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert says in said
    assert libraries(wheel) == []


def needed() -> list[str]:
    (config,) = WheelBuilder(str(ROOT)).get_build_hooks(str(ROOT)).values()
    return [text.partition(">")[0] for text in config.dependencies()]


def test_a_build_brings_a_linker_only_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "numba" in needed()
    assert "ziglang" not in needed()
    monkeypatch.setenv("PATH", "")
    assert "ziglang" in needed()


@pytest.mark.parametrize(("name", "value"), [("version_info", (3, 99)), ("platform", "plan9")])
def test_where_there_is_no_numba_a_build_asks_for_nothing(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make the install fail."""
    monkeypatch.setattr(sys, name, value)
    assert needed() == []


def test_a_build_asks_for_everything_that_the_modules_with_kernels_load() -> None:
    code = (
        "import sys\nbefore = {*sys.modules}\nfrom dcpinspect.kernels.build import "
        "kernels\nkernels()\nprint(*({*sys.modules} - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    outside = {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names
    assert {name for name in outside if name.isidentifier() and not name.startswith("_")} - {
        "cython_runtime",
        "dcpinspect",
    } <= {*needed()}
    assert len(kernels()) > 30
