from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from textual.widgets import Static

from dcpinspect.capture.open import open_capture
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tui import filtering
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from tests.builders import capture, mutations
from tests.tui.screens import SAMPLES, Keys, follow, play, press, screen, settled, show, until

pytestmark = pytest.mark.slow


def test_a_filter_shows_its_rows_and_escape_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "HELD", 60)
    drawn: list[int] = []

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "slash", *"vbucket", "space", "equals_sign", "space", "7")
        app.screen.screen_layout_refresh_signal.subscribe(
            app, lambda _: drawn.append(len(app.packets.list.index))
        )
        await press(app, pilot, "enter")
        assert app.packets.filtering.text == "vbucket = 7"
        shown = app.packets.list.index
        assert set(drawn) == {len(shown)}, "the screen was drawn before the rows were there"
        assert 0 < len(shown) < 161
        assert f"{len(shown)} rows" in screen(app)
        await press(app, pilot, "escape")
        assert len(app.packets.list.index) == 161

    play("rollback.pcap", scene)


def test_escape_stops_a_filter_and_the_one_before_holds() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)
        before = app.packets.list.index
        app.packets.filtering.set("opcode = 1", parse_filter("opcode = 1"))
        app.action_leave()
        await settled(app, pilot)
        assert (app.packets.filtering.text, app.packets.bar.input.value) == ("vbucket = 7",) * 2
        assert app.packets.list.index is before
        assert "stopped: the rows are as before" in screen(app)
        await press(app, pilot, "escape")
        assert (app.packets.filtering.text, len(app.packets.list.index)) == ("", 161)

    play("rollback.pcap", scene)


def test_a_row_that_the_filter_hides_is_shown_among_all_when_it_is_jumped_to() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "C", "end", "enter")
        app.packets.bar.apply("vbucket = 7 and name = 'dcp_mutation'")
        await settled(app, pilot)
        before = app.packets.list.row, len(app.packets.list.index), app.inspection.connection
        for row in (3, 161):
            app.navigation.to_row(row)
            await settled(app, pilot)
            assert (app.packets.list.row, len(app.packets.list.index)) == (row, 161)
            assert (app.packets.filtering.text, app.inspection.connection) == ("", None)
            await press(app, pilot, "backspace")
            here = app.packets.list.row, len(app.packets.list.index), app.inspection.connection
            assert here == before

    play("rollback.pcap", scene)


def test_a_filter_goes_on_with_what_comes(tmp_path: Path) -> None:
    whole = (SAMPLES / "rollback.pcap").read_bytes()
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(whole[:8000])

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await until(pilot, lambda: app.inspection.store.rows > 20 and app.is_up_to_date)
        app.packets.bar.apply("name = 'dcp_mutation'")
        await settled(app, pilot)
        before = len(app.packets.list.index)
        with growing.open("ab") as file:
            file.write(whole[8000:])
        await until(pilot, lambda: app.inspection.store.rows == 161 and app.is_up_to_date)
        await settled(app, pilot)
        rows = app.packets.list.index.rows(0, 999).tolist()
        assert len(rows) > before
        assert rows == sorted(set(rows))
        assert (
            rows
            == app.inspection.store.matching(
                FilterRows(parse_filter("name = 'dcp_mutation'"))
            ).tolist()
        )

    follow(growing, scene)


@pytest.mark.parametrize("text", ["", "name = 'dcp_mutation'"], ids=["all", "filtered"])
def test_what_is_not_kept_any_more_leaves_the_list_and_is_said(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.reading.store.store.PART_ROWS", 64)
    path = capture(
        tmp_path / "a.pcap", server=b"".join(mutations(1500, value=lambda _: bytes(200)))
    )
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()), daemon=True).start()

    async def scene(app: InspectApp, pilot: Keys) -> None:
        first = app.inspection.store.first_row
        assert first > 500
        assert app.packets.list.index.rows(0, 9999).tolist() == list(range(first, 1501))
        assert f"the first {first - 1:,} are dropped (--keep)" in screen(app)
        await press(app, pilot, "home")
        assert app.packets.list.row == first
        assert "row 1" not in screen(app)

    show(Inspection(open_capture(pipe, batch_bytes=8000), keep=100_000), scene, filter_text=text)


@pytest.mark.parametrize(("row", "connection"), [(100, 1), (30, 2)])
def test_the_cursor_goes_to_a_row_of_the_connection_that_is_looked_at(
    row: int, connection: int
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        packets = app.packets
        packets.list.jump_to(row)
        await settled(app, pilot)
        app.navigation.choose(connection)
        await settled(app, pilot)
        assert packets.list.index.has(packets.list.row)
        assert f"row {packets.list.row} ·" in str(packets.panes.title.content)

    play("rollback.pcap", scene)


def test_one_row_is_no_rows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1")
        app.packets.bar.apply("row = 99")
        await settled(app, pilot)
        status = app.packets.bar.query_one("#filter-state", Static)
        assert str(status.content) == "✔ 1 row"

    play("rollback.pcap", scene)
