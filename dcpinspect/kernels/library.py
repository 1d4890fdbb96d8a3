"""The shared library with the machine code of all kernels: found in the package, compared with the
sources, and called.

``build`` makes it, for any processor of its platform. It carries the names of the files that its
kernels are made of, and a digest of what was in them. The package beside it must have the same:
code never runs on tables of another layout. It is of no use to check more, for whoever can write
there can write this program.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import operator
import os
import re
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from dcpinspect.kernels.structs import Tables
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import clip, escape

NAME = "kernels/machine_code.so"
"""The library, as a file of the package."""
SOURCES = "dcpinspect_sources"
"""Name of the text in the library that says what it was built from: a digest, then the names of
files, one on a line.
"""
TYPES = {"octets": "u1", "uint8": "u1", "int32": "i4", "int64": "i8", "uint64": "u8"}
_NAMES = {*TYPES, "boolean"}
_PARAMETER = re.compile(r"(\w+)(\[(:,)*::1\])?\s*(?:,\s*|(?=\))|$)")

_SHOWN = 120
"""Number of columns of an error that a line repeats."""
_warned: set[str] = set()

TablesType = type[Tables]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a kernel takes at one place: an array of so many dimensions, or, with none, an integer
    or ``Tables``.
    """

    type: str
    dimensions: int
    is_read_only: bool
    tables: TablesType | None = None
    """The tables of records that it is a view of; None for other parameters."""


class Code:
    """A kernel's machine code; it is called like the function. Lets other threads run meanwhile."""

    def __init__(self, entry: Any, result: str, parameters: tuple[Parameter, ...]) -> None:
        """``entry`` is a function of the library: what numba makes of ``int64 entry(words,
        addresses)``.

        It returns a status, and takes places for the result and for an exception in front.
        """
        entry.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
        entry.restype = ctypes.c_int32
        self._entry = entry
        self._parameters = parameters
        self._pack = struct.Struct(
            f"={sum(1 + parameter.dimensions for parameter in parameters)}q"
        ).pack
        self._is_void = result == "void"

    def __call__(self, *args: Any) -> Any:
        """Runs the code. Raises ``TypeError`` for what it would misread: it checks nothing."""
        words: list[int] = []
        tables: list[Any] = []
        for arg, parameter in zip(args, self._parameters, strict=True):
            if parameter.tables is not None:
                tables.append(arg.words())
                # ``ctypes`` takes three times as long
                words.append(tables[-1].__array_interface__["data"][0])
            elif parameter.dimensions:
                words += _array_words(arg, parameter)
            else:
                words.append(operator.index(arg) if parameter.type != "boolean" else bool(arg))
        packed = self._pack(*words)
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        if self._entry(ctypes.addressof(result), ctypes.addressof(exception), packed, packed):
            raise RuntimeError("a compiled kernel raised an exception")
        return None if self._is_void else result.value


class Library:
    """A shared library with kernels."""

    def __init__(self, path: str) -> None:
        """Raises ``OSError`` for a file that is none, or for another platform."""
        self._loaded = ctypes.CDLL(path)

    def fits(self) -> bool:
        """Returns whether the package's files are those that the library was built from."""
        try:
            text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self._loaded, SOURCES)))
            digest, *names = text.decode().split("\n")
            return digest == digest_of(names)
        except (OSError, ValueError):  # a file is gone, or this is another library
            return False

    def code(self, function: Callable[..., Any], signature: str) -> Code | None:
        """Returns the code of a kernel, or None if the library has none."""
        entry = getattr(self._loaded, symbol(function), None)
        if entry is None:
            return None
        return Code(entry, *parse_signature(signature, function.__globals__))


@functools.cache
def library() -> Library | None:
    """Returns the library of the package, or None; then it says that everything is interpreted."""
    try:
        return load_library()
    except OSError as error:
        reason = clip(escape(" ".join(str(error).split())), _SHOWN)
        warn_once(
            "interpreted",
            f"kernels run interpreted, many times slower, without their machine code ({reason}); "
            "to make it, install numba (the extra dcpinspect[build]) and run: python -m "
            "dcpinspect.kernels.build",
        )
        return None


def load_library() -> Library:
    """Returns the library that came with the package. Raises OSError where it is not there, or is
    of no use here.
    """
    loaded = Library(path) if os.path.exists(path := _path(NAME)) else _from_archive()
    if not loaded.fits():
        raise OSError("it was made from other sources")
    return loaded


def _from_archive() -> Library:
    """Returns the library of a package that is in an archive, as on executors of Spark."""
    try:
        data = content(NAME)
    except OSError as error:
        raise OSError("there is none for this platform") from error
    import tempfile  # deferred: rarely needed

    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(data)
        file.flush()
        return Library(file.name)


def content(name: str) -> bytes:
    """Returns a file of the package, which may be in an archive. Raises OSError for none."""
    loader: Any = __spec__.loader
    data: bytes = loader.get_data(_path(name))
    return data


def _path(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), *name.split("/"))


def digest_of(names: Iterable[str]) -> str:
    """Returns a digest of files of the package. Raises OSError if one is missing."""
    digest = hashlib.sha256()
    for name in names:
        data = content(name)
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def symbol(function: Callable[..., Any]) -> str:
    """Returns the name of a kernel in the library."""
    return f"{function.__module__}.{function.__name__}".replace(".", "_")


def parse_signature(
    text: str, names: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, tuple[Parameter, ...]]:
    """Returns the result's type, ``int64`` or ``void``, and the parameters of ``int64(octets,
    int64[:,::1], boolean, State)``.

    ``octets`` stands for a one-dimensional uint8 array that is only read, a name in ``names`` for
    its ``Tables``. Raises ``ValueError`` for anything else.
    """
    match = re.fullmatch(rf"(int64|void)\(((?:{_PARAMETER.pattern})*)\)", text)
    if match is None:
        raise ValueError(f"{text!r} is no signature of a kernel")
    parameters = []
    for name, brackets, _ in _PARAMETER.findall(match[2]):
        if name in _NAMES:
            dimensions = brackets.count(":,") + 1 if brackets else int(name == "octets")
            parameters.append(Parameter(TYPES.get(name, name), dimensions, name == "octets"))
            continue
        tables = names.get(name)
        if brackets or not (isinstance(tables, type) and issubclass(tables, Tables)):
            raise ValueError(f"{text!r} is no signature of a kernel")
        parameters.append(Parameter(name, 0, is_read_only=False, tables=tables))
    return match[1], tuple(parameters)


def warn_once(message_kind: str, text: str) -> None:
    """Writes a line to stderr, once for each ``message_kind``."""
    if message_kind not in _warned:
        _warned.add(message_kind)
        sys.stderr.write(f"dcpinspect: {text}\n")


def _array_words(array: Any, parameter: Parameter) -> tuple[int, ...]:
    """Returns address and shape of an array. One look at the array's interface tells everything, in
    a microsecond.
    """
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
        raise TypeError(f"a kernel takes contiguous arrays of its own types, not {facts}")
    return (address, *facts["shape"])
