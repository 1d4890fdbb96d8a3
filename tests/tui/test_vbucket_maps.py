from __future__ import annotations

import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.vbucket_maps import several
from tests.tui.screens import NARROW, WIDE, Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_nodes_of_one_client_have_a_map_each_and_one_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "vertical_line")
        maps = app.vbuckets.maps
        assert [name for name, *_ in several(app.inspection.results)] == ["10.11.0.2:11210", "10.11.0.3:11210"]
        assert maps.shown[0].has_focus
        await press(app, pilot, "down")
        assert [one.vbucket for one in maps.shown] == [8, 8]
        assert app.vbuckets.vbucket_here == 8
        assert "vb 8 ended: 15 items, seqnos 2–30" in screen(app)
        assert "█ 27 items" in screen(app)
        assert "rolled back" in screen(app), "few vbuckets have cells with words"
        await press(app, pilot, "end", "right")
        assert maps.shown[1].has_focus, "beyond the border is the next map"
        await press(app, pilot, "home", "left")
        assert maps.shown[0].has_focus
        await press(app, pilot, "enter")
        assert (app.view, app.lanes.vbucket) == ("timeline", 7)
        await press(app, pilot, "backspace")
        assert app.vbuckets.is_maps
        await press(app, pilot, "d", "d", "o")
        own = [one.cells.values("items") for one in maps.shown]
        assert maps.measure == "items"
        table = app.inspection.results.records["vbuckets"]
        assert (own[0] + own[1])[7:11].tolist() == table.values("items"), "each node has what it sent"
        assert (maps.shown[0].has_focus, maps.vbucket) == (True, 8), "which has most after vb 7"
        assert "vb 8 ended: 15 items" in maps.about().plain
        assert maps.shown[1].border_subtitle == "at most 11 items"
        await press(app, pilot, *"oo")
        assert (maps.shown[1].has_focus, maps.vbucket) == (True, 9)
        await press(app, pilot, "d")
        assert maps.measure == "gaps", "nobody knows the bytes of a node"
        await press(app, pilot, *"dddd", "vertical_line")
        assert app.vbuckets.is_heat

    play("rollback.pcap", scene)


def test_clients_have_maps_that_fit() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "vertical_line")
        for size in (NARROW, WIDE, (200, 50), NARROW):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
            text = screen(app)
            for name, *_ in several(app.inspection.results):
                assert name in text
            for one in app.vbuckets.maps.shown:
                assert one._across * one._wide <= one.size.width
                assert one._across * one._each * one.size.height >= len(one.cells.numbers)

    play("snapshots.pcap", scene, NARROW)


def test_where_there_is_nothing_to_compare_there_is_one_map() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert len(several(app.inspection.results)) == 1
        await press(app, pilot, "2", "vertical_line")
        assert app.vbuckets.is_heat

    play("orphans.pcap", scene)
