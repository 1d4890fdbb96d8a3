"""Where filters are typed: checked at every key, completed with columns and their words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.escape import clip, escape
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_tree import Source
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tables.schema import COLUMNS
from dcpinspect.tables.vocabulary import vocabulary

_WORD = re.compile(r"[A-Za-z_@][A-Za-z0-9_]*$")
_IN_TEXT = re.compile(r"([a-z_]+)\s*(?:=|<>|in\s*\((?:'[^']*'\s*,\s*)*)\s*'([^']*)$")
_MOST = 200
"""Filters that are remembered."""


def completion(text: str) -> str | None:
    """The rest of what is being typed at the end of a filter: a column, a word that it may hold, a saved filter."""
    match = _IN_TEXT.search(text)
    if match is not None:
        known = vocabulary(match[1]) if any(column.name == match[1] for column in COLUMNS) else None
        words = [word for word in known.words if word.startswith(match[2])] if known is not None else []
        return f"{words[0][len(match[2]) :]}'" if words else None
    if text.count("'") % 2:
        return None
    match = _WORD.search(text)
    if match is None:
        return None
    names = (f"@{name}" for name in FILTERS) if match[0].startswith("@") else (column.name for column in COLUMNS)
    found = sorted((name for name in names if name.startswith(match[0]) and name != match[0]), key=len)
    return found[0][len(match[0]) :] if found else None


class _Completions(Suggester):
    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """As Textual asks."""
        rest = completion(value)
        return None if rest is None else value + rest


class FilterInput(Input):
    """The text itself; up and down go through filters that were used before."""

    def __init__(self, history: list[str]) -> None:
        super().__init__(
            placeholder="filter, as in vbucket = 417 and name <> 'dcp_noop'", suggester=_Completions(), id="filter-input", compact=True
        )
        self._history = history
        self._place = len(history)

    def remember(self, text: str) -> None:
        """For the next time."""
        if text and (not self._history or self._history[-1] != text):
            self._history.append(text)
            del self._history[:-_MOST]
        self._place = len(self._history)

    def on_key(self, event: events.Key) -> None:
        """Up and down."""
        step = {"up": -1, "down": 1}.get(event.key, 0)
        if step:
            self._place = min(max(self._place + step, 0), len(self._history))
            self.value = self._history[self._place] if self._place < len(self._history) else ""
            self.cursor_position = len(self.value)
            event.stop()
            event.prevent_default()


class FilterBar(Horizontal):
    """The filter, and beside it what is to be said of it."""

    class Changed(Message):
        """Enter: this filter is wanted; None: none."""

        def __init__(self, text: str, filter_: Filter | None) -> None:
            super().__init__()
            self.text = text
            self.filter = filter_

    def __init__(self, saved: dict[str, Source], history: list[str], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._saved = saved
        self.input = FilterInput(history)
        self._state = Static(id="filter-state")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield Static("/", id="filter-sign")
        yield self.input
        yield self._state

    @property
    def is_typing(self) -> bool:
        """Whether keys go into the text."""
        return self.input.has_focus

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Beside the filter."""
        self._state.set_class(is_error, "error")
        self._state.update(Text(text))

    def parsed(self, text: str) -> Filter | None:
        """Raises PlacedError, UsageError."""
        return parse_filter(text, name="filter", saved=self._saved) if text.strip() else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Checks what stands there."""
        event.stop()
        try:
            found = self.parsed(event.value)
        except PlacedError as error:
            self.say(f"✖ {clip(f'at {error.at + 1}: {error.what}', 70)}", is_error=True)
        except UsageError as error:
            self.say(f"✖ {clip(str(error), 70)}", is_error=True)
        else:
            self.say("" if found is None else "✔ Enter applies it")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.apply(event.value)

    def apply(self, text: str) -> bool:
        """Takes a filter, if it is one."""
        if self.input.value != text:
            with self.input.prevent(Input.Changed):
                self.input.value = text
        try:
            found = self.parsed(text)
        except UsageError as error:
            what = f"at {error.at + 1}: {error.what}" if isinstance(error, PlacedError) else str(error)
            self.say(f"✖ {clip(what, 70)}", is_error=True)
            return False
        self.input.remember(text.strip())
        self.post_message(self.Changed(text.strip(), found))
        return True


def by_field(name: str, value: object, columns: Sequence[str]) -> str | None:
    """A condition that is true for messages with this value in this column; None where there is no such column."""
    if name not in columns or value is None:
        return None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return f"{name} = {value}"
    if isinstance(value, bytes):
        return None
    text = str(value)
    return None if escape(text) != text else f"{name} = '{text.replace(chr(39), chr(39) * 2)}'"
