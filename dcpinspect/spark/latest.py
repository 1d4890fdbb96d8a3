"""What pipeline runs have found by now, as a reading that goes on shows itself to whoever makes numbers of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from dcpinspect.capture.open import CaptureFile
    from dcpinspect.spark.whole import Whole
    from dcpinspect.streams.links import Link
    from dcpinspect.streams.tracker import Tables, Tracker


class Latest:
    """The newest run. It is its own engine and capture: of both there is only what the run knows."""

    def __init__(self, found_in: Whole) -> None:
        self.take(found_in)
        self.files: Sequence[CaptureFile] = ()
        """What got lost before captures were written is not kept."""

    def take(self, found_in: Whole) -> None:
        """A run has ended."""
        self._found = found_in.merged
        units = [one.report for one in found_in.manifest.units if not one.continued]
        self.packets = sum(one.packets for one in units)
        self.last_time_ns = max((one.last_ns for one in units if one.last_ns is not None), default=None)

    @property
    def engine(self) -> Self:
        """Has the links."""
        return self

    @property
    def capture(self) -> Self:
        """Has counted packets."""
        return self

    @property
    def clock_ns(self) -> int | None:
        """Capture time goes no further."""
        return self.last_time_ns

    @property
    def links(self) -> list[Link]:
        """Connections, each counted at one point."""
        return self._found.links

    @property
    def tracker(self) -> Tracker:
        """Their streams."""
        return self._found.tracker

    @property
    def tables(self) -> Tables:
        """The tables of the run."""
        return self._found.tables
