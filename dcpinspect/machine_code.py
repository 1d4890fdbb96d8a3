"""Kernels as machine code: compiled by numba once, kept in files, loaded again without numba.

Importing numba takes half a second; llvmlite alone, which loads what numba made, takes 0.04 s. A file is one kernel: 32 bytes
of SHA-256, then an object file whose one entry, ``kernel``, takes plain addresses and sizes. The file's path tells everything that
decides what the code does and where it runs, so a file is right or missing; whatever else is wrong with one, it is missing.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import operator
import os
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_FORMAT = b"1"
"""Changes with the entry's parameters and the layout of files."""
_TYPES = {"octets": "u1", "uint8": "u1", "int64": "i8", "uint64": "u8"}
_PARAMETER = re.compile(r"(octets|uint8|int64|uint64|boolean)(\[(:,)*::1\])?\s*(?:,\s*|$)")

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
"""What numba makes of ``int64 entry(words, addresses)``: a status, then places for the result and for an exception."""

_NO_OBJECTS = """
target triple = "{triple}"
target datalayout = "{layout}"
define void @NRT_MemInfo_call_dtor(ptr %object) {{
    ret void
}}
"""
"""The one function of numba's run time that kernels refer to. Never called: their arrays own nothing."""

_told: set[str] = set()
_registered: set[Callable[..., Any]] = set()
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a kernel takes at one place: an array of so many dimensions, or, with none, an integer."""

    type: str
    dimensions: int
    is_read_only: bool


class Source:
    """What a kernel is compiled from."""

    def __init__(
        self, function: Callable[..., Any], signature: str, helpers: Mapping[Callable[..., Any], Callable[..., Any] | None]
    ) -> None:
        """``helpers`` are the functions that kernels may call, each with what stands for it when compiled, or None.

        A function that stands for itself is compiled in place of each call.
        """
        self.function = function
        self.signature = signature
        self.helpers = helpers
        self.result, self.parameters = parse_signature(signature)

    def fingerprint(self) -> str:
        """A hash of the code and of every constant and function that it refers to."""
        facts = hashlib.sha256(_FORMAT + self.signature.encode())
        seen: set[int] = set()
        for fact in self._facts(self.function, seen):
            facts.update(len(fact).to_bytes(8, "big") + fact)
        return facts.hexdigest()[:24]

    def _facts(self, function: Any, seen: set[int]) -> Iterator[bytes]:
        function = self.helpers.get(function) or function
        if id(function) in seen:
            return
        seen.add(id(function))
        yield repr(function.__defaults__).encode()
        for code in _codes(function.__code__):
            yield code.co_code
            yield repr([constant for constant in code.co_consts if not isinstance(constant, CodeType)]).encode()
            scopes = [function.__globals__]
            scopes += [vars(value) for name in code.co_names if isinstance(value := scopes[0].get(name), ModuleType)]
            for name in code.co_names:
                yield name.encode()
                for value in (scope[name] for scope in scopes if name in scope):
                    if isinstance(value, FunctionType):
                        yield from self._facts(value, seen)
                    elif isinstance(value, np.ndarray):
                        yield value.dtype.str.encode() + repr(value.shape).encode() + value.tobytes()
                    else:
                        yield repr(value.__name__ if isinstance(value, ModuleType) else value).encode()


class Code:
    """A kernel's machine code; called like the function. Lets other threads run meanwhile."""

    def __init__(self, source: Source, address: int, keep: object) -> None:
        """``keep`` is what the code lives in."""
        self._entry = _ENTRY(address)
        self._parameters = source.parameters
        self._pack = struct.Struct(f"={sum(1 + parameter.dimensions for parameter in source.parameters)}q").pack
        self._is_void = source.result == "void"
        self._keep = keep

    def __call__(self, *args: Any) -> Any:
        """Raises ``TypeError`` for what the code would misread: it checks nothing."""
        words: list[int] = []
        for arg, parameter in zip(args, self._parameters, strict=True):
            if parameter.dimensions:
                words += _array_words(arg, parameter)
            else:
                words.append(operator.index(arg) if parameter.type != "boolean" else bool(arg))
        packed = self._pack(*words)
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        if self._entry(ctypes.addressof(result), ctypes.addressof(exception), packed, packed):
            msg = "a compiled kernel raised an exception"
            raise RuntimeError(msg)
        return None if self._is_void else result.value


