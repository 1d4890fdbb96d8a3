"""The tables in the form that Spark keeps: its own types, without the loss of a bit.

Spark has no unsigned numbers. Numbers below 64 bits get the next wider type. Numbers of 64 bits are
BIGINT with the same bits, which costs nothing and can be reversed exactly. The same is true of CAS
and UUIDs, which are 0x-strings elsewhere. ``views`` shows all of them in readable form. Times are
TIMESTAMP in microseconds, with nanoseconds in a further column, as everywhere.

Only this module converts tables into that form, as Arrow tables, which Spark's Python tasks take
and return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from dcpinspect.diff.difference_columns import PATHS as _PATHS
from dcpinspect.errors import UsageError
from dcpinspect.findings.finding_records import CONTRACTS, FINDINGS_WITH_FILES
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.tables.arrow import plain, short, type_of
from dcpinspect.tables.column_kinds import Column, arrow_type
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tables.schema import COLUMNS as ALL_COLUMNS
from dcpinspect.text import did_you_mean, escape

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = tuple(
    column
    for column in ALL_COLUMNS
    if column.name not in ("relative_ns", "collection", "request_key")
)
"""Columns of messages.

Without ``relative_ns`` and ``collection``: captures are read one by one, and none knows the first
packet of all, or what other captures say about names of collections. Without ``request_key``: a
join finds keys of requests.
"""
TABLES = ("messages", *CONTRACTS)
"""Names of the tables in SQL."""

WORD = pa.dictionary(pa.int32(), pa.string())
"""Type of texts that occur again and again, while they are sorted and written."""
_FEW = 16
"""Size of a dictionary from which it is reduced to the used texts.

There may be 10,000 capture names, and each row group has its dictionary.
"""
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
}


@cache
def columns_of(name: str) -> Mapping[str, Any]:
    """Returns the columns of a table with their Arrow types in the engine; tables of records have
    the name of their capture.

    Raises UsageError if there is no such table.
    """
    if name not in TABLES:
        raise UsageError(
            f"table {escape(name)}: there is "
            f"none{did_you_mean(name, TABLES) or '; there are ' + ', '.join(TABLES)}"
        )
    if name == "messages":
        return {column.name: type_of(column.name) for column in COLUMNS}
    return record_types(_record_columns(name))


def record_types(columns: Sequence[Column]) -> dict[str, Any]:
    """Returns the Arrow types of records; a time also has a column with its nanoseconds."""
    types = {}
    for column in columns:
        types[column.name] = arrow_type(column)
        if column.kind == "time":
            types[f"{column.name}_ns"] = pa.int64()
    return types


@cache
def whole_numbers(name: str) -> Mapping[str, Literal["u64", "hex64"]]:
    """Returns the columns of a table that are BIGINT for the sake of their bits, and which kind of
    number the bits are.
    """
    number_kinds: dict[str, Literal["u64", "hex64"]] = {}
    for column in COLUMNS if name == "messages" else _record_columns(name):
        if column.kind == "u64" or column.kind == "hex64":
            number_kinds[column.name] = column.kind
    return number_kinds


@cache
def table_schema(name: str) -> Any:
    """Returns a table's Arrow schema as Spark keeps it. Raises UsageError for no such table."""
    types, bits = columns_of(name), whole_numbers(name)
    return pa.schema(
        [
            pa.field(column, pa.int64() if column in bits else _kept_type(kind))
            for column, kind in types.items()
        ]
    )


def spark_type(schema: Any) -> StructType:
    """Returns an Arrow schema as Spark has it: for ``mapInArrow``, a data source or a reader."""
    from pyspark.sql.pandas.types import from_arrow_schema  # deferred: DuckDB does without

    return from_arrow_schema(schema)


def message_rows(batch: MessageBatch, rows: RowNumbers, columns: Sequence[str]) -> Any:
    """Returns these columns of these messages as a record batch of Spark's types; 64-bit numbers
    are never turned into text on the way.
    """
    arrays = [_plain(short(batch, rows, name), name) for name in columns]
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([table_schema("messages").field(name) for name in columns])
    )


def message_columns(batch: MessageBatch, columns: Sequence[str]) -> dict[str, Any]:
    """Returns the columns that have values, in the form of ``message_rows``; but texts that occur
    again and again stay dictionaries.
    """
    rows, arrays = np.arange(len(batch)), {}
    for name in columns:
        array = short(batch, rows, name)
        if array.null_count < len(array):
            is_word = pa.types.is_dictionary(array.type) and type_of(name) == pa.string()
            arrays[name] = _small(array) if is_word else _plain(array, name)
    return arrays


