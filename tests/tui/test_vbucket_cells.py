from __future__ import annotations

from dcpinspect.output.render.verdict import LETTERS
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.theme import UNICODE
from dcpinspect.tui.vbucket_cells import LEAST, STATES, Cells
from tests.tui.screens import Keys, play, press


def test_without_streams_there_are_the_vbuckets_of_a_bucket() -> None:
    cells = Cells(None)
    assert cells.numbers == list(range(LEAST))
    assert cells.entries(UNICODE) == []


def test_letters_are_for_verdicts_that_are_no_good_news() -> None:
    assert set(LETTERS) < set(STATES)
    assert len(set(LETTERS.values())) == len(LETTERS)
    assert not {"caught-up", "advancing", "ended"} & set(LETTERS)


def test_cells_hold_what_the_tables_say() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "2")
        cells = app.navigation.vbuckets.map.cells
        table = app.inspection.results.records["vbuckets"]
        assert cells.numbers == sorted(set(table.values("vbucket")))
        assert sum(count for _, _, count, _ in cells.entries(UNICODE)) == len(cells.numbers)
        rank = {number: cells.rank(number) for number in cells.numbers}
        assert sorted(rank, key=rank.__getitem__)[-3:] == [42, 45, 48], "those with an error"
        assert cells.rank(1000) == 0, "nobody requested it"

    play("orphans.pcap", scene)
