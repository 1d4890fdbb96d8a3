from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.widgets import Input

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.export_choices import Choice, Tell
from dcpinspect.tui.inspection import Inspection
from tests.tui.screens import SAMPLES, Keys, play, press, screen, settled, show, until

pytestmark = pytest.mark.slow


async def saved(app: InspectApp, pilot: Keys, path: Path, *choose: str) -> str:
    await press(app, pilot, "x", *choose)
    app.screen.query_one(Input).value = str(path)
    await press(app, pilot, "enter")
    return path.read_text("utf-8")


def test_what_is_in_no_file_is_saved_before_leaving(tmp_path: Path) -> None:
    path = tmp_path / "all.ndjson"

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "q")
        assert "161 messages are in no file" in screen(app)
        assert "select_bucket" in screen(app), "what it lies over is still seen"
        await press(app, pilot, "s", "escape", "q", "s")
        app.screen.query_one(Input).value = str(path)
        await pilot.press("enter")
        await until(pilot, lambda: app._exit)

    show(Inspection([str(SAMPLES / "rollback.pcap")], is_saved=False), scene)
    assert rows(path.read_text("utf-8")) == list(range(1, 162))


def rows(text: str) -> list[int]:
    return [json.loads(line)["row"] for line in text.splitlines()]


def test_marked_shown_or_all_messages_go_to_the_file_that_is_named(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)
        shown = app.packets.list.index.rows(0, 999).tolist()
        assert rows(await saved(app, pilot, tmp_path / "shown.ndjson")) == shown
        assert f"{len(shown)} messages are in {tmp_path}"[:60] in screen(app)
        await press(app, pilot, "home", "m")
        assert rows(await saved(app, pilot, tmp_path / "marked.ndjson")) == [app.packets.list.row]
        assert rows(await saved(app, pilot, tmp_path / "all.ndjson", "down", "down")) == list(
            range(1, 162)
        )
        assert (
            rows(await saved(app, pilot, tmp_path / "again.ndjson", "down", "down", "up")) == shown
        )

    play("rollback.pcap", scene)


def test_the_messages_that_show_a_finding_are_exported(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "4", "n")
        finding = app.navigation.findings.list.shown_finding
        assert finding is not None
        assert rows(await saved(app, pilot, tmp_path / "b.ndjson")) == sorted(
            {place.row for place in finding.places}
        )

    play("rollback.pcap", scene)


@pytest.mark.parametrize("keys", [("2", "n"), ("2", "n", "enter")], ids=["vbuckets", "timeline"])
def test_the_messages_of_the_vbucket_under_the_cursor_are_exported(
    keys: tuple[str, ...], tmp_path: Path
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *keys)
        text = await saved(app, pilot, tmp_path / "a.ndjson")
        assert {json.loads(line)["vbucket"] for line in text.splitlines()} == {
            app.navigation.view.vbucket_here
        }

    play("rollback.pcap", scene)


def test_escape_stops_an_export() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        told: list[bool] = []

        def write(_: str, tell: Tell) -> str:
            app.call_from_thread(app.action_leave)
            try:
                tell(0.5)
            except InterruptedError:
                told.append(True)
                raise
            return "all"

        app._exporting.begin("/nowhere/a.csv", Choice("", (".csv",), write))
        await settled(app, pilot)
        assert told == [True]
        assert "stopped: nothing was written" in screen(app)

    play("rollback.pcap", scene)


def test_an_export_that_was_complete_when_it_was_stopped_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"

    async def scene(app: InspectApp, pilot: Keys) -> None:
        def write(name: str, _: Tell) -> str:
            Path(name).touch()
            app.call_from_thread(app.action_leave)
            return "all"

        app._exporting.begin(str(path), Choice("", (".csv",), write))
        await settled(app, pilot)
        assert "stopped: nothing was written" in screen(app)

    play("rollback.pcap", scene)
    assert not path.exists()
