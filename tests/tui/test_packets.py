from __future__ import annotations

from pathlib import Path

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import NARROW, SAMPLES, Keys, play, press, screen, settled


def test_below_a_hundred_columns_fields_and_bytes_take_turns() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert "Magic" in screen(app)
        await press(app, pilot, "d")
        assert "Magic" not in screen(app)
        assert "0x80" in screen(app)

    play("rollback.pcap", scene, NARROW)


def test_a_capture_that_disappears_is_told_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes((SAMPLES / "rollback.pcap").read_bytes())

    async def scene(app: InspectApp, pilot: Keys) -> None:
        path.unlink()
        app.packets.list.refill()
        await press(app, pilot, "end")
        assert "a.pcap" in screen(app)
        await press(app, pilot, "n", "v", "4", "enter", "5")

    play(path, scene)


def test_a_capture_that_shrinks_is_told_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes((SAMPLES / "rollback.pcap").read_bytes())

    async def scene(app: InspectApp, pilot: Keys) -> None:
        path.write_bytes(b"")
        app.packets.list.refill()
        await press(app, pilot, "end", "v", "1")
        await settled(app, pilot)

    play(path, scene)


def test_without_messages_the_view_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes((SAMPLES / "rollback.pcap").read_bytes()[:24])

    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert "no DCP message" in screen(app)
        await press(app, pilot, "down", "enter", "n", "v", "2", "enter", "3", "enter", "4", "enter", "5", "q")

    play(path, scene)


def test_filtering_by_the_field_under_the_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(100)
        await settled(app, pilot)
        app.packets.fields.select_named("opaque")
        await press(app, pilot, "equals_sign")
        assert app.packets.filtering.text == "opaque = 7"
        await press(app, pilot, "exclamation_mark")
        assert app.packets.filtering.text == "(opaque = 7) and not opaque = 7"
        assert len(app.packets.list.index) == 0

    play("rollback.pcap", scene)


def test_what_is_copied_goes_to_the_terminal() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(99)
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
