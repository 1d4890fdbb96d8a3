"""A reading that is put aside before its end, and continued later: it gives the same messages,
tables and findings as without a stop.

The attributes of its objects are kept: numbers, texts, tables. They are data: nothing in them names
code to run, and objects are made without running any code of theirs. Tables are checked, since
kernels take the row numbers in them as they are.

Nothing is kept if TLS is decrypted, for its keys are secrets.
"""

from __future__ import annotations

import ctypes
import io
import pickle
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache, lru_cache
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from dcpinspect.kernels.structs import Struct, StructRows, Tables
from dcpinspect.protocol import resync
from dcpinspect.reading.joining import packed, unpacked
from dcpinspect.reading.numbering import ByPacket
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.followers import table_of
from dcpinspect.streams.state import NOTHING

_FORMAT = "dcpinspect.reading/4"
_KEPT = ("coverage", "findings", "protocol", "reading", "streams", "tables", "transport")
"""Modules and packages whose objects are kept."""
_NEVER = ("dcpinspect.transport.tls.keylog", "dcpinspect.transport.tls.direction")
"""Modules whose objects have keys."""
_CONSTANTS = ("default_legal_extras", "_no_release", "_NO_CHAINS", "_NONE_WAITING", "_NO_CURSORS")
"""Names of what objects are compared with, or call."""
_MOST_NAMES = 1000
"""Number of classes that are looked up once: data may name any."""
_OF_READING = ("first_time_ns", "earliest_ns", "last_time_ns", "clock_ns", "truncated", "messages")


class NotResumableError(ValueError):
    """A reading that cannot be put aside, or was not."""


def put_aside(reading: Reading) -> bytes:
    """Returns what a reading knows between two batches of packets; the reading goes on as if
    nothing had been asked.

    Raises NotResumableError if it cannot be kept.
    """
    engine = reading.engine
    if not engine.tls.is_plain or not reading.is_checking:
        raise NotResumableError(
            "keys of TLS are not kept, and neither are readings that do not check"
        )
    reading.tracker.state.feed(*NOTHING)  # the latest batch has been looked at
    state = {
        "format": _FORMAT,
        "reading": {name: getattr(reading, name) for name in _OF_READING},
        "packets": reading.capture.packets,
        "tls": engine.tls.connections,
        "plain": engine.tls.plain_ones,
        "engine": vars(engine),
        "tracker": vars(reading.tracker),
        "checker": vars(reading.checker),
    }
    file, tables = io.BytesIO(), list[pickle.PickleBuffer]()
    writer = _Pickler(file, _named(reading), tables)
    try:
        writer.dump(state)
    except (pickle.PicklingError, TypeError) as error:
        raise NotResumableError(f"this reading cannot be put aside: {error}") from error
    return packed([file.getvalue(), *(table.raw() for table in tables)])


def go_on(reading: Reading, data: bytes) -> None:
    """Puts a new reading, which has the same options, into the state of the one that was put aside;
    its packets are those that come next.

    A reading that does not check knows only what it takes to find messages. Raises NotKeptError for
    what was not put aside by this version.
    """
    try:
        plain, *tables = unpacked(data)
        state = _Unpickler(io.BytesIO(plain), _named(reading), tables).load()
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise pickle.UnpicklingError(_FORMAT)
        owners = {
            "engine": reading.engine,
            "tracker": reading._tracker,
            "checker": reading._checker,
        }
        for name, owner in owners.items():
            if owner is not None:
                vars(owner).update(state[name])
        if reading.is_checking:
            vars(reading).update({name: state["reading"][name] for name in _OF_READING})
        reading.engine.tls.connections, reading.engine.tls.plain_ones = state["tls"], state["plain"]
    except Exception as error:  # bytes may make this fail in any way
        raise NotResumableError(f"this is no reading that was put aside: {error}") from error


def _named(reading: Reading) -> dict[str, Any]:
    """Returns the objects that a reading has from its maker, by names."""
    engine, checker = reading.engine, reading._checker
    named: dict[str, Any] = {name: getattr(resync, name) for name in _CONSTANTS}
    named |= {f"engine.{name}": vars(engine)[name] for name in ("keys", "tls", "_ports")}
    named |= {
        f"find{side}": names._find for side, names in enumerate((engine._clients, engine._servers))
    }
    numbering: ByPacket = engine._decoding._numbering  # type: ignore[assignment] # that of parts
    named |= {"engine": engine, "files": engine._decoding._files, "opened_by": numbering._opened_by}
    named |= {"redactor": reading.redactor}
    named |= {
        "layers": engine.transport._unusual._layers,
        "take_first": engine.transport.take_first,
        "read_header": engine._proxies._found,
        "begins": engine._evidence._begins,
        "tracker": reading._tracker,
        "checker": checker,
    }
    if checker is not None:
        named |= {"rules": checker._rules, "sets": checker._sets}
    return named


