from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_fields_and_bytes_show_the_same_place() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(109)
        await settled(app, pilot)
        panes = app.packets.panes
        panes.fields.select_named("by_seqno")
        await settled(app, pilot)
        lit = [
            segment.text
            for segment in panes.bytes.render_line(3)
            if segment.style and segment.style.bold
        ]
        assert "".join(lit).split()[0] == "00"
        panes.bytes.focus()
        await press(app, pilot, "home")
        assert panes.fields.path == "magic"

    play("rollback.pcap", scene)


def test_bytes_and_fields_stand_where_both_have_room() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        panes = app.packets.panes
        assert panes.bytes.region.y == panes.fields.region.y
        await press(app, pilot, "vertical_line")
        assert panes.bytes.region.y > panes.fields.region.y
        assert app.packets.list.size.width >= 60

    play("rollback.pcap", scene)


def test_a_finding_stands_whole_above_the_fields_where_there_is_room() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_row(217)
        await settled(app, pilot)
        found = app.inspection.results.finding(217)
        assert found is not None
        lines = screen(app).splitlines()
        (first,) = [
            number for number, line in enumerate(lines) if line.startswith(f"   ! {found.rule}: ")
        ]
        assert lines[first + 1].startswith("     ")
        assert found.message in " ".join(" ".join(lines[first : first + 3]).split())
        await press(app, pilot, "vertical_line")
        assert screen(app).count("…") > 0

    play("tour.pcapng", scene)


def test_the_forms_of_a_place_are_told_whole() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "colon")
        assert "or a rule" in screen(app)

    play("rollback.pcap", scene, (80, 24))


def test_the_title_says_how_many_lines_of_fields_are_below() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        fields = app.packets.fields
        hidden = fields.count - fields.size.height
        assert hidden > 0
        assert f" · {hidden} more below" in screen(app)
        await press(app, pilot, "tab", *["pagedown"] * 2)
        assert f" · {fields.below} more below" in screen(app)
        assert 0 < fields.below < hidden
        await press(app, pilot, "end")
        assert "more below" not in screen(app)

    play("tour.pcapng", scene, (80, 22), filter_text="row < 9")
