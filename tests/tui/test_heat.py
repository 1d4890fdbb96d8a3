from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.output.render import lanes, verdict
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.tui.heat import (
    CLOSED,
    END,
    ERROR,
    LOSS,
    REQUEST,
    ROLLBACK,
    SEVERITIES,
    SIGNS,
    signs,
)
from dcpinspect.tui.results import Results
from tests.captures import real_server
from tests.output.test_vbucket_heat import counted
from tests.tui.screens import read


def test_what_was_lost_has_a_sign_at_its_time() -> None:
    heat, reading = counted("capture-loss.pcap")
    table = reading.tables.gaps
    lost = [row for row, cause in enumerate(table.values("cause")) if cause == "capture-loss"]
    assert lost
    vbuckets = [table.values("vbucket")[row] for row in lost]
    place_of = np.arange(max(vbuckets) + 1)
    found, *_ = signs(
        heat, Results(records={"gaps": table}), place_of, (len(place_of), heat.used), 1
    )
    assert sorted(set(np.nonzero(found == LOSS)[0].tolist())) == sorted(set(vbuckets))
    assert found.max() == LOSS


def test_only_signs_of_findings_have_colours_of_severities_and_no_letter_has_two_meanings() -> None:
    severities = {PAINTS[SIGNS[sign].paint] for sign in SEVERITIES}
    letters = [sign for sign in SIGNS if sign.glyph]
    assert not severities & {PAINTS[sign.paint] for sign in letters}
    of_verdicts = {letter: word for word, letter in verdict.LETTERS.items()}
    assert {sign.glyph for sign in letters} & {*of_verdicts} == {"E", "N", "R"}
    assert [of_verdicts[letter] for letter in "ENR"] == [verdict.EARLY, "refused", "rolled-back"]
    causes = {letter: word for word, letter in lanes.LETTERS.items()}
    assert all(causes.get(sign.glyph, sign.word) == sign.word for sign in letters)


def test_the_worst_that_happened_wins_a_cell() -> None:
    heat, reading = counted("rollback.pcap")
    place_of = np.full(11, -1)
    place_of[7:11] = 0, 1, -1, 2
    shape = (3, heat.used)
    found, *_ = signs(
        heat,
        Results(records={"streams": reading.tables.streams, "snapshots": reading.tables.snapshots}),
        place_of,
        shape,
        1,
    )
    assert {REQUEST, CLOSED, END, ROLLBACK} <= set(found[0].tolist())
    whole, *_ = signs(
        heat, Results(records={"streams": reading.tables.streams}), place_of, (3, 1), heat.used
    )
    assert whole.tolist() == [[ROLLBACK], [END], [ROLLBACK]]


@pytest.mark.slow
def test_a_stream_is_closed_by_the_first_fin_and_not_with_the_last_packet() -> None:
    with read(real_server("resume-lost")) as inspection:
        results = inspection.results
        heat = results.heat.until(inspection.reading.ends[1])
        cells, times, _ = signs(heat, results, np.arange(4), (4, heat.used), 1)
        links = {link.number: link for link in inspection.reading.links}
    assert links[3].closed_ns < links[3].last_ns
    assert set(times[cells == CLOSED].tolist()) == {links[3].closed_ns, links[4].closed_ns}
    rows, columns = np.nonzero(cells == CLOSED)
    spans = (times[rows, columns] - heat.start_ns) // heat.span_ns
    assert spans.tolist() == columns.tolist()


@pytest.mark.slow
def test_a_request_that_was_not_captured_has_no_sign() -> None:
    with read("midstream.pcap") as inspection:
        heat, results = inspection.results.heat, inspection.results
        assert {*results.records["streams"].values("requested_start")} == {None}
        numbers = np.arange(max(results.vbuckets) + 1)
        found, *_ = signs(heat, results, numbers, (len(numbers), heat.used), 1)
    assert heat.counts.any()
    assert not (found == REQUEST).any()


def test_an_error_of_a_vbucket_wins_over_all_that_happened() -> None:
    with read("orphans.pcap") as inspection:
        results = inspection.results
        numbers = np.arange(49)
        place_of = np.where(numbers < 40, -1, numbers - 40)
        found, *_ = signs(results.heat, results, place_of, (9, results.heat.used), 1)
    assert found.max() == ERROR
    assert sorted(set(np.nonzero(found == ERROR)[0].tolist())) == [2, 5, 8]
