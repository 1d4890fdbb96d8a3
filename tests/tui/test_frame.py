from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui import frame
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.dialogs import Help
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.key_bindings import VIEWS
from dcpinspect.tui.theme import ASCII, UNICODE
from tests.captures import field
from tests.tui.screens import (
    SAMPLES,
    Keys,
    follow,
    play,
    press,
    screen,
    settled,
    until,
)


@given(st.sampled_from(VIEWS), st.integers(20, 300))
def test_the_line_of_keys_fits_and_always_has_help(view: str, width: int) -> None:
    line = frame.keys(view, width)
    assert line.plain.endswith("? Help")
    assert line.cell_length <= max(width, 8)


def test_while_a_filter_is_typed_the_keys_are_its() -> None:
    assert (
        frame.keys("packets", 80, is_typing=True).plain
        == " Enter Apply  Tab Complete  ↓ Choose  ↑ Used before  Esc Leave"
    )


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_tabs_fill_their_line_and_say_how_far_reading_is(glyphs: object) -> None:
    inspection = Inspection([str(SAMPLES / "rollback.pcap")])
    assert frame.state(inspection) == "0%"
    assert "Esc stops" in frame.progress(inspection)
    inspection.load()
    assert frame.state(inspection) == frame.progress(inspection) == ""
    for width in range(20, 200):
        line = frame.tabs(inspection, "stats", glyphs, width)  # type: ignore[arg-type]
        assert line.cell_length == max(width, len(" 0 Over 1 Pkt 2 vB 3 Time 4 Find 5 Stat "))
    assert "161 messages" in frame.tabs(inspection, "stats", UNICODE, 120).plain
    inspection.close()
    whole = Inspection([str(SAMPLES / f"{name}.pcap") for name in ("rollback", "loop", "orphans")])
    assert " sample_captures/ (3 captures) " in frame.tabs(whole, "stats", UNICODE, 120).plain
    whole.close()
    inspection.close()


def test_a_capture_without_messages_has_nothing_to_do(tmp_path: Path) -> None:
    """The overview says why."""
    path = tmp_path / "empty.pcap"
    path.write_bytes((SAMPLES / "rollback.pcap").read_bytes()[:24])
    inspection = Inspection([str(path)])
    inspection.load()
    assert frame.progress(inspection) == ""
    inspection.close()


def test_clicks_on_tabs_counts_and_keys_do_what_they_say() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for text, line, view in (
            ("4 Findings", "#tabs", "findings"),
            ("1 Packets", "#tabs", "packets"),
            ("✖ 2", "#tabs", "findings"),
        ):
            at = app.query_one(line, frame.Line)
            await pilot.click(at, offset=(screen(app).splitlines()[at.region.y].index(text) + 1, 0))
            await settled(app, pilot)
            assert app.view == view
        number = app.navigation.findings.list.finding
        assert number is not None
        assert app.inspection.results.findings[number].severity == "error"
        keys = app.query_one("#keys", frame.Line)
        await pilot.click(keys, offset=(screen(app).splitlines()[-1].index("? Help") + 3, 0))
        await settled(app, pilot)
        assert isinstance(app.screen, Help)

    play("orphans.pcap", scene)


def test_ctrl_c_leaves() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not app.is_running or app._exit)

    play("rollback.pcap", scene)


def test_what_was_found_is_never_left_out_of_the_first_line() -> None:
    inspection = Inspection([str(SAMPLES / "orphans.pcap")])
    inspection.load()
    for width in range(70, 130):
        assert "✖ 2  ! 0  · " in frame.tabs(inspection, "stats", UNICODE, width).plain
    inspection.close()


@pytest.mark.parametrize("width", [20, 60, 80, 99])
def test_a_narrow_screen_has_the_name_of_the_capture_in_its_last_line(width: int) -> None:
    for view in VIEWS:
        line = frame.keys(view, width, "rollback.pcap")
        assert line.plain.endswith("rollback.pcap" if width > 40 else "rollb…")
        assert "? Help" in line.plain
        assert line.cell_length == width - 1
    assert "rollback.pcap" not in frame.keys("packets", 120, "rollback.pcap").plain


def test_a_capture_that_goes_on_shows_its_rate_and_whether_it_is_followed(tmp_path: Path) -> None:
    growing = tmp_path / "growing.pcap"
    growing.write_bytes((SAMPLES / "rollback.pcap").read_bytes()[:9000])

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await until(pilot, lambda: app.inspection.store.rows > 0 and app.is_up_to_date)
        for keys, word in (
            (("1", "home"), "End follows the newest"),
            (("end",), "following the newest"),
        ):
            for key in keys:
                await pilot.press(key)
            await until(pilot, lambda word=word: word in screen(app))  # type: ignore[misc] # its own word each time
            assert re.search(rf" {word} · Esc stops · live, \d+ messages", screen(app))

    follow(growing, scene)


def test_a_conversation_that_was_captured_twice_is_counted_once() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        first, *lines = screen(app).splitlines()
        assert "  683 messages  " in first
        assert any("683 messages (1,366 rows with copies)" in line for line in lines)
        copies = [line.split() for line in lines if " copy of " in line]
        assert len(copies) == 2
        assert all(line[7:11] == ["0", "orders", "0", "0"] for line in copies)

    play(field("z-dnat-p05-one-rollback-reopens-all"), scene, (160, 36))
