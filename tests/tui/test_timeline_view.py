from __future__ import annotations

from pathlib import Path

import pytest
from rich.style import Style

from dcpinspect.tui import theme
from dcpinspect.tui.app import InspectApp
from tests.captures import field, real_server
from tests.tui.screens import NARROW, SAMPLES, Keys, lanes_of, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_neighbours_are_those_that_have_streams() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        await press(app, pilot, "full_stop")
        assert lanes_of(app).content.vbucket == 8
        await press(app, pilot, "comma", "comma")
        assert lanes_of(app).content.vbucket == 7

    play("rollback.pcap", scene)


def test_e_goes_to_the_worst_finding_of_the_message_also_where_it_is_told_elsewhere() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        results = app.inspection.results
        (loop,) = (n for n, one in enumerate(results.findings) if one.rule == "rollback-loop")
        await press(app, pilot, "1")
        app.navigation.to_row(279)
        await press(app, pilot, "v")
        await settled(app, pilot)
        event = app.navigation.timeline.events.event
        assert event is not None
        assert event.row == 279
        assert event.finding != loop
        await press(app, pilot, "e")
        assert app.navigation.findings.list.finding == loop

    play("loop.pcap", scene)


@pytest.mark.parametrize("keys", [("2", "n", "enter", "e"), ("2", "n", "e")], ids=" ".join)
def test_e_chooses_in_the_evidence_what_shows_it_of_the_vbucket(keys: tuple[str, ...]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, *keys)
        findings = app.navigation.findings
        finding = findings.list.shown_finding
        assert finding is not None
        assert (finding.rule, findings.row_here) == ("orphaned-vbucket", 69)
        assert findings.row_here > findings.evidence[0]

    play("orphans.pcap", scene)


def test_enter_goes_to_the_message_with_the_seqno() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(12, 21)
        await settled(app, pilot)
        await press(app, pilot, "enter")
        batch = app.inspection.store.messages([app.packets.list.row])
        assert batch.vbucket.value_at(0) == 12
        assert (batch.number("by_seqno", 0) or 0) >= 21

    play("snapshots.pcap", scene)


def test_the_picture_of_another_vbucket_is_gone_at_once() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        assert lanes_of(app).content.tracks
        app.navigation.to_vbucket(8)
        assert (lanes_of(app).content.vbucket, lanes_of(app).item_row) == (8, 0)
        assert lanes_of(app).waiting == "reading"
        lanes_of(app).action_page(1)  # there is no line yet
        await settled(app, pilot)
        lanes_of(app).action_open()
        await settled(app, pilot)
        assert app.inspection.store.messages([app.packets.list.row]).vbucket.value_at(0) == 8

    play("rollback.pcap", scene)


def test_of_two_vbuckets_asked_for_at_once_the_latter_is_shown() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        app.navigation.to_vbucket(8, 3)
        await settled(app, pilot)
        assert (
            lanes_of(app).content.vbucket,
            lanes_of(app).at,
            len(lanes_of(app).content.tracks),
        ) == (8, 3, 2)

    play("rollback.pcap", scene)


def test_what_is_learnt_while_a_vbucket_is_read_does_not_move_its_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(8, 3)
        app.navigation.timeline.take_up()
        await settled(app, pilot)
        assert (lanes_of(app).content.vbucket, lanes_of(app).at) == (8, 3)

    play("rollback.pcap", scene)


def test_reading_of_a_vbucket_can_be_stopped_and_asked_for_again() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        app.navigation.to_vbucket(8)
        app.action_leave()
        await settled(app, pilot)
        assert (lanes_of(app).content.vbucket, lanes_of(app).content.tracks) == (
            8,
            (),
        )
        assert "vb 8 · reading was stopped; Enter reads it" in screen(app)
        await press(app, pilot, "enter")
        assert len(lanes_of(app).content.tracks) == 2
        assert app.view == "timeline"

    play("rollback.pcap", scene)


def test_the_way_back_leads_to_a_stream_whose_title_takes_several_lines() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(417)
        await settled(app, pilot)
        for height in (40, 20, 40):
            await press(app, pilot, "enter", "backspace")
            assert app.view == "timeline"
            await pilot.resize_terminal(100, height)
            await settled(app, pilot)
        assert len(lanes_of(app).content.tracks) == 1

    play("tour.pcapng", scene, size=(100, 30))


