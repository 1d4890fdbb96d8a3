"""Remembers where the user has been, so that back and forward work as in a browser."""

from __future__ import annotations

from dcpinspect.records import dataclass

MOST = 200
"""Number of places that are remembered."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Everything that is needed to bring a view back as it was."""

    view: str
    row: int = 0
    """Row of the packet list; 0: none."""
    field: str = ""
    """Path of the field that was selected."""
    filter: str = ""
    top: int = 0
    """First line that was visible."""
    vbucket: int | None = None
    seqno: int | None = None
    since_ns: int | None = None
    """Time on a timeline along time, in nanoseconds since the capture began."""
    stream: tuple[int, int, int, int] | None = None
    """Stream in the table of streams: connection, vbucket, stream-id (-1 for none), ordinal."""
    finding: int | None = None
    form: str = ""
    """Form in which a timeline draws streams."""
    connection: int | None = None
    """Number of the connection that is shown alone."""


class Jumps:
    """The places before and after the one where the user is."""

    def __init__(self) -> None:
        self._behind: list[Spot] = []
        self._ahead: list[Spot] = []

    def leave(self, spot: Spot) -> None:
        """Remembers ``spot`` before a jump away from it, and forgets the places ahead."""
        if not self._behind or self._behind[-1] != spot:
            self._behind.append(spot)
        del self._behind[:-MOST]
        self._ahead.clear()

    def back(self, here: Spot) -> Spot | None:
        """Returns the place before; None at the beginning."""
        if not self._behind:
            return None
        self._ahead.append(here)
        return self._behind.pop()

    def forward(self, here: Spot) -> Spot | None:
        """Returns the place that ``back`` left; None if there is none."""
        if not self._ahead:
            return None
        self._behind.append(here)
        return self._ahead.pop()
