"""Where the user has been: back and forward, as in a browser."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 200
"""Jumps that are remembered."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Everything that brings a view back as it was."""

    view: str
    row: int = 0
    """Of the packet list; 0: none."""
    field: str = ""
    """The path of the field that was selected."""
    filter: str = ""
    top: int = 0
    """First line that was visible."""
    vbucket: int | None = None
    seqno: int | None = None
    since_ns: int | None = None
    """Of a timeline along time: nanoseconds since the capture began."""
    stream: tuple[int, int, int, int] | None = None
    """Of the table of streams: connection, vbucket, stream-id (-1 for none), ordinal."""
    finding: int | None = None
    form: str = ""
    """Of a timeline: how streams are drawn."""
    connection: int | None = None
    """The one that is looked at alone."""


class Jumps:
    """The spots before and after the one where the user is."""

    def __init__(self) -> None:
        self._behind: list[Spot] = []
        self._ahead: list[Spot] = []

    def leave(self, spot: Spot) -> None:
        """A jump away from ``spot``, which forgets what was ahead."""
        if not self._behind or self._behind[-1] != spot:
            self._behind.append(spot)
        del self._behind[:-MOST]
        self._ahead.clear()

    def back(self, here: Spot) -> Spot | None:
        """The spot before; None at the beginning."""
        if not self._behind:
            return None
        self._ahead.append(here)
        return self._behind.pop()

    def forward(self, here: Spot) -> Spot | None:
        """The spot that ``back`` left; None where there is none."""
        if not self._ahead:
            return None
        self._behind.append(here)
        return self._ahead.pop()
