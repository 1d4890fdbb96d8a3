"""What rules over a finished reading look at: the tracker's tables, the connections, and the places
of messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.findings.finding import SEVERITY_OF, MessagePlace, Occurrence, captured
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import STRICT
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.versions import SEQNO_ADVANCED, Versions, versions_by_markers
from dcpinspect.streams import records as r
from dcpinspect.streams import words as w
from dcpinspect.streams.consumers import Consumers
from dcpinspect.streams.copies import Copy
from dcpinspect.streams.failover_logs import FailoverLogs, KnownLog, LogsInOrder
from dcpinspect.streams.gaps_between_streams import Client
from dcpinspect.streams.grouping import VBUCKET_BITS, GroupedRows, Groups, NameNumbers
from dcpinspect.streams.hole_capacity import MESSAGE
from dcpinspect.streams.records import (
    CUT_VALUE,
    FILE_SHIFT,
    LEAST,
    ByteLoss,
    Snapshots,
    Stream,
    Streams,
)
from dcpinspect.streams.rollbacks import Rollbacks
from dcpinspect.streams.server_reports import MessagePosition
from dcpinspect.streams.session import COLLECTIONS, Said, Session
from dcpinspect.streams.state import plain as plain
from dcpinspect.streams.tables import Tables
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from dcpinspect.streams.transitions import ACCEPTED, STREAMING
from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.verdicts import are_granted
from dcpinspect.streams.visibility import Visibility
from dcpinspect.tables.messages import DIRECTIONS

if TYPE_CHECKING:
    from dcpinspect.findings.clients import Clients
    from dcpinspect.findings.members import Members
    from dcpinspect.findings.moves import Moves

ALL = np.iinfo(np.int64).max
"""A row after all rows, and a time after all times."""

MOST_VBUCKETS = 1024
"""Number of vbuckets of a bucket; ns_server makes some with fewer, and none with more."""
_FRAME = (1 << FILE_SHIFT) - 1


@dataclass(frozen=True)
class Context:
    """One reading at its end."""

    tracker: Tracker
    links: Sequence[TcpConnection]
    copies: Mapping[int, tuple[TcpConnection, Copy]] = field(default_factory=dict)
    """Connections that show what another one shows, by number; they are not in ``links``."""

    @cached_property
    def streams(self) -> Streams:
        """Streams in order of their opening."""
        return self.tracker.state.known_tables.streams

    @cached_property
    def snapshots(self) -> Snapshots:
        """Snapshots in order of their markers."""
        return self.tracker.state.known_tables.snapshots

    def streams_of(self, connection: int) -> RowNumbers:
        """Returns the numbers of a connection's streams."""
        return self._by_connection[connection]

    def open_on(self, connection: int) -> RowNumbers:
        """Returns the numbers of a connection's streams that were accepted and go on."""
        numbers = self.streams_of(connection)
        states = self.streams.state[numbers]
        return numbers[(states >= ACCEPTED) & (states <= STREAMING)]

    def waiting_on(self, connection: int, since_ns: int) -> tuple[int, ...]:
        """Returns the vbuckets whose streams wait where a connection stops at a time."""
        numbers = self.open_on(connection)
        are_older = self.streams.opened.time[numbers] <= since_ns
        return tuple(sorted(set(self.streams.vbucket[numbers[are_older]].tolist())))

    @cached_property
    def _by_connection(self) -> GroupedRows:
        return GroupedRows(
            self.streams.connection,
            max(len(self.tracker.state.connections), 1 + max(self.by_number, default=0)),
        )

    @cached_property
    def tables(self) -> Tables:
        """The tables of the reading."""
        return self.tracker.tables(self.links)

    @cached_property
    def granted(self) -> BoolArray:
        """A mask of streams that the server granted."""
        return are_granted(self.streams)

    @cached_property
    def vbuckets_of_buckets(self) -> int:
        """The greatest number of vbuckets that a bucket has, as far as streams show."""
        return max(MOST_VBUCKETS, 1 + int(self.streams.vbucket[self.granted].max(initial=-1)))

    @cached_property
    def rolled_back(self) -> BoolArray:
        """A mask of streams that were rolled back. Start 0 never is, but with a strict uuid: the
        client has nothing to discard, and can only ask the same again.
        """
        streams, request = self.streams, self.streams.request
        is_strict = (request.flags & STRICT != 0) & (request.uuid != 0)
        mask: BoolArray = (
            (streams.answer == w.A_ROLLBACK)
            & (request.is_captured != 0)
            & ((request.start > r.LEAST) | is_strict)
        )
        return mask

    @property
    def by_number(self) -> Mapping[int, TcpConnection]:
        """Connections by number."""
        return self.tables.seen.by_number

    @property
    def sight(self) -> Visibility:
        """What the capture shows of each connection."""
        return self.tables.seen.sight

    @property
    def owners(self) -> Mapping[int, Client]:
        """The client that each connection belongs to, by number of the connection."""
        return self.consumers.owners

    @cached_property
    def conduct(self) -> Clients:
        """What the clients asked for again, and what of it the capture may lack."""
        from dcpinspect.findings.clients import Clients  # deferred: it looks at a context

        return Clients(self)

    @cached_property
    def moves(self) -> Moves:
        """Where vbuckets are active."""
        from dcpinspect.findings.moves import Moves  # deferred: it looks at a context

        return Moves(self)

    @cached_property
    def members(self) -> Members:
        """What members of the clients' groups received."""
        from dcpinspect.findings.members import Members  # deferred: it looks at a context

        return Members(self)

    @property
    def clients(self) -> Mapping[int, str]:
        """Name of the consumer that each connection belongs to, by number of the connection."""
        return self.tables.seen.clients

    def captured_until_ns(self, connection: int) -> int:
        """Returns when the capture of a connection ended: what its client says on another one is
        seen until then.
        """
        return self.sight.captured_until_ns(connection)

    def until_ns(self, link: TcpConnection) -> int:
        """Returns the time up to which a connection is known to have been there: its end, or the
        end of the capture.

        What another capture has says nothing of the connection, unless it is of the same capture
        point, and connections run from one capture into the other.
        """
        if link.closed:
            return link.heard_until_ns
        return self.captured_until_ns(link.number)

    def session(self, connection: int) -> Session:
        """Returns what a connection has said of itself."""
        return self.tracker.conversation.sessions.get(connection) or Session()

    def has_collections(self, connection: int) -> bool | None:
        """Returns whether a connection negotiated collections; None where nobody can know."""
        features = self.session(connection).features
        if features is not None:
            return COLLECTIONS in features
        return False if self.tracker.state.is_whole(connection) else None  # no HELLO was sent

    def tells_hidden(self, connection: int) -> bool | None:
        """Returns whether the producer says, by a SeqnoAdvanced, where a snapshot ends that ends in
        what the client may not see; None where nobody can know.
        """
        has_collections = self.has_collections(connection)
        if has_collections and self.versions(connection).has(SEQNO_ADVANCED) is False:
            return False
        return has_collections

    def versions(self, connection: int) -> Versions:
        """Returns the versions that the producer of a connection may have, by what its server shows
        on any connection.
        """
        if self.producer(connection) == 1:
            return self._versions[self.by_number[connection].server]
        return Versions()

    @cached_property
    def _versions(self) -> Mapping[str, Versions]:
        # these stay in the tables, whatever leaves
        first = self.snapshots[(self.snapshots.index == 1) & (self.snapshots.layout >= 0)]
        sent: dict[int, list[str]] = defaultdict(list)
        for pair in unique(self.streams.connection[first.stream] << 8 | first.layout).tolist():
            sent[pair >> 8] += w.SNAPSHOT_LAYOUTS[pair & 255 : (pair & 255) + 1]
        versions_of: dict[str, list[Versions]] = defaultdict(list)
        for link in self.links:
            by_markers = versions_by_markers(
                sent[link.number] if self.producer(link.number) == 1 else ()
            )
            versions_of[link.server] += [self.session(link.number).versions, by_markers]
        return {server: Versions().narrowed(versions) for server, versions in versions_of.items()}

    def is_filtered(self, stream: int) -> bool | None:
        """Returns whether a stream was asked for with a filter of collections; None if unknown."""
        stream_record = self.streams[stream]
        if not stream_record.request.is_captured or stream_record.request.filter == CUT_VALUE:
            return None
        value = self.value(stream)
        return value is not None and ("collections" in value or "scope" in value)

    def value(self, stream: int) -> Mapping[str, Any] | None:
        """What the value of a stream request says; None for none, or one that nobody can read."""
        number = self.streams[stream].request.filter
        return self.tracker.conversation.filters[number] if number >= 0 else None

    def producer(self, connection: int) -> int:
        """Returns the direction of the producer's messages; the server's if nothing tells."""
        producers = self.tracker.state.connections.producer
        is_met = connection < len(producers)  # a copy that says nothing is not
        direction = int(producers[connection]) if is_met else -1
        return direction if direction >= 0 else 1

    def by_side(self, stream: int, text: str) -> str:
        """Returns what is said of a stream's producer and consumer, as ``words.by_side``."""
        return w.by_side(text, self.producer(self.streams[stream].connection))

    def stream_place(
        self, stream: Stream, message: r.MessageRow, *, of_consumer: bool = False
    ) -> MessagePlace | None:
        """Returns the place of a message that a stream's record has in ``message``, or None."""
        if message.row <= 0:
            return None
        producer = self.producer(stream.connection)
        return place_at(
            stream.connection,
            1 - producer if of_consumer else producer,
            message,
        )

    def in_order(self, is_chosen: BoolArray) -> list[int]:
        """Returns the numbers of the chosen snapshots in the order of their markers."""
        numbers = np.flatnonzero(is_chosen)
        by_marker: list[int] = numbers[
            np.argsort(self.snapshots.place.row[numbers], kind="stable")
        ].tolist()
        return by_marker

    def marker(self, snapshot: int) -> MessagePlace:
        """Returns the place of a snapshot's marker."""
        row = self.snapshots[snapshot]
        return self.producer_place(row.stream, row.place)

    def producer_place(self, stream: int, message: MessagePosition | r.MessageRow) -> MessagePlace:
        """Returns the place of a message of a stream's producer."""
        return self.report_place(self.streams[stream].connection, message)

    def request(self, stream: int) -> MessagePlace | None:
        """Returns the place of a stream's request; None if the capture does not have it."""
        stream_record = self.streams[stream]
        is_there = stream_record.request.is_captured or stream_record.request.filter == CUT_VALUE
        return (
            self.stream_place(stream_record, stream_record.opened, of_consumer=True)
            if is_there
            else None
        )

    def answer(self, stream: int) -> MessagePlace | None:
        """Returns the place of the answer to a stream's request."""
        stream_record = self.streams[stream]
        return self.stream_place(stream_record, stream_record.answered)

    def behind(self, loss: ByteLoss) -> MessagePlace:
        """Returns the place of the first message behind a loss."""
        connection, direction = int(loss.connection), int(loss.direction)
        frame = loss.after_frame
        return MessagePlace(
            loss.after_row,
            connection,
            DIRECTIONS[direction],
            loss.end,
            frame >> FILE_SHIFT,
            frame & _FRAME,
            int(loss.after_time),
        )

    def first_losses(
        self, connection: int, direction: int, offset: int | None = None
    ) -> list[MessagePlace]:
        """Returns the places of the messages behind the first losses of a direction; ``offset``:
        only behind those that have this stream offset.
        """
        losses = self.tracker.state.known_tables.losses
        firsts = map(losses.__getitem__, self._losses.get((connection, direction), ()))
        return [
            self.behind(loss)
            for loss in firsts
            if offset is None or loss.start <= offset < loss.end
        ]

    @cached_property
    def _losses(self) -> Mapping[tuple[int, int], list[int]]:
        """The first three losses of each direction that has some."""
        losses = self.tracker.state.known_tables.losses
        groups = Groups([losses.connection, losses.direction])
        return {
            (losses[loss_rows[0]].connection, losses[loss_rows[0]].direction): loss_rows[:3]
            for loss_rows in groups.values()
        }

    @property
    def consumers(self) -> Consumers:
        """The consumers, each over all its connections."""
        return self.tables.seen.consumers

    @property
    def names(self) -> NameNumbers:
        """The consumers of the connections, as numbers."""
        return self.consumers.names

    @property
    def of_client(self) -> Groups:
        """As ``Consumers.streams``."""
        return self.consumers.streams

    @property
    def unread_requests(self) -> UnreadRequests:
        """Stream requests that may be for any stream of their vbucket."""
        return self.tables.seen.unread

    @property
    def logs(self) -> FailoverLogs:
        """All failover logs."""
        return self.tables.logs

    @cached_property
    def _sent(self) -> tuple[IntArray, LogsInOrder]:
        """Client and vbucket of each failover log, as one number, and the logs. Both are sorted by
        that number, then by time.
        """
        all_logs = self.logs.rows
        key = self.names.of[all_logs.connection] << VBUCKET_BITS | all_logs.vbucket
        order = np.lexsort((all_logs.place.row, all_logs.place.time, key))
        return key[order], LogsInOrder(self.logs, order)

    def sent(self, stream: int) -> LogsInOrder:
        """Returns the failover logs of a stream's vbucket that its client was sent, in the order in
        which they were told.
        """
        keys, logs = self._sent
        key = (
            self.names.of[self.streams.connection[stream]] << VBUCKET_BITS
            | self.streams.vbucket[stream]
        )
        return logs[
            int(np.searchsorted(keys, key, "left")) : int(np.searchsorted(keys, key, "right"))
        ]

    @property
    def rollbacks(self) -> Rollbacks:
        """Why requests were rolled back."""
        return self.tables.explained

    def is_starved(self, connection: int) -> bool:
        """Returns whether the window of a connection is full at the end."""
        return self.tables.seen.flows[connection].is_full

    def log_place(self, log: KnownLog) -> MessagePlace:
        """Returns the place where a failover log was told."""
        return self.report_place(log.connection, log.at)

    def report_place(
        self, connection: int, message: MessagePosition | r.MessageRow, *, of_consumer: bool = False
    ) -> MessagePlace:
        """Returns the place of a message of the producer, or of the consumer if ``of_consumer``."""
        producer = self.producer(connection)
        return place_at(connection, 1 - producer if of_consumer else producer, message)

    def said_place(self, connection: int, said: Said | None) -> MessagePlace | None:
        """Returns the place of what a session has of a connection; None if it has nothing."""
        return None if said is None else place_at(connection, said.direction, said.at)

    @cached_property
    def replicas(self) -> frozenset[tuple[int, int | None]]:
        """Connection and vbucket of streams whose server is known to have it as a replica."""
        replicas = self.tables.seen.replicas
        return frozenset(
            zip(
                self.streams.connection[replicas].tolist(),
                self.streams.vbucket[replicas].tolist(),
                strict=True,
            )
        )

    @cached_property
    def blind(self) -> frozenset[int]:
        """Connections on which something of the consumer's was not captured, perhaps what it asked
        about its vbuckets.
        """
        return frozenset(np.flatnonzero(self.sight.incomplete_consumers).tolist())

    def carried_ns(self, link: TcpConnection, awaited: int, since_ns: int, until_ns: int) -> int:
        """Returns how long one waited for the side ``awaited`` while the network carried."""
        heard_ns = self.tracker.state.connections[link.number].time[awaited]
        return link.carried_ns(since_ns, until_ns, heard_ns)

    def is_heard_after(self, connection: int, time_ns: int) -> bool:
        """Returns whether a connection's server said anything after this time, anywhere."""
        return self._latest_of[self.by_number[connection].server] > time_ns

    @cached_property
    def _latest_of(self) -> Mapping[str, int]:
        """Time of the latest message that each server sent."""
        connections, latest = self.tracker.state.connections, defaultdict[str, int](int)
        for link in self.links:
            latest[link.server] = max(
                latest[link.server],
                connections[link.number].time[self.producer(link.number)],
            )
        return latest

    def runs_whole(self, stream: int) -> bool:
        """Returns whether a stream is open, and nothing that could have ended it is missing in
        either direction.
        """
        stream_record = self.streams[stream]
        connection = stream_record.connection
        connection_row = self.tracker.state.connections[connection]
        link = self.by_number[connection]
        producer = self.producer(connection)
        if (
            not ACCEPTED <= stream_record.state <= STREAMING
            or connection_row.losses[producer] != stream_record.losses
        ):
            return False
        if (
            link.lost_at_end != (None, None)
            or connection_row.closed_time >= stream_record.opened.time
        ):
            return False
        last = connection_row.last_loss[1 - producer]
        return (
            last < 0
            or int(self.tracker.state.known_tables.losses.after_row[last])
            < stream_record.opened.row
        )

    def is_brought(self, stream: int, seqno: int) -> bool:
        """Returns whether a later stream of a stream's client came to a seqno of the vbucket."""
        return bool(self._reached_later[stream] >= seqno + LEAST)

    @cached_property
    def _reached_later(self) -> IntArray:
        """For each stream, the greatest seqno, biased, to which later streams of its client and
        vbucket have come.
        """
        streams = self.streams
        return self.of_client.greatest_later(
            np.where(streams.has_position != 0, streams.position, LEAST), LEAST
        )

    def may_lack(
        self,
        connection: int,
        direction: int,
        since_ns: int,
        until_ns: int | None = None,
        least: int = MESSAGE,
    ) -> bool:
        """Returns whether a side may have said something between two times that was not captured;
        without ``until_ns``, at any time after the first. ``least``: bytes of the shortest message
        that counts.
        """
        return self.sight.between(connection, direction, since_ns, until_ns, least) != "complete"


