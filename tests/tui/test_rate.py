from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_a_peak_is_seen_at_any_width_and_what_was_found_stands_below() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        rate = app.overview.rate
        assert rate._drawn().max() == rate._values.max()
        found = next(line for line in screen(app).splitlines() if line.strip().startswith("found ✖"))
        assert found.split() == ["found", "✖"]

    for width in (40, 80, 300):
        play("orphans.pcap", scene, (width, 36))


def test_the_cursor_names_its_time() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "tab", "tab", "end")
        assert ", 656 at 2.977 s" in screen(app)
        await press(app, pilot, "home")
        assert ", 2.69k at 0.001 s" in screen(app)

    play("orphans.pcap", scene)
