"""One client over all its connections: what it asked for again, how long that took, and what of it
the capture may lack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import sqrt
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.client_requests import opened_since
from dcpinspect.findings.context import Context, stopped_at
from dcpinspect.findings.lost_streams import LostStream, LostStreams, ReopenedStreams
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import CACHE_TRANSFER, FROM_LATEST, TAKEOVER, TO_AN_END
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import words as w
from dcpinspect.streams.collections import named_collections, named_scope
from dcpinspect.streams.grouping import Groups, NameNumbers
from dcpinspect.streams.hole_capacity import ANSWER, REQUEST
from dcpinspect.streams.records import GREATEST, LEAST, MessageRow, Stream
from dcpinspect.streams.session import FAILOVER_LOGS
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.streams.transitions import ENDED

FIRST_BAD_END, LAST_BAD_END = 2, 6
"""Range of the reasons of stream ends after which a client that goes on asks for the vbucket again.
"""
MOVED = 2
"""The reason of a stream end if the vbucket is active on another node, perhaps not captured."""
_DEVIATIONS = 3
"""Standard deviations by which the vbuckets that did not come back must be fewer than a node's even
share, to be too few for a node.
"""


_MOST_LATER, _MOST_CANDIDATES = 1000, 16
"""Numbers of later streams of a vbucket that are looked at for one that goes on with a stream; and
of those that are asked whether they have as much.
"""


REFUSED_FOR_NOW = (
    Status.NOT_MY_VBUCKET,
    Status.ETMPFAIL,
    Status.ENOMEM,
    Status.COLLECTIONS_MANIFEST_IS_AHEAD,
)
"""Statuses of refused stream requests after which a client asks again later, or another node."""


class _VBucketRequest(NamedTuple):
    """What was asked of one vbucket and stream-id on a connection, or on several; the number of the
    connection is that of one of them.
    """

    connection: int
    row: int
    """The latest request, or first message of a stream without one."""
    time_ns: int
    """The time of the latest one."""
    until_ns: int
    """Until when a stream lasted; 0 if none was granted."""
    granted_row: int
    """The latest message of a stream that was granted; 0 if none was."""
    granted_ns: int
    """The time of the latest one; 0 if none was."""


def _losing_message(stream: Stream) -> MessageRow[int]:
    """Returns the message that left a client without a stream."""
    return stream.answered if stream.answer in (w.A_ROLLBACK, w.A_REFUSED) else stream.finished


def _latest(requests: Iterable[_VBucketRequest]) -> _VBucketRequest:
    return _VBucketRequest(*map(max, zip(_NO_REQUEST, *requests, strict=True)))


_NO_REQUEST = _VBucketRequest(-1, -1, -1, 0, 0, 0)


class Clients:
    """What the clients of a reading did about rollbacks and ended streams."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._consumers = context.consumers
        self._latest: dict[tuple[int, frozenset[int]], list[_VBucketRequest]] = {}
        """Of what was asked on some connections, the latest two in each respect."""
        self._shows_moves: dict[tuple[str, int, bool], bool] = {}
        """By client and server, for ended streams or for refusals: whether the client could have
        reopened all that moved away.
        """
        self._said_until_ns: dict[str, int] = {}

    @cached_property
    def losses(self) -> dict[str, LostStreams]:
        """The rollbacks and stream ends of each client."""
        streams = self._context.streams
        is_early = (streams.reason >= FIRST_BAD_END) & (streams.reason <= LAST_BAD_END)
        is_early |= (streams.reason == 0) & self._have_no_end
        are_ended = (streams.state == ENDED) & is_early & (streams.closed_row < 0)
        return self._losses(self._context.rolled_back | are_ended)

    @property
    def _have_no_end(self) -> BoolArray:
        """A mask of streams that a server with collections never ends as complete."""
        context, request = self._context, self._context.streams.request
        flags = TO_AN_END | TAKEOVER | CACHE_TRANSFER
        connections = [number for number in context.by_number if context.has_collections(number)]
        mask: BoolArray = (
            (request.is_captured != 0)
            & (request.end == GREATEST)
            & (request.flags & flags == 0)
            & np.isin(context.streams.connection, connections)
        )
        return mask

    @cached_property
    def refusals(self) -> dict[str, LostStreams]:
        """The stream requests of each client that were refused for now. They are apart, because
        clients wait before they ask again.
        """
        streams = self._context.streams
        is_refused = (streams.answer == w.A_REFUSED) & (streams.request.is_captured != 0)
        return self._losses(is_refused & np.isin(streams.status, REFUSED_FOR_NOW))

    def _losses(self, are_losses: BoolArray) -> dict[str, LostStreams]:
        losses_of_client: dict[str, list[LostStream]] = defaultdict(list)
        streams, groups = self._context.streams, self._context.of_client
        for numbers in groups.having(are_losses):
            client = self._context.clients[streams[numbers[0]].connection]
            times = streams.opened.time[numbers]
            # requests may have been read before what the server had said earlier
            in_order = np.sort(times)
            granted = np.array(numbers, dtype=np.int64)[self._context.granted[numbers]]
            granted_ns = streams.opened.time[granted]
            for index, number in enumerate(numbers):
                if not are_losses[number]:
                    continue
                stream = streams[number]
                end_place, connection = _losing_message(stream), stream.connection
                link, producer = (
                    self._context.by_number[connection],
                    self._context.producer(connection),
                )
                # an answer comes after its request, whatever the clocks of the directions say
                time_ns = max(end_place.time, int(times[index]))
                later = opened_since(streams, numbers, in_order, index, end_place)
                received_ns = link.received_ns(producer, end_place.offset, time_ns)
                reaction, again = None, -1
                if later < len(numbers):
                    received_ns = max(time_ns, min(received_ns, int(times[later])))
                    reaction, again = max(0, int(times[later]) - received_ns), numbers[later]
                first = int(np.searchsorted(granted_ns, time_ns))
                then = int(granted[first]) if first < len(granted) else -1
                losses_of_client[client].append(
                    LostStream(
                        number,
                        time_ns,
                        received_ns,
                        end_place.row,
                        stream.answer == w.A_ROLLBACK,
                        reaction,
                        again,
                        then,
                    )
                )
        return {client: LostStreams(losses) for client, losses in losses_of_client.items()}

    def reopened(self, losses: LostStreams) -> ReopenedStreams:
        """Returns which of the streams that ended, or were refused, were granted again."""
        losses_granted = [
            loss
            for loss in losses.all
            if loss.reaction_ns is not None and loss.granted >= 0 and not loss.is_rollback
        ]
        vbuckets = self._context.streams.vbucket[[loss.stream for loss in losses_granted]].astype(
            np.int64
        )
        servers = self.servers.of[
            self._context.streams.connection[[loss.granted for loss in losses_granted]]
        ]
        return ReopenedStreams(
            losses_granted,
            vbuckets,
            np.array([loss.reaction_ns for loss in losses_granted], dtype=np.int64),
            servers,
        )

    def has_moved(self, losses: LostStreams, loss: LostStream) -> bool:
        """Returns whether a client was told at a loss that the vbucket is active elsewhere, or has
        no more to do with the node.
        """
        stream = self._context.streams[loss.stream]
        return bool(
            stream.status == Status.NOT_MY_VBUCKET
            if stream.answer == w.A_REFUSED
            else not loss.is_rollback
            and stream.reason == MOVED
            and not self._context.moves.stays(loss)
        ) or self._has_left(loss, losses.patience_ns(loss.received_ns))

    def _has_left(self, loss: LostStream, patience_ns: int) -> bool:
        """Returns whether a connection was closed, or the client closed all its other streams,
        before the client would have asked for a stream again; and it asked for none of them since.

        What it would have done about this one nobody knows.
        """
        connection = self._context.streams[loss.stream].connection
        link = self._context.by_number[connection]
        asked_ns, closed_ns = (int(times[connection]) for times in self._given_up)
        ends = [link.closed_ns] if link.closed else []
        ends += [] if len(self._context.open_on(connection)) else [closed_ns]
        return asked_ns <= loss.time_ns and any(
            abs(end_ns - loss.received_ns) <= patience_ns for end_ns in ends
        )

    @cached_property
    def _given_up(self) -> tuple[RowNumbers, RowNumbers]:
        """By connection: when the client last asked on another one for what it had on this one; and
        when it last closed a stream. 0 for never.
        """
        streams, connection = self._context.streams, self._context.streams.connection
        asked_ns, closed_ns = np.zeros((2, len(self._context.tracker.state.connections)), np.int64)
        previous = self._context.of_client.previous
        later = np.flatnonzero(previous >= 0)
        before = previous[later]
        is_other = connection[later] != connection[before]
        np.maximum.at(asked_ns, connection[before[is_other]], streams.opened.time[later[is_other]])
        is_closed = streams.closed_row >= 0
        np.maximum.at(closed_ns, connection[is_closed], streams.closed_time[is_closed])
        return asked_ns, closed_ns

    def _was_away(self, losses: LostStreams, loss: LostStream) -> bool:
        """Returns whether a vbucket came back to the server that it had left after longer than the
        client takes to ask again, or with another history.
        """
        streams, logs = self._context.streams, self._context.logs
        back_ns = streams[loss.granted].opened.time - loss.received_ns
        branches = {logs.newest(loss.stream), logs.newest(loss.granted)} - {None}
        servers = self.servers.of[streams.connection[[loss.stream, loss.granted]]]
        return bool(servers[0] == servers[1]) and (
            back_ns > losses.patience_ns(loss.received_ns) or len(branches) > 1
        )

    def shows_moves(self, client: str, losses: LostStreams, connection: int) -> bool:
        """Returns whether a client could have reopened all vbuckets that moved from the server of a
        connection, by what it did reopen.

        Perhaps nobody captures where they moved to. If some were reopened on other nodes, an unseen
        node may have taken the rest, unless that is far less than an even share. If they only came
        back to this server, they show it once they are as many as the rest. Those that had been
        elsewhere meanwhile show nothing.
        """
        server = int(self.servers.of[connection])
        key = client, server, losses is self.losses.get(client)
        if key not in self._shows_moves:
            streams = self._context.streams
            moved_losses = [
                loss
                for loss in losses.all
                if int(self.servers.of[streams.connection[loss.stream]]) == server
                and self.has_moved(losses, loss)
            ]
            again = [
                int(self.servers.of[streams.connection[loss.granted]])
                for loss in moved_losses
                if loss.granted >= 0 and not self._was_away(losses, loss)
            ]
            elsewhere = [other_server for other_server in again if other_server != server]
            missing = sum(loss.reaction_ns is None for loss in moved_losses)
            share = (len(elsewhere) + missing) / (len(set(elsewhere)) + 1)
            is_shown = (
                missing + _DEVIATIONS * sqrt(share) < share if elsewhere else len(again) >= missing
            )
            self._shows_moves[key] = is_shown
        return self._shows_moves[key]

    def has_left(self, host: str, server: str) -> bool:
        """Returns whether clients on a host had streams on a node, and have open ones of all these
        vbuckets elsewhere, so that they need the node no more.
        """
        context, vbuckets = self._context, self._context.streams.vbucket
        had, have = set[tuple[str | None, int]](), set[tuple[str | None, int]]()
        for number, link in context.by_number.items():
            if host_of(link.client) == host:
                bucket = context.session(number).bucket
                if link.server == server:
                    rows = context.streams_of(number)
                    had.update((bucket, vbucket) for vbucket in vbuckets[rows].tolist())
                elif not link.closed:
                    rows = context.open_on(number)
                    have.update((bucket, vbucket) for vbucket in vbuckets[rows].tolist())
        return bool(had) and had <= have

    def are_taken_up(self, numbers: RowNumbers, connection: int, time_ns: int) -> bool:
        """Returns whether a host, or a member of its client's group, has other streams of the
        vbuckets of some at a time, or asks for them since. ``connection``: that of the streams.
        """
        context, streams = self._context, self._context.streams
        is_other = np.isin(streams.vbucket, streams.vbucket[numbers])
        is_other &= (self.until_ns > time_ns) | (streams.opened.time > time_ns)
        is_other[numbers] = False
        host = host_of(context.by_number[connection].client)
        return any(
            number in context.by_number
            and (
                host_of(context.by_number[number].client) == host
                or context.members.are_of_group(connection, number)
            )
            for number in np.unique(streams.connection[is_other]).tolist()
        )

    @cached_property
    def servers(self) -> NameNumbers:
        """The servers of the connections, as numbers."""
        context = self._context
        servers = {number: link.server for number, link in context.by_number.items()}
        return NameNumbers(servers, len(context.tracker.state.connections))

    def said_until_ns(self, client: str) -> int:
        """Returns the time of the latest message of a client itself, on any connection."""
        if client not in self._said_until_ns:
            context, connections = self._context, self._context.tracker.state.connections
            self._said_until_ns[client] = max(
                int(connections[number].time[1 - context.producer(number)])
                for number in self._consumers.of_name[client]
            )
        return self._said_until_ns[client]

    @cached_property
    def latest_attempts(self) -> Mapping[tuple[str, str], TcpConnection]:
        """By host of clients and server: the connection that began last, in vain or not."""
        in_order = sorted(self._context.links, key=attrgetter("first_ns"))
        return {(host_of(link.client), link.server): link for link in in_order}

    def latest_ns(self, client: str) -> int:
        """Returns the time of the latest message on any connection of a client."""
        rows = self._context.tracker.state.connections[self._consumers.of_name[client]]
        return int(rows.time.array.max())

    def is_whole(self, connection: int, until_ns: int) -> bool:
        """Returns whether the capture lacks nothing of a connection's client, on any of its own, up
        to a time. Where one carried nothing, not even its port tells that it is of DCP.
        """
        sight = self._context.sight
        return not any(
            not (sight.is_complete(incomplete) or sight.carried_nothing(incomplete))
            or sight.ends_before(incomplete, until_ns)
            for incomplete in sight.incomplete & self._consumers.may_be(connection)
        )

    @cached_property
    def until_ns(self) -> RowNumbers:
        """By stream: until when it lasted; 0 if none was granted."""
        streams = self._context.streams
        is_denied = np.isin(streams.answer, (w.A_ROLLBACK, w.A_REFUSED))
        until = np.where(
            is_denied, 0, np.where(streams.finished.row > 0, streams.finished.time, GREATEST)
        )
        closed = np.full(len(self._context.tracker.state.connections), GREATEST)
        for number, link in self._context.by_number.items():
            closed[number] = link.closed_ns if link.closed else GREATEST
        lasted: RowNumbers = np.minimum(until, closed[streams.connection])
        return lasted

    @cached_property
    def _by_connection(self) -> tuple[Groups, Groups, RowNumbers, Sequence[RowNumbers]]:
        """Streams by vbucket and stream-id; the rows of what was asked on each connection by such a
        group, and by stream; and its columns, as ``_VBucketRequest`` has them.
        """
        streams = self._context.streams
        groups = Groups([streams.vbucket, streams.sid])
        by_connection = Groups([streams.vbucket, streams.sid, streams.connection])
        first = by_connection.rows[by_connection.begins]
        columns = (
            streams.opened.row,
            streams.opened.time,
            self.until_ns,
            np.where(self._context.granted, streams.latest.row, 0),
            np.where(self._context.granted, streams.latest.time, 0),
        )
        return (
            groups,
            Groups([groups.of[first]]),
            by_connection.of,
            [streams.connection[first].astype(np.int64), *map(by_connection.greatest, columns)],
        )

    def _requests_beside(self, stream: int) -> tuple[_VBucketRequest, _VBucketRequest]:
        """Returns what the client of a stream, and who may be that client, asked of its vbucket: on
        its connection, and on all others.

        Two connections may have been captured apart, so their rows say nothing of their order.
        """
        groups, of_group, of_stream, columns = self._by_connection
        connection = self._context.streams[stream].connection
        group, own_connections = int(groups.of[stream]), self._consumers.may_be(connection)
        if (group, own_connections) not in self._latest:
            rows = of_group[group]
            vbucket_requests = [
                _VBucketRequest(*request)
                for request in zip(*(column[rows].tolist() for column in columns), strict=True)
                if request[0] in own_connections
            ]
            self._latest[group, own_connections] = [
                request
                for respect in ("time_ns", "until_ns", "granted_ns")
                for request in sorted(vbucket_requests, key=attrgetter(respect))[-2:]
            ]
        row, latest = of_stream[stream], self._latest[group, own_connections]
        own_request = _VBucketRequest(*(int(column[row]) for column in columns))
        return own_request, _latest(
            request for request in latest if request.connection != connection
        )

    def may_have_asked(self, loss: LostStream) -> bool:
        """Returns whether the client of a loss asked again, or may have asked where the capture
        does not show it, or another member of its group.
        """
        if self._context.unread_requests.streams[loss.stream]:
            return True
        stream = self._context.streams[loss.stream]
        own_request, elsewhere = self._requests_beside(loss.stream)
        is_later = own_request.row > loss.row or own_request.time_ns > loss.time_ns
        if is_later or elsewhere.time_ns >= loss.time_ns:
            return True
        client = self._context.clients[stream.connection]
        members, vbucket = self._context.members, int(stream.vbucket)
        if self.taken_up_by(loss.stream) is not None or members.may_have_given(
            client, vbucket, loss.received_ns
        ):
            return True
        # another node already streamed the vbucket to the client
        if not loss.is_rollback and elsewhere.until_ns > loss.time_ns:
            return True
        # what another capture has later says nothing of the time up to the end of this one
        until_ns = self._context.captured_until_ns(stream.connection)
        return self.may_have_said(int(stream.connection), loss.time_ns, until_ns, vbucket=vbucket)

    def taken_up_by(self, stream: int) -> int | None:
        """Returns the first stream that goes on, in place of its client's own for it, with what a
        stream was lost for; None if there is none.

        The client asks for as much under another stream-id, or another member of its group asks for
        it exactly where the stream stood. Who had as much beside the stream goes on with its own.
        """
        context, streams, row = self._context, self._context.streams, self._context.streams[stream]
        groups, opened_ns = self._of_vbucket
        begin = int(groups.begins[groups.of[stream]])
        end = begin + int(groups.counts[groups.of[stream]])
        lost_ns = max(int(_losing_message(row).time), int(row.opened.time))
        first = begin + int(np.searchsorted(opened_ns[begin:end], lost_ns))
        later = groups.rows[first : min(first + _MOST_LATER, end)]
        later = later[context.of_client.of[later] != context.of_client.of[stream]]
        if not len(later):
            return None
        connection, start, stood = row.connection, streams.request.start[later], stopped_at(row)
        is_own = np.isin(streams.connection[later], list(self._consumers.may_be(connection)))
        is_same = (start == stood) & (start > LEAST)
        may_go_on = np.where(is_own, (start <= stood) & (streams.sid[later] != row.sid), is_same)
        may_go_on &= (streams.request.is_captured[later] != 0) & (
            streams.request.flags[later] & FROM_LATEST == 0
        )
        # those that were asked for the same come first
        filters, candidates = self._filters.of, np.flatnonzero(may_go_on)
        is_different = filters[later[candidates]] != filters[stream]
        candidates = candidates[np.argsort(is_different, kind="stable")[:_MOST_CANDIDATES]]
        for number, is_own_stream in zip(
            later[candidates].tolist(), is_own[candidates].tolist(), strict=True
        ):
            before = int(context.of_client.previous[number])
            had_as_much = (
                before >= 0
                and self.until_ns[before] >= row.opened.time
                and self._holds(before, stream)
            )
            if (
                not had_as_much
                and self._holds(number, stream)
                and (
                    is_own_stream
                    or context.members.are_of_group(connection, streams[number].connection)
                )
            ):
                return int(number)
        return None

    @cached_property
    def _of_vbucket(self) -> tuple[Groups, RowNumbers]:
        """Streams by vbucket in the order of opening, and when each of these was opened."""
        streams = self._context.streams
        groups = Groups([streams.vbucket], np.argsort(streams.opened.time, kind="stable"))
        return groups, streams.opened.time[groups.rows]

    @cached_property
    def _filters(self) -> NameNumbers:
        """What each stream was asked for, as a scope and collections; None for all of them."""
        filter_numbers, index = np.unique(self._context.streams.request.filter, return_inverse=True)
        known_filters = self._context.tracker.conversation.filters
        values = [known_filters[number] if number >= 0 else None for number in filter_numbers]
        named = [(named_scope(value), named_collections(value)) for value in values]
        return NameNumbers(dict(enumerate(named[number] for number in index.tolist())), len(index))

    def _holds(self, wide: int, narrow: int) -> bool:
        """Returns whether a stream may have all that another one was asked for."""
        filters = self._filters
        scope, collections = filters.words[filters.of[wide]]
        narrow_scope, narrow_collections = filters.words[filters.of[narrow]]
        if scope is not None:
            return narrow_collections is not None or scope == narrow_scope
        return collections is None or (
            narrow_collections is not None and narrow_collections <= collections
        )

    def may_be_granted_after(self, stream: int) -> bool:
        """Returns whether the client of a stream request, or who may be that client, has a stream
        of the vbucket later.
        """
        own_request, elsewhere = self._requests_beside(stream)
        answered = self._context.streams.answered
        row, time_ns = int(answered.row[stream]), int(answered.time[stream])
        # times may be equal, and rows of a connection without its beginning may come late
        is_later = own_request.granted_row > row or own_request.granted_ns > time_ns
        if is_later or elsewhere.granted_ns >= time_ns:
            return True
        taker = self.taken_up_by(stream)
        return taker is not None and bool(self._context.granted[taker])

    def may_have_said(
        self, connection: int, since_ns: int, until_ns: int | None = None, *, vbucket: int
    ) -> bool:
        """Returns whether the client of a connection may have asked for a vbucket, on any of its
        connections, in a request that cannot be read.
        """
        context = self._context
        if context.unread_requests.asked_between(
            context.clients[connection], vbucket, since_ns, until_ns
        ):
            return True
        return any(
            context.may_lack(
                incomplete, 1 - context.producer(incomplete), since_ns, until_ns, REQUEST
            )
            for incomplete in self._context.sight.incomplete & self._consumers.may_be(connection)
        )

    def may_have_heard(self, connection: int, since_ns: int, until_ns: int) -> bool:
        """Returns whether the client of a connection may have been sent a failover log, on any of
        its connections, that was not captured.

        A log answers a request: that was not captured either, or it has no answer.
        """
        context, streams = self._context, self._context.streams
        for incomplete in self._context.sight.incomplete & self._consumers.may_be(connection):
            if context.may_lack(
                incomplete, context.producer(incomplete), since_ns, until_ns, ANSWER
            ):
                is_asked = bool(
                    ((streams.connection == incomplete) & (streams.answer == w.A_UNKNOWN)).any()
                )
                is_asked |= any(map(context.session(incomplete).waits_for, FAILOVER_LOGS))
                if is_asked or context.may_lack(
                    incomplete, 1 - context.producer(incomplete), since_ns, until_ns
                ):
                    return True
        return False
