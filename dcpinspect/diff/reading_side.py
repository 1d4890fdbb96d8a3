"""One of the two readings: its events in files, and what its streams, gaps and snapshots say of the
events that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.pcapng import IMPOSSIBLE_TIME
from dcpinspect.diff.events_on_disk import (
    Branch,
    Log,
    Shelves,
    branches,
    event_batch,
    logs_of,
    uuids,
)
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import DISK, HISTORY, OPEN_FLAGS
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.spool import Spool
from dcpinspect.streams import words as w
from dcpinspect.streams.disputes import EVERYTHING
from dcpinspect.streams.histories import AS_STORED, HAS_BODY, HAS_CAS, STATES
from dcpinspect.streams.record_codes import HAS_PURGE, OSO_LAYOUT, POSITION_UNSURE, UPR_LAYOUT
from dcpinspect.streams.records import CUT_VALUE, Snapshots, Streams
from dcpinspect.streams.session import Session
from dcpinspect.streams.state import unbiased
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from dcpinspect.streams.transitions import COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO
from dcpinspect.streams.verdicts import Ends
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.select import Selection, within
from dcpinspect.transport.reassembly import Reassembler

BUCKET_SHIFT = 16
"""Number of bits of a place that hold the vbucket."""
ANSWERS = 1 << 18
"""Number of answers whose times are remembered."""
_SHOWS = ("JSON", "Snappy", "XATTR")
"""Features of HELLO by which a value is shown in another form."""


class AnswerTimes:
    """How long the latest answers of a reading took."""

    def __init__(self) -> None:
        self._parts: list[IntArray] = []
        self._size = 0

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages."""
        rtt = batch.rtt_ns
        rows = np.flatnonzero(rtt.is_known)
        if not len(rows):
            return
        self._parts.append(
            np.array(
                [
                    batch.connection[rows],
                    batch.direction[rows],
                    batch.stream_offset[rows],
                    rtt.values[rows],
                ],
                np.int64,
            )
        )
        self._size += len(rows)
        while self._size - self._parts[0].shape[1] > ANSWERS:
            self._size -= self._parts.pop(0).shape[1]

    def in_direction(self, connection: int, direction: int) -> tuple[IntArray, IntArray]:
        """Returns (stream offset, nanoseconds) of each answer in one direction of a connection."""
        answers = np.concatenate([np.empty((4, 0), np.int64), *self._parts], axis=1)
        is_own = (answers[0] == connection) & (answers[1] == direction)
        return answers[2][is_own], answers[3][is_own]


@dataclass(frozen=True, slots=True)
class Tap:
    """One of two places at which connections were captured, after the captures were read."""

    name: str
    """Name of the place: a or b."""
    files: Sequence[str]
    """Names of the captures from there."""
    compared_links: Sequence[TcpConnection]
    transport: Reassembler
    """The reassembler, which knows the sequence numbers of the connections."""
    answers: AnswerTimes
    packets: Callable[[], AbstractContextManager[Iterable[PacketBatch]]]
    """Reads the packets once more."""
    is_repeatable: bool = True
    """Whether that is possible."""
    has_times: bool = True
    """Whether all its packets have times of their own."""


