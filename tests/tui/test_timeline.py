from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, settled


def test_zoom_keeps_the_cursor_and_fit_shows_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.to_vbucket(7, 42)
        await settled(app, pilot)
        whole = app.lanes.scale
        await press(app, pilot, "minus", "minus")
        assert app.lanes.scale.step == 5 * whole.step
        assert app.lanes.seqno == 42
        await press(app, pilot, "plus", "plus", "0")
        assert app.lanes.scale == whole

    play("rollback.pcap", scene)


def test_what_is_at_the_cursor_is_spelt_out() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.to_vbucket(12)
        await settled(app, pilot)
        await press(app, pilot, "right_curly_bracket")
        story = app.lanes.story
        assert story is not None
        assert app.lanes.seqno == int(story.after[0]) + 1
        assert "deduplicated: " in app.lanes.spoken()
        assert "snapshot 0–20 memory" in app.lanes.spoken()

    play("snapshots.pcap", scene)


def test_neighbours_are_those_that_have_streams() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "full_stop")
        assert app.lanes.vbucket == 8
        await press(app, pilot, "comma", "comma")
        assert app.lanes.vbucket == 7

    play("rollback.pcap", scene)


def test_enter_goes_to_the_message_with_the_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.to_vbucket(12, 21)
        await settled(app, pilot)
        await press(app, pilot, "enter")
        batch = app.inspection.store.messages([app.packets.list.row])
        assert batch.vbucket.at(0) == 12
        assert (batch.number("by_seqno", 0) or 0) >= 21

    play("snapshots.pcap", scene)