def test_events_are_listed_in_order_and_enter_opens_the_chosen_one() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7)
        await settled(app, pilot)
        events = app.navigation.timeline.events
        assert "request from 0: accepted; no end" in screen(app)
        rows = [one.event.row for one in lanes_of(app).content.events]
        assert rows == sorted(rows)
        await press(app, pilot, "home")
        for row in rows[:6]:
            assert events.event is not None
            assert (events.event.event.row, lanes_of(app).chosen_row or row) == (
                row,
                row,
            )
            await press(app, pilot, "down")
        here = events.event
        assert here is not None
        assert lanes_of(app).stream == here.track, (
            "the cursor of the lanes is in the event's stream"
        )
        await press(app, pilot, "enter")
        assert app.packets.list.row == here.event.row
        await press(app, pilot, "backspace")
        assert events.event == here

    play("rollback.pcap", scene)


def test_the_list_follows_the_cursor_along_the_axis() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(7, 45)
        await settled(app, pilot)
        chosen = app.navigation.timeline.events.event
        assert chosen is not None
        assert chosen.seqno <= 45
        assert chosen.event.text.startswith(("memory snapshot 41–60", "6 gaps"))

    play("rollback.pcap", scene)


def test_events_are_wrapped_where_there_is_room_and_all_have_a_time() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        assert lanes_of(app).content.vbucket == 48, "the vbucket of the chosen finding"
        app.navigation.to_vbucket(40)
        await settled(app, pilot)
        lines = screen(app).splitlines()
        events = lines[next(i for i, line in enumerate(lines) if "Stream Event" in line) + 1 :]
        assert not any("…" in line for line in events)
        assert all(event.event.time_ns for event in app.navigation.timeline.events.items)

    play("orphans.pcap", scene)


@pytest.mark.parametrize("capture", ["rollback.pcap", "loop.pcap"])
def test_causes_are_whole_before_lanes_have_more_than_a_stream(capture: str) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        view = app.navigation.timeline
        assert "…" not in screen(app)
        needs = sum(view.events.lines_of(place)[1] for place in range(view.events.count))
        assert needs == view.events.lines > view.events.count
        has_all = needs + view.events.HEAD <= view.events.size.height
        assert (has_all, view.lanes.size.height) == (
            (True, 16) if capture == "rollback.pcap" else (False, 11)
        )

    play(capture, scene)


def test_an_error_stands_among_the_events_with_its_sign_and_colour() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        number = next(
            number
            for number, finding in enumerate(app.inspection.results.findings)
            if finding.rule == "rollback-loop"
        )
        await press(app, pilot, "3", "full_stop")
        timeline = app.navigation.timeline
        chosen = timeline.events.event
        assert chosen is not None
        assert (chosen.finding, chosen.event.severity) == (number, "error"), "the worst comes first"
        assert f"{app.glyphs.error} rollback-loop: " in screen(app)
        track = timeline.lanes.track
        assert track is not None
        assert track.connection == chosen.event.connection, "the cursor of the streams goes along"
        assert timeline.lanes.chosen_row == chosen.row
        place = chosen.seqno if timeline.lanes.axis == "seqno" else chosen.time
        assert (place, "error") in timeline.lanes.content.found_at(
            chosen.track, timeline.lanes.axis
        )
        sign = _style_of(app, app.glyphs.error, f"{app.glyphs.error} rollback-loop: ")
        assert sign.bgcolor == theme.style_of(app, "severity-error").color, "under the cursor, too"

    play("loop.pcap", scene, size=(120, 50))


def _style_of(app: InspectApp, glyph: str, words: str) -> Style:
    """Returns the style of a sign in the line of the events that has these words."""
    events = app.navigation.timeline.events
    lines = [events.render_line(y) for y in range(events.size.height)]
    (line,) = [line for line in lines if words in line.text]
    (style,) = [style for text, style, _ in line if text == glyph]
    assert style is not None
    return style


def test_the_stream_of_the_cursor_is_seen_at_every_size() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        lanes, tops = app.navigation.timeline.lanes, dict[int, set[int]]()
        for height in (24, 30, 24, 40, 30, 24):
            await pilot.resize_terminal(80, height)
            await settled(app, pilot)
            first, count = lanes.lines_of(lanes.at)
            top = int(lanes.scroll_offset.y)
            assert top <= first <= first + count <= top + lanes.size.height - lanes.HEAD
            tops.setdefault(height, set()).add(top)
        assert [len(different) for different in tops.values()] == [1, 1, 1]

    play("loop.pcap", scene, NARROW)


@pytest.mark.parametrize(
    "capture",
    [SAMPLES / "loop.pcap", field("r07-end-lost-on-reopen"), real_server("failover-log-long")],
    ids=lambda path: path.name,
)
def test_lanes_begin_with_the_head_of_a_stream(capture: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "3")
        lanes = app.navigation.timeline.lanes
        for _ in range(8):
            top = int(lanes.scroll_offset.y)
            rows = lanes._rows
            is_lowest = top == lanes.max_scroll_y == max(0, lanes.lines - lanes.size.height)
            is_head = is_lowest or rows[top].track != rows[top - 1].track
            assert not top or is_head or lanes.lines_of(0)[1] > 5
            first, _ = lanes.lines_of(0)
            assert top <= first < top + lanes.size.height
            await press(app, pilot, "down")

    play(capture, scene, NARROW)


