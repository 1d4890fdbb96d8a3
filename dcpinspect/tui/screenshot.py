"""Draws pictures of the views as SVG without a terminal, for ``tui --screenshot`` and docs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path

from textual.pilot import Pilot

from dcpinspect.text import cells
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.base_app import Opening
from dcpinspect.tui.key_bindings import KEYS

SIZE = (120, 36)
"""Columns and lines, unless others are given."""
SMALLEST, LARGEST = 20, 500
"""Least and greatest number of columns or lines of a picture; a larger SVG takes minutes."""
_CELL = 12.2
"""Width of a column in a picture."""
_TEXT = re.compile(r'(<text [^>]*x=")([\d.]+)("[^>]*textLength=")[\d.]+("[^>]*>)([^<]*)</text>')
_WORDS = re.compile(r"\S+(?: \S+)*")
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def screenshot(app: InspectApp, view: str, size: tuple[int, int] = SIZE) -> str:
    """Returns a picture of a view of a capture, after the whole capture is read."""
    return asyncio.run(screenshots(app, [(view, key_of(view))], size))[view]


def key_of(view: str) -> Sequence[str]:
    """Returns the key that leads to a view, as a sequence of one key."""
    return next(key.keys.partition(",")[:1] for key in KEYS if key.action == f"view('{view}')")


async def screenshots(
    app: InspectApp, scenes: Sequence[tuple[str, Sequence[str]]], size: tuple[int, int] = SIZE
) -> dict[str, str]:
    """Returns pictures by name. A scene has a name, and the keys that lead there."""
    pictures = {}
    title = f"dcpinspect {Path(app.inspection.files[0]).name}"
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for name, keys in scenes:
            for key in keys:
                await pilot.press(key)
                await settled(app, pilot)
            picture = ""
            # on a busy machine the layout comes later than what it is of
            while picture != (picture := app.export_screenshot(title=title)):
                await pilot.pause(0.05)
            # any monospaced font will do, so nothing is loaded from the fonts' web site
            pictures[name] = _TEXT.sub(_placed, _FONTS.sub("", picture))
    return pictures


def _placed(text: re.Match[str]) -> str:
    """Returns a text with a place for each piece between blanks, which some viewers drop."""
    begin, x, size, style, words = text.groups()
    words = unescape(words).replace("\xa0", " ")
    return "".join(
        f"{begin}{float(x) + _CELL * cells(words[: piece.start()]):g}{size}"
        f"{_CELL * cells(piece[0]):g}{style}{escape(piece[0]).replace(' ', '&#160;')}</text>"
        for piece in _WORDS.finditer(words)
    )


async def settled(app: InspectApp, pilot: Pilot[Opening | None]) -> None:
    """Waits until the capture is read and the screen shows all results."""
    await pilot.pause()
    while app.crash is None and (app.inspection.state == "reading" or not app.is_at_rest):
        await pilot.pause(0.01)
    await pilot.pause()
