from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.output.render.timeline_text import LABEL
from dcpinspect.tui.app import InspectApp
from tests.captures import field, real_server
from tests.streams.told import capture, opened
from tests.tui.screens import Keys, lanes_of, play, press, screen, settled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_the_picture_takes_whole_columns_for_each_cell(
    size: tuple[int, int],
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        lines = screen(app).splitlines()
        room, scale = size[0] - LABEL - 1, lanes_of(app).scale
        assert room // 2 < scale.columns <= room
        assert scale.columns + scale.cells > room, "one more column for each has no room"
        end = LABEL + scale.columns
        drawn = [line[LABEL:end] for line in lines if line.startswith("  items")]
        assert max(len(line.rstrip()) for line in drawn) == scale.columns
        assert not any(line[end : size[0] - 2].strip() for line in lines if "  items" in line)
        pairs = [line[place :: scale.wide] for line in drawn for place in range(scale.wide)]
        assert len({*pairs}) <= len(drawn), "all columns of a cell are the same"
        numbers = [int(number) for number in lines[2].split()]
        assert (
            numbers == list(range(0, 61, numbers[1]))[: len(numbers)]
        )  # the last may have no room
        assert len(numbers) >= 5
        assert lanes_of(app).size.height <= size[1] // 2, (
            "what happened has the other half of the screen"
        )
        assert "d: time" in lines[1]

    play("rollback.pcap", scene, size=size)


def test_streams_of_several_connections_stand_under_their_names_and_those_with_an_id_have_it() -> (
    None
):
    async def several(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        assert "connection 1  10.11.0.1:50000 → 10.11.0.2:11210  mirror:1" in screen(app)
        assert "connection 2  10.11.0.1:50001 → 10.11.0.3:11210  mirror:1" in screen(app)

    async def with_ids(app: InspectApp, pilot: Keys) -> None:
        sids = app.inspection.results.records["streams"].values("sid")
        vbucket = next(
            number
            for number, sid in zip(
                app.inspection.results.records["streams"].values("vbucket"), sids, strict=True
            )
            if sid is not None
        )
        app.navigation.to_vbucket(vbucket)
        await settled(app, pilot)
        for sid in {track.story.stream["sid"] for track in lanes_of(app).content.tracks} - {None}:
            assert f"sid {sid}" in screen(app)

    play("rollback.pcap", several)
    play("tour.pcapng", with_ids)


def test_names_that_are_hostile_steer_nothing_and_every_line_is_as_wide_as_the_view(
    tmp_path: Path,
) -> None:
    talk = opened("a\x1b]0;title\x07[red]\u202e漢")
    stream = talk.stream(7)
    stream.snapshot(0, 2**64 - 1, "memory")
    stream.mutation(5, "ключ\x1b[31m")
    path = tmp_path / "hostile.pcap"
    path.write_bytes(capture(talk))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        for width in (1, 5, 13, 30, 59, 60, 79, 80, 120, 200, 300):
            await pilot.resize_terminal(width, 20)
            await settled(app, pilot)
            for key in ("d", "down"):
                for line in range(lanes_of(app).size.height):
                    made = lanes_of(app).render_line(line)
                    assert made.cell_length == lanes_of(app).size.width
                    assert made.text.isprintable()
                assert all(character.isprintable() for character in lanes_of(app).spoken())
                await press(app, pilot, key)

    play(path, scene)


def test_a_screen_of_another_size_shows_the_same_part_of_the_axis() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3", "plus", "plus", "right")
        lanes = lanes_of(app)
        before = lanes.scale, lanes.at
        for size in ((60, 20), (120, 36)):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
        assert (lanes.scale, lanes.at) == before

    play("rollback.pcap", scene, size=(120, 36))


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


def test_gaps_are_walked_and_enter_opens_the_item_behind_one() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        rows = []
        for _ in range(3):
            await press(app, pilot, "right_square_bracket")
            event = app.navigation.timeline.events.event
            assert event is not None
            assert event.event.kind == "gap"
            rows.append(event.event.row)
        assert rows == [24, 74, 100]
        await press(app, pilot, "left_square_bracket", "enter")
        field = app.packets.field
        assert (app.packets.list.row, field and field.name) == (rows[1], "by_seqno")

    play("rollback.pcap", scene)


def test_errors_and_warnings_are_walked_and_lead_to_findings() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(31)
        await settled(app, pilot)
        await press(app, pilot, "home", "n")
        event = app.navigation.timeline.events.event
        assert event is not None
        assert event.finding is not None
        assert (lanes_of(app).stream, lanes_of(app).chosen_row) == (event.track, event.row)
        await press(app, pilot, "e")
        assert (app.view, app.navigation.findings.list.finding) == ("findings", event.finding)
        await press(app, pilot, "backspace")
        assert app.navigation.timeline.events.event == event

    async def without(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "n")
        assert "no error or warning of these streams" in screen(app)

    play("loop.pcap", scene)
    play("rollback.pcap", without)


def test_an_effect_stands_below_its_cause_without_a_sign_of_its_own() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(48)
        await settled(app, pilot)
        events = [one.event for one in app.navigation.timeline.events.items]
        cause = next(at for at, one in enumerate(events) if "rollback-not-followed" in one.text)
        assert events[cause].sign == app.glyphs.error
        assert (events[cause + 1].sign, events[cause + 1].row) == (app.glyphs.effect, 31)
        assert f"{app.glyphs.effect} rollback: asked" in screen(app)
        await press(app, pilot, "home", "n")
        assert app.navigation.timeline.events.at == cause
        await press(app, pilot, "n")
        assert lanes_of(app).chosen_row == 32, "the answer, which has a sign in the lanes"
        await press(app, pilot, "n")
        assert "no error or warning of these streams after here" in screen(app)

    play("orphans.pcap", scene)


def test_more_of_a_stream_leaves_the_range_that_was_zoomed_to() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 42)
        await settled(app, pilot)
        await press(app, pilot, "minus")
        scale, seqno = lanes_of(app).scale, lanes_of(app).seqno
        app.navigation.timeline.take_up()
        await settled(app, pilot)
        assert (lanes_of(app).scale, lanes_of(app).seqno) == (
            scale,
            seqno,
        )

    play("rollback.pcap", scene)


