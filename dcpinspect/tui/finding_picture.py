"""Draws what a finding is about: the part of a vbucket's timeline that shows it, or, for a connection, the rate of messages at its time."""

from __future__ import annotations

from dataclasses import replace

from textual import work
from textual.app import ComposeResult
from textual.containers import Container
from textual.worker import get_current_worker

from dcpinspect.errors import DcpInspectError
from dcpinspect.findings.finding import Finding
from dcpinspect.render.lanes import Glyphs as LaneGlyphs
from dcpinspect.tui.rate import Rate
from dcpinspect.tui.results import Results
from dcpinspect.tui.theme import Glyphs
from dcpinspect.tui.timeline import Timeline
from dcpinspect.tui.tracks import Track, Tracks, tracks_of
from dcpinspect.tui.view import Host

REST = 0.1
"""Seconds that the cursor rests on a finding before its picture is drawn."""
_BESIDE = 3
"""How much is shown on each side of the finding's messages, as a multiple of the stretch between them."""
_LEAST = 20
"""Least number of seqnos that are shown on each side."""


class _Stretch(Timeline):
    """A timeline whose heading is in the border around it."""

    def _heading(self) -> str:
        name = "" if self.told is None or self.track is None else self.told.connections.get((self.track.source, self.track.connection), "")
        return self.waiting or ("" if self.track is None else f"connection {self.track.connection}  {name}")


class FindingPicture(Container):
    """The timeline of the vbucket, or the rate of messages."""

    def __init__(self, host: Host, glyphs: Glyphs, lanes: LaneGlyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._host = host
        self.lanes = _Stretch(lanes, id="finding-lanes")
        self.rate = Rate(glyphs, id="finding-rate")
        self._shown: tuple[int, int, int, int] | None = None
        """What is shown: number of the results, number of the finding, its vbucket (-1 for none), and the row of the cursor."""
        self._results: Results | None = None
        self._turn = 0
        self._told: Tracks | None = None

    def compose(self) -> ComposeResult:
        """Yields the timeline and the rate; only one of them is shown."""
        yield self.lanes
        yield self.rate

    def show(self, number: int, one: Finding, row: int, vbucket: int | None) -> None:
        """Shows what a finding is about, with the cursor on its message ``row``, which is about ``vbucket``."""
        results = self._host.inspection.results
        if results is not self._results:
            self._results, self._turn = results, self._turn + 1
        asked = (self._turn, number, -1 if vbucket is None else vbucket, row)
        if asked == self._shown:
            return
        before, self._shown = self._shown, asked
        self.rate.display, self.lanes.display = vbucket is None, vbucket is not None
        self.border_title = "when it was" if vbucket is None else f"the timeline of vbucket {vbucket} where it was"
        if vbucket is None:
            self.rate.show(results, self._host.inspection.reading.first_time_ns or 0, [one])
        elif before is not None and before[:3] == asked[:3] and self._told is not None:
            self._go(asked, self._told)
        else:
            self._told = None
            self.lanes.wait(vbucket, "reading")
            self._read(asked)

    @work(thread=True, group="finding-picture", exclusive=True)
    def _read(self, asked: tuple[int, int, int, int]) -> None:
        worker = get_current_worker()
        try:
            told = tracks_of(self._host.inspection, asked[2], lambda _: not worker.is_cancelled)
        except InterruptedError:
            return
        except DcpInspectError as error:
            self._host.from_thread(self.lanes.wait, asked[2], str(error))
        else:
            self._host.from_thread(self._drawn, asked, told)

    def _drawn(self, asked: tuple[int, int, int, int], told: Tracks) -> None:
        if asked == self._shown:
            self._told = told
            self._go(asked, told)

    def _go(self, asked: tuple[int, int, int, int], told: Tracks) -> None:
        """Shows the streams that show the finding, the part of them where it is, and the cursor on the message."""
        _, number, _, row = asked
        one = self._host.inspection.results.findings[number]
        best = {row, *(place.row for case in one.each for place in case.places)}
        lines = sum(1 + len(track.words) + 1 for track in told.tracks)
        is_all = lines <= self.lanes.size.height - 2
        tracks = [track for track in told.tracks if is_all or _shows(track, number)] or told.tracks
        self.lanes.show(replace(told, tracks=tracks))
        self.lanes.fit()
        own = [(track, mark.seqno) for track in tracks for mark in track.found if mark.finding == number and mark.row in best]
        places = [place for track, seqno in own for place in (seqno, track.shapes["seqno"].told) if place is not None]
        whole = self.lanes.scale
        if places and whole.step > 1:
            beside = max(_LEAST, _BESIDE * (max(places) - min(places)))
            self.lanes.zoom_to(max(whole.first, min(places) - beside), min(max(places) + beside, whole.last))
        marks = [(mark.row != row, place, mark) for place, track in enumerate(tracks) for mark in track.found if mark.finding == number]
        if marks:
            _, self.lanes.stream, mark = min(marks, key=lambda one: one[:2])
            self.lanes.action_step(0)
            self.lanes.go(mark.seqno, mark.row)


def _shows(track: Track, number: int) -> bool:
    return any(mark.finding == number for mark in track.found)
