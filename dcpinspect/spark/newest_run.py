"""Presents the results of the newest pipeline run in the form of a running reading, for the code
that makes metrics of readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from dcpinspect.capture.open import CaptureFile
    from dcpinspect.spark.output_reading import RunResults
    from dcpinspect.streams.tables import Tables
    from dcpinspect.streams.tcp_facts import TcpConnection
    from dcpinspect.streams.tracker import Tracker


class NewestRun:
    """The newest run. It stands for its engine and capture, and knows what the run knows."""

    def __init__(self, found_in: RunResults) -> None:
        self.set_results(found_in)
        self.files: Sequence[CaptureFile] = ()
        """Empty, because packets that were lost before captures were written are not recorded."""

    def set_results(self, found_in: RunResults) -> None:
        """Takes the results of a run that has ended."""
        self._found = found_in.merged
        units = [
            unit_report.report
            for unit_report in found_in.manifest.units
            if not unit_report.continued
        ]
        self.packets = sum(unit_report.packets for unit_report in units)
        self.last_time_ns = max(
            (unit_report.last_ns for unit_report in units if unit_report.last_ns is not None),
            default=None,
        )

    @property
    def engine(self) -> Self:
        """The object itself, which has the links."""
        return self

    @property
    def capture(self) -> Self:
        """The object itself, which has counted packets."""
        return self

    @property
    def clock_ns(self) -> int | None:
        """The latest capture time."""
        return self.last_time_ns

    @property
    def links(self) -> list[TcpConnection]:
        """Connections, each counted at one capture point."""
        return self._found.links

    @property
    def tracker(self) -> Tracker:
        """Tracker of the streams on these connections."""
        return self._found.tracker

    @property
    def tables(self) -> Tables:
        """Tables of the run."""
        return self._found.tables
