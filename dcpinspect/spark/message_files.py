"""Messages as Parquet files: row groups of many messages, without the columns that no message of them has."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.capture.batch import Column
from dcpinspect.spark.schema import message_rows, table_schema
from dcpinspect.tables.messages import MessageBatch

ROWS = 1 << 17
"""Messages of a row group, about."""
FILE_BYTES = 256 << 20
"""Bytes of a file from which on the next one begins."""
CONNECTION_ID, POINT = pa.field("connection_id", pa.int64()), pa.field("capture_point", pa.string())
COLUMNS = tuple(name for name in table_schema("messages").names if name != "connection")
"""Columns of the engine's table that are stored. The number of a connection is not known before all are; its id stands for it."""
SCHEMA = pa.schema([CONNECTION_ID, POINT, *(table_schema("messages").field(name) for name in COLUMNS)])
"""The table as it is stored; a file may lack columns that are null everywhere in it."""
_DICTIONARIES = [name for name in SCHEMA.names if SCHEMA.field(name).type == pa.string() and name != "key"]
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
        self._waiting_rows = 0
        self._columns: frozenset[str] = frozenset(_ALWAYS)
        self._writer: Any = None

    def add(self, batch: MessageBatch, ids: Column) -> None:
        """Messages of some connections; ``ids``: of each message's connection."""
        found = message_rows(batch, np.arange(len(batch)), COLUMNS)
        point = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(batch), np.int8)), pa.array([self._point])).cast(pa.string())
        self._waiting.append(pa.RecordBatch.from_arrays([pa.array(ids), point, *found.columns], schema=SCHEMA))
        self._waiting_rows += len(batch)
        if self._waiting_rows >= ROWS:
            self._flush()

    def close(self) -> None:
        """Writes what waits, and ends the last file."""
        if self._waiting:
            self._flush()
        self._end()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        self._waiting.clear()
        self._waiting_rows = 0
        present = {name for name in SCHEMA.names if table[name].null_count < len(table)} | set(_ALWAYS)
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
        self._writer.write_table(table.select(self._writer.schema.names), row_group_size=2 * ROWS)
        self.rows += len(table)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
