from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.screen import ModalScreen
from textual.widgets import Input

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.connection_list import ConnectionList
from dcpinspect.tui.dialogs import ExportDialog, Help
from dcpinspect.tui.key_bindings import KEYS
from tests.tui.screens import Keys, lanes_of, play, press, screen

pytestmark = pytest.mark.slow


def test_escape_closes_what_is_open() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "m")
        for key in ("colon", "ctrl+f", "question_mark", "x", "C"):
            await press(app, pilot, key)
            assert isinstance(app.screen, ModalScreen), key
            await press(app, pilot, "escape")
            assert not isinstance(app.screen, ModalScreen), key

    play("rollback.pcap", scene)


def test_help_has_every_key_of_the_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "question_mark")
        shown = screen(app)
        assert all(key.text[:40] in shown for key in KEYS if "packets" in key.views)

    play("rollback.pcap", scene, (120, 90))


def test_a_file_that_export_cannot_go_to_is_said_where_it_is_typed(tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("mine", "utf-8")

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "x")
        for name, said in (
            (there, "already exists"),
            (tmp_path / "a.docx", "has no known ending"),
            ("", "has no known ending"),
        ):
            app.screen.query_one(Input).value = str(name)
            await press(app, pilot, "enter")
            assert said.split()[-1] in screen(app)
            assert isinstance(app.screen, ExportDialog)

    play("rollback.pcap", scene)


def test_help_has_the_keys_of_the_view_first() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3", "question_mark")
        seen = screen(app)
        places = [
            seen.index(text)
            for text in (
                "Keys of timeline",
                "zoom in",
                "Symbols",
                "Keys everywhere",
            )
        ]
        assert places == sorted(places)
        assert "Ctrl+P" in seen
        assert "follow the conversation" not in seen, "a key of another view"

    play("rollback.pcap", scene, (160, 110))


@pytest.mark.parametrize("view", ["0", "2", "3", "5"])
def test_help_tells_each_sign_once_without_counts(view: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, view, "question_mark")
        assert isinstance(app.screen, Help)
        about, glyphs = app.screen._legend, app.glyphs
        assert (about.count(f"{glyphs.error} "), about.count(f"{glyphs.warning} ")) == (1, 1)
        assert not re.search(r"[▓▒░■EROGZ] \d", about)
        assert "Keys of stats" not in screen(app)

    play("orphans.pcap", scene, (160, 110))


def test_one_connection_is_looked_at_alone_in_every_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        total = app.inspection.store.rows
        await press(app, pilot, "1", "C")
        assert "all connections" in screen(app)
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
        assert {track.connection for track in lanes_of(app).content.tracks} == {5}
        await press(app, pilot, "5")
        assert "messages of all connections" in screen(app)
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
        await press(app, pilot, "0", "tab", "tab", "enter")
        assert app.inspection.connection == 5
        assert "connections; Esc shows all" in screen(app)
        await press(app, pilot, "home", "enter")
        assert app.inspection.connection is None

    play("loop.pcap", scene)
