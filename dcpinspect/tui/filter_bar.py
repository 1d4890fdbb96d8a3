"""The bar where filters are typed. It checks the filter at every key, and completes columns,
operators and values of the capture.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.text import cells, clip, escape
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.filter_completion import Completion, Frequent, Offer, offer
from dcpinspect.tui.history import History
from dcpinspect.tui.theme import Glyphs

OFFERED = 8
"""Number of completions that are shown at once."""


class Completions(Static):
    """Shows below the filter what can come next, or where the filter is wrong."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="completions")
        self._glyphs = glyphs
        self._offered = Offer(0)
        self._at = -1

    @property
    def is_open(self) -> bool:
        """Whether there are completions to choose from."""
        return self.display and bool(self._offered.completions)

    @property
    def chosen_completion(self) -> Completion | None:
        """The completion that was selected with the keys."""
        return self._offered.completions[self._at] if self.is_open and self._at >= 0 else None

    def show(self, offered: Offer) -> None:
        """Shows other completions."""
        self._offered, self._at = offered, -1
        self._draw()

    def point(self, at: int, what: str) -> None:
        """Shows an error below the place where it is, in a line of its own, so that nothing is
        covered.
        """
        self._offered, self._at = Offer(0), -1
        self.add_class("pointing")
        self.styles.offset = (0, 0)
        self.update(
            Text(pointer_line(at, what, self.app.size.width - 2), style="bold", no_wrap=True)
        )
        self.display = True

    def hide(self) -> None:
        """Offers nothing any more."""
        self.show(Offer(0))

    def step(self, lines: int) -> None:
        """Moves the selection by so many completions; above the first, none is selected."""
        self._at = min(max(self._at + lines, -1), len(self._offered.completions) - 1)
        self._draw()

    def completed(self, text: str) -> str:
        """Returns the text with the selected completion added, else with the first."""
        completion = self.chosen_completion or self._offered.completions[0]
        return (
            text[: self._offered.start]
            + completion.text
            + ("" if completion.text.endswith(("(", " '")) else " ")
        )

    def _draw(self) -> None:
        every = self._offered.completions
        self.remove_class("pointing")
        self.display = bool(every)
        top = min(max(self._at - OFFERED + 2, 0), max(0, len(every) - OFFERED))
        completions = every[top : top + OFFERED]
        width = max((len(completion.text) for completion in completions), default=0)
        text, indent = (
            Text(no_wrap=True),
            min(self._offered.start, max(0, self.app.size.width - 60)),
        )
        doc_width = max(0, self.app.size.width - indent - width - 5)
        for number, completion in enumerate(completions, top):
            is_chosen = number == self._at
            text.append(
                f"{self._glyphs.cursor if is_chosen else ' '}{completion.text:<{width}}",
                "bold reverse" if is_chosen else "",
            )
            text.append(f"  {clip(completion.doc, doc_width)} \n", "dim")
        more = len(every) - top - len(completions)
        text.append(f" {more} more \n" if more else "", "dim")
        text.append(
            " Tab takes the first one, ↓ chooses "
            if self._at < 0
            else " Enter takes this one, Esc closes ",
            "dim",
        )
        self.styles.offset = (indent, 0)
        self.update(text)


class FilterInput(Input):
    """The input line. Up and down move through the completions, and through filters that were used
    before.
    """

    def __init__(self, history: History, completions: Completions) -> None:
        super().__init__(
            placeholder="filter, as in vbucket = 417 and name <> 'dcp_noop'",
            id="filter-input",
            compact=True,
        )
        self._history = history
        self._completions = completions
        self.place = len(history.texts)
        """Place in the history of the filter that is shown; the number of filters if none is."""

    def on_key(self, event: events.Key) -> None:
        """Handles the keys that choose a completion or an earlier filter."""
        if self._takes(event.key):
            event.stop()
            event.prevent_default()

    def _takes(self, key: str) -> bool:
        offered = self._completions
        if key in ("up", "down"):
            is_walking = self.place < len(self._history.texts)
            if (
                offered.is_open
                and not is_walking
                and (key == "down" or offered.chosen_completion is not None)
            ):
                offered.step(1 if key == "down" else -1)
            else:
                self._walk(-1 if key == "up" else 1)
        elif (key == "tab" and offered.is_open) or (
            key == "enter" and offered.chosen_completion is not None
        ):
            self.complete()
        elif key == "escape" and offered.is_open:
            offered.hide()
        else:
            return False
        return True

    def complete(self) -> None:
        """Inserts the completion in place of the typed part."""
        text = self._completions.completed(self.value[: self.cursor_position])
        after_cursor = self.value[self.cursor_position :]
        self.value = text + after_cursor
        self.cursor_position = len(text)

    def _walk(self, steps: int) -> None:
        texts = self._history.texts
        self.place = min(max(self.place + steps, 0), len(texts))
        with self.prevent(Input.Changed):
            self.value = texts[self.place] if self.place < len(texts) else ""
        self._completions.hide()
        self.cursor_position = len(self.value)


