from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import NARROW, WIDE, Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [NARROW, WIDE, (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_stretch_of_the_timeline_stands_below_with_the_cursor_at_the_message(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n", "n")
        one, lanes = app.finding_list.shown, app.findings.picture.lanes
        assert one is not None
        assert one.rule == "orphaned-vbucket"
        assert "the timeline of vbucket 42 where it was" in screen(app)
        assert "0–9 memory" in screen(app)
        assert lanes.row[0] == one.places[0].row
        await press(app, pilot, "right_square_bracket")
        assert "the timeline of vbucket 42" in screen(app) or lanes.vbucket == 45
        await press(app, pilot, "tab", "tab", "enter")
        assert app.view == "packets"

    play("orphans.pcap", scene, size)


def test_of_a_connection_it_is_shown_when_it_was() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "end")
        assert app.finding_list.shown is not None
        assert app.finding_list.shown.rule == "connection-closed"
        text = screen(app)
        assert "when it was" in text
        assert next(line for line in text.splitlines() if line.strip().startswith("found")).split() == ["found", "·"]
        await press(app, pilot, "tab", "tab", "enter")
        assert app.view == "packets"

    play("orphans.pcap", scene)


@pytest.mark.parametrize("keys", [("4", "n"), ("2", "n", "enter")], ids=["findings", "timeline"])
def test_a_screen_that_becomes_narrower_is_drawn(keys: tuple[str, ...]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *keys)
        for width in (80, 200, 40, 120):
            await pilot.resize_terminal(width, 30)
            await settled(app, pilot)
            assert all(len(line) <= width for line in screen(app).splitlines())

    play("loop.pcap", scene)