def place_at(
    connection: int, direction: int, message: MessagePosition | r.MessageRow
) -> MessagePlace:
    """Returns the place of a message in a direction of a connection."""
    row, offset, frame, time_ns = (
        message
        if isinstance(message, MessagePosition)
        else (message.row, message.offset, message.frame, message.time)
    )
    return MessagePlace(
        row, connection, DIRECTIONS[direction], offset, frame >> FILE_SHIFT, frame & _FRAME, time_ns
    )


def ends_of(link: TcpConnection) -> tuple[MessagePlace, ...]:
    """Returns the places of a connection's first packet, and of the one that closed it."""
    first = DIRECTIONS[link.unseen == 0]
    begins = (0, link.number, first, 0, link.first_file, link.first_frame, link.first_ns)
    begun = MessagePlace(*begins, has_message=False)
    if link.closed not in ("fin", "rst"):
        return (begun,)
    closed = begun.packet(link.closed_file, link.closed_frame, link.closed_ns)
    return begun, replace(closed, direction=DIRECTIONS[link.closed_by])


def stopped_at(row: Stream) -> int:
    """Returns the seqno, biased, from which a client goes on after a stream."""
    if row.answer == w.A_ROLLBACK:
        return row.rollback
    return row.position if row.has_position else row.request.start


