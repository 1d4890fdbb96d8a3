"""Of many occurrences the few that are told: the first three, the last, and the one that matters most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

FIRST = 3


@dataclass(slots=True)
class Examples(Generic[T]):
    """However many are added, five are kept."""

    first: list[T] = field(default_factory=list)
    last: T | None = None
    greatest: T | None = None
    count: int = 0
    _weight: int = 0

    def add(self, one: T, weight: int = 0) -> None:
        """One more; of the heaviest the first is the greatest."""
        if len(self.first) < FIRST:
            self.first.append(one)
        if self.greatest is None or weight > self._weight:
            self.greatest, self._weight = one, weight
        self.last = one
        self.count += 1

    def chosen(self, many: npt.NDArray[np.int64]) -> list[int]:
        """Those of ``many``, in order, that would be kept: to look at no others."""
        first = max(0, FIRST - len(self.first))
        return [*many[:first].tolist(), *many[first:][-1:].tolist()]

    def add_chosen(self, chosen: Sequence[T], many: int) -> None:
        """Those ``chosen`` of ``many``."""
        for one in chosen:
            self.add(one)
        self.count += many - len(chosen)

    def renamed(self, change: Callable[[T], T]) -> Examples[T]:
        """The same with each one changed."""
        new = {id(one): change(one) for one in self.told}
        last, greatest = (None if one is None else new[id(one)] for one in (self.last, self.greatest))
        return replace(self, first=[new[id(one)] for one in self.first], last=last, greatest=greatest)

    @property
    def told(self) -> list[T]:
        """Those that were kept, the greatest first, each once."""
        found: list[T] = []
        for one in (self.greatest, *self.first, self.last):
            if one is not None and not any(one is other for other in found):
                found.append(one)
        return found
