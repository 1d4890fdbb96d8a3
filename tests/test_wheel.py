"""A wheel brings the machine code of every kernel, so that who installs one waits for no compiler; and where it cannot, it says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LARGE = str(ROOT / "sample_captures" / "large.pcapng.gz")

ALL_KERNELS = """
import gc, json, sys
from importlib import import_module
for name in NAMES:
    import_module(name)
from dcpinspect import kernel, machine_code
found = [one for one in gc.get_objects() if isinstance(one, kernel.Kernel) and one.function.__module__ in NAMES]
sources = [one.source() for one in found]
loaded = [machine_code.load(source) is not None for source in sources]
names = [f"{machine_code.shipped_folder()}/{source.file_name()}" for source in sources]
print(json.dumps([machine_code.__file__, loaded, sorted(names), "numba" in sys.modules]))
"""


def build(folder: Path, target: str = "wheel", *, root: Path = ROOT, environment: Mapping[str, str] | None = None) -> tuple[Path, str]:
    """A wheel, and what was said while it was built."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=root, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


FEW = ("dcpinspect.protocol.header_columns", "dcpinspect.protocol.leb128", "dcpinspect.streams.noop_peers")
"""Modules with kernels: of plain arrays, and of tables."""


def with_few_kernels(folder: Path) -> Path:
    """The project, in which the hook sees no kernels but those of a few modules: compiling all takes a minute."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "dcpinspect", folder / "dcpinspect", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "dcpinspect").rglob("*.py"):
        if ".".join(path.relative_to(folder).with_suffix("").parts) not in FEW:
            path.write_text(path.read_text("utf-8").replace("@kernel(", "@kernel ("), "utf-8")
    return folder


def modules() -> list[str]:
    """Of the package, without those that are for Scapy, Spark and the terminal."""
    paths = [
        path.relative_to(ROOT).with_suffix("") for path in (ROOT / "dcpinspect").rglob("*.py") if path.stem not in ("__init__", "__main__")
    ]
    names = sorted(".".join(path.parts) for path in paths)
    return [name for name in names if not name.startswith(("dcpinspect.scapy_layer", "dcpinspect.spark.source", "dcpinspect.tui"))]


@pytest.mark.parametrize("has_all", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_who_installs_a_wheel_waits_for_no_compiler(tmp_path: Path, has_all: bool) -> None:
    (tree := tmp_path / "tree").mkdir()
    wheel, _ = build(tmp_path, root=ROOT if has_all else with_few_kernels(tree))
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}-" in wheel.name
    assert "-any" not in wheel.name
    site, cache = tmp_path / "site", tmp_path / "cache"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # what installing it does
    environment = {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": ""}

    def run(*arguments: str, **more: str) -> bytes:
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env={**environment, **more}, capture_output=True, check=True)
        assert done.stderr == b""
        return done.stdout

    where, are_loaded, names, uses_numba = json.loads(run("-c", ALL_KERNELS.replace("NAMES", repr(modules() if has_all else FEW))))
    assert Path(where).is_relative_to(site)
    assert len(are_loaded) > (20 if has_all else 2)
    assert all(are_loaded)
    assert not uses_numba
    kernels = site / "dcpinspect" / "kernels"
    assert sorted(path.relative_to(kernels).as_posix() for path in kernels.rglob("*.o")) == names
    if not has_all:
        return  # reading compiles the others
    read = ["-m", "dcpinspect", "read", LARGE, "--format", "csv", "--columns", "row,name,vbucket,by_seqno,rtt_ns"]
    expected = run(*read, DCPINSPECT_KERNELS="interpreted")
    assert run(*read, DCPINSPECT_KERNELS="compiled") == expected
    assert not cache.exists()


@pytest.mark.parametrize(
    ("target", "environment", "says"),
    [
        ("wheel", {"NUMBA_DISABLE_JIT": "1"}, "a wheel without machine code, kernels will be compiled at first use"),
        ("wheel", {"HATCH_BUILD_NO_HOOKS": "true"}, ""),
        ("wheel:editable", {}, ""),
    ],
    ids=["numba does not work", "asked for", "editable"],
)
def test_without_machine_code_a_wheel_is_for_every_platform(target: str, environment: dict[str, str], says: str, tmp_path: Path) -> None:
    wheel, said = build(tmp_path, target, environment=environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert says in said
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith(".o")] == []


def test_a_build_asks_for_everything_that_the_modules_with_kernels_load() -> None:
    code = "import sys, hatch_build\nbefore = {*sys.modules}\nprint(len(hatch_build.ordered()) > 20, *({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    is_whole, *loaded = done.stdout.split()
    assert is_whole == "True"
    build_hooks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    wanted = {text.partition(">")[0] for text in build_hooks["custom"]["dependencies"]}
    outside = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert {name for name in outside if name.isidentifier() and not name.startswith("_")} - {"cython_runtime", "dcpinspect"} <= wanted
