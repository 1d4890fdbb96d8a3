from __future__ import annotations

from collections.abc import Callable

import pytest

from dcpinspect.tui.app import InspectApp
from tests.conftest import GOLDEN
from tests.tui.screens import NARROW, WIDE, Keys, play, press, screen, settled

Golden = Callable[[str, str], None]

VIEWS = {
    "packets": ("n",),
    "vbuckets": ("2", "n"),
    "timeline": ("2", "n", "enter", "right_square_bracket"),
    "findings": ("4", "n"),
    "stats": ("5",),
    "help": ("question_mark",),
    "go": ("colon",),
}


async def walk(app: InspectApp, pilot: Keys, look: Callable[[str], None]) -> None:
    for view, keys in VIEWS.items():
        await press(app, pilot, "1", "home", *keys)
        look(view)
        if view in ("help", "go"):
            await press(app, pilot, "escape")


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")
def test_views_look_like_this(size: tuple[int, int], golden: Golden) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await walk(app, pilot, lambda view: golden(f"tui/{view}-{size[0]}x{size[1]}.txt", screen(app)))

    play("rollback.pcap", scene, size)


@pytest.mark.parametrize("size", [(60, 15), (200, 50), (300, 80), (20, 5)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_views_are_drawn_at_any_size(size: tuple[int, int]) -> None:
    def look(view: str, app: InspectApp) -> None:
        lines = screen(app).splitlines()
        assert len(lines) == size[1], view
        assert all(len(line) <= size[0] for line in lines), view

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await walk(app, pilot, lambda view: look(view, app))

    play("rollback.pcap", scene, size)


def test_with_ascii_there_is_nothing_else(golden: Golden) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await walk(app, pilot, lambda view: golden(f"tui/ascii/{view}.txt", screen(app)))
        assert all(path.read_text("utf-8").isascii() for path in (GOLDEN / "tui" / "ascii").iterdir())

    play("rollback.pcap", scene, is_ascii=True)


def state(app: InspectApp) -> tuple[object, ...]:
    spot = app.spot()
    return spot.view, spot.row, spot.field, spot.filter, spot.vbucket, spot.seqno, spot.finding


JUMPS = {
    "from a finding to its message": (("4", "n"), ("enter",), "packets"),
    "from a message to its finding": (("n",), ("e",), "findings"),
    "to the next bad message": ((), ("n",), "packets"),
    "from a message to its timeline": (("n",), ("v",), "timeline"),
    "from a finding to its timeline": (("4", "n"), ("v",), "timeline"),
    "from a vbucket to its timeline": (("2", "n"), ("enter",), "timeline"),
    "from a timeline to a message": (("2", "n", "enter", "right_curly_bracket"), ("enter",), "packets"),
    "along a link": (("n", "enter", *["down"] * 7), ("enter",), "packets"),
    "to another view": (("n",), ("5",), "stats"),
}


@pytest.mark.parametrize("name", JUMPS)
def test_every_jump_returns(name: str) -> None:
    before, jump, view = JUMPS[name]

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *before)
        here = state(app)
        await press(app, pilot, *jump)
        there = state(app)
        assert there != here
        assert app.view == view
        await press(app, pilot, "backspace")
        assert state(app) == here
        await press(app, pilot, "alt+right")
        assert state(app) == there

    play("rollback.pcap", scene)


@pytest.mark.parametrize(
    ("typed", "row"),
    [("99", 99), ("f8", 3), ("0.004132s", 7), ("161", 161)],
)
def test_going_to_a_message(typed: str, row: int) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "colon", *typed.replace(".", "#").replace("#", "."), "enter")
        assert app.view == "packets"
        assert app.packets.list.row == row

    play("rollback.pcap", scene)


def test_going_to_a_vbucket_at_a_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app._go("vb7@42")
        await settled(app, pilot)
        assert (app.view, app.lanes.vbucket, app.lanes.seqno) == ("timeline", 7, 42)

    play("rollback.pcap", scene)