def test_a_message_before_the_stream_leaves_the_stream_in_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(0)
        await settled(app, pilot)
        await press(app, pilot, "d")
        scale = lanes_of(app).scale
        app.navigation.timeline.show(0, row=13)
        await settled(app, pilot)
        assert (lanes_of(app).scale, lanes_of(app).chosen_row) == (scale, 13)
        assert lanes_of(app).cell == 0
        await press(app, pilot, "enter")
        assert app.packets.list.row == 13

    play("real-server/stuck.pcap.gz", scene)


def test_the_heading_ends_where_the_streams_end() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        lanes = lanes_of(app)
        _, last = lanes.content.bounds("seqno")
        for width in range(80, 120, 3):
            await pilot.resize_terminal(width, 36)
            await settled(app, pilot)
            assert f"–{last:,} · a cell " in screen(app)
        assert "✖ error" in screen(app)

    play("loop.pcap", scene)


def test_a_cell_of_a_disk_and_a_memory_snapshot_shows_the_one_from_disk() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(44)
        await settled(app, pilot)
        await press(app, pilot, "d")
        rows = [row.pieces for row in lanes_of(app)._rows if row.lane == "snapshots"]
        assert next(paint for _, paint in rows[0] if paint) == "snapshot-disk"
        assert "disk" in screen(app)

    play(field("r06-now-missing-vbucket"), scene, (80, 24))


def test_the_title_of_the_axis_of_time_ends_as_the_axis_does() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3", "d")
        title, labels = (lanes_of(app).render_line(line).text for line in (0, 1))
        assert "–8.709 s · a cell is " in title
        assert labels.rstrip().endswith(" 8.709 s")

    play(real_server("durability"), scene, (80, 24))


def test_a_narrow_title_has_the_end_of_the_stream_and_cuts_what_came() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(9)
        await settled(app, pilot)
        await press(app, pilot, "home")
        titles = [line for line in screen(app).splitlines() if "row 29" in line]
        assert "accepted · stream end: lost-privileges, 6 " in titles[1]

    play("tour.pcapng", scene, (80, 24))


def test_the_head_of_an_arrow_stands_beside_its_letter_also_in_wide_cells() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        assert lanes_of(app).scale.wide > 1
        assert "R◂──" in screen(app)

    play("rollback.pcap", scene, (200, 50))


@pytest.mark.parametrize("theme_name", ["textual-dark", "textual-light", "ansi-dark"])
def test_the_cursor_over_nothing_does_not_look_like_items(theme_name: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(136)
        await settled(app, pilot)
        lanes = lanes_of(app)
        line = lanes.HEAD + next(
            number for number, row in enumerate(lanes._rows) if row.lane == "items"
        )
        ground = {}
        for seqno in (1, 2):  # only the second came
            lanes.set_cursor(seqno)
            [(text, style, _), *_] = lanes.render_line(line).crop(
                LABEL + lanes.cell * lanes.scale.wide
            )
            assert style is not None
            ground[text[0]] = style
        assert {*ground} == {" ", "█"}
        empty, items = ground[" "].bgcolor, ground["█"].color
        assert empty is not None
        assert items is not None
        assert empty not in (items, lanes.rich_style.bgcolor, lanes.cursor_style().bgcolor)
        if empty.triplet is not None:
            assert max(empty.triplet) - min(empty.triplet) < 32, "a grey"

    play(field("q09b-only-src-port"), scene, theme_name=theme_name)


def test_items_have_no_empty_lines() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        lanes = lanes_of(app)
        drawn = [
            "".join(text for text, _ in row.pieces) for row in lanes._rows if row.lane == "items"
        ]
        assert drawn
        assert all(line.strip() for line in drawn)
        assert sum(row.label == "  items" for row in lanes._rows) == 1

    play("large.pcapng.gz", scene)
