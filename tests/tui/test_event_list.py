from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, settled


def test_a_few_events_are_all_whole() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "home", "down", "down")
        shown = app.navigation.timeline.events
        assert shown.event is not None
        text = " ".join(shown.render_line(line).text for line in range(shown.size.height))
        assert "…" not in text
        assert shown.event.event.text in " ".join(text.replace("▌", " ").split())
        assert (
            sum(shown.lines_of(place)[1] for place in range(shown.count))
            == shown.virtual_size.height - shown.HEAD
        )

    play("rollback.pcap", scene, (80, 30))
