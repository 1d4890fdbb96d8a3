"""Messages as Arrow record batches: the columns of ``schema``, as many as are wanted, in bulk.

A column is first made in its *short* form, in which it can be kept: texts as numbers in a dictionary, several words as one text with
commas, CAS and UUIDs as 64-bit numbers. ``plain`` gives it the type that the table has.
"""

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

_FEW = 1 << 12
"""Numbers below are looked up in a table of that size."""

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
    arrays = [plain(short(batch, rows, name), name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def short(batch: MessageBatch, rows: Rows, name: str) -> Any:
    """A column in its short form."""
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(batch, rows)
    column = BY_NAME[name]
    numbers = batch.decoded.numbers.get(name)
    if numbers is None:
        return pa.nulls(len(rows))
    if column.kind in ("words", "word"):
        return _worded(batch, rows, column, numbers.take(rows))
    return _numbers(numbers.take(rows), "u64" if column.kind == "hex64" else column.kind)


def plain(array: Any, name: str) -> Any:
    """A column in the type of ``TYPES``, from its short form; integers may also be narrower."""
    kind = BY_NAME[name].kind
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), TYPES[kind])
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        if kind == "words":
            values = pa.array([text.split(",") if text else [] for text in values.to_pylist()], TYPES[kind])
        return values.take(array.indices).cast(TYPES[kind])
    if kind == "hex64":
        valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
        return _hex64(Numbers(array.fill_null(0).to_numpy(), valid))
    return array.cast(TYPES[kind])


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


def _looked_up(index: Array, texts: Sequence[str | None], valid: Mask | None = None) -> Any:
    """The text of each row by its number in a list of texts."""
    width = np.uint8 if len(texts) <= 1 << 8 else np.uint16 if len(texts) <= 1 << 16 else np.int64
    return pa.DictionaryArray.from_arrays(
        pa.array(index.astype(width, copy=False), mask=None if valid is None else ~valid), pa.array(texts, pa.string())
    )


def _distinct(values: Array, text: Callable[[int], str | None], valid: Mask | None = None) -> Any:
    """The text of each row's number, made once for each different number; numbers of rows that are not ``valid`` do not count."""
    wanted = values if valid is None else values[valid]
    if len(wanted) and wanted.max() < _FEW:  # without sorting
        is_there = np.zeros(_FEW, dtype=np.bool_)
        is_there[wanted] = True
        numbers = np.flatnonzero(is_there)
        place = np.cumsum(is_there) - 1
        inverse = place[values if valid is None else np.where(valid, values, 0)]
    else:
        numbers, found = np.unique(wanted, return_inverse=True)
        inverse = found
        if valid is not None:
            inverse = np.zeros(len(values), dtype=np.int64)
            inverse[valid] = found
    return _looked_up(inverse, [text(int(number)) for number in numbers], valid)


def _worded(batch: MessageBatch, rows: Rows, column: Column, numbers: Numbers) -> Any:
    """Names of flags, or the word of an enumeration; by layout, since each has its own."""
    layout = batch.decoded.layout[rows]
    specs: dict[int, Field] = {}
    for number in np.unique(layout[numbers.valid] if numbers.valid is not None else layout).tolist():
        found = next((item for item in (*LAYOUTS[number].extras, *LAYOUTS[number].value) if item.name == column.name), None)
        if isinstance(found, Field):
            specs[number] = found

    def text(number: int, value: int) -> str | None:
        spec = specs.get(number)
        if spec is None:
            return None
        return ",".join(bit_names(spec.flags, value)) if column.kind == "words" else spec.word(value)

    # numbers of flags are many, different ones are few, also where only one row in twenty has one
    given = np.ones(len(rows), dtype=np.bool_) if numbers.valid is None else numbers.valid
    values, inverse = np.unique(numbers.values[given], return_inverse=True)
    pairs = np.zeros(len(rows), dtype=np.int64)
    pairs[given] = (layout[given] - NO_LAYOUT) * len(values) + inverse
    return _distinct(pairs, lambda pair: text(pair // len(values) + NO_LAYOUT, int(values[pair % len(values)])), given)


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
    for place in np.flatnonzero(np.isin(rows, batch.missing.row)).tolist():
        valid[place] &= batch.key_of(int(rows[place])) is not None
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
    "cas": lambda batch, rows: _numbers(Numbers(batch.decoded.cas[rows], ~batch.holds_token[rows]), "u64"),
    "datatype": lambda batch, rows: _distinct(batch.decoded.datatype[rows], lambda bits: ",".join(DATATYPE_NAMES[bits])),
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
