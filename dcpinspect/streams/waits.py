"""How long streams have waited for a seqno that their server is known to have.

The verdict ``behind`` and the rule ``server-owes-seqno`` tell of the same wait, so it is measured
here for both. The wait begins with the first answer that told a seqno above the stream's last one,
and lasts until the stream has that seqno. Later answers do not begin it anew, but messages of the
stream do, and so does a network that carries again. Bytes of a message that is not complete end it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams import words as w
from dcpinspect.streams.conversation import Conversation
from dcpinspect.streams.failover_logs import origin_of
from dcpinspect.streams.record_codes import POSITION_UNSURE
from dcpinspect.streams.records import (
    GREATEST,
    LEAST,
    UNREAD_SEQNO,
    ByteLosses,
    ConnectionRows,
    Snapshots,
    Streams,
)
from dcpinspect.streams.server_reports import BRANCH, HIGH, LOG, ROLLBACK, MessagePosition, Reports
from dcpinspect.streams.session import Session
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.state import KnownTables
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.transitions import ACCEPTED, OPEN, STREAMING
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.streams.visibility import Visibility

_DISK = 1
_FIRST_MARKER_NS = 5_000_000_000
"""A stream without a marker waits at least this long: its backfill may have to wait for others."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a stream waits for."""

    connection: int
    """The connection of the first answer that told of the seqno."""
    at: MessagePosition
    """The place of that answer."""
    newest: int
    """The newest seqno that the server told."""
    idle_ns: int
    """How long nothing of the stream has come since that answer."""
    is_long: bool
    """Whether the wait is longer than the patience."""


