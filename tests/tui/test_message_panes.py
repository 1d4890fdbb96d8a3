from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, settled


def test_fields_and_bytes_show_the_same_place() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(109)
        await settled(app, pilot)
        panes = app.packets.panes
        panes.fields.select_named("by_seqno")
        await settled(app, pilot)
        lit = [segment.text for segment in panes.bytes.render_line(3) if segment.style and segment.style.bold]
        assert "".join(lit).split()[0] == "00"
        panes.bytes.focus()
        await press(app, pilot, "home")
        assert panes.fields.path == "magic"

    play("rollback.pcap", scene)


def test_bytes_and_fields_stand_where_both_have_room() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        panes = app.packets.panes
        assert panes.bytes.region.y == panes.fields.region.y
        await press(app, pilot, "vertical_line")
        assert panes.bytes.region.y > panes.fields.region.y
        assert app.packets.list.size.width >= 60

    play("rollback.pcap", scene)
