from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.tables.color_rules import ColorRules
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.line_view import visible_width
from dcpinspect.tui.packet_list import GUTTER
from tests.builders import Conversation, mutation, pcap, recorded
from tests.captures import field
from tests.tui.screens import NARROW, Keys, play, press, screen, settled

pytestmark = pytest.mark.slow

HOSTILE = [
    b"\x1b]0;title\x07",
    b"\x1b[31mred",
    b"[red]markup[/]",
    "\u202egnp".encode(),
    b"x" * 5000,
    "漢字́".encode(),
    b"\xff\xfe",
]


def test_hostile_keys_are_shown_and_steer_nothing(tmp_path: Path) -> None:
    one = Conversation()
    one.handshake()
    for number, key in enumerate(HOSTILE, 1):
        one.stream(False, mutation(number, key=key[:250]), ack_every=0)
    path = tmp_path / "hostile.pcap"
    path.write_bytes(pcap(recorded(one.segments)))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1")
        for _ in HOSTILE:
            await press(app, pilot, "down")
            for widget in (app.packets.list, app.packets.fields, app.packets.bytes):
                for line in range(widget.size.height):
                    made = widget.render_line(line)
                    assert made.cell_length == visible_width(widget)
                    assert made.text.isprintable()
        shown = screen(app)
        assert r"\x1b]0;title\x07" in shown
        assert "[red]markup[/]" in shown

    play(path, scene)


def test_the_cursor_stays_on_its_row_when_the_filter_changes() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(100)
        await settled(app, pilot)
        app.packets.bar.apply("vbucket = 7")
        await settled(app, pilot)
        assert app.packets.list.row == 100
        app.packets.bar.apply("")
        await settled(app, pilot)
        assert app.packets.list.row == 100
        top = int(app.packets.list.scroll_offset.y)
        assert top <= app.packets.list.index.place_of(100) < top + app.packets.list.size.height

    play("rollback.pcap", scene, NARROW)


def test_the_list_ends_where_it_ends() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "end")
        assert app.packets.list.row == 161
        await press(app, pilot, "down", "pagedown")
        assert app.packets.list.row == 161
        await press(app, pilot, "home", "up", "pageup")
        assert app.packets.list.row == 1

    play("rollback.pcap", scene)


def test_rules_of_the_user_colour_rows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "colon", *"110", "enter")
        top = int(app.packets.list.scroll_offset.y)
        for row, is_ruled in ((109, False), (111, True)):
            line = app.packets.list.render_line(row - 1 - top)
            colours = {
                segment.style.color.name
                for segment in line
                if segment.style and segment.style.color
            }
            assert ("#ff8800" in colours) == is_ruled

    play("rollback.pcap", scene, colors=ColorRules({"row = 111": "#ff8800"}, place="[colors]"))


def test_on_80_columns_all_others_give_way_to_the_summary() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1")
        rows = app.packets.list
        assert rows.heading.index("Summary") <= 51, "as in read"
        for row in (1, 40, 434):
            rows.jump_to(row)
            await settled(app, pilot)
            line = rows.render_line(rows.index.place_of(row) - int(rows.scroll_offset.y)).text
            assert str(row) in line[: rows.heading.index("Row") + 3]

    play(field("p06-zero-window"), scene, NARROW)


def test_a_summary_has_the_room_of_what_a_message_has_not() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1")
        packets = app.packets.list
        assert packets.text_of(1).endswith('{"a":"shop/2.1 (tour)","i":"5F3A9C0E1…')
        app.navigation.to_row(219)
        await settled(app, pilot)
        head, line = packets.heading, f"{' ' * GUTTER}{packets.text_of(219)}"
        assert line[: head.index(" vb") + 3].endswith(" 421"), (
            "its vbucket stands below the heading"
        )
        await press(app, pilot, "vertical_line")
        head, line = packets.heading, f"{' ' * GUTTER}{packets.text_of(219)}"
        assert len(line) <= 42
        assert "Time" not in head
        assert line[: head.index(" vb") + 3].endswith(" 421"), "and beside the fields, too"

    play("tour.pcapng", scene, NARROW)


def test_a_long_name_takes_the_room_of_the_vbucket_and_the_seqno_that_are_not_there() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1")
        packets = app.packets.list
        texts = [packets._line(place).text for place in range(packets.count)]
        acks = [text for text in texts if "er_acknowledgement" in text]
        assert acks
        assert all(" buffer_acknowledgement " in text for text in acks)
        assert {text.index(" bytes ") for text in acks} == {packets._lines.summary_at - 1}

    play("lossy.pcap", scene, NARROW)


@pytest.mark.slow
def test_a_summary_stands_apart_from_a_message_that_fills_its_column() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "1", "z")
        lines = [app.packets.list.text_of(row) for row in (14, 16, 20)]
        assert all(" ok " in line for line in lines)

    play("tour.pcapng", scene, (80, 24))
