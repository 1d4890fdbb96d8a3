from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, settled


def test_zoom_keeps_the_cursor_and_fit_shows_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
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
        app.navigation.to_vbucket(12)
        await settled(app, pilot)
        await press(app, pilot, "right_curly_bracket")
        story = app.lanes.story
        assert story is not None
        assert app.lanes.seqno == int(story.after[0]) + 1
        assert "deduplicated: " in app.lanes.spoken()
        assert "snapshot 0–20 memory" in app.lanes.spoken()

    play("snapshots.pcap", scene)
