"""New numbers for records when readings of different connections are joined: the numbers of a
reading of all packets.

Rows are the same in both, and everything is sorted by them. Connections are in order of the packet
that began them; streams and other records are in order of the row that brought them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.structs import Struct, StructRows

RecordRows = TypeVar("RecordRows", bound=StructRows[Any])


def renumbered(values: IntArray, numbers: IntArray) -> IntArray:
    """Returns ``values``, which are numbers of records, with the new numbers that ``numbers`` has
    for them; -1 and other values stay.
    """
    counts = (values >= 0) & (values < len(numbers))
    if not len(numbers):
        return values
    return np.where(counts, numbers[np.where(counts, values, 0)], values)


def renumbered_rows(table: RecordRows, numbers: Mapping[str, IntArray]) -> RecordRows:
    """Returns a copy of the records whose fields that hold numbers of other tables have the new
    ``numbers`` of those tables.
    """
    table = type(table)(table.array.copy())
    _renumber(table, table.array, numbers)
    return table


def _renumber(
    struct: type[Struct[Any]] | StructRows[Any],
    array: npt.NDArray[np.void],
    numbers: Mapping[str, IntArray],
) -> None:
    for name, field in struct.fields.items():
        if field.struct is not None:
            _renumber(field.struct, array[name], numbers)
        elif field.of in numbers:
            array[name] = renumbered(array[name], numbers[field.of])


def in_order(keys: Sequence[IntArray]) -> list[IntArray]:
    """Returns, for each list, the place of every element in one list of all that is sorted by key;
    equal keys keep their order.
    """
    sizes = [len(key_column) for key_column in keys]
    order = np.argsort(np.concatenate([np.empty(0, dtype=np.int64), *keys]), kind="stable")
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = np.arange(len(order))
    return np.split(positions, np.cumsum(sizes)[:-1]) if sizes else []


def without_repeats(lists: Sequence[Sequence[bytes]]) -> tuple[list[bytes], list[IntArray]]:
    """Returns all different elements of the lists, once each, and for each list the numbers of its
    elements among them.
    """
    number_of: dict[bytes, int] = {}
    numbers = [
        np.array([number_of.setdefault(text, len(number_of)) for text in texts], dtype=np.int64)
        for texts in lists
    ]
    return list(number_of), numbers