def _plain(array: Any, name: str) -> Any:
    """Returns a column of messages as Spark keeps it, from its short form."""
    return _spark_array(
        array if BY_NAME[name].kind == "hex64" else plain(array, name),
        table_schema("messages").field(name).type,
    )


def _small(array: Any) -> Any:
    """Returns a dictionary array whose dictionary has only used texts."""
    if len(array.dictionary) > _FEW:
        array = array.dictionary.take(array.indices).dictionary_encode()
    return array.cast(WORD)


def spark_table(name: str, table: Any) -> Any:
    """Returns the engine's table ``name`` in Spark's form; missing columns are null."""
    schema = table_schema(name)
    columns = [
        pa.chunked_array(
            [_spark_array(chunk, field.type) for chunk in table[field.name].chunks], field.type
        )
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _record_columns(name: str) -> tuple[Column, ...]:
    return FINDINGS_WITH_FILES.columns if name == "findings" else CONTRACTS[name].with_file.columns


def _kept_type(kind: Any) -> Any:
    if pa.types.is_map(kind):
        return pa.map_(_kept_type(kind.key_type), _kept_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_kept_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _kept_type(field.type)) for field in kind])
    return _WIDER.get(kind, kind)


def _spark_array(array: Any, kind: Any) -> Any:
    """Returns an array with the type that Spark keeps."""
    if array.type == kind:
        return array
    if pa.types.is_uint64(array.type):
        return array.view(kind)
    if pa.types.is_string(array.type):
        return _bits(array)
    # numbers within lists and records keep their bits, as columns of numbers do
    return array.cast(kind, safe=False)


def _bits(texts: Any) -> Any:
    """Returns 0x-strings of 16 digits as numbers in BIGINT."""
    digits = "".join(texts.fill_null("0x" + "0" * 16).to_pylist()).replace("0x", "")
    values = np.frombuffer(bytes.fromhex(digits), ">i8").astype(np.int64)
    return pa.array(values, mask=texts.is_null().to_numpy(zero_copy_only=False))


CONNECTION_ID = pa.field("connection_id", pa.int64())
POINT = pa.field("capture_point", pa.string())
DAY = pa.field("day", pa.date32())
PARTITIONS = (POINT.name, DAY.name)
"""Columns by which messages are partitioned: each file has one value in each. Days are in UTC."""
BOUNDED = ("connection_id", "row", "time", "time_ns")
"""Columns whose least and greatest value in each file the log has. They are never null."""
STORED_COLUMNS = tuple(name for name in table_schema("messages").names if name != "connection")
"""Stored columns of the engine's messages. The number of a connection is known only at the end, so
its id is stored.
"""
MESSAGES = pa.schema(
    [CONNECTION_ID, POINT, DAY, *(table_schema("messages").field(name) for name in STORED_COLUMNS)]
)
_TIME = pa.timestamp("us", "UTC")
_WHEN = [
    pa.field(name, kind)
    for time in ("first_time", "last_time")
    for name, kind in ((time, _TIME), (f"{time}_ns", pa.int64()))
]
CONNECTIONS = pa.schema(
    [CONNECTION_ID, POINT, *table_schema("connections"), pa.field("duplicate_of", pa.int64())]
)
"""Connections as they are stored. ``duplicate_of``: the same connection, captured at another point
with fewer gaps.
"""
CAPTURES = pa.schema(
    [
        pa.field("file", pa.string()),
        POINT,
        pa.field("path", pa.string()),
        pa.field("state", pa.string()),  # ok, damaged, bad; expired: too old
        pa.field("format", pa.string()),
        pa.field("bytes", pa.int64()),
        *_WHEN,
        pa.field("packets", pa.int64()),
        pa.field("used", pa.int64()),  # packets that the engine was given
        pa.field("problems", pa.int64()),
        pa.field("batch", pa.int32()),  # run that read the capture
    ]
)
BAD = pa.schema(
    [
        pa.field("file", pa.string()),
        POINT,
        pa.field(
            "severity", pa.string()
        ),  # error: nothing was read; warning: a part is damaged; note: its end is not written yet
        pa.field("offset", pa.int64()),  # offset in the unpacked bytes
        pa.field("what", pa.string()),
    ]
)
_PLACES = [
    pa.field(f"{side}_{name}", kind)
    for name, kind in (("connection_id", pa.int64()), ("capture_point", pa.string()))
    for side in "ab"
]
PATHS = pa.schema(
    [*_PLACES, *(pa.field(*column) for column in record_types(_PATHS.columns[2:]).items())]
)
"""Comparisons of connections that were captured at two points; A is the point where they count."""
SCHEMAS = {
    **{name: table_schema(name) for name in TABLES},
    "messages": MESSAGES,
    "connections": CONNECTIONS,
    "paths": PATHS,
    "captures": CAPTURES,
    "bad": BAD,
}
