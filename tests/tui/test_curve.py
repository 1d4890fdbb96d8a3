from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.render.lanes import ASCII, UNICODE, Scale
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.curve import Curve, curve
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def lines(picture: Curve) -> list[str]:
    return ["".join(line) for line in picture.text.tolist()]


def test_streams_rise_have_their_names_and_a_rollback_leads_down() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "vertical_line")
        assert (app.lanes.form, app.lanes.axis) == ("curve", "time")
        picture = curve(app.lanes.tracks, app.lanes.scale, 100, 20, UNICODE)
        text = "\n".join(lines(picture))
        for name in ("con 1 #1", "con 2 #1", "con 2 #2"):
            assert name in text
        for place in (0, 2):  # as time goes on, seqnos rise: lines go up
            heights = [int(np.flatnonzero(column == place).min()) for column in picture.owner.T if (column == place).any()]
            assert heights == sorted(heights, reverse=True)
        (top,), (column,) = ([int(at[0])] for at in np.nonzero(picture.text == "R"))
        bottom = int(np.flatnonzero(picture.text[:, column] == "▾")[0])
        assert bottom > top + 1
        assert (picture.text[top + 1 : bottom, column] == "│").all()
        assert set(picture.ticks.values()) == {"0", "20", "40", "60"}

    play("rollback.pcap", scene)


def test_ascii_has_nothing_else_but_the_bar_that_is_replaced_for_all_views() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        text = "".join(lines(curve(app.lanes.tracks, Scale(0, 1_000_000, 40), 80, 10, ASCII)))
        assert text.replace("│", "").isascii()
        assert "*" in text

    play("rollback.pcap", scene)


def test_curves_have_the_cursor_and_the_keys_of_lanes_and_may_have_lanes_below() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 41)
        await settled(app, pilot)
        await press(app, pilot, "vertical_line", "right_square_bracket")
        at = app.lanes.at
        assert "snapshots" not in screen(app).split("░▒")[0]
        await press(app, pilot, "d")
        assert "  snapshots" in screen(app)
        assert app.lanes.at == at
        await press(app, pilot, "1", "backspace")
        assert (app.lanes.form, app.lanes.axis, app.lanes.at) == ("curve", "time", at)
        await press(app, pilot, "vertical_line")
        assert (app.lanes.form, app.lanes.axis) == ("tree", "seqno")
        assert "uuid 0xb8b8000000000007 from seqno 50 ┏━" in screen(app)
        assert "row 99: from 60, rollback to 50 R" in screen(app)
        await press(app, pilot, "vertical_line")
        assert app.lanes.form == "lanes"

    play("rollback.pcap", scene)


def test_a_click_on_a_curve_chooses_its_stream() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "vertical_line")
        line, column = (int(at[-1]) for at in np.nonzero(app.lanes._picture.owner == 2))
        await pilot.click(app.lanes, offset=(12 + column, 2 + line))
        await settled(app, pilot)
        assert app.lanes.stream == 2

    play("rollback.pcap", scene)
