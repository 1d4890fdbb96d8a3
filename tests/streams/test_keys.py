"""Entries are found again among many, and both forms of the kernel tell the same."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.streams import keys as k
from dcpinspect.streams import state as s
from tests.streams.test_follow import babble
from tests.streams.told import Seen, packets


def test_entries_are_found_again_when_there_are_many_more() -> None:
    count = 3000
    slots = np.full(8192, -1, dtype=np.int64)
    entries = np.zeros((count + k.ROOM, k.ENTRY), dtype=np.int64)
    marks = np.zeros(k.MARKS, dtype=np.int64)
    keys = [(number % 7, (number // 7) << 31 | 5) for number in range(count)]
    found = [k.entry_of(stream, key, 1, 99, slots, entries, marks) for stream, key in keys]
    assert found == list(range(count))
    assert [k.entry_of(stream, key, 2, 99, slots, entries, marks) for stream, key in keys] == found
    assert int(marks[k.USED]) == count
    assert set(entries[:count, k.H_ROW].tolist()) == {2}
    anew = np.full(8192, -1, dtype=np.int64)
    k.refill_entries.interpreted(99, anew, entries, count)
    assert anew.tolist() == slots.tolist()


def test_a_new_entry_knows_nothing() -> None:
    slots, entries = np.full(64, -1, dtype=np.int64), np.ones((9, k.ENTRY), dtype=np.int64)
    h = k.entry_of(3, k.OF_COLLECTION - 8, 12, 99, slots, entries, np.zeros(k.MARKS, dtype=np.int64))
    assert entries[h].tolist() == [3, k.OF_COLLECTION - 8, 12, k.NEW, s.LEAST, s.LEAST, s.LEAST, 0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(100, 108))
def test_both_forms_tell_the_same_of_nonsense(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = packets(*babble(seed))
    found = []
    for form in ("interpreted", "compiled"):
        monkeypatch.setenv("DCPINSPECT_KERNELS", form)
        monkeypatch.setattr(k.follow_keys, "_compiled", None)
        monkeypatch.setattr(k.follow_keys, "_sought", False)
        seen = Seen(captured, keys=32)
        found.append(seen.anomaly_rows.tolist())
    assert found[0] == found[1]
