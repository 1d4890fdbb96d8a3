"""The lines around a view: which views there are and what is open, what runs, which keys do something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from rich.text import Text
from textual.visual import VisualType
from textual.widgets import Static

from dcpinspect.escape import cells, clip, escape
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.keys import TYPING, VIEWS, footer
from dcpinspect.tui.theme import Glyphs

WIDE = 100
"""Columns from which views have their full names."""
_TITLES = {"packets": "Packets", "vbuckets": "vBuckets", "timeline": "Timeline", "findings": "Findings", "stats": "Stats"}
_SHORT = {"packets": "Pkt", "vbuckets": "vB", "timeline": "Time", "findings": "Find", "stats": "Stat"}


class Line(Static):
    """One line of text; drawn when it says something else than before, and then nothing around it is laid out anew."""

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """As Textual's."""
        if content != self.content:
            super().update(content, layout=layout)


def tabs(inspection: Inspection, view: str, glyphs: Glyphs, width: int) -> Text:
    """The first line: views on the left; capture, messages and findings on the right."""
    left = Text(" ")
    names = _TITLES if width >= WIDE else _SHORT
    for number, name in enumerate(VIEWS, 1):
        left.append(f"{number} {names[name]}", "bold reverse" if name == view else "")
        left.append("  " if width >= WIDE else " ")
    counts = Counter(one.severity for one in inspection.results.findings if one.effect_of is None)
    files = inspection.files
    name = escape(Path(files[0]).name) + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    parts = [name, f"{inspection.store.rows:,} messages" if width >= WIDE else "", state(inspection)]
    right = Text("  ".join(part for part in parts if part) + "  ")
    right.append(f"{glyphs.error} {counts['error']}", "bold red" if counts["error"] else "")
    right.append(f"  {glyphs.warning} {counts['warning']}", "bold yellow" if counts["warning"] else "")
    right.append(f"  {glyphs.note} {counts['note']} ")
    if left.cell_len + right.cell_len > width:
        right = Text(clip(right.plain, max(0, width - left.cell_len)))
    return left + Text(" " * max(0, width - left.cell_len - right.cell_len)) + right


def state(inspection: Inspection) -> str:
    """How far reading is, in a word; nothing when it is done."""
    if inspection.state == "reading":
        share = inspection.share
        return "live" if inspection.is_live else "reading" if share is None else f"{share:.0%}"
    return {"done": "", "stopped": "stopped", "failed": "incomplete"}[inspection.state]


def progress(inspection: Inspection) -> str:
    """What runs, failed, or is to be done; nothing where all is well."""
    rows = inspection.store.rows
    if inspection.state == "reading":
        share, speed = inspection.share, inspection.speed
        if not share or not speed:
            return f" reading, {rows:,} messages so far{_gone(inspection)} · Esc stops"
        left = (inspection.reading.capture.size or 0) * (1 - share) / speed
        return f" reading {share:.0%} · {speed / 2**20:,.0f} MiB/s · {left:,.0f} s left · Esc stops"
    if inspection.state == "failed":
        return f" {inspection.error}"
    if inspection.state == "stopped":
        return f" reading stopped at {inspection.share or 0:.0%}; the rest is not shown"
    return f" {inspection.damage or inspection.nothing or _gone(inspection).removeprefix(', ')}".rstrip(" ")


def _gone(inspection: Inspection) -> str:
    """How many messages of what comes once only were given up for newer ones."""
    gone = inspection.store.first_row - 1 if inspection.store.rows else 0
    return f", the first {gone:,} are dropped (--keep)" if gone else ""


def keys(view: str, width: int, *, is_typing: bool = False) -> Text:
    """The last line: as many keys as fit, always with the one that tells the others; those of the filter while one is typed."""
    text = Text(" ")
    *pairs, last = TYPING if is_typing else sorted(footer(view), key=lambda pair: pair[0] == "?")
    room = width - cells(f"{last[0]} {last[1]}")
    fitting = [sum(cells(f"{key} {word}  ") for key, word in pairs[: count + 1]) < room for count in range(len(pairs))]
    for key, word in pairs[: sum(fitting)]:
        text.append(f"{key} ", "bold")
        text.append(f"{word}  ")
    text.append(f"{last[0]} ", "bold")
    text.append(last[1])
    return text
