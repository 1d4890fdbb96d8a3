from __future__ import annotations

from pathlib import Path

import pytest
from textual.screen import ModalScreen
from textual.widgets import Input

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.dialogs import ExportDialog, MarksDialog
from dcpinspect.tui.key_bindings import KEYS
from tests.tui.screens import Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_escape_closes_what_is_open() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "m")
        for key in ("colon", "ctrl+f", "question_mark", "x", "M"):
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


def test_the_list_of_marks_goes_there_takes_away_and_exports() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "M")
        assert "no row is marked" in screen(app)
        await press(app, pilot, "m", "down", "down", "m", "end", "m", "5", "M")
        assert isinstance(app.screen, MarksDialog)
        await press(app, pilot, "down", "enter")
        assert (app.view, app.packets.list.row) == ("packets", 3)
        await press(app, pilot, "M", "j", "k", "d")
        assert app.navigation.marks == [3, 161]
        await press(app, pilot, "x")
        assert isinstance(app.screen, ExportDialog)
        assert "the 2 marked messages" in screen(app)
        await press(app, pilot, "escape", "M", "delete", "delete")
        assert app.navigation.marks == []
        assert not isinstance(app.screen, MarksDialog), "an empty list closes"

    play("rollback.pcap", scene)


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


def test_help_has_the_keys_of_the_view_first_and_all_of_them() -> None:
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
                "Keys of other views",
            )
        ]
        assert places == sorted(places)
        assert all(text in seen for text in ("Ctrl+P", "(packets, findings)"))

    play("rollback.pcap", scene, (160, 110))