class Waits:
    """The open streams that lack a seqno they asked for, where everything that may have brought it
    was captured.
    """

    def __init__(
        self,
        tables: KnownTables,
        branches: IntArray,
        conversation: Conversation,
        links: Mapping[int, TcpConnection],
        clients: Mapping[int, str],
        sight: Visibility,
    ) -> None:
        """``branches``: newest uuid of each stream's failover log, 0 for none. ``clients``: name of
        the client, by connection.
        """
        reports = conversation.reports
        self._connections, self._streams, self._snapshots, _, losses = tables
        size = len(self._streams)
        # by stream: the answer that first told what it waits for
        self._first: IntArray = np.full(size, -1, dtype=np.int64)
        self.newest: IntArray = np.full(size, LEAST, dtype=np.int64)
        """The newest seqno that the server told, biased, by stream; LEAST if it waits for none."""
        self._idle_ns: IntArray = np.zeros(size, dtype=np.int64)
        self.are_long: BoolArray = np.zeros(size, dtype=np.bool_)
        """True for streams that have waited longer than the patience."""
        highs = reports[reports.kind != LOG]
        if not len(highs):
            return
        self._said = _server_reports(self._streams, branches, highs)
        deaf = _deaf_since(clients, self._connections, losses, links)
        self._deaf_ns, self._last_ns = (
            np.zeros(len(self._connections), dtype=np.int64) for _ in range(2)
        )
        self._lossy = {number: link for number, link in links.items() if any(link.late_acks)}
        own_group: IntArray = np.full(len(self._connections), -1, dtype=np.int64)
        groups = _listeners(conversation.sessions, links, clients, sight)
        for number, (members, _) in enumerate(groups):
            own_group[members] = number
        for number, link in links.items():
            self._deaf_ns[number] = deaf.get(clients.get(number, ""), 0)
            self._last_ns[number] = sight.silent_until_ns(number, link.last_ns)
        waiting = np.flatnonzero(self._may_wait())
        group = own_group[self._streams.connection[waiting]]
        waiting = waiting[np.argsort(group, kind="stable")]
        group_bounds = np.searchsorted(np.sort(group), np.arange(len(groups) + 1))
        said_on = np.searchsorted(self._said.connection, np.arange(len(self._connections) + 1))
        for number, (_, listeners) in enumerate(groups):
            numbers = waiting[group_bounds[number] : group_bounds[number + 1]]
            listened = np.concatenate(
                [np.arange(said_on[listener], said_on[listener + 1]) for listener in listeners]
            )
            if len(numbers) and len(listened):
                self._wait(numbers, listened)

    def get(self, stream: int) -> Wait | None:
        """Returns what a stream waits for; None if it does not wait."""
        first = int(self._first[stream])
        if first < 0:
            return None
        answer = self._said[first]
        idle, newest = int(self._idle_ns[stream]), int(self.newest[stream]) - LEAST
        return Wait(
            answer.connection,
            MessagePosition.from_record(answer.place),
            newest,
            idle,
            bool(self.are_long[stream]),
        )

    @property
    def are_waiting(self) -> BoolArray:
        """True for streams that wait for something."""
        return self._first >= 0

    def _may_wait(self) -> BoolArray:
        """Returns a mask of streams that may wait.

        A stream from latest has no position before its first marker: it did not ask for what the
        server had by then.
        """
        streams = self._streams
        owner = streams.connection
        producer = np.maximum(self._connections.producer[owner], 0)
        is_known = (
            (streams.has_position != 0) & (streams.lost_since_marker == 0) & (streams.in_oso < 0)
        )
        is_known &= self._connections.losses.array[owner, producer] == streams.position_losses
        is_known &= streams.doubt & POSITION_UNSURE == 0
        return np.asarray(is_known & np.isin(streams.state, (ACCEPTED, STREAMING)), dtype=np.bool_)

    def _wait(self, numbers: IntArray, listened: IntArray) -> None:
        """Computes the waits of some streams; ``numbers``: the streams; ``listened``: rows of all
        that their clients may have been told.
        """
        reports = self._said[listened]
        columns = reports.connection, reports.value, reports.kind, reports.place.time
        order = np.lexsort((reports.place.row, *columns, reports.vbucket))
        listened, reports = listened[order], reports[order]
        report_position = np.arange(len(order))
        vbuckets, begin, vbucket_index = np.unique(
            reports.vbucket, return_index=True, return_inverse=True
        )
        vbucket_index = vbucket_index.reshape(-1)
        is_high = reports.kind == HIGH
        high, branch = (
            _before(is_one, begin[vbucket_index]) for is_one in (is_high, reports.kind == BRANCH)
        )
        # a seqno told before may be of another history, or the server took it back
        is_reset = (reports.kind == ROLLBACK) & (high >= 0) & (reports.value < reports.value[high])
        is_reset |= (
            (reports.kind == BRANCH) & (branch >= 0) & (reports.value != reports.value[branch])
        )
        reset = np.maximum.reduceat(np.where(is_reset, report_position, -1), begin)
        high_positions = np.flatnonzero(is_high & (report_position > reset[vbucket_index]))
        # the least seqno told from each answer on: up to that seqno a stream has everything
        values, rank = np.unique(reports.value[high_positions], return_inverse=True)
        step = len(values) + 1
        least = np.minimum.accumulate(
            (vbucket_index[high_positions] * step + rank.reshape(-1))[::-1]
        )[::-1]
        ends = np.searchsorted(vbucket_index[high_positions], np.arange(len(vbuckets)), "right")
        streams = self._streams
        vbucket, position = streams.vbucket[numbers], streams.position[numbers]
        vbucket_position = np.minimum(np.searchsorted(vbuckets, vbucket), len(vbuckets) - 1)
        first = np.searchsorted(
            least, vbucket_position * step + np.searchsorted(values, position, "right")
        )
        waits = (vbuckets[vbucket_position] == vbucket) & (first < ends[vbucket_position])
        waits &= (streams.request.is_captured[numbers] == 0) | (
            position < streams.request.end[numbers]
        )
        numbers = numbers[waits]
        first = high_positions[first[waits]]
        last = high_positions[ends[vbucket_position[waits]] - 1]
        self._enter(numbers, listened, reports, first, last)

    def _enter(
        self,
        numbers: IntArray,
        listened: IntArray,
        reports: Reports,
        first: IntArray,
        last: IntArray,
    ) -> None:
        """Enters the waits of streams. ``listened``: rows of ``reports``. ``first``, ``last``: of
        these, the first one that told a seqno which a stream does not have, and the last one.
        """
        row = self._streams[numbers]
        # after a loss, a rollback may be missing that took seqnos back
        deaf_ns = self._deaf_ns[row.connection]
        heard = reports.place.time[last] > deaf_ns
        numbers = numbers[heard]
        row = row[heard]
        first = first[heard]
        last = last[heard]
        deaf_ns = deaf_ns[heard]
        since = np.maximum.reduce(
            [reports.place.time[first], deaf_ns, row.latest.time, self._busy_until(row)]
        )
        self._first[numbers], self.newest[numbers] = listened[first], reports.value[last]
        until = self._last_ns[row.connection]
        idle = np.maximum(0, until - since)
        for place in np.flatnonzero(
            np.isin(row.connection, np.array([*self._lossy], np.int64))
        ).tolist():
            link = self._lossy[int(row.connection[place])]
            connection = self._connections[link.number]
            heard_ns = connection.time[connection.producer]
            idle[place] = link.carried_ns(int(since[place]), int(until[place]), heard_ns)
        self._idle_ns[numbers] = idle
        self.are_long[numbers] = self._idle_ns[numbers] > np.maximum(
            np.where(row.snapshots_begun == 0, _FIRST_MARKER_NS, PATIENCE_NS),
            10 * self._connections.slowest[row.connection],
        )

    def _busy_until(self, row: Streams) -> IntArray:
        """Returns the time until which the server may have been busy with other streams before it
        read the disk for this stream; 0 if it was not.
        """
        table = self._snapshots if len(self._snapshots) else Snapshots.zeros(1)
        current = table[row.snapshot]
        is_on_disk = (row.snapshot >= 0) & (current.state == OPEN) & (types(current) == _DISK)
        return np.where(
            (row.snapshots_begun == 0) | is_on_disk,
            self._connections.producer_time[row.connection],
            0,
        )


