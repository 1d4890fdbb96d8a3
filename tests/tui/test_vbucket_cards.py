from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen


def test_cards_draw_when_items_came_and_what_happened() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        layout = app.grid.layout_of_cells
        lines = [line[: layout.wide] for line in screen(app).splitlines()[1 : 1 + layout.high]]
        assert lines[0].strip("█ ") == "vb 7"
        assert sum(any(block in line for block in "▁▂▃▄▅▆▇█") for line in lines[3:]) > layout.high / 2
        (letters,) = [[one for one in line if one.isalpha()] for line in lines[3:] if "R" in line]
        assert letters == ["Q", "X", "Q", "R", "Q", "E"], "a stream, the reset, the rollback of a request, another request, its end"
        assert "R rollback" in app.grid.legend().plain

    play("rollback.pcap", scene)
