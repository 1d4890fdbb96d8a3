"""Which findings belong to a span of time that somebody asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from dcpinspect.findings.finding import Finding
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.tcp_facts import TcpConnection


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, with the lives of connections, to tell which cases go on in it."""

    bounds: tuple[int, int]
    """[from, to) in nanoseconds since 1970."""
    lives: Mapping[int, tuple[int, int]]
    """First and last time of each connection."""

    @classmethod
    def from_bounds(cls, bounds: tuple[int, int], links: Sequence[TcpConnection]) -> Self:
        """Returns the span for a reading; ``links``: all its connections."""
        return cls(bounds, {link.number: (link.first_ns, link.last_ns) for link in links})

    @property
    def has_connection(self) -> bool:
        """Whether a connection goes on in the span."""
        since, until = self.bounds
        return any(first < until and last >= since for first, last in self.lives.values())

    def has(self, case: Finding) -> bool:
        """Returns whether a case goes on in the span.

        A case goes on from when it began to its last message, and to the end if it is still open.
        If no message shows it, it goes on as long as its connection.
        """
        since, until = self.bounds
        first, last = case.first_time_ns, case.last_time_ns
        if not first:
            lives = [self.lives[number] for number in case.connections if number in self.lives]
            first = min((life[0] for life in lives), default=0)
            last = max((life[1] for life in lives), default=until)
        if not case.connections and not first:
            return True  # a case of a checkpoint, which has no time
        return first < until and (case.over == "open" or max(first, last) >= since)

    def has_case_or_effect(self, case: Finding, effects: Sequence[Finding]) -> bool:
        """Returns whether a case goes on in the span, or one of its effects does."""
        return any(map(self.has, (case, *effects)))
