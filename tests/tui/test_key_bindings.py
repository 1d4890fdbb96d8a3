from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import Input, OptionList

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.findings_view import FindingsView
from dcpinspect.tui.history import History, Memory
from dcpinspect.tui.key_bindings import KEYS, PALETTE, VIEWS, Key, commands, footer
from dcpinspect.tui.navigation import Navigation
from dcpinspect.tui.overview_view import OverviewView
from dcpinspect.tui.packets_view import PacketsView
from dcpinspect.tui.stats_view import StatsView
from dcpinspect.tui.timeline_view import TimelineView
from dcpinspect.tui.vbuckets_view import VbucketsView
from tests.catalogue import each
from tests.tui.screens import Keys, play, press, settled, until

PAGE = Path(__file__).parents[2] / "docs" / "tui.md"


def test_a_key_means_one_thing() -> None:
    names = Counter(name for key in KEYS for name in key.keys.split(","))
    assert {name for name, count in names.items() if count > 1} == set()


def test_terminals_and_multiplexers_keep_theirs() -> None:
    taken = {"ctrl+b", "ctrl+a", "ctrl+s", "ctrl+i", "ctrl+m", "ctrl+h", "shift+enter"}
    assert not taken & {name for key in KEYS for name in key.keys.split(",")}


def test_alt_and_function_keys_are_never_the_only_way() -> None:
    only = [
        key.action
        for key in KEYS
        if all(re.match(r"alt\+|(shift\+)?f\d", name) for name in key.keys.split(","))
    ]
    assert only == ["find_next", "find_next(True)"], "all are in the palette, too"


OF_VIEWS = {
    "overview": OverviewView,
    "packets": PacketsView,
    "vbuckets": VbucketsView,
    "timeline": TimelineView,
    "findings": FindingsView,
    "stats": StatsView,
}


@each("key", KEYS)
def test_every_action_is_there_in_the_views_that_the_key_is_named_for(key: Key) -> None:
    action = f"action_{key.action.partition('(')[0].removeprefix('app.')}"
    assert [
        view
        for view in key.views
        if not any(hasattr(kind, action) for kind in (OF_VIEWS[view], Navigation, InspectApp))
    ] == []


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_says_how_to_get_help(view: str) -> None:
    assert ("question_mark", "?", "Help") in footer(view)


def test_the_page_has_the_table_of_keys(request: pytest.FixtureRequest) -> None:
    lines = ["| key | does | where |", "|---|---|---|"]
    for key in (*KEYS, PALETTE):
        where = "everywhere" if tuple(key.views) == VIEWS else ", ".join(key.views)
        lines.append(f"| {_cell(key.shown)} | {_cell(key.text)} | {where} |")
    text, mark = PAGE.read_text("utf-8"), "## Keys\n\n"
    wanted = text.partition(mark)[0] + mark + "\n".join(lines) + "\n"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(wanted, "utf-8")
    assert PAGE.read_text("utf-8") == wanted


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_its_picture_on_the_page(view: str) -> None:
    picture = (PAGE.parent / "pictures" / f"tui-{view}.svg").read_text("utf-8")
    assert "url(" not in picture.replace("url(#", ""), "nothing is loaded from elsewhere"
    texts = html.unescape(re.sub("<[^>]*>", "", picture)).replace("\xa0", " ")
    assert f"](pictures/tui-{view}.svg)" in PAGE.read_text("utf-8")
    assert "rollback.pcap" in texts


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_action_of_another_view_goes_there() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await choose(app, pilot, "Timeline of the next vbucket")
        assert app.view == "timeline"

    play("rollback.pcap", scene)


@pytest.mark.slow
def test_a_theme_is_remembered(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await choose(app, pilot, "Theme: nord")
        assert app.theme == "nord"

    async def again(app: InspectApp, pilot: Keys) -> None:
        del pilot
        assert app.theme == "nord"

    play("rollback.pcap", scene, memory=Memory(themes=History(tmp_path / "theme", 1)))
    play("rollback.pcap", again, memory=Memory(themes=History(tmp_path / "theme", 1)))