def parse_signature(text: str) -> tuple[str, tuple[Parameter, ...]]:
    """The result's type, ``int64`` or ``void``, and the parameters of ``int64(octets, int64[:,::1], boolean)``.

    ``octets`` stands for a one-dimensional uint8 array that is only read. Raises ``ValueError`` for anything else.
    """
    match = re.fullmatch(r"(int64|void)\((.*)\)", text)
    parameters, at = [], 0
    while match and at < len(match[2]):
        found = _PARAMETER.match(match[2], at)
        if found is None:
            match = None
            break
        name, brackets = found[1], found[2]
        dimensions = brackets.count(":,") + 1 if brackets else int(name == "octets")
        parameters.append(Parameter(_TYPES.get(name, name), dimensions, name == "octets"))
        at = found.end()
    if match is None:
        msg = f"{text!r} is no signature of a kernel"
        raise ValueError(msg)
    return match[1], tuple(parameters)


def load(source: Source) -> Code | None:
    """The code that an earlier process kept, or None."""
    try:
        if not _kernels().is_dir():
            return None
        kept = _path(source).read_bytes()
        digest, code = kept[:32], kept[32:]
        return Code(source, *_link(code)) if hashlib.sha256(code).digest() == digest else None
    except (ImportError, OSError, RuntimeError):
        return None


def make(source: Source) -> Code:
    """Compiles, which takes seconds and is announced once, and keeps the code for later processes.

    Raises ``ImportError`` where numba is missing or does not work.
    """
    import numba  # deferred: 0.5 s, and only ever needed once

    config: Any = numba.config  # numba fills this module at run time
    if config.DISABLE_JIT:
        msg = "NUMBA_DISABLE_JIT is set"
        raise ImportError(msg)
    _tell("compiling", "compiling for large captures, once for this version (up to 15 s)")
    library, name = _compiled(source)
    code = _object(library, name)
    try:
        linked = Code(source, *_link(code))
    except RuntimeError:  # numba's own way of loading works wherever numba does
        return Code(source, library.get_pointer_to_function(name), library)
    _keep(_path(source), hashlib.sha256(code).digest() + code)
    return linked


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _array_words(array: Any, parameter: Parameter) -> tuple[int, ...]:
    """Address and shape. One look at the array's interface tells everything, in a microsecond."""
    facts = array.__array_interface__
    address, is_read_only = facts["data"]
    size = int(parameter.type[1])
    if (
        facts["strides"] is not None  # None: contiguous
        or facts["typestr"][1:] != parameter.type
        or facts["typestr"][0] not in ("|", "<" if sys.byteorder == "little" else ">")
        or len(facts["shape"]) != parameter.dimensions
        or (is_read_only and not parameter.is_read_only)
        or address % size
    ):
        msg = f"a kernel takes contiguous arrays of its own types, not {facts}"
        raise TypeError(msg)
    return (address, *facts["shape"])


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
        **{name: np.dtype(name) for name in set(_TYPES.values())},
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


def _object(library: Any, name: str) -> bytes:
    """An object file that needs nothing but the C library."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(library.get_llvm_str())
    module.get_function(name).name = "kernel"
    module.link_in(llvm.parse_assembly(_NO_OBJECTS.format(triple=module.triple, layout=module.data_layout)))
    code: bytes = _machine().emit_object(module)
    return code


@functools.cache
def _machine() -> Any:
    """This processor, for llvmlite."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = _processor()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True)


def _processor() -> tuple[str, str]:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler(_machine(), suppress_errors=True)


def _link(code: bytes) -> tuple[int, object]:
    """The address of ``kernel`` in memory, and what keeps it there; raises ``RuntimeError`` for a symbol that there is not."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(code).export_symbol("kernel").add_current_process()
    tracker = builder.link(_linker(), f"kernel{next(_numbers)}")
    return tracker["kernel"], tracker


def _kernels() -> Path:
    """The folder of all machine code."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"], "dcpinspect")
    from platformdirs import user_cache_path

    return user_cache_path("dcpinspect") / "kernels"


def _path(source: Source) -> Path:
    import llvmlite
    import llvmlite.binding as llvm

    target = (llvmlite.__version__, llvm.get_process_triple(), *_processor())
    folder = f"llvmlite{llvmlite.__version__}-{sys.implementation.cache_tag}-{hashlib.sha256(repr(target).encode()).hexdigest()[:8]}"
    return _kernels() / folder / f"{source.function.__name__}-{source.fingerprint()}.o"


def _keep(path: Path, data: bytes) -> None:
    """Writes a whole file or none, also when two processes write the same one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(part, path)
        except OSError:
            os.unlink(part)
            raise
    except OSError as error:
        _tell(
            "unkept",
            f"compiled code is not kept: {path.parent}: {error.strerror}; "
            "set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that can be written",
        )


def _tell(what: str, text: str) -> None:
    if what not in _told:
        _told.add(what)
        sys.stderr.write(f"dcpinspect: {text}\n")
