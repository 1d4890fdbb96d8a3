"""The latest rows of a growing table: in one piece of memory, however few rows come at a time."""

from __future__ import annotations

from typing import Generic

from dcpinspect.streams.renumbering import RecordRows


class LatestRows(Generic[RecordRows]):
    """Rows are added at the end, and dropped at the beginning. Memory is at most twice that of the
    rows that were there at once.
    """

    def __init__(self, kind: type[RecordRows]) -> None:
        self._table = kind.zeros(0)
        self._start = self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def rows(self) -> RecordRows:
        """All rows that are there: a view, which holds until rows are added or dropped."""
        return self._table[self._start : self._end]

    def add(self, rows: RecordRows) -> None:
        """Adds rows at the end."""
        end = self._end + len(rows)
        if end > len(self._table):
            self._table = self._table.grown(end)
        self._table[self._end : end] = rows
        self._end = end

    def drop(self, count: int) -> None:
        """Drops the oldest rows. The others move to the front as soon as they fit there, so a row
        is moved at most once for each row dropped.
        """
        self._start += count
        remaining = len(self)
        if self._start >= remaining:
            self._table[:remaining] = self.rows
            self._start, self._end = 0, remaining
