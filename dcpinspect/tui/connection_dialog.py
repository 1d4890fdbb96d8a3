"""The list of connections that opens over a view, so that the user can choose one connection to
show alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from dcpinspect.tui.connection_list import ConnectionList, Talk
from dcpinspect.tui.strips import LineView
from dcpinspect.tui.theme import Glyphs


class ConnectionDialog(ModalScreen[int | None]):
    """Returns the number of the chosen connection; 0 for all connections, None for no change."""

    BINDINGS = [  # noqa: RUF012 - Textual's way
        Binding("escape,q,C", "dismiss(None)", "Close"),
        Binding("enter", "choose"),
        Binding("up,k", "move('step', -1)"),
        Binding("down,j", "move('step', 1)"),
        Binding("pageup", "move('page', -1)"),
        Binding("pagedown", "move('page', 1)"),
        Binding("home,g", "move('first')"),
        Binding("end,G", "move('last')"),
    ]

    def __init__(self, told: Sequence[Talk], glyphs: Glyphs, here: int) -> None:
        """Makes the dialog. ``here``: number of the connection that is shown alone now; 0: all are
        shown.
        """
        super().__init__()
        self._told = told
        self._here = here
        self.list = ConnectionList(glyphs, id="connections")

    def compose(self) -> ComposeResult:
        """Yields the widgets of the dialog."""
        with Vertical(id="connections-box"):
            yield Static(Text("connections, the worst first", "bold"))
            yield self.list
            yield Static(Text("Enter shows one alone   Esc closes", "dim"))

    def on_mount(self) -> None:
        """Puts the cursor on the connection that is shown now."""
        self.list.styles.height = len(self._told) + 2
        self.list.show(self._told, self._here, has_all=True)
        self.list.focus()

    def action_move(self, how: str, *steps: int) -> None:
        """Moves the cursor of the list."""
        getattr(self.list, f"action_{how}")(*steps)

    def action_choose(self) -> None:
        """Chooses the connection under the cursor."""
        self.list.action_open()

    @on(LineView.Opened)
    def _chosen(self, event: LineView.Opened) -> None:
        event.stop()
        self.dismiss(self.list.connection)
