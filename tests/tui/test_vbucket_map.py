from __future__ import annotations

import pytest

from dcpinspect.tui import theme
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.theme import UNICODE
from dcpinspect.tui.vbucket_map import fitting
from tests.captures import field
from tests.tui.screens import NARROW, Keys, play, press, screen

pytestmark = pytest.mark.slow


def test_few_vbuckets_say_in_words_what_they_are() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        for number in app.navigation.vbuckets.map.cells.numbers:
            assert f" {number} " in screen(app)
            words = app.navigation.vbuckets.map.cells.words(number)
            assert words.removesuffix(" after a rollback") in screen(app)

    play("rollback.pcap", scene)


def test_few_vbuckets_that_do_not_fit_stand_with_the_worst_first() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        overview = app.navigation.overview
        vbucket_map, lines = overview.map, screen(app).splitlines()
        assert vbucket_map.virtual_size.height > vbucket_map.size.height
        title = next(cell for cell, line in enumerate(lines) if "vbuckets, the worst" in line)
        seen = " ".join(lines[title + 1 : title + 1 + vbucket_map.size.height])
        assert "✖ 9 " in seen
        assert "✖ 421 " in seen
        assert vbucket_map.vbucket == 421
        vbucket_map.move_to(47)
        assert vbucket_map.vbucket == 100, "the next that is shown"
        vbucket_map.set_cursor(0)
        cell = vbucket_map.next_place(vbucket_map.is_bad)
        assert cell is not None
        vbucket_map.set_cursor(cell)
        assert vbucket_map.is_bad(vbucket_map.at)

    play("tour.pcapng", scene, NARROW)


def test_part_of_a_bucket_is_seen_at_a_glance_with_what_was_rolled_back() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "0")
        vbucket_map = app.navigation.overview.map
        assert vbucket_map.form.lines(vbucket_map.count) == vbucket_map.size.height == 3
        line = next(line for line in screen(app).splitlines() if line.startswith("  96 "))
        assert line.index("R") == vbucket_map.form.left_of(117 - 96)
        assert "R 1 caught-up after a rollback   █ 63 caught-up" in screen(app)
        await press(app, pilot, "2")
        view = app.navigation.vbuckets
        assert (view.form, view.vbucket_here) == ("map", 117)
        await press(app, pilot, "vertical_line")
        assert (view.form, view.vbucket_here) == ("heat", 117)
        assert "R 117  caught-up " in screen(app)

    play(field("z-dnat-p05-one-rollback-reopens-all"), scene, NARROW)


def test_arrows_and_clicks_move_the_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "home", "right", "down")
        form = app.navigation.vbuckets.map.form
        assert (form.each, app.navigation.vbuckets.map.vbucket) == (1, form.across + 1)
        await press(app, pilot, "left", "up")
        assert app.navigation.vbuckets.map.vbucket == 0
        await pilot.click("#map", offset=(form.left_of(9), 2 * form.high))
        assert app.navigation.vbuckets.map.vbucket == 2 * form.across + 9
        await press(app, pilot, "end")
        assert app.navigation.vbuckets.map.vbucket == 1023

    play("large.pcapng.gz", scene)


def test_cells_have_gaps_and_are_larger_where_there_is_room() -> None:
    for width, height in ((80, 18), (80, 33), (160, 46), (300, 60)):
        form = fitting(1024, width, height)
        assert form.each == 1
        assert form.left_of(form.across - 1) + form.wide <= width
        assert form.lines(1024) <= height
    assert fitting(1024, 160, 46).wide > 1
    assert fitting(1024, 60, 8).each > 1, "a small map shares cells"


def test_severity_wins_the_colour_and_a_close_at_the_end_hides_nothing() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        cells = app.navigation.vbuckets.map.cells
        marks = {number: cells.mark(number, UNICODE) for number in cells.numbers}
        assert {
            number
            for number, (sign, paint) in marks.items()
            if (sign, paint) == ("✖", "severity-error")
        } == {42, 45, 48}
        assert all(f"✖ {number}   " in screen(app) for number in (42, 45, 48))

    play("orphans.pcap", scene)


def test_the_cursor_is_seen_in_a_map_of_one_column_cells() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        vbucket_map = app.navigation.vbuckets.map
        await press(app, pilot, "home", "down", "right")
        assert (vbucket_map.form.wide, vbucket_map.vbucket) == (1, vbucket_map.across + 1)
        for severity in (None, "error"):
            vbucket_map.cells.severities = dict.fromkeys(vbucket_map.cells.by_number, severity)
            line = [
                (letter, segment.style)
                for segment in vbucket_map.render_line(1)
                for letter in segment.text
            ]
            assert "".join(letter for letter, _ in line[:5]).split() == [str(vbucket_map.across)]
            assert line[6][0] == line[5][0], "the sign stays"
            cursor = [style for _, style in line if style == line[6][1]]
            assert len(cursor) == 1, "no other cell looks like that of the cursor"
        red = theme.style_of(app, "severity-error").color
        assert cursor[0] is not None
        assert cursor[0].bgcolor == red, "the cursor does not take the colour of an error"

    play("large.pcapng.gz", scene, NARROW)
