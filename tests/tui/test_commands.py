from __future__ import annotations

from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import Input, OptionList

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.commands import commands
from dcpinspect.tui.history import History, Memory
from dcpinspect.tui.key_bindings import KEYS
from tests.tui.screens import Keys, play, press, settled, until

pytestmark = pytest.mark.slow


def test_every_action_with_a_key_is_there_once() -> None:
    actions: list[str] = []
    entries = list(commands(lambda action, _: actions.append(action)))
    for one in entries:
        one.callback()
    assert len(actions) == len(set(actions))
    assert {key.action for key in KEYS if not key.action.startswith(("app.", "pane"))} <= set(
        actions
    )
    assert entries[actions.index("zoom(1)")].help == "+"


async def choose(app: InspectApp, pilot: Keys, title: str) -> None:
    await press(app, pilot, "ctrl+p")
    await until(pilot, lambda: isinstance(app.screen, CommandPalette))
    app.screen.query_one(Input).value = title
    found = app.screen.query_one(OptionList)
    await until(
        pilot, lambda: found.option_count > 0 and title in str(found.get_option_at_index(0).prompt)
    )
    await pilot.press("enter")
    await until(pilot, lambda: not isinstance(app.screen, CommandPalette))
    await settled(app, pilot)


def test_an_action_of_another_view_goes_there() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await choose(app, pilot, "Timeline of the next vbucket")
        assert app.view == "timeline"

    play("rollback.pcap", scene)


def test_a_theme_is_remembered(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await choose(app, pilot, "Theme: nord")
        assert app.theme == "nord"

    async def again(app: InspectApp, pilot: Keys) -> None:
        del pilot
        assert app.theme == "nord"

    play("rollback.pcap", scene, memory=Memory(themes=History(tmp_path / "theme", 1)))
    play("rollback.pcap", again, memory=Memory(themes=History(tmp_path / "theme", 1)))
