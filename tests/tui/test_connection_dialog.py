from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.connection_list import ConnectionList
from tests.tui.screens import Keys, lanes_of, play, press, screen

pytestmark = pytest.mark.slow


def test_one_connection_is_looked_at_alone_in_every_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        total = app.inspection.store.rows
        await press(app, pilot, "1", "C")
        assert "all 5 connections" in screen(app)
        assert "✖ 1" in screen(app)
        await press(app, pilot, "down", "enter")
        assert app.inspection.connection == 5
        assert "con 5 alone" in screen(app)
        own = app.packets.list.index
        assert 0 < len(own) < total
        assert set(app.inspection.store.messages(own.rows(0, len(own))).connection.tolist()) == {5}
        await press(app, pilot, "slash", *"name = 'dcp_stream_req'", "enter")
        assert 0 < len(app.packets.list.index) < len(own)
        await press(app, pilot, "4")
        assert [one.rule for one in app.navigation.findings.list.findings] == [
            "rollback-loop",
            "rollback",
            "credentials-in-clear",
            "connection-closed",
        ]
        await press(app, pilot, "2", "enter")
        assert {track.connection for track in lanes_of(app).tracks} == {5}
        await press(app, pilot, "5")
        assert "messages over time, at most 55 in" in screen(app)
        commands = {
            row["name"]: row["count"]
            for row in app.inspection.results.statistics
            if row["section"] == "commands"
        }
        assert commands["hello"] == 1
        await press(app, pilot, "escape")
        assert app.inspection.connection is None
        assert "alone" not in screen(app)
        assert len(app.packets.list.index) < total, "the filter stays"
        await press(app, pilot, "1", "escape", "escape")
        assert len(app.packets.list.index) == total

    play("loop.pcap", scene)


def test_the_way_back_leads_to_all_connections() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n")
        before = app.navigation.findings.list.finding
        await press(app, pilot, "C", "end", "enter")
        assert app.inspection.connection == 1
        await press(app, pilot, "backspace")
        assert app.inspection.connection is None
        assert app.navigation.findings.list.finding == before
        await press(app, pilot, "alt+right")
        assert app.inspection.connection == 1

    play("loop.pcap", scene)


def test_the_dialog_closes_without_a_choice_and_can_choose_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "C", "down", "down", "escape")
        assert app.inspection.connection is None
        await press(app, pilot, "C", "j", "j", "enter", "C")
        shown = app.screen.query_one(ConnectionList)
        assert shown.connection == app.inspection.connection == 4
        await press(app, pilot, "home", "enter")
        assert app.inspection.connection is None

    play("loop.pcap", scene)


def test_the_overview_chooses_a_connection() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0", "tab", "tab", "tab", "enter")
        assert app.inspection.connection == 5
        assert "connection 5 is shown alone, Esc shows all" in screen(app)
        await press(app, pilot, "home", "enter")
        assert app.inspection.connection is None

    play("loop.pcap", scene)
