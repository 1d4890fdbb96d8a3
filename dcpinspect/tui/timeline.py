"""One vbucket's streams along their seqnos: what was asked, which snapshots came, how densely, what did not come and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dcpinspect.escape import clip, escape
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.render import timeline as drawing
from dcpinspect.render.timeline import LABEL, Scale
from dcpinspect.streams import words as w
from dcpinspect.streams.items import VbucketItems
from dcpinspect.streams.story import StreamStory, stories
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.strips import strip

_BATCH = 1 << 14
_STEPS = (1, 2, 5)
HEAD = 2
"""Lines above the streams: heading and numbers."""


def stories_of(inspection: Inspection, vbucket: int) -> list[StreamStory]:
    """The streams of a vbucket as far as tables know them; reads the vbucket's messages once more."""
    tables = inspection.results.tables
    if tables is None:
        return []
    items = VbucketItems(vbucket, ())
    store = inspection.store
    rows = store.matching(FilterRows(parse_filter(f"vbucket = {vbucket}"))).astype(np.int64)
    for start in range(0, len(rows), _BATCH):
        items.feed(store.messages(rows[start : start + _BATCH]))
    return stories(tables, vbucket, (), items)


class Timeline(ScrollView, can_focus=True, inherit_bindings=False):
    """Lanes of each stream of one vbucket, a column for so many seqnos, a cursor over all."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lanes--cursor", "lanes--heading", "lanes--dim", "lanes--stream", "lanes--gap", "lanes--loss"}

    class Moved(Message):
        """The cursor came to other seqnos."""

    class Opened(Message):
        """Enter: the message at the cursor."""

    def __init__(self, glyphs: drawing.Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self.vbucket: int | None = None
        self.streams: Sequence[StreamStory] = ()
        self.scale = Scale(0, 1, 10)
        self.stream = 0
        """Place of the stream that the cursor is in."""
        self.seqno = 0
        self._lines: list[tuple[str, int]] = []

    # -- what is shown ------------------------------------------------------------------------------------

    def show(self, vbucket: int, streams: Sequence[StreamStory], seqno: int | None = None) -> None:
        """Another vbucket, or more of it."""
        is_same = vbucket == self.vbucket
        self.vbucket, self.streams = vbucket, streams
        if not is_same:
            self.stream = 0
        self.stream = min(self.stream, max(0, len(streams) - 1))
        self.fit()
        if seqno is not None:
            self.go(seqno)
        elif not is_same:
            self.go(self.scale.first)

    @property
    def _cells(self) -> int:
        return max(drawing.TICK, self.size.width - LABEL - 1 - max(24, self.size.width // 3))

    def fit(self) -> None:
        """All seqnos of all streams."""
        if self.streams:
            shown = [seqno for story in self.streams for seqno in story.seqnos()]
            self.scale = Scale.of(min(shown, default=0), max(shown, default=0), self._cells)
        self._draw()

    def zoom(self, steps: int) -> None:
        """Fewer seqnos a cell, or more, with the cursor in the middle."""
        power, at = 1, 0
        while power * _STEPS[at] < self.scale.step:
            at += 1
            if at == len(_STEPS):
                power, at = power * 10, 0
        at -= steps
        if at < 0:
            power, at = power // 10, len(_STEPS) - 1
        elif at >= len(_STEPS):
            power, at = power * 10, 0
        step = max(1, power * _STEPS[at])
        cells = self._cells
        first = max(0, (self.seqno - step * cells // 2) // step * step)
        self.scale = Scale(first, step, cells)
        self._draw()

    def _draw(self) -> None:
        width = max(drawing.NARROWEST, self.size.width - 1)
        self._lines = []
        for place, story in enumerate(self.streams):
            lines = list(drawing.picture([story], self.scale, [()], width=width, glyphs=self._glyphs))
            if not place:
                self._lines.append((lines[0], -1))
            self._lines += [(line, place) for line in lines[1:]]
        self.virtual_size = Size(self.size.width, 1 + len(self._lines))
        self.refresh()

    # -- the cursor ---------------------------------------------------------------------------------------

    @property
    def story(self) -> StreamStory | None:
        """The stream that the cursor is in."""
        return self.streams[self.stream] if self.streams else None

    @property
    def cell(self) -> int:
        """Column of the cursor."""
        return min(max((self.seqno - self.scale.first) // self.scale.step, 0), self.scale.cells - 1)

    def go(self, seqno: int) -> None:
        """The cursor goes to a seqno; the picture follows."""
        self.seqno = min(max(seqno, 0), ENDLESS)
        if not self.scale.first <= self.seqno <= self.scale.last:
            first = max(0, self.seqno - self.scale.step * (self.scale.cells // 2)) // self.scale.step * self.scale.step
            self.scale = Scale(first, self.scale.step, self.scale.cells)
            self._draw()
        self.refresh()
        self.post_message(self.Moved())

    def action_fold(self) -> None:
        """A cell to the left."""
        self.go(self.scale.first + (self.cell - 1) * self.scale.step)

    def action_unfold(self) -> None:
        """A cell to the right."""
        self.go(self.scale.first + (self.cell + 1) * self.scale.step)

    def action_step(self, lines: int) -> None:
        """To the stream above or below."""
        if self.streams:
            self.stream = min(max(self.stream + lines, 0), len(self.streams) - 1)
            own = [number for number, (_, place) in enumerate(self._lines) if place == self.stream]
            top, height = int(self.scroll_offset.y), max(self.size.height, 1)
            if own and not top <= own[0] + 1 <= own[-1] + 1 < top + height:
                self.scroll_to(y=max(0, own[0]), animate=False, immediate=True)
            self.refresh()
            self.post_message(self.Moved())

    def action_page(self, pages: int) -> None:
        """So many seqnos as are shown."""
        self.go(self.seqno + pages * self.scale.step * self.scale.cells)

    def action_first(self) -> None:
        """To the first seqno."""
        self.go(min((seqno for story in self.streams for seqno in story.seqnos()), default=0))

    def action_last(self) -> None:
        """To the last one."""
        self.go(max((seqno for story in self.streams for seqno in story.seqnos()), default=0))

    def action_open(self) -> None:
        """The message at the cursor."""
        self.post_message(self.Opened())

    def near(self, steps: int) -> None:
        """To the next border of a snapshot, request, end or gap."""
        story = self.story
        if story is not None:
            borders = {*story.seqnos(), *story.bars.first.tolist(), *story.bars.last.tolist()}
            self._to_next(sorted(borders | {int(after) + 1 for after in story.after.tolist()}), steps)

    def gap(self, steps: int) -> None:
        """To the next gap."""
        if self.story is not None:
            self._to_next(sorted(int(after) + 1 for after in self.story.after.tolist()), steps)

    def _to_next(self, seqnos: Sequence[int], steps: int) -> None:
        others = [seqno for seqno in seqnos if (seqno > self.seqno if steps > 0 else seqno < self.seqno)]
        if others:
            self.go(others[0] if steps > 0 else others[-1])

    def on_click(self, event: events.Click) -> None:
        """Selects a stream and a cell; again: opens."""
        line = int(self.scroll_offset.y) + event.y - 1
        column = event.x - LABEL
        if 0 <= line < len(self._lines) and self._lines[line][1] >= 0 and 0 <= column < self.scale.cells:
            is_same = self.stream == self._lines[line][1] and self.cell == column
            self.stream = self._lines[line][1]
            if is_same:
                self.action_open()
            else:
                self.go(self.scale.first + column * self.scale.step)

    def spoken(self) -> str:
        """What is at the cursor, in words."""
        story = self.story
        if story is None:
            return "no stream of this vbucket" if self.vbucket is not None else "choose a vbucket: 2, or v on a message"
        low = self.scale.first + self.cell * self.scale.step if self.scale.step > 1 else self.seqno
        high = low + self.scale.step - 1
        seqnos = f"seqno {low}" if low == high else f"seqnos {low}–{high}"
        parts = [f"stream {story.stream['stream']} of connection {story.stream['connection']}, {seqnos}"]
        first, last = np.uint64(max(low, 0)), np.uint64(min(high, ENDLESS))
        inside = np.flatnonzero((story.bars.first <= last) & (story.bars.last >= first))
        if len(inside):
            bar = int(inside[0])
            kind = w.SNAPSHOT_TYPES[int(story.bars.type[bar])]
            parts.append(f"snapshot {int(story.bars.first[bar])}–{int(story.bars.last[bar])} {kind}")
        missing = np.flatnonzero((story.after < last) & (story.before > first)) if len(story.after) else np.empty(0, int)
        if len(missing):
            worst = max(missing.tolist(), key=lambda gap: list(drawing.LETTERS).index(w.CAUSES[int(story.cause[gap])]))
            own = story.gaps.take(np.array([worst]))
            words = f"{int(story.after[worst]) + 1}–{int(story.before[worst]) - 1} {w.CAUSES[int(story.cause[worst])]}"
            parts.append(f"{words}: {escape(own.values('evidence')[0] or '')}")
        return " · ".join(parts)

    # -- drawing ------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """As many cells as fit."""
        self.fit()

    def render_line(self, y: int) -> Strip:
        """One line of what is in view."""
        place = int(self.scroll_offset.y) + y
        base = self.rich_style
        if place == 0:
            return strip([(clip(self._heading(), self.size.width), base + Style(bold=True))], self.size.width, base)
        if place > len(self._lines):
            return Strip.blank(self.size.width, base)
        text, stream = self._lines[place - 1]
        dim = base + self.get_component_rich_style("lanes--dim", partial=True)
        cursor = base + self.get_component_rich_style("lanes--cursor", partial=True)
        own = base + self.get_component_rich_style("lanes--stream", partial=True) if stream == self.stream else base
        label, cells, words = text[:LABEL], text[LABEL : LABEL + self.scale.cells].ljust(self.scale.cells), text[LABEL + self.scale.cells :]
        is_gaps = label.strip() == "gaps"
        style = base
        if is_gaps:
            style += self.get_component_rich_style("lanes--loss" if "L" in cells or "?" in cells else "lanes--gap", partial=True)
        at = self.cell
        pieces = [
            (label, own),
            (cells[:at], style),
            (cells[at], cursor if stream in (self.stream, -1) else style),
            (cells[at + 1 :], style),
        ]
        return strip([*pieces, (clip(words, max(0, self.size.width - LABEL - len(cells))), dim)], self.size.width, base)

    def _heading(self) -> str:
        if self.vbucket is None:
            return "no vbucket chosen"
        count = len(self.streams)
        step = f"a cell is {self.scale.step:,} seqno{'s' if self.scale.step > 1 else ''}"
        return f"vb {self.vbucket} · {count} stream{'' if count == 1 else 's'} · seqnos {self.scale.first:,}–{self.scale.last:,} · {step}"

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self.refresh()
