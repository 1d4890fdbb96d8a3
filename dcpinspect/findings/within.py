"""Which findings belong to a span of time that somebody asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from dcpinspect.findings.finding import Finding
from dcpinspect.streams.links import Link


@dataclass(frozen=True, slots=True)
class Within:
    """Cases that go on in a span of time."""

    bounds: tuple[int, int]
    """[from, to) in nanoseconds since 1970."""
    lives: Mapping[int, tuple[int, int]]
    """First and last time of each connection."""

    @classmethod
    def of(cls, bounds: tuple[int, int], links: Sequence[Link]) -> Self:
        """``links``: all connections of the reading."""
        return cls(bounds, {link.number: (link.first_ns, link.last_ns) for link in links})

    def has(self, case: Finding) -> bool:
        """Whether a case goes on in it: from its first message to its last, to the end if it is still open, and as long as its
        connection if no message shows it."""
        since, until = self.bounds
        first, last = case.first_time_ns, case.last_time_ns
        if not first:
            lives = [self.lives[number] for number in case.connections if number in self.lives]
            first, last = min((life[0] for life in lives), default=0), max((life[1] for life in lives), default=until)
        if not case.connections and not first:
            return True  # of a checkpoint, which has no time
        return first < until and (case.over == "open" or max(first, last) >= since)
