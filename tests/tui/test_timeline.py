from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.tui.app import InspectApp
from tests.streams.told import capture, opened
from tests.tui.screens import Keys, play, press, screen, settled


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


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_the_picture_fills_the_width_and_says_in_words_what_stretches_are(size: tuple[int, int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        lines = screen(app).splitlines()
        assert max(len(line.rstrip()) for line in lines if line.startswith("  items")) >= size[0] - 3
        assert "░ 0–40 memory ░" in screen(app)
        assert " rollback " in "".join(line for line in lines if line.startswith("  gaps")) or size[0] < 120
        numbers = [int(number) for number in lines[2].split()]
        assert numbers == list(range(0, 61, numbers[1]))[: len(numbers)]  # the last may have no room
        assert len(numbers) >= 5

    play("rollback.pcap", scene, size=size)


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
        assert app.lanes.row[0] == 79
        assert "! rollback: asked 60, told 0: tombstones" in app.lanes.spoken()
        number = app.lanes.finding
        assert number is not None
        assert "findings" in screen(app)
        await press(app, pilot, "e")
        assert (app.view, app.finding_list.finding) == ("findings", number)
        await press(app, pilot, "backspace", "N")
        assert "no other error or warning of this vbucket's streams" in screen(app)

    play("loop.pcap", scene)


def test_a_stream_folds_to_its_axis() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        before = app.lanes.virtual_size.height
        await press(app, pilot, "space")
        assert app.lanes.virtual_size.height <= before - 5
        assert "▸ #1" in screen(app)
        await press(app, pilot, "down", "space", "up", "space")
        assert screen(app).count("▸ #1") == 1

    play("rollback.pcap", scene)


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


def test_streams_of_several_connections_stand_under_their_names_and_those_with_an_id_have_it() -> None:
    async def several(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        assert "connection 1  10.11.0.1:50000 → 10.11.0.2:11210  mirror:1" in screen(app)
        assert "connection 2  10.11.0.1:50001 → 10.11.0.3:11210  mirror:1" in screen(app)

    async def with_ids(app: InspectApp, pilot: Keys) -> None:
        sids = app.inspection.results.records["streams"].values("sid")
        vbucket = next(
            number for number, sid in zip(app.inspection.results.records["streams"].values("vbucket"), sids, strict=True) if sid is not None
        )
        app.navigation.to_vbucket(vbucket)
        await settled(app, pilot)
        for sid in {track.story.stream["sid"] for track in app.lanes.tracks} - {None}:
            assert f"sid {sid}" in screen(app)

    play("rollback.pcap", several)
    play("tour.pcapng", with_ids)


@pytest.mark.parametrize("keys", [(), ("d",)], ids=["seqnos", "time"])
def test_names_that_are_hostile_steer_nothing_and_every_line_is_as_wide_as_the_view(tmp_path: Path, keys: tuple[str, ...]) -> None:
    talk = opened("a\x1b]0;title\x07[red]\u202e漢")
    stream = talk.stream(7)
    stream.snapshot(0, 2**64 - 1, "memory")
    stream.mutation(5, "ключ\x1b[31m")
    path = tmp_path / "hostile.pcap"
    path.write_bytes(capture(talk))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, *keys)
        for width in (1, 5, 13, 30, 59, 60, 79, 80, 120, 200, 300):
            await pilot.resize_terminal(width, 20)
            await settled(app, pilot)
            for line in range(app.lanes.size.height):
                made = app.lanes.render_line(line)
                assert made.cell_length == app.lanes.size.width
                assert made.text.isprintable()
        assert all(character.isprintable() for character in app.lanes.spoken())

    play(path, scene)
