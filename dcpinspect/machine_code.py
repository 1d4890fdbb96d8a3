"""Kernels as machine code: taken from the package or from what an earlier process kept, checked, linked and called.

A wheel carries the code of every kernel, for any processor of its platform: ``hatch_build.py`` makes it. What no wheel brought is compiled
at first use by ``compiling`` and kept in the user's cache folder. Nothing here needs numba, whose import takes half a second; llvmlite,
which links the code, takes 0.04 s.

A file is one kernel: 32 bytes of SHA-256, then an object file whose one entry, ``kernel``, takes plain addresses and sizes. The path of the
file tells everything that decides what the code does and where it runs. The hash is of path and code, so a file is right or counts as
missing, whatever else is wrong with it. A hash is no protection from somebody who can write files. So of the cache only folders and files
are used that nobody but their user can write. The package needs no such check: whoever can write there can write this program.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import operator
import os
import platform
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

from dcpinspect import code_cache
from dcpinspect.escape import clip, escape
from dcpinspect.ownership import UnsafeError, check_own
from dcpinspect.structs import Tables

_FORMAT = b"3"
"""Changes with the entry's parameters and the layout of files."""
TYPES = {"octets": "u1", "uint8": "u1", "int32": "i4", "int64": "i8", "uint64": "u8"}
_NAMES = {*TYPES, "boolean"}
_PARAMETER = re.compile(r"(\w+)(\[(:,)*::1\])?\s*(?:,\s*|$)")

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
"""The C type that numba makes of ``int64 entry(words, addresses)``: a status, then places for the result and for an exception."""

_SHOWN = 120
"""Number of columns of an error that a line repeats."""
_told: set[str] = set()
_numbers = itertools.count()

_SHIPPED = Path(__file__).parent / "kernels"
"""The folder that a wheel brings; it does not exist in a source tree."""


TablesType = type[Tables]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a kernel takes at one place: an array of so many dimensions, or, with none, an integer or ``Tables``."""

    type: str
    dimensions: int
    is_read_only: bool
    tables: TablesType | None = None
    """The tables of records that it is a view of; None for other parameters."""


class Source:
    """What a kernel is compiled from."""

    def __init__(
        self, function: Callable[..., Any], signature: str, helpers: Mapping[Callable[..., Any], Callable[..., Any] | None]
    ) -> None:
        """``helpers`` are the functions that kernels may call, each with the function that replaces it when compiled, or None.

        A function that replaces itself is compiled in place of each call.
        """
        self.function = function
        self.signature = signature
        self.helpers = helpers
        self.result, self.parameters = parse_signature(signature, function.__globals__)

    def fingerprint(self) -> str:
        """Returns a hash of the code and of every constant and function that it refers to."""
        layouts = [parameter.tables.layout() for parameter in self.parameters if parameter.tables is not None]
        facts = hashlib.sha256(_FORMAT + repr([self.signature, *layouts]).encode())
        seen: set[int] = set()
        for fact in self._facts(self.function, seen):
            facts.update(len(fact).to_bytes(8, "big") + fact)
        return facts.hexdigest()[:24]

    def file_name(self) -> str:
        """Returns the name of a file with its code, in whatever folder."""
        return f"{self.function.__name__}-{self.fingerprint()}.o"

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
    """A kernel's machine code; it is called like the function. Lets other threads run meanwhile."""

    def __init__(self, source: Source, address: int, keep: object) -> None:
        """``keep`` is the object that the code lives in."""
        self._entry = _ENTRY(address)
        self._parameters = source.parameters
        self._pack = struct.Struct(f"={sum(1 + parameter.dimensions for parameter in source.parameters)}q").pack
        self._is_void = source.result == "void"
        self._keep = keep

    def __call__(self, *args: Any) -> Any:
        """Runs the code. Raises ``TypeError`` for what the code would misread: the code itself checks nothing."""
        words: list[int] = []
        tables: list[Any] = []
        for arg, parameter in zip(args, self._parameters, strict=True):
            if parameter.tables is not None:
                tables.append(arg.words())
                words.append(tables[-1].__array_interface__["data"][0])  # ``ctypes`` takes three times as long
            elif parameter.dimensions:
                words += _array_words(arg, parameter)
            else:
                words.append(operator.index(arg) if parameter.type != "boolean" else bool(arg))
        packed = self._pack(*words)
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        if self._entry(ctypes.addressof(result), ctypes.addressof(exception), packed, packed):
            msg = "a compiled kernel raised an exception"
            raise RuntimeError(msg)
        return None if self._is_void else result.value


