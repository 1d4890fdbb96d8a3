"""Keeps the messages of a reading, so that any of them is at hand while the reading goes on.

One thread fills the store, any number of threads read it. Readers see the rows from ``first_row`` to ``rows`` as they were when they
looked. Rows never change; only streams of which a limited number of bytes is kept lose rows, the oldest first. Columns lie in the spool,
mapped into memory; bytes are read again from where the capture has them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcpinspect.capture.batch import Bytes, PacketBatch
from dcpinspect.errors import ChangedCaptureError, NotKeptError
from dcpinspect.protocol.brief import BriefMessages
from dcpinspect.protocol.columns import HoleRanges, Mask, NumberColumn, Rows, numbers_at
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import Message
from dcpinspect.protocol.session import Settled
from dcpinspect.records import dataclass
from dcpinspect.store import part as p
from dcpinspect.store import places as pl
from dcpinspect.store.gathered import Wanted, gather
from dcpinspect.store.originals import Originals
from dcpinspect.store.part import StorePart
from dcpinspect.store.places import Places
from dcpinspect.store.spool import Spool
from dcpinspect.tables.arrow import arrow_schema, short, type_of
from dcpinspect.tables.messages import Endpoints, MessageBatch, Missing
from dcpinspect.tables.naming import NO_NAMES
from dcpinspect.tables.schema import ON_REQUEST
from dcpinspect.transport.chunk import StreamChunk

if TYPE_CHECKING:
    from dcpinspect.reading import Reading
    from dcpinspect.tables.filter_rows import FilterRows

KEEP = 2 << 30
"""Number of bytes of packets kept of pipes and interfaces by default."""
PART_ROWS = 1 << 15
"""Number of messages from which on a part is worth a file of its own; smaller parts wait in memory for others."""
PARTS_AT_ONCE = 16
"""Number of parts that one query evaluates a filter on: planning a query takes as long as evaluating it on several parts."""
_READ_AT_ONCE = 1 << 12
"""Number of messages whose bytes are read again in one go."""
_ON_REQUEST = frozenset(column.name for column in ON_REQUEST)
PART_PLACES = 1 << 17
"""Number of segments from which on a part is worth a file of its own, even if no message came with them."""


def _is_full(part: StorePart) -> bool:
    return part.rows >= PART_ROWS or len(part.places) >= PART_PLACES


def _joined(parts: Sequence[StorePart], rests: Sequence[slice], name: str) -> Any:
    """Returns a column of several parts, for a filter.

    Texts stay in dictionaries if possible: a filter by names takes twice the time if every text stands on its own.
    """
    arrays = [part.column(name, rest, with_dictionaries=True) for part, rest in zip(parts, rests, strict=True)]
    if any(array.type != arrays[0].type for array in arrays):  # because the dictionaries differ in width, or some parts have none
        arrays = [part.column(name, rest) for part, rest in zip(parts, rests, strict=True)]
    return pa.chunked_array(arrays)


@dataclass(frozen=True, slots=True)
class _View:
    """What the store holds at one moment."""

    parts: tuple[StorePart, ...] = ()
    first_rows: tuple[int, ...] = ()
    rows: int = 0

    def place_of(self, row: int) -> int:
        """Returns the number of the part that holds a row. Raises IndexError, NotKeptError."""
        if not 1 <= row <= self.rows:
            there = f"rows are 1 to {self.rows:,}" if self.rows else "there are no messages"
            raise IndexError(f"row {row}: {there}")
        if row < self.first_row:
            raise NotKeptError(f"row {row} was dropped; rows from {self.first_row:,} on are kept; keep more, or read a file")
        return bisect_right(self.first_rows, row) - 1

    @property
    def first_row(self) -> int:
        """The number of the first row there is; without rows, of the next one to come."""
        return self.first_rows[0] if self.first_rows else self.rows + 1


class Store:
    """All messages of one reading: ``fill`` it from a ``Reading`` that has it as its ``keeper``; ``close`` it when done.

    Rows are numbered from 1, as in the table ``messages``. Lists of rows are arrays of such numbers.
    """

    def __init__(self, *, keep: int = KEEP, spool: Path | None = None) -> None:
        """``keep``: number of bytes to keep of pipes and interfaces; ``spool``: the folder in which to make one for temporary files."""
        self._spool = Spool(spool)
        self._originals = Originals(self._spool, keep)
        self._view = _View()
        self._reading: Reading | None = None
        self._files: Sequence[str] = ()
        self._endpoints = Endpoints([], [])
        self._collections = NO_NAMES
        self._waiting: list[Places] = []  # places of the packets since the last part
        self._waiting_places = 0
        self._piece = 0  # the first piece that those packets may stand in
        self._is_stream = False
        self._names = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Removes everything that was kept."""
        self._view = _View()
        self._spool.close()

    # -- filling: one thread ----------------------------------------------------------------------------

    def fill(self, reading: Reading) -> Iterator[MessageBatch]:
        """Reads to the end; yields each batch once it is kept. Raises SpoolError, and the errors of reading.

        If the reading has a redactor, nobody is told more than its tables allow: neither the batches nor the kept columns tell more.
        """
        self._reading = reading
        for batch in (one.redacted(reading.redactor) for one in reading):
            self._files, self._endpoints, self._collections = batch.files, batch.endpoints, batch.names
            self._append(p.part_of(batch, reading.engine.turned, *self._taken()))
            yield batch

    def keep(self, packets: PacketBatch | None, chunks: Sequence[StreamChunk], told: Sequence[BriefMessages]) -> None:
        """Keeps the places of packets, as ``engine.Keeper`` describes."""
        assert self._reading is not None, "fill the store with the reading that it is the keeper of"
        if packets is not None:
            file = self._reading.capture.files[packets.file]
            self._is_stream = file.storage == "stream"
            if file.storage == "plain":
                self._originals.note(packets.file, file.name)
            else:
                self._originals.copy(packets.file, packets.file_offset, packets.data, is_bounded=self._is_stream)
                self._drop()
        places = pl.located(chunks, told, lambda data: self._originals.put_beside(data, is_bounded=self._is_stream))
        if len(places):
            self._waiting.append(places)
            self._waiting_places += len(places)
        if self._waiting_places >= PART_PLACES:
            self._append(p.only_places(self.rows + 1, *self._taken()))

    def _taken(self) -> tuple[Places, int]:
        """Returns the places since the last part, and the first piece that they may stand in."""
        places, self._waiting, self._waiting_places = pl.joined(self._waiting), [], 0
        piece, self._piece = self._piece, self._originals.newest
        return places, piece

    def _append(self, part: StorePart) -> None:
        """Appends a part. Small parts are joined, neighbours of like size first, so that each message is moved a few times only."""
        parts = [*self._view.parts, part]
        while len(parts) > 1 and parts[-2].name is None and not _is_full(parts[-1]) and parts[-2].rows < 2 * parts[-1].rows:
            parts[-2:] = [p.joined(parts[-2:])]
        if _is_full(parts[-1]):
            first = next(index for index, one in enumerate(parts) if one.name is None)
            parts[first:] = [self._written(one) for one in parts[first:]]
        self._show(parts)

    def _written(self, part: StorePart) -> StorePart:
        name = f"{self._names:08}"
        self._names += 1
        part = p.small(part)
        table = self._spool.put(f"{name}.messages", part.table) if part.rows else part.table
        places = pl.from_batch(self._spool.put(f"{name}.places", part.places.batch()))
        return replace(part, table=table, places=places, name=name)

    def _drop(self) -> None:
        """Forgets the first parts, whose bytes were dropped."""
        parts = self._view.parts
        kept = next((index for index, part in enumerate(parts) if part.piece >= self._originals.floor), len(parts))
        if kept:
            self._show(parts[kept:])
            for part in parts[:kept]:
                if part.name is not None:
                    self._spool.remove(f"{part.name}.messages")
                    self._spool.remove(f"{part.name}.places")

    def _show(self, parts: Sequence[StorePart]) -> None:
        rows = parts[-1].first_row + parts[-1].rows - 1 if parts else self.rows
        self._view = _View(tuple(parts), tuple(part.first_row for part in parts), rows)

    # -- looking: any thread ------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Number of the last row so far; 0 if there is none."""
        return self._view.rows

    @property
    def first_row(self) -> int:
        """The first row that is still there: 1, unless rows of a stream were dropped."""
        return self._view.first_row

    def batches(self, columns: Sequence[str], *, after: int = 0) -> Iterator[Any]:
        """Yields Arrow record batches of these columns, for all present rows after row ``after``."""
        schema = arrow_schema(columns)
        for part in self._view.parts:
            rest = slice(max(0, after + 1 - part.first_row), part.rows)
            if rest.start < part.rows:
                yield pa.RecordBatch.from_arrays([self._column(part, name, rest) for name in columns], schema=schema)

    def matching(
        self, filter_: FilterRows, *, after: int = 0, goes_on: Callable[[float], bool] = lambda _: True
    ) -> npt.NDArray[np.uint32 | np.uint64]:
        """Returns the present rows after row ``after`` for which a filter is true.

        ``goes_on`` is called with the share of rows evaluated so far, 0 to 1; if it returns False, InterruptedError is raised.
        """
        view = self._view
        found = [np.empty(0, np.int64)]
        parts = [part for part in view.parts if part.first_row + part.rows > after + 1]
        for start in range(0, len(parts), PARTS_AT_ONCE):
            if not goes_on(start / len(parts)):
                raise InterruptedError
            own = parts[start : start + PARTS_AT_ONCE]
            first = max(after + 1, own[0].first_row)
            rests = [slice(max(0, first - part.first_row), part.rows) for part in own]
            columns = [
                pa.chunked_array([self._column(part, name, rest) for part, rest in zip(own, rests, strict=True)], type_of(name))
                if name in _ON_REQUEST
                else _joined(own, rests, name)
                for name in filter_.filter.columns
            ]
            found.append(filter_.numbers(columns, np.arange(first, own[-1].first_row + own[-1].rows)))
        return np.concatenate(found).astype(np.uint32 if view.rows < 1 << 32 else np.uint64)

    def of_vbucket(self, vbucket: int) -> Rows:
        """Returns the present rows of a vbucket. Ten million messages take 5 ms, for two bytes of each are compared."""
        found = [np.empty(0, np.int64)]
        for part in self._view.parts:
            numbers = p.numbers(part.column("vbucket", slice(None)))
            is_own = numbers.values == vbucket
            found.append(part.first_row + np.flatnonzero(is_own if numbers.valid is None else is_own & numbers.valid))
        return np.concatenate(found)

    def numbers(self, rows: Sequence[int] | Rows, columns: Sequence[str]) -> list[NumberColumn]:
        """Returns these columns of integers of these rows without reading any message's bytes; ``_kind`` may be among them.

        Raises IndexError, NotKeptError.
        """
        found = _Found(self._view, rows)
        return [found.numbers(name, np.uint64 if name == "by_seqno" else np.int64) for name in columns]

    def take(self, rows: Sequence[int] | Rows, columns: Sequence[str]) -> Any:
        """Returns an Arrow record batch of these columns of these rows, in their order. Raises IndexError, NotKeptError."""
        found = _Found(self._view, rows)
        arrays = [self._read_column(found.rows, name) if name in _ON_REQUEST else found.column(name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))

    def _column(self, part: StorePart, name: str, rows: slice) -> Any:
        """Returns a column of some rows of a part."""
        if name in _ON_REQUEST:
            return self._read_column(part.first_row + np.arange(part.rows, dtype=np.int64)[rows], name)
        return part.column(name, rows)

    def _read_column(self, rows: Rows, name: str) -> Any:
        """Returns a column that is computed from the bytes of the messages, which are read again."""
        pieces = []
        for first in range(0, len(rows), _READ_AT_ONCE):
            batch = self.messages(rows[first : first + _READ_AT_ONCE])
            pieces.append(short(batch, np.arange(len(batch)), name))
        return pa.concat_arrays(pieces) if pieces else pa.array([], type_of(name))

    def bytes_of(self, row: int) -> bytes:
        """Returns the bytes of a message, zeros where the capture lacks some. Raises IndexError, NotKeptError, ChangedCaptureError."""
        return self.messages([row]).bytes_of(0)

    def annotate(self, row: int) -> Message:
        """Returns the message with every field explained. Raises the same errors as ``bytes_of``."""
        return self.messages([row]).annotate(0)

    def messages(self, rows: Sequence[int] | Rows) -> MessageBatch:
        """Returns these messages as reading gave them, in this order: for lines, annotations, any format.

        Reads their bytes again, all of which are then in memory. Raises IndexError, NotKeptError, ChangedCaptureError.
        """
        view = self._view
        found = _Found(view, rows)
        state, length, offset = found.integers("_state"), found.integers("length"), found.integers("stream_offset")
        connection, direction = found.integers("connection"), state & p.DIRECTION
        flow = 2 * connection + np.where(state & p.TURNED, 1 - direction, direction)
        missing = found.missing()
        lost = np.zeros(len(found), np.int64)
        np.add.at(lost, missing.row, missing.end - missing.start)
        start = np.cumsum(length) - length
        data = np.zeros(int(length.sum()), np.uint8)
        read = self._gathered(found, Wanted(flow, offset, length, start), data)
        for index in np.flatnonzero(~read).tolist():
            target = data.data[int(start[index]) : int(start[index] + length[index])]
            if self._read(view, int(found.part[index]), int(flow[index]), int(offset[index]), target) + lost[index] != len(target):
                raise NotKeptError
        files = found.integers("_file")
        for index in np.flatnonzero(~found.are_same(data, start)).tolist()[:1]:
            frame = int(found.integers("frame")[index])
            raise ChangedCaptureError(self._files[int(files[index])], None, f"frame {frame} has other bytes than when it was read")
        holes = HoleRanges.of(start[missing.row] + missing.start, start[missing.row] + missing.end)
        settled = Settled(
            ((state >> p.COLLECTIONS & 3).astype(np.int8), state & p.UNDERLYING != 0, (state >> p.GENERATION).astype(np.int8))
        )
        request_row = found.numbers("request_row")
        asked, keys = found.given("request_key")
        return MessageBatch(
            files=self._files,
            endpoints=self._endpoints,
            data=data,
            start=start,
            length=length,
            row=found.rows,
            file=files,
            frame=found.integers("frame"),
            last_file=found.integers("_last_file"),
            last_frame=found.integers("last_frame"),
            time_ns=found.integers("time_ns"),
            connection=connection,
            direction=direction,
            stream_offset=offset,
            heuristic=state & p.HEURISTIC != 0,
            missing=missing,
            decoded=Decoded(data, start, connection, lost > 0, settled, holes=holes),
            vbucket=found.numbers("vbucket", np.uint64),
            vbucket_from_request=state & p.FROM_REQUEST != 0,
            request_row=request_row,
            request_stream_offset=found.numbers("request_stream_offset"),
            rtt_ns=found.numbers("rtt_ns"),
            earlier_keys={row: key.encode() for row, key in zip(request_row.values[asked].tolist(), keys, strict=True)},
            origin_ns=int(found.integers("time_ns")[0] - found.integers("relative_ns")[0]) if len(found.rows) else 0,
            names=self._collections,
            redactor=self._reading.redactor if self._reading is not None else None,
        )

    def _gathered(self, found: _Found, wanted: Wanted, data: Bytes) -> Mask:
        """Reads the messages whose bytes are all in their own part; returns which messages those are."""
        read = np.zeros(len(found), np.bool_)
        for part, rows in found.groups:
            read[rows] = gather(self._originals, part.places, wanted.take(rows), data)
        return read

    def _read(self, view: _View, part: int, flow: int, start: int, target: memoryview) -> int:
        """Fills ``target`` with the stream bytes from ``start`` on, as far as there are any; returns how many there were."""
        end = start + len(target)
        size = 0
        for one in view.parts[part::-1]:
            at = end
            for segment in one.places.of(flow, start, end):
                at = max(segment.offset, start)
                until = min(segment.offset + segment.length, end)
                self._originals.read(segment.file, segment.place + at - segment.offset, target[at - start : until - start])
                size += until - at
            if at == start:
                break
        return size


