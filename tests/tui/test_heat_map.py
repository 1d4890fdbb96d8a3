from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from rich.style import Style

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.heat import CLOSED, ERROR
from dcpinspect.tui.heat_map import HeatForm, HeatMap, fitting
from tests.captures import field, real_server
from tests.findings.test_history_rules import recreated
from tests.streams.told import capture
from tests.tui.screens import NARROW, SAMPLES, WIDE, Keys, lanes_of, play, press, screen, settled

pytestmark = pytest.mark.slow


async def to_heat(app: InspectApp, pilot: Keys) -> None:
    await press(app, pilot, "2")
    while app.navigation.vbuckets.form != "heat":
        await press(app, pilot, "vertical_line")


def fullest(heat: HeatMap) -> int:
    """The cell that has most."""
    row, column = divmod(int(heat.amounts.argmax()), heat.amounts.shape[1])
    return row * heat.across + 1 + column


@pytest.mark.parametrize(
    ("count", "lines", "expected"),
    [
        (4, 30, HeatForm(1, 7)),
        (30, 30, HeatForm(1, 1)),
        (40, 30, HeatForm(2)),
        (1024, 30, HeatForm(36)),
    ],
)
def test_all_vbuckets_fit(count: int, lines: int, expected: HeatForm) -> None:
    assert fitting(count, lines) == expected


def test_enter_leads_to_the_timeline_of_the_vbucket_at_this_time_and_back_to_the_cell() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat = app.navigation.vbuckets.heat
        heat.set_cursor(fullest(heat))
        vbucket, span, place = heat.vbucket, heat.span, (heat.row, heat.column)
        assert heat.amounts[place] == heat.amounts.max()
        await press(app, pilot, "enter")
        assert (
            app.view,
            lanes_of(app).content.vbucket,
            lanes_of(app).axis,
        ) == ("timeline", vbucket, "time")
        assert span[0] <= lanes_of(app).at <= span[1]
        assert "items, seqnos" in lanes_of(app).spoken()
        await press(app, pilot, "1", "backspace", "backspace")
        assert (app.view, app.navigation.vbuckets.form, (heat.row, heat.column)) == (
            "vbuckets",
            "heat",
            place,
        )

    play("rollback.pcap", scene)


def test_enter_on_a_letter_leads_to_what_it_stands_for() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, lanes = app.navigation.vbuckets.heat, lanes_of(app)
        heat.set_cursor(1 + int(np.argmax(heat._signs[0] == CLOSED)))
        assert heat.spoken().endswith("connection closed")
        await press(app, pilot, "enter")
        event = app.navigation.timeline.events.event
        assert event is not None
        assert (event.event.kind, lanes.at) == ("connection-closed", event.time)

    play(real_server("resume-lost"), scene, NARROW)


def test_the_sign_of_a_bad_request_stands_before_the_items() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert "█ 43   caught-up Q▁ " in screen(app)
        assert "! 44   caught-up !▇ " in screen(app)

    play(field("r06-now-missing-vbucket"), scene, NARROW)


def test_letters_before_a_vbucket_have_their_own_meaning_in_the_legend() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert "R rollback   R before a vb: ended after a rollback" in screen(app)

    play("rollback.pcap", scene, NARROW)


def test_what_is_at_the_cursor_is_spelt_out() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, told = app.navigation.vbuckets.heat, list[str]()
        for place in range(1, heat.across):
            heat.set_cursor(place)
            told.append(heat.spoken())
        for word in ("request", "rollback", "stream end", "connection closed"):
            assert any(line.endswith(f" · {word}") for line in told), word
        assert all(line.startswith("vb 7 · ") and " from 0.0" in line for line in told)
        assert heat.heading().startswith("items of 4 vbuckets over time")

    play("rollback.pcap", scene)


