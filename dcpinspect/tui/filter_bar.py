"""The bar where filters are typed. It checks the filter at every key, and completes columns,
operators and values of the capture.
"""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.tables.filter import Filter, parse_filter
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.text import cells, clip, escape
from dcpinspect.tui.advice import for_keys
from dcpinspect.tui.dialogs import PickList
from dcpinspect.tui.filter_completion import Completion, Frequent, Offer, offer
from dcpinspect.tui.history import History


class Completions(PickList):
    """What can come next, below the filter, whose keys move the cursor."""

    def __init__(self) -> None:
        super().__init__(can_focus=False, id="completions")
        self._offered = Offer(0)

    @property
    def is_open(self) -> bool:
        """Whether there are completions to choose from."""
        return self.display and bool(self._offered.completions)

    @property
    def chosen_completion(self) -> Completion | None:
        """The completion that was selected with the keys."""
        index = self.highlighted
        return self._offered.completions[index] if self.is_open and index is not None else None

    def show(self, offered: Offer) -> None:
        """Shows other completions."""
        self._offered = offered
        width = max((len(completion.text) for completion in offered.completions), default=0)
        indent = min(offered.start, max(0, self.app.size.width - 60))
        doc_width = max(0, self.app.size.width - indent - width - 5)
        self.clear_options().add_options(
            Option(
                Text.assemble(
                    f" {completion.text:<{width}}  ",
                    (f"{clip(completion.doc, doc_width):<{doc_width}}", "dim"),
                )
            )
            for completion in offered.completions
        )
        self.styles.offset = (indent, 0)
        self.display = bool(offered.completions)

    def hide(self) -> None:
        """Offers nothing any more."""
        if self.display:
            self.show(Offer(0))

    def step(self, lines: int) -> None:
        """Moves the cursor by so many completions; above the first, none is selected."""
        index = (-1 if self.highlighted is None else self.highlighted) + lines
        self.highlighted = None if index < 0 else min(index, self.option_count - 1)

    def completed(self, text: str) -> str:
        """Returns the text with the selected completion added, else with the first."""
        completion = self.chosen_completion or self._offered.completions[0]
        return (
            text[: self._offered.start]
            + completion.text
            + ("" if completion.text.endswith(("(", " '")) else " ")
        )


class FilterInput(Input):
    """The input line. Up and down choose a completion, or a filter that was used before."""

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
            text = offered.completed(self.value[: self.cursor_position])
            self.value = text + self.value[self.cursor_position :]
            self.cursor_position = len(text)
        elif key == "escape" and offered.is_open and self.value:
            offered.hide()
        else:
            return False
        return True

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
        frequent: Frequent,
    ) -> None:
        self._saved = saved
        self._history = history
        self._frequent = frequent
        self.completions = Completions()
        self.input = FilterInput(history, self.completions)
        self._state = Static(id="filter-state")
        super().__init__(Static("/", id="filter-sign"), self.input, self._state, id="filter")
        self.pointer = Static(id="filter-pointer")
        """A line below the filter that points at a mistake; the view has a place for it."""

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
        self.pointer.display = False
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
        error: UsageError | None = None
        try:
            parsed = self.parsed(event.value)
            self.show_status("" if parsed is None else "✔ Enter applies it")
        except UsageError as refused:
            error = refused
        is_before = (
            isinstance(error, PlacedError)
            and error.at + 1 < offered.start
            and event.value[error.at : offered.start].strip() not in BY_NAME
        )
        is_open = self.is_typing and bool(offered.completions)
        if error is not None and (is_before or not is_open):
            self._refuse(error)
            return
        self.completions.show(offered if is_open else Offer(0))
        if error is not None:
            self.show_status("…")

    def _refuse(self, error: UsageError) -> None:
        """Says what is wrong: below the filter while it is typed, so that this keeps its room."""
        self.completions.hide()
        if isinstance(error, PlacedError) and self.is_typing:
            self.show_status(f"✖ at {error.at + 1}", is_error=True)
            line = pointer_line(error.at, for_keys(error.what), self.app.size.width - 2)
            self.pointer.update(Text(line, no_wrap=True))
            self.pointer.display = True
            return
        place = f"at {error.at + 1}: {error.what}" if isinstance(error, PlacedError) else str(error)
        self.show_status(f"✖ {clip(for_keys(place), 70)}", is_error=True)

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
    column = max(1, min(at, room - 1))
    return f"{clip(what, column - 1):>{column - 1}} ^"


def condition_for_value(name: str, value: object) -> str | None:
    """Returns a condition for this value in this column; None if there is no such column."""
    if name not in BY_NAME or value is None or isinstance(value, bool | bytes):
        return None
    if isinstance(value, int):
        return f"{name} = {value}"
    text = str(value)
    return None if escape(text) != text else f"{name} = '{text.replace(chr(39), chr(39) * 2)}'"
