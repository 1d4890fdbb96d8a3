"""Dialogs that open over a view: help, prompts, and lists to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from dcpinspect.errors import UsageError
from dcpinspect.text import escape
from dcpinspect.tui.export_choices import Choice
from dcpinspect.tui.key_bindings import KEYS, PALETTE, VIEWS, Key
from dcpinspect.tui.theme import Glyphs

KEY_WIDTH = 14
"""Width of the keys in help, in terminal columns."""


class Help(ModalScreen[None]):
    """Shows the keys of a view, and what its glyphs mean."""

    BINDINGS = [Binding("escape,question_mark,q,enter", "dismiss(None)", "Close")]  # noqa: RUF012 - Textual's way

    def __init__(self, view: str, legend: str) -> None:
        super().__init__()
        self._view = view
        self._legend = legend

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with VerticalScroll(id="help"):
            yield Static(Text(f"Keys of {self._view}", "bold"))
            yield Static(
                _key_table(
                    key for key in KEYS if self._view in key.views and tuple(key.views) != VIEWS
                )
            )
            yield Static(Text("\nSymbols", "bold"))
            yield Static(Text(self._legend))
            yield Static(Text("\nKeys everywhere", "bold"))
            yield Static(_key_table([*(key for key in KEYS if tuple(key.views) == VIEWS), PALETTE]))
            yield Static(Text("\nKeys of other views", "bold"))
            yield Static(
                _key_table((key for key in KEYS if self._view not in key.views), has_views=True)
            )


def _key_table(keys: Iterable[Key], *, has_views: bool = False) -> Table:
    """Returns keys and their texts as two columns, so that a wrapped text stays in its own
    column.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=KEY_WIDTH, style="bold", no_wrap=True)
    table.add_column()
    for key in keys:
        table.add_row(
            Text(key.shown), Text(f"{key.text} ({', '.join(key.views)})" if has_views else key.text)
        )
    return table


