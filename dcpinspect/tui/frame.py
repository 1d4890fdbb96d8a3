"""The lines around a view: which views there are and what is open, what runs, which keys do something."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from textual import events
from textual.content import Content
from textual.style import Style
from textual.visual import VisualType
from textual.widgets import Static

from dcpinspect.escape import cells, escape
from dcpinspect.protocol.message import Severity
from dcpinspect.render.lines import counted
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.keys import TYPING, VIEWS, footer
from dcpinspect.tui.progress import time_left
from dcpinspect.tui.theme import Glyphs

_LAG_S = 0.5
"""A delay that is worth a word."""
WIDE = 100
"""Columns from which views have their full names."""
_TITLES = {
    "overview": "Overview",
    "packets": "Packets",
    "vbuckets": "vBuckets",
    "timeline": "Timeline",
    "findings": "Findings",
    "stats": "Stats",
}
_SHORT = {"overview": "All", "packets": "Pkt", "vbuckets": "vB", "timeline": "Time", "findings": "Find", "stats": "Stat"}


class Line(Static):
    """One line of text; drawn when it says something else than before, and then nothing around it is laid out anew.

    A click does what ``piece`` was told of the place.
    """

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """As Textual's."""
        before = self.content
        is_same = before.is_same(content) if isinstance(before, Content) and isinstance(content, Content) else before == content
        if not is_same:
            super().update(content, layout=layout)

    async def on_click(self, event: events.Click) -> None:
        """As the key would."""
        action = event.style.meta.get("do")
        if action:
            await self.app.run_action(action)


def piece(text: str, style: str = "", action: str = "") -> Content:
    """Part of a line; a click on it is an action of the application."""
    content = Content.styled(text, style) if style else Content(text)
    return content.stylize(Style.from_meta({"do": action})) if action else content


def tabs(inspection: Inspection, view: str, glyphs: Glyphs, width: int) -> Content:
    """The first line: views on the left; capture, messages and findings on the right."""
    left, names = [Content(" ")], _TITLES if width >= WIDE else _SHORT
    for number, name in enumerate(VIEWS):
        left.append(piece(f"{number} {names[name]}", "bold reverse" if name == view else "", f"view('{name}')"))
        left.append(Content("  " if width >= WIDE else " "))
    counts = Counter(one.severity for one in inspection.results.findings if one.effect_of is None)
    files = inspection.files
    name = _name([Path(file) for file in files])
    found = []
    if inspection.connection is not None:
        found += [Content("  "), piece(f" con {inspection.connection} alone ", "reverse", "connections")]
    severities: Sequence[Severity] = ("error", "warning", "note")
    for severity in severities:
        count = counts[severity]
        style = f"bold $paint-severity-{severity}" if count and severity != "note" else ""
        found += [Content("  "), piece(f"{glyphs.of(severity)} {count:,}", style, f"severity('{severity}')")]
    line, right = Content.assemble(*left), Content.assemble(*found, " ")
    room = width - line.cell_length - right.cell_length
    rows = counted(inspection.store.rows, "message") if width >= WIDE and inspection.connection is None else ""
    choices = [
        "  ".join(filter(None, parts)) for parts in ((name, rows, state(inspection)), (name, state(inspection)), (state(inspection),))
    ]
    about = next((one for one in choices if cells(one) <= room), "")  # what was found is never left out for it
    rest = Content.assemble(about, right).truncate(max(0, width - line.cell_length), ellipsis=True)
    return Content.assemble(line, " " * max(0, width - line.cell_length - rest.cell_length), rest)


def _name(files: Sequence[Path]) -> str:
    """Of a capture; of many files the folder that all of them are in."""
    folder = files[0].absolute().parent
    if len(files) > 2 and all(one.absolute().parent == folder for one in files):
        return f"{escape(folder.name)}/ ({len(files):,} captures)"
    return escape(files[0].name) + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def state(inspection: Inspection) -> str:
    """How far reading is, in a word; nothing when it is done."""
    if inspection.state == "reading":
        share = inspection.share
        return "live" if inspection.is_live else "reading" if share is None else f"{share:.0%}"
    return {"done": "", "stopped": "stopped", "failed": "incomplete"}[inspection.state]


def progress(inspection: Inspection, *, is_following: bool = False) -> str:
    """What runs, failed, or is to be done; nothing where all is well."""
    rows = inspection.store.rows
    if inspection.state == "reading" and inspection.is_live:
        follows = "following the newest" if is_following else "End follows the newest"
        came = [f"live, {counted(rows, 'message')}{_gone(inspection)}", f"{inspection.messages_a_second():,.0f}/s", *_lag(inspection)]
        return f" {' · '.join([follows, 'Esc stops', *came])}"  # a narrow screen cuts off what comes last
    if inspection.state == "reading":
        share, speed = inspection.share, inspection.speed
        if not share or not speed:
            return f" reading, {counted(rows, 'message')} so far{_gone(inspection)} · Esc stops"
        left = time_left(share, time.monotonic() - inspection.started)
        return " " + " · ".join(part for part in (f"reading {share:.0%}", f"{speed / 2**20:,.0f} MiB/s", left, "Esc stops") if part)
    if inspection.state == "failed":
        return f" {inspection.error}"
    if inspection.state == "stopped":
        return f" reading stopped at {inspection.share or 0:.0%}; the rest is not shown"
    notes = (_encrypted(inspection), inspection.damage or inspection.nothing, _gone(inspection).removeprefix(", "))
    return f" {' · '.join(filter(None, notes))}".rstrip(" ")


def _lag(inspection: Inspection) -> Iterator[str]:
    """How far behind what comes the messages are, and what was dropped; of interfaces."""
    from dcpinspect.capture.live import LiveCapture  # deferred: files do without

    capture = inspection.reading.capture
    if isinstance(capture, LiveCapture):
        yield f"{capture.lag_s:,.1f} s behind" if capture.lag_s >= _LAG_S else "up to date"
        yield capture.drops_in_words


def _encrypted(inspection: Inspection) -> str:
    """That there is more to see with a key log."""
    count = inspection.results.encrypted
    if not count:
        return ""
    coverage = inspection.results.coverage
    but = "the key log does not open" if coverage is not None and coverage.has_keys else "there is no key log for"
    return f"{count:,} connection{' is' if count == 1 else 's are'} encrypted, and {but} {'it' if count == 1 else 'them'}; K takes one"


def _gone(inspection: Inspection) -> str:
    """How many messages of what comes once only were given up for newer ones."""
    gone = inspection.store.first_row - 1 if inspection.store.rows else 0
    return f", the first {gone:,} are dropped (--keep)" if gone else ""


def keys(view: str, width: int, *, is_typing: bool = False) -> Content:
    """The last line: as many keys as fit, always with the one that tells the others; those of the filter while one is typed."""
    *those, last = TYPING if is_typing else sorted(footer(view), key=lambda key: key[1] == "?")
    room = width - cells(f"{last[1]} {last[2]}")
    fitting = [sum(cells(f"{shown} {word}  ") for _, shown, word in those[: count + 1]) < room for count in range(len(those))]
    pieces = [Content(" ")]
    for name, shown, word in (*those[: sum(fitting)], last):
        action = f"press({name!r})"
        pieces += [piece(f"{shown} ", "bold", action), piece(word, "", action), Content("  ")]
    return Content.assemble(*pieces[:-1])
