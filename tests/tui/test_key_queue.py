"""Keys that arrive together do what they do one by one."""

from __future__ import annotations

from functools import partial

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, burst, play, press, screen

pytestmark = pytest.mark.slow

TYPED = (
    ("colon", "5", "5", "enter"),
    ("slash", *"vbucket", "space", "equals_sign", "space", "7", "enter"),
    ("4", "n", "enter", "backspace", "j", "enter"),
    ("ctrl+f", *"rollback", "enter"),
    ("2", "n", "enter"),
    ("question_mark", "escape", "G", "m", "g", "apostrophe", "enter"),
    ("x", "escape", "5", "d", "1", "tab", "j", "c"),
)


def test_a_burst_of_keys_does_what_they_do_one_by_one() -> None:
    shown: dict[bool, list[str]] = {True: [], False: []}

    async def scene(app: InspectApp, pilot: Keys, *, at_once: bool) -> None:
        for keys in TYPED:
            await press(app, pilot, "escape", "escape", "1", "home")
            if at_once:
                await burst(app, pilot, *keys)
            else:
                for key in keys:
                    await press(app, pilot, key)
            shown[at_once].append(screen(app))

    for at_once in shown:
        play("rollback.pcap", partial(scene, at_once=at_once))
    assert len(set(shown[False])) == len(TYPED)
    assert shown[True] == shown[False]


def test_what_is_typed_behind_a_prompt_goes_into_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await burst(app, pilot, "colon", "5", "5", "enter")
        assert app.packets.list.row == 55
        await burst(app, pilot, "slash", *"vbucket", "space", "equals_sign", "space", "9", "enter")
        assert app.packets.filtering.text == "vbucket = 9"

    play("rollback.pcap", scene)
