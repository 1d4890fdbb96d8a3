from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.divider import Divider
from tests.tui.screens import Keys, play, settled


def test_a_divider_moves_only_while_its_button_is_down() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        before = app.packets.list.region
        await pilot.hover("#message-title")
        await pilot.hover("#packet-list", offset=(20, 5))
        await settled(app, pilot)
        assert app.packets.list.region == before
        await pilot.mouse_down("#message-title")
        await pilot.mouse_up("#message-title")
        assert not isinstance(app.mouse_captured, Divider)

    play("rollback.pcap", scene)
