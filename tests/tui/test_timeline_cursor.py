from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from textual import events

from dcpinspect.output.render.timeline_text import LABEL
from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, lanes_of, play, press, screen, settled
from tests.tui.test_marked import faulty

pytestmark = pytest.mark.slow


def test_zoom_keeps_the_cursor_and_fit_shows_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        whole = lanes_of(app).scale
        await press(app, pilot, "minus", "minus")
        wider = lanes_of(app).scale
        assert wider.step * wider.cells >= 4 * whole.step * whole.cells
        assert wider.first <= 42 <= wider.last
        assert lanes_of(app).seqno == 42
        await press(app, pilot, "plus", "plus", "a")
        assert lanes_of(app).scale == whole

    play("rollback.pcap", scene)


def test_zoom_ends_where_each_seqno_has_many_columns() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        await press(app, pilot, *["plus"] * 8)
        assert (
            lanes_of(app).scale.step,
            lanes_of(app).scale.cells,
        ) == (1, 5)
        assert lanes_of(app).scale.first <= 42 <= lanes_of(app).scale.last
        await press(app, pilot, "right")
        assert lanes_of(app).seqno == 43

    play("rollback.pcap", scene)


def test_what_is_at_the_cursor_is_spelt_out() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(12)
        await settled(app, pilot)
        await press(app, pilot, "right_curly_bracket")
        story = lanes_of(app).story
        assert story is not None
        assert lanes_of(app).seqno == int(story.after[0]) + 1
        assert "did not come, deduplicated: " in lanes_of(app).spoken()
        assert "snapshot 0–20 memory" in lanes_of(app).spoken()

    play("snapshots.pcap", scene)


def test_the_axis_of_time_shows_the_same_and_the_cursor_stays_at_its_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 41)
        await settled(app, pilot)
        await press(app, pilot, "d")
        assert lanes_of(app).axis == "time"
        track = lanes_of(app).track
        assert track is not None
        (own,) = np.flatnonzero(track.story.item_first == 41)
        assert lanes_of(app).at == int(track.shapes["time"].item_first[own])
        assert " s · a cell is " in screen(app)
        assert "d: seqnos" in screen(app)
        await press(app, pilot, "enter")
        batch = app.inspection.store.messages([app.packets.list.row])
        assert app.inspection.reading.first_time_ns is not None
        since = int(batch.time_ns[0]) - app.inspection.reading.first_time_ns
        assert lanes_of(app).span[0] <= since <= lanes_of(app).span[1]
        await press(app, pilot, "backspace", "d")
        assert (lanes_of(app).axis, app.view) == ("seqno", "timeline")

    play("rollback.pcap", scene)


def test_events_are_walked_with_their_rows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(417)
        await settled(app, pilot)
        await press(app, pilot, "d", "home")
        rows = []
        for _ in range(6):
            rows.append(lanes_of(app).row[0])
            await press(app, pilot, "right_square_bracket")
        assert rows[0] == 160
        assert rows[1:3] == [162, 163]
        assert rows == sorted(rows)
        await press(app, pilot, *["right_square_bracket"] * 12)
        assert "stream end: state-changed" in lanes_of(app).spoken()
        assert "no more events of this stream" in screen(app)
        assert lanes_of(app).row[0] == 196

    play("tour.pcapng", scene)


def test_errors_and_warnings_are_walked_and_lead_to_findings() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(31)
        await settled(app, pilot)
        await press(app, pilot, "n")
        assert lanes_of(app).stream == 1
        assert lanes_of(app).row[0] == 79
        assert (
            "! rollback: asked for seqno 60, rolled back to 0: tombstones" in lanes_of(app).spoken()
        )
        number = lanes_of(app).finding
        assert number is not None
        assert "findings" in screen(app)
        await press(app, pilot, "e")
        assert (app.view, app.navigation.findings.list.finding) == ("findings", number)
        await press(app, pilot, "backspace", "N")
        assert "no other error or warning of this vbucket's streams" in screen(app)

    play("loop.pcap", scene)


def test_more_of_a_stream_leaves_the_range_that_was_zoomed_to() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        await press(app, pilot, "minus")
        scale, seqno = lanes_of(app).scale, lanes_of(app).seqno
        app.navigation.timeline.take_up(app.inspection.results)
        await settled(app, pilot)
        assert (lanes_of(app).scale, lanes_of(app).seqno) == (
            scale,
            seqno,
        )

    play("rollback.pcap", scene)


def test_what_was_found_at_several_places_of_a_cell_is_told_once(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(8)
        await settled(app, pilot)
        track = lanes_of(app).track
        assert track is not None
        first, last = lanes_of(app).span
        assert (
            sum(first <= mark.seqno <= last and "cas-zero" in mark.text for mark in track.found) > 1
        )
        assert lanes_of(app).spoken().count("cas-zero") == 1

    play(faulty(tmp_path), scene, size=(20, 24))


def test_the_wheel_zooms_around_the_mouse() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        whole = lanes_of(app).scale
        under = whole.first + int(lanes_of(app)._stretched[90]) * whole.step
        lanes_of(app)._wheel(_at(90), 1)
        assert (
            lanes_of(app).scale.cells * lanes_of(app).scale.step
            <= whole.cells * whole.step // 2 + 1
        )
        now = (
            lanes_of(app).scale.first + int(lanes_of(app)._stretched[90]) * lanes_of(app).scale.step
        )
        assert abs(now - under) <= 1
        lanes_of(app)._wheel(_at(90), -1)
        assert lanes_of(app).scale.cells * lanes_of(app).scale.step >= whole.cells * whole.step - 2

    play("rollback.pcap", scene)


def _at(column: int) -> events.MouseScrollUp:
    return events.MouseScrollUp(
        None, LABEL + column, 5, 0, -1, 0, shift=False, meta=False, ctrl=False
    )
