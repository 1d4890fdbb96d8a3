from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tui.app import InspectApp
from tests.tui.screens import NARROW, SAMPLES, Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_below_a_hundred_columns_fields_and_bytes_take_turns() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert "Magic" in screen(app)
        await press(app, pilot, "d")
        assert "Magic" not in screen(app)
        assert "80 1f" in screen(app)
        await press(app, pilot, "d")
        assert "Magic" in screen(app)

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
        assert "no packets" in screen(app)
        await press(app, pilot, "1")
        assert "  no packets" in screen(app)
        await press(
            app,
            pilot,
            "down",
            "enter",
            "n",
            "v",
            "2",
            "enter",
            "3",
            "enter",
            "4",
            "enter",
            "5",
            "q",
        )

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


def test_a_click_selects_and_a_second_one_opens() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await pilot.click("#packet-list", offset=(20, 4))
        await settled(app, pilot)
        assert app.packets.list.row == 5
        await pilot.click("#byte-pane", offset=(8, 1))
        await settled(app, pilot)
        assert app.packets.field is not None
        assert app.packets.field.offset == 8

    play("rollback.pcap", scene)


def test_a_field_becomes_a_column_and_goes_again() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        row = int(
            app.inspection.store.matching(FilterRows(parse_filter("name = 'dcp_mutation'")))[3]
        )
        app.navigation.to_row(row)
        await settled(app, pilot)
        for name in ("cas", "key", "rev_seqno"):
            app.packets.fields.select_named(name)
            await press(app, pilot, "c")
        cas = app.inspection.store.messages([row]).annotate(0).field("cas")
        assert cas is not None
        lines = screen(app).splitlines()
        assert all(name in lines[2] for name in ("cas", "key", "rev_seqno"))
        (line,) = (one for one in lines if one.startswith("▌") and f" {row} " in one)
        assert f"0x{cas.raw.hex()}" in line
        await press(app, pilot, "c")
        assert app.packets.list.columns == ["cas", "key"]
        app.packets.fields.select_named("key_length")
        await press(app, pilot, "c")
        assert "this field cannot be a column" in screen(app)

    play("rollback.pcap", scene)


def test_panes_stand_beside_or_below_each_other() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        before = app.packets.list.size
        await press(app, pilot, "vertical_line")
        assert app.packets.list.size.width < before.width
        await press(app, pilot, "vertical_line")
        assert app.packets.list.size.width == before.width

    play("rollback.pcap", scene)


def test_who_leaves_the_filter_is_where_it_was_asked_for() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "slash", "x", "escape")
        assert app.view == "packets"
        await press(app, pilot, "escape", "escape")
        assert app.view == "vbuckets"
        await press(app, pilot, "1", "slash", "escape")
        assert app.view == "packets"

    play("orphans.pcap", scene)


def test_leaving_the_filter_forgets_what_was_typed_and_not_taken() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)
        await press(app, pilot, "slash", "x", "escape", "escape")
        assert app.packets.bar.input.value == "vbucket = 7"
        assert not app.packets.bar.is_typing

    play("rollback.pcap", scene)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_a_marked_row_says_why_in_its_line_and_above_its_fields(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1", "n")
        found = app.inspection.results.finding(app.packets.list.row)
        assert found is not None
        lines = screen(app).splitlines()
        (own,) = [line for line in lines if line.startswith("▌")][:1]
        *_, last = own.rstrip(" ▁▂▃▄▅▆▇█").split()
        assert own[1] == "!"
        # on a narrow screen the summary has the room, as a number that is cut is another
        assert last == found.rule if size[0] > 80 else "from 120, to 126" in own
        assert any(
            line.strip().startswith(f"! {found.rule}: {found.message}"[: size[0] - 8])
            for line in lines
        )
        await press(app, pilot, "home")
        assert f"! {found.rule}: " not in screen(app)

    play("tour.pcapng", scene, size=size)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_an_effect_has_a_sign_of_its_own_and_is_passed_by(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1", "colon", "3", "4", "enter")
        text = screen(app)
        assert "\n▌└  34 " in text
        assert "└ rollback: asked for seqno 77" in text
        assert "from 77, no end" in text, "no number is cut by the name of a rule"
        await press(app, pilot, "N", "n")
        assert app.packets.list.row > 34

    play("orphans.pcap", scene, size)


def test_a_pane_alone_leaves_the_lines_around_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "enter", "z")
        lines = screen(app).splitlines()
        assert "Packets" in lines[0]
        assert "Help" in lines[-1]
        assert app.packets.fields.size.height > 25
        await press(app, pilot, "escape")
        assert app.packets.list.size.height > 5
        await press(app, pilot, "z", "escape", "escape")
        assert app.packets.list.has_focus

    play("rollback.pcap", scene)


def test_panes_come_back_whole_when_the_list_filled_the_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1")
        app.packets.list.jump_to(75)
        await settled(app, pilot)
        before = screen(app).partition("──")[2]
        assert "· row 75 ·" in before
        await press(app, pilot, "z")
        app.packets.take_up()
        await press(app, pilot, "z")
        assert screen(app).partition("──")[2] == before

    play("loop.pcap", scene, (100, 30))


def test_panes_beside_the_list_show_names_with_values() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "vertical_line")
        assert "0x80 (request)" in screen(app)
        assert app.packets.bytes.region.y > app.packets.fields.region.y

    play("rollback.pcap", scene)


