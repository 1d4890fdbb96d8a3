"""What stands between two panes, and moves with the mouse."""

from __future__ import annotations

from textual import events
from textual.message import Message

from dcpinspect.tui.frame import Line


class Divider(Line):
    """A line between panes, with text or without. Where it is dragged to is told; the view makes the panes as large."""

    class Dragged(Message):
        """It was dragged to a column and a line of the screen."""

        def __init__(self, divider: Divider, x: int, y: int) -> None:
            super().__init__()
            self.divider = divider
            self.x = x
            self.y = y

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """The mouse stays with it until the button is up."""
        self.capture_mouse()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Panes follow."""
        if self.app.mouse_captured is self:
            self.post_message(self.Dragged(self, event.screen_x, event.screen_y))

    def on_mouse_up(self) -> None:
        """It stays where it is."""
        self.release_mouse()
