"""Kernels compiled by numba: when a wheel is built, and at first use of a kernel that no wheel brought.

This is all that knows numba from the inside. What it makes are object files that need the C library alone, which ``machine_code`` links.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dcpinspect.machine_code import TYPES, Code, Source, keep, link, machine, processor, sealed, shipped_folder, tell

_NO_OBJECTS = """
target triple = "{triple}"
target datalayout = "{layout}"
define void @NRT_MemInfo_call_dtor(ptr %object) {{
    ret void
}}
"""
"""The one function of numba's run time that kernels refer to. Never called: their arrays own nothing."""

_registered: set[Callable[..., Any]] = set()


def make(source: Source) -> Code:
    """Compiles for this processor, which takes seconds and is announced once, and keeps the code for later processes.

    Raises ``ImportError`` where numba is missing or does not work.
    """
    _numba_config()
    tell("compiling", "compiling for large captures, once for this version (up to a minute)")
    library, name = _compiled(source)
    code = _object(library, name, *processor())
    try:
        linked = link(source, code)
    except RuntimeError:  # numba's own way of loading works wherever numba does
        return Code(source, library.get_pointer_to_function(name), library)
    keep(source, code)
    return linked


def ship(source: Source, folder: Path) -> None:
    """Compiles for every processor of this platform, into a folder as a wheel has it; afterwards this process compiles for no other.

    Raises ``ImportError`` as ``make``.
    """
    config = _numba_config()
    cpu, features = config.CPU_NAME, config.CPU_FEATURES = "generic", ""
    path = folder / shipped_folder() / source.file_name()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sealed(path, _object(*_compiled(source), cpu, features)))


def _numba_config() -> Any:
    import numba  # deferred: 0.5 s, and only ever needed once

    config: Any = numba.config  # numba fills this module at run time
    if config.DISABLE_JIT:
        msg = "NUMBA_DISABLE_JIT is set"
        raise ImportError(msg)
    return config


def _compiled(source: Source) -> tuple[Any, str]:
    """numba's library with the entry, and the entry's name in it."""
    import numba
    from numba.core import types as numba_types
    from numba.extending import overload

    for function, other in source.helpers.items():
        if function not in _registered:
            _registered.add(function)
            options: Any = {"forceinline": True} if other is function else {}
            overload(function, jit_options=options, strict=False)(_always(other or function))
    compiler: Any = numba  # its annotations leave out what its own extensions use
    types: Any = numba_types
    arguments, at = [], 0
    for parameter in source.parameters:
        shape = "".join(f"words[{at + 1 + place}], " for place in range(parameter.dimensions))
        whole = f"words[{at}] != 0" if parameter.type == "boolean" else f"words[{at}]"
        arguments.append(f"carray(addresses[{at}], ({shape}), {parameter.type})" if shape else whole)
        at += 1 + parameter.dimensions
    call = f"kernel({', '.join(arguments)})"
    names = {
        # Inlined before types are inferred: one compilation, not two, and the kernel sees arrays that own nothing.
        "kernel": compiler.njit(inline="always")(source.function),
        "carray": compiler.carray,
        **{name: np.dtype(name) for name in set(TYPES.values())},
    }
    text = f"    {call}\n    return 0\n" if source.result == "void" else f"    return {call}\n"
    exec(f"def entry(words, addresses):\n{text}", names)  # noqa: S102 - made of our own source's signature
    signature = types.int64(types.CPointer(types.int64), types.CPointer(types.voidptr))
    # Without wrappers for Python, which refer to numba's libraries by address.
    entry = compiler.njit(signature, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(names["entry"])
    (result,) = entry.overloads.values()
    return result.library, result.fndesc.llvm_func_name


def _always(function: Callable[..., Any]) -> Callable[..., Any]:
    """numba's ``overload`` wants a function that, given the types, returns the implementation."""
    return lambda *_: function


def _object(library: Any, name: str, cpu: str, features: str) -> bytes:
    """An object file that needs nothing but the C library."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(library.get_llvm_str())
    module.get_function(name).name = "kernel"
    module.link_in(llvm.parse_assembly(_NO_OBJECTS.format(triple=module.triple, layout=module.data_layout)))
    code: bytes = machine(cpu, features).emit_object(module)
    return code
