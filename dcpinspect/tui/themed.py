"""What the application of a capture and that of the start screen have in common: colours, glyphs, and how they end."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from textual.app import App
from textual.filter import LineFilter

from dcpinspect.tui import theme
from dcpinspect.tui.history import Memory
from dcpinspect.tui.opening import Opening


class ThemedApp(App[Opening | None]):
    """An application of ours. What it returns is to be opened next."""

    CSS_PATH = "app.tcss"
    TITLE = "dcpinspect"

    def __init__(self, *, is_ascii: bool, memory: Memory | None, theme_name: str, has_few_colors: bool = False) -> None:
        """``theme_name``: empty: the one that was chosen last, or that suits the terminal. ``has_few_colors``: it has 16 or fewer."""
        super().__init__()
        self.memory = memory or Memory()
        self.glyphs = theme.ASCII if is_ascii else theme.UNICODE
        remembered = [one for one in self.memory.themes.texts if one in theme.THEMES]
        self.theme = theme_name or next(iter(remembered), theme.TERMINAL_THEME if has_few_colors else theme.DEFAULT_THEME)
        self.crash: Exception | None = None
        """The fault that ended the application."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes every line before it is drawn."""
        return [*super().get_line_filters(), *([theme.AsciiOnly()] if self.glyphs is theme.ASCII else [])]

    def get_css_variables(self) -> dict[str, str]:
        """Those of the theme, and the palette's colours on its background."""
        return super().get_css_variables() | theme.variables(self.current_theme, has_color=not self.no_color)

    def on_load(self) -> None:
        """Who comes back from the shell finds nothing of the screen there, so that all of it is drawn."""
        self.app_resume_signal.subscribe(self, lambda _: self.call_later(self.refresh, layout=True))

    def action_help_quit(self) -> None:
        """Textual's for Ctrl+C where no text is selected that it would copy."""
        self.call_later(self.action_quit)

    def _handle_exception(self, error: Exception) -> None:
        """A fault of ours is kept for who started the application, in place of Textual's pages about it, which hold what is on the wire."""
        self.crash = self.crash or error
        self.error_console = Console(file=io.StringIO())
        super()._handle_exception(error)
