"""Messages as Arrow record batches: the columns of ``schema``, as many as are wanted, in bulk.

A column is first made in its *short* form, which takes little memory: dictionaries and numbers, as
in ``tables.short_columns``. ``plain`` converts it to the type of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import Array, BoolArray
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.arrow_types import TYPES, as_text, gathered, hex64, record_type
from dcpinspect.tables.column_kinds import ColumnKind
from dcpinspect.tables.lists import list_column
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tables.short_columns import WITHOUT, ShortTexts, short_column


def type_of(name: str) -> Any:
    """Returns the Arrow type of a column."""
    column = BY_NAME[name]
    return (
        pa.list_(record_type(column.records)) if column.records is not None else TYPES[column.kind]
    )


def arrow_schema(columns: Sequence[str]) -> Any:
    """Returns the Arrow schema of these columns."""
    return pa.schema([pa.field(name, type_of(name)) for name in columns])


def record_batch(batch: MessageBatch, rows: RowNumbers, columns: Sequence[str]) -> Any:
    """Returns these columns of these messages."""
    arrays = [plain(short(batch, rows, name), name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def short(batch: MessageBatch, rows: RowNumbers, name: str) -> Any:
    """Returns a column in its short form."""
    if name in _LONG:
        return _LONG[name](batch, rows)
    if name in WITHOUT:
        return list_column(batch, rows, name)
    column = short_column(batch, rows, name)
    if column is None:
        return pa.nulls(len(rows))
    if isinstance(column, ShortTexts):
        return _dictionary(column)
    kind = BY_NAME[name].kind
    return _numbers(column, "u64" if kind == "hex64" else kind)


def plain(array: Any, name: str) -> Any:
    """Returns a column in its own type, from its short form: narrower, or a dictionary."""
    kind = BY_NAME[name].kind
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_of(name))
    if pa.types.is_dictionary(array.type) and not pa.types.is_string(array.type.value_type):
        array = array.dictionary.take(array.indices)
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        if kind == "words":
            values = pa.array(
                [text.split(",") if text else [] for text in values.to_pylist()], TYPES[kind]
            )
        return values.take(array.indices).cast(TYPES[kind])
    if kind == "hex64":
        valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
        return hex64(NumberColumn(array.fill_null(0).to_numpy(), valid))
    return array.cast(type_of(name))


def _dictionary(column: ShortTexts) -> Any:
    count, valid = len(column.texts), column.valid
    if None in column.texts:  # a missing text is a missing value
        has_text = np.array([text is not None for text in column.texts])[column.numbers]
        valid = has_text if valid is None else valid & has_text
    width = np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64
    numbers = pa.array(column.numbers.astype(width), mask=None if valid is None else ~valid)
    return pa.DictionaryArray.from_arrays(
        numbers, pa.array([text or "" for text in column.texts], pa.string())
    )


def _numbers(numbers: NumberColumn, kind: ColumnKind) -> Any:
    values = numbers.values.astype(TYPES[kind].to_pandas_dtype(), copy=False)
    return pa.array(values, TYPES[kind], mask=None if numbers.valid is None else ~numbers.valid)


def _key_bytes(batch: MessageBatch, rows: RowNumbers) -> Any:
    slices = batch.decoded.key.take(rows)
    valid = (slices.size >= 0) & ~(batch.decoded.hides_key[rows] & (slices.size > 0))
    for index in np.flatnonzero(np.isin(rows, batch.missing.row)).tolist():
        valid[index] &= batch.key_of(int(rows[index])) is not None
    keys = gathered(batch.data, slices, valid)
    if batch.redactor is None:
        return keys
    return _redacted(keys, batch.has_private_key(rows), batch.redactor)


def _request_keys(batch: MessageBatch, rows: RowNumbers) -> Any:
    """Returns the keys of the requests that messages answer: for requests in the batch in bulk, for
    the few earlier ones one by one.
    """
    request = batch.request_row.take(rows)
    valid = request.is_known
    request_rows = np.where(valid, request.values.astype(np.int64), 0)
    batch_index = np.minimum(np.maximum(batch.index_of(request_rows), 0), max(0, len(batch) - 1))
    is_here = valid & (batch.row[batch_index] == request_rows) if len(batch) else valid
    keys = _key_bytes(batch, batch_index[is_here]).take(
        pa.array(np.cumsum(is_here) - 1, mask=~is_here)
    )
    earlier = np.flatnonzero(valid & ~is_here)
    if len(earlier) and batch.earlier_keys:
        import pyarrow.compute as pc  # deferred: takes 40 ms, and only such rows need it

        earlier_keys = pa.array(
            [batch.earlier_keys.get(row) for row in request_rows[earlier].tolist()], pa.binary()
        )
        keys = pc.replace_with_mask(keys, pa.array(valid & ~is_here), earlier_keys)
    return as_text(keys)


def _redacted(keys: Any, is_private: BoolArray, redactor: Redactor) -> Any:
    """Returns keys with replacements for private ones; each different key is replaced once."""
    import pyarrow.compute as pc  # deferred, as above

    different = keys.dictionary_encode()
    replaced = pa.array(
        [redactor.replacement(key) for key in different.dictionary.to_pylist()], pa.binary()
    )
    return pc.if_else(pa.array(is_private), replaced.take(different.indices), keys)


def _values(batch: MessageBatch, rows: RowNumbers) -> Any:
    from dcpinspect.tables.value_column import values  # deferred, as above

    return values(batch, rows)


def as_time(time_ns: Array) -> Any:
    """Returns nanoseconds in the form of the column ``time``."""
    return pa.array(time_ns // 1000, TYPES["time"])


_LONG: dict[str, Callable[[MessageBatch, RowNumbers], Any]] = {
    "time": lambda batch, rows: as_time(batch.time_ns[rows]),
    "key": lambda batch, rows: as_text(_key_bytes(batch, rows)),
    "key_bytes": _key_bytes,
    "request_key": _request_keys,
    "value": _values,
}
