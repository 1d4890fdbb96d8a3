"""A run of messages as it is kept: their columns, small, and the places of the bytes that came with them.

Columns are in their short form (tables/arrow.py). Before they are written, integers become as narrow as they can be, of a column of one
value only that is left, and of one with few values these; one without any is not there at all. What other columns say is not kept:
``row``, ``time``, ``key``. Columns that begin with ``_`` are for ``Store.messages``, which makes messages of them again, but for
``_kind``: what a message is to its stream, which is asked of all messages of a vbucket at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.protocol.columns import Numbers, Rows
from dcpinspect.store.places import Places
from dcpinspect.store.places import joined as joined_places
from dcpinspect.streams.columns import kinds
from dcpinspect.tables.arrow import as_time, plain, short, type_of
from dcpinspect.tables.arrow_types import as_text
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from dcpinspect.tables.short import WITHOUT

DERIVED = frozenset({"row", "time", "key"})
KEPT = tuple(column.name for column in COLUMNS if column.name not in DERIVED)

DIRECTION, TURNED, HEURISTIC, UNDERLYING, FROM_REQUEST, COLLECTIONS, GENERATION = 0x01, 0x02, 0x04, 0x08, 0x10, 5, 7
"""Bits of ``_state``: s2c; the packets went the other way; sync by trial; datatype is the stored document's; vbucket is the request's;
and from which bit on the state of collections stands (two bits), and the generation."""

_HIDDEN = {"_file": pa.uint32(), "_last_file": pa.uint32(), "_state": pa.uint16(), "_kind": pa.uint8(), "_missing": pa.list_(pa.int64())}
_NARROW = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_SPARSE = 8
"""A column is sparse where fewer than one row in so many has a value."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive messages, ``first_row`` the first of them. There may be none, only places."""

    first_row: int
    rows: int
    table: Any
    """Arrow record batch of the kept columns."""
    places: Places
    piece: int
    """First piece of copied bytes (originals.py) that its own packets may stand in."""
    name: str | None = None
    """Of its files in the spool; None while it is in memory."""

    def kept(self, name: str, rows: Rows | slice) -> Any:
        """A kept column of some rows, counted within the part, in its short form; of null type where it has no value."""
        index = self.table.schema.get_field_index(name)
        count = len(range(*rows.indices(self.rows))) if isinstance(rows, slice) else len(rows)
        if index < 0:
            return pa.nulls(count)
        array = self.table.column(index)
        if pa.types.is_run_end_encoded(array.type):
            if pa.types.is_string(array.values.type):
                return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.uint8)), array.values)
            return pa.repeat(array.values[0], count)
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.rows)
            return array.slice(start, stop - start)
        return array.take(pa.array(rows))

    def column(self, name: str, rows: Rows | slice, *, with_dictionaries: bool = False) -> Any:
        """A column of the table in its own type; rows as above. ``with_dictionaries``: texts may stay in dictionaries."""
        if name == "row":
            numbers = np.arange(self.first_row, self.first_row + self.rows, dtype=np.int64)
            return pa.array(numbers[rows])
        if name == "time":
            return as_time(self.column("time_ns", rows).to_numpy())
        if name == "key":
            return as_text(self.column("key_bytes", rows))
        array = self.kept(name, rows)
        if name in _HIDDEN:
            return _wide(array, name)
        if with_dictionaries and BY_NAME[name].kind in ("text", "word") and not pa.types.is_null(array.type):
            return array
        return plain(array, name)


def part_of(batch: MessageBatch, turned: frozenset[int], places: Places, piece: int) -> Part:
    """The messages of a batch; ``turned`` are connections whose packets go the other way than their messages are said to."""
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
    arrays |= {"_file": pa.array(batch.file), "_last_file": pa.array(batch.last_file), "_state": pa.array(state)}
    arrays["_kind"] = pa.array(kinds(batch)[0].astype(np.uint8))
    if len(batch.missing.row):
        ends = 2 * np.searchsorted(batch.missing.row, np.arange(len(batch) + 1))
        ranges = np.stack([batch.missing.start, batch.missing.end], axis=1).reshape(-1)
        arrays["_missing"] = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(ranges))
    return Part(int(batch.row[0]), len(batch), _table(arrays), places, piece)


def only_places(first_row: int, places: Places, piece: int) -> Part:
    """Places whose messages, if they ever come, belong to later parts."""
    return Part(first_row, 0, _table({}), places, piece)


def small(part: Part) -> Part:
    """The same in as little room as it can be."""
    return replace(part, table=_table({name: _smallest(part.table.column(name)) for name in part.table.schema.names}))


def no_rows(name: str) -> Any:
    """A column of nothing."""
    return pa.array([], _HIDDEN[name] if name in _HIDDEN else type_of(name))


def numbers(array: Any) -> Numbers:
    """Of an Arrow array of integers, 0 where it has no value."""
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return Numbers(array.fill_null(0).to_numpy(zero_copy_only=False), valid)


def joined(parts: Sequence[Part]) -> Part:
    """Neighbours as one."""
    names = {name: None for part in parts for name in part.table.schema.names}
    arrays = {name: pa.concat_arrays([_wide(part.kept(name, slice(None)), name) for part in parts]) for name in names}
    places = joined_places([part.places for part in parts])
    return Part(parts[0].first_row, sum(part.rows for part in parts), _table(arrays), places, min(part.piece for part in parts))


def _wide_type(name: str) -> Any:
    """The type in which short forms of different batches go together."""
    if name in _HIDDEN:
        return _HIDDEN[name]
    kind = BY_NAME[name].kind
    if kind in ("text", "words", "word") and name not in WITHOUT:
        return pa.dictionary(pa.int32(), pa.string())
    return pa.uint64() if kind == "hex64" else type_of(name)


def _wide(array: Any, name: str) -> Any:
    wanted = _wide_type(name)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pa.types.is_dictionary(wanted):
        return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(wanted)


def _table(arrays: dict[str, Any]) -> Any:
    given = {name: array for name, array in arrays.items() if array.null_count < len(array)}
    return pa.RecordBatch.from_arrays(list(given.values()), names=list(given))


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
        given = array.is_valid().to_numpy(zero_copy_only=False)
        return pa.DictionaryArray.from_arrays(_narrow(pa.array(np.cumsum(given) - 1, mask=~given)), values)
    return _narrow(array)


def _narrow(array: Any) -> Any:
    """Integers in the narrowest type that holds them; negative ones stay as they are."""
    import pyarrow.compute as pc  # deferred: 40 ms

    low, high = (value.as_py() for value in pc.min_max(array).values())
    if low == high and low is not None and not array.null_count:
        return _once(pa.array([low], array.type), len(array))
    if low is None or low < 0:
        return array
    return array.cast(next(kind for kind in _NARROW if high < 1 << kind.bit_width))


def _once(value: Any, count: int) -> Any:
    kind = pa.run_end_encoded(pa.int32(), value.type)
    return pa.Array.from_buffers(kind, count, [None], children=[pa.array([count], pa.int32()), value])  # from_arrays takes 0.1 ms
