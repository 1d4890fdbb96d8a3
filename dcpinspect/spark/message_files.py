"""Messages as Parquet files, without the columns that no message of them has.

Those of a vbucket stand together: as many messages as memory allows are sorted by it, in their order otherwise, before they are written.
Who wants one vbucket reads the row groups that may have it, which their statistics say, and leaves out the others.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.capture.batch import Column
from dcpinspect.spark.schema import message_rows, table_schema
from dcpinspect.tables.messages import MessageBatch

ROWS = 1 << 19
"""Messages that are sorted together, about."""
BYTES = 64 << 20
"""Bytes of memory of these from which on there are enough."""
GROUP = 1 << 13
"""Messages of a row group. Of a million, a query for one of 1,024 vbuckets reads 3 % of the bytes; with groups twice as large, 7 %."""
FILE_BYTES = 256 << 20
"""Bytes of a file from which on the next one begins."""
CONNECTION_ID, POINT = pa.field("connection_id", pa.int64()), pa.field("capture_point", pa.string())
COLUMNS = tuple(name for name in table_schema("messages").names if name != "connection")
"""Columns of the engine's table that are stored. The number of a connection is not known before all are; its id stands for it."""
SCHEMA = pa.schema([CONNECTION_ID, POINT, *(table_schema("messages").field(name) for name in COLUMNS)])
"""The table as it is stored; a file may lack columns that are null everywhere in it."""
_DICTIONARIES = [name for name in SCHEMA.names if SCHEMA.field(name).type == pa.string() and name != "key"]
_NO_VBUCKET = 1 << 16
"""Behind all that are one."""
_ALWAYS = ("connection_id", "row")


class MessageFiles:
    """Writes the messages of a part. The files count when the manifest names them, so they need not appear as a whole."""

    def __init__(self, stem: str, point: str) -> None:
        """``stem``: path of the files, to which a number and the ending are appended."""
        self.paths: list[str] = []
        self.rows = 0
        self._stem = stem
        self._point = point
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._columns: frozenset[str] = frozenset(_ALWAYS)
        self._writer: Any = None

    def add(self, batch: MessageBatch, ids: Column) -> None:
        """Messages of some connections; ``ids``: of each message's connection."""
        found = message_rows(batch, np.arange(len(batch)), COLUMNS)
        point = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(batch), np.int8)), pa.array([self._point])).cast(pa.string())
        table = pa.Table.from_arrays([pa.array(ids), point, *found.columns], schema=SCHEMA)
        self._waiting.append(table.select([name for name in SCHEMA.names if name in _ALWAYS or table[name].null_count < len(table)]))
        self._waiting_rows += len(table)
        self._waiting_bytes += self._waiting[-1].nbytes
        if self._waiting_rows >= ROWS or self._waiting_bytes >= BYTES:
            self._flush()

    def close(self) -> None:
        """Writes what waits, and ends the last file."""
        if self._waiting:
            self._flush()
        self._end()

    def _flush(self) -> None:
        table = pa.concat_tables(self._waiting, promote_options="default")
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        present = set(table.column_names)
        if self._writer is None or not present <= self._columns or os.path.getsize(self.paths[-1]) > FILE_BYTES:
            self._end()
            self._columns |= present
            self.paths.append(f"{self._stem}-{len(self.paths)}.parquet")
            self._writer = pq.ParquetWriter(
                self.paths[-1],
                pa.schema([field for field in SCHEMA if field.name in self._columns]),
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in _DICTIONARIES if name in self._columns],
                write_statistics=["connection_id", "row", "time", "time_ns", "vbucket", "opcode", "by_seqno"],
                store_schema=False,
            )
        if "vbucket" in present:
            vbucket = table["vbucket"].fill_null(_NO_VBUCKET).to_numpy()
            table = table.take(np.argsort(vbucket, kind="stable"))
        columns = [table[field.name] if field.name in present else pa.nulls(len(table), field.type) for field in self._writer.schema]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._writer.schema), row_group_size=GROUP)
        self.rows += len(table)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
