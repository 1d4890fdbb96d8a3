"""Dialogs that open over a view: help, prompts, and lists to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from dcpinspect.errors import UsageError
from dcpinspect.text import counted
from dcpinspect.tui import theme
from dcpinspect.tui.connection_list import ConnectionList, Talk
from dcpinspect.tui.key_bindings import KEYS, PALETTE, VIEWS, Key
from dcpinspect.tui.line_view import LineView

if TYPE_CHECKING:
    from dcpinspect.tui.export_choices import Choice

T = TypeVar("T")

KEY_WIDTH = 14
"""Width of the keys in help, in terminal columns."""


class Dialog(ModalScreen[T]):
    """A box over a view; Esc closes it, and returns None. A subclass yields what is in the box."""

    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "dismiss(None)", "Close")]
    HINT = "Enter takes it   Esc closes"

    def compose(self) -> ComposeResult:
        """Yields the box with its lines; a text stands as it is."""
        with VerticalScroll(classes="dialog", can_focus=False):
            for line in self.lines():
                yield line if isinstance(line, Widget) else Static(line)

    def lines(self) -> Iterator[Widget | Text | Table]:
        """Yields what stands in the box, from the top down."""
        raise NotImplementedError

    def action_move(self, where: str) -> None:
        """Moves the cursor of the list in the box."""
        getattr(self.query_one(PickList), f"action_cursor_{where}")()


class PickList(OptionList):
    """A list whose chosen line has a sign, not only a colour; it says how many are below."""

    def __init__(
        self,
        *options: Option,
        can_focus: bool = True,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        """Makes the list. ``can_focus``: it takes keys; else the dialog moves its cursor."""
        super().__init__(*options, compact=True, id=id)
        self.can_focus = can_focus

    def render_line(self, y: int) -> Strip:
        """Draws a line as Textual does, and adds the sign; blanks begin each option."""
        line = super().render_line(y)
        style = next((segment.style for segment in line), None)
        below = self.virtual_size.height - int(self.scroll_offset.y) - self.size.height
        if below > 0 and y == self.size.height - 1:
            words = f"  · {below:,} more below"
            line = line.crop(0, line.cell_length - len(words))
            line = Strip.join([line, Strip([Segment(words, style)])])
        if style is None or style.meta.get("option", -1) != self.highlighted:
            return line
        return Strip.join([Strip([Segment(theme.glyphs_of(self.app).cursor, style)]), line.crop(1)])


class Help(Dialog[None]):
    """Shows the keys of a view, and what its glyphs mean."""

    BINDINGS: ClassVar[list[Any]] = [Binding("question_mark,q,enter", "dismiss(None)", "Close")]

    def __init__(self, view: str, legend: str) -> None:
        super().__init__()
        self._view = view
        self._legend = legend

    def lines(self) -> Iterator[Widget | Text | Table]:
        """Yields tables of keys, and the legend."""
        view = self._view
        view_keys = [key for key in KEYS if view in key.views and tuple(key.views) != VIEWS]
        if view_keys:
            yield Text(f"Keys of {view}", "bold")
            yield _key_table(view_keys)
        yield Text("\nSymbols", "bold")
        yield Text(self._legend)
        yield Text("\nKeys everywhere", "bold")
        yield _key_table([*(key for key in KEYS if tuple(key.views) == VIEWS), PALETTE])

    def on_mount(self) -> None:
        """Gives the focus to the box, which keys scroll."""
        self.query_one(VerticalScroll).can_focus = True
        self.query_one(VerticalScroll).focus()


def _key_table(keys: Iterable[Key]) -> Table:
    """Returns keys and texts as two columns, so that a wrapped text stays in its column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=KEY_WIDTH, style="bold", no_wrap=True)
    table.add_column()
    for key in keys:
        table.add_row(Text(key.shown), Text(key.text))
    return table


class Prompt(Dialog[str]):
    """Asks for one line of text."""

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._hint = hint

    def lines(self) -> Iterator[Widget | Text | Table]:
        """Yields title, input and hints."""
        yield Text(self._title)
        yield Input(self._value, compact=True)
        yield Text("   ".join(filter(None, [self._hint, self.HINT])), "dim")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)


class ExportDialog(Dialog[None]):
    """Asks what to export and to which file; stays open until the file name can be used."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("up", "move('up')", "The choice before"),
        Binding("down", "move('down')", "The next choice"),
    ]

    def __init__(self, choices: Sequence[Choice], begin: Callable[[str, Choice], None]) -> None:
        """``choices``: the likeliest first. ``begin`` starts the export, or raises UsageError."""
        super().__init__()
        self._choices = choices
        self._begin = begin
        options = (Option(Text(f"  {choice.words}")) for choice in choices)
        self._list, self._hint = PickList(*options, can_focus=False), Static()

    def lines(self) -> Iterator[Widget | Text | Table]:
        """Yields the choices, and the input for the name of the file."""
        yield Text("export", "bold")
        yield self._list
        yield Input(placeholder="name of a new file", compact=True)
        yield self._hint

    def on_mount(self) -> None:
        """Selects the first choice."""
        self._list.highlighted = 0

    @property
    def _choice(self) -> Choice:
        return self._choices[self._list.highlighted or 0]

    @on(OptionList.OptionHighlighted)
    def _show_endings(self) -> None:
        endings = ", ".join(self._choice.names)
        hint = f"the name must end in {endings}\n↑ ↓ choose   {self.HINT}"
        self._hint.update(Text(hint, "dim"))

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self._begin(event.value, self._choice)
        except UsageError as error:
            self._hint.update(Text(str(error), "bold"))
        else:
            self.dismiss(None)


class Leaving(Dialog[bool]):
    """Asks whether to leave although some messages are in no file; None: to stay."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("n", "dismiss(None)", "Stay"),
        Binding("y,enter,q", "dismiss(True)", "Leave"),
    ]

    def __init__(self, loss: str) -> None:
        super().__init__()
        self._loss = loss

    def lines(self) -> Iterator[Widget | Text | Table]:
        """Yields what would be lost, and the keys."""
        yield Text(self._loss)
        yield Text("y or q leaves   Esc stays, and x exports them", "bold")


class ConnectionDialog(Dialog[int]):
    """Returns the number of the connection to show alone; 0 for all connections."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("q,C", "dismiss(None)", "Close"),
        *(
            Binding(key.keys, f"app.{key.action}")
            for key in KEYS
            if key.action.startswith(("pane('step'", "pane('page'", "pane('first'", "pane('last'"))
            or key.action == "open"
        ),
    ]

    def __init__(self, talks: Sequence[Talk], number: int) -> None:
        """Makes the dialog. ``number``: of the connection that is shown alone; 0: all are shown."""
        super().__init__()
        self._talks = talks
        self._number = number
        self.list = ConnectionList(id="connections")

    def lines(self) -> Iterator[Widget | Text | Table]:
        """Yields title, list and hint."""
        several = ", the worst first" * (len(self._talks) > 1)
        yield Text(f"{counted(len(self._talks), 'connection')}{several}", "bold")
        yield self.list
        yield Text("Enter shows one alone   Esc closes", "dim")

    def on_mount(self) -> None:
        """Puts the cursor on the connection that is shown now."""
        self.list.styles.height = len(self._talks) + 2
        self.list.show(self._talks, self._number, has_all=True)
        self.list.focus()

    @on(LineView.Opened)
    def _choose(self, event: LineView.Opened) -> None:
        event.stop()
        self.dismiss(self.list.connection)
