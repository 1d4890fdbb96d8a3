"""Entries are found again among many, and both forms of the kernel tell the same."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.streams import event_keys as k
from dcpinspect.streams.records import LEAST, Anomalies, Messages, RowCounts, Snapshots, Streams
from tests.streams.test_follow import babble
from tests.streams.told import Seen, packets


def some(entries: int, slots: int) -> k.KeyTables:
    tables = k.KeyTables()
    tables.entries, tables.slots = k.KeyRows.zeros(entries), np.full(slots, -1, dtype=np.int64)
    tables.marks, tables.seed = k.KeyFill.single(), 99
    return tables


def test_entries_are_found_again_when_there_are_many_more() -> None:
    count = 3000
    tables = some(count + k.ROOM, 8192)
    keys = [(number % 7, (number // 7) << 31 | 5) for number in range(count)]
    found = [k.entry_of(tables, stream, key, 1) for stream, key in keys]
    assert found == list(range(count))
    assert [k.entry_of(tables, stream, key, 2) for stream, key in keys] == found
    assert tables.marks.used == count
    assert set(tables.entries.row[:count].tolist()) == {2}
    before, tables.slots = tables.slots, np.full(8192, -1, dtype=np.int64)
    tables.events, tables.messages, tables.streams = (
        k.KeyEvents.zeros(0),
        Messages.zeros(0),
        Streams.zeros(0),
    )
    tables.snapshots, tables.anomalies, tables.counts = (
        Snapshots.zeros(0),
        Anomalies.zeros(0),
        RowCounts.single(),
    )
    k.refill_entries.interpreted(tables)
    assert tables.slots.tolist() == before.tolist()


def test_a_new_entry_knows_nothing() -> None:
    tables = some(9, 64)
    tables.entries.array.view(np.int64)[:] = 1
    h = k.entry_of(tables, 3, k.OF_COLLECTION - 8, 12)
    assert tables.entries.as_integers()[h].tolist() == [
        3,
        k.OF_COLLECTION - 8,
        12,
        k.NEW,
        LEAST,
        LEAST,
        LEAST,
        LEAST,
        0,
        0,
        0,
        0,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
def test_both_forms_tell_the_same_of_nonsense(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = packets(*babble(seed))
    found = []
    for form in ("interpreted", "compiled"):
        monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", form == "interpreted")
        seen = Seen(captured, keys=32)
        found.append(seen.anomaly_rows.as_integers().tolist())
    assert found[0] == found[1]