def test_values_are_taken_apart_and_copied() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(173)
        await press(app, pilot, "enter", "z", "end")
        assert "xattrs (unpacked)" in screen(app)
        assert '"customer": "customer::0259"' in screen(app)
        fields = app.packets.fields
        (line,) = [one for one in fields.items if '"sku": "apple-000"' in one.text]
        fields.move_to(line.path)
        await press(app, pilot, "y")
        assert app.clipboard == '"sku": "apple-000",'

    play("tour.pcapng", scene)


def test_a_large_message_is_taken_apart_behind_what_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.tui.packets_view.LARGE", 4000)

    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(174)
        await settled(app, pilot)
        assert "DCP_MUTATION command (v1) · 4,270 bytes" in screen(app)
        assert app.packets.fields.message is not None

    play("tour.pcapng", scene)


def test_the_time_column_has_four_forms_and_says_which() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.packets.bar.apply("name in ('dcp_open', 'dcp_control')")
        await settled(app, pilot)

        def column() -> tuple[str, list[str]]:
            lines = screen(app).splitlines()
            return lines[2][6:19].strip(), [line[7:26].split()[0] for line in lines[3:6]]

        assert column() == ("Time Con", ["0.004132", "0.004265", "0.004328"])
        await press(app, pilot, "t")
        assert column() == ("Delta Con", ["0.000000", "0.000132", "0.000062"])
        await press(app, pilot, "t")
        assert screen(app).splitlines()[2].split()[1:3] == ["Time", "UTC"]
        await press(app, pilot, "t")
        assert column()[0].startswith("Since req.")
        assert column()[1][1] == "0.000132"
        assert "0.004328" not in screen(app)
        await press(app, pilot, "t")
        assert column()[0] == "Time Con"

    play("rollback.pcap", scene)


def test_a_conversation_is_followed_and_left() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(99)
        await press(app, pilot, "f")
        assert app.packets.filtering.text == "connection = 2 and vbucket = 7 and opaque = 7"
        lines = screen(app).splitlines()
        asked, told = (next(line for line in lines if f" {row} " in line) for row in (99, 100))
        assert ("2→" in asked, "2←" in told) == (True, True)
        await press(app, pilot, "f")
        assert app.packets.filtering.text == ""
        rows = app.packets.list
        line = rows.index.place_of(rows.row) - int(rows.scroll_offset.y)
        assert 0 <= line < rows.size.height, "the cursor is in view again"
        await press(app, pilot, "home", "f")
        assert app.packets.filtering.text == "connection = 1"
        await press(app, pilot, "escape")
        assert screen(app).splitlines()[2].split()[:3] == ["Row", "Time", "Con"]

    play("rollback.pcap", scene)


def test_a_field_and_a_message_in_other_forms_are_copied_to_the_terminal() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(99)
        await settled(app, pilot)
        app.packets.fields.select_named("start_seqno")
        app.packets.fields.focus()
        await press(app, pilot, "y")
        assert app.clipboard == "60"
        await press(app, pilot, "escape", "Y", "enter")
        assert '"name": "dcp_stream_req"' in app.clipboard
        await press(app, pilot, "Y", "down", "enter")
        assert app.clipboard.startswith("8053")

    play("rollback.pcap", scene)


def test_a_list_with_little_room_names_its_columns_rather_than_counting_its_rows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1", "vertical_line")
        heading = screen(app).splitlines()[2][: app.packets.list.size.width]
        assert heading.split() == ["Row", "Time", "Con", "Message", "vb", "Seqno", "Summary"]

    play("rollback.pcap", scene)
