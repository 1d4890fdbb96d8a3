"""Machine code of kernels that are not in the package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcpinspect.kernels.build import link
from dcpinspect.kernels.compiling import object_of
from dcpinspect.kernels.kernel import Kernel
from dcpinspect.kernels.library import Code, Library


def made(function: Callable[..., Any], signature: str) -> Code:
    """What a build makes of a function."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.o").write_bytes(object_of(function, signature))
        link(folder, [folder / "kernel.o"], "", folder / "library.so")
        code = Library(str(folder / "library.so")).code(function, signature)
    assert code is not None
    return code


def compile_here(*kernels: Kernel[..., Any]) -> None:
    """Gives kernels of a test their machine code, as if the library had it."""
    for kernel in kernels:
        vars(kernel)["code"] = made(kernel.function, kernel.signature)