def test_going_to_a_rule() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app._go("rollback")
        await settled(app, pilot)
        assert app.view == "findings"
        assert app.finding_list.shown is not None
        assert app.finding_list.shown.rule == "rollback"

    play("rollback.pcap", scene)


@pytest.mark.parametrize(
    ("typed", "said"), [("9999", "there is no row 9,999"), ("bananas", "bananas: give a row"), ("f99999", "no message at or after")]
)
def test_what_is_not_there_is_said(typed: str, said: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app._go(typed)
        await settled(app, pilot)
        assert said in screen(app)

    play("rollback.pcap", scene)


def test_a_filter_shows_its_rows_and_escape_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash", *"vbucket", "space", "equals_sign", "space", "7", "enter")
        assert app.filter_text == "vbucket = 7"
        shown = app.packets.list.index
        assert 0 < len(shown) < 161
        assert f"{len(shown)} rows" in screen(app)
        await press(app, pilot, "escape")
        assert len(app.packets.list.index) == 161

    play("rollback.pcap", scene)


def test_a_row_that_the_filter_hides_is_shown_when_it_is_jumped_to() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.bar.apply("vbucket = 7 and name = 'dcp_mutation'")
        await settled(app, pilot)
        app.to_row(3)
        await settled(app, pilot)
        assert app.packets.list.row == 3
        assert "outside the filter" in screen(app)
        await press(app, pilot, "down")
        assert app.packets.list.guest == 0
        assert app.packets.list.index.has(app.packets.list.row)

    play("rollback.pcap", scene)


def test_filtering_by_the_field_under_the_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.to_row(100)
        await settled(app, pilot)
        app.packets.fields.select_named("opaque")
        await press(app, pilot, "equals_sign")
        assert app.filter_text == "opaque = 7"
        await press(app, pilot, "exclamation_mark")
        assert app.filter_text == "(opaque = 7) and not opaque = 7"
        assert len(app.packets.list.index) == 0

    play("rollback.pcap", scene)


@pytest.mark.parametrize(("typed", "row"), [("to 50", 100), ("/from (60|61)/", 99), ("x:80 50", 7)])
def test_finding_text_patterns_and_bytes(typed: str, row: int) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app._find(typed)
        await settled(app, pilot)
        assert app.packets.list.row == row

    play("rollback.pcap", scene)


def test_what_is_not_found_is_said() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app._find("no such thing")
        await settled(app, pilot)
        assert "no no such thing after row 1" in screen(app)

    play("rollback.pcap", scene)


def test_marks_are_walked_in_a_ring() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "m", "down", "down", "m", "down")
        await press(app, pilot, "apostrophe")
        assert app.packets.list.row == 1
        await press(app, pilot, "apostrophe")
        assert app.packets.list.row == 3

    play("rollback.pcap", scene)


def test_what_is_copied_goes_to_the_terminal() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.to_row(99)
        await settled(app, pilot)
        app.packets.fields.select_named("start_seqno")
        app.packets.fields.focus()
        await press(app, pilot, "y")
        assert app.clipboard == "60"

    play("rollback.pcap", scene)


def test_a_click_selects_and_a_second_one_opens() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await pilot.click("#packet-list", offset=(20, 4))
        await settled(app, pilot)
        assert app.packets.list.row == 5
        await pilot.click("#byte-pane", offset=(8, 1))
        await settled(app, pilot)
        assert app.packets.field is not None
        assert app.packets.field.offset == 4

    play("rollback.pcap", scene)


@pytest.mark.parametrize("capture", ["tour.pcapng", "upr.pcap", "lossy.pcap", "capture-loss.pcap", "midstream.pcap", "any.pcap"])
def test_every_sample_can_be_walked_through(capture: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "end", "v", "1", "home", "n", "e", "4", "end", "enter", "2", "n", "enter", "5", "end")

    play(capture, scene)
