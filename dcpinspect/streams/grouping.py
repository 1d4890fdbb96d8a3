"""Groups rows by what they have in common, without an object for each row."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray

VBUCKET_BITS = 17
"""Bits for the vbucket in a number that stands for something and a vbucket."""


class NameNumbers:
    """Numbers that stand for the names of connections."""

    def __init__(self, names: Mapping[int, Hashable], connections: int) -> None:
        """``names``: by connection. ``connections``: greater than all numbers of connections."""
        self.words: list[Any] = list(dict.fromkeys(names.values()))
        self._numbers = {name: number for number, name in enumerate(self.words)}
        self.of: IntArray = np.full(connections, -1, dtype=np.int64)
        """Number of the name, by connection; -1 for connections without a name."""
        for connection, name in names.items():
            self.of[connection] = self._numbers[name]

    def number(self, name: Hashable) -> int:
        """Returns the number of a name; -1 for a name that no connection has."""
        return self._numbers.get(name, -1)


def by_value(values: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yields each different value, rising, with the rows that have it, in order."""
    order = np.argsort(values, kind="stable")
    different, starts = np.unique(values[order], return_index=True)
    if len(values):
        yield from zip(different.tolist(), np.split(order, starts[1:]), strict=True)


class GroupedRows:
    """Numbers of rows, grouped by the owner that the rows belong to."""

    def __init__(self, owner: IntArray, owners: int) -> None:
        """``owner``: the owner of each row, below ``owners``."""
        self._order = np.argsort(owner, kind="stable")
        self._ends = np.searchsorted(owner[self._order], np.arange(owners + 1))

    def __getitem__(self, owner: int) -> IntArray:
        return self._order[self._ends[owner] : self._ends[owner + 1]]


class Groups:
    """Rows of a table grouped by values of some columns; groups in order of their first rows."""

    def __init__(self, columns: Sequence[IntArray], rows: IntArray | None = None) -> None:
        """``columns``: one at least. ``rows``: the rows to group, in the order wanted in each
        group; all rows if not given.
        """
        size = len(columns[0])
        rows = np.arange(size) if rows is None else rows
        order = np.lexsort([column[rows] for column in reversed(columns)])
        by_group = rows[order]
        is_first = np.ones(len(rows), dtype=np.bool_)
        is_first[1:] = np.logical_or.reduce(
            [column[by_group[1:]] != column[by_group[:-1]] for column in columns]
        )
        starts = np.flatnonzero(is_first)
        number = np.empty(len(starts), dtype=np.int64)
        number[np.argsort(order[starts], kind="stable")] = np.arange(len(starts))
        of_row = np.repeat(number, np.diff(starts, append=len(rows)))
        again = np.argsort(of_row, kind="stable")
        self.rows: IntArray = by_group[again]
        """The grouped rows, group by group."""
        self.counts: IntArray = np.bincount(of_row, minlength=len(starts))
        """Number of rows of each group."""
        self.begins: IntArray = np.cumsum(self.counts) - self.counts
        """Where each group begins in ``rows``."""
        self.of: IntArray = np.full(size, -1, dtype=np.int64)
        """The group of each row of the table, -1 for none."""
        self.of[self.rows] = of_row[again]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, group: int) -> list[int]:
        begin = int(self.begins[group])
        rows: list[int] = self.rows[begin : begin + int(self.counts[group])].tolist()
        return rows

    def values(self) -> Iterator[list[int]]:
        """Returns the rows of each group."""
        return map(self.__getitem__, range(len(self)))

    def before(self, row: int, limit: int) -> list[int]:
        """Returns the rows before a row in its group, at most so many, the nearest first."""
        position = int(self._positions[row])
        earlier_rows: list[int] = self.rows[
            max(int(self.begins[self.of[row]]), position - limit) : position
        ][::-1].tolist()
        return earlier_rows

    @cached_property
    def _positions(self) -> IntArray:
        """Where each row of the table stands in ``rows``."""
        positions = np.full(len(self.of), -1, dtype=np.int64)
        positions[self.rows] = np.arange(len(self.rows))
        return positions

    def having(self, is_wanted: BoolArray, least: int = 1) -> Iterator[list[int]]:
        """Yields the groups that have at least ``least`` of the wanted rows."""
        for group in np.flatnonzero(self.sum(is_wanted) >= least).tolist():
            yield self[group]

    @cached_property
    def previous(self) -> IntArray:
        """For each row the row before it in its group, -1 for none."""
        previous_rows = np.full(len(self.of), -1, dtype=np.int64)
        is_same = self.of[self.rows[1:]] == self.of[self.rows[:-1]]
        previous_rows[self.rows[1:][is_same]] = self.rows[:-1][is_same]
        return previous_rows

    def greatest(self, values: IntArray) -> IntArray:
        """Returns the greatest of the values of each group's rows."""
        return (
            np.maximum.reduceat(values[self.rows], self.begins)
            if len(self)
            else np.zeros(0, dtype=np.int64)
        )

    def greatest_later(self, values: IntArray, otherwise: int) -> IntArray:
        """Returns, for each row, the greatest value of the rows behind it in its group;
        ``otherwise`` if there are none.
        """
        return self._greatest_before(values, otherwise, self.rows[::-1])

    def greatest_earlier(self, values: IntArray, otherwise: int) -> IntArray:
        """As ``greatest_later``, of the rows before each row."""
        return self._greatest_before(values, otherwise, self.rows)

    def _greatest_before(self, values: IntArray, otherwise: int, rows: IntArray) -> IntArray:
        maxima = np.full(len(self.of), otherwise, dtype=np.int64)
        group = self.of[rows]
        distinct_values, rank = np.unique(values[rows], return_inverse=True)
        # so that the greatest value so far begins anew with each group
        above = np.abs(group - group[:1]) * len(distinct_values)
        greatest = distinct_values[np.maximum.accumulate(rank + above) - above]
        is_same = group[1:] == group[:-1]
        maxima[rows[1:][is_same]] = greatest[:-1][is_same]
        return maxima

    def sum(self, values: BoolArray | IntArray) -> IntArray:
        """Returns the sum of the values of each group's rows."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(values[self.rows].astype(np.int64), self.begins)
