"""A part keeps all columns of its messages, in little room, also when parts are put together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.errors import ChangedCaptureError, NotKeptError
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store import part as p
from dcpinspect.reading.store.originals import Originals
from dcpinspect.reading.store.part import WantedBytes, gather
from dcpinspect.reading.store.places import Places
from dcpinspect.reading.store.places import joined as joined_places
from dcpinspect.reading.store.spool import Spool
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.arrow_types import TYPES
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import COLUMNS
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.tables.build import batch

NAMES = [column.name for column in COLUMNS]
NO_PLACES = joined_places([])
ALL = slice(None)


def part(made: MessageBatch) -> p.StorePart:
    return p.small(p.part_of(made, frozenset(), NO_PLACES, 0))


def messages(count: int) -> MessageBatch:
    return batch(
        *(encode("dcp_mutation", vbucket=n % 3, key=f"key-{n}", by_seqno=n) for n in range(count))
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    sorted(path for path in SAMPLES.glob("*.pcap*") if "large" not in path.name),
    ids=lambda path: path.name,
)
def test_a_part_has_every_column_as_the_messages_have_it(path: Path) -> None:
    with Reading([str(path)]) as reading:
        for made in reading:
            kept = part(made)
            expected = record_batch(made, np.arange(len(made)), NAMES)
            for name in NAMES:
                assert (
                    p.part_of(made, frozenset(), NO_PLACES, 0)
                    .column(name, ALL)
                    .equals(expected.column(name))
                ), name
                assert kept.column(name, ALL).equals(expected.column(name)), name
            some = np.arange(len(made))[:: max(1, len(made) // 40)][::-1]
            for name in NAMES:
                assert kept.column(name, some).equals(expected.column(name).take(pa.array(some))), (
                    name
                )
            for name in NAMES:
                assert kept.column(name, slice(3, 9)).equals(expected.column(name).slice(3, 6)), (
                    name
                )


def test_neighbours_put_together_have_the_columns_of_both() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        made = next(iter(reading))
    expected = record_batch(made, np.arange(len(made)), NAMES)
    cut = len(made) // 3
    kinds = [
        encode("dcp_stream_end", status=1),
        encode("hello", features=[{"feature": 0x12}]),
        encode("dcp_noop"),
    ]
    parts = [part(batch(*kinds)), part(made), part(messages(5))]
    whole = p.joined(parts)
    assert (whole.first_row, whole.rows) == (1, 8 + len(made))
    for name in set(NAMES) - {"row"}:
        pieces = [one.column(name, ALL) for one in parts]
        assert whole.column(name, ALL).equals(pa.concat_arrays(pieces)), name
        assert whole.column(name, slice(3, 3 + len(made))).equals(expected.column(name)), name
    assert whole.column("row", slice(cut, cut + 2)).to_pylist() == [cut + 1, cut + 2]


def test_missing_ranges_are_kept_with_their_messages() -> None:
    made = batch(
        encode("dcp_mutation", key="a", value=b"x" * 50),
        encode("dcp_noop"),
        missing={0: [(60, 70), (80, 83)]},
    )
    for kept in (part(made), p.joined([part(made), part(made)])):
        assert kept.column("_missing", np.array([1, 0])).to_pylist()[1] == [60, 70, 80, 83]
        assert not kept.column("_missing", np.array([1])).to_pylist()[0]
    assert part(messages(2)).column("_missing", ALL).to_pylist() == [None, None]


def test_turned_connections_are_marked() -> None:
    made = batch(encode("dcp_noop"), encode("dcp_noop"), connections=[1, 2])
    kept = p.part_of(made, frozenset({2}), NO_PLACES, 0)
    assert [bool(state & p.TURNED) for state in kept.column("_state", ALL).to_pylist()] == [
        False,
        True,
    ]


def test_a_column_of_one_value_and_one_without_take_no_room() -> None:
    kept = part(messages(10_000))
    assert "rollback_seqno" not in kept.table.schema.names
    for name in ("file", "direction", "opcode", "connection", "frame"):
        assert (kept.table.column(name).nbytes < 200) == (name != "frame")


def test_numbers_take_as_many_bytes_as_they_need() -> None:
    kept = part(messages(1000))
    assert kept.table.schema.field("by_seqno").type == pa.uint16()
    assert kept.column("by_seqno", ALL).type == pa.uint64()


def test_a_part_of_nothing_but_places_has_empty_columns() -> None:
    empty = p.only_places(7, NO_PLACES, 0)
    assert (empty.first_row, empty.rows) == (7, 0)
    assert empty.column("by_seqno", ALL).equals(pa.array([], pa.uint64()))
    assert p.joined([empty, part(messages(3))]).rows == 3


@pytest.mark.parametrize("name", ["_state", "_missing", "by_seqno", "key", "datatype"])
def test_no_rows_are_a_column_too(name: str) -> None:
    found = p.no_rows(name)
    assert (len(found), found.type) == (0, part(messages(1)).column(name, ALL).type)


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**64 - 1), st.integers(0, 3)), max_size=60))
def test_integers_of_any_size_come_back(numbers: list[int | None]) -> None:
    array = pa.array(numbers, pa.uint64())
    wide = p.StorePart(1, len(numbers), p._table({"by_seqno": array}), NO_PLACES, 0)
    kept = p.small(wide)
    assert kept.column("by_seqno", ALL).equals(array)
    assert p.joined([kept, wide]).column("by_seqno", ALL).equals(pa.array(numbers * 2, pa.uint64()))


def test_times_are_nanoseconds_and_as_a_column_microseconds() -> None:
    made = batch(encode("dcp_noop"), encode("dcp_noop"), time_ns=[-1, 1_700_000_000_123_456_789])
    kept = part(made)
    assert kept.column("time_ns", ALL).to_pylist() == [-1, 1_700_000_000_123_456_789]
    assert kept.column("time", ALL).cast(pa.int64()).to_pylist() == [-1, 1_700_000_000_123_456]
    assert kept.column("time", ALL).type == TYPES["time"]


SEGMENTS = 400
SIZE = 30
HEADER = 12


def column(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def written(folder: Path) -> tuple[Path, Places, bytes]:
    """A file of segments of two flows in turn, each behind a header; the places of them; what was
    said on flow 2.
    """
    said = np.random.default_rng(1).integers(1, 255, SEGMENTS * SIZE, np.uint8).tobytes()
    path = folder / "file"
    with path.open("wb") as file:
        for number in range(SEGMENTS):
            file.write(
                bytes(HEADER)
                + said[number * SIZE : (number + 1) * SIZE]
                + bytes(HEADER)
                + b"x" * SIZE
            )
    step = 2 * (HEADER + SIZE)
    numbers = np.arange(SEGMENTS)
    places = Places(
        np.repeat([2, 3], SEGMENTS).astype(np.uint32),
        np.tile(numbers * SIZE, 2).astype(np.int64),
        np.full(2 * SEGMENTS, SIZE, np.uint32),
        np.zeros(2 * SEGMENTS, np.int32),
        np.concatenate((numbers * step + HEADER, numbers * step + 2 * HEADER + SIZE)).astype(
            np.int64
        ),
    )
    return path, places, said


@pytest.mark.parametrize(("apart", "at_once"), [(1 << 14, 4 << 20), (0, 4 << 20), (1 << 14, 100)])
def test_ranges_are_read_whatever_segments_they_are_in(
    apart: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(p, "APART", apart)
    monkeypatch.setattr(p, "AT_ONCE", at_once)
    path, places, said = written(tmp_path)
    originals = Originals(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    random = np.random.default_rng(2)
    start = random.integers(0, len(said) - 200, 300)
    length = random.integers(1, 200, 300)
    target = np.cumsum(length) - length
    data = np.zeros(int(length.sum()), np.uint8)
    wanted = WantedBytes(np.full(300, 2), start, length, target)
    assert gather(originals, places, wanted, data).tolist() == length.tolist()
    assert data.tobytes() == b"".join(
        said[at : at + size] for at, size in zip(start.tolist(), length.tolist(), strict=True)
    )


def test_of_a_range_with_a_hole_the_rest_is_read(tmp_path: Path) -> None:
    path, places, said = written(tmp_path)
    originals = Originals(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    kept = np.delete(np.arange(2 * SEGMENTS), [0, 5])
    few = Places(
        *(getattr(places, name)[kept] for name in ("flow", "offset", "length", "file", "place"))
    )
    wanted = WantedBytes(
        column(2, 2, 2, 2),
        column(10, 130, 180, 4 * SIZE),
        column(40, 60, 30, SIZE),
        column(0, 40, 100, 130),
    )
    data = np.zeros(160, np.uint8)
    # the first segment and the sixth lack
    assert gather(originals, few, wanted, data).tolist() == [20, 30, 30, SIZE]
    pieces = bytes(20), said[30:50], said[130:150], bytes(30), said[180:190]
    assert data.tobytes() == b"".join(pieces) + said[180:210] + said[120:150]


def test_what_was_dropped_between_two_wanted_pieces_does_not_matter(tmp_path: Path) -> None:
    class DroppedBetween(Originals):
        """Each piece alone is there; what is between them is not."""

        def read(self, number: int, offset: int, target: memoryview) -> None:
            if len(target) > 2 * SIZE:
                raise NotKeptError
            super().read(number, offset, target)

    path, places, said = written(tmp_path)
    originals = DroppedBetween(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    data = np.zeros(3 * SIZE, np.uint8)
    wanted = WantedBytes(column(2), column(0), column(3 * SIZE), column(0))
    assert gather(originals, places, wanted, data).tolist() == [3 * SIZE]
    assert data.tobytes() == said[: 3 * SIZE]


def test_a_file_that_shrank_is_said(tmp_path: Path) -> None:
    path, places, _ = written(tmp_path)
    originals = Originals(Spool(tmp_path), 1 << 20)
    originals.note(0, str(path))
    path.write_bytes(b"")
    with pytest.raises(ChangedCaptureError):
        gather(
            originals,
            places,
            WantedBytes(column(2), column(0), column(60), column(0)),
            np.zeros(60, np.uint8),
        )
