"""The third view: the streams of one vbucket along their seqnos, and in words what is under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.widgets import Static

from dcpinspect.errors import DcpInspectError
from dcpinspect.render.timeline import LETTERS, Glyphs, legend
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tui.inspection import Results
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.timeline import Timeline, stories_of
from dcpinspect.tui.view import Host, View


class TimelineView(View):
    """Lanes above, words below."""

    def __init__(self, host: Host, glyphs: Glyphs) -> None:
        super().__init__(id="timeline")
        self.host = host
        self._glyphs = glyphs
        self.lanes = Timeline(glyphs, id="lanes")
        self._spoken = Static(id="spoken")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.lanes
        yield self._spoken

    @property
    def keyboard(self) -> Timeline:
        """The lanes."""
        return self.lanes

    def take_up(self, results: Results) -> None:
        """The streams may have grown."""
        del results
        if self.lanes.vbucket is not None:
            self.tell(self.lanes.vbucket)

    def show(self, vbucket: int, seqno: int | None = None) -> None:
        """A vbucket, with the cursor at a seqno."""
        if vbucket == self.lanes.vbucket and seqno is not None:
            self.lanes.go(seqno)
        else:
            self.tell(vbucket, seqno)

    @work(thread=True, group="timeline", exclusive=True)
    def tell(self, vbucket: int, seqno: int | None = None) -> None:
        """The story of a vbucket, from the store."""
        try:
            streams = stories_of(self.host.inspection, vbucket)
        except DcpInspectError as error:
            self.host.from_thread(self.host.say, str(error))
        else:
            self.host.from_thread(self.lanes.show, vbucket, streams, seqno)

    @on(Timeline.Moved)
    def arrive(self) -> None:
        """What is under the cursor."""
        self._spoken.update(Text(f" {self.lanes.spoken()}"))

    def spot(self) -> Spot:
        """Which vbucket, stream and seqno."""
        return Spot("timeline", vbucket=self.lanes.vbucket, seqno=self.lanes.seqno, top=self.lanes.stream)

    def restore(self, spot: Spot) -> None:
        """As it was."""
        if spot.vbucket is not None:
            self.lanes.stream = spot.top
            self.show(spot.vbucket, spot.seqno or 0)

    def legend(self) -> Sequence[str]:
        """Of lanes and gaps."""
        return [*legend(self._glyphs), f"of several gaps in a cell the worst shows, in this order: {' '.join(LETTERS.values())}"]

    @property
    def vbucket_here(self) -> int | None:
        """The one whose streams are shown."""
        return self.lanes.vbucket

    @on(Timeline.Opened)
    def _opened(self) -> None:
        story = self.lanes.story
        if story is None:
            return
        scale = self.lanes.scale
        first = self.lanes.seqno if scale.step == 1 else scale.first + self.lanes.cell * scale.step
        where = f"vbucket = {self.lanes.vbucket} and connection = {story.stream['connection']} and row >= {story.stream['open_row']}"
        rows = self.host.inspection.store.matching(FilterRows(parse_filter(f"{where} and by_seqno >= {first}")))
        self.host.to_row(int(rows[0]) if len(rows) else int(story.stream["open_row"]), "by_seqno" if len(rows) else "")

    def action_near(self, steps: int) -> None:
        """To the next event."""
        self.lanes.near(steps)

    def action_gap(self, steps: int) -> None:
        """To the next gap."""
        self.lanes.gap(steps)

    def action_zoom(self, steps: int) -> None:
        """Nearer, farther, all."""
        if steps:
            self.lanes.zoom(steps)
        else:
            self.lanes.fit()

    def action_neighbour(self, steps: int) -> None:
        """The timeline of the next vbucket that has one."""
        numbers = self.host.inspection.results.vbuckets
        here = self.lanes.vbucket if self.lanes.vbucket is not None else -1
        others = [number for number in numbers if (number > here if steps > 0 else number < here)]
        if others:
            self.tell(others[0] if steps > 0 else others[-1])

    def action_copy(self) -> None:
        """What is under the cursor, in words."""
        self.host.copy(self.lanes.spoken())
