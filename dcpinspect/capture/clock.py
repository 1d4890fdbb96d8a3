"""The time where packets come from: in a live capture time passes though no packet says so."""

from __future__ import annotations

import time

from dcpinspect.capture.batch import PacketBatch

EVERY_S = 0.1
"""Seconds after which a live source says again what time it is, whether packets come or not."""


class CaptureClock:
    """Capture time: that of the last packet, plus the time that has passed here since it came, so
    that clocks need not agree.
    """

    def __init__(self) -> None:
        self._packet_ns: int | None = None
        self._came_ns = 0

    def note(self, batch: PacketBatch) -> None:
        """Notes packets that have come just now."""
        if len(batch):
            self._packet_ns = int(batch.time_ns[-1])
            self._came_ns = time.monotonic_ns()

    def now_ns(self) -> int | None:
        """Returns the capture time now; None before the first packet."""
        if self._packet_ns is None:
            return None
        return self._packet_ns + time.monotonic_ns() - self._came_ns
