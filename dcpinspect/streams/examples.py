"""The few of many occurrences that are told: the first three, the last, and the one that matters
most.

A caller that wants to mark all occurrences gets their rows and times besides.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import field, replace
from typing import Generic, TypeVar

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers

T = TypeVar("T")

FIRST = 3
MOST = 1 << 17
"""Number of rows kept, each with its time: 2 MiB. If there are more, the earlier half goes."""
MOST_SPANS = 64
"""Number of spans of time kept; of more, the two that are nearest to each other become one."""


@dataclass(slots=True)
class Examples(Generic[T]):
    """Keeps some occurrences, however many are added."""

    most: int = FIRST
    """Greatest number of ``first``."""
    first: list[T] = field(default_factory=list)
    last: T | None = None
    greatest: T | None = None
    count: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    """When the occurrences that last began and ended, all of them, in order of time."""
    _weight: int = 0
    _rows: array[int] | None = None
    """Three numbers for each occurrence: its row, its time, and the time of what showed it (0:
    nothing did). None if nobody wants them.
    """

    def add(self, example: T, weight: int = 0) -> None:
        """Adds one occurrence; ``greatest`` is the first of the heaviest."""
        if len(self.first) < self.most:
            self.first.append(example)
        if self.greatest is None or weight > self._weight:
            self.greatest, self._weight = example, weight
        self.last = example
        self.count += 1

    def add_span(self, began_ns: int, ended_ns: int) -> None:
        """Adds the time of an occurrence, which is not before those of earlier ones."""
        spans = [*self.spans, (began_ns, ended_ns)]
        if len(spans) > MOST_SPANS:
            later = min(
                range(1, len(spans)), key=lambda number: spans[number][0] - spans[number - 1][1]
            )
            spans[later - 1 : later + 1] = [(spans[later - 1][0], spans[later][1])]
        self.spans = tuple(spans)

    def add_many(
        self, many: IntArray, example_of: Callable[[int], T], weights: IntArray | None = None
    ) -> None:
        """Adds many occurrences, in order, of which only those are made that are kept.
        ``example_of``: returns the occurrence for one of ``many``. ``weights``: as in ``add``.
        """
        weights = np.zeros(len(many), np.int64) if weights is None else weights
        first = max(0, self.most - len(self.first))
        kept_indices = {*range(len(many))[:first], *range(len(many))[-1:]}
        if len(many):
            kept_indices.add(int(weights.argmax()))
        self.count += len(many) - len(kept_indices)
        for index in sorted(kept_indices):
            self.add(example_of(int(many[index])), int(weights[index]))

    def keep(
        self, rows: RowNumbers, times: RowNumbers, example_rows: RowNumbers | None = None
    ) -> None:
        """Keeps rows of occurrences, their times, and the times when something showed them."""
        if self._rows is None:
            self._rows = array("q")
        columns = (rows, times, np.zeros_like(times) if example_rows is None else example_rows)
        self._rows.frombytes(np.stack(columns, axis=1).astype(np.int64).tobytes())
        if len(self._rows) > 3 * MOST:
            del self._rows[: len(self._rows) // 6 * 3]

    @property
    def rows(self) -> RowNumbers:
        """The rows that were kept, in rising order."""
        return self._kept_rows[:, 0]

    @property
    def times(self) -> RowNumbers:
        """The time of each of ``rows``."""
        return self._kept_rows[:, 1]

    @property
    def shown_ns(self) -> RowNumbers:
        """The time when something showed each of ``rows``; 0 where nothing did."""
        return self._kept_rows[:, 2]

    @property
    def _kept_rows(self) -> RowNumbers:
        return np.array(NO_ROWS if self._rows is None else self._rows, np.int64).reshape(-1, 3)

    def renamed(self, change: Callable[[T], T]) -> Examples[T]:
        """Returns these examples with each occurrence changed."""
        new = {id(example): change(example) for example in self.occurrences}
        last, greatest = (
            None if example is None else new[id(example)] for example in (self.last, self.greatest)
        )
        return replace(
            self, first=[new[id(example)] for example in self.first], last=last, greatest=greatest
        )

    def only(self, is_chosen: Callable[[T], bool]) -> Examples[T]:
        """Returns these examples without those that are kept and not chosen. Rows stay."""
        examples = [example for example in self.occurrences if is_chosen(example)]
        left_out = len(self.occurrences) - len(examples)
        return replace(self, first=examples, last=None, greatest=None, count=self.count - left_out)

    @property
    def occurrences(self) -> list[T]:
        """The occurrences that were kept, the greatest first, each once."""
        examples: list[T] = []
        for example in (self.greatest, *self.first, self.last):
            if example is not None and not any(example is earlier for earlier in examples):
                examples.append(example)
        return examples
