from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng import comments_of
from dcpinspect.output.export.table_schema import message_schema
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.export_choices import export
from dcpinspect.tui.history import Memory
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.notes import SUFFIX, Notes
from tests.tui.screens import SAMPLES, Keys, play, press, screen

pytestmark = pytest.mark.slow


def capture_in(folder: Path) -> Path:
    path = folder / "a.pcap"
    shutil.copyfile(SAMPLES / "rollback.pcap", path)
    return path


def test_marks_and_notes_come_back_and_are_shown(tmp_path: Path) -> None:
    capture, memory = capture_in(tmp_path), Memory(notes=tmp_path / "state")

    async def first(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "m", "down", "semicolon", *"why", "space", *"here", "enter")
        assert "✎ why here" in screen(app)
        await press(app, pilot, "m")
        assert "has a note" in screen(app)

    async def second(app: InspectApp, pilot: Keys) -> None:
        assert app.inspection.notes.rows == [1, 2]
        await press(app, pilot, "down")
        assert screen(app).count("✎ why here") == 2
        await press(app, pilot, "semicolon", "ctrl+u", "enter")
        assert "why here" not in screen(app)
        await press(app, pilot, "m", "up", "m")
        assert app.inspection.notes.rows == []

    play(capture, first, memory=memory)
    kept = json.loads((tmp_path / f"a.pcap{SUFFIX}").read_text())
    assert [(one["row"], one.get("note")) for one in kept["messages"]] == [
        (1, None),
        (2, "why here"),
    ]
    play(capture, second, memory=memory)
    assert not (tmp_path / f"a.pcap{SUFFIX}").exists()


def test_notes_become_comments_of_packets(tmp_path: Path) -> None:
    inspection = Inspection([str(capture_in(tmp_path))])
    inspection.load()
    inspection.notes.write(2, 0, "clé \\ \x1b[31m")
    export(str(tmp_path / "out.pcapng"), inspection, np.arange(1, 5), lambda _: None)
    inspection.close()
    with open_capture(str(tmp_path / "out.pcapng")) as reading:
        said = [
            comment
            for batch in reading
            for index in range(len(batch))
            for comment in comments_of(batch, index)
        ]
    assert said == ["clé \\ \\x1b[31m".encode()]


@pytest.mark.parametrize("ending", [".ndjson", ".json"])
def test_notes_are_keys_of_exported_messages(tmp_path: Path, ending: str) -> None:
    inspection = Inspection([str(capture_in(tmp_path))])
    inspection.load()
    inspection.notes.mark(1, 0)
    for row, text in ((2, "clé \\"), (4, "d"), (7, "e")):
        inspection.notes.write(row, 0, text)
    target = tmp_path / f"out{ending}"
    export(str(target), inspection, np.arange(1, 8), lambda _: None)
    inspection.close()
    text = target.read_text()
    messages = json.loads(text) if ending == ".json" else [*map(json.loads, text.splitlines())]
    assert [message["row"] for message in messages] == [*range(1, 8)]
    assert [message.get("note") for message in messages] == [
        *(None, "clé \\", None, "d", None, None, "e")
    ]
    check = jsonschema.Draft202012Validator(message_schema())
    assert not [error for message in messages for error in check.iter_errors(message)]


def test_where_nothing_can_be_written_beside_the_capture_the_user_s_folder_keeps_them(
    tmp_path: Path,
) -> None:
    capture = capture_in(tmp_path)
    (tmp_path / f"a.pcap{SUFFIX}").mkdir()
    notes = Notes.beside([str(capture)], tmp_path / "state")
    notes.write(7, 70, "kept")
    assert notes.why == ""
    again = Notes.beside([str(capture)], tmp_path / "state")
    assert again.meet(10, lambda rows: [70 for _ in rows]) == 1
    assert again.text(7) == "kept"


def test_nobody_else_s_file_is_shown_or_written(tmp_path: Path) -> None:
    capture, beside = capture_in(tmp_path), tmp_path / f"a.pcap{SUFFIX}"
    for content in (
        "{}",
        "no JSON",
        "[" * 100_000,
        json.dumps({"schema": "dcpinspect.notes/1", "capture": "another", "messages": []}),
    ):
        beside.write_text(content)
        notes = Notes.beside([str(capture)], tmp_path / "state")
        notes.mark(1, 5)
        assert beside.read_text() == content
        notes.mark(1, 5)


def test_a_note_on_a_message_that_has_another_row_now_is_kept_and_not_shown(tmp_path: Path) -> None:
    capture = capture_in(tmp_path)
    Notes.beside([str(capture)], tmp_path).write(7, 70, "seven")
    notes = Notes.beside([str(capture)], tmp_path)
    assert notes.meet(5, lambda _: []) == 0
    assert notes.meet(10, lambda _: [71]) == 0
    assert notes.rows == []
    notes.mark(8, 80)
    assert len(json.loads((tmp_path / f"a.pcap{SUFFIX}").read_text())["messages"]) == 2


def test_what_has_no_file_keeps_nothing() -> None:
    notes = Notes.beside(["-"], Path("/nowhere"))
    notes.write(1, 5, " a \n b ")
    assert notes.text(1) == "a b"
    assert notes.why == ""
    notes.drop_before(2)
    assert notes.rows == []
