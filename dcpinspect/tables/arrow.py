"""Messages as Arrow record batches: the columns of ``schema``, as many as are wanted, in bulk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcpinspect.protocol.columns import Array, Mask, Numbers, Rows, Slices
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.decode import ERROR_LAYOUT, NO_LAYOUT, PROBLEMS
from dcpinspect.protocol.fields import Field, bit_names
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.protocol.statuses import status_name
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch
from dcpinspect.tables.schema import BY_NAME, Column, ColumnKind

TYPES: dict[ColumnKind, Any] = {
    "u8": pa.uint8(),
    "u16": pa.uint16(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "time": pa.timestamp("us", "UTC"),
    "hex64": pa.string(),
    "words": pa.list_(pa.string()),
    "word": pa.string(),
    "bool": pa.bool_(),
}


def arrow_schema(columns: Sequence[str]) -> Any:
    """The Arrow schema of these columns."""
    return pa.schema([pa.field(name, TYPES[BY_NAME[name].kind]) for name in columns])


def record_batch(batch: MessageBatch, rows: Rows, columns: Sequence[str]) -> Any:
    """These columns of these messages."""
    return pa.RecordBatch.from_arrays([_column(batch, rows, BY_NAME[name]) for name in columns], schema=arrow_schema(columns))


def _column(batch: MessageBatch, rows: Rows, column: Column) -> Any:
    maker = _MAKERS.get(column.name)
    if maker is not None:
        return maker(batch, rows)
    numbers = batch.decoded.numbers.get(column.name)
    if numbers is None:
        return pa.nulls(len(rows), TYPES[column.kind])
    if column.kind == "hex64":
        return _hex64(numbers.take(rows))
    if column.kind in ("words", "word"):
        return _worded(batch, rows, column, numbers.take(rows))
    return _numbers(numbers.take(rows), column.kind)


def _numbers(numbers: Numbers, kind: ColumnKind) -> Any:
    values = numbers.values.astype(TYPES[kind].to_pandas_dtype(), copy=False)
    return pa.array(values, TYPES[kind], mask=None if numbers.valid is None else ~numbers.valid)


def _hex64(numbers: Numbers) -> Any:
    """0x-strings of 16 digits, made as one block of text."""
    count = len(numbers.values)
    nibbles = np.empty((count, 16), np.uint8)
    octets = numbers.values.astype(">u8").view(np.uint8).reshape(count, 8)
    nibbles[:, 0::2], nibbles[:, 1::2] = octets >> 4, octets & 15
    text = np.empty((count, 18), np.uint8)
    text[:, :2] = (ord("0"), ord("x"))
    text[:, 2:] = np.where(nibbles < 10, nibbles + ord("0"), nibbles + (ord("a") - 10))
    offsets = np.arange(count + 1, dtype=np.int32) * 18
    validity = None if numbers.valid is None else pa.py_buffer(np.packbits(numbers.valid, bitorder="little").tobytes())
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(text.tobytes()), validity)


def _looked_up(index: Array, texts: Sequence[Any], valid: Mask | None = None, kind: Any = None) -> Any:
    """The text of each row by its number in a list of texts."""
    places = pa.array(index.astype(np.int64, copy=False), mask=None if valid is None else ~valid)
    return pa.array(texts, kind or pa.string()).take(places)


def _distinct(values: Array, text: Callable[[int], Any], valid: Mask | None = None, kind: Any = None) -> Any:
    """The text of each row's number, made once for each different number."""
    numbers, inverse = np.unique(values, return_inverse=True)
    return _looked_up(inverse, [text(int(number)) for number in numbers], valid, kind)


def _worded(batch: MessageBatch, rows: Rows, column: Column, numbers: Numbers) -> Any:
    """Names of flags, or the word of an enumeration; by layout, since each has its own."""
    layout = batch.decoded.layout[rows]
    specs: dict[int, Field] = {}
    for number in np.unique(layout[numbers.valid] if numbers.valid is not None else layout).tolist():
        found = next((item for item in (*LAYOUTS[number].extras, *LAYOUTS[number].value) if item.name == column.name), None)
        if isinstance(found, Field):
            specs[number] = found

    def text(key: int) -> Any:
        spec = specs.get(key >> 64)
        if spec is None:
            return None
        value = key & 0xFFFF_FFFF_FFFF_FFFF
        return bit_names(spec.flags, value) if column.kind == "words" else spec.word(value)

    pairs, inverse = np.unique(np.stack([layout.astype(np.uint64), numbers.values]), axis=1, return_inverse=True)
    texts = [text(int(number) << 64 | int(value)) for number, value in pairs.T]
    return _looked_up(inverse.reshape(-1), texts, numbers.valid, TYPES[column.kind])


def _slices(data: npt.NDArray[np.uint8], slices: Slices, valid: Mask) -> Any:
    """A binary array of places in a buffer, gathered into one."""
    size = np.where(valid, np.maximum(slices.size, 0), 0)
    offsets = np.zeros(len(size) + 1, dtype=np.int64)
    np.cumsum(size, out=offsets[1:])
    places = np.repeat(slices.start - offsets[:-1], size) + np.arange(offsets[-1], dtype=np.int64)
    validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = (pa.py_buffer(offsets.tobytes()), pa.py_buffer(data[places].tobytes()))
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(size), [validity, *buffers]).cast(pa.binary())