class FilterBar(Horizontal):
    """The filter, and beside it its state: ``…`` being checked, ``✔`` valid, ``✖`` invalid."""

    class Changed(Message):
        """Sent at Enter with the wanted filter; None: no filter."""

        def __init__(self, text: str, filter_: Filter | None) -> None:
            super().__init__()
            self.text = text
            self.filter = filter_

    def __init__(
        self,
        saved: dict[str, FilterSource],
        history: History,
        glyphs: Glyphs,
        frequent: Frequent,
    ) -> None:
        super().__init__(id="filter")
        self._saved = saved
        self._history = history
        self._frequent = frequent
        self.completions = Completions(glyphs)
        self.input = FilterInput(history, self.completions)
        self._state = Static(id="filter-state")

    def compose(self) -> ComposeResult:
        """Yields the widgets of the bar."""
        yield Static("/", id="filter-sign")
        yield self.input
        yield self._state

    @property
    def is_typing(self) -> bool:
        """Whether keys go into the filter."""
        return self.input.has_focus

    def on_descendant_blur(self) -> None:
        """Hides the completions when the focus leaves the bar."""
        self.completions.hide()

    def on_descendant_focus(self) -> None:
        """Offers completions when the bar gets the focus, unless there is a filter already."""
        if not self.input.value:
            self.completions.show(offer("", self._frequent))

    def show_status(self, text: str, *, is_error: bool = False) -> None:
        """Shows a text beside the filter."""
        self._state.set_class(is_error, "error")
        self._state.update(Text(text))

    def reset(self, text: str) -> None:
        """Shows the filter that is in use; a typed filter that was not applied is forgotten."""
        with self.input.prevent(Input.Changed):
            self.input.value = text
        self.completions.hide()
        self.show_status("")

    def parsed(self, text: str) -> Filter | None:
        """Parses a filter; returns None for an empty text. Raises PlacedError, UsageError."""
        return parse_filter(text, name="filter", saved=self._saved) if text.strip() else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Checks the typed filter, and offers what can come next."""
        event.stop()
        self.input.place = len(self._history.texts)
        offered = offer(event.value[: self.input.cursor_position], self._frequent)
        error = self._check(event.value)
        is_before = (
            error is not None
            and error.at + 1 < offered.start
            and event.value[error.at : offered.start].strip() not in BY_NAME
        )
        if not self.is_typing or (error is None and not offered.completions):
            self.completions.hide()
        elif error is not None and (is_before or not offered.completions):
            self._point(error)
        else:
            self.completions.show(offered)
            if error is not None:
                self.show_status("…")

    def _check(self, text: str) -> PlacedError | None:
        try:
            parsed = self.parsed(text)
        except PlacedError as error:
            self._refuse(error)
            return error
        except UsageError as error:
            self._refuse(error)
        else:
            self.show_status("" if parsed is None else "✔ Enter applies it")
        return None

    def _refuse(self, error: UsageError) -> None:
        sentence = for_keys(
            f"at {error.at + 1}: {error.what}" if isinstance(error, PlacedError) else str(error)
        )
        self.show_status(f"✖ {clip(sentence, 70)}", is_error=True)

    def _point(self, error: PlacedError) -> None:
        """Shows an error in the line below, so that the text keeps the room beside it."""
        self.completions.point(error.at, for_keys(error.what))
        self.show_status(f"✖ at {error.at + 1}", is_error=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Applies the filter when Enter is pressed."""
        event.stop()
        self.apply(event.value)

    def apply(self, text: str) -> bool:
        """Applies a filter if it is valid. Returns whether it is."""
        if self.input.value != text:
            with self.input.prevent(Input.Changed):
                self.input.value = text
        try:
            parsed = self.parsed(text)
        except UsageError as error:
            self._refuse(error)
            if isinstance(error, PlacedError) and self.is_typing:
                self._point(error)
            return False
        self.completions.hide()
        self._history.add(text.strip())
        self.input.place = len(self._history.texts)
        self.post_message(self.Changed(text.strip(), parsed))
        return True


def pointer_line(at: int, what: str, room: int) -> str:
    """Returns a line that points at a place in the line above it, and says what is wrong there."""
    if at + 2 + cells(what) <= room or at < room // 2:
        return clip(f"{' ' * at}^ {what}", room)
    column = min(at, room - 1)
    return f"{clip(what, column - 1):>{column - 1}} ^"


def condition_for_value(name: str, value: object, columns: Sequence[str]) -> str | None:
    """Returns a condition that is true for messages with this value in this column; None if there
    is no such column.
    """
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
