"""Events on disk, sorted into files by vbucket, so that the events of some vbuckets can be read
without the others; and the branch of its vbucket's history that each belongs to, by failover logs.

A branch begins above the seqno of its entry and ends with the seqno of the next newer entry. A
stream whose log was not captured is assumed to have the history of another stream of its vbucket,
preferably one of its own side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcpinspect.arrays import IntArray, unique
from dcpinspect.errors import SpoolError
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.store.spool import Spool
from dcpinspect.streams.events import events_of
from dcpinspect.streams.record_codes import ABORT, EVENT
from dcpinspect.streams.records import Streams
from dcpinspect.streams.state import ReadingState, unbiased
from dcpinspect.streams.verdicts import failover_entries
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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


Log = tuple[tuple[int, int], ...]
"""(uuid, seqno) of each branch, newest first."""
UNKNOWN: Log = ((0, 0),)
GREATEST = 2**64 - 1


class Branch(NamedTuple):
    """The seqnos of one branch that a stream may have."""

    stream: int
    vbucket: int
    uuid: int
    above: int
    upto: int


def logs_of(streams: Streams, logs: Sequence[bytes]) -> dict[int, Log]:
    """Returns the log that each stream was told, by number of the stream; a log that contradicts
    itself is left out.
    """
    parsed = [tuple(failover_entries(raw)) for raw in logs]
    numbers = np.flatnonzero(streams.log >= 0)
    log_of_stream = {int(number): parsed[streams[number].log] for number in numbers}
    return {
        number: log
        for number, log in log_of_stream.items()
        if log and all(newer > older for (_, newer), (_, older) in pairwise(log))
    }


def newest(places: IntArray, logs: Mapping[int, Log]) -> dict[int, Log]:
    """Returns the latest log of each vbucket; ``places``: each stream's vbucket and bucket."""
    return {int(places[number]): logs[number] for number in sorted(logs)}


def branches(places: IntArray, logs: Mapping[int, Log]) -> list[Branch]:
    """Returns the branches that each stream may have; ``places``: vbucket of each stream, with its
    bucket; ``logs``: the log of every stream.
    """
    stream_branches = []
    for number, vbucket in enumerate(places.tolist()):
        end = GREATEST
        for uuid, start in logs[number]:
            stream_branches.append(Branch(number, vbucket, uuid, start, end))
            end = start
    return stream_branches


def uuids(
    stream: IntArray, seqno: npt.NDArray[np.uint64], logs: Sequence[Log]
) -> npt.NDArray[np.uint64]:
    """Returns the uuid of each event's branch.

    Most events belong to the newest branch of their stream; the others are looked up log by log.
    """
    first_uuid = np.array([log[0][0] for log in logs] or [0], dtype=np.uint64)
    first_start = np.array([log[0][1] for log in logs] or [0], dtype=np.uint64)
    branch_uuids: npt.NDArray[np.uint64] = first_uuid[stream]
    older = np.flatnonzero(seqno <= first_start[stream])
    for number in unique(stream[older]).tolist():
        event_rows = older[stream[older] == number]
        starts = np.array([start for _, start in reversed(logs[number])], dtype=np.uint64)
        names = np.array([uuid for uuid, _ in reversed(logs[number])], dtype=np.uint64)
        branch_uuids[event_rows] = names[
            np.maximum(np.searchsorted(starts, seqno[event_rows], side="left") - 1, 0)
        ]
    return branch_uuids
