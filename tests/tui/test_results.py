from __future__ import annotations

from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.results import Results
from tests.tui.screens import SAMPLES


def test_nothing_is_known_before_reading() -> None:
    assert Results().finding(1) is None
    assert Results().marked.finding_numbers(1) == []
    assert Results().vbuckets == []


def test_a_row_has_the_worst_that_it_shows() -> None:
    inspection = Inspection([str(SAMPLES / "orphans.pcap")])
    inspection.load()
    results = inspection.results
    (row,) = {
        place.row
        for one in results.findings
        if one.rule == "rollback-not-followed"
        for place in one.places[:1]
    }
    worst = results.finding(row)
    assert worst is not None
    assert worst.severity == "error"
    assert results.vbuckets == list(range(40, 49))
    inspection.close()
