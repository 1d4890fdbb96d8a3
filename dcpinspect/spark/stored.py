"""The tables as they are stored: those in the form that Spark keeps (``schema``), with the columns
that only the pipeline has.
"""

from __future__ import annotations

import pyarrow as pa

from dcpinspect.diff.difference_columns import PATHS as _PATHS
from dcpinspect.spark.spark_schema import TABLES, record_types, table_schema

CONNECTION_ID = pa.field("connection_id", pa.int64())
POINT = pa.field("capture_point", pa.string())
DAY = pa.field("day", pa.date32())
PARTITIONS = (POINT.name, DAY.name)
"""Columns by which messages are partitioned: each file has one value in each. Days are in UTC."""
BOUNDED = ("connection_id", "row", "time", "time_ns")
"""Columns whose least and greatest value in each file the log has. They are never null."""
COLUMNS = tuple(name for name in table_schema("messages").names if name != "connection")
"""Stored columns of the engine's messages. The number of a connection is known only at the end, so
its id is stored.
"""
MESSAGES = pa.schema(
    [CONNECTION_ID, POINT, DAY, *(table_schema("messages").field(name) for name in COLUMNS)]
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
