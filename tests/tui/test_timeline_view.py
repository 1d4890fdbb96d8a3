from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, settled


def test_neighbours_are_those_that_have_streams() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "full_stop")
        assert app.lanes.vbucket == 8
        await press(app, pilot, "comma", "comma")
        assert app.lanes.vbucket == 7

    play("rollback.pcap", scene)


def test_enter_goes_to_the_message_with_the_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(12, 21)
        await settled(app, pilot)
        await press(app, pilot, "enter")
        batch = app.inspection.store.messages([app.packets.list.row])
        assert batch.vbucket.at(0) == 12
        assert (batch.number("by_seqno", 0) or 0) >= 21

    play("snapshots.pcap", scene)
