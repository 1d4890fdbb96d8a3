"""Columns of messages in their short form, in bulk: numbers, or texts as numbers in a list of
different texts.

Several words are one text with commas; CAS and UUIDs are 64-bit numbers. Bytes, keys, values, times
and lists of records have no short form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dcpinspect.arrays import Array, BoolArray, unique
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.decode import ERROR_LAYOUT, NO_LAYOUT, PROBLEMS
from dcpinspect.protocol.fields import Field, bit_names
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.protocol.statuses import status_name
from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.messages import DIRECTIONS, SIDES, MessageBatch
from dcpinspect.tables.schema import BY_NAME, SPECIFIC
from dcpinspect.text import name_text, words_of

WITHOUT = frozenset(
    {
        "key",
        "key_bytes",
        "request_key",
        "time",
        "value",
        *(column.name for column in SPECIFIC if column.records is not None),
    }
)
"""Columns that have no short form."""
_FEW = 1 << 12
"""Smaller numbers are looked up in a table of this size."""


@dataclass(frozen=True, slots=True)
class ShortTexts:
    """A column of texts: each row has its number in ``texts``, where None stands for no value."""

    numbers: Array
    texts: Sequence[str | None]
    valid: BoolArray | None = None
    """False for rows without a value; None: only ``texts`` says which rows have none."""


def short_column(
    batch: MessageBatch, rows: RowNumbers, name: str
) -> NumberColumn | ShortTexts | None:
    """Returns a column's short form for these messages; None if no message has a value."""
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(batch, rows)
    column = BY_NAME[name]
    if column.spec is None:
        # it would be empty wherever it is shown
        raise NotImplementedError(f"nothing makes the column {name}")
    numbers = batch.shown(name)
    if numbers is None:
        return None
    if column.kind in ("words", "word"):
        return _worded(batch, rows, column, numbers.take(rows))
    return numbers.take(rows)


def _distinct(
    values: Array, text: Callable[[int], str | None], valid: BoolArray | None = None
) -> ShortTexts:
    """Returns the text of each row's number; each different number is converted once. Rows that are
    not ``valid`` do not count.
    """
    valid_values = values if valid is None else values[valid]
    if len(valid_values) and valid_values.max() < _FEW:  # a table needs no sorting
        is_there = np.zeros(_FEW, dtype=np.bool_)
        is_there[valid_values] = True
        numbers = np.flatnonzero(is_there)
        table_index = np.cumsum(is_there) - 1
        inverse = table_index[values if valid is None else np.where(valid, values, 0)]
    else:
        numbers, number_index = np.unique(valid_values, return_inverse=True)
        inverse = number_index
        if valid is not None:
            inverse = np.zeros(len(values), dtype=np.int64)
            inverse[valid] = number_index
    return ShortTexts(inverse, [text(int(number)) for number in numbers], valid)