def parse_signature(text: str, names: Mapping[str, Any] = MappingProxyType({})) -> tuple[str, tuple[Parameter, ...]]:
    """Returns the result's type, ``int64`` or ``void``, and the parameters of ``int64(octets, int64[:,::1], boolean, State)``.

    ``octets`` stands for a one-dimensional uint8 array that is only read, a name in ``names`` for its ``Tables``. Raises ``ValueError`` for
    anything else.
    """
    match = re.fullmatch(r"(int64|void)\((.*)\)", text)
    parameters, at = [], 0
    while match and at < len(match[2]):
        found = _PARAMETER.match(match[2], at)
        if found is None:
            match = None
            break
        name, brackets = found[1], found[2]
        if name not in _NAMES:
            tables = names.get(name)
            if brackets or not (isinstance(tables, type) and issubclass(tables, Tables)):
                match = None
                break
            parameters.append(Parameter(name, 0, is_read_only=False, tables=tables))
            at = found.end()
            continue
        dimensions = brackets.count(":,") + 1 if brackets else int(name == "octets")
        parameters.append(Parameter(TYPES.get(name, name), dimensions, name == "octets"))
        at = found.end()
    if match is None:
        msg = f"{text!r} is no signature of a kernel"
        raise ValueError(msg)
    return match[1], tuple(parameters)


def load(source: Source) -> Code | None:
    """Returns the code that came with the package, or else the code that an earlier process kept, or None."""
    name = source.file_name()
    return _linked(source, lambda: _opened(_SHIPPED / shipped_folder() / name)) or _linked(
        source, lambda: _opened(_cache(is_made=False) / name, check_own)
    )


def link(source: Source, code: bytes) -> Code:
    """Returns an object file's code, ready to be called; raises ``RuntimeError`` if it does not link here."""
    return Code(source, *_link(code))


def keep(source: Source, code: bytes) -> None:
    """Keeps code for later processes: a whole file or none, also if two processes keep the same one."""
    try:
        folder = _cache(is_made=True)
        path = folder / source.file_name()
        handle, part = tempfile.mkstemp(dir=folder)
        try:
            with open(handle, "wb") as file:
                file.write(sealed(path, code))
            os.replace(part, path)
        except OSError:
            os.unlink(part)
            raise
    except UnsafeError as error:
        _tell_unsafe(error)
    except OSError as error:
        tell(
            "unkept",
            f"compiled code cannot be saved in {code_cache.base()} ({error.strerror}); "
            "set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that can be written",
        )


def sealed(path: Path, code: bytes) -> bytes:
    """Returns the content of a file of this path: under another name, or in another folder, it is no kernel."""
    return hashlib.sha256(f"{path.parent.name}/{path.name}".encode() + b"\0" + code).digest() + code


def shipped_folder() -> str:
    """Returns the name of a wheel's folder of code for this platform. The code runs on any processor of its kind, and any llvmlite links
    it.

    Measured: code for x86-64-v3, or for the very processor, is no faster. Kernels load bytes, compare and branch.
    """
    return f"{sys.platform}-{platform.machine().lower()}"


def tell(what: str, text: str) -> None:
    """Writes a line to stderr, once for each ``what``."""
    if what not in _told:
        _told.add(what)
        sys.stderr.write(f"dcpinspect: {text}\n")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _array_words(array: Any, parameter: Parameter) -> tuple[int, ...]:
    """Returns address and shape of an array. One look at the array's interface tells everything, in a microsecond."""
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


@functools.cache
def machine(cpu: str, features: str) -> Any:
    """Returns a processor of this kind, for llvmlite."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True)


def processor() -> tuple[str, str]:
    """Returns this processor's name and features."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler(machine(*processor()), suppress_errors=True)


def _link(code: bytes) -> tuple[int, object]:
    """Returns the address of ``kernel`` in memory, and what keeps it there; raises ``RuntimeError`` for a symbol that does not exist."""
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(code).export_symbol("kernel").add_current_process()
    tracker = builder.link(_linker(), f"kernel{next(_numbers)}")
    return tracker["kernel"], tracker


def _linked(source: Source, read: Callable[[], bytes | None]) -> Code | None:
    try:
        code = read()
        return None if code is None else link(source, code)
    except UnsafeError as error:
        _tell_unsafe(error)
    except (ModuleNotFoundError, FileNotFoundError, RuntimeError):
        pass  # there is none, or it is for another llvmlite
    except (ImportError, OSError) as error:
        tell_unloaded(error)
    return None


def _opened(path: Path, check: Callable[[os.stat_result, Path], None] | None = None) -> bytes | None:
    """Returns the code in a file, or None if its hash is wrong; raises ``OSError`` if there is no file."""
    flags = getattr(os, "O_NOFOLLOW", 0) if check else 0  # installers may link what they install
    with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        if check is not None:
            check(os.fstat(file.fileno()), path)
        content = file.read()
    return content[32:] if content == sealed(path, content[32:]) else None


def _cache(*, is_made: bool) -> Path:
    """Returns the folder of code for this processor and this llvmlite."""
    return code_cache.folder("machine-code", _target(), is_made=is_made)


def _target() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    facts = (llvmlite.__version__, llvm.get_process_triple(), *processor())
    return f"llvmlite{llvmlite.__version__}-{sys.implementation.cache_tag}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:8]}"


def tell_unloaded(error: ImportError | OSError) -> None:
    """Says why there is no machine code where it is installed."""
    why = clip(escape(" ".join(str(error).split())), _SHOWN)
    tell("unloaded", f"machine code cannot be loaded ({why}); everything goes on interpreted, many times slower")


def _tell_unsafe(error: UnsafeError) -> None:
    tell(
        "unsafe",
        f"{error.filename} is not used for compiled code: {error.strerror}; "
        "set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that only you can write",
    )