def test_a_row_begins_with_how_its_vbucket_stands_and_enter_there_asks_for_no_time() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        heat, view = app.navigation.vbuckets.heat, app.navigation.vbuckets
        assert (view.form, heat.vbucket, heat.since_ns) == ("heat", 48, None), "the worst"
        rows = [line.split()[:3] for line in screen(app).splitlines()[4:21:2]]
        assert rows[2:4] == [["✖", "42", "orphaned"], ["■", "43", "ended"]]
        assert rows[8][:2] == ["✖", "48"]
        assert heat.spoken() == ""
        assert "vb 48  10.11.0.1 consumer · rolled-back\n" in re.sub(r" *\n", "\n", screen(app))
        await press(app, pilot, "right")
        assert heat.since_ns is not None
        assert heat.spoken().endswith(" · error")
        await press(app, pilot, "left", "up", "enter")
        assert (app.view, lanes_of(app).content.vbucket, lanes_of(app).axis) == (
            "timeline",
            47,
            "seqno",
        )
        await press(app, pilot, "backspace")
        spot = view.spot()
        assert (view.form, spot.vbucket, spot.since_ns) == ("heat", 47, None)

    play("orphans.pcap", scene)


def test_the_label_of_a_tall_row_stands_in_the_line_of_its_letters() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat = app.navigation.vbuckets.heat
        assert heat.form.high > 1
        high, numbers = heat.form.high, [7, 8, 9, 10]
        for line in range(high * len(numbers)):
            text = heat.render_line(heat.HEAD + line).text
            is_last = line % high == high - 1
            assert text[2:14].split() == ([str(numbers[line // high]), "ended"] if is_last else [])
            assert ("Q" in text, "C" in text, "E" in text) == (is_last,) * 3

    play("rollback.pcap", scene)


def test_a_bar_is_as_high_as_its_share_in_the_greatest() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, blocks = app.navigation.vbuckets.heat, " " + app.glyphs.blocks
        high, most = heat.form.high, heat.amounts.max()
        assert high > 1
        seen = 0
        for row, amounts in enumerate(heat.amounts.tolist()):
            lines = [heat.render_line(heat.HEAD + row * high + line).text for line in range(high)]
            for column, amount in enumerate(amounts):
                *bar, below = [line[heat._label_width + column * heat._wide] for line in lines]
                eighths = sum(blocks.index(glyph) for glyph in bar)
                assert eighths == -(-(8 * (high - 1) - 1) * amount // most)
                assert below not in blocks[1:]  # signs hide no item
                seen += amount > 0
        assert seen > 10
        assert f"at most {most} a cell" in screen(app)

    play("rollback.pcap", scene)


@pytest.mark.parametrize(
    "capture",
    [*(SAMPLES / name for name in ("orphans.pcap", "tour.pcapng")), real_server("6.0.5-dcp1")],
    ids=lambda path: path.name,
)
def test_a_letter_in_a_row_of_one_line_stands_beside_items_in_the_order_of_time(
    capture: Path,
) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, drawn = app.navigation.vbuckets.heat, set[str]()
        assert (heat.form.high, heat._wide) == (1, 2)
        for row, amounts in enumerate(heat.amounts):
            bars = "".join(text for text, _ in heat._bars(row, 0, Style()))
            cells = [bars[column : column + 2] for column in range(0, len(bars), 2)]
            assert [bool({*cell} & {*app.glyphs.blocks}) for cell in cells] == (
                amounts > 0
            ).tolist(), "no letter hides them"
            drawn |= {
                cell.translate(dict.fromkeys(map(ord, app.glyphs.blocks), "#")) for cell in cells
            }
        assert drawn <= {
            "  ",
            "##",
            *(f"{sign}{one}" for one in "# " for sign in "Q✖!"),
            *(f"{one}{sign}" for one in "# " for sign in "ECNR✖!"),
        }
        assert "#E" in drawn or "Q#" in drawn

    play(capture, scene, NARROW)


def test_each_message_that_shows_an_error_is_marked_and_enter_leads_to_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, view = app.navigation.vbuckets.heat, app.navigation.vbuckets
        view.move_to(80)
        columns = np.flatnonzero(heat._signs[heat.row] == ERROR).tolist()
        assert len(columns) == 4
        for column, row in zip(columns, (115, 117, 119, 121), strict=True):
            heat.set_cursor(heat.row * heat.across + 1 + column)
            await press(app, pilot, "enter")
            timeline = app.navigation.timeline
            event = timeline.events.event
            assert event is not None
            assert (event.row, timeline.lanes.chosen_row) == (row, row)
            assert timeline.lanes.track is not None
            assert timeline.lanes.track.first_row == row
            assert {
                severity for _, severity in timeline.lanes.content.found_at(event.track, "time")
            } == {"error"}
            await press(app, pilot, "backspace")

    play(field("r02-duplicate-collection-ids"), scene, (100, 30))


def test_enter_on_a_time_without_anything_leads_to_what_is_nearest() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        view = app.navigation.vbuckets
        view.move_to(28, 290_000_000)
        await press(app, pilot, "enter")
        assert lanes_of(app).at < 20_000_000, "the request, not what came after 1.2 s"

    play(field("r02-duplicate-collection-ids"), scene, (100, 30))


def test_a_time_before_all_streams_leaves_them_in_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "right", "enter")
        assert (app.view, lanes_of(app).content.vbucket, lanes_of(app).axis) == (
            "timeline",
            48,
            "time",
        )
        scale, shape = lanes_of(app).scale, lanes_of(app).content.tracks[0].shapes["time"]
        assert shape.begin is not None
        assert scale.first <= shape.begin <= scale.last

    play("orphans.pcap", scene)


def test_many_vbuckets_share_lines_and_enter_opens_the_one_that_has_most() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat = app.navigation.vbuckets.heat
        assert heat.form.together > 1
        heat.set_cursor(fullest(heat))
        first, last = heat.groups[heat.row]
        vbucket = heat.vbucket
        assert vbucket is not None
        assert first <= vbucket <= last
        await press(app, pilot, "enter")
        assert lanes_of(app).content.vbucket == vbucket

    play("large.pcapng.gz", scene, size=(80, 24))


def test_of_vbuckets_that_share_a_line_the_worst_is_told_with_its_finding(tmp_path: Path) -> None:
    path = tmp_path / "recreated.pcap"
    path.write_bytes(capture(recreated(100)))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat = app.navigation.vbuckets.heat
        first, last = heat.groups[heat.row]
        assert first < last
        assert f"vb {heat.vbucket}  10." in screen(app)
        assert "! no-common-history: " in screen(app)

    play(path, scene, size=(80, 24))


def test_of_vbuckets_that_share_a_line_the_one_from_the_map_is_opened() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        app.navigation.vbuckets.map.move_to(500)
        await press(app, pilot, "vertical_line")
        assert "vb 500  10." in screen(app)
        await press(app, pilot, "3")
        assert lanes_of(app).content.vbucket == 500

    play("large.pcapng.gz", scene, size=(80, 24))


@pytest.mark.parametrize("is_ascii", [False, True])
def test_every_line_is_as_wide_as_the_view(is_ascii: bool) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        for size in (WIDE, (1, 5), (30, 9), (300, 80)):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
            for line in range(app.navigation.vbuckets.heat.size.height):
                assert (
                    app.navigation.vbuckets.heat.render_line(line).cell_length
                    == app.navigation.vbuckets.heat.size.width
                )

    play("loop.pcap", scene, is_ascii=is_ascii)


def test_the_time_ends_with_the_last_packet_not_with_the_last_message() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat, ends = app.navigation.vbuckets.heat, app.inspection.reading.ends
        columns = np.flatnonzero(heat.amounts.sum(axis=0))
        assert columns[-1] <= heat.across // 50, "what came in 0.8 s of 66 s stands at the left"
        await press(app, pilot, "end")
        assert heat.span[0] <= ends[1] - ends[0] <= heat.span[1]

    play(field("p06-zero-window"), scene)


def test_the_cursor_leaves_signs_of_errors_their_colour() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await to_heat(app, pilot)
        heat = app.navigation.vbuckets.heat
        row, column = (int(places[0]) for places in np.nonzero(heat._signs == ERROR))
        strips = []
        for place in (0, row * heat.across + 1 + column):
            heat.set_cursor(place)
            line = heat.HEAD + (row + 1) * heat.form.high - 1 - int(heat.scroll_offset.y)
            strips.append([one for one in heat.render_line(line) if "✖" in one.text][-1].style)
        assert strips[0] == strips[1]

    play(real_server("coll-filter"), scene)
