"""The Arrow types of columns, and numbers in the text form of CAS values and UUIDs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import BoolArray, ByteArray
from dcpinspect.protocol.column_types import NumberColumn, Slices
from dcpinspect.protocol.fields import FieldKind, RecordList
from dcpinspect.tables.column_kinds import KINDS, ColumnKind
from dcpinspect.tables.schema import FIELD_KINDS

TYPES: dict[ColumnKind, Any] = {name: kind.arrow(pa) for name, kind in KINDS.items()}


def record_type(run: RecordList) -> Any:
    """Returns the Arrow type of a record in a run; tables leave out documents in records."""
    fields = []
    for spec in run.fields:
        kind = (
            "words"
            if spec.flags
            else "text"
            if spec.kind is FieldKind.KEY
            else FIELD_KINDS.get(spec.kind)
        )
        if kind is not None:
            fields.append(pa.field(spec.name, TYPES[kind]))
    return pa.struct(fields)


def hex64(numbers: NumberColumn) -> Any:
    """Returns 0x-strings of 16 digits, made as one block of text."""
    count = len(numbers.values)
    nibbles = np.empty((count, 16), np.uint8)
    octets = numbers.values.astype(">u8").view(np.uint8).reshape(count, 8)
    nibbles[:, 0::2], nibbles[:, 1::2] = octets >> 4, octets & 15
    text = np.empty((count, 18), np.uint8)
    text[:, :2] = (ord("0"), ord("x"))
    text[:, 2:] = np.where(nibbles < 10, nibbles + ord("0"), nibbles + (ord("a") - 10))
    offsets = np.arange(count + 1, dtype=np.int32) * 18
    validity = (
        None
        if numbers.valid is None
        else pa.py_buffer(np.packbits(numbers.valid, bitorder="little").tobytes())
    )
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(text.tobytes()), validity
    )


def gathered(data: ByteArray, slices: Slices, valid: BoolArray) -> Any:
    """Returns a binary array of the slices of a buffer."""
    size = np.where(valid, np.maximum(slices.size, 0), 0)
    offsets = np.zeros(len(size) + 1, dtype=np.int64)
    np.cumsum(size, out=offsets[1:])
    byte_index = np.repeat(slices.start - offsets[:-1], size) + np.arange(
        offsets[-1], dtype=np.int64
    )
    validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = (pa.py_buffer(offsets.tobytes()), pa.py_buffer(data[byte_index].tobytes()))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(size), [validity, *buffers]
    ).cast(pa.binary())


def as_text(raw: Any) -> Any:
    """Returns bytes as text, null if they are not UTF-8: the column ``key`` is made in this way
    from ``key_bytes``.
    """
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if key is None else _utf8(key) for key in raw.to_pylist()], pa.string()
        )


def _utf8(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def in_pieces(batch: Any, most_bytes: int) -> Iterator[Any]:
    """Yields the rows of a record batch, so many bytes at once, unless a row alone has more."""
    if batch.nbytes <= most_bytes or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from in_pieces(batch.slice(0, half), most_bytes)
    yield from in_pieces(batch.slice(half), most_bytes)
