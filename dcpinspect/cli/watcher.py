"""Checks a reading that runs for weeks: for findings, packets to save, and programs to run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcpinspect.cli.teller import Scene, Teller
from dcpinspect.cli.terminal import complain
from dcpinspect.text import escape

if TYPE_CHECKING:
    from dcpinspect.capture.batch import PacketBatch
    from dcpinspect.capture.recent_packets import RecentPackets
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.records import Streams
    from dcpinspect.streams.tcp_facts import TcpConnection


class LiveWatch:
    """Checks a reading that runs for weeks, between its packets, and tells certain findings."""

    def __init__(
        self,
        reading: Reading,
        teller: Teller,
        *,
        around: RecentPackets | None = None,
        notifier: Notifier | None = None,
        summary_ns: int = 0,
    ) -> None:
        """``around`` and ``notifier``: the same as those of ``teller``."""
        from dcpinspect.capture.clock import CaptureClock

        self._reading = reading
        self._teller = teller
        self._around = around
        self._notifier = notifier
        self._clock = CaptureClock()
        self._summary_s = summary_ns / 1e9
        self._summary_due = time.monotonic() + self._summary_s if summary_ns else float("inf")
        reading.on_packets = self._follow_packets
        reading.on_pause = self._pause

    @property
    def is_over(self) -> bool:
        """Whether a finding was told that ends the watch."""
        return self._teller.is_over

    def _follow_packets(self, packets: PacketBatch) -> None:
        self._clock.note(packets)
        self.pass_time()
        if self._around is not None:
            self._around.add(packets)

    def _pause(self) -> None:
        self.pass_time()
        if self.is_over:
            self._reading.capture.stop()

    def pass_time(self) -> None:
        """Checks for findings and does other periodic work, if it is time."""
        now_ns = self._clock.now_ns()
        if (
            now_ns is not None
            and self._teller.check_when_due(lambda: Scene.from_reading(self._reading), now_ns)
            and self._around is not None
        ):
            self._around.pass_time(now_ns)
            since_ns = self._teller.waiting_since_ns
            self._around.forget(now_ns if since_ns is None else since_ns)
        if self._notifier is not None:
            self._notifier.pass_time()
        if time.monotonic() >= self._summary_due:
            self._summary_due = time.monotonic() + self._summary_s
            complain(self.summary())

    def end(self, *, is_whole: bool) -> None:
        """Tells the remaining findings.

        ``is_whole``: the input has ended; otherwise only the watch ends, and missing messages may
        still come.
        """
        self._teller.end(
            Scene.from_reading(self._reading), self._clock.now_ns() or 0, is_whole=is_whole
        )

    def close(self) -> None:
        """Closes files, and ends running programs."""
        if self._around is not None:
            self._around.close()
        if self._notifier is not None:
            self._notifier.close()

    def summary(self) -> str:
        """Summarizes the reading so far on one line."""
        from dcpinspect.output.render.message_lines import counted

        reading = self._reading
        assert reading.tracker is not None
        copies = reading.tracker.left_out(reading.links)
        tracker, links = reading.tracker.counted(reading.links)
        clauses = [
            counted(reading.capture.packets, "packet"),
            counted(reading.messages - tracker.copies.messages_of(copies), "message"),
            counted(len(links), "connection"),
            f"{counted(_open_streams(tracker.state.known_tables.streams, links), 'stream')} open",
            *self._teller.summary,
        ]
        # only captures from interfaces can drop packets
        if (drops := getattr(reading.capture, "drops_in_words", None)) is not None:
            clauses.append(drops)
        if self._around is not None:
            clauses.append(f"{counted(self._around.saved, 'file')} saved")
        if self._notifier is not None:
            clauses.append(f"{counted(self._notifier.started, 'program')} started")
        return (
            f"watched {escape(', '.join(file.name for file in reading.capture.files))}: "
            f"{', '.join(clauses)}"
        )


def _open_streams(streams: Streams, links: Sequence[TcpConnection]) -> int:
    """Returns the number of streams that the server accepted and neither side has ended."""
    import numpy as np

    from dcpinspect.streams.transitions import ACCEPTED, CLOSING, STREAMING

    closed = [link.number for link in links if link.closed]
    return int(
        (
            np.isin(streams.state, (ACCEPTED, STREAMING, CLOSING))
            & ~np.isin(streams.connection, closed)
        ).sum()
    )
