"""Rows put together by what they have in common, without an object for each of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask

Table = npt.NDArray[np.int64]

VBUCKET_BITS = 17
"""Of a number that stands for something and a vbucket, those of the vbucket."""


class Names:
    """Numbers that stand for what connections are called."""

    def __init__(self, names: Mapping[int, Hashable], connections: int) -> None:
        """``names``: by connection; ``connections``: greater than all their numbers."""
        self.words: list[Any] = list(dict.fromkeys(names.values()))
        self._numbers = {name: place for place, name in enumerate(self.words)}
        self.of: Table = np.full(connections, -1, dtype=np.int64)
        """By connection, -1 for those that have no name."""
        for connection, name in names.items():
            self.of[connection] = self._numbers[name]

    def number(self, name: Hashable) -> int:
        """What stands for a name; -1 for one that no connection has."""
        return self._numbers.get(name, -1)


class Groups:
    """Rows of a table by the values of some columns; groups are in the order of their first rows."""

    def __init__(self, columns: Sequence[Table], rows: Table | None = None) -> None:
        """``columns``: one at least; ``rows``: those that are put together, as they are to stand; without, all."""
        size = len(columns[0])
        rows = np.arange(size) if rows is None else rows
        order = np.lexsort([column[rows] for column in reversed(columns)])
        by_group = rows[order]
        is_first = np.ones(len(rows), dtype=np.bool_)
        is_first[1:] = np.logical_or.reduce([column[by_group[1:]] != column[by_group[:-1]] for column in columns])
        starts = np.flatnonzero(is_first)
        number = np.empty(len(starts), dtype=np.int64)
        number[np.argsort(order[starts], kind="stable")] = np.arange(len(starts))
        of_row = np.repeat(number, np.diff(starts, append=len(rows)))
        again = np.argsort(of_row, kind="stable")
        self.rows: Table = by_group[again]
        """Group by group."""
        self.counts: Table = np.bincount(of_row, minlength=len(starts))
        """Rows of each group."""
        self.begins: Table = np.cumsum(self.counts) - self.counts
        """Where each group begins in ``rows``."""
        self.of: Table = np.full(size, -1, dtype=np.int64)
        """The group of each row of the table, -1 for none."""
        self.of[self.rows] = of_row[again]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, group: int) -> list[int]:
        begin = int(self.begins[group])
        found: list[int] = self.rows[begin : begin + int(self.counts[group])].tolist()
        return found

    def values(self) -> Iterator[list[int]]:
        """The rows of each group."""
        return map(self.__getitem__, range(len(self)))

    def together(self, row: int) -> list[int]:
        """The rows of the group that a row is in."""
        return self[int(self.of[row])]

    def having(self, wanted: Mask, least: int = 1) -> Iterator[list[int]]:
        """The groups that have so many of the wanted rows at least."""
        for group in np.flatnonzero(self.sum(wanted) >= least).tolist():
            yield self[group]

    @property
    def previous(self) -> Table:
        """The row before each row in its group, -1 for none."""
        found = np.full(len(self.of), -1, dtype=np.int64)
        is_same = self.of[self.rows[1:]] == self.of[self.rows[:-1]]
        found[self.rows[1:][is_same]] = self.rows[:-1][is_same]
        return found

    def sum(self, values: npt.NDArray[np.bool_] | Table) -> Table:
        """What the rows of each group come to."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        total: Table = np.add.reduceat(values[self.rows].astype(np.int64), self.begins)
        return total
