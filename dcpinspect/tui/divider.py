"""What stands between two panes, and moves with the mouse."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widget import Widget

from dcpinspect.tui.frame import Line


class Divider(Line):
    """A line between panes, with text or without. Where it is dragged to is told; the view makes the panes as large."""

    class Dragged(Message):
        """It was dragged to a column and a line of the screen."""

        def __init__(self, divider: Divider, x: int, y: int) -> None:
            super().__init__()
            self.divider = divider
            self._x = x
            self._y = y

        @property
        def control(self) -> Divider:
            """The line that was dragged."""
            return self.divider

        def share(self, around: Widget, *, is_across: bool) -> float:
            """The part of a widget that is before the place: to the left of it, or above."""
            region = around.content_region
            part = (self._x - region.x) / max(region.width, 1) if is_across else (self._y - region.y) / max(region.height, 1)
            return min(max(part, 0.1), 0.9)

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
