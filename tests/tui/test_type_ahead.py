"""Keys that arrive together do what they do one by one."""

from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, burst, play, press, screen


@pytest.mark.parametrize(
    "keys",
    [
        ("colon", "5", "5", "enter"),
        ("slash", *"vbucket", "space", "equals_sign", "space", "7", "enter"),
        ("4", "n", "enter", "backspace", "j", "enter"),
        ("ctrl+f", *"rollback", "enter"),
        ("2", "n", "enter"),
        ("question_mark", "escape", "G", "m", "g", "M", "enter"),
        ("x", "escape", "5", "d", "1", "tab", "j", "c"),
    ],
)
def test_a_burst_of_keys_does_what_they_do_one_by_one(keys: tuple[str, ...]) -> None:
    shown: list[str] = []

    async def slowly(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *keys)
        shown.append(screen(app))

    async def at_once(app: InspectApp, pilot: Keys) -> None:
        await burst(app, pilot, *keys)
        shown.append(screen(app))

    play("rollback.pcap", slowly)
    play("rollback.pcap", at_once)
    assert shown[0] == shown[1]


def test_what_is_typed_behind_a_prompt_goes_into_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await burst(app, pilot, "colon", "5", "5", "enter")
        assert app.packets.list.row == 55
        await burst(app, pilot, "slash", *"vbucket", "space", "equals_sign", "space", "9", "enter")
        assert app.packets.filtering.text == "vbucket = 9"

    play("rollback.pcap", scene)
