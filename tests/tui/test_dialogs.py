from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.dialogs import Help, Prompt
from dcpinspect.tui.keys import KEYS
from tests.tui.screens import Keys, play, press, screen


@pytest.mark.parametrize("key", ["colon", "ctrl+f", "question_mark"])
def test_escape_closes_what_is_open(key: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, key)
        assert isinstance(app.screen, Help | Prompt)
        await press(app, pilot, "escape")
        assert not isinstance(app.screen, Help | Prompt)

    play("rollback.pcap", scene)


def test_help_has_every_key_of_the_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "question_mark")
        shown = screen(app)
        assert all(key.text[:40] in shown for key in KEYS if "packets" in key.views)

    play("rollback.pcap", scene, (120, 80))
