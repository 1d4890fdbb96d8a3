from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen


def test_severities_fold() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "home", "space")
        assert "asked 60, told 50" not in screen(app)
        await press(app, pilot, "space")
        assert "asked 60, told 50" in screen(app)

    play("rollback.pcap", scene)


def test_nothing_wrong_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.finding_list.show([], is_final=True)
        await press(app, pilot, "4")
        assert "no findings" in screen(app)

    play("rollback.pcap", scene)
