"""Events on disk, sorted into files by vbucket, so that the events of some vbuckets can be read
without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dcpinspect.errors import SpoolError
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.store.spool import Spool
from dcpinspect.streams.events import events_of
from dcpinspect.streams.record_codes import ABORT, EVENT
from dcpinspect.streams.state import ReadingState, unbiased
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.select import Selection

SCHEMA = pa.schema(
    [
        ("vbucket", pa.uint16()),
        ("stream", pa.int32()),
        ("snapshot", pa.int32()),
        ("seqno", pa.uint64()),
        ("opcode", pa.uint8()),
        ("collection", pa.int64()),
        ("ended", pa.int64()),
        ("key", pa.int64()),
        ("cas", pa.uint64()),
        ("datatype", pa.uint8()),
        ("value", pa.int64()),
        ("row", pa.int64()),
        ("time", pa.int64()),
        ("connection", pa.int32()),
        ("key_text", pa.string()),
    ]
)
"""Columns of the events of a side.

``stream`` and ``snapshot`` are numbers of the tracker. ``key`` and ``value`` are hashes, or -1 if
part of them is not in the capture. ``ended`` is the collection that a system event ends, or -1.
"""


def event_batch(
    batch: MessageBatch, state: ReadingState, wanted: Selection, redactor: Redactor | None
) -> Any:
    """Returns the events among these messages that belong to a stream; ``state`` must have taken
    the messages just before.
    """
    events = events_of(batch, with_values=True)
    messages = state.messages
    event_rows = np.flatnonzero((messages.kind >= EVENT) & (messages.kind <= ABORT))
    rows = messages.place.row[event_rows]
    nearest = np.minimum(np.searchsorted(rows, events.place.row), max(0, len(rows) - 1))
    is_known = (
        rows[nearest] == events.place.row if len(rows) else np.zeros(len(events), dtype=np.bool_)
    )
    events_known = np.flatnonzero(is_known)
    message_rows = event_rows[nearest[events_known]]
    has_stream = messages.stream[message_rows] >= 0
    events_known, message_rows = events_known[has_stream], message_rows[has_stream]
    batch_index = batch.index_of(events.place.row[events_known])
    is_wanted = np.isin(batch_index, wanted.rows(batch))
    events_known = events_known[is_wanted]
    message_rows = message_rows[is_wanted]
    batch_index = batch_index[is_wanted]
    if not len(events_known):
        return pa.RecordBatch.from_pylist([], SCHEMA)
    table = events[events_known]
    columns = {
        "vbucket": table.vbucket,
        "stream": messages.stream[message_rows],
        "snapshot": messages.snapshot[message_rows],
        "seqno": unbiased(table.seqno),
        "opcode": table.opcode,
        "collection": table.collection,
        "ended": table.ended,
        "key": table.key,
        "cas": table.cas.view(np.uint64),
        "datatype": table.datatype,
        "value": table.value,
        "row": table.place.row,
        "time": table.place.time,
        "connection": table.connection,
    }
    arrays = [
        pa.array(np.asarray(columns[field.name]).astype(field.type.to_pandas_dtype()))
        for field in SCHEMA
        if field.name in columns
    ]
    keys = record_batch(batch.redacted(redactor), batch_index, ["key"]).column(0)
    return pa.RecordBatch.from_arrays([*arrays, keys], schema=SCHEMA)


SHELVES = 32
"""Number of files; a vbucket's events are in the file with its number modulo this."""
_FLUSH = 1 << 13
"""Number of events of each file that wait in memory before they are written."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Shelves:
    """The events of one side. Write them while used as a context manager; read them after that."""

    def __init__(self, name: str, spool: Spool) -> None:
        self._paths = [spool.path(f"{name}-{number}.arrow") for number in range(SHELVES)]
        self._folder: Path = spool.folder
        self._waiting: list[list[Any]] = [[] for _ in range(SHELVES)]
        self._writers: dict[int, Any] = {}
        self.counts = [0] * SHELVES
        """Number of events in each file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            for number in range(SHELVES):
                self._flush(number)
        try:
            for writer in self._writers.values():
                writer.close()
        except OSError as error:
            if kind is None:
                raise SpoolError(self._folder, error) from error

    def add(self, batch: Any) -> None:
        """Adds the next events. Raises SpoolError."""
        if not batch.num_rows:
            return
        shelf = batch.column("vbucket").to_numpy() % SHELVES
        order = np.argsort(shelf, kind="stable")
        ordered = batch.take(pa.array(order))
        numbers, starts = np.unique(shelf[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            self._waiting[number].append(ordered.slice(start, end - start))
            self.counts[number] += end - start
            if sum(waiting.num_rows for waiting in self._waiting[number]) >= _FLUSH:
                self._flush(number)

    def _flush(self, number: int) -> None:
        if not self._waiting[number]:
            return
        try:
            if number not in self._writers:
                self._writers[number] = pa.ipc.new_stream(
                    str(self._paths[number]), SCHEMA, options=_OPTIONS
                )
            self._writers[number].write_batch(pa.concat_batches(self._waiting[number]))
        except OSError as error:
            raise SpoolError(self._folder, error) from error
        self._waiting[number] = []

    def batches(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Yields the batches of these files, after one without events that shows the columns."""
        yield pa.RecordBatch.from_pylist([], SCHEMA)
        for number in numbers:
            if self.counts[number]:
                with (
                    pa.memory_map(str(self._paths[number])) as file,
                    pa.ipc.open_stream(file) as stored,
                ):
                    yield from stored


def groups(counts: Iterable[int], limit: int) -> Iterator[list[int]]:
    """Yields the numbers of files to compare together: as many as have at most ``limit`` events in
    all, or a single one.
    """
    group, size = list[int](), 0
    for number, count in enumerate(counts):
        if group and size + count > limit:
            yield group
            group, size = [], 0
        group.append(number)
        size += count
    if group:
        yield group
