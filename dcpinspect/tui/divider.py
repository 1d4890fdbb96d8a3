"""The line between two panes, which the mouse can drag."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widget import Widget

from dcpinspect.tui.frame import Line


class Divider(Line):
    """A line between panes, with or without text. A drag sends the new place; the view then resizes
    the panes.
    """

    class Dragged(Message):
        """Sent when the divider was dragged to a column and a line of the screen."""

        def __init__(self, divider: Divider, x: int, y: int) -> None:
            super().__init__()
            self.divider = divider
            self._x = x
            self._y = y

        @property
        def control(self) -> Divider:
            """The divider that was dragged."""
            return self.divider

        def share(self, around: Widget, *, is_across: bool) -> float:
            """Returns how much of ``around`` lies before the new place, to the left of it or above
            it, as a share of 0.1 to 0.9.
            """
            region = around.content_region
            share = (
                (self._x - region.x) / max(region.width, 1)
                if is_across
                else (self._y - region.y) / max(region.height, 1)
            )
            return min(max(share, 0.1), 0.9)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Captures the mouse until the button is released."""
        self.capture_mouse()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Reports the new place, so that the panes follow the mouse."""
        if self.app.mouse_captured is self:
            self.post_message(self.Dragged(self, event.screen_x, event.screen_y))

    def on_mouse_up(self) -> None:
        """Releases the mouse; the divider stays where it is."""
        self.release_mouse()
