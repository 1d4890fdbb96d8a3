"""The declarations of records: each field says what it means, and numbers count what there is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import TypeVar

import pytest

import dcpinspect.streams
from dcpinspect.streams import rows
from dcpinspect.streams.rows import Counts
from dcpinspect.streams.state import State
from dcpinspect.structs import Field, Rows, Struct, Tables

K = TypeVar("K")

PARSED = {"filters", "logs"}
"""What is counted as well, and is no table of records: parsed values, and failover logs as bytes."""


def declared() -> list[type[Struct[int]]]:
    """Every struct of the streams core."""
    for module in pkgutil.iter_modules(dcpinspect.streams.__path__, "dcpinspect.streams."):
        importlib.import_module(module.name)
    found = {struct.declared for struct in _below(Struct) if struct.__module__.startswith("dcpinspect.streams.")}
    return sorted(found, key=lambda struct: struct.__name__)


def _below(kind: type[K]) -> Iterator[type[K]]:
    one: type[K]
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def numbers(struct: type[Struct[int]]) -> Iterator[Field]:
    """The fields that are integers."""
    for field in struct.fields.values():
        if field.struct is None:
            yield field


@pytest.mark.parametrize("struct", declared(), ids=lambda struct: struct.__name__)
def test_every_field_says_what_it_means_in_a_sentence(struct: type[Struct[int]]) -> None:
    assert [field.name for field in struct.fields.values() if not field.meaning.endswith(".") or len(field.meaning) < 5] == []
    assert (struct.__doc__ or "").endswith(".")


def test_the_records_of_the_tracker_are_among_those() -> None:
    found = declared()
    assert {rows.Stream, rows.Snapshot, rows.Gap, rows.Message, rows.Place} <= set(found)
    assert len(found) > 30


@pytest.mark.parametrize("struct", declared(), ids=lambda struct: struct.__name__)
def test_what_a_field_counts_is_a_table_beside_its_own(struct: type[Struct[int]]) -> None:
    tables = [members for kind in _below(Tables) if struct in (members := _structs(kind)).values()]
    counted = {field.of for field in numbers(struct) if field.of} - PARSED
    assert not counted or any(counted <= set(members) for members in tables)


def _structs(tables: type[Tables]) -> dict[str, type[Struct[int]]]:
    members = tables.members().items()
    return {name: kind.declared for name, kind in members if isinstance(kind, type) and issubclass(kind, Struct)}


def test_the_tables_that_grow_are_those_that_are_counted() -> None:
    state, members = State(), State.members()
    assert set(Counts.fields) <= set(members)
    for name in Counts.fields:
        assert issubclass(members[name], Rows)
        assert len(getattr(state, name)) > 0
    grown = {name for name in members if isinstance(getattr(state, name), Rows) and len(getattr(state, name))}
    assert grown == set(Counts.fields)
