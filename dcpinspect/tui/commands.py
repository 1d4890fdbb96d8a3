"""The command palette: lists every action by a title that people search for, with its key beside
it.

The actions are those of ``keys.KEYS``, and those of ``MORE``, which have no key. An action of
another view shows that view first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tui.copying import FORMS
from dcpinspect.tui.key_bindings import KEYS, VIEWS
from dcpinspect.tui.theme import THEMES

if TYPE_CHECKING:
    from dcpinspect.tui.app import InspectApp

TITLES = {
    "view('overview')": "Go to: Overview",
    "view('packets')": "Go to: Packets",
    "view('vbuckets')": "Go to: vBuckets",
    "view('timeline')": "Go to: Timeline",
    "view('findings')": "Go to: Findings",
    "view('stats')": "Go to: Stats",
    "go": "Go to: row, frame, vbucket, time, mark or rule",
    "hot": "Go to: vbucket that has most of the measure",
    "vbucket": "Timeline of this row's vbucket",
    "bad": "Findings: next error or warning",
    "bad(True)": "Findings: previous error or warning",
    "finding": "Findings: the one about this",
    "filter": "Filter: messages, in SQL",
    "follow": "Follow the conversation of this message",
    "by_this": "Filter: by the field or vbucket under the cursor",
    "by_this('and')": "Filter: also by what is under the cursor",
    "by_this('not')": "Filter: leave out what is under the cursor",
    "find": "Find in messages: text, /regex/ or bytes",
    "find_next": "Find the next one",
    "find_next(True)": "Find the one before",
    "zoom(1)": "Zoom in",
    "zoom(-1)": "Zoom out",
    "zoom(0)": "Zoom: show all",
    "gap(1)": "Gaps: next",
    "gap(-1)": "Gaps: previous",
    "neighbour(1)": "Timeline of the next vbucket",
    "neighbour(-1)": "Timeline of the previous vbucket",
    "near(1)": "Next row, vbucket, event or evidence",
    "near(-1)": "Previous row, vbucket, event or evidence",
    "open": "Open, or follow the link",
    "return": "Back to where you came from",
    "forward": "Forward again",
    "leave": "Close, stop, or remove the filter",
    "display": "Display: hex, measure, order or axis",
    "numbers": "Display: commands as numbers or names",
    "value": "Display: values as text or bytes",
    "time": "Display: time column, another form",
    "column": "Columns: add the field under the cursor, or remove it",
    "layout": "Layout: panes beside or below; grid or table",
    "resize(-1)": "Layout: less room for the list",
    "resize(1)": "Layout: more room for the list",
    "maximize": "Layout: this pane as large as the screen",
    "mark": "Marks: mark this message, or remove the mark",
    "note": "Marks: write a note on this message",
    "next_mark": "Marks: next",
    "connections": "Connections: look at one alone, or at all",
    "marks": "Marks: all of them",
    "copy": "Copy the value, the line or the finding",
    "copy_as": "Copy the message in another form",
    "export": "Export to a file: messages, findings or tables",
    "another": "Open another capture: recent, file or interface",
    "keylog": "Key log: read the capture again with TLS secrets",
    "suspend": "Back to the shell; fg comes back",
    "help": "Help: keys and symbols",
    "quit": "Quit",
}
"""Titles of actions in the palette, in its order. Actions without a title here follow, with their
text.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """One entry of the palette."""

    title: str
    action: str
    shown: str = ""
    """The key of the action, as help writes it."""
    about: str = ""
    """More words about the action; the search looks at them, too."""
    views: Sequence[str] = VIEWS
    """Views in which the action does something."""


MORE = (
    *(
        Command(f"Filter: {name}", f"preset('{name}')", f"@{name}", preset.doc)
        for name, preset in FILTERS.items()
    ),
    *(Command(f"Theme: {name}", f"theme('{name}')") for name in THEMES),
    *(
        Command(f"Copy: {words}", f"copy_as('{form}')", views=("packets",))
        for form, words in FORMS.items()
    ),
    Command("Save a picture of the screen (SVG)", "picture", about="screenshot"),
)
"""Entries for actions that have no key."""


def commands() -> list[Command]:
    """Returns all entries of the palette in order."""
    by_action = {key.action: key for key in KEYS if not key.action.startswith(("app.", "pane"))}
    order = [
        *(action for action in TITLES if action in by_action),
        *(action for action in by_action if action not in TITLES),
    ]
    keyed = [by_action[action] for action in order]
    return [
        *(
            Command(
                TITLES.get(key.action, key.text.capitalize()),
                key.action,
                key.shown,
                key.text,
                key.views,
            )
            for key in keyed
        ),
        *MORE,
    ]


_KEY_WIDTH = 9


def rank(command: Command, words: Sequence[str]) -> int:
    """Returns how well an entry matches the typed words, which are in lower case; 0 if the entry
    lacks one of them.
    """
    title, about = command.title.casefold(), command.about.casefold()
    ranks = [
        3 if re.search(rf"\b{re.escape(word)}", title) else 2 if word in title else word in about
        for word in words
    ]
    return sum(ranks) * all(ranks)


class Commands(Provider):
    """Gives the entries to Textual's palette."""

    def _run(self, command: Command) -> None:
        app: InspectApp = self.app  # type: ignore[assignment] # no other application has this palette
        app.call_later(app.do, command)

    def _line(self, command: Command, words: Sequence[str] = ()) -> Content:
        title = Content(command.title)
        for word in words:
            title = title.highlight_regex(
                re.compile(re.escape(word), re.IGNORECASE), style=self.match_style or "reverse"
            )
        return Content.assemble((f"{command.shown:>{_KEY_WIDTH}}  ", "dim"), title)

    async def discover(self) -> Hits:
        """Yields all entries; Textual asks for them before anything is typed."""
        for command in commands():
            yield DiscoveryHit(self._line(command), partial(self._run, command), text=command.title)

    async def search(self, query: str) -> Hits:
        """Yields the entries whose title or further words contain all typed words."""
        words = query.casefold().split()
        all_commands = commands()
        for number, command in enumerate(all_commands):
            ranked = rank(command, words)
            if ranked:  # among equal matches, the entry that is first in the table comes first
                yield Hit(
                    ranked - number / len(all_commands),
                    self._line(command, words),
                    partial(self._run, command),
                    text=command.title,
                )