def test_no_line_is_empty_below_the_last_stream_and_streams_above_are_counted() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(9)
        await settled(app, pilot)
        lanes = app.navigation.timeline.lanes
        assert lanes.scroll_offset.y == lanes.max_scroll_y > 0
        assert lanes.render_line(lanes.size.height - 1).text.strip()
        assert lanes.render_line(0).text.startswith(" vb 9 · 3 streams, 2 more above · ")

    play("tour.pcapng", scene, NARROW)


def test_a_vbucket_that_was_never_opened_has_no_stream() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(528)
        await settled(app, pilot)
        assert " vb 528 · 0 streams · d: time" in screen(app)
        assert "seqno 0" not in screen(app)
        for _ in range(2):
            text = screen(app)
            assert " vb 528 · 0 streams · " in text
            assert " no stream  row 12: none was opened" in text
            assert "no stream of connection 1" in text
            assert "#1" not in text
            assert "  axis " not in text
            await press(app, pilot, "d")
        app.navigation.to_vbucket(0)
        await settled(app, pilot)
        assert " vb 0 · 2 streams · " in screen(app)
        assert "  axis " in screen(app)

    play("upr.pcap", scene, NARROW)


def test_a_narrow_screen_has_the_whole_of_where_other_errors_are() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(0)
        await settled(app, pilot)
        await press(app, pilot, "end", "N", "n", "n")
        words = "no error or warning of these streams after here; there are some before"
        assert words in screen(app)

    play(real_server("v85-consumer-errors"), scene, NARROW)


@pytest.mark.parametrize(
    ("name", "vbucket", "rows"),
    [
        (field("r02-duplicate-collection-ids"), 80, [115, 117, 119, 121]),
        (real_server("replication-60-66"), 3, [576, 577]),
    ],
)
def test_n_goes_to_all_signs_of_the_lanes(name: Path, vbucket: int, rows: list[int]) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(vbucket)
        await settled(app, pilot)
        lanes = lanes_of(app)
        shown = [
            lanes.content.found_at(track, "time") for track in range(len(lanes.content.tracks))
        ]
        await press(app, pilot, "home")
        seen, cells = [], [set[tuple[int, str]]() for _ in shown]
        for key in ["n"] * len(rows) + ["N"] * (len(rows) - 1):
            await press(app, pilot, key)
            seen.append(lanes.chosen_row)
            (row_ns,) = app.inspection.store.numbers([lanes.chosen_row], ("time_ns",))[
                0
            ].values.tolist()
            cells[lanes.stream].add((row_ns - lanes.content.first_ns, "error"))
        assert seen == [*rows, *rows[-2::-1]]
        assert cells == shown
        await press(app, pilot, "n", "e")
        assert app.navigation.findings.row_here == rows[1]
        await press(app, pilot, "backspace", "enter")
        assert app.packets.list.row == rows[1]

    play(name, scene)


def test_a_time_of_vbuckets_opens_lanes_as_high_as_their_items_along_time() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", *["right"] * 10, "enter")
        lanes = app.navigation.timeline.lanes
        assert lanes.axis == "time"
        assert lanes.size.height >= lanes.lines
        await press(app, pilot, "1", "3", "d", "d")
        assert lanes.size.height == lanes.lines

    play("midstream.pcap", scene, NARROW)


def test_a_connection_alone_shows_its_worst_vbucket_in_place_of_one_it_does_not_have() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        app.navigation.to_vbucket(421)
        await settled(app, pilot)
        app.navigation.choose(4)
        await settled(app, pilot)
        assert lanes_of(app).content.vbucket == app.inspection.results.worst_vbucket
        assert lanes_of(app).content.tracks
        await press(app, pilot, "enter")
        assert app.inspection.connection == 4

    play("tour.pcapng", scene)


def test_the_ends_of_the_vbuckets_are_told() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        numbers = app.inspection.results.vbuckets
        for vbucket, key, said in (
            (numbers[-1], "full_stop", "no vbucket with streams after here; there are some before"),
            (numbers[0], "comma", "no vbucket with streams before here; there are some after"),
        ):
            app.navigation.to_vbucket(vbucket)
            await settled(app, pilot)
            await press(app, pilot, key)
            assert said in screen(app)

    play("rollback.pcap", scene, (140, 40))
