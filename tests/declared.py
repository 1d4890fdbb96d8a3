"""The records that a package declares, to hold them against what declarations promise."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import TypeVar

from dcpinspect.kernels.structs import Struct, Tables

K = TypeVar("K")


def declared(package: ModuleType) -> list[type[Struct[int]]]:
    """Every struct of a package."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found = {
        struct.declared
        for struct in _below(Struct)
        if struct.__module__.startswith(f"{package.__name__}.")
    }
    return sorted(found, key=lambda struct: (struct.__module__, struct.__name__))


def unexplained(struct: type[Struct[int]]) -> list[str]:
    """Fields that do not say what they mean in a sentence."""
    return [
        field.name
        for field in struct.fields.values()
        if not field.meaning.endswith(".") or len(field.meaning) < 5
    ]


def counted(struct: type[Struct[int]]) -> set[str]:
    """Tables whose rows its numbers count."""
    return {field.of for field in struct.fields.values() if field.of}


def stands_beside(struct: type[Struct[int]], names: Collection[str]) -> bool:
    """Whether a kernel works on the struct, itself or nested in another one, and on tables of these
    names.
    """
    return any(
        struct in list(_within(tables)) and set(names) <= set(tables.members())
        for tables in _below(Tables)
    )


def _within(tables: type[Tables]) -> Iterator[type[Struct[int]]]:
    kinds = [
        kind
        for kind in tables.members().values()
        if isinstance(kind, type) and issubclass(kind, Struct)
    ]
    while kinds:
        struct = kinds.pop().declared
        yield struct
        kinds += [field.struct for field in struct.fields.values() if field.struct is not None]


def _below(kind: type[K]) -> Iterator[type[K]]:
    one: type[K]
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
