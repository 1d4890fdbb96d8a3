"""Puts machine code into wheels: all kernels, compiled for the platform on which the wheel is built.

Where that cannot be had, the wheel is one for every platform, and kernels are compiled at first use, as they are from a source tree.
``HATCH_BUILD_NO_HOOKS=true`` asks for such a wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
PROCESSES = 4
"""At most so many compile, with 0.3 GB each."""


class MachineCode(BuildHookInterface[Any]):
    """The hook; hatchling finds it by its base."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs this file as a program, so that nothing of the project and of numba is loaded into the process that builds."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        done = subprocess.run([sys.executable, __file__, self._folder.name], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            why = (done.stderr.splitlines() or ["no reason given"])[-1]
            self.app.display_warning(f"a wheel without machine code, kernels will be compiled at first use: {why}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True  # kernels are found by their bytecode, which is that of one Python
        build_data["force_include"][self._folder.name] = "dcpinspect/kernels"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Takes away what the wheel now has."""
        if version != "editable":
            self._folder.cleanup()


def kernels() -> Iterator[Any]:
    """All of the package, by the modules that have any."""
    from dcpinspect.kernel import Kernel

    for path in sorted((ROOT / "dcpinspect").rglob("*.py")):
        if "@kernel(" in path.read_text("utf-8"):
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            yield from (
                value for value in vars(module).values() if isinstance(value, Kernel) and value.function.__module__ == module.__name__
            )


def compile_one(folder: str, place: int) -> None:
    """Compiles the kernel that is at that place of the largest ones."""
    from dcpinspect.compiling import ship

    ship(ordered()[place].source(), Path(folder))


def ordered() -> list[Any]:
    """All kernels, those first that probably take longest."""
    return sorted(kernels(), key=lambda kernel: -len(kernel.function.__code__.co_code))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT))
    with ProcessPoolExecutor(min(PROCESSES, os.cpu_count() or 1)) as pool:
        list(pool.map(compile_one, [sys.argv[1]] * len(ordered()), range(len(ordered()))))
