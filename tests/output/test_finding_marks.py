from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.output.finding_marks import FindingMarks
from dcpinspect.tui.tracks import tracks_of
from dcpinspect.tui.vbucket_cells import Cells
from tests.captures import field, real_server
from tests.tui.screens import SAMPLES, read

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "capture",
    [
        *map(real_server, ("noop-timeout", "6.6.5-dcp", "tcp-window-zero", "end-reasons")),
        *map(real_server, ("6.0.5-dcp1", "name-clash-dup")),
        field("p06-zero-window"),
        SAMPLES / "loop.pcap",
        SAMPLES / "orphans.pcap",
    ],
    ids=lambda path: path.name,
)
def test_a_vbucket_has_the_errors_and_warnings_of_its_timeline(capture: Path) -> None:
    with read(capture) as inspection:
        results = inspection.results
        cells, causes = Cells(results), {one.id for one in results.findings if not one.effect_of}
        for vbucket in results.vbuckets:
            events = tracks_of(inspection, vbucket).events
            told = {one.finding for one in events if one.finding is not None}
            known = {
                number
                for number in results.findings_of(vbucket)
                if results.findings[number].severity != "note"
            }
            assert told <= known
            assert {number for number in known if results.findings[number].id in causes} <= told
            severities = {one.event.severity for one in events if one.event.cause is None}
            worst = next((one for one in ("error", "warning") if one in severities), None)
            assert cells.severities[vbucket] == worst


def test_each_message_that_shows_an_error_is_there_with_its_time_and_each_case_when_it_began() -> (
    None
):
    with read(field("r02-duplicate-collection-ids")) as inspection:
        marks = inspection.results.finding_marks
        errors = marks.where(marks.row > 0)
        (times,) = inspection.store.numbers(errors.row, ("time_ns",))
    assert errors.row.tolist() == [115, 117, 119, 121]
    assert errors.time_ns.tolist() == times.values.tolist()
    assert {*marks.vbucket.tolist()} == {80}
    begun = marks.where(marks.row == 0)
    assert begun.time_ns.tolist() == errors.time_ns.tolist()[:1]
    assert [*marks.by_severity] == ["error"]


def test_each_repeat_of_an_error_is_there() -> None:
    with read(field("p03-no-bucket-selected")) as inspection:
        [refused, _] = inspection.results.findings
        marks = inspection.results.finding_marks
    assert (refused.rule, refused.count) == ("bucket-refused", 7)
    errors = marks.where((marks.row > 0) & (marks.is_error == 1))
    assert errors.row.tolist() == [10, 12, 14, 16, 18, 20, 22]


def test_what_is_of_a_connection_is_of_each_vbucket_that_it_carries_then() -> None:
    with read(real_server("noop-timeout")) as inspection:
        marks = inspection.results.finding_marks
    assert {*marks.where(marks.row == 0).vbucket.tolist()} == {0}
    assert {*marks.where(marks.row > 0).vbucket.tolist()} == {-1}


def test_what_is_of_a_connection_is_not_of_a_vbucket_that_it_refused() -> None:
    with read(real_server("name-clash-dup")) as inspection:
        results = inspection.results
        rules = {
            vbucket: {results.findings[number].rule for number in results.findings_of(vbucket)}
            for vbucket in (1, 50, 2000)
        }
    assert {"over-acknowledged", "name-clash"} <= rules[1]
    assert rules[50] == rules[2000] == {"stream-refused"}


def test_nothing_happened_in_an_empty_capture() -> None:
    assert not len(FindingMarks().row)
    assert FindingMarks().where(np.zeros(0, np.bool_)).by_severity == {}
