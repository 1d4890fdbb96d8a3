from __future__ import annotations

import pytest

from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.single_connection import of_connection
from tests.tui.screens import SAMPLES


@pytest.fixture(scope="module")
def inspection():  # type: ignore[no-untyped-def]
    one = Inspection([str(SAMPLES / "tour.pcapng")])
    one.load()
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
