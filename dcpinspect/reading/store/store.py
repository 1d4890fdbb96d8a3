"""Keeps the messages of a reading, so that any of them is at hand while the reading goes on.

One thread fills the store, any number of threads read it. Readers see the rows from ``first_row``
to ``rows`` as they were when they looked. Rows never change; only streams of which a limited number
of bytes is kept lose rows, the oldest first. Columns lie in the spool, mapped into memory; bytes
are read again from where the capture has them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcpinspect.arrays import BoolArray, ByteArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.closable import Closable
from dcpinspect.errors import ChangedCaptureError, NotKeptError, RowError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import HoleRanges, NumberColumn, RowNumbers, numbers_at
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.first_bytes import BriefMessages
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.session import SettledSessions
from dcpinspect.reading.store import part as p
from dcpinspect.reading.store import places as pl
from dcpinspect.reading.store.originals import Originals
from dcpinspect.reading.store.part import StorePart, WantedBytes, gather
from dcpinspect.reading.store.places import Places
from dcpinspect.reading.store.spool import Spool
from dcpinspect.streams.grouping import by_value
from dcpinspect.streams.record_codes import REQUEST
from dcpinspect.tables.arrow import arrow_schema, short, type_of
from dcpinspect.tables.collection_names import NO_NAMES
from dcpinspect.tables.messages import Endpoints, MessageBatch, MissingBytes
from dcpinspect.tables.schema import ON_REQUEST
from dcpinspect.transport.chunk import StreamChunk

if TYPE_CHECKING:
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.items import VbucketItems
    from dcpinspect.tables.filter_rows import FilterRows

KEEP = 2 << 30
"""Number of bytes of packets kept of pipes and interfaces by default."""
_OF_ITEMS = ("_kind", "connection", "sid", "by_seqno", "time_ns")
MOST_REQUESTS = 1 << 10
"""Number of stream requests, of each part of a vbucket's messages, whose values are looked at."""
PART_ROWS = 1 << 15
"""Messages that make a part worth a file; smaller parts wait in memory for others."""
PARTS_AT_ONCE = 16
"""Number of parts that one query evaluates a filter on: planning a query takes as long as
evaluating it on several parts.
"""
_THREADS = 2
"""Number of threads that evaluate a filter: each needs a database of its own."""
_READ_AT_ONCE = 1 << 12
"""Number of messages whose bytes are read again in one go."""
_ON_REQUEST = frozenset(column.name for column in ON_REQUEST)
PART_PLACES = 1 << 17
"""Number of segments that make a part worth a file, even if no message came with them."""


def _is_full(store_part: StorePart) -> bool:
    return store_part.rows >= PART_ROWS or len(store_part.places) >= PART_PLACES


def _joined(store_parts: Sequence[StorePart], rests: Sequence[slice], name: str) -> Any:
    """Returns a column of several parts, for a filter.

    Texts stay in dictionaries if possible: a filter by names takes twice the time if every text
    stands on its own.
    """
    arrays = [
        store_part.column(name, rows_wanted, with_dictionaries=True)
        for store_part, rows_wanted in zip(store_parts, rests, strict=True)
    ]
    # because the dictionaries differ in width, or some parts have none
    if any(array.type != arrays[0].type for array in arrays):
        arrays = [
            store_part.column(name, rows_wanted)
            for store_part, rows_wanted in zip(store_parts, rests, strict=True)
        ]
    return pa.chunked_array(arrays)


@dataclass(frozen=True, slots=True)
class _View:
    """What the store holds at one moment."""

    parts: tuple[StorePart, ...] = ()
    first_rows: tuple[int, ...] = ()
    rows: int = 0

    def place_of(self, row: int) -> int:
        """Returns the number of the part that holds a row. Raises RowError, NotKeptError."""
        if not 1 <= row <= self.rows:
            there = f"rows are 1 to {self.rows:,}" if self.rows else "there are no messages"
            raise RowError(f"row {row}: {there}")
        if row < self.first_row:
            raise NotKeptError(
                f"row {row} was dropped; rows from {self.first_row:,} on are kept; keep more, "
                "or read a file"
            )
        return bisect_right(self.first_rows, row) - 1

    @property
    def first_row(self) -> int:
        """The number of the first row there is; without rows, of the next one to come."""
        return self.first_rows[0] if self.first_rows else self.rows + 1


