"""What opens over a view: the keys, and a line to type into."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dcpinspect.tui.keys import KEYS


class Help(ModalScreen[None]):
    """Keys of a view, and what its glyphs mean."""

    BINDINGS = [Binding("escape,question_mark,q,enter", "dismiss(None)", "Close")]  # noqa: RUF012 - Textual's way

    def __init__(self, view: str, legend: str) -> None:
        super().__init__()
        self._view = view
        self._legend = legend

    def compose(self) -> ComposeResult:
        """The parts."""
        text = Text()
        text.append(f"Keys of {self._view}\n\n", "bold")
        for key in KEYS:
            if self._view in key.views:
                text.append(f"{key.shown:<12}", "bold")
                text.append(f"{key.text}\n")
        text.append("Ctrl+P      ", "bold")
        text.append("every action by name\n")
        text.append("\nGlyphs\n\n", "bold")
        text.append(self._legend)
        with VerticalScroll(id="help"):
            yield Static(text)


class Prompt(ModalScreen[str | None]):
    """A line to type into; Esc gives None."""

    BINDINGS = [Binding("escape", "dismiss(None)", "Close")]  # noqa: RUF012 - Textual's way

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._hint = hint

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="prompt"):
            yield Static(Text(self._title))
            yield Input(self._value, placeholder=self._hint, compact=True)

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class Question(ModalScreen[bool]):
    """Whether to do what cannot be undone."""

    BINDINGS = [  # noqa: RUF012 - Textual's way
        Binding("escape,n", "dismiss(False)", "No"),
        Binding("y,enter,q", "dismiss(True)", "Yes"),
    ]

    def __init__(self, what: str, deed: str) -> None:
        super().__init__()
        self._what = what
        self._deed = deed

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="prompt"):
            yield Static(Text(self._what))
            yield Static(Text(f"y or q: {self._deed}   Esc: stay", "bold"))
