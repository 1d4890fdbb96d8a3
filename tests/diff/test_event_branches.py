"""Of which branch an event is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.diff.event_branches import GREATEST, UNKNOWN, branches, logs_of, uuids
from dcpinspect.streams.records import Streams

LOG = ((0xC, 20), (0xB, 10), (0xA, 0))


def named(log: tuple[tuple[int, int], ...], *seqnos: int) -> list[int]:
    found = uuids(np.zeros(len(seqnos), dtype=np.int64), np.array(seqnos, dtype=np.uint64), [log])
    return [int(uuid) for uuid in found]


def test_a_branch_begins_above_its_seqno() -> None:
    assert named(LOG, 1, 10, 11, 20, 21, GREATEST) == [0xA, 0xA, 0xB, 0xB, 0xC, 0xC]
    assert named(UNKNOWN, 1, GREATEST) == [0, 0]
    assert named(LOG, 0) == [0xA]


@given(
    st.lists(st.integers(0, GREATEST), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(1, GREATEST), max_size=20),
)
def test_each_event_is_of_the_branch_whose_range_has_it(
    starts: list[int], seqnos: list[int]
) -> None:
    starts = [*sorted(starts, reverse=True)[:-1], 0] if len(starts) > 1 else [0]
    log = tuple((100 + place, start) for place, start in enumerate(starts))
    found = branches(np.zeros(1, dtype=np.int64), {0: log})
    expected = [
        next(one.uuid for one in found if one.above < seqno <= one.upto) for seqno in seqnos
    ]
    assert named(log, *seqnos) == expected


def test_a_log_that_contradicts_itself_is_none() -> None:
    def raw(*entries: tuple[int, int]) -> bytes:
        return b"".join(uuid.to_bytes(8) + seqno.to_bytes(8) for uuid, seqno in entries)

    streams = Streams.zeros(3)
    streams.log[:] = (0, 1, -1)
    assert logs_of(streams, [raw((2, 5), (1, 0)), raw((2, 0), (1, 5))]) == {0: ((2, 5), (1, 0))}
