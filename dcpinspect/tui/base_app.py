"""The common part of the applications of a capture and of the start screen."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from textual.app import App
from textual.color import Color
from textual.driver import Driver
from textual.events import Event, Key, Paste, Resize
from textual.filter import LineFilter
from textual.geometry import Size
from textual.message_pump import MessagePump

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tui import theme
from dcpinspect.tui.history import Memory

TYPING = "typing"
"""Group of the workers that wait for keys; they never end by themselves."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What to open."""

    captures: Sequence[str] = ()
    """Files, or directories of files."""
    interface: str = ""
    """Name of an interface, in place of files."""
    keylog: str = ""
    """Path of a key log with TLS secrets for the files."""


LEAST = Size(20, 5)
"""What is drawn at least: a smaller terminal shows a part, and no text has room for nothing."""
PATIENCE = 1.0
"""Greatest number of seconds that a key waits for the key before it."""

_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_BACKGROUND = re.compile(
    r"\x1b\]11;rgba?:([\da-fA-F]+)/([\da-fA-F]+)/([\da-fA-F]+)[^\a\x1b]*(?:\a|\x1b\\)", re.ASCII
)
_FIRST_PART = re.compile(r"\x1b\]1(?:1(?:;[rgba:/\da-fA-F]{,28})?)?\x1b?\Z")


