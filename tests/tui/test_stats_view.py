from __future__ import annotations

from textual.widgets import Static

from dcpinspect.text import cells
from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen


def test_it_says_what_stats_says_and_scrolls() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5")
        assert "messages by command" in screen(app)
        before = app.navigation.stats.scroll_offset.y
        await press(app, pilot, "end")
        assert app.navigation.stats.scroll_offset.y > before
        assert "packets read" in screen(app) or "captured" in screen(app)

    play("rollback.pcap", scene)


def test_lines_of_a_narrow_screen_do_not_go_on_in_the_next_one() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "5")
        assert "49  10.9 %" in screen(app)
        drawn = str(app.navigation.stats.query_one("#stats-text", Static).content)
        assert "connection 7  10.11.0.2:11210 >" in drawn, "a line for what is not 0"
        assert (
            max(map(cells, drawn.splitlines()))
            <= app.navigation.stats.scrollable_content_region.width
        )

    play("tour.pcapng", scene, (40, 40))
