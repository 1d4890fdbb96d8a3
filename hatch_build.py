"""Puts machine code into wheels: the library of all kernels, compiled for the platform on which the
wheel is built.

A source tree that is installed for editing gets its library in the same way. Where that cannot be
had, the wheel is one for every platform, and kernels run interpreted. ``HATCH_BUILD_NO_HOOKS=true``
asks for such a wheel.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

NAME = "dcpinspect/kernels/machine_code.so"
NUMBA = (3, 11), (3, 14)
"""The first and the last Python of which there are wheels of numba. Asked for where there is none,
it would make the install fail.
"""


class MachineCode(BuildHookInterface[Any]):
    """The hook; hatchling finds it by its base."""

    def dependencies(self) -> list[str]:
        """Returns what the build needs here: a compiler, as a package, and a linker where the
        system has none.
        """
        if not _has_numba():
            return []
        linker = [] if any(map(shutil.which, ("cc", "gcc", "clang"))) else ["ziglang>=0.13"]
        return ["numba>=0.62", "numpy>=2.0", "orjson>=3.10", *linker]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs the build as a program, so that nothing of the project and of numba is loaded into
        this process.
        """
        command = [sys.executable, "-m", "dcpinspect.kernels.build"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            why = (done.stderr.splitlines() or ["no reason given"])[-1]
            self.app.display_warning(
                f"without machine code, kernels will run interpreted, many times slower: {why}"
            )
            return
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform()}"
            build_data["force_include"][str(Path(self.root, NAME))] = NAME


def _has_numba() -> bool:
    has_lock = not sysconfig.get_config_var("Py_GIL_DISABLED")
    is_known = (
        NUMBA[0] <= sys.version_info[:2] <= NUMBA[1]
        and sys.implementation.name == "cpython"
        and has_lock
    )
    of_platform = {"linux": ("x86_64", "aarch64"), "darwin": ("arm64",)}.get(sys.platform, ())
    return (
        is_known
        and platform.machine() in of_platform
        and not any(tag.startswith("musllinux") for tag in platform_tags())
    )


def _platform() -> str:
    """Returns the platforms that the wheel is for. The library needs no symbol but those that each
    C library has.
    """
    if sys.platform != "linux":
        return next(platform_tags())
    machine = platform.machine()
    return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