def _key_bytes(batch: MessageBatch, rows: Rows) -> Any:
    slices = batch.decoded.key.take(rows)
    valid = slices.size >= 0
    for row in np.unique(batch.missing.row).tolist():
        valid[rows == row] &= batch.key_of(row) is not None
    return _slices(batch.data, slices, valid)


def _key(batch: MessageBatch, rows: Rows) -> Any:
    """Keys as text, null where they are not UTF-8."""
    raw = _key_bytes(batch, rows)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if key is None else _utf8(key) for key in raw.to_pylist()], pa.string())


def _utf8(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _missing_bytes(batch: MessageBatch, rows: Rows) -> Any:
    lost = np.zeros(len(batch), dtype=np.int64)
    np.add.at(lost, batch.missing.row, batch.missing.end - batch.missing.start)
    return pa.array(lost[rows])


def _layout(batch: MessageBatch, rows: Rows) -> Any:
    numbers = np.where(batch.decoded.extras_fit[rows], batch.decoded.layout[rows], NO_LAYOUT)
    return _distinct(numbers, lambda number: "error" if number == ERROR_LAYOUT else LAYOUTS[number].generation, numbers != NO_LAYOUT)


def _names(batch: MessageBatch, rows: Rows) -> Any:
    codes = batch.decoded.is_server[rows].astype(np.int64) << 8 | batch.decoded.opcode[rows]
    return _distinct(codes, lambda code: opcode_name(code & 0xFF, server=bool(code >> 8)))


def _plain(name: str) -> Callable[[MessageBatch, Rows], Any]:
    return lambda batch, rows: pa.array(getattr(batch, name)[rows])


def _decoded(name: str, kind: ColumnKind) -> Callable[[MessageBatch, Rows], Any]:
    return lambda batch, rows: _numbers(Numbers(getattr(batch.decoded, name)[rows]), kind)


def _pair(name: str, kind: ColumnKind) -> Callable[[MessageBatch, Rows], Any]:
    return lambda batch, rows: _numbers(getattr(batch, name).take(rows), kind)


_MAKERS: dict[str, Callable[[MessageBatch, Rows], Any]] = {
    **{name: _plain(name) for name in ("row", "frame", "last_frame", "connection", "stream_offset", "length", "time_ns")},
    "file": lambda batch, rows: _looked_up(
        batch.file[rows], [name.encode(errors="surrogateescape").decode(errors="backslashreplace") for name in batch.files]
    ),
    "time": lambda batch, rows: pa.array(batch.time_ns[rows] // 1000, pa.timestamp("us", "UTC")),
    "client": lambda batch, rows: _distinct(batch.connection[rows], lambda number: batch.endpoints.client[number - 1]),
    "server": lambda batch, rows: _distinct(batch.connection[rows], lambda number: batch.endpoints.server[number - 1]),
    "direction": lambda batch, rows: _looked_up(batch.direction[rows], DIRECTIONS),
    "side": lambda batch, rows: _looked_up(batch.decoded.is_response[rows], ("request", "response")),
    "magic": _decoded("magic", "u8"),
    "opcode": _decoded("opcode", "u8"),
    "name": _names,
    "layout": _layout,
    "vbucket": _pair("vbucket", "u16"),
    "vbucket_from": lambda batch, rows: _looked_up(np.zeros(len(rows), dtype=np.int64), ("request",), batch.vbucket_from_request[rows]),
    "status": lambda batch, rows: _numbers(Numbers(batch.decoded.specific[rows], batch.decoded.is_response[rows]), "u16"),
    "status_name": lambda batch, rows: _distinct(batch.decoded.specific[rows], status_name, batch.decoded.is_response[rows]),
    "opaque": _decoded("opaque", "u32"),
    "cas": lambda batch, rows: _hex64(Numbers(batch.decoded.cas[rows], ~batch.holds_token[rows])),
    "datatype": lambda batch, rows: _looked_up(
        batch.decoded.datatype[rows], [list(names) for names in DATATYPE_NAMES], kind=pa.list_(pa.string())
    ),
    "sid": lambda batch, rows: _numbers(batch.decoded.sid.take(rows), "u16"),
    "collection_id": lambda batch, rows: _numbers(batch.decoded.collection_id.take(rows), "u32"),
    "key": _key,
    "key_bytes": _key_bytes,
    "value_size": lambda batch, rows: pa.array(batch.decoded.value.size[rows]),
    "request_row": _pair("request_row", "i64"),
    "request_stream_offset": _pair("request_stream_offset", "i64"),
    "rtt_ns": _pair("rtt_ns", "i64"),
    "missing_bytes": _missing_bytes,
    "problem": lambda batch, rows: _looked_up(batch.decoded.problem[rows], [problem or None for problem in PROBLEMS]),
}
