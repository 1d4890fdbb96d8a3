"""Columns that are lists: the records that some messages have in their value, a struct for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.protocol.annotate import MAX_RECORDS
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.protocol.fields import FieldKind, RecordList, bit_names, fixed_size
from dcpinspect.protocol.message import FieldValue
from dcpinspect.tables.arrow_types import hex64, record_type
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME


def list_column(batch: MessageBatch, rows: RowNumbers, name: str) -> Any:
    """Returns the records of each message; null for messages whose value has no such records."""
    run = BY_NAME[name].records
    assert run is not None
    least = fixed_size(run.fields) or 1
    has_some = np.zeros(len(batch), np.bool_)
    for choice, members in ((group.choice, group.rows) for group in batch.decoded.groups):
        if (
            choice.layout is not None
            and choice.value_fits
            and run.name in {item.name for item in choice.layout.value}
        ):
            has_some[members] = batch.decoded.value.size[members] >= least
    rows_with_records = rows[has_some[rows]]
    if not len(rows_with_records):
        return pa.nulls(len(rows))
    in_bulk = _is_fixed(run) and not np.isin(rows_with_records, batch.missing.row).any()
    # of records that do not fill the value, nothing says that they are numbers
    if batch.redactor is not None:
        in_bulk = in_bulk and not (batch.decoded.value.size[rows_with_records] % least).any()
    counts, values = (
        _fixed(batch, rows_with_records, run) if in_bulk else _varied(batch, rows_with_records, run)
    )
    ends = np.zeros(len(rows) + 1, np.int32)
    ends[1:][has_some[rows]] = counts
    offsets = pa.array(np.cumsum(ends, dtype=np.int32), mask=np.append(ends[1:] == 0, False))
    return pa.ListArray.from_arrays(offsets, values)


def _is_fixed(run: RecordList) -> bool:
    """Whether all records have the same size, and consist of numbers."""
    return fixed_size(run.fields) is not None and all(
        spec.kind.size and not spec.flags for spec in run.fields
    )


def _fixed(batch: MessageBatch, rows: RowNumbers, run: RecordList) -> tuple[RowNumbers, Any]:
    """Returns how many records each message has, and all records, straight from the bytes."""
    dtype = np.dtype([(spec.name, f">u{spec.kind.size}") for spec in run.fields])
    counts = np.minimum(batch.decoded.value.size[rows] // dtype.itemsize, MAX_RECORDS)
    starts = batch.decoded.value.start[rows]
    pieces = [
        np.frombuffer(batch.data, dtype, count, start) if count else np.empty(0, dtype)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]
    table = np.concatenate(pieces)
    kind = record_type(run)
    columns = [
        hex64(NumberColumn(table[field.name].astype(np.uint64)))
        if pa.types.is_string(field.type)
        else pa.array(table[field.name].astype("=u8"))
        for field in kind
    ]
    return counts, pa.StructArray.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, kind, strict=True)],
        fields=list(kind),
    )


def _varied(batch: MessageBatch, rows: RowNumbers, run: RecordList) -> tuple[RowNumbers, Any]:
    """Returns the same as ``_fixed`` for records of any size, from the messages' annotations."""
    kind = record_type(run)
    names = {field.name for field in kind}
    counts = np.zeros(len(rows), np.int64)
    records: list[dict[str, Any]] = []
    for index, row in enumerate(rows.tolist()):
        record_fields = [field for field in batch.annotate(row).fields if field.group == run.name]
        counts[index] = len(record_fields)
        records += [
            {inner.name: _value(inner) for inner in field.fields if inner.name in names}
            for field in record_fields
        ]
    return counts, pa.array(records, kind)


def _value(field: FieldValue) -> Any:
    if field.spec is not None and field.spec.flags and isinstance(field.value, int):
        return bit_names(field.spec.flags, field.value)
    is_key = field.spec is not None and field.spec.kind is FieldKind.KEY
    return None if is_key and not isinstance(field.value, str) else field.value
