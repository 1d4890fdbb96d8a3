from __future__ import annotations

import re

from dcpinspect.output.render.verdict import LETTERS
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.heat import END, SIGNS
from dcpinspect.tui.results import Results
from dcpinspect.tui.theme import UNICODE
from dcpinspect.tui.vbucket_cells import LEAST, STATES, Cells
from tests.captures import real_server
from tests.tui.screens import NARROW, SAMPLES, Keys, play, press, read, screen


def test_without_streams_there_are_the_vbuckets_of_a_bucket() -> None:
    cells = Cells(Results())
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


def test_the_worst_vbucket_is_that_of_the_worst_finding() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        assert app.inspection.results.worst_vbucket == 421
        assert re.search(r"✖ 421 .*✖ 9 ", screen(app))
        await press(app, pilot, "2")
        view = app.navigation.vbuckets
        assert view.vbucket_here == 421
        assert " 2 more above · " in screen(app)
        await press(app, pilot, "n")
        assert view.vbucket_here == 9, "errors come before warnings"
        for number in (419, 423, 420, 1023, 1023):
            await press(app, pilot, "n")
            assert view.vbucket_here == number, "as the list of findings has them"
        words = "no vbucket with an error or a warning after here; there are some before"
        assert words in screen(app)
        await press(app, pilot, "home")
        assert " more above" not in screen(app)

    play("tour.pcapng", scene, NARROW)


def test_a_vbucket_that_was_ended_unasked_has_a_sign_and_says_why() -> None:
    async def scene(app: InspectApp, _: Keys) -> None:
        cells = app.navigation.overview.map.cells
        assert cells.words(417) == "ended: state-changed"
        assert cells.mark(417, UNICODE) == ("E", SIGNS[END].paint), "as over time"
        assert "E 417  state-changed" in screen(app)
        assert (cells.words(5), cells.mark(5, UNICODE)[0]) == ("ended", "■"), "it came to its end"
        assert cells.rank(417) > cells.rank(5)

    play("tour.pcapng", scene)


def test_a_vbucket_whose_connection_the_server_closed_was_ended_unasked() -> None:
    capture = SAMPLES / "../tests/captures/real-server/end-reasons.pcap.gz"
    with read(capture) as inspection:
        cells = Cells(inspection.results)
    assert (cells.words(5), cells.mark(5, UNICODE)[0]) == ("ended: connection-closed", "E")
    assert (cells.words(4), cells.mark(4, UNICODE)[0]) == ("ended", "■"), "its client closed it"


def test_a_connection_that_the_server_closed_ended_what_was_rolled_back_or_asked_for_twice() -> (
    None
):
    with read(real_server("6.0.5-dcp1")) as inspection:
        cells = Cells(inspection.results)
    words = [cells.words(vbucket) for vbucket in (0, 1, 3)]
    assert words == [*["ended: connection-closed"] * 2, "ended: connection-closed after a rollback"]
    assert cells.short_words(3) == "connection-closed"
    assert cells.words(9) == "refused"