class Prompt(ModalScreen[str | None]):
    """Asks for one line of text; Esc returns None."""

    BINDINGS = [Binding("escape", "dismiss(None)", "Close")]  # noqa: RUF012 - Textual's way

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._hint = hint

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with Vertical(id="prompt"):
            yield Static(Text(self._title))
            yield Input(self._value, compact=True)
            if self._hint:
                yield Static(Text(self._hint, "dim"))

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class ExportDialog(ModalScreen[None]):
    """Asks what to export and to which file; stays open until the file name can be used."""

    BINDINGS = [  # noqa: RUF012 - Textual's way
        Binding("escape", "dismiss(None)", "Close"),
        Binding("up", "choose(-1)", "The choice before"),
        Binding("down", "choose(1)", "The next choice"),
    ]

    def __init__(
        self, choices: Sequence[Choice], glyphs: Glyphs, begin: Callable[[str, Choice], None]
    ) -> None:
        """Makes the dialog. ``choices``: the likeliest first. ``begin`` starts the export, or
        raises UsageError.
        """
        super().__init__()
        self._choices = choices
        self._glyphs = glyphs
        self._begin = begin
        self._at = 0
        self._offered, self._said = Static(id="export-choices"), Static(id="export-said")

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with Vertical(id="prompt"):
            yield Static(Text("export"))
            yield self._offered
            yield Static(Text("to a new file"))
            yield Input(compact=True)
            yield self._said

    def on_mount(self) -> None:
        """Selects the first choice."""
        self.action_choose(0)

    def action_choose(self, steps: int) -> None:
        """Moves the selection by so many choices."""
        self._at = min(max(self._at + steps, 0), len(self._choices) - 1)
        text = Text()
        for number, choice in enumerate(self._choices):
            is_chosen = number == self._at
            text.append(
                f"{self._glyphs.cursor if is_chosen else ' '} {choice.words}\n",
                "bold" if is_chosen else "",
            )
        text.rstrip()
        self._offered.update(text)
        self._said.update(
            Text(
                (
                    f"the name must end in {', '.join(self._choices[self._at].names)}   ↑ ↓ choose "
                    "  Esc closes"
                ),
                "dim",
            )
        )

    @on(Input.Submitted)
    def _named(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self._begin(event.value, self._choices[self._at])
        except UsageError as error:
            self._said.update(Text(str(error), "bold"))
        else:
            self.dismiss(None)


class MarksDialog(ModalScreen[int | None]):
    """Lists the marked rows; returns the chosen row, or None."""

    BINDINGS = [  # noqa: RUF012 - Textual's way
        Binding("escape,q,M", "dismiss(None)", "Close"),
        Binding("d,delete", "forget", "Mark removed"),
        Binding("x", "export", "Export"),
        Binding("j", "down"),
        Binding("k", "up"),
    ]

    def __init__(
        self,
        lines: Mapping[int, tuple[str, str]],
        glyphs: Glyphs,
        forget: Callable[[int], None],
        export: Callable[[], None],
    ) -> None:
        """Makes the dialog. ``lines``: for each row, its text and the note on it. ``forget``
        removes the mark from a row.

        ``export`` is called when the user wants to export the marked messages instead of going to
        one.
        """
        super().__init__()
        self._lines = lines
        self._forget = forget
        self._export = export
        self._list = OptionList(
            *(
                Option(_marked(line, note, glyphs), id=str(row))
                for row, (line, note) in lines.items()
            ),
            id="marks",
            compact=True,
        )

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with Vertical(id="marks-box"):
            yield Static(Text("marked messages", "bold"))
            yield self._list
            yield Static(
                Text("Enter goes there   d removes the mark   x exports them   Esc closes", "dim")
            )

    def on_mount(self) -> None:
        """Gives the focus to the list."""
        self._list.focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(int(event.option.id or 0))

    def action_forget(self) -> None:
        """Removes the mark from the row under the cursor. Closes the list if that was the last
        row.
        """
        highlighted = self._list.highlighted
        if highlighted is not None:
            self._forget(int(self._list.get_option_at_index(highlighted).id or 0))
            self._list.remove_option_at_index(highlighted)
            if not self._list.option_count:
                self.dismiss(None)

    def action_export(self) -> None:
        """Exports the marked messages to a file."""
        self.dismiss(None)
        self._export()

    def action_down(self) -> None:
        """Moves the cursor to the next row."""
        self._list.action_cursor_down()

    def action_up(self) -> None:
        """Moves the cursor to the row before."""
        self._list.action_cursor_up()


class Choose(ModalScreen[str | None]):
    """Asks for one of several things, and returns its name; Esc returns None."""

    BINDINGS = [  # noqa: RUF012 - Textual's way
        Binding("escape,q", "dismiss(None)", "Close"),
        Binding("j", "down"),
        Binding("k", "up"),
    ]

    def __init__(self, title: str, choices: Mapping[str, str]) -> None:
        """Makes the dialog. ``choices``: the title of each thing, by its name."""
        super().__init__()
        self._title = title
        self._list = OptionList(
            *(Option(Text(words), id=name) for name, words in choices.items()),
            id="marks",
            compact=True,
        )

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with Vertical(id="prompt"):
            yield Static(Text(self._title, "bold"))
            yield self._list
            yield Static(Text("Enter takes it   Esc closes", "dim"))

    def on_mount(self) -> None:
        """Gives the focus to the list."""
        self._list.focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_down(self) -> None:
        """Moves the cursor to the next choice."""
        self._list.action_cursor_down()

    def action_up(self) -> None:
        """Moves the cursor to the choice before."""
        self._list.action_cursor_up()


def _marked(line: str, note: str, glyphs: Glyphs) -> Text:
    """Returns the text of a row in the list of marks, with its note below."""
    text = Text(line, no_wrap=True, overflow="ellipsis")
    if note:
        text.append(f"\n{glyphs.remark:>9} {escape(note)}", "bold")
    return text


Answer = Literal["leave", "save", "stay"]


class Leaving(ModalScreen[Answer]):
    """Asks whether to leave although some messages are in no file."""

    BINDINGS = [  # noqa: RUF012 - Textual's way
        Binding("escape,n", "dismiss('stay')", "Stay"),
        Binding("s", "dismiss('save')", "Save"),
        Binding("y,enter,q", "dismiss('leave')", "Leave"),
    ]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with Vertical(id="prompt"):
            yield Static(Text(self._what))
            yield Static(Text("s saves them first   y or q leaves   Esc stays", "bold"))
