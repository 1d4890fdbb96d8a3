"""New numbers for records when readings of different connections are joined: the numbers of a reading of all packets.

Rows are the same in both, and everything is sorted by them. Connections are in order of the packet that began them; streams and other
records are in order of the row that brought them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcpinspect.kernels.structs import Struct, StructRows

Table = npt.NDArray[np.int64]
T = TypeVar("T")
Records = TypeVar("Records", bound=StructRows[Any])


def renumbered(values: Table, numbers: Table) -> Table:
    """Returns ``values``, which are numbers of records, with the new numbers that ``numbers`` has for them; -1 and other values stay."""
    counts = (values >= 0) & (values < len(numbers))
    if not len(numbers):
        return values
    return np.where(counts, numbers[np.where(counts, values, 0)], values)


def renumbered_rows(table: Records, numbers: Mapping[str, Table]) -> Records:
    """Returns a copy of the records whose fields that hold numbers of other tables have the new ``numbers`` of those tables."""
    table = type(table)(table.array.copy())
    _renumber(table, table.array, numbers)
    return table


def _renumber(struct: type[Struct[Any]] | StructRows[Any], array: npt.NDArray[np.void], numbers: Mapping[str, Table]) -> None:
    for name, field in struct.fields.items():
        if field.struct is not None:
            _renumber(field.struct, array[name], numbers)
        elif field.of in numbers:
            array[name] = renumbered(array[name], numbers[field.of])


def by_connection(parts: Iterable[Mapping[int, T]], connections: Sequence[Table]) -> dict[int, T]:
    """Joins what is known of each connection, in order of the new numbers; ``connections``: by part, the new number by old number."""
    pairs = zip(parts, connections, strict=True)
    return dict(sorted(((int(of[number]), one) for part, of in pairs for number, one in part.items()), key=lambda item: item[0]))


def in_order(keys: Sequence[Table]) -> list[Table]:
    """Returns, for each list, the place of every element in one list of all that is sorted by key; equal keys keep their order."""
    sizes = [len(part) for part in keys]
    order = np.argsort(np.concatenate([np.empty(0, dtype=np.int64), *keys]), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return np.split(place, np.cumsum(sizes)[:-1]) if sizes else []


def without_repeats(parts: Sequence[Sequence[bytes]]) -> tuple[list[bytes], list[Table]]:
    """Returns all different elements of the lists, once each, and for each list the numbers of its elements among them."""
    known: dict[bytes, int] = {}
    numbers = [np.array([known.setdefault(one, len(known)) for one in part], dtype=np.int64) for part in parts]
    return list(known), numbers