class TypeAhead:
    """The keys that were typed and have not taken effect yet: each is handled after the one before.

    Textual gives a key to the widget that has the focus when the key arrives. Of keys that arrive
    together, all go to the widget that the first key is about to leave: ``:`` opens a prompt, and
    the number behind it never gets there. Pasted text and slow lines do that.
    """

    def __init__(
        self,
        app: App[Any],
        hear: Callable[[Event], Awaitable[None]],
        is_shown: Callable[[], bool] = lambda: True,
    ) -> None:
        """Makes the queue. ``hear``: gives a key to the focused widget. ``is_shown``: whether the
        view is there that the latest key asked for.
        """
        self._app = app
        self._hear = hear
        self._is_shown = is_shown
        self._waiting: asyncio.Queue[Event] = asyncio.Queue()
        self._busy = False

    @property
    def is_empty(self) -> bool:
        """Whether all keys have taken effect."""
        return self._waiting.empty() and not self._busy

    def add(self, event: Event) -> None:
        """Adds a key to the queue."""
        self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Handles keys without end."""
        while True:
            event = await self._waiting.get()
            self._busy = True
            app = self._app
            keys = [
                *(app.focused or app.screen).ancestors_with_self
            ]  # the widgets that the key passes until one of them handles it
            await self._hear(event)
            # A widget that the key opened gets its children and the focus by messages of its own.
            # Waiting on these queues waits for them.
            for pump in (*keys, app.screen, app, app.screen, app):
                await _passed(pump)
            latest = time.monotonic() + PATIENCE
            while not self._is_shown() and time.monotonic() < latest:
                await asyncio.sleep(0.005)  # a view is made when it is first shown
            if app.focused is not None:
                await _passed(app.focused)  # which may still be told its size
            self._busy = False


async def _passed(pump: MessagePump) -> None:
    """Waits until a widget has handled all messages that it has now."""
    passed = asyncio.Event()
    if pump.is_running and pump.call_later(passed.set):
        try:
            await asyncio.wait_for(passed.wait(), PATIENCE)
        except TimeoutError:
            return  # the widget is busy, and the next key need not wait for it


class ThemedApp(App[Opening | None]):
    """Base of the applications. Its result is what to open next."""

    CSS_PATH = "app.tcss"
    TITLE = "dcpinspect"

    def __init__(
        self,
        *,
        is_ascii: bool = False,
        memory: Memory | None = None,
        theme_name: str = "",
        has_few_colors: bool = False,
    ) -> None:
        """Makes the application. ``theme_name``: if empty, the theme that was chosen last is used,
        or one that suits the terminal.

        ``has_few_colors``: the terminal has 16 colours or fewer.
        """
        super().__init__()
        self.memory = memory or Memory()
        self.glyphs = theme.ASCII if is_ascii else theme.UNICODE
        remembered = [text for text in self.memory.themes.texts if text in theme.THEMES]
        self.theme = theme_name or next(
            iter(remembered), theme.TERMINAL_THEME if has_few_colors else theme.DEFAULT_THEME
        )
        self._asks_background = not (theme_name or remembered or has_few_colors)
        self.crash: Exception | None = None
        """The exception that ended the application."""
        self.cut_export = ""
        """Path of the export that the end of the application stopped; empty: there is none."""
        self.type_ahead = TypeAhead(self, super().on_event, self.is_shown)

    def is_shown(self) -> bool:
        """Whether the latest key has taken effect, besides messages."""
        return True

    async def can_type(self) -> None:
        """Waits until something takes keys."""

    def on_mount(self) -> None:
        """Starts to take keys, and asks the terminal for its background if no theme was chosen: it
        need not answer.
        """
        self.run_worker(self._listen(), group=TYPING)
        if self._asks_background and self._driver and getattr(self._driver, "input_tty", False):
            self._driver.write(_ASK_BACKGROUND)
            self._driver.flush()

    def _on_background(self, is_light: bool) -> None:
        """Takes the theme that suits the background, unless another one was chosen meanwhile."""
        if is_light and self._asks_background and self.theme == theme.DEFAULT_THEME:
            self.theme = theme.LIGHT_THEME

    async def on_event(self, event: Event) -> None:
        """Handles an event as Textual does, but puts keys and pasted text into a queue, so that
        each waits for those before it.
        """
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            self.type_ahead.add(event)
            return
        if isinstance(event, Resize):
            event = Resize.from_dimensions(_drawn(event.size), event.pixel_size)
        await super().on_event(event)

    @property
    def size(self) -> Size:
        """The size that is drawn, which the terminal may not have."""
        return _drawn(super().size)

    async def _listen(self) -> None:
        """Handles keys from the queue until the application ends."""
        try:
            await self.can_type()
            await self.type_ahead.run()
        except Exception as error:
            self._handle_exception(error)

    def get_driver_class(self) -> type[Driver]:
        """Returns what reads the terminal. Typed bytes that are no UTF-8 are passed over: Textual
        would end the application with a traceback. It would read a terminal that has gone for ever.
        """
        driver = super().get_driver_class()
        names = vars(sys.modules[driver.__module__])
        if "getincrementaldecoder" in names:
            tell = partial(self.call_later, self._on_background)
            names["getincrementaldecoder"] = partial(_terminal_decoder, tell)
        return driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Returns the filters that change every line before it is drawn."""
        return [
            *super().get_line_filters(),
            *([theme.AsciiOnly()] if self.glyphs is theme.ASCII else []),
        ]

    def get_css_variables(self) -> dict[str, str]:
        """Returns the variables of the theme, and the palette's colours for its background."""
        return super().get_css_variables() | theme.variables(
            self.current_theme, has_color=not self.no_color
        )

    def on_load(self) -> None:
        """Draws the whole screen when the user comes back from the shell, which left none."""
        self.app_resume_signal.subscribe(self, lambda _: self.call_later(self.refresh, layout=True))

    def action_help_quit(self) -> None:
        """Quits at Ctrl+C if no text is selected, which Textual would copy."""
        self.call_later(self.action_quit)

    def _handle_exception(self, error: Exception) -> None:
        """Keeps an exception for the caller: Textual's pages about it would show captured data."""
        self.crash = self.crash or error
        self.error_console = Console(file=io.StringIO())
        super()._handle_exception(error)


def _drawn(size: Size) -> Size:
    return Size(max(size.width, LEAST.width), max(size.height, LEAST.height))


def _terminal_decoder(
    tell: Callable[[bool], object], encoding: str
) -> Callable[[], SimpleNamespace]:
    """Returns what makes the decoder of what a terminal sends. It keeps back the answer with the background,
    which would be taken for keys, and tells whether that is light.
    """
    decoder, held_text = getincrementaldecoder(encoding)("replace"), ""

    def decode(data: bytes, *, final: bool) -> str:
        nonlocal held_text
        if not data:  # the end of a terminal, where nobody is told by SIGHUP
            os.kill(os.getpid(), signal.SIGTERM)
        text = held_text + decoder.decode(data, final)
        if answer := _BACKGROUND.search(text):
            shares = [int(part, 16) / (16 ** len(part) - 1) for part in answer.groups()]
            tell(Color(*(round(255 * share) for share in shares)).brightness > 0.5)
            text = text[: answer.start()] + text[answer.end() :]
        first_part = _FIRST_PART.search(text)
        held_text = first_part[0] if first_part else ""
        return text.removesuffix(held_text)

    return lambda: SimpleNamespace(decode=decode)
