from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dcpinspect.output.render.verdict import stood
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.theme import UNICODE
from dcpinspect.tui.vbucket_cells import MEASURES
from dcpinspect.tui.vbucket_map import fitting
from tests.tui.screens import Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_every_measure_says_its_name_and_its_scale() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert "8    ended" in screen(app)
        for measure in [*MEASURES][1:]:
            await press(app, pilot, "d")
            assert measure in app.navigation.vbuckets.map.legend(200).plain
            assert f" {measure}" in screen(app)

    play("rollback.pcap", scene)


def test_where_all_have_one_verdict_the_map_shows_in_what_they_differ() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert app.navigation.vbuckets.map.measure == "verdict"
        assert "1,024" in screen(app)
        results = app.inspection.results
        table = results.records["vbuckets"].with_column("items", NumberColumn(np.arange(1024)))
        app.inspection.take_counts(
            replace(results, records={**results.records, "vbuckets": table}), results
        )
        await settled(app, pilot)
        assert app.navigation.vbuckets.map.measure == "items"
        assert "so shown by" in screen(app)
        await press(app, pilot, "d")
        assert app.navigation.vbuckets.map.measure == "verdict"
        await press(app, pilot, "d", "0")
        assert app.navigation.vbuckets.map.measure == "behind", "what somebody asked for stays"

    play("large.pcapng.gz", scene)


def test_few_vbuckets_say_in_words_what_they_are() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        for number in app.navigation.vbuckets.map.cells.numbers:
            assert f" {number} " in screen(app)
            assert app.navigation.vbuckets.map.cells.state(number).replace("-", " ") in screen(app)

    play("rollback.pcap", scene)


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
        row = dict(cells.by_number[40][0])
        for change, state in (
            ({"behind": 3}, "behind"),
            ({"behind": 0}, "caught-up"),
            ({"gaps": {"unexplained": 1}}, "lost-something"),
            ({"last_seqno": None}, "silent"),
            ({"requested_end": row["last_seqno"]}, "ended"),
        ):
            assert stood({**row, "behind": None, "gaps": {}, **change}) == state

    play("orphans.pcap", scene)


def test_most_first_walks_down_the_measure() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "d", "d")
        values = app.navigation.vbuckets.map.cells.values("items")
        app.navigation.vbuckets.map.move_to(app.navigation.vbuckets.map.hot()[-1])
        seen = []
        for _ in range(3):
            await press(app, pilot, "o")
            seen.append(int(values[app.navigation.vbuckets.map.vbucket]))
        assert seen == sorted(values.tolist(), reverse=True)[:3]

    play("rollback.pcap", scene)
