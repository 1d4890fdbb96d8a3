from __future__ import annotations

import asyncio

import pytest
from textual import events

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.key_bindings import VIEWS
from dcpinspect.tui.navigation import MOST_JUMPS
from tests.tui.screens import (
    SAMPLES,
    WIDE,
    Keys,
    Scene,
    lanes_of,
    play,
    press,
    screen,
    settled,
    until,
)

pytestmark = pytest.mark.slow


def state(app: InspectApp) -> tuple[object, ...]:
    spot = app.navigation.view.spot()
    return spot.view, spot.row, spot.field, spot.filter, spot.vbucket, spot.seqno, spot.finding


JUMPS = {
    "from a finding to its message": (("4", "n"), ("enter",), "packets"),
    "from a message to its finding": (("1", "n"), ("e",), "findings"),
    "to the next bad message": (("1",), ("n",), "packets"),
    "from a message to its timeline": (("1", "n"), ("v",), "timeline"),
    "from a finding to its timeline": (("4", "n"), ("v",), "timeline"),
    "from a vbucket to its timeline": (("2", "n"), ("enter",), "timeline"),
    "from a timeline to a message": (
        ("2", "n", "enter", "right_square_bracket"),
        ("enter",),
        "packets",
    ),
    "along a link": (("1", "n", "enter", *["down"] * 7), ("enter",), "packets"),
    "from the overview to a finding": (("0",), ("enter",), "findings"),
    "from the overview to the map": (("0", "tab"), ("enter",), "vbuckets"),
    "to another view": (("1", "n"), ("5",), "stats"),
}


FROM_OVERVIEW = [name for name in JUMPS if "from the overview" in name]
"""Which remembers the part that was chosen last."""


@pytest.mark.parametrize(
    "names",
    [[name for name in JUMPS if name not in FROM_OVERVIEW], *([name] for name in FROM_OVERVIEW)],
)
def test_every_jump_returns(names: list[str]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for name in names:
            before, jump, view = JUMPS[name]
            if name != names[0]:
                await press(app, pilot, "escape", "1", "home")
            await press(app, pilot, *before)
            here = state(app)
            await press(app, pilot, *jump)
            there = state(app)
            assert there != here, name
            assert app.view == view, name
            await press(app, pilot, "backspace")
            assert state(app) == here, name

    play("loop.pcap", scene)


def test_going_to_a_message() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for typed, row in (("99", 99), ("f8", 3), ("0.004132s", 7), ("161", 161)):
            await press(app, pilot, "2", "colon", *typed, "enter")
            assert app.view == "packets", typed
            assert app.packets.list.row == row, typed

    play("rollback.pcap", scene)


def test_going_to_a_vbucket_at_a_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.go_to("vb7@42")
        await settled(app, pilot)
        assert (
            app.view,
            lanes_of(app).content.vbucket,
            lanes_of(app).seqno,
        ) == ("timeline", 7, 42)

    play("rollback.pcap", scene)


def test_a_seqno_that_a_vbucket_does_not_have_leads_nowhere() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "down")
        row = app.navigation.view.spot()
        for typed, said in (("vb417@842", "842; it has 0–30"), ("vb421@15", "15; it has 20")):
            for key in ("4", "3"):
                await press(app, pilot, key)
                before = app.view, lanes_of(app).content.vbucket, lanes_of(app).at
                await press(app, pilot, "colon", *typed, "enter")
                assert f"has no seqno {said}" in screen(app)
                assert key == "4" or (lanes_of(app).content.vbucket, lanes_of(app).at) == before[1:]
                assert app.view == before[0]
        await press(app, pilot, "4")
        assert app.navigation.view.spot() == row
        await press(app, pilot, "colon", *"vb417@30", "enter")
        assert (app.view, lanes_of(app).content.vbucket, lanes_of(app).seqno) == (
            "timeline",
            417,
            30,
        )

    play("tour.pcapng", scene)


