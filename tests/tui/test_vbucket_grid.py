from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.style import Style

from dcpinspect.protocol.columns import Numbers
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.vbucket_cells import MEASURES
from tests.tui.screens import NARROW, Keys, play, press, screen, settled

pytestmark = pytest.mark.slow


def test_every_measure_says_its_name_and_its_scale() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert "4 ended" in screen(app)
        for measure in [*MEASURES][1:]:
            await press(app, pilot, "d")
            assert measure in app.grid.legend().plain
            assert f" {measure}" in screen(app)

    play("rollback.pcap", scene)


def test_the_scale_is_beside_the_map_and_no_two_steps_of_it_are_alike() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        before = app.grid.layout_of_cells
        await press(app, pilot, "d", "d", "d")
        assert app.grid.layout_of_cells == before, "the map is as large as before, however much there is to say of a measure"
        steps = app.grid.legend().plain.splitlines()[1:]
        assert len({step.split()[1] for step in steps}) == len(steps) > 4
        assert all(step in screen(app) for step in steps)
        await pilot.resize_terminal(*NARROW)
        await press(app, pilot, "end")
        (line,) = [line for line in screen(app).splitlines() if "bytes: " in line]
        assert all(step.split()[1] in line for step in steps), "below a small map they are in one line, without counts"
        assert app.grid.layout_of_cells.lines(1024) <= app.grid.size.height

    play("large.pcapng.gz", scene)


def test_where_all_have_one_verdict_the_map_shows_in_what_they_differ() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert app.grid.measure == "verdict"
        assert "alike in every measure" in screen(app)
        results = app.inspection.results
        table = results.records["vbuckets"].with_column("items", Numbers(np.arange(1024)))
        app.inspection.take(replace(results, records={**results.records, "vbuckets": table}), results)
        await settled(app, pilot)
        assert app.grid.measure == "items"
        assert "1,024 ended, so shown by" in screen(app)
        await press(app, pilot, "d")
        assert app.grid.measure == "verdict"
        await press(app, pilot, "d", "0")
        assert app.grid.measure == "behind", "what somebody asked for stays"
        assert "so shown by items: 0–1.02k items" in screen(app)

    play("large.pcapng.gz", scene)


def test_few_vbuckets_say_in_words_what_they_are() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        for number in app.grid.cells.numbers:
            assert f"vb {number}" in screen(app)
            assert app.grid.cells.verdict(number).replace("-", " ") in screen(app)

    play("rollback.pcap", scene)


def test_arrows_and_clicks_move_the_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "home", "right", "down")
        layout = app.grid.layout_of_cells
        assert app.grid.vbucket == layout.across + 1
        await press(app, pilot, "left", "up")
        assert app.grid.vbucket == 0
        await pilot.click("#grid", offset=(layout.left_of(9), 1 + 2 * layout.high))
        assert app.grid.vbucket == 2 * layout.across + 9
        await press(app, pilot, "end")
        assert app.grid.vbucket == 1023

    play("large.pcapng.gz", scene)


def test_most_first_walks_down_the_measure() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "d", "d")
        values = app.grid.cells.values("items")
        app.grid.move_to(app.grid.hot()[-1])
        seen = []
        for _ in range(3):
            await press(app, pilot, "o")
            seen.append(int(values[app.grid.vbucket]))
        assert seen == sorted(values.tolist(), reverse=True)[:3]

    play("rollback.pcap", scene)


def test_what_changed_is_brighter_for_a_moment() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")

        def look() -> Style:
            (own,) = [one.style for one in app.grid.render_line(1).crop(app.grid.layout_of_cells.left_of(9)).crop(0, 1)]
            assert own is not None
            return own

        before = look()
        app.grid.changed = {9}
        after = look()
        assert before.color is not None
        assert after.color is not None
        assert sum(after.color.get_truecolor()) > sum(before.color.get_truecolor()) + 60
        assert after.underline
        assert after.bgcolor == before.bgcolor

    play("large.pcapng.gz", scene)
