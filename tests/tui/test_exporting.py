from __future__ import annotations

import json
from pathlib import Path

from textual.widgets import Input

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen, settled


def test_what_is_marked_or_else_shown_goes_to_the_file_that_is_named(tmp_path: Path) -> None:
    async def named(app: InspectApp, pilot: Keys, name: str) -> None:
        await press(app, pilot, "x")
        app.screen.query_one(Input).value = f"{tmp_path}/{name}"
        await press(app, pilot, "enter")

    async def saved(app: InspectApp, pilot: Keys, name: str) -> list[int]:
        await named(app, pilot, name)
        assert f"messages are in {tmp_path}/{name}"[:60] in screen(app)
        return [json.loads(line)["row"] for line in (tmp_path / name).read_text("utf-8").splitlines()]

    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.bar.apply("vbucket = 7")
        await settled(app, pilot)
        assert await saved(app, pilot, "s.ndjson") == app.packets.list.index.rows(0, 999).tolist()
        await press(app, pilot, "home", "m")
        assert await saved(app, pilot, "m.ndjson") == [app.packets.list.row]
        await named(app, pilot, "m.ndjson")
        assert "is there already" in screen(app)

    play("rollback.pcap", scene)