class ComparisonSide:
    """What one side has. Memory grows with streams, snapshots and gaps; ``spool`` has events."""

    def __init__(self, name: str, reading: Reading, spool: Spool) -> None:
        """``name``: a or b. ``reading`` must track streams; it is read by ``read``."""
        self.name = name
        self.reading = reading
        self.events = Shelves(name, spool)
        self.streams = Streams.zeros(0)
        self.logs: dict[int, Log] = {}
        """Log of each stream whose log was captured."""
        self.places = np.zeros(0, dtype=np.int64)
        """Place of each stream: its vbucket, and above BUCKET_SHIFT the number of its bucket."""
        self.answers = AnswerTimes()
        self._wanted = Selection()
        self._copies: Collection[int] = ()
        """Connections that show what another one shows: not compared, unless the user asks."""

    @property
    def files(self) -> list[str]:
        """Names of the captures."""
        return self.reading.files

    @property
    def tap(self) -> Tap:
        """The place of the captures, for a comparison of packets."""
        ranges = self._wanted.connections
        compared_links = [
            link
            for link in self.reading.links
            if link.number not in self._copies
            and (not ranges or any(link.number in numbers for numbers in ranges))
        ]
        return Tap(
            self.name,
            self.files,
            compared_links,
            self.reading.engine.transport,
            self.answers,
            partial(open_capture, self.files),
            is_repeatable=self.reading.capture.size is not None,
            has_times=all(place.what != IMPOSSIBLE_TIME for place in self.reading.capture.problems),
        )

    @property
    def tracker(self) -> Tracker:
        """The tracker, which knows the streams."""
        return self.reading.tracker

    def read(self, wanted: Selection) -> None:
        """Reads to the end; ``wanted``: the events to compare. Raises CaptureError, SpoolError."""
        self._wanted = wanted
        with self.reading, self.events:
            for batch in self.reading:
                self.answers.feed(batch)
                self.events.add(
                    event_batch(batch, self.tracker.state, wanted, self.reading.redactor)
                )
        ranges = wanted.connections
        self._copies = [
            number
            for number in self.tracker.left_out(self.reading.links)
            if not any(number in numbers for numbers in ranges)
        ]
        self.tracker.counts_copies = (
            True  # tables here have all streams, under the numbers that events have
        )
        self.streams = self.tracker.state.known_tables.streams
        self.logs = logs_of(self.streams, self.tracker.conversation.logs)
        self.places = self.streams.vbucket.astype(np.int64)

    @property
    def buckets(self) -> list[str | None]:
        """The bucket of each stream, or None if it is not known."""
        sessions = self.tracker.conversation.sessions
        by_connection = {number: session.bucket for number, session in sessions.items()}
        return [by_connection.get(number) for number in self.streams.connection.tolist()]

    def name_buckets(self, numbers: Mapping[str, int]) -> None:
        """Numbers the places of streams such that vbuckets of different buckets differ; 0 stands
        for an unknown bucket.
        """
        of_stream = np.array(
            [numbers.get(name, 0) if name is not None else 0 for name in self.buckets],
            dtype=np.int64,
        )
        self.places = self.streams.vbucket.astype(np.int64) | of_stream << BUCKET_SHIFT

    def event_batches(self, logs: Sequence[Log], numbers: Iterable[int]) -> Iterator[Any]:
        """Yields the events of these files, without their keys, with their branches; ``logs``: the
        log of every stream.
        """
        shows = self._shows()
        counts = ~np.isin(self.streams.connection, list(self._copies))
        for batch in self.events.batches(numbers):
            if self._copies:
                batch = batch.filter(pa.array(counts[batch.column("stream").to_numpy()]))
            stream = batch.column("stream").to_numpy().astype(np.int64)
            opcode = batch.column("opcode").to_numpy()
            datatype = batch.column("datatype").to_numpy()
            more = {
                "uuid": pa.array(uuids(stream, batch.column("seqno").to_numpy(), logs)),
                "state": pa.array(STATES[opcode].astype(np.uint8)),
                "has_cas": pa.array(
                    np.isin(opcode, HAS_CAS) & (batch.column("cas").to_numpy() != 0)
                ),
                "has_body": pa.array(np.isin(opcode, HAS_BODY)),
                "is_packed": pa.array(datatype & SNAPPY != 0),
                "shows": pa.array(shows[stream]),
            }
            more["vbucket"] = pa.array(self.places[stream], pa.uint32())
            kept_names = [
                name for name in batch.schema.names if name not in ("key_text", "vbucket")
            ]
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(name) for name in kept_names), *more.values()],
                names=[*kept_names, *more],
            )

    def keys(self, numbers: Iterable[int]) -> Iterator[Any]:
        """Yields row and key of every event of these files."""
        for batch in self.events.batches(numbers):
            yield batch.select(["row", "key_text"])

    # -- tables

    def tables(self, logs: Sequence[Log]) -> dict[str, Any]:
        """Returns all tables by name; each row has its vbucket. ``logs``: every stream's log."""
        return {
            "branches": self.branch_table(logs),
            "streams": self.stream_table(),
            "gaps": self.gap_table(),
            "snapshots": self.snapshot_table(),
        }

    def branch_table(self, logs: Sequence[Log]) -> Any:
        """Returns the branches of every stream that may have events."""
        may_deliver = self.may_deliver()
        rows = [
            branch
            for branch in branches(self.places, dict(enumerate(logs)))
            if may_deliver[branch.stream]
        ]
        kinds = (pa.int32(), pa.uint32(), pa.uint64(), pa.uint64(), pa.uint64())
        columns = [[branch[column_index] for branch in rows] for column_index in range(len(kinds))]
        return pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)],
            names=list(Branch._fields),
        )

    def may_deliver(self) -> BoolArray:
        """Returns which streams are compared and may have events: the server accepted them."""
        streams = self.streams
        may_deliver: BoolArray = ((streams.answer == w.A_ACCEPTED) | (streams.seen > 0)) & ~np.isin(
            streams.connection, list(self._copies)
        )
        for column, ranges in (
            (streams.connection, self._wanted.connections),
            (streams.vbucket, self._wanted.vbuckets),
        ):
            if ranges:
                may_deliver = may_deliver & within(column, ranges)
        return may_deliver

    def stream_table(self) -> Any:
        """Returns every stream: up to where it accounts for its seqnos, how it ended, and what it
        was asked to show.
        """
        streams, links = self.streams, {link.number: link for link in self.reading.engine.links}
        ends = Ends.from_tables(self.tracker.state.known_tables, links, {})
        connections = self.tracker.state.known_tables.connections
        losses = connections.losses.array[
            streams.connection, np.maximum(connections.producer[streams.connection], 0)
        ]
        is_asked = streams.request.is_captured != 0
        has_seqno = streams.seen > 0
        first, last = unbiased(streams.first), unbiased(streams.last)
        begin = np.where(
            is_asked, unbiased(streams.request.start), np.where(has_seqno, first - (first > 0), 0)
        )
        reached = np.where(
            streams.has_position != 0, unbiased(streams.position), np.where(has_seqno, last, begin)
        )
        asks = [self.tracker.subscription_of(number) for number in range(len(streams))]
        columns = {
            "stream": pa.array(np.arange(len(streams)), pa.int32()),
            "vbucket": pa.array(self.places, pa.uint32()),
            "connection": pa.array(streams.connection, pa.int32()),
            "is_asked": pa.array(is_asked),
            "began": pa.array(begin, pa.uint64()),
            "reached": pa.array(np.maximum(begin, reached), pa.uint64()),
            "asked_end": pa.array(unbiased(streams.request.end), pa.uint64(), mask=~is_asked),
            "is_lost": pa.array(
                ends.is_lost
                | (losses != streams.position_losses)
                | (streams.doubt & POSITION_UNSURE != 0)
            ),
            "has_ended": pa.array((streams.finished.row > 0) | ends.is_closed),
            "open_row": pa.array(streams.opened.row),
            "collections": pa.array(
                [
                    None
                    if subscription.collections is None
                    else sorted(subscription.collections - EVERYTHING)
                    for subscription in asks
                ],
                pa.list_(pa.int64()),
            ),
            "has_all": pa.array(
                [
                    subscription.collections is not None and subscription.collections >= EVERYTHING
                    for subscription in asks
                ],
                pa.bool_(),
            ),
            **{
                name: pa.array([getattr(subscription, name) for subscription in asks], pa.bool_())
                for name in ("system_events", "prepares", "deletions")
            },
            "asks": pa.array(self._requests(), pa.string()),
        }
        return pa.table(columns).filter(pa.array(self.may_deliver()))

    def _session(self, stream: int) -> Session:
        return self.tracker.conversation.sessions.get(self.streams[stream].connection) or Session()

    def _requests(self) -> list[str | None]:
        """Returns what each request asks for besides seqnos, in words; None if the request, or the
        open, was not captured.
        """
        values: Mapping[int, Any] = dict(enumerate(self.tracker.conversation.filters))
        texts: list[str | None] = []
        for number, (is_captured, filter_) in enumerate(
            zip(
                self.streams.request.is_captured.tolist(),
                self.streams.request.filter.tolist(),
                strict=True,
            )
        ):
            flags = self._session(number).open_flags
            if not is_captured or filter_ == CUT_VALUE or flags is None:
                texts.append(None)
                continue
            value = values.get(filter_) or {}
            named = [
                (
                    f"{name} "
                    f"{' '.join(map(str, value[name])) if isinstance(value[name], list) else value[name]}"
                )
                for name in _FILTERS
                if name in value
            ]
            texts.append(
                f"{'; '.join(named) or 'all collections'} (opened with "
                f"{', '.join(bit_names(OPEN_FLAGS, flags)) or 'no flags'})"
            )
        return texts

    def _shows(self) -> npt.NDArray[np.int32]:
        """Returns a number for the form of each stream's values; -1 if it is not known."""
        forms = np.full(max(1, len(self.streams)), -1, dtype=np.int32)
        for number in range(len(self.streams)):
            session = self._session(number)
            if session.open_flags is not None and session.features is not None:
                bits = sum(1 << bit for bit, name in enumerate(_SHOWS) if name in session.features)
                forms[number] = (session.open_flags & AS_STORED) | bits << 16
        return forms

    def gap_table(self) -> Any:
        """Returns every gap, with its cause."""
        all_gaps = self.tracker.tables(self.reading.engine.links).all_gaps
        gaps = all_gaps.table
        return pa.table(
            {
                "stream": pa.array(gaps.stream, pa.int32()),
                "vbucket": pa.array(self.places[gaps.stream], pa.uint32()),
                "after": pa.array(unbiased(gaps.after), pa.uint64()),
                "before": pa.array(unbiased(gaps.before), pa.uint64()),
                "cause": pa.array(all_gaps.cause.astype(np.int8)),
                "snapshot": pa.array(gaps.snapshot, pa.int32()),
            }
        )

    def snapshot_table(self) -> Any:
        """Returns every snapshot: the seqnos that it stands for, and whether all of it came."""
        state = self.tracker.state
        snapshots: Snapshots = state.known_tables.snapshots
        has_range = snapshots.layout > UPR_LAYOUT
        before = np.where(
            snapshots.has_before != 0, unbiased(snapshots.before), np.uint64(2**64 - 1)
        )
        start = unbiased(snapshots.start)
        low = np.minimum(np.where(has_range, start - (start > 0), before), before)
        oso_end = np.maximum(
            unbiased(snapshots.last),
            np.where(snapshots.has_advanced != 0, unbiased(snapshots.advanced), np.uint64(0)),
        )
        complete = np.isin(snapshots.state, (COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO))
        return pa.table(
            {
                "snapshot": pa.array(np.arange(len(snapshots)), pa.int32()),
                "stream": pa.array(snapshots.stream, pa.int32()),
                "vbucket": pa.array(self.places[snapshots.stream], pa.uint32()),
                "index": pa.array(snapshots.index, pa.int32()),
                "low": pa.array(low, pa.uint64()),
                "start": pa.array(start, pa.uint64(), mask=~has_range),
                "high": pa.array(
                    np.where(has_range, unbiased(snapshots.end), oso_end), pa.uint64()
                ),
                "is_complete": pa.array(complete & (snapshots.is_tainted == 0)),
                "is_tainted": pa.array(snapshots.is_tainted != 0),
                "is_partial": pa.array(
                    (snapshots.layout == OSO_LAYOUT)
                    | ((snapshots.flags & DISK) != 0)
                    | (snapshots.index <= 1)
                ),
                "has_history": pa.array((snapshots.flags & HISTORY) != 0),
                "is_disk": pa.array((snapshots.flags & DISK) != 0),
                "purge": pa.array(
                    unbiased(snapshots.seqnos.purge),
                    pa.uint64(),
                    mask=(snapshots.seqnos.present & HAS_PURGE) == 0,
                ),
            }
        )


_FILTERS = ("collections", "scope")
