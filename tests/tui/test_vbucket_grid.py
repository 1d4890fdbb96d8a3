from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.vbucket_cells import MEASURES
from dcpinspect.tui.vbucket_grid import Layout, fitting
from tests.tui.screens import Keys, play, press, screen


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(80, 17, Layout(64, 1, 1)), (80, 33, Layout(32, 2, 1)), (160, 46, Layout(64, 2, 2)), (300, 70, Layout(64, 4, 4))],
)
def test_a_bucket_fills_the_room_there_is(width: int, height: int, expected: Layout) -> None:
    found = fitting(1024, width, height, is_few=False)
    assert found == expected
    assert found.columns <= width
    assert found.lines(1024) <= height


@given(st.integers(1, 64), st.integers(30, 300), st.integers(10, 80))
def test_the_cells_of_few_vbuckets_are_as_wide_as_the_screen_at_most(count: int, width: int, height: int) -> None:
    found = fitting(count, width, height, is_few=True)
    if found.is_cards:
        assert found.columns <= width
        assert found.lines(count) <= height + 1


def test_every_measure_says_its_name_and_its_scale() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        assert "4 ended" in screen(app)
        for measure in [*MEASURES][1:]:
            await press(app, pilot, "d")
            assert measure in app.grid.legend().plain
            assert f" {measure}" in screen(app)

    play("rollback.pcap", scene)


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
