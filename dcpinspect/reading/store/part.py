"""A run of messages as the store keeps it: their columns in compact form, and the places of the
bytes that came with them.

Columns are in their short form (tables/arrow.py). Before they are written, integers become as
narrow as possible; a column with a single value keeps that value once, a column with few values
keeps only those, and a column without any value is left out. Columns that follow from others are
not kept: ``row``, ``time`` and ``key``. Columns whose names begin with ``_`` serve
``Store.messages``, which makes messages from them again, except ``_kind``: what a message is to its
stream, which is asked of all messages of a vbucket at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import BoolArray, ByteArray, numbers_of, unique
from dcpinspect.errors import NotKeptError
from dcpinspect.kernels.gathering import copy_pieces
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.reading.store.originals import Originals
from dcpinspect.reading.store.places import Places
from dcpinspect.reading.store.places import joined as joined_places
from dcpinspect.streams.message_columns import kinds
from dcpinspect.tables.arrow import as_time, plain, short, type_of
from dcpinspect.tables.arrow_types import as_text
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from dcpinspect.tables.short_columns import WITHOUT

DERIVED = frozenset({"row", "time", "key"})
KEPT = tuple(column.name for column in COLUMNS if column.name not in DERIVED)

DIRECTION = 0x01
TURNED = 0x02
HEURISTIC = 0x04
UNDERLYING = 0x08
FROM_REQUEST = 0x10
COLLECTIONS = 5
GENERATION = 7
"""Bits of ``_state``: the direction is server to client; the packets went the other way than that;
sync was found by trial; the datatype is that of the stored document; the vbucket is the request's.
The last two are shifts: where the state of collections (two bits) and the generation begin.
"""

_HIDDEN = {
    "_file": pa.uint32(),
    "_last_file": pa.uint32(),
    "_state": pa.uint16(),
    "_kind": pa.uint8(),
    "_missing": pa.list_(pa.int64()),
}
_NARROW = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_SPARSE = 8
"""A column is stored as sparse if fewer than one row in this many has a value."""


@dataclass(frozen=True, slots=True)
class StorePart:
    """Consecutive messages from row ``first_row`` on, or only places and no messages."""

    first_row: int
    rows: int
    table: Any
    """Arrow record batch of the kept columns."""
    places: Places
    piece: int
    """Number of the first piece of copied bytes (originals.py) for packets of this part."""
    name: str | None = None
    """Name of the part's files in the spool; None while the part is in memory."""

    def short_column(self, name: str, rows: RowNumbers | slice) -> Any:
        """Returns a kept column in its short form, for rows counted within the part; of null type
        if it has no value.
        """
        index = self.table.schema.get_field_index(name)
        count = len(range(*rows.indices(self.rows))) if isinstance(rows, slice) else len(rows)
        if index < 0:
            return pa.nulls(count)
        array = self.table.column(index)
        if pa.types.is_run_end_encoded(array.type):
            if pa.types.is_string(array.values.type):
                return pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(count, np.uint8)), array.values
                )
            return pa.repeat(array.values[0], count)
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.rows)
            return array.slice(start, stop - start)
        return array.take(pa.array(rows))

    def column(
        self, name: str, rows: RowNumbers | slice, *, with_dictionaries: bool = False
    ) -> Any:
        """Returns a column of the table in its own type, for rows counted within the part.

        ``with_dictionaries``: texts may stay dictionary-encoded.
        """
        if name == "row":
            numbers = np.arange(self.first_row, self.first_row + self.rows, dtype=np.int64)
            return pa.array(numbers[rows])
        if name == "time":
            return as_time(self.column("time_ns", rows).to_numpy())
        if name == "key":
            return as_text(self.column("key_bytes", rows))
        array = self.short_column(name, rows)
        if name in _HIDDEN:
            return _wide(array, name)
        if (
            with_dictionaries
            and BY_NAME[name].kind in ("text", "word")
            and not pa.types.is_null(array.type)
        ):
            return array
        return plain(array, name)


