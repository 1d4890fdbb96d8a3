from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from textual.widgets import Input

from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.export_choices import PACKETS, Choice, Tell, export, messages, report
from dcpinspect.tui.finding_list import FindingList
from dcpinspect.tui.inspection import Inspection
from tests.tui.screens import SAMPLES, Keys, play, press, screen, settled, show, until

CAPTURE = SAMPLES / "rollback.pcap"
ROWS = [3, 7, 99, 161]


@pytest.fixture(scope="module")
def inspection() -> Inspection:
    one = Inspection([str(CAPTURE)])
    one.load()
    return one


def arrow_rows(path: Path) -> list[int]:
    with pa.ipc.open_file(path) as file:
        return [int(row) for row in file.read_all()["row"].to_pylist()]


READERS: dict[str, Callable[[Path], list[int]]] = {
    "a.ndjson": lambda path: [
        json.loads(line)["row"] for line in path.read_text("utf-8").splitlines()
    ],
    "a.json": lambda path: [one["row"] for one in json.loads(path.read_bytes())],
    "a.csv": lambda path: [
        int(one["row"]) for one in csv.DictReader(path.read_text("utf-8").splitlines())
    ],
    "a.txt": lambda path: [
        int(line.split()[0]) for line in path.read_text("utf-8").splitlines()[1:]
    ],
    "a.parquet": lambda path: [int(row) for row in pq.read_table(path)["row"].to_pylist()],
    "a.ARROW": arrow_rows,
}


@pytest.mark.parametrize("name", READERS)
def test_each_format_has_the_rows(name: str, tmp_path: Path, inspection: Inspection) -> None:
    export(str(tmp_path / name), inspection, np.array(ROWS), lambda _: None)
    assert READERS[name](tmp_path / name) == ROWS
    assert len(list(tmp_path.iterdir())) == 1


def test_packets_are_those_of_the_messages(tmp_path: Path, inspection: Inspection) -> None:
    path = tmp_path / "some.pcapng"
    export(str(path), inspection, np.array(ROWS), lambda _: None)
    some = Inspection([str(path)])
    some.load()
    wanted = [inspection.store.messages([row]).bytes_of(0) for row in ROWS]
    found = [some.store.messages([row]).bytes_of(0) for row in range(1, some.store.rows + 1)]
    some.close()
    assert set(wanted) <= set(found)
    assert len(found) < 161


def test_what_is_stopped_or_refused_leaves_nothing(tmp_path: Path, inspection: Inspection) -> None:
    def stop(_: float) -> None:
        raise UsageError("stopped")

    there = tmp_path / "there.csv"
    there.write_text("mine", "utf-8")
    for name, tell, said in (
        ("a.ndjson", stop, "stopped"),
        ("a.pcapng", stop, "stopped"),
        ("a.docx", print, "use one of .pcapng"),
        ("there.csv", print, "already exists"),
        ("no/folder.csv", print, "cannot be written"),
    ):
        with pytest.raises(UsageError, match=said):
            export(str(tmp_path / name), inspection, np.array(ROWS), tell)
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]
    assert there.read_text("utf-8") == "mine"


def test_packets_that_came_through_a_pipe_are_not_promised(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, CAPTURE.read_bytes())
    os.close(write)
    piped = Inspection([f"/dev/fd/{read}"])
    piped.load()
    os.close(read)
    with pytest.raises(UsageError, match="export messages in another format"):
        export(str(tmp_path / "a.pcapng"), piped, np.array(ROWS), lambda _: None)
    assert PACKETS not in messages("", piped, lambda: np.array(ROWS)).names
    export(str(tmp_path / "a.ndjson"), piped, np.array(ROWS), lambda _: None)
    assert READERS["a.ndjson"](tmp_path / "a.ndjson") == ROWS
    piped.close()


@pytest.mark.parametrize(("name", "begins"), [("a.html", "<!DOCTYPE html>"), ("a.md", "# ")])
def test_a_report_is_that_of_the_command(
    name: str, begins: str, tmp_path: Path, inspection: Inspection
) -> None:
    choice = report(inspection)
    assert (
        choice.write(str(tmp_path / name), lambda _: None)
        == f"{len(inspection.results.findings):,} findings"
    )
    assert main(["report", *inspection.files, "-o", str(tmp_path / f"command-{name}")]) == 0
    assert (tmp_path / name).read_text().startswith(begins)
    assert (tmp_path / name).read_text() == (tmp_path / f"command-{name}").read_text()


async def saved(app: InspectApp, pilot: Keys, path: Path, *choose: str) -> str:
    await press(app, pilot, "x", *choose)
    app.screen.query_one(Input).value = str(path)
    await press(app, pilot, "enter")
    return path.read_text("utf-8")


@pytest.mark.slow
def test_leaving_says_what_is_in_no_file_and_how_to_save_it(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "q")
        assert "161 messages in no file" in screen(app)
        assert "select_bucket" in screen(app), "what it lies over is still seen"
        assert "Esc stays, and x exports them" in screen(app)
        await press(app, pilot, "escape")
        assert rows(await saved(app, pilot, tmp_path / "all.ndjson")) == list(range(1, 162))
        await pilot.press("q", "y")
        await until(pilot, lambda: app._exit)

    show(Inspection([str(SAMPLES / "rollback.pcap")], is_saved=False), scene)


def rows(text: str) -> list[int]:
    return [json.loads(line)["row"] for line in text.splitlines()]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "finding_list"),
    [
        (("4", "n"), lambda app: app.navigation.findings.list),
        (("0", "n"), lambda app: app.navigation.overview.findings),
    ],
    ids=["findings", "overview"],
)
def test_the_messages_that_show_a_finding_are_exported(
    keys: tuple[str, ...], finding_list: Callable[[InspectApp], FindingList], tmp_path: Path
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *keys)
        finding = finding_list(app).shown_finding
        assert finding is not None
        assert rows(await saved(app, pilot, tmp_path / "b.ndjson")) == sorted(
            {place.row for place in finding.places}
        )

    play("rollback.pcap", scene)


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [("2", "n"), ("2", "n", "enter"), ("0", "tab", "n")],
    ids=["vbuckets", "timeline", "overview"],
)
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


@pytest.mark.slow
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

        app.export("/nowhere/a.csv", Choice("", (".csv",), write))
        await settled(app, pilot)
        assert told == [True]
        assert "stopped: nothing was written" in screen(app)

    play("rollback.pcap", scene)


@pytest.mark.slow
def test_an_export_that_the_end_of_the_application_stops_is_kept_for_its_last_line() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        def write(_: str, tell: Tell) -> str:
            app.call_from_thread(app.exit)
            tell(0.5)
            return "all"

        assert app.cut_export == ""
        app.export("/nowhere/a.csv", Choice("", (".csv",), write))
        await settled(app, pilot)
        assert app.cut_export == "/nowhere/a.csv"

    play("rollback.pcap", scene)


@pytest.mark.slow
def test_an_export_that_was_complete_when_it_was_stopped_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"

    async def scene(app: InspectApp, pilot: Keys) -> None:
        def write(name: str, _: Tell) -> str:
            Path(name).touch()
            app.call_from_thread(app.action_leave)
            return "all"

        app.export(str(path), Choice("", (".csv",), write))
        await settled(app, pilot)
        assert "stopped: nothing was written" in screen(app)

    play("rollback.pcap", scene)
    assert not path.exists()
