"""The terminal UI without a terminal: a capture is opened, keys are pressed, the screen is read as
text.
"""

from __future__ import annotations

import asyncio
import io
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.style import Style
from textual import events
from textual.pilot import Pilot

from dcpinspect.capture.open import open_capture
from dcpinspect.text import cells
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.base_app import Opening
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.stream_lanes import Timeline
from dcpinspect.tui.theme import variables

SAMPLES = Path(__file__).parents[2] / "sample_captures"
WIDE, NARROW = (120, 36), (80, 24)

Keys = Pilot[Opening | None]
Scene = Callable[[InspectApp, Keys], Awaitable[None]]
_PATIENCE = 15000
_STILL_S = 0.05
"""What is shown is settled if it has not changed for so long, in seconds."""
_ROUNDS = 5
"""Of drawing: what is live is drawn for ever."""


def play(capture: Path | str, scene: Scene, size: tuple[int, int] = WIDE, **options: Any) -> None:
    """Opens a capture (a sample by its name), waits until it is read, and plays a scene."""
    path = SAMPLES / capture if isinstance(capture, str) else capture
    show(Inspection([str(path)]), scene, size, **options)


def follow(capture: Path, scene: Scene, size: tuple[int, int] = WIDE, **options: Any) -> None:
    """Opens a capture that is still being written, and plays a scene at once."""
    asyncio.run(
        _play(
            InspectApp(Inspection(open_capture(capture, follow=True)), **options),
            scene,
            size,
            is_whole=False,
        )
    )


@contextmanager
def read(capture: Path | str) -> Iterator[Inspection]:
    """A capture (a sample by its name) that was read, and nobody looks at: for what is made of it
    without a screen.
    """
    inspection = Inspection([str(SAMPLES / capture)])
    inspection.load()
    try:
        yield inspection
    finally:
        inspection.close()


def show(
    inspection: Inspection, scene: Scene, size: tuple[int, int] = WIDE, **options: Any
) -> None:
    """Plays a scene on something to look at once it is read."""
    asyncio.run(_play(InspectApp(inspection, **options), scene, size))


async def _play(
    app: InspectApp, scene: Scene, size: tuple[int, int], *, is_whole: bool = True
) -> None:
    """Plays a scene; of a capture without an error or a warning it begins with the messages."""
    try:
        async with app.run_test(size=size) as pilot:
            if is_whole:
                await until(pilot, lambda: app.inspection.state != "reading" and app.is_up_to_date)
                await settled(app, pilot)
                if app.view == "overview" and not _is_sick(app.inspection):
                    app.navigation.switch("packets")
                    await settled(app, pilot)
            await scene(app, pilot)
    finally:
        app.close()


def _is_sick(inspection: Inspection) -> bool:
    findings = inspection.results.findings
    return any(finding.severity != "note" for finding in findings) or not inspection.store.rows


def lanes_of(app: InspectApp) -> Timeline:
    """The lanes of the timeline."""
    return app.navigation.timeline.lanes


async def until(_pilot: Keys, condition: Callable[[], bool]) -> None:
    """Waits for something that a thread or a timer brings."""
    for _ in range(_PATIENCE):
        if condition():
            return
        await asyncio.sleep(0.002)  # a pause of the pilot would draw each time
    msg = "what was waited for never came"
    raise AssertionError(msg)


async def settled(app: InspectApp, pilot: Keys) -> None:
    """Waits until nothing runs behind, what is shown is what is known, and drawing it has asked for
    nothing more.
    """
    for _ in range(_ROUNDS):
        await until(pilot, lambda: is_quiet(app))
        await pilot.pause()
        before = screen(app)
        await pilot.pause(_STILL_S)
        if is_quiet(app) and not _is_drawn_again(app) and screen(app) == before:
            return


def _is_drawn_again(app: InspectApp) -> bool:
    """Whether parts have asked to be laid out or drawn since the screen was."""
    screen = app.screen
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._dirty_widgets
        or screen._callbacks
    )


def is_quiet(app: InspectApp) -> bool:
    """Whether nothing runs, and no part waits to be told something."""
    return app.is_at_rest and not any(
        part.message_queue_size for part in (app, app.screen, *app.screen.walk_children())
    )


async def press(app: InspectApp, pilot: Keys, *keys: str) -> None:
    """Presses keys, each when the one before has taken effect; what it has changed is drawn only
    after the last, and as time allows.
    """
    for key in keys:
        app.post_message(events.Key(key, _character(key)))
        await until(pilot, lambda: is_quiet(app))
    await settled(app, pilot)


async def burst(app: InspectApp, pilot: Keys, *keys: str) -> None:
    """Presses keys all at once, as a slow line or a program sends them."""
    for key in keys:
        app.post_message(events.Key(key, _character(key)))
    await settled(app, pilot)


def _character(key: str) -> str | None:
    """What a terminal sends with a key that Textual calls so."""
    try:
        return key if len(key) == 1 else unicodedata.lookup(key.replace("_", " ").upper())
    except KeyError:
        return None


def screen(app: InspectApp) -> str:
    """What is shown, as lines of text."""
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        legacy_windows=False,
    )
    console.print(
        app.screen._compositor.render_update(full=True)
    )  # the one call of Textual's own parts
    return (
        "\n".join(line.rstrip() for line in console.export_text(styles=False).splitlines()) + "\n"
    )


LETTERS = {
    "kind-removal": "t",
    "kind-marker": "b",
    "kind-request": "c",
    "kind-response": "p",
    "kind-refusal": "r",
    "kind-rollback": "v",
    "kind-system-event": "g",
    "kind-upkeep": "-",
    "severity-warning": "y",
    "verdict-orphaned": "o",
}
"""Of the hues of the palette, by the first that has each: teal, blue, cyan, pale, red, violet, green,
grey, yellow, orange.
"""


def colours(app: InspectApp) -> str:
    """The hues of what is shown, a letter a cell, or a digit for an amount; a capital where it is
    the ground. All themes have the same.
    """
    found = variables(app.current_theme, has_color=True)
    letters = {found[f"paint-{name}"].lower(): letter for name, letter in LETTERS.items()}
    letters |= {found[f"paint-scale-{level}"].lower(): str(level) for level in range(1, 9)}
    lines = []
    for strip in app.screen._compositor.render_strips():
        line = ""
        for segment in strip:
            front, ground = _hex(segment.style, "color"), _hex(segment.style, "bgcolor")
            if segment.style is not None and segment.style.reverse:
                front, ground = ground, front
            inked = letters.get(front, " ")
            line += (
                letters[ground].upper() * segment.cell_length
                if ground in letters
                else "".join(" " if one.isspace() else inked * cells(one) for one in segment.text)
            )
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def _hex(style: Style | None, which: str) -> str:
    colour = getattr(style, which, None)
    return "" if colour is None or colour.is_default else colour.get_truecolor().hex
