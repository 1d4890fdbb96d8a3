from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from dcpinspect.tui.base_app import Opening
from dcpinspect.tui.history import History, Memory
from dcpinspect.tui.start import StartApp


def opened(
    scene: Callable[[StartApp, Pilot[Opening | None]], Awaitable[None]],
    memory: Memory,
    size: tuple[int, int] = (120, 36),
    **options: Any,
) -> Opening | None:
    """Plays a scene on the start screen; what is to be opened then."""

    async def play() -> StartApp:
        app = StartApp(memory=memory, **options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(app, pilot)
            await pilot.pause()
        return app

    return asyncio.run(play()).return_value


def test_it_says_why_something_could_not_be_opened_and_has_the_theme_that_was_chosen() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        del pilot
        assert app.theme == "nord"
        assert "no such thing" in str(app.screen.query_one("#open-said").render())

    memory = Memory(themes=History())
    memory.themes.add("nord")
    assert opened(scene, memory, said="no such thing") is None


def test_ctrl_c_leaves() -> None:
    async def scene(app: StartApp, pilot: Pilot[Opening | None]) -> None:
        del app
        await pilot.press("ctrl+c")

    assert opened(scene, Memory()) is None