class _Found:
    """Rows that were looked up, whose columns are gathered from the parts that they are in."""

    def __init__(self, view: _View, rows: Sequence[int] | Rows) -> None:
        self.rows: Rows = np.asarray(rows, np.int64)
        if len(self.rows):
            view.place_of(int(self.rows.min()))
            view.place_of(int(self.rows.max()))
        self.part: Rows = np.searchsorted(np.array(view.first_rows, np.int64), self.rows, "right") - 1
        by_part = np.argsort(self.part, kind="stable")
        self._order = np.argsort(by_part, kind="stable")
        bounds = np.flatnonzero(np.diff(self.part[by_part], prepend=-1))
        self.groups = [(view.parts[int(self.part[run[0]])], run) for run in np.split(by_part, bounds[1:]) if len(run)]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Any:
        """Returns a column as an Arrow array."""
        if len(self.groups) == 1:
            ((part, _),) = self.groups
            return part.column(name, self.rows - part.first_row)
        pieces = [part.column(name, self.rows[run] - part.first_row) for part, run in self.groups]
        return pa.concat_arrays(pieces).take(pa.array(self._order)) if pieces else p.no_rows(name)

    def numbers(self, name: str, dtype: type[np.integer[Any]] = np.int64) -> NumberColumn:
        """Returns a column of integers, with 0 where it has no value."""
        found = p.numbers(self.column(name))
        return NumberColumn(found.values.astype(dtype), found.valid)

    def integers(self, name: str) -> Rows:
        """Returns a column in which every row has a value."""
        return self.numbers(name).values

    def given(self, name: str) -> tuple[Rows, list[Any]]:
        """Returns which of the rows have a value in a sparse column, and those values."""
        array = self.column(name)
        return np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)), array.drop_null().to_pylist()

    def missing(self) -> Missing:
        """Returns the ranges that the capture lacks, each with the index of its row."""
        places, spans_of = self.given("_missing")
        ranges = [(index, spans) for index, spans in zip(places.tolist(), spans_of, strict=True) if spans]
        found = [(index, spans[at], spans[at + 1]) for index, spans in ranges for at in range(0, len(spans), 2)]
        return Missing(*np.array(found, np.int64).reshape(-1, 3).T)

    def are_same(self, data: npt.NDArray[np.uint8], start: Rows) -> Mask:
        """Whether the messages that begin at ``start`` in ``data`` begin with the same header as when they were first read."""
        same: Mask = (data[start] == self.integers("magic")) & (data[start + 1] == self.integers("opcode"))
        same &= numbers_at(data, start + 8, 4).astype(np.int64) + HEADER_SIZE == self.integers("length")
        same &= numbers_at(data, start + 12, 4).astype(np.int64) == self.integers("opaque")
        return same
