"""The lines around a view: the tabs, the capture that is open, the progress, and the keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from textual import events
from textual.content import Content
from textual.style import Style
from textual.visual import VisualType
from textual.widgets import Static

from dcpinspect.protocol.message import Severity
from dcpinspect.text import cells, clip, counted, escape, words_of
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.key_bindings import TYPING, VIEWS, footer
from dcpinspect.tui.theme import Glyphs

_LAG_S = 0.5
"""Seconds of delay from which the delay is shown."""
WIDE = 100
"""Width in columns from which tabs stand apart, and the number of messages is shown."""
_TITLES, _SHORT = (
    dict(zip(VIEWS, words_of(titles), strict=True))
    for titles in (
        "Overview Packets vBuckets Timeline Findings Stats",
        "Over Pkt vB Time Find Stat",
    )
)
"""Names on the tabs, by view."""


class Line(Static):
    """One line of text. It is drawn only when its text changes, and then the layout around it stays
    as it is.

    A click runs the action that ``piece`` gave to that place.
    """

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """Sets the text as Textual does, but only if it has changed."""
        before = self.content
        is_same = (
            before.is_same(content)
            if isinstance(before, Content) and isinstance(content, Content)
            else before == content
        )
        if not is_same:
            super().update(content, layout=layout)

    async def on_click(self, event: events.Click) -> None:
        """Runs the action of the clicked place."""
        action = event.style.meta.get("do")
        if action:
            await self.app.run_action(action)


def piece(text: str, style: str = "", action: str = "") -> Content:
    """Returns part of a line; a click on it runs the action."""
    content = Content.styled(text, style) if style else Content(text)
    return content.stylize(Style.from_meta({"do": action})) if action else content


def tabs(inspection: Inspection, view: str, glyphs: Glyphs, width: int) -> Content:
    """Returns the first line: views on the left; capture, messages and findings on the right."""
    counts = Counter(
        finding.severity for finding in inspection.results.findings if finding.effect_of is None
    )
    name = capture_name(inspection) if width >= WIDE else ""  # else the last line has it
    labels = []
    if inspection.connection is not None:
        labels += [
            Content("  "),
            piece(f" con {inspection.connection} alone ", "reverse", "connections"),
        ]
    severities: Sequence[Severity] = ("error", "warning", "note")
    for severity in severities:
        count = counts[severity]
        style = f"bold $paint-severity-{severity}" if count and severity != "note" else ""
        labels += [
            Content("  "),
            piece(f"{glyphs.of_severity(severity)} {count:,}", style, "view('findings')"),
        ]
    right = Content.assemble(*labels, " ")
    width_left = width - right.cell_length  # how far reading is also stands in the line of progress
    lines = (_tabs(view, _TITLES, apart=2), _tabs(view, _TITLES), _tabs(view, _SHORT))
    line = next(
        (line for line in lines[width < WIDE :] if line.cell_length <= width_left), lines[-1]
    )
    free_width = width - line.cell_length - right.cell_length
    looked = inspection.results.looked
    is_read = looked is not None and inspection.state != "reading"
    rows = (
        counted(looked.messages if looked and is_read else inspection.store.rows, "message")
        if width >= WIDE and inspection.connection is None
        else ""
    )
    about = [name, rows, state(inspection)]
    # the counts of findings are never cut to make room for the name
    while about and cells("  ".join(filter(None, about))) > free_width:
        about.pop(-2 if len(about) > 1 else 0)
    end_text = Content.assemble("  ".join(filter(None, about)), right).truncate(
        max(0, width - line.cell_length), ellipsis=True
    )
    return Content.assemble(
        line, " " * max(0, width - line.cell_length - end_text.cell_length), end_text
    )


def _tabs(view: str, names: Mapping[str, str], apart: int = 1) -> Content:
    """Returns the tabs alone."""
    pieces = [Content(" ")]
    for number, name in enumerate(VIEWS):
        style = "bold reverse" if name == view else ""
        pieces.append(piece(f"{number} {names[name]}", style, f"view('{name}')"))
        pieces.append(Content(" " * apart))
    return Content.assemble(*pieces)


def capture_name(inspection: Inspection) -> str:
    """Returns the name of the capture; of many files, that of the folder of all."""
    files = [Path(file) for file in inspection.files]
    folder = files[0].absolute().parent
    if len(files) > 2 and all(file.absolute().parent == folder for file in files):
        return f"{escape(folder.name)}/ ({len(files):,} captures)"
    return escape(files[0].name) + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def state(inspection: Inspection) -> str:
    """Returns how far reading is, in a word; empty when it is done."""
    if inspection.state == "reading":
        share = inspection.share
        return "live" if inspection.is_live else "reading" if share is None else f"{share:.0%}"
    return {"done": "", "stopped": "stopped", "failed": "incomplete"}[inspection.state]


def progress(inspection: Inspection, *, is_following: bool = False) -> str:
    """Returns what runs, what failed or what is to be done; empty if there is nothing to say."""
    rows = inspection.store.rows
    if inspection.state == "reading" and inspection.is_live:
        if not rows:
            packets = counted(inspection.reading.capture.packets, "packet")
            return f" waiting for DCP on {inspection.ports} · {packets} came so far · Esc stops"
        follows = "following the newest" if is_following else "End follows the newest"
        came = [
            f"live, {counted(rows, 'message')}{_gone(inspection)}",
            *_lag(inspection),
        ]
        # the newest counts stand last, because a narrow screen cuts off the end
        return f" {' · '.join([follows, 'Esc stops', *came])}"
    if inspection.state == "reading":
        if not (share := inspection.share):
            return f" reading, {counted(rows, 'message')} so far{_gone(inspection)} · Esc stops"
        return f" reading {share:.0%} · Esc stops"
    if inspection.state == "failed":
        return f" {inspection.error}"
    if inspection.state == "stopped":
        return f" reading stopped at {inspection.share or 0:.0%}; the rest is not shown"
    notes = (
        _encrypted(inspection),
        inspection.damage,
        _gone(inspection).removeprefix(", "),
    )
    return f" {' · '.join(filter(None, notes))}".rstrip(" ")


def _lag(inspection: Inspection) -> Iterator[str]:
    """Yields how far the messages are behind the packets that come, and how many packets were
    dropped; only for interfaces.
    """
    from dcpinspect.capture.live import LiveCapture  # deferred: files do not need live capture

    capture = inspection.reading.capture
    if isinstance(capture, LiveCapture):
        yield f"{capture.lag_s:,.1f} s behind" if capture.lag_s >= _LAG_S else "up to date"
        yield capture.drops_in_words


_NO_KEY = {
    "tls-without-key": "there is no key log for",
    "tls-key-unknown": "the key log does not open",
}
"""Rules about connections that a key log may open, and why none does, in words."""


def _encrypted(inspection: Inspection) -> str:
    """Returns a hint that a key log would show more; empty if none would, or if it is said."""
    if inspection.nothing:
        return ""
    closed = [finding for finding in inspection.everything.findings if finding.rule in _NO_KEY]
    count = len({number for finding in closed for number in finding.connections})
    if not count:
        return ""
    them = "it" if count == 1 else "them"
    return (
        f"{counted(count, 'connection')} {'is' if count == 1 else 'are'} encrypted, and "
        f"{_NO_KEY[closed[0].rule]} {them}; K takes one"
    )


def _gone(inspection: Inspection) -> str:
    """Returns how many messages of a live capture made room for newer ones, in words."""
    gone = inspection.store.first_row - 1 if inspection.store.rows else 0
    return f", the first {gone:,} are dropped (--keep)" if gone else ""


def keys(view: str, width: int, name: str = "", *, is_typing: bool = False) -> Content:
    """Returns the last line: as many keys as fit, always with the key of help; the keys of the
    filter while one is typed. On a narrow screen the ``name`` of the capture stands at its end.
    """
    name = clip(name, width // 3) if width < WIDE else ""
    *first_keys, last = TYPING if is_typing else sorted(footer(view), key=lambda one: one[1] == "?")
    width_left = width - cells(f"{last[1]} {last[2]} {f'  {name}' if name else ''}")
    fitting = [
        sum(cells(f"{key_text} {word}  ") for _, key_text, word in first_keys[: count + 1])
        < width_left
        for count in range(len(first_keys))
    ]
    pieces = [Content(" ")]
    for key, key_text, word in (*first_keys[: sum(fitting)], last):
        action = f"press({key!r})"
        pieces += [piece(f"{key_text} ", "bold", action), piece(word, "", action), Content("  ")]
    line = Content.assemble(*pieces[:-1])
    blanks = " " * (width - line.cell_length - cells(name) - 1)
    return Content.assemble(line, blanks, name) if name else line
