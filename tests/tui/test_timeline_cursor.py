from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.tui.app import InspectApp
from tests.tui.screens import Keys, play, press, screen, settled
from tests.tui.test_marked import faulty

pytestmark = pytest.mark.slow


def test_zoom_keeps_the_cursor_and_fit_shows_all() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        whole = app.lanes.scale
        await press(app, pilot, "minus", "minus")
        wider = app.lanes.scale
        assert wider.step * wider.cells >= 4 * whole.step * whole.cells
        assert wider.first <= 42 <= wider.last
        assert app.lanes.seqno == 42
        await press(app, pilot, "plus", "plus", "a")
        assert app.lanes.scale == whole

    play("rollback.pcap", scene)


def test_zoom_ends_where_each_seqno_has_many_columns() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        await press(app, pilot, *["plus"] * 8)
        assert (app.lanes.scale.step, app.lanes.scale.cells) == (1, 5)
        assert app.lanes.scale.first <= 42 <= app.lanes.scale.last
        await press(app, pilot, "right")
        assert app.lanes.seqno == 43

    play("rollback.pcap", scene)


def test_what_is_at_the_cursor_is_spelt_out() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(12)
        await settled(app, pilot)
        await press(app, pilot, "right_curly_bracket")
        story = app.lanes.story
        assert story is not None
        assert app.lanes.seqno == int(story.after[0]) + 1
        assert "did not come, deduplicated: " in app.lanes.spoken()
        assert "snapshot 0–20 memory" in app.lanes.spoken()

    play("snapshots.pcap", scene)


def test_the_axis_of_time_shows_the_same_and_the_cursor_stays_at_its_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 41)
        await settled(app, pilot)
        await press(app, pilot, "d")
        assert app.lanes.axis == "time"
        track = app.lanes.track
        assert track is not None
        (own,) = np.flatnonzero(track.story.item_first == 41)
        assert app.lanes.at == int(track.shapes["time"].item_first[own])
        assert " s · a cell is " in screen(app)
        assert "d seqnos" in screen(app)
        await press(app, pilot, "enter")
        batch = app.inspection.store.messages([app.packets.list.row])
        assert app.inspection.reading.first_time_ns is not None
        since = int(batch.time_ns[0]) - app.inspection.reading.first_time_ns
        assert app.lanes.span[0] <= since <= app.lanes.span[1]
        await press(app, pilot, "backspace", "d")
        assert (app.lanes.axis, app.view) == ("seqno", "timeline")

    play("rollback.pcap", scene)


def test_events_are_walked_with_their_rows() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(417)
        await settled(app, pilot)
        await press(app, pilot, "d", "home")
        rows = []
        for _ in range(6):
            rows.append(app.lanes.row[0])
            await press(app, pilot, "right_square_bracket")
        assert rows[0] == 160
        assert rows[1:3] == [162, 163]
        assert rows == sorted(rows)
        await press(app, pilot, *["right_square_bracket"] * 12)
        assert "stream end: state-changed" in app.lanes.spoken()
        assert "no more events of this stream" in screen(app)
        assert app.lanes.row[0] == 196

    play("tour.pcapng", scene)


def test_errors_and_warnings_are_walked_and_lead_to_findings() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(31)
        await settled(app, pilot)
        await press(app, pilot, "n")
        assert app.lanes.stream == 1
        assert app.lanes.row[0] == 80
        assert "! rollback: asked 60, told 0: tombstones" in app.lanes.spoken()
        number = app.lanes.finding
        assert number is not None
        assert "findings" in screen(app)
        await press(app, pilot, "e")
        assert (app.view, app.finding_list.finding) == ("findings", number)
        await press(app, pilot, "backspace", "N")
        assert "no other error or warning of this vbucket's streams" in screen(app)

    play("loop.pcap", scene)


def test_more_of_a_stream_leaves_the_range_that_was_zoomed_to() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        await press(app, pilot, "minus")
        scale, seqno = app.lanes.scale, app.lanes.seqno
        app.timeline.take_up(app.inspection.results)
        await settled(app, pilot)
        assert (app.lanes.scale, app.lanes.seqno) == (scale, seqno)

    play("rollback.pcap", scene)


def test_what_was_found_at_several_places_of_a_cell_is_told_once(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(8)
        await settled(app, pilot)
        assert app.lanes.track is not None
        first, last = app.lanes.span
        assert sum(first <= mark.seqno <= last and "cas-zero" in mark.text for mark in app.lanes.track.found) > 1
        assert app.lanes.spoken().count("cas-zero") == 1

    play(faulty(tmp_path), scene, size=(20, 24))