class Store(Closable):
    """All messages of one reading: ``fill`` it from a ``Reading`` that has it as its ``keeper``;
    ``close`` it when done.

    Rows are numbered from 1, as in the table ``messages``. Lists of rows are arrays of such
    numbers.
    """

    def __init__(self, *, keep: int = KEEP, spool: Path | None = None) -> None:
        """``keep``: number of bytes to keep of pipes and interfaces; ``spool``: the folder in which
        to make one for temporary files.
        """
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

    def close(self) -> None:
        """Removes everything that was kept."""
        self._view = _View()
        self._spool.close()

    # -- filling: one thread

    def fill(self, reading: Reading) -> Iterator[MessageBatch]:
        """Reads to the end; yields each batch once it is kept. Raises SpoolError, and the errors of
        reading.

        If the reading has a redactor, nobody is told more than its tables allow: neither the
        batches nor the kept columns tell more.
        """
        self._reading = reading
        for batch in (taken.redacted(reading.redactor) for taken in reading):
            self._files = batch.files
            self._endpoints = batch.endpoints
            self._collections = batch.names
            self._append(p.part_of(batch, reading.engine.turned, *self._taken()))
            yield batch

    def keep(
        self,
        packets: PacketBatch | None,
        chunks: Sequence[StreamChunk],
        briefs: Sequence[BriefMessages],
    ) -> None:
        """Keeps the places of packets, as ``engine.Keeper`` describes."""
        assert self._reading is not None, "fill the store with the reading that it is the keeper of"
        if packets is not None:
            self._is_stream = False
            for number, data, file_offset in packets.stretches():
                file = self._reading.capture.files[number]
                self._is_stream |= file.storage == "stream"
                if file.storage == "plain":
                    self._originals.note(number, file.name)
                else:
                    is_bounded = file.storage == "stream"
                    self._originals.copy(number, file_offset, data, is_bounded=is_bounded)
                    self._drop()
        located_bytes = pl.located(
            chunks,
            briefs,
            lambda data: self._originals.put_beside(data, is_bounded=self._is_stream),
        )
        if len(located_bytes):
            self._waiting.append(located_bytes)
            self._waiting_places += len(located_bytes)
        if self._waiting_places >= PART_PLACES:
            self._append(p.only_places(self.rows + 1, *self._taken()))

    def _taken(self) -> tuple[Places, int]:
        """Returns the places since the last part, and the first piece that they may stand in."""
        joined_places, self._waiting, self._waiting_places = pl.joined(self._waiting), [], 0
        piece, self._piece = self._piece, self._originals.newest
        return joined_places, piece

    def _append(self, store_part: StorePart) -> None:
        """Appends a part. Small parts are joined, neighbours of like size first, so that each
        message is moved a few times only.
        """
        store_parts = [*self._view.parts, store_part]
        while (
            len(store_parts) > 1
            and store_parts[-2].name is None
            and not _is_full(store_parts[-1])
            and store_parts[-2].rows < 2 * store_parts[-1].rows
        ):
            store_parts[-2:] = [p.joined(store_parts[-2:])]
        if _is_full(store_parts[-1]):
            first = next(
                index for index, later_part in enumerate(store_parts) if later_part.name is None
            )
            store_parts[first:] = [self._written(later_part) for later_part in store_parts[first:]]
        self._show(store_parts)

    def _written(self, store_part: StorePart) -> StorePart:
        name = f"{self._names:08}"
        self._names += 1
        store_part = p.small(store_part)
        table = (
            self._spool.write(f"{name}.messages", store_part.table)
            if store_part.rows
            else store_part.table
        )
        mapped_places = pl.from_batch(
            self._spool.write(f"{name}.places", store_part.places.batch())
        )
        return replace(store_part, table=table, places=mapped_places, name=name)

    def _drop(self) -> None:
        """Forgets the first parts, whose bytes were dropped."""
        store_parts = self._view.parts
        first_kept = next(
            (
                index
                for index, store_part in enumerate(store_parts)
                if store_part.piece >= self._originals.floor
            ),
            len(store_parts),
        )
        if first_kept:
            self._show(store_parts[first_kept:])
            for store_part in store_parts[:first_kept]:
                if store_part.name is not None:
                    self._spool.remove(f"{store_part.name}.messages")
                    self._spool.remove(f"{store_part.name}.places")

    def _show(self, store_parts: Sequence[StorePart]) -> None:
        rows = store_parts[-1].first_row + store_parts[-1].rows - 1 if store_parts else self.rows
        self._view = _View(
            tuple(store_parts), tuple(store_part.first_row for store_part in store_parts), rows
        )

    # -- looking: any thread

    @property
    def rows(self) -> int:
        """Number of the last row so far; 0 if there is none."""
        return self._view.rows

    @property
    def first_row(self) -> int:
        """The first row that is still there: 1, unless rows of a stream were dropped."""
        return self._view.first_row

    def batches(self, columns: Sequence[str], *, after: int = 0) -> Iterator[Any]:
        """Yields Arrow record batches of these columns, for all present rows after ``after``."""
        schema = arrow_schema(columns)
        for store_part in self._view.parts:
            rows_wanted = slice(max(0, after + 1 - store_part.first_row), store_part.rows)
            if rows_wanted.start < store_part.rows:
                yield pa.RecordBatch.from_arrays(
                    [self._column(store_part, name, rows_wanted) for name in columns], schema=schema
                )

    def matching(
        self,
        filter_: FilterRows,
        *,
        after: int = 0,
        goes_on: Callable[[float], bool] = lambda _: True,
    ) -> npt.NDArray[np.uint32 | np.uint64]:
        """Returns the present rows after row ``after`` for which a filter is true.

        ``goes_on`` is called with the share of rows evaluated so far, 0 to 1; if it returns False,
        InterruptedError is raised.
        """
        from concurrent.futures import ThreadPoolExecutor  # deferred: it brings logging

        view = self._view
        store_parts = [
            store_part
            for store_part in view.parts
            if store_part.first_row + store_part.rows > after + 1
        ]
        starts = range(0, len(store_parts), PARTS_AT_ONCE)

        def matches_of(start: int) -> RowNumbers:
            return self._matching_in(
                store_parts[start : start + PARTS_AT_ONCE], filter_, after=after
            )

        matches = [np.empty(0, np.int64)]
        pool = ThreadPoolExecutor(_THREADS)
        try:
            row_numbers = pool.map(matches_of, starts)
            for start in starts:
                if not goes_on(start / len(store_parts)):
                    raise InterruptedError
                matches.append(next(row_numbers))
        finally:
            pool.shutdown(cancel_futures=True)
        return np.concatenate(matches).astype(np.uint32 if view.rows < 1 << 32 else np.uint64)

    def _matching_in(
        self, neighbours: Sequence[StorePart], filter_: FilterRows, *, after: int
    ) -> RowNumbers:
        """Returns the rows after row ``after`` of neighbouring parts for which a filter is true."""
        first = max(after + 1, neighbours[0].first_row)
        rests = [
            slice(max(0, first - store_part.first_row), store_part.rows)
            for store_part in neighbours
        ]
        columns = [
            pa.chunked_array(
                [
                    self._column(store_part, name, rows_wanted)
                    for store_part, rows_wanted in zip(neighbours, rests, strict=True)
                ],
                type_of(name),
            )
            if name in _ON_REQUEST
            else _joined(neighbours, rests, name)
            for name in filter_.filter.columns
        ]
        numbers = np.arange(first, neighbours[-1].first_row + neighbours[-1].rows)
        return filter_.numbers(columns, numbers)

    def of_vbucket(self, vbucket: int) -> RowNumbers:
        """Returns the present rows of a vbucket. Ten million messages take 5 ms, for two bytes of
        each are compared.
        """
        rows = [np.empty(0, np.int64)]
        for store_part in self._view.parts:
            numbers = p.numbers(store_part.column("vbucket", slice(None)))
            is_own = (numbers.values == vbucket) & numbers.is_known
            rows.append(store_part.first_row + np.flatnonzero(is_own))
        return np.concatenate(rows)

    def items_of(
        self,
        vbucket: int,
        goes_on: Callable[[float], bool] = lambda _: True,
        rows: RowNumbers | None = None,
    ) -> VbucketItems:
        """Returns the events of a vbucket, from the columns of its messages. ``goes_on``: as for
        ``matching``. ``rows``: of the vbucket, where they are known.
        """
        from dcpinspect.streams.items import VbucketItems, VbucketMessages  # deferred: for few uses

        items, rows = VbucketItems(vbucket), self.of_vbucket(vbucket) if rows is None else rows
        for start in range(0, len(rows), PART_ROWS):
            if not goes_on(start / len(rows)):
                raise InterruptedError
            read = rows[start : start + PART_ROWS]
            kind, connection, sid, seqno, time_ns = self.numbers(read, _OF_ITEMS)
            items.add_messages(
                VbucketMessages(kind.values, connection.values, read, sid, seqno, time_ns.values)
            )
            requests = read[kind.values == REQUEST][:MOST_REQUESTS]
            if len(requests):
                batch = self.messages(requests)
                items.look_at_values(batch, np.arange(len(batch)))
        return items

    def numbers(
        self, rows: Sequence[int] | RowNumbers, columns: Sequence[str]
    ) -> list[NumberColumn]:
        """Returns these columns of integers of these rows without reading any message's bytes;
        ``_kind`` may be among them.

        Raises RowError, NotKeptError.
        """
        located_rows = _FoundRows(self._view, rows)
        return [
            located_rows.numbers(name, np.uint64 if name == "by_seqno" else np.int64)
            for name in columns
        ]

    def batch_of(self, rows: Sequence[int] | RowNumbers, columns: Sequence[str]) -> Any:
        """Returns an Arrow record batch of these columns of these rows, in their order. Raises
        RowError, NotKeptError.
        """
        located_rows = _FoundRows(self._view, rows)
        arrays = [
            self._read_column(located_rows.rows, name)
            if name in _ON_REQUEST
            else located_rows.column(name)
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))

    def _column(self, store_part: StorePart, name: str, rows: slice) -> Any:
        """Returns a column of some rows of a part."""
        if name in _ON_REQUEST:
            return self._read_column(
                store_part.first_row + np.arange(store_part.rows, dtype=np.int64)[rows], name
            )
        return store_part.column(name, rows)

    def _read_column(self, rows: RowNumbers, name: str) -> Any:
        """Returns a column that is computed from the messages' bytes, which are read again."""
        pieces = []
        for first in range(0, len(rows), _READ_AT_ONCE):
            batch = self.messages(rows[first : first + _READ_AT_ONCE])
            pieces.append(short(batch, np.arange(len(batch)), name))
        return pa.concat_arrays(pieces) if pieces else pa.array([], type_of(name))

    def messages(self, rows: Sequence[int] | RowNumbers) -> MessageBatch:
        """Returns these messages as reading gave them, in this order: for lines, annotations, any
        format.

        Reads their bytes again, all of which are then in memory. Raises RowError, NotKeptError,
        ChangedCaptureError.
        """
        view = self._view
        located_rows = _FoundRows(view, rows)
        state = located_rows.integers("_state")
        length = located_rows.integers("length")
        offset = located_rows.integers("stream_offset")
        connection, direction = located_rows.integers("connection"), state & p.DIRECTION
        flow = 2 * connection + np.where(state & p.TURNED, 1 - direction, direction)
        missing = located_rows.missing()
        lost = np.zeros(len(located_rows), np.int64)
        np.add.at(lost, missing.row, missing.end - missing.start)
        start = np.cumsum(length) - length
        data = np.zeros(int(length.sum()), np.uint8)
        self._fill_bytes(
            view, located_rows.part, WantedBytes(flow, offset, length, start), length - lost, data
        )
        files = located_rows.integers("_file")
        for index in np.flatnonzero(~located_rows.are_same(data, start)).tolist()[:1]:
            frame = int(located_rows.integers("frame")[index])
            raise ChangedCaptureError(
                self._files[int(files[index])],
                None,
                f"frame {frame} has other bytes than when it was read",
            )
        holes = HoleRanges.from_ranges(
            start[missing.row] + missing.start, start[missing.row] + missing.end
        )
        settled = SettledSessions(
            (
                (state >> p.COLLECTIONS & 3).astype(np.int8),
                state & p.UNDERLYING != 0,
                (state >> p.GENERATION).astype(np.int8),
            )
        )
        request_row = located_rows.numbers("request_row")
        has_key, keys = located_rows.present_values("request_key")
        return MessageBatch(
            files=self._files,
            endpoints=self._endpoints,
            data=data,
            start=start,
            length=length,
            row=located_rows.rows,
            file=files,
            frame=located_rows.integers("frame"),
            last_file=located_rows.integers("_last_file"),
            last_frame=located_rows.integers("last_frame"),
            time_ns=located_rows.integers("time_ns"),
            connection=connection,
            direction=direction,
            stream_offset=offset,
            heuristic=state & p.HEURISTIC != 0,
            missing=missing,
            decoded=Decoded(data, start, connection, lost > 0, settled, holes=holes),
            vbucket=located_rows.numbers("vbucket", np.uint64),
            vbucket_from_request=state & p.FROM_REQUEST != 0,
            request_row=request_row,
            request_stream_offset=located_rows.numbers("request_stream_offset"),
            rtt_ns=located_rows.numbers("rtt_ns"),
            earlier_keys={
                row: key.encode()
                for row, key in zip(request_row.values[has_key].tolist(), keys, strict=True)
            },
            origin_ns=int(
                located_rows.integers("time_ns")[0] - located_rows.integers("relative_ns")[0]
            )
            if len(located_rows.rows)
            else 0,
            names=self._collections,
            redactor=self._reading.redactor if self._reading is not None else None,
        )

    def _fill_bytes(
        self,
        view: _View,
        parts: RowNumbers,
        wanted: WantedBytes,
        unread: RowNumbers,
        data: ByteArray,
    ) -> None:
        """Reads the bytes of messages, which came with their own parts or earlier ones. ``unread``:
        how many bytes of each there are.
        """
        number = int(parts.max(initial=-1))
        while unread.any():
            if number < 0:
                raise NotKeptError
            rows = np.flatnonzero((parts >= number) & (unread > 0))
            places = view.parts[number].places
            unread[rows] -= gather(self._originals, places, wanted.only(rows), data)
            number -= 1


