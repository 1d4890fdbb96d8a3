"""Keys in their order: each is heard by what has the keyboard once the key before it has taken effect.

Textual gives keys to what has the focus when they arrive, so of what is typed at once, pasted into a shell or held up by a slow line, all
goes to the widget that the first key is about to leave: ``:`` opens a prompt, and the number behind it never gets there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.dom import DOMNode
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
            way = self._way()
            await self._hear(event)
            for pump in way:
                await _passed(pump)
            # what it opened gets its parts and the keyboard by messages of its own, which these come behind
            for _ in range(2):
                for pump in self._way():
                    await _passed(pump)
            self._busy = False

    def _way(self) -> list[DOMNode]:
        """That a key goes until someone takes it."""
        return (self._app.focused or self._app.screen).ancestors_with_self


async def _passed(pump: MessagePump) -> None:
    """Waits until a widget has handled all messages that it has now."""
    passed = asyncio.Event()
    if pump.is_running and pump.call_later(passed.set):
        try:
            await asyncio.wait_for(passed.wait(), PATIENCE)
        except TimeoutError:
            return  # busy: the next key need not wait for it
