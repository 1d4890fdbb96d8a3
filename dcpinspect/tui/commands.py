"""The command palette: lists every action by a title that people search for, with its key beside
it.

The actions are those of ``KEYS``, and those of ``MORE``, which have no key. An action of
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
)
"""Entries for actions that have no key."""


def commands() -> list[Command]:
    """Returns all entries of the palette in order: the views, the actions of other keys, and those
    that have no key.
    """
    keys = [key for key in KEYS if not key.action.startswith(("app.", "pane"))]
    keys.sort(key=lambda key: not key.action.startswith("view("))
    return [
        *(Command(_title(key.text), key.action, key.shown, views=key.views) for key in keys),
        *MORE,
    ]


def _title(text: str) -> str:
    return text if text.startswith("vB") else text[:1].upper() + text[1:]


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
