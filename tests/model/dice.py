"""Choices that can be made again, and made smaller.

Everything random in a conversation is drawn here as a number below some bound, 0 being the plainest
choice. The list of numbers drawn is the conversation: told again it gives the same one, with some
numbers left out or lowered a simpler one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws from ``choices`` as long as there are any, then by ``seed``; without a seed always the
    plainest.
    """

    def __init__(self, seed: int | None = None, choices: Sequence[int] = ()) -> None:
        self._random = None if seed is None else random.Random(seed)
        self._told = choices
        self.choices: list[int] = []
        """What was drawn so far."""

    def below(self, bound: int) -> int:
        """A number from 0 to ``bound`` - 1."""
        if bound <= 1:
            return 0
        at = len(self.choices)
        drawn = 0
        if at < len(self._told):
            drawn = min(self._told[at], bound - 1)
        elif self._random is not None:
            drawn = self._random.randrange(bound)
        self.choices.append(drawn)
        return drawn

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred; False is the plainest."""
        return self.below(100) >= 100 - percent

    def pick(self, options: Sequence[T]) -> T:
        """One of them; the first is the plainest."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """One of (weight, option)."""
        drawn = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            if drawn < weight:
                return option
            drawn -= weight
        raise AssertionError("a drawn number lies below the sum of the weights")

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """In any order."""
        rest, out = list(items), []
        while rest:
            out.append(rest.pop(self.below(len(rest))))
        return out


def shrunk(
    choices: Sequence[int], fails: Callable[[Sequence[int]], bool], tries: int = 600
) -> list[int]:
    """Fewer and smaller choices for which ``fails`` still holds, found in so many tries."""
    best = list(choices)
    left = tries

    def better(candidate: list[int]) -> bool:
        nonlocal best, left
        if left <= 0 or candidate == best:
            return False
        left -= 1
        if not fails(candidate):
            return False
        best = candidate
        return True

    improved = True
    while improved and left > 0:
        improved = False
        size = max(1, len(best) // 2)
        while size and left > 0:
            at = len(best) - size
            while at >= 0 and left > 0:
                run = best[at : at + size]
                if better(best[:at] + best[at + size :]) or (
                    any(run) and better(best[:at] + [0] * len(run) + best[at + size :])
                ):
                    improved = True
                at -= size
            size //= 2
        for at in range(len(best)):
            if (
                at < len(best)
                and best[at] > 1
                and better([*best[:at], best[at] // 2, *best[at + 1 :]])
            ):
                improved = True
    return best