def _before(is_one: BoolArray, begin: IntArray) -> IntArray:
    """Returns, for each place, the nearest earlier place where ``is_one`` holds, not before
    ``begin``; -1 for none.
    """
    position = np.maximum.accumulate(np.where(is_one, np.arange(len(is_one)), -1))
    position = np.concatenate(([-1], position[:-1]))[: len(is_one)]
    return np.where(position >= begin, position, -1)


def _server_reports(streams: Streams, branches: IntArray, highs: Reports) -> Reports:
    """Returns everything that servers said, sorted by connection."""
    highs.kind[:] = HIGH
    rolled = streams[(streams.answer == w.A_ROLLBACK) & (streams.rollback != UNREAD_SEQNO)]
    rollbacks = Reports.of_answers(rolled, ROLLBACK)
    rollbacks.value = rolled.rollback
    in_branch = branches != 0
    branched = Reports.of_answers(streams[in_branch], BRANCH)
    branched.value = branches[in_branch]
    reports = Reports.joined([highs, rollbacks, branched])
    return reports[np.argsort(reports.connection, kind="stable")]


def _listeners(
    sessions: Mapping[int, Session],
    links: Mapping[int, TcpConnection],
    clients: Mapping[int, str],
    sight: Visibility,
) -> list[tuple[list[int], list[int]]]:
    """Returns groups of connections, each with the connections whose answers it may use: same
    server, and same bucket or same client.
    """
    groups: dict[object, set[int]] = defaultdict(set)
    names: dict[int, tuple[object, object]] = {}
    for number, link in links.items():
        names[number] = (
            origin_of(link, sessions.get(number) or Session(), sight),
            (clients.get(number), link.server),
        )
        for name in names[number]:
            groups[name].add(number)
    alike: dict[tuple[object, object], list[int]] = defaultdict(list)
    for number, (bucket, client) in names.items():
        alike[bucket, bucket if groups[client] <= groups[bucket] else client].append(number)
    return [
        (members, sorted(groups[bucket] | groups[client]))
        for (bucket, client), members in alike.items()
    ]


def _deaf_since(
    clients: Mapping[int, str],
    connections: ConnectionRows,
    losses: ByteLosses,
    links: Mapping[int, TcpConnection],
) -> dict[str, int]:
    """Returns when each client was last told something that was not captured; clients that lack
    nothing are left out.
    """
    deaf_since: dict[str, int] = {}
    producer_losses = losses[losses.direction == connections.producer[losses.connection]]
    for number, time_ns in zip(
        producer_losses.connection.tolist(), producer_losses.after_time.tolist(), strict=True
    ):
        if number in clients:
            deaf_since[clients[number]] = max(time_ns, deaf_since.get(clients[number], 0))
    for number, client in clients.items():
        link = links[number]
        if link.lost_at_end[max(0, connections[number].producer)] is not None:
            until_ns = link.closed_ns if link.closed else GREATEST
            deaf_since[client] = max(until_ns, deaf_since.get(client, 0))
    return deaf_since