def part_of(batch: MessageBatch, turned: frozenset[int], places: Places, piece: int) -> StorePart:
    """Returns the messages of a batch as a part; packets of the connections in ``turned`` went the
    other way than their messages are said to.
    """
    rows = np.arange(len(batch), dtype=np.int64)
    arrays = {name: short(batch, rows, name) for name in KEPT}
    state = (
        batch.direction * DIRECTION
        | batch.heuristic * HEURISTIC
        | batch.decoded.underlying_datatype * UNDERLYING
        | batch.vbucket_from_request * FROM_REQUEST
        | batch.decoded.collections.astype(np.int64) << COLLECTIONS
        | batch.decoded.generation.astype(np.int64) << GENERATION
    )
    if turned:
        state |= np.isin(batch.connection, list(turned)) * TURNED
    arrays |= {
        "_file": pa.array(batch.file),
        "_last_file": pa.array(batch.last_file),
        "_state": pa.array(state),
    }
    arrays["_kind"] = pa.array(kinds(batch)[0].astype(np.uint8))
    if len(batch.missing.row):
        ends = 2 * np.searchsorted(batch.missing.row, np.arange(len(batch) + 1))
        ranges = np.stack([batch.missing.start, batch.missing.end], axis=1).reshape(-1)
        arrays["_missing"] = pa.ListArray.from_arrays(
            pa.array(ends.astype(np.int32)), pa.array(ranges)
        )
    return StorePart(int(batch.row[0]), len(batch), _table(arrays), places, piece)


def only_places(first_row: int, places: Places, piece: int) -> StorePart:
    """Returns a part of places alone: messages of their bytes, if any, are in later parts."""
    return StorePart(first_row, 0, _table({}), places, piece)


def small(store_part: StorePart) -> StorePart:
    """Returns the same part in as little room as possible."""
    return replace(
        store_part,
        table=_table(
            {
                name: _smallest(store_part.table.column(name))
                for name in store_part.table.schema.names
            }
        ),
    )


def no_rows(name: str) -> Any:
    """Returns a column without rows."""
    return pa.array([], _HIDDEN[name] if name in _HIDDEN else type_of(name))


def numbers(array: Any) -> NumberColumn:
    """Returns the numbers of an Arrow array of integers, with 0 where it has no value."""
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return NumberColumn(array.fill_null(0).to_numpy(zero_copy_only=False), valid)


def joined(store_parts: Sequence[StorePart]) -> StorePart:
    """Returns neighbouring parts as one."""
    names = {name: None for store_part in store_parts for name in store_part.table.schema.names}
    arrays = {
        name: pa.concat_arrays(
            [_wide(store_part.short_column(name, slice(None)), name) for store_part in store_parts]
        )
        for name in names
    }
    joined_entries = joined_places([store_part.places for store_part in store_parts])
    return StorePart(
        store_parts[0].first_row,
        sum(store_part.rows for store_part in store_parts),
        _table(arrays),
        joined_entries,
        min(store_part.piece for store_part in store_parts),
    )


def _wide_type(name: str) -> Any:
    """Returns the type in which short forms of different batches can be joined."""
    if name in _HIDDEN:
        return _HIDDEN[name]
    kind = BY_NAME[name].kind
    if kind in ("text", "words", "word") and name not in WITHOUT:
        return pa.dictionary(pa.int32(), pa.string())
    return pa.uint64() if kind == "hex64" else type_of(name)


def _wide(array: Any, name: str) -> Any:
    wide_type = _wide_type(name)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wide_type)
    if pa.types.is_dictionary(wide_type):
        return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(wide_type)


def _table(arrays: dict[str, Any]) -> Any:
    filled = {name: array for name, array in arrays.items() if array.null_count < len(array)}
    return pa.RecordBatch.from_arrays(list(filled.values()), names=list(filled))


def _smallest(array: Any) -> Any:
    if pa.types.is_dictionary(array.type):
        index = _narrow(array.indices)
        if pa.types.is_run_end_encoded(index.type):
            return _once(array.dictionary.take(index.values), len(array))
        return pa.DictionaryArray.from_arrays(index, array.dictionary)
    if not pa.types.is_integer(array.type):
        return array
    values = array.drop_null() if len(array) - array.null_count < len(array) // _SPARSE else None
    if values is not None:
        is_valid = array.is_valid().to_numpy(zero_copy_only=False)
        return pa.DictionaryArray.from_arrays(
            _narrow(pa.array(np.cumsum(is_valid) - 1, mask=~is_valid)), values
        )
    return _narrow(array)


def _narrow(array: Any) -> Any:
    """Returns integers in the narrowest type that holds them; negative ones stay as they are."""
    import pyarrow.compute as pc  # deferred: importing it takes 40 ms

    low, high = (value.as_py() for value in pc.min_max(array).values())
    if low == high and low is not None and not array.null_count:
        return _once(pa.array([low], array.type), len(array))
    if low is None or low < 0:
        return array
    return array.cast(next(kind for kind in _NARROW if high < 1 << kind.bit_width))