def _worded(
    batch: MessageBatch, rows: RowNumbers, column: Column, numbers: NumberColumn
) -> ShortTexts:
    """Returns names of flags, or the word of an enumeration; by layout, as each has its own."""
    layout = batch.decoded.layout[rows]
    specs: dict[int, Field] = {}
    for number in unique(layout[numbers.valid] if numbers.valid is not None else layout).tolist():
        layout_field = next(
            (
                item
                for item in (*LAYOUTS[number].extras, *LAYOUTS[number].value)
                if item.name == column.name
            ),
            None,
        )
        if isinstance(layout_field, Field):
            specs[number] = layout_field

    def text(number: int, value: int) -> str | None:
        spec = specs.get(number)
        if spec is None:
            return None
        return (
            ",".join(bit_names(spec.flags, value)) if column.kind == "words" else spec.word(value)
        )

    # there are many numbers, but few different ones, even if only one row in twenty has any
    has_value = numbers.is_known
    values, inverse = np.unique(numbers.values[has_value], return_inverse=True)
    pairs = np.zeros(len(rows), dtype=np.int64)
    pairs[has_value] = (layout[has_value] - NO_LAYOUT) * len(values) + inverse
    return _distinct(
        pairs,
        lambda pair: text(pair // len(values) + NO_LAYOUT, int(values[pair % len(values)])),
        has_value,
    )


def _missing_bytes(batch: MessageBatch, rows: RowNumbers) -> NumberColumn:
    lost = np.zeros(len(batch), dtype=np.int64)
    np.add.at(lost, batch.missing.row, batch.missing.end - batch.missing.start)
    return NumberColumn(lost[rows])


def _layout(batch: MessageBatch, rows: RowNumbers) -> ShortTexts:
    numbers = np.where(batch.decoded.extras_fit[rows], batch.decoded.layout[rows], NO_LAYOUT)
    return _distinct(
        numbers,
        lambda number: "error" if number == ERROR_LAYOUT else LAYOUTS[number].generation,
        numbers != NO_LAYOUT,
    )


def _names(batch: MessageBatch, rows: RowNumbers) -> ShortTexts:
    codes = batch.decoded.is_server[rows].astype(np.int64) << 8 | batch.decoded.opcode[rows]
    return _distinct(codes, lambda code: opcode_name(code & 0xFF, server=bool(code >> 8)))


def _collections(batch: MessageBatch, rows: RowNumbers) -> ShortTexts | None:
    ids = batch.decoded.collection_id.take(rows)
    has_value = ids.is_known
    if not has_value.any():
        return None
    numbers = ids.values.astype(np.int64)
    width = int(numbers[has_value].max()) + 1
    values = batch.connection[rows] * width + numbers
    message_rows = batch.row[rows]
    moments = batch.names.moments(int(message_rows.min()), int(message_rows.max()))
    if not len(moments):  # no name changes within the batch
        row = int(message_rows.min())
        return _distinct(
            values,
            lambda value: batch.names.collection(value // width, value % width, row),
            has_value,
        )
    pairs, inverse = np.unique(values, return_inverse=True)
    since = np.concatenate((message_rows.min(keepdims=True), moments))
    values = inverse * len(since) + np.searchsorted(since, message_rows, side="right") - 1

    def text(value: int) -> str:
        pair, moment = int(pairs[value // len(since)]), value % len(since)
        return batch.names.collection(pair // width, pair % width, int(since[moment]))

    return _distinct(values, text, has_value)


def _plain(name: str) -> Callable[[MessageBatch, RowNumbers], NumberColumn]:
    return lambda batch, rows: NumberColumn(getattr(batch, name)[rows])


def _decoded(name: str) -> Callable[[MessageBatch, RowNumbers], NumberColumn]:
    return lambda batch, rows: NumberColumn(getattr(batch.decoded, name)[rows])


def _pair(name: str) -> Callable[[MessageBatch, RowNumbers], NumberColumn]:
    return lambda batch, rows: getattr(batch, name).take(rows)


_MAKERS: dict[str, Callable[[MessageBatch, RowNumbers], NumberColumn | ShortTexts | None]] = {
    **{
        name: _plain(name)
        for name in words_of("row frame last_frame connection stream_offset length time_ns")
    },
    "relative_ns": lambda batch, rows: NumberColumn(batch.time_ns[rows] - batch.origin_ns),
    "file": lambda batch, rows: ShortTexts(batch.file[rows], [*map(name_text, batch.files)]),
    "client": lambda batch, rows: _distinct(
        batch.connection[rows], lambda number: batch.endpoints.client[number - 1]
    ),
    "server": lambda batch, rows: _distinct(
        batch.connection[rows], lambda number: batch.endpoints.server[number - 1]
    ),
    "direction": lambda batch, rows: ShortTexts(batch.direction[rows], DIRECTIONS),
    "side": lambda batch, rows: ShortTexts(batch.decoded.is_response[rows], SIDES),
    "magic": _decoded("magic"),
    "opcode": _decoded("opcode"),
    "name": _names,
    "layout": _layout,
    "vbucket": _pair("vbucket"),
    "vbucket_from": lambda batch, rows: ShortTexts(
        np.zeros(len(rows), dtype=np.int64), ("request",), batch.vbucket_from_request[rows]
    ),
    "status": lambda batch, rows: NumberColumn(
        batch.decoded.specific[rows], batch.decoded.is_response[rows]
    ),
    "status_name": lambda batch, rows: _distinct(
        batch.decoded.specific[rows], status_name, batch.decoded.is_response[rows]
    ),
    "opaque": _decoded("opaque"),
    "cas": lambda batch, rows: NumberColumn(batch.decoded.cas[rows], ~batch.holds_token[rows]),
    "datatype": lambda batch, rows: _distinct(
        batch.decoded.datatype[rows], lambda bits: ",".join(DATATYPE_NAMES[bits])
    ),
    "sid": lambda batch, rows: batch.decoded.sid.take(rows),
    "collection_id": lambda batch, rows: batch.decoded.collection_id.take(rows),
    "collection": _collections,
    "value_size": lambda batch, rows: NumberColumn(batch.decoded.value.size[rows]),
    "request_row": _pair("request_row"),
    "request_stream_offset": _pair("request_stream_offset"),
    "rtt_ns": _pair("rtt_ns"),
    "missing_bytes": _missing_bytes,
    "problem": lambda batch, rows: ShortTexts(
        batch.decoded.problem[rows], [problem or None for problem in PROBLEMS]
    ),
}
