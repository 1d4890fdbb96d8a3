from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.vbucket_grid import MEASURES, Cells, heights
from tests.tui.screens import Keys, play, press, screen


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_heights_rise_with_what_they_count(values: list[int]) -> None:
    found = heights(np.array(values, np.int64))
    assert ((found == 0) == (np.array(values) == 0)).all()
    assert found.max() <= 8
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


def test_an_eighth_is_four_times_the_one_below() -> None:
    assert heights(np.array([0, 1, 3, 4, 15, 16, 64, 256, 1024, 4096, 16384])).tolist() == [0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8]


def test_without_streams_there_are_the_vbuckets_of_a_bucket() -> None:
    cells = Cells(None)
    assert cells.count == 1024
    assert all(cells.values(measure).sum() == 0 for measure in MEASURES)


def test_cells_hold_what_the_table_says() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        table = app.inspection.results.records["vbuckets"]
        assert app.grid.cells.values("messages").sum() == sum(table.values("items"))
        for measure in (*MEASURES[1:], MEASURES[0]):
            await press(app, pilot, "d")
            assert measure in screen(app)

    play("rollback.pcap", scene)


def test_arrows_and_clicks_move_the_cursor() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2", "home", "right", "down")
        assert app.grid.vbucket == 65
        await press(app, pilot, "left", "up")
        assert app.grid.vbucket == 0
        await pilot.click("#grid", offset=(5 + 9 + 1, 3))
        assert app.grid.vbucket == 2 * 64 + 9

    play("rollback.pcap", scene)


def test_shares_from_disk_and_silence_are_those_of_the_tables() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        records = app.inspection.results.records
        disk, silent = app.grid.cells.values("from disk"), app.grid.cells.values("silent for")
        rows = list(zip(*(records["snapshots"].values(name) for name in ("vbucket", "type", "items")), strict=True))
        for number in set(records["vbuckets"].values("vbucket")):
            own = [(kind, items) for vbucket, kind, items in rows if vbucket == number]
            total = sum(items for _, items in own)
            assert disk[number] == -(-100 * sum(items for kind, items in own if kind == "disk") // max(total, 1))
        times = records["vbuckets"].values("last_time")
        assert silent.max() == (max(times) - min(times)) // 1_000_000
        assert silent[5] == 0

    play("rollback.pcap", scene)
