from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.transport import columns as c
from dcpinspect.transport.entries import enter, gather


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
def test_bytes_of_entries_are_copied_to_their_places(form: str) -> None:
    entries, counters = np.zeros((10, c.ENTRY), np.int64), np.zeros(c.COUNTERS, np.int64)
    for offset, length, source in ((100, 3, 5), (103, 4, c.HOLE), (107, 2, c.HELD - 1), (109, 0, c.END)):
        enter(entries, counters, 7, offset, length, source, 11, 12, 13, 14, 15)
    assert counters[c.ENTRIES] == 4
    assert entries[2].tolist() == [7, 107, 2, c.HELD - 1, 11, 12, 13, 14, 15]
    target = np.full(9, ord("."), np.uint8)
    data, held = np.frombuffer(b"01234567", np.uint8), np.frombuffer(b"abcd", np.uint8)
    getattr(gather, form)(data, held, entries[:4], target, 100)
    assert target.tobytes() == b"567....bc"
