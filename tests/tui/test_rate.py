from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_a_peak_is_seen_at_any_width_and_what_was_found_stands_below() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        rate = app.navigation.overview.rate
        columns = [rate.render_line(line).text for line in range(rate.size.height)]
        assert "█" in columns[0], "the greatest value fills a column"
        assert columns[-1].strip().startswith("✖")
        assert columns[-1].rstrip().endswith("3.009 s"), "the axis ends where the capture ends"

    for width in (40, 80, 300):
        play("orphans.pcap", scene, (width, 50))


def test_the_cursor_names_its_time() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "tab", "tab", "end")
        assert "at most 86 in 32 ms; 21 at 2.977 s" in screen(app)
        await press(app, pilot, "home")
        assert "; 86 at 0.001 s" in screen(app)

    play("orphans.pcap", scene)
