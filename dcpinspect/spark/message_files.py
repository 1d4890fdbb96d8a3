"""Messages as Parquet files. The table is partitioned by capture point and day (UTC), so each file
has one value of each.

Messages of a vbucket stand together: before writing, as many messages as memory allows are sorted
by vbucket, and keep their order within it. A reader of one vbucket reads only the row groups that
can contain it, as their statistics say.

A file has only the columns that are not null throughout; these are about half of the table's
columns. To write nulls would take as long as numbers. Readers of Delta know the columns from the
log. A new file begins when messages have other columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.arrays import IntArray
from dcpinspect.spark import files
from dcpinspect.spark.spark_schema import (
    CONNECTION_ID,
    DAY,
    MESSAGES,
    POINT,
    STORED_COLUMNS,
    message_columns,
)
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape, words_of

ROWS = 1 << 20
"""About so many messages are sorted together."""
BYTES = 192 << 20
"""Memory of waiting messages, in bytes, from which they are written: about 700,000 messages."""
GROUP = 1 << 14
"""Messages of a row group. A query for one of 1,024 vbuckets reads the positions of all groups, and
one group per 700,000 messages.
"""
TAKEN = 8
"""Number of row groups that are sorted into order at a time: to sort all messages at once would
double the memory.
"""
FILE_BYTES = 256 << 20
"""Size of a file, in bytes, from which the next file begins."""
_DICTIONARIES = [
    name for name in MESSAGES.names if MESSAGES.field(name).type == pa.string() and name != "key"
]
_NO_VBUCKET = 1 << 16
"""Sorts after all vbuckets."""
DAY_NS = 86_400 * 10**9
_STATISTICS = words_of("connection_id capture_point day row time time_ns vbucket opcode by_seqno")


class MessageFiles:
    """Writes the messages of a part. The files count only when a log names them, so readers may see
    them half written.
    """

    def __init__(self, stem: str, point: str) -> None:
        """``stem``: path of the files, to which a number and the ending are added."""
        self.paths: list[str] = []
        self.rows = 0
        self._stem = stem
        self._point = escape(point)
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._day: int | None = None
        self._writer: Any = None
        self._stream: Any = None

    def add(self, batch: MessageBatch, ids: IntArray) -> None:
        """Adds messages. ``ids``: the connection id of each message."""
        columns = {
            CONNECTION_ID.name: pa.array(ids),
            POINT.name: pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(len(batch), np.int32)), pa.array([self._point])
            ),
            DAY.name: pa.array((batch.time_ns // DAY_NS).astype(np.int32)).cast(pa.date32()),
            **message_columns(batch, STORED_COLUMNS),
        }
        self._waiting.append(pa.table(columns))
        self._waiting_rows += len(batch)
        self._waiting_bytes += self._waiting[-1].nbytes
        if self._waiting_rows >= ROWS or self._waiting_bytes >= BYTES:
            self._flush()

    def close(self) -> None:
        """Writes the waiting messages, and closes the last file."""
        if self._waiting:
            self._flush()
        self._end()

    def _flush(self) -> None:
        table = pa.concat_tables(self._waiting, promote_options="default").unify_dictionaries()
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        self.rows += len(table)
        day = table["day"].cast(pa.int32()).to_numpy()
        vbucket = (
            table["vbucket"].fill_null(_NO_VBUCKET).to_numpy()
            if "vbucket" in table.column_names
            else np.zeros(len(table))
        )
        order = np.lexsort((vbucket, day))
        edges = np.concatenate(([0], np.flatnonzero(np.diff(day[order])) + 1, [len(order)]))
        begun = np.concatenate(([0], np.flatnonzero(np.diff(vbucket[order])) + 1))
        for start, end in pairwise(edges.tolist()):
            cuts = _cuts(begun, start, end)
            for first in range(0, len(cuts) - 1, TAKEN):
                cuts_taken = cuts[first : first + TAKEN + 1]
                sorted_here = table.take(order[cuts_taken[0] : cuts_taken[-1]])
                self._open(sorted_here, int(day[order[start]]))
                for cut, next_cut in pairwise(cuts_taken):
                    self._write(sorted_here.slice(cut - cuts_taken[0], next_cut - cut))

    def _open(self, table: Any, day: int) -> None:
        """Opens a file for this day with the columns of the table, unless the open file fits."""
        names = {*table.column_names}
        if (
            self._writer is None
            or day != self._day
            or self._stream.tell() > FILE_BYTES
            or not names <= {*self._writer.schema.names}
        ):
            self._end()
            self._day = day
            self.paths.append(f"{self._stem}-{len(self.paths)}.parquet")
            self._stream = files.created(self.paths[-1])
            self._writer = pq.ParquetWriter(
                self._stream,
                pa.schema([table.schema.field(name) for name in MESSAGES.names if name in names]),
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in _DICTIONARIES if name in names],
                write_statistics=[name for name in _STATISTICS if name in names],
                store_schema=False,
            )

    def _write(self, table: Any) -> None:
        """Writes a row group."""
        schema, names = self._writer.schema, {*table.column_names}
        columns = [
            table[field.name] if field.name in names else pa.nulls(len(table), field.type)
            for field in schema
        ]
        self._writer.write_table(
            pa.Table.from_arrays(columns, schema=schema), row_group_size=len(table)
        )

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
            self._writer = None


def _cuts(begun: IntArray, start: int, end: int) -> list[int]:
    """Returns where row groups begin in a stretch of sorted messages, and its end.

    Groups begin with a vbucket; a large vbucket has several.
    """
    cuts = [start]
    while cuts[-1] + GROUP < end:
        last = cuts[-1] + GROUP
        begin = int(begun[np.searchsorted(begun, last, side="right") - 1])
        cuts.append(begin if begin > cuts[-1] + GROUP // 2 else last)
    return [*cuts, end]
