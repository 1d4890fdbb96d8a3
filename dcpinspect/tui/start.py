"""The application that asks for a capture, if the program starts without one."""

from __future__ import annotations

from dcpinspect.tui.base_app import ThemedApp
from dcpinspect.tui.history import Memory
from dcpinspect.tui.opening import OpenScreen


class StartApp(ThemedApp):
    """Asks what to open and returns it; None to leave."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        *,
        is_ascii: bool = False,
        memory: Memory | None = None,
        theme_name: str = "",
        has_few_colors: bool = False,
        said: str = "",
    ) -> None:
        """Makes the application. ``said``: why an earlier choice could not be opened."""
        super().__init__(
            is_ascii=is_ascii, memory=memory, theme_name=theme_name, has_few_colors=has_few_colors
        )
        self._why = said

    def on_mount(self) -> None:
        """Shows the screen that opens captures, which is the only one."""
        self.push_screen(
            OpenScreen(self.memory.captures.texts[::-1], self.glyphs, said=self._why), self.exit
        )