class _Pickler(pickle.Pickler):
    def __init__(
        self, file: io.BytesIO, named: Mapping[str, Any], tables: list[pickle.PickleBuffer]
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=tables.append)
        self._names = {id(value): name for name, value in named.items() if value is not None}

    def persistent_id(self, obj: Any) -> str | None:
        return self._names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        kind: Any = type(obj)
        if isinstance(obj, np.ndarray | np.generic | np.dtype | Counter | deque):
            return NotImplemented
        if isinstance(obj, type | FunctionType | BuiltinFunctionType | MethodType):
            return (
                NotImplemented if (obj.__module__, obj.__qualname__) in _GLOBALS else _refused(obj)
            )
        if isinstance(obj, ctypes.Structure):
            return _record, (_name(kind.struct), bytes(obj))
        if not _is_kept(kind.__module__):
            return _refused(obj)
        if isinstance(obj, StructRows):
            return _table, (_name(kind), obj.array)
        if isinstance(obj, Enum):
            return _member, (_name(kind), obj.value)
        if isinstance(obj, tuple):
            return _tuple, (_name(kind), tuple(obj))
        return _blank, (_name(kind),), _attributes(obj, _slots(kind)), None, None, _fill


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, named: Mapping[str, Any], tables: list[memoryview]
    ) -> None:
        super().__init__(file, buffers=tables)
        self._named = named

    def persistent_load(self, pid: Any) -> Any:
        return self._named.get(pid)

    def find_class(self, module: str, name: str) -> Any:
        """Returns only functions that make data from data."""
        if (module, name) in _GLOBALS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a reading")


def _refused(obj: Any) -> Any:
    raise pickle.PicklingError(f"{type(obj).__module__}.{type(obj).__qualname__} is not kept")


def _attributes(obj: Any, slots: Iterable[str]) -> dict[str, Any]:
    return getattr(obj, "__dict__", {}) | {
        name: getattr(obj, name) for name in slots if hasattr(obj, name)
    }


@cache
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(
        name
        for base in kind.__mro__
        for name in vars(base).get("__slots__", ())
        if not name.startswith("__")
    )


@cache
def _is_kept(module: str) -> bool:
    first, _, inner_path = module.partition(".")
    return first == "dcpinspect" and inner_path.partition(".")[0] in _KEPT and module not in _NEVER


@cache
def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


@lru_cache(_MOST_NAMES)
def _class(name: str, base: type) -> Any:
    """Returns a class whose objects are kept. Raises ValueError for all other names."""
    module, _, class_name = name.partition(":")
    kind = getattr(import_module(module), class_name, None) if _is_kept(module) else None
    if not (isinstance(kind, type) and kind.__module__ == module and issubclass(kind, base)):
        raise ValueError(f"{name} is no class of what is kept")
    return kind


# -- makes objects from data: no code of theirs runs


def _blank(name: str) -> Any:
    return object.__new__(_class(name, object))


def _fill(obj: Any, attributes: dict[str, Any]) -> None:
    if not _is_kept(type(obj).__module__) or isinstance(obj, type):
        raise ValueError(f"{type(obj).__name__} is not filled")
    for name, value in attributes.items():
        if name.startswith("__"):
            raise ValueError(name)
        object.__setattr__(obj, name, value)
    if isinstance(obj, Tables):
        obj.check()


def _table(name: str, array: Any) -> Any:
    return table_of(_class(name, StructRows), array)


def _record(name: str, data: bytes) -> Any:
    return _class(name, Struct).of_bytes(data)


def _tuple(name: str, values: tuple[Any, ...]) -> Any:
    return tuple.__new__(_class(name, tuple), values)


def _member(name: str, value: Any) -> Any:
    return _class(name, Enum)(value)


_GLOBALS = {
    *((__name__, maker.__name__) for maker in (_blank, _fill, _table, _record, _tuple, _member)),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("collections", "Counter"),
    ("collections", "deque"),
    ("array", "_array_reconstructor"),
    ("array", "array"),
}
