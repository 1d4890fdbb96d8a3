"""Keeps keys in order: each key is handled after the key before it has taken effect.

Textual gives a key to the widget that has the focus when the key arrives. Of keys that arrive
together, all go to the widget that the first key is about to leave: ``:`` opens a prompt, and the
number behind it never gets there. Pasted text and slow lines do that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.events import Event
from textual.message_pump import MessagePump

PATIENCE = 1.0
"""Greatest number of seconds that a key waits for the key before it."""


class TypeAhead:
    """The keys that were typed and have not taken effect yet."""

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
            self._busy = False


async def _passed(pump: MessagePump) -> None:
    """Waits until a widget has handled all messages that it has now."""
    passed = asyncio.Event()
    if pump.is_running and pump.call_later(passed.set):
        try:
            await asyncio.wait_for(passed.wait(), PATIENCE)
        except TimeoutError:
            return  # the widget is busy, and the next key need not wait for it
