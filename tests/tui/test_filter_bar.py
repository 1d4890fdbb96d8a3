from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.filter_bar import condition_for_value, pointer_line
from dcpinspect.tui.history import History, Memory
from tests.tui.screens import NARROW, Keys, play, press, screen, settled


@pytest.mark.parametrize(
    ("name", "value", "condition"),
    [
        ("vbucket", 5, "vbucket = 5"),
        ("key", "it's", "key = 'it''s'"),
        ("key", b"\xff", None),
        ("key", "\x1b", None),
        ("magic word", 5, None),
        ("vbucket", None, None),
    ],
)
def test_a_field_makes_a_condition(name: str, value: object, condition: str | None) -> None:
    assert condition_for_value(name, value) == condition


def test_a_mistake_is_told_while_it_is_typed_and_not_taken() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash", *"vbuckt", "space", "equals_sign", "space", "7")
        assert "vbucket" in screen(app).splitlines()[2]
        assert "✖" in screen(app).splitlines()[1]
        await press(app, pilot, "enter")
        assert app.packets.filtering.text == ""
        assert len(app.packets.list.index) == 161

    play("rollback.pcap", scene)


def test_filters_that_were_used_come_back() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("vbucket = 7")
        app.packets.bar.apply("vbucket = 8")
        await press(app, pilot, "slash", "up", "up")
        assert app.packets.bar.input.value == "vbucket = 7"
        await press(app, pilot, "down", "down")
        assert app.packets.bar.input.value == ""

    play("rollback.pcap", scene)


async def type_(app: InspectApp, pilot: Keys, text: str) -> None:
    names = {
        " ": "space",
        "=": "equals_sign",
        "'": "apostrophe",
        "_": "underscore",
        "<": "less_than_sign",
        ">": "greater_than_sign",
    }
    for one in text:
        app.post_message(events.Key(names.get(one, one), one))
    await settled(app, pilot)


def test_completions_are_offered_and_taken_with_tab() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash")
        assert app.packets.bar.completions.is_open
        await type_(app, pilot, "vbu")
        assert "vbucket; of a response, its request's" in screen(app)
        await press(app, pilot, "tab")
        assert app.packets.bar.input.value == "vbucket "
        assert "is one of" in screen(app)
        await type_(app, pilot, "= ")
        assert "in this capture" in screen(app)
        await type_(app, pilot, "7")
        await press(app, pilot, "enter")
        assert app.packets.filtering.text == "vbucket = 7"
        assert not app.packets.bar.completions.display

    play("rollback.pcap", scene)


def test_the_last_completion_that_is_seen_says_how_many_are_below() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash")
        offered = app.packets.bar.completions
        hidden = offered.option_count - offered.size.height
        assert hidden > 0
        assert f" · {hidden} more below" in screen(app)
        await press(app, pilot, *["down"] * (offered.size.height + 1))
        assert f" · {hidden - 1} more below" in screen(app)
        await type_(app, pilot, "by_se")
        assert "more below" not in screen(app).split("──")[0]

    play("rollback.pcap", scene)


def test_completions_are_chosen_with_the_arrows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash")
        await type_(app, pilot, "name = 'dcp_s")
        await press(app, pilot, "down", "down")
        chosen = app.packets.bar.completions.chosen_completion
        assert chosen is not None
        await press(app, pilot, "up", "up")
        assert app.packets.bar.completions.chosen_completion is None
        await press(app, pilot, "down", "down", "enter")
        assert app.packets.bar.input.value == f"name = {chosen.text} "
        assert app.packets.filtering.text == "", "Enter took the completion, not the filter"
        await press(app, pilot, "enter")
        assert app.packets.filtering.text == f"name = {chosen.text}"

    play("rollback.pcap", scene)


def test_escape_closes_completions_then_leaves() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash", "v", "escape")
        assert app.packets.bar.is_typing
        assert not app.packets.bar.completions.is_open
        await press(app, pilot, "escape")
        assert not app.packets.bar.is_typing
        await press(app, pilot, "slash", "escape")
        assert not app.packets.bar.is_typing, "where nothing is typed, it leaves at once"
        assert not app.packets.bar.completions.is_open

    play("rollback.pcap", scene)


def test_a_mistake_is_pointed_at() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash")
        await type_(app, pilot, "vbuckt = 7")
        lines = screen(app).splitlines()
        assert lines[2].startswith("  ^ no column is called vbuckt; did you mean vbucket")
        await press(app, pilot, "ctrl+u")
        await type_(app, pilot, "zzqq = 7")
        assert (
            screen(app)
            .splitlines()[2]
            .startswith("  ^ no column is called zzqq; an empty filter offers them")
        ), "no command of a shell"

    play("rollback.pcap", scene, NARROW)


def test_a_filter_is_there_the_next_time(tmp_path: Path) -> None:
    async def first(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)

    async def second(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash", "up", "enter")
        assert app.packets.filtering.text == "vbucket = 7"

    for scene in (first, second):
        play("rollback.pcap", scene, memory=Memory(History(tmp_path / "filters")))


def test_a_mistake_covers_nothing() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash")
        await type_(app, pilot, "vbucket in (1, 2, 3, 4, 5, 6, 7, 8, 9) and vbucket = 99999")
        lines = screen(app).splitlines()
        assert "vbucket is from 0 to 65535 ^" in lines[2]
        assert lines[3].split()[:2] == ["Row", "Time"]
        assert all(len(line) <= 80 for line in lines)

    play("rollback.pcap", scene, NARROW)


@pytest.mark.parametrize("room", range(8))
def test_a_pointer_needs_no_room(room: int) -> None:
    assert len(pointer_line(5, "unknown column", room)) <= max(room, 2)
