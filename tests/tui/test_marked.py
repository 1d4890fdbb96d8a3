from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.marked import Marked, rows_of
from dcpinspect.tui.row_index import RowIndex
from tests.findings.test_history import recreated
from tests.streams.told import capture, opened
from tests.tui.screens import SAMPLES, Keys, play, press, screen, settled


def all_rows(last: int) -> RowIndex:
    index = RowIndex()
    index.grow(1, last)
    return index


@pytest.fixture
def inspection() -> Inspection:
    found = Inspection([str(SAMPLES / "loop.pcap")])
    found.load(lambda: None)
    found.close()
    return found


def test_bad_rows_are_walked_in_both_directions(inspection: Inspection) -> None:
    results, index = inspection.results, all_rows(inspection.results.rows)
    rows, row = [], 0
    while (found := results.marked.next_bad(row, index)) is not None:
        rows.append(row := found)
    assert rows == results.marked.bad.tolist() != []
    assert all(results.severity(row) in ("error", "warning") for row in rows)
    assert results.marked.next_bad(rows[1], index, back=True) == rows[0]
    assert results.marked.next_bad(rows[0], index, back=True) is None


def test_only_rows_of_the_list_are_walked(inspection: Inspection) -> None:
    marked = inspection.results.marked
    index, bad = RowIndex(is_filtered=True), marked.bad
    index.append(np.array([*range(1, int(bad[2])), *bad[3:5]], np.uint32), 1000)
    assert marked.next_bad(int(bad[1]), index) == bad[3]
    assert marked.next_bad(int(bad[4]), index, back=True) == bad[3]
    assert marked.next_bad(int(bad[4]), index) is None
    assert marked.next_bad(0, RowIndex(is_filtered=True)) is None


def test_each_finding_of_a_row_is_told_the_worst_first(inspection: Inspection) -> None:
    findings = inspection.results.findings
    told = {row: [number for number, one in enumerate(findings) if row in rows_of(one)] for row in range(1, inspection.results.rows + 1)}
    marked = Marked(findings)
    assert {row: marked.of(row) for row in told} == told
    assert max(map(len, told.values())) > 1


def faulty(folder: Path) -> Path:
    """Eight faults of one kind on vbucket 7, each alike, and as many on vbucket 8."""
    talk = opened()
    for vbucket in (7, 8):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 30, "memory")
        for seqno in range(1, 9):
            stream.send("dcp_mutation", cas=0, datatype=0, collection=0 if talk.collections else None, key="a", value=b"", by_seqno=seqno)
    path = folder / "faulty.pcap"
    path.write_bytes(capture(talk))
    return path


def test_each_of_many_like_faults_is_marked(tmp_path: Path) -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        (one,) = [one for one in app.inspection.results.findings if one.rule == "cas-zero"]
        rows = sorted(rows_of(one).tolist())
        assert one.count == len(rows) == 16
        seen = list[int]()
        await press(app, pilot, "1")
        while not seen or app.packets.list.row != seen[-1]:
            seen.append(app.packets.list.row)
            await press(app, pilot, "n")
        assert seen[1:] == app.inspection.results.marked.bad.tolist()
        assert set(rows) <= set(seen)
        app.navigation.to_vbucket(8)
        await settled(app, pilot)
        (track,) = app.lanes.tracks
        assert [mark.row for mark in track.found if mark.text.startswith("cas-zero")] == rows[8:]

    play(faulty(tmp_path), scene)


def test_each_vbucket_of_a_finding_about_many_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "recreated.pcap"
    path.write_bytes(capture(recreated(20)))

    async def scene(app: InspectApp, pilot: Keys) -> None:
        numbers = [number for number, one in enumerate(app.inspection.results.findings) if one.rule == "no-common-history"]
        (number,) = numbers
        app.navigation.to_vbucket(17)
        await settled(app, pilot)
        first, _ = app.lanes.tracks
        assert {mark.row for mark in first.found if mark.finding == number} == {39, 40}
        assert "findings" in screen(app)
        await press(app, pilot, "n", "enter")
        assert app.inspection.store.messages([app.packets.list.row]).vbucket.at(0) == 17
        await press(app, pilot, "2")
        app.grid.move_to(17)
        await press(app, pilot, "e", "enter")
        assert app.packets.list.row == 39, "the request of this vbucket, although the evidence begins with those of others"
        await press(app, pilot, "backspace", "right_square_bracket", "right_square_bracket", "v")
        assert app.lanes.vbucket == 18

    play(path, scene)