def reached(row: Stream) -> tuple[int, ...]:
    """Returns the seqno that a stream has come to: its last one or its start, or nothing."""
    if row.seen:
        return (plain(row.last),)
    if row.has_position:
        return (plain(row.position),)
    return (plain(row.request.start),) if row.request.is_captured else ()


def occurrence(
    context: Context,
    number: int,
    rule: str,
    message: str,
    evidence: Sequence[MessagePlace | None],
    *,
    cause: str | None = None,
    next_: str | None = None,
    seqnos: tuple[int, ...] = (),
    shared: str | None = None,
    count: int = 1,
    explains: Collection[int] = (),
    facts: Mapping[str, int | str] | None = None,
    is_over: bool | None = None,
    severity: Severity | None = None,
) -> Occurrence:
    """Returns an occurrence about a stream; ``evidence``: known or None, the offender first."""
    stream = context.streams[number]
    sid = stream.sid
    return Occurrence(
        rule,
        message,
        stream.connection,
        captured(evidence),
        stream.vbucket,
        sid if sid >= 0 else None,
        cause,
        next_,
        seqnos,
        shared=shared,
        count=count,
        stream=number,
        explains=explains,
        facts=facts or {},
        is_over=is_over,
        severity=severity or SEVERITY_OF[rule],
    )