def test_the_timeline_is_of_the_vbucket_that_was_chosen_last() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        async def timeline_from(*keys: str) -> int | None:
            await press(app, pilot, *keys, "3")
            return lanes_of(app).content.vbucket

        assert await timeline_from() == 421
        assert await timeline_from("2", "home") == 5
        here = lanes_of(app).seqno
        await press(app, pilot, "home" if here else "end")
        moved = lanes_of(app).seqno
        assert await timeline_from("2", "right", "left") == 5
        assert lanes_of(app).seqno == moved, "the vbucket is the same, so the cursor stays"
        assert await timeline_from("0") == 5
        assert await timeline_from("1", "end") == 5
        assert await timeline_from("2", "down") == app.navigation.vbuckets.vbucket_here
        await press(app, pilot, "4", "home", "v")
        followed = lanes_of(app).content.vbucket
        assert await timeline_from("2", "home") == 5
        assert await timeline_from("4") == followed != 5
        about_no_vbucket = next(
            number
            for number, finding in enumerate(app.inspection.results.findings)
            if not finding.vbuckets
        )
        app.navigation.to_finding(about_no_vbucket)
        assert await timeline_from() == followed

    play("tour.pcapng", scene)


def test_going_to_a_rule() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.go_to("rollback")
        await settled(app, pilot)
        assert app.view == "findings"
        assert app.navigation.findings.list.shown_finding is not None
        assert app.navigation.findings.list.shown_finding.rule == "rollback"

    play("rollback.pcap", scene)


def test_what_is_not_there_is_said() -> None:
    nowhere = {
        "9999": "there is no row 9999",
        "bananas": "no place bananas; give 1047, f988",
        "f99999": "no message at or after",
    }

    async def scene(app: InspectApp, pilot: Keys) -> None:
        for typed, said in nowhere.items():
            app.navigation.go_to(typed)
            await settled(app, pilot)
            assert said in screen(app)

    play("rollback.pcap", scene)


def test_marks_are_walked_in_a_ring_from_any_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "apostrophe")
        assert "no row is marked" in screen(app)
        await press(app, pilot, "m", "down", "down", "m", "5", "apostrophe")
        assert (app.view, app.packets.list.row) == ("packets", 1)
        await press(app, pilot, "apostrophe")
        assert app.packets.list.row == 3
        await press(app, pilot, "apostrophe")
        assert app.packets.list.row == 1
        await press(app, pilot, "m")
        assert app.inspection.notes.rows == [3]

    play("rollback.pcap", scene)


def test_marks_survive_a_filter_that_hides_them() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(3)
        await press(app, pilot, "m")
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)
        await press(app, pilot, "apostrophe")
        assert app.packets.list.row == 3
        assert "row 3 was hidden: all rows are shown" in screen(app)
        await press(app, pilot, "backspace")
        assert app.packets.filtering.text == "vbucket = 7"

    play("rollback.pcap", scene)


def test_a_view_is_made_when_it_is_first_shown() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        def made() -> list[str]:
            return [view for view in VIEWS if app.navigation.has(view)]

        assert [view.id for view in app.navigation.children] == ["overview"] == made()
        await press(app, pilot, "5")
        assert (made(), app.view) == (["overview", "stats"], "stats")
        assert "messages in 1" in screen(app)

    play("orphans.pcap", scene)


def test_keys_that_come_before_the_first_view_are_not_lost() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "end")
        assert app.packets.list.row == app.inspection.store.rows

    asyncio.run(_typed_at_once(scene))


async def _typed_at_once(scene: Scene) -> None:
    app = InspectApp(Inspection([str(SAMPLES / "orphans.pcap")]))
    try:
        async with app.run_test(size=WIDE) as pilot:
            app.post_message(events.Key("1", "1"))
            app.post_message(events.Key("down", None))
            # the keys may still be on their way when nothing is left to read
            await until(pilot, lambda: (app.view, app.packets.list.row) == ("packets", 2))
            await until(pilot, lambda: app.is_at_rest and app.inspection.state != "reading")
            await scene(app, pilot)
    finally:
        app.close()


def test_the_view_that_was_asked_for_last_is_shown() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.action_view("stats")  # which has no parts yet
        app.navigation.action_view("packets")
        await settled(app, pilot)
        assert app.view == "packets"

    play("rollback.pcap", scene)


def test_only_so_many_are_remembered() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        for row in range(1, 162):
            app.navigation.to_row(row)
            app.navigation.to_row(162 - row)
        assert len(app.navigation._behind) == MOST_JUMPS

    play("rollback.pcap", scene)