def _once(value: Any, count: int) -> Any:
    kind = pa.run_end_encoded(pa.int32(), value.type)
    return pa.Array.from_buffers(
        kind, count, [None], children=[pa.array([count], pa.int32()), value]
    )  # because from_arrays takes 0.1 ms


APART = 1 << 14
"""Greatest gap in bytes between two pieces that are still read in one go: reading the gap costs
less than another read.
"""
AT_ONCE = 4 << 20
"""Greatest number of bytes read in one go, unless a single piece is longer."""


class WantedBytes(NamedTuple):
    """Ranges of stream bytes, and where they are to be copied to."""

    flow: RowNumbers
    offset: RowNumbers
    length: RowNumbers
    target: RowNumbers
    """Index in the target data where the first byte of each range goes."""

    def only(self, some: RowNumbers | BoolArray) -> WantedBytes:
        """Returns the selected ranges only."""
        return WantedBytes(*(column[some] for column in self))


class _Pieces(NamedTuple):
    """Ranges of a file, and where they are to be copied to."""

    of: RowNumbers
    """Index of the wanted range that each piece belongs to."""
    file: RowNumbers
    place: RowNumbers
    size: RowNumbers
    target: RowNumbers

    def only(self, some: RowNumbers | slice) -> _Pieces:
        return _Pieces(*(column[some] for column in self))


def gather(
    originals: Originals, places: Places, wanted: WantedBytes, data: ByteArray
) -> RowNumbers:
    """Fills ``data`` with the bytes of these ranges that ``places`` has; returns how many bytes of
    each range those are. Neighbours in a file are read in one go, and copied to their places.

    Raises ChangedCaptureError if a capture has changed since it was read, and NotKeptError.
    """
    sizes = np.zeros(len(wanted.flow), np.int64)
    for flow in unique(wanted.flow).tolist():
        flow_ranges = np.flatnonzero(wanted.flow == flow)
        pieces = _pieces(places, flow, wanted.only(flow_ranges))
        np.add.at(sizes, flow_ranges[pieces.of], pieces.size)
        for run in _runs(pieces):
            try:
                _read(originals, run, data)
            except NotKeptError:  # perhaps only bytes between them were dropped
                for piece in range(len(run.of)):
                    _read(originals, run.only(slice(piece, piece + 1)), data)
    return sizes


def _pieces(places: Places, flow: int, wanted: WantedBytes) -> _Pieces:
    """Returns where the bytes of the wanted ranges of a flow stand, sorted by file and place."""
    low, high = np.searchsorted(places.flow, np.array([flow, flow + 1], np.uint32)).tolist()
    offset, length = places.offset[low:high], places.length[low:high].astype(np.int64)
    end = wanted.offset + wanted.length
    first = np.maximum(np.searchsorted(offset, wanted.offset, "right") - 1, 0)
    segment, range_of = numbers_of(first, np.searchsorted(offset, end) - first)
    start = np.maximum(offset[segment], wanted.offset[range_of])
    size = np.minimum(offset[segment] + length[segment], end[range_of]) - start
    there = np.flatnonzero(size > 0)
    segment, start, range_of = segment[there], start[there], range_of[there]
    file = places.file[low:high][segment].astype(np.int64)
    file_offset = places.place[low:high][segment] + start - offset[segment]
    target = wanted.target[range_of] + start - wanted.offset[range_of]
    order = np.lexsort((file_offset, file))
    return _Pieces(range_of, file, file_offset, size[there], target).only(order)


def _runs(pieces: _Pieces) -> Iterator[_Pieces]:
    """Yields groups of pieces of a file that stand near enough to be read in one go."""
    if not len(pieces.of):
        return
    is_far = (np.diff(pieces.file) != 0) | (
        pieces.place[1:] > pieces.place[:-1] + pieces.size[:-1] + APART
    )
    for low, high in zip(
        [0, *(np.flatnonzero(is_far) + 1).tolist()],
        [*(np.flatnonzero(is_far) + 1).tolist(), len(pieces.of)],
        strict=True,
    ):
        first = low
        while first < high:
            until = max(
                first + 1,
                int(np.searchsorted(pieces.place[first:high], pieces.place[first] + AT_ONCE))
                + first,
            )
            yield pieces.only(slice(first, until))
            first = until


def _read(originals: Originals, run: _Pieces, data: ByteArray) -> None:
    begin = int(run.place[0])
    stretch = np.empty(int((run.place + run.size).max()) - begin, np.uint8)
    originals.read(int(run.file[0]), begin, stretch.data)
    copy_pieces(stretch, run.place - begin, run.size, data, run.target)
