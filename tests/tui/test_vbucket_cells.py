from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.output.render.verdict import LETTERS
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.theme import UNICODE
from dcpinspect.tui.vbucket_cells import LEAST, MEASURES, STATES, Cells, edges, in_words, levels
from tests.tui.screens import Keys, play, press


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_levels_rise_with_what_they_count(values: list[int]) -> None:
    counted = np.array(values, np.int64)
    found = levels(counted, edges(counted, "items"))
    assert ((found == 0) == (counted == 0)).all()
    assert (found <= 8).all()
    assert (np.diff(found[np.argsort(counted, kind="stable")]) >= 0).all()
    assert not counted.any() or found.max() == 8


def test_values_that_are_close_together_have_different_levels() -> None:
    counted = np.arange(1_000_000, 1_000_800)
    assert np.bincount(levels(counted, edges(counted, "items")), minlength=9).tolist() == [
        0,
        *[100] * 8,
    ]


def test_one_value_far_from_the_others_leaves_them_apart() -> None:
    counted = np.array([*range(1, 64), 10**15])
    assert len(set(levels(counted, edges(counted, "bytes")).tolist())) == 8


def test_shares_have_equal_steps() -> None:
    counted = np.array([0, 1, 12, 13, 50, 88, 100])
    assert levels(counted, edges(counted, "from disk")).tolist() == [0, 1, 1, 2, 5, 8, 8]


def test_without_streams_there_are_the_vbuckets_of_a_bucket() -> None:
    cells = Cells(None)
    assert cells.numbers == list(range(LEAST))
    assert all(cells.values(measure).sum() == 0 for measure in MEASURES)


def test_letters_are_for_verdicts_that_are_no_good_news() -> None:
    assert set(LETTERS) < set(STATES)
    assert len(set(LETTERS.values())) == len(LETTERS)
    assert not {"caught-up", "advancing", "ended"} & set(LETTERS)


def test_cells_hold_what_the_tables_say() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        records, cells = app.inspection.results.records, app.navigation.vbuckets.map.cells
        table = records["vbuckets"]
        assert cells.numbers == sorted(set(table.values("vbucket")))
        for measure in ("items", "bytes", "rollbacks", "snapshots"):
            assert cells.values(measure).sum() == sum(table.values(measure))
        assert sum(count for _, _, count, _ in cells.entries(UNICODE)) == len(cells.numbers)
        disk, heard = cells.values("from disk"), cells.values("last heard")
        rows = list(
            zip(
                *(records["snapshots"].values(name) for name in ("vbucket", "type", "items")),
                strict=True,
            )
        )
        for number in cells.numbers:
            own = [(kind, items) for vbucket, kind, items in rows if vbucket == number]
            total = sum(items for _, items in own)
            assert disk[number] == -(
                -100 * sum(items for kind, items in own if kind == "disk") // max(total, 1)
            )
        times = table.values("last_time")
        assert heard.max() == (max(times) - min(times)) // 1_000_000
        assert heard[5] == 0

    play("rollback.pcap", scene)


def test_what_a_cell_has_is_told_in_words() -> None:
    assert [in_words(count, "items") for count in (0, 1, 2)] == ["0 items", "1 item", "2 items"]
    assert in_words(1, "last heard") == "1 ms"
    assert in_words(0, "gaps") == "0 lost or unexplained", (
        "of a vbucket that has gaps of other causes"
    )
