"""The kernel that pairs requests, on numbers: it does what dictionaries of queues do, in both of
its forms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.streams.request_queues import (
    ANSWERS,
    ASKS,
    CONTINUES,
    FREE,
    IGNORE,
    TELLS,
    PairTables,
    Slots,
    WaitingCounts,
    WaitingRequests,
    pair_requests,
)


@dataclass
class Kernel:
    """The kernel with tables of a small size."""

    size: int = 8
    seed: int = 0
    form: str = "interpreted"
    tables: PairTables = field(default_factory=PairTables)

    def __post_init__(self) -> None:
        self.tables.slots, self.tables.waiting = (
            Slots.zeros(2 * self.size),
            WaitingRequests.zeros(self.size),
        )
        self.tables.times, self.tables.lost = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self.tables.counts, self.tables.seed = WaitingCounts.single(), self.seed

    def run(
        self, steps: list[tuple[int, int, int, int]], first: int = 0
    ) -> list[tuple[int, int, int, int]]:
        """(row, offset, time, vbucket) for each (key, opaque, meaning, vbucket)."""
        tables, columns = self.tables, np.array(steps, dtype=np.int64).reshape(-1, 4).T.copy()
        tables.key, tables.opaque, tables.meaning, tables.vbucket = (
            columns[0] + 1,
            columns[1],
            columns[2],
            columns[3],
        )
        tables.row = np.arange(first, first + len(steps), dtype=np.int64)
        tables.offset, tables.time = tables.row * 100, tables.row * 1000
        tables.flow = (tables.meaning >= ANSWERS).astype(np.int64)
        tables.after_loss = np.zeros_like(tables.flow)
        out = [np.full(len(steps), -1, dtype=np.int64) for _ in range(4)]
        tables.request_row, tables.request_offset, tables.request_time, tables.request_vbucket = out
        run: Callable[[PairTables], None] = (
            pair_requests.compiled if self.form == "compiled" else pair_requests.interpreted
        )
        run(tables)
        return list(zip(*(column.tolist() for column in out), strict=True))


def model(steps: list[tuple[int, int, int, int]], size: int) -> list[tuple[int, int, int, int]]:
    """The same with dictionaries and queues."""
    waiting: dict[tuple[int, int, bool], deque[int]] = {}
    vbucket_of: dict[int, int] = {}
    out = []
    for row, (key, opaque, meaning, vbucket) in enumerate(steps):
        found = (-1, -1, -1, -1)
        if meaning in (ASKS, TELLS):
            name = (key, opaque, meaning == TELLS)
            queue = waiting.setdefault(name, deque())
            if meaning == TELLS and queue:
                vbucket_of[queue[0]] = vbucket
            else:
                if sum(map(len, waiting.values())) == size:
                    min(
                        (rows for rows in waiting.values() if rows), key=lambda rows: rows[0]
                    ).popleft()
                queue.append(row)
                vbucket_of[row] = vbucket
        elif meaning in (ANSWERS, CONTINUES):
            queue = waiting.get((key, opaque, False), deque())
            told = waiting.get((key, opaque, True), deque())
            if queue:
                first = queue[0]
                found = (first, first * 100, first * 1000, vbucket_of[first])
                if meaning == ANSWERS:
                    queue.popleft()
            elif told:
                found = (-1, -1, -1, vbucket_of[told[0]])
        out.append(found)
    return out


steps = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from([IGNORE, ASKS, ASKS, TELLS, ANSWERS, CONTINUES]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(steps, st.sampled_from([1, 2, 8, 64]), st.integers(0, 2**32 - 1))
def test_the_kernel_does_what_dictionaries_of_queues_do(
    messages: list[tuple[int, int, int, int]], size: int, seed: int
) -> None:
    assert Kernel(size, seed).run(messages) == model(messages, size)


@given(steps, st.sampled_from([1, 8, 64]), st.integers(0, 2**32 - 1))
def test_interpreted_and_compiled_agree(
    messages: list[tuple[int, int, int, int]], size: int, seed: int
) -> None:
    assert Kernel(size, seed, "compiled").run(messages) == Kernel(size, seed).run(messages)


@given(st.integers(0, 2**60), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_both_forms_agree_on_large_keys_opaques_and_seeds(key: int, opaque: int, seed: int) -> None:
    messages = [
        (key, opaque, ASKS, 1),
        (key, opaque, TELLS, 2),
        (key, opaque, ANSWERS, 0),
        (key, opaque, ANSWERS, 0),
    ]
    assert (
        Kernel(4, seed, "compiled").run(messages)
        == Kernel(4, seed).run(messages)
        == model(messages, 4)
    )


@given(steps, st.lists(st.integers(0, 60), max_size=4))
def test_any_division_into_batches_pairs_the_same(
    messages: list[tuple[int, int, int, int]], cuts: list[int]
) -> None:
    kernel = Kernel()
    bounds = [0, *sorted(min(cut, len(messages)) for cut in cuts), len(messages)]
    parts = [
        found
        for low, high in pairwise(bounds)
        for found in kernel.run(messages[low:high], first=low)
    ]
    assert parts == Kernel().run(messages)


def test_the_oldest_request_is_forgotten_when_too_many_wait() -> None:
    messages = [(1, opaque, ASKS, opaque) for opaque in range(9)] + [
        (1, 0, ANSWERS, 0),
        (1, 1, ANSWERS, 0),
    ]
    assert [row for row, *_ in Kernel(8).run(messages)][-2:] == [-1, 1]


def test_a_request_is_not_forgotten_for_others_that_are_answered() -> None:
    messages = (
        [(1, 0, ASKS, 0)]
        + [(2, opaque, meaning, 0) for opaque in range(50) for meaning in (ASKS, ANSWERS)]
        + [(1, 0, ANSWERS, 0)]
    )
    assert Kernel(2).run(messages)[-1][0] == 0


def test_answered_requests_leave_their_slots() -> None:
    kernel = Kernel(8)
    kernel.run([(1, opaque, meaning, 0) for opaque in range(100) for meaning in (ASKS, ANSWERS)])
    assert (kernel.tables.slots.key == FREE).all()
