"""Keys in their order: each is heard by what has the keyboard once the key before it has taken effect.

Textual gives keys to what has the focus when they arrive, so of what is typed at once, pasted into a shell or held up by a slow line, all
goes to the widget that the first key is about to leave: ``:`` opens a prompt, and the number behind it never gets there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.events import Event
from textual.message_pump import MessagePump

PATIENCE = 1.0
"""Seconds that a key waits for the one before it, at most."""


class TypeAhead:
    """The keys that were typed and have not taken effect yet."""

    def __init__(self, app: App[Any], hear: Callable[[Event], Awaitable[None]]) -> None:
        """``hear``: gives a key to what has the focus."""
        self._app = app
        self._hear = hear
        self._waiting: asyncio.Queue[Event] = asyncio.Queue()
        self._busy = False

    @property
    def is_empty(self) -> bool:
        """Whether all keys have taken effect."""
        return self._waiting.empty() and not self._busy

    def add(self, event: Event) -> None:
        """One more key."""
        self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Gives out keys for ever."""
        while True:
            event = await self._waiting.get()
            self._busy = True
            app = self._app
            way = [*(app.focused or app.screen).ancestors_with_self]  # that a key goes until someone takes it
            await self._hear(event)
            # what it opened gets its parts and the keyboard by messages of its own, which these come behind
            for pump in (*way, app.screen, app, app.screen, app):
                await _passed(pump)
            self._busy = False


async def _passed(pump: MessagePump) -> None:
    """Waits until a widget has handled all messages that it has now."""
    passed = asyncio.Event()
    if pump.is_running and pump.call_later(passed.set):
        try:
            await asyncio.wait_for(passed.wait(), PATIENCE)
        except TimeoutError:
            return  # busy: the next key need not wait for it
