"""Events on disk, by vbucket."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.diff import events_on_disk
from dcpinspect.diff.events_on_disk import (
    GREATEST,
    SCHEMA,
    SHELVES,
    UNKNOWN,
    Shelves,
    branches,
    event_batch,
    groups,
    logs_of,
    uuids,
)
from dcpinspect.errors import SpoolError
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.spool import Spool
from dcpinspect.streams.records import Streams
from dcpinspect.tables.select import Selection
from tests.peers.truth import SAMPLES


def batch(*events: tuple[int, int]) -> pa.RecordBatch:
    """Events by vbucket and row."""
    rows = [
        {field.name: 0 for field in SCHEMA} | {"vbucket": vbucket, "row": row, "key_text": "k"}
        for vbucket, row in events
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def test_events_come_back_in_order_by_vbucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_on_disk, "_FLUSH", 3)
    with closing(Spool(tmp_path)) as spool:
        with Shelves("a", spool) as written:
            for first in range(0, 40, 4):
                written.add(
                    batch(*((row % 3 + 32 * (row % 2), row) for row in range(first, first + 4)))
                )
            written.add(batch())
        for number in range(SHELVES):
            rows = [
                row for one in written.batches([number]) for row in one.column("row").to_pylist()
            ]
            assert rows == [row for row in range(40) if row % 3 == number]
        assert sum(written.counts) == 40


def test_a_full_disk_is_an_error_that_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with closing(Spool(tmp_path)) as spool:
        written = Shelves("a", spool)
        monkeypatch.setattr(pa.ipc, "new_stream", full)
        with pytest.raises(SpoolError, match="No space left on device; set TMPDIR"), written:
            written.add(batch((1, 1)))


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 20))
def test_groups_have_every_file_once_and_are_not_too_large(counts: list[int], most: int) -> None:
    found = list(groups(counts, most))
    assert [number for group in found for number in group] == list(range(len(counts)))
    assert all(
        len(group) == 1 or sum(counts[number] for number in group) <= most for group in found
    )


@pytest.mark.parametrize("name", ["tour.pcapng", "rollback.pcap", "capture-loss.pcap"])
def test_every_event_is_there_with_the_stream_that_counts_it(name: str) -> None:
    counted: Counter[int] = Counter()
    with Reading([str(SAMPLES / name)], track=True) as reading:
        for batch in reading:
            found = event_batch(batch, reading.tracker.state, Selection(), None)
            assert found.schema == SCHEMA
            counted.update(found.column("stream").to_pylist())
        items = reading.tracker.state.known_tables.streams.items.tolist()
    assert sum(counted.values()) > 0
    assert all(counted[number] <= count for number, count in enumerate(items))
    assert sum(counted.values()) >= 0.9 * sum(
        items
    )  # prepares that were lost in part are events of no seqno


def test_keys_may_be_replaced_and_events_chosen() -> None:
    def keys(redactor: Redactor | None, wanted: Selection) -> list[str]:
        with Reading([str(SAMPLES / "rollback.pcap")], track=True) as reading:
            batches = [
                event_batch(batch, reading.tracker.state, wanted, redactor) for batch in reading
            ]
        return [key for batch in batches for key in batch.column("key_text").to_pylist()]

    plain, hidden = keys(None, Selection()), keys(Redactor(b"salt"), Selection())
    assert "order::7-2" in plain
    assert not set(plain) & set(hidden)
    assert len(keys(None, Selection(vbuckets=(range(7, 8),)))) < len(plain) / 2
    assert keys(None, Selection(vbuckets=(range(500, 501),))) == []


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