class _FoundRows:
    """Rows that were looked up, whose columns are gathered from the parts that they are in."""

    def __init__(self, view: _View, rows: Sequence[int] | RowNumbers) -> None:
        if not isinstance(rows, np.ndarray) and len(rows):
            view.place_of(max(rows))  # it may have more than 64 bits
        self.rows: RowNumbers = np.asarray(rows, np.int64)
        if len(self.rows):
            view.place_of(int(self.rows.min()))
            view.place_of(int(self.rows.max()))
        self.part: RowNumbers = (
            np.searchsorted(np.array(view.first_rows, np.int64), self.rows, "right") - 1
        )
        self._order = np.argsort(np.argsort(self.part, kind="stable"), kind="stable")
        self.groups = [(view.parts[part], run) for part, run in by_value(self.part)]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Any:
        """Returns a column as an Arrow array."""
        if len(self.groups) == 1:
            ((store_part, _),) = self.groups
            return store_part.column(name, self.rows - store_part.first_row)
        pieces = [
            store_part.column(name, self.rows[run] - store_part.first_row)
            for store_part, run in self.groups
        ]
        return pa.concat_arrays(pieces).take(pa.array(self._order)) if pieces else p.no_rows(name)

    def numbers(self, name: str, dtype: type[np.integer[Any]] = np.int64) -> NumberColumn:
        """Returns a column of integers, with 0 where it has no value."""
        column_numbers = p.numbers(self.column(name))
        return NumberColumn(column_numbers.values.astype(dtype), column_numbers.valid)

    def integers(self, name: str) -> RowNumbers:
        """Returns a column in which every row has a value."""
        return self.numbers(name).values

    def present_values(self, name: str) -> tuple[RowNumbers, list[Any]]:
        """Returns which of the rows have a value in a sparse column, and those values."""
        array = self.column(name)
        return np.flatnonzero(
            array.is_valid().to_numpy(zero_copy_only=False)
        ), array.drop_null().to_pylist()

    def missing(self) -> MissingBytes:
        """Returns the ranges that the capture lacks, each with the index of its row."""
        row_indexes, spans_of = self.present_values("_missing")
        ranges = [
            (index, spans)
            for index, spans in zip(row_indexes.tolist(), spans_of, strict=True)
            if spans
        ]
        missing_ranges = [
            (index, spans[index_of_span], spans[index_of_span + 1])
            for index, spans in ranges
            for index_of_span in range(0, len(spans), 2)
        ]
        return MissingBytes(*np.array(missing_ranges, np.int64).reshape(-1, 3).T)

    def are_same(self, data: ByteArray, start: RowNumbers) -> BoolArray:
        """Whether the messages that begin at ``start`` in ``data`` begin with the same header as
        when they were first read.
        """
        same: BoolArray = (data[start] == self.integers("magic")) & (
            data[start + 1] == self.integers("opcode")
        )
        same &= numbers_at(data, start + 8, 4).astype(np.int64) + HEADER_SIZE == self.integers(
            "length"
        )
        same &= numbers_at(data, start + 12, 4).astype(np.int64) == self.integers("opaque")
        return same
