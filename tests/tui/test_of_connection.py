from __future__ import annotations

from collections import Counter

import pytest

from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.of_connection import counted, filter_of, of_connection
from tests.tui.screens import SAMPLES


@pytest.fixture(scope="module")
def inspection():  # type: ignore[no-untyped-def]
    one = Inspection([str(SAMPLES / "tour.pcapng")])
    one.load(lambda: None)
    yield one
    one.close()


def test_connections_add_up_to_everything(inspection: Inspection) -> None:
    everything = inspection.everything
    found = [
        of_connection(everything, number)
        for number in everything.records["connections"].values("connection")
    ]
    for name in ("streams", "snapshots", "gaps", "rollbacks", "connections"):
        assert sum(len(one.records[name]) for one in found) == len(everything.records[name])
    assert sum(one.looked.messages for one in found if one.looked) == inspection.store.rows
    assert {finding.id for one in found for finding in one.findings} == {
        finding.id for finding in everything.findings
    }
    assert all(
        number in one.connections for number, each in enumerate(found, 1) for one in each.findings
    )
    for one in found:
        assert all(one.marked.finding_numbers(row) for row in one.marked.rows.tolist())


def test_its_messages_are_counted(inspection: Inspection) -> None:
    commands: Counter[tuple[str, str]] = Counter()
    items = 0
    for number in inspection.everything.records["connections"].values("connection"):
        alone = of_connection(inspection.everything, number)
        assert not alone.charts.commands
        found = counted(inspection.store, alone, lambda _: True)
        assert found is not None
        own = {
            (row["name"], row["side"]): row["count"]
            for row in found.statistics
            if row["section"] == "commands"
        }
        assert sum(own.values()) == len(inspection.store.matching(FilterRows(filter_of(number))))
        commands.update(own)
        assert found.charts.used
        assert {one[0] for one in (*found.charts.round_trips, *found.charts.noops)} == {number}
        whole = [
            one[3].max() for one in inspection.everything.charts.round_trips if one[0] == number
        ]
        assert [one[3].max() for one in found.charts.round_trips] == whole
        assert not alone.heat.used
        items += int(found.heat.counts.sum())
    assert commands == Counter(
        {
            (row["name"], row["side"]): row["count"]
            for row in inspection.everything.statistics
            if row["section"] == "commands"
        }
    )
    assert items == inspection.everything.heat.counts.sum()
    assert (
        counted(inspection.store, of_connection(inspection.everything, 1), lambda _: False) is None
    )


def test_what_is_counted_too_late_is_not_shown(inspection: Inspection) -> None:
    inspection.choose(2)
    before = inspection.results
    found = counted(inspection.store, before, lambda _: True)
    assert found is not None
    inspection.choose(3)
    inspection.take_counts(found, before)
    assert inspection.results.connection == 3
    inspection.choose(None)
    assert inspection.results is inspection.everything
