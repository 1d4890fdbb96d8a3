"""Numbers that things get when readings of different connections become one: those that they have in a reading of all packets.

Rows are the same in both, and everything is in their order: connections in order of the packet that began them, streams and the rest in
order of the row that brought them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcpinspect.structs import Rows, Struct

Table = npt.NDArray[np.int64]
T = TypeVar("T")
Records = TypeVar("Records", bound=Rows[Any])


def renumbered(values: Table, numbers: Table) -> Table:
    """``values``, which count what ``numbers`` gives other numbers; -1 for none, and whatever else counts nothing, stay."""
    counts = (values >= 0) & (values < len(numbers))
    if not len(numbers):
        return values
    return np.where(counts, numbers[np.where(counts, values, 0)], values)


def renumbered_rows(table: Records, numbers: Mapping[str, Table]) -> Records:
    """The same records, whose fields that count rows of other tables have the numbers that ``numbers`` gives those."""
    table = type(table)(table.array.copy())
    _renumber(table, table.array, numbers)
    return table


def _renumber(struct: type[Struct[Any]] | Rows[Any], array: npt.NDArray[np.void], numbers: Mapping[str, Table]) -> None:
    for name, field in struct.fields.items():
        if field.struct is not None:
            _renumber(field.struct, array[name], numbers)
        elif field.of in numbers:
            array[name] = renumbered(array[name], numbers[field.of])


def by_connection(parts: Iterable[Mapping[int, T]], connections: Sequence[Table]) -> dict[int, T]:
    """What is known of each connection, in order of their numbers in ``connections``, which are by part and old number."""
    pairs = zip(parts, connections, strict=True)
    return dict(sorted(((int(of[number]), one) for part, of in pairs for number, one in part.items()), key=lambda item: item[0]))


def in_order(keys: Sequence[Table]) -> list[Table]:
    """The place of every element of these lists in one list of all, in order of keys; equal ones stay as they are."""
    sizes = [len(part) for part in keys]
    order = np.argsort(np.concatenate([np.empty(0, dtype=np.int64), *keys]), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return np.split(place, np.cumsum(sizes)[:-1]) if sizes else []


def without_repeats(parts: Sequence[Sequence[bytes]]) -> tuple[list[bytes], list[Table]]:
    """All different ones of these lists, once each, and by list the numbers that its own have among them."""
    known: dict[bytes, int] = {}
    numbers = [np.array([known.setdefault(one, len(known)) for one in part], dtype=np.int64) for part in parts]
    return list(known), numbers
