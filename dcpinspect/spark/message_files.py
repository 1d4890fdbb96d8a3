"""Messages as Parquet files: the table that is partitioned by capture point and day (UTC), so a file has one of each.

Those of a vbucket stand together: as many messages as memory allows are sorted by it, in their order otherwise, before they are written.
Who wants one vbucket reads the row groups that may have it, which their statistics say, and leaves out the others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.capture.batch import Column
from dcpinspect.escape import escape
from dcpinspect.spark import files
from dcpinspect.spark.schema import message_rows
from dcpinspect.spark.stored import COLUMNS, MESSAGES
from dcpinspect.tables.messages import MessageBatch

ROWS = 1 << 19
"""Messages that are sorted together, about."""
BYTES = 64 << 20
"""Bytes of memory of these from which on there are enough."""
GROUP = 1 << 13
"""Messages of a row group. Of a million, a query for one of 1,024 vbuckets reads 3 % of the bytes; with groups twice as large, 7 %."""
FILE_BYTES = 256 << 20
"""Bytes of a file from which on the next one begins."""
_DICTIONARIES = [name for name in MESSAGES.names if MESSAGES.field(name).type == pa.string() and name != "key"]
_NO_VBUCKET = 1 << 16
"""Behind all that are one."""
DAY_NS = 86_400 * 10**9
_STATISTICS = ["connection_id", "capture_point", "day", "row", "time", "time_ns", "vbucket", "opcode", "by_seqno"]


class MessageFiles:
    """Writes the messages of a part. The files count when a log names them, so they need not appear as a whole."""

    def __init__(self, stem: str, point: str) -> None:
        """``stem``: path of the files, to which a number and the ending are appended."""
        self.paths: list[str] = []
        self.rows = 0
        self._stem = stem
        self._point = escape(point)
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._day: int | None = None
        self._writer: Any = None
        self._stream: Any = None

    def add(self, batch: MessageBatch, ids: Column) -> None:
        """Messages of some connections; ``ids``: of each message's connection."""
        found = message_rows(batch, np.arange(len(batch)), COLUMNS)
        point = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(batch), np.int8)), pa.array([self._point])).cast(pa.string())
        day = pa.array((found["time_ns"].to_numpy() // DAY_NS).astype(np.int32)).cast(pa.date32())
        columns = dict(zip(MESSAGES.names, (pa.array(ids), point, day, *found.columns), strict=True))
        # most columns are null everywhere, and to sort them takes as long as to sort others
        self._waiting.append(pa.table({name: column for name, column in columns.items() if column.null_count < len(batch)}))
        self._waiting_rows += len(batch)
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
        self.rows += len(table)
        day = table["day"].cast(pa.int32()).to_numpy()
        vbucket = table["vbucket"].fill_null(_NO_VBUCKET).to_numpy() if "vbucket" in table.column_names else np.zeros(len(table))
        order = np.lexsort((vbucket, day))
        edges = np.concatenate(([0], np.flatnonzero(np.diff(day[order])) + 1, [len(order)]))
        for start, end in pairwise(edges.tolist()):
            self._write(table.take(order[start:end]), int(day[order[start]]))

    def _write(self, table: Any, day: int) -> None:
        """Messages of one day, sorted by vbucket."""
        if self._writer is None or day != self._day or self._stream.tell() > FILE_BYTES:
            self._end()
            self._day = day
            self.paths.append(f"{self._stem}-{len(self.paths)}.parquet")
            self._stream = files.created(self.paths[-1])
            self._writer = pq.ParquetWriter(
                self._stream,
                MESSAGES,
                compression="zstd",
                compression_level=1,
                use_dictionary=_DICTIONARIES,
                write_statistics=_STATISTICS,
                store_schema=False,
            )
        present = {*table.column_names}
        columns = [table[field.name] if field.name in present else pa.nulls(len(table), field.type) for field in MESSAGES]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=MESSAGES), row_group_size=GROUP)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
            self._writer = None
