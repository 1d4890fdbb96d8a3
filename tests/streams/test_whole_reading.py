"""What parts set apart: the whole does without it, and each part makes tables of it that are those
of one reading.
"""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import leaving, rollbacks
from tests.damage import batches
from tests.parted import everything, joined, whole
from tests.streams.told import Told, opened, packets


@pytest.fixture(autouse=True)
def _few_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leaving, rollbacks):
        monkeypatch.setattr(module, "BACK", 1)


def bulk(
    snapshots: int,
    *,
    answers: tuple[int, ...] = (),
    empty: tuple[int, ...] = (),
    talk: Told | None = None,
) -> Told:
    """A stream of snapshots, with a gap in each. ``answers``: those that are answered for no
    reason; ``empty``: without an item.
    """
    talk = talk or opened()
    stream = talk.stream(7)
    for number in range(snapshots):
        first = 10 * number + 1
        stream.snapshot(first if number else 0, first + 8, "memory", "checkpoint")
        if number in answers:
            talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
        if number in empty:
            stream.seqno_advanced(first + 8)
            continue
        for seqno in (first, first + 1, first + 8):
            stream.mutation(seqno, f"key {seqno}")
    talk.close(abort=True)
    return talk


def held(*talks: Told) -> tuple[tuple[int, int], dict[str, Any]]:
    """How many snapshots and gaps the whole has, and all that is told, once that is what one
    reading tells.
    """
    given = list(batches(packets(*talks), [50] * 100))
    found = joined([given], ["told.pcap"])
    one = everything(whole(given, ["told.pcap"]))
    assert everything(found) == one
    known = found.merged.tracker.state.known_tables
    return (len(known.snapshots), len(known.gaps)), one


def test_the_whole_has_no_more_of_ten_times_as_many_snapshots() -> None:
    (few, told), (many, also) = held(bulk(10)), held(bulk(100))
    assert few == many == (2, 0)
    assert [len(one[name]) for one in (told, also) for name in ("snapshots", "gaps")] == [
        10,
        19,
        100,
        199,
    ]


def test_a_marker_that_was_answered_for_no_reason_is_found() -> None:
    _, told = held(bulk(9, answers=(4,)))
    assert "not-asked" in {one["cause"] for one in told["findings"]}


def test_a_marker_without_an_item_that_a_request_names_is_found() -> None:
    again = opened(port=50_001)
    again.stream(7, start=40, snapshot=(41, 49), status=Status.ERANGE)
    _, told = held(bulk(9, empty=(4,)), again)
    assert "marker-without-item" in {one["cause"] for one in told["findings"]}


@pytest.mark.slow
def test_streams_that_may_tell_of_each_others_gaps_are_whole() -> None:
    first, second = (opened(f"test:{number}", port=50_000 + number) for number in range(2))
    for talk, left_out in ((first, ()), (second, (12,))):
        stream = talk.stream(7)
        for number in range(9):
            start = 10 * number + 1
            stream.snapshot(start if number else 0, start + 8, "memory", "checkpoint")
            for seqno in (start, start + 1, start + 8):
                if seqno not in left_out:
                    stream.mutation(seqno, f"key {seqno}")
    counts, told = held(first, second)
    assert counts[0] == 18
    assert "item-missing" in {one["rule"] for one in told["findings"]}
