from __future__ import annotations

import pytest
from textual import events

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow

LABEL = 12


async def drag(app: InspectApp, pilot: Keys, first: int, last: int) -> None:
    await pilot.mouse_down(app.lanes, offset=(LABEL + first, 5))
    await pilot.hover(app.lanes, offset=(LABEL + last, 5))
    await pilot.mouse_up(app.lanes, offset=(LABEL + last, 5))
    await settled(app, pilot)


def test_a_range_that_is_dragged_filters_messages() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        at = app.lanes.at
        await drag(app, pilot, 70, 53)
        first, last = app.lanes.range or (0, 0)
        assert first == int(app.lanes._stretched[53])
        assert last == int(app.lanes._stretched[70])
        assert app.lanes.at == at
        assert f"seqnos {first}–{last} chosen: = filters by it" in screen(app)
        await press(app, pilot, "equals_sign")
        assert app.packets.filtering.text == f"vbucket = 7 and by_seqno between {first} and {last}"
        seqnos = app.inspection.store.take(app.packets.list.index.rows(0, len(app.packets.list.index)), ["by_seqno"]).column(0)
        assert seqnos.to_pylist()
        assert all(first <= seqno <= last for seqno in seqnos.to_pylist())

    play("rollback.pcap", scene)


def test_a_range_of_time_filters_and_plus_zooms_to_it_and_escape_forgets_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "d")
        await drag(app, pilot, 10, 20)
        chosen = app.lanes.range
        assert chosen is not None
        await press(app, pilot, "equals_sign")
        assert app.packets.filtering.text == f"vbucket = 7 and relative_ns between {chosen[0]} and {chosen[1]}"
        await press(app, pilot, "backspace", "escape")
        assert app.lanes.range is None
        await drag(app, pilot, 10, 20)
        await press(app, pilot, "plus")
        assert app.lanes.range is None
        assert app.lanes.scale.first == chosen[0]
        assert chosen[1] <= app.lanes.scale.last < chosen[1] + app.lanes.scale.cells

    play("rollback.pcap", scene)


def test_shift_and_arrows_choose_a_range_too_and_a_click_forgets_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        await press(app, pilot, "shift+right", "shift+right", "shift+right")
        assert app.lanes.range == (42, 45)
        await press(app, pilot, "shift+left")
        assert app.lanes.range == (42, 44)
        await pilot.click(app.lanes, offset=(LABEL + 3, 5))
        await settled(app, pilot)
        assert app.lanes.range is None
        assert app.view == "timeline"

    play("rollback.pcap", scene)


def test_the_wheel_zooms_around_the_mouse() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        whole = app.lanes.scale
        under = whole.first + int(app.lanes._stretched[90]) * whole.step
        app.lanes._wheel(_at(90), 1)
        assert app.lanes.scale.cells * app.lanes.scale.step <= whole.cells * whole.step // 2 + 1
        now = app.lanes.scale.first + int(app.lanes._stretched[90]) * app.lanes.scale.step
        assert abs(now - under) <= 1
        app.lanes._wheel(_at(90), -1)
        assert app.lanes.scale.cells * app.lanes.scale.step >= whole.cells * whole.step - 2

    play("rollback.pcap", scene)


def _at(column: int) -> events.MouseScrollUp:
    return events.MouseScrollUp(None, LABEL + column, 5, 0, -1, 0, shift=False, meta=False, ctrl=False)
