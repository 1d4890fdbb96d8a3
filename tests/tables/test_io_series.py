"""Messages counted by span and command, whatever batches they come in."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.errors import UsageError
from dcpinspect.tables import io_series
from tests.encode import encode
from tests.tables.build import START_NS, STEP_NS, batch


def counted(interval_ns: int | None, *pieces: slice) -> list[tuple[int, str, int]]:
    messages = batch(
        *[
            encode("dcp_noop", opaque=number) if number % 2 else encode("get", key="k")
            for number in range(8)
        ]
    )
    messages.origin_ns = START_NS
    intervals = io_series.Intervals(interval_ns)
    for piece in pieces:
        intervals.feed(messages, np.arange(8)[piece])
    records = intervals.records()
    return list(
        zip(
            records.values("relative_ns"),
            records.values("name"),
            records.values("messages"),
            strict=True,
        )
    )


def test_messages_are_counted_by_span_and_command() -> None:
    assert counted(4 * STEP_NS, slice(None)) == [
        (0, "get", 2),
        (0, "dcp_noop", 2),
        (4 * STEP_NS, "get", 2),
        (4 * STEP_NS, "dcp_noop", 2),
    ]


@pytest.mark.parametrize("cut", range(9))
def test_batches_make_no_difference(cut: int) -> None:
    for interval_ns in (3 * STEP_NS, None):
        assert counted(interval_ns, slice(cut), slice(cut, None)) == counted(
            interval_ns, slice(None)
        )


def test_too_many_rows_are_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_series, "MOST", 3)
    with pytest.raises(UsageError, match="take a longer one"):
        counted(1, slice(None))
