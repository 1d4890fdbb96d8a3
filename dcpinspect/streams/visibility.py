"""What the capture shows of a connection, and what it lacks: the one place that answers this.

A direction between two times is *complete*, or something of it was *lost*, or it is *unknown*
because the capture began later. A wrong accusation costs more than a missing one. So a rule only
speaks of an absence if the direction that could have said more is complete. A loss counts only if
it has room for what somebody asks for (``room``): callers say how many bytes that takes at least.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.streams.grouping import by_value
from dcpinspect.streams.hole_capacity import MESSAGE, REQUEST, may_move
from dcpinspect.streams.record_codes import BY_START, POSITION_UNSURE, UPR_LAYOUT
from dcpinspect.streams.records import (
    GREATEST,
    LEAST,
    ByteLosses,
    ConnectionRows,
    Snapshots,
    Stream,
)
from dcpinspect.streams.session import Session
from dcpinspect.streams.state import KnownTables
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.streams.verdicts import PATIENCE_NS

Sight = Literal["complete", "lost", "unknown"]

BEHIND = (0, 0)
"""Stands for what was lost behind the last packet, where nobody knows how much that is. Whoever sent
what the capture has did not know it.
"""
EVER = GREATEST
"""A time later than any message."""
_ANSWER_NS = 10_000_000
"""Nanoseconds within which the next packet of a connection comes while somebody speaks on it."""
_SEVERAL = 2
"""Directions with holes at one time that show that the capture lacks all packets of that time."""


def with_unseen_ends(
    links: Sequence[TcpConnection], sessions: Mapping[int, Session], losses: ByteLosses
) -> list[TcpConnection]:
    """Returns connections; of those that ended, though nothing in the capture shows it, what was
    said last is lost.

    Their client came to the server again under the name that it had, and nothing is heard of them
    since. Or they fell silent for good while packets of others were lost (``losses``), or the
    capture paused, or with bytes that nobody acknowledged or sent again, as where a filter took
    packets with bytes only: what was lost of them has nothing behind it that shows a hole. A
    connection of later times may have their addresses, though it stands before them in a file that
    is not in order: they are closed, as those that another one replaces in order.
    """
    came_again: dict[tuple[str, ...], int] = {}
    for link in links:
        for name in (_name_of(link, sessions), (link.client, link.server)):
            came_again[name] = max(came_again.get(name, 0), link.first_ns)
    came_again[()] = 0
    links = [
        replace(link, closed="replaced")
        if not link.closed and link.last_ns < came_again[link.client, link.server]
        else link
        for link in links
    ]
    last_ns = np.array([link.last_ns for link in links], dtype=np.int64)
    # a hole of the connection itself is over by its last packet
    lost_then = np.searchsorted(np.sort(losses.before_time), last_ns + _ANSWER_NS, "right")
    lost_then -= np.searchsorted(np.sort(losses.after_time), last_ns, "right")
    # TCP has its bytes acknowledged or sends them again, both sooner
    is_of_filter = [link.ends_unacked and not link.has_handshake for link in links]
    is_cut = (lost_then >= _SEVERAL) | np.array(is_of_filter, dtype=bool)
    is_cut &= last_ns < last_ns.max(initial=0) - PATIENCE_NS
    is_cut[_before_pauses(links, sessions)] = True
    return [
        _ended_unseen(link)
        if not link.closed and (falls_silent or link.last_ns < came_again[_name_of(link, sessions)])
        else link
        for link, falls_silent in zip(links, is_cut.tolist(), strict=True)
    ]


def in_doubt(links: Sequence[TcpConnection]) -> list[TcpConnection]:
    """Returns connections as rules have them: where another one replaced them, their FIN or RST may
    be lost, and with it what was said last.
    """
    return [_ended_unseen(link) if link.closed == "replaced" else link for link in links]


def _ended_unseen(link: TcpConnection) -> TcpConnection:
    client_lost, server_lost = link.lost_at_end
    return replace(link, lost_at_end=(client_lost or BEHIND, server_lost or BEHIND))


def _before_pauses(links: Sequence[TcpConnection], sessions: Mapping[int, Session]) -> list[int]:
    """Returns the indices of connections that fell silent for good before the capture paused: for
    two intervals of noops nobody said anything, and two servers do not hang at one time. Behind the
    end of a file it is no pause.
    """
    begun_until: dict[int, int] = {}
    for link in links:
        begun_until[link.first_file] = max(begun_until.get(link.first_file, 0), link.first_ns)
    begins, ends = np.array([(link.first_ns, link.last_ns) for link in links]).reshape(-1, 2).T
    order = np.argsort(begins)
    begins, reached = begins[order][1:], np.maximum.accumulate(ends[order])[:-1]
    since, until = reached[begins > reached], begins[begins > reached]
    servers: dict[int, set[str]] = defaultdict(set)
    silent: dict[int, list[int]] = defaultdict(list)
    for index, link in enumerate(links):
        interval = sessions[link.number].noop_interval if link.number in sessions else None
        if link.closed or not interval:
            continue
        due_ns = link.last_ns + 1e9 * interval
        pause = int(np.searchsorted(until, due_ns + 1e9 * interval))
        has_paused = pause < len(since) and since[pause] < due_ns
        if has_paused and begun_until.get(link.last_file, 0) >= until[pause]:
            servers[pause].add(link.server)
            silent[pause].append(index)
    return [
        index for pause, indices in silent.items() if len(servers[pause]) > 1 for index in indices
    ]


def _name_of(link: TcpConnection, sessions: Mapping[int, Session]) -> tuple[str, ...]:
    """Returns the client's host, the server, and the name of a connection; empty without a name."""
    session = sessions.get(link.number)
    if session is None or not session.name:
        return ()
    return host_of(link.origin), link.server, session.name


class _Lost(NamedTuple):
    """The losses of a direction, in order."""

    since_ns: IntArray
    """The earliest time at which each loss may have begun."""
    over_ns: IntArray
    """The time when each loss, and all losses before it, were over."""
    sizes: IntArray
    """Bytes of each loss."""


class Visibility:
    """What the capture shows of the connections of a reading, as far as it was read."""

    def __init__(self, tables: KnownTables, links: Mapping[int, TcpConnection]) -> None:
        self._connections: ConnectionRows = tables.connections
        self._losses: ByteLosses = tables.losses
        self._links = links

    def between(
        self,
        connection: int,
        direction: int,
        since_ns: int = LEAST,
        until_ns: int | None = None,
        least: int = MESSAGE,
    ) -> Sight:
        """Returns how complete the capture is for what a side said between two times; without them,
        from the beginning of the connection or up to its end. ``least``: bytes of the shortest
        message that counts.
        """
        link = self._links[connection]
        if not link.has_handshake and link.first_ns > since_ns:
            return "unknown"
        if link.lost_at_end[direction] is not None and (
            until_ns is None or self._connections[connection].time[direction] < until_ns
        ):
            return "lost"
        if until_ns is not None and self.ends_before(connection, until_ns):
            return "lost"
        if (self._sizes(connection, direction, since_ns, until_ns) >= least).any():
            return "lost"
        return "complete"

    def _sizes(
        self, connection: int, direction: int, since_ns: int, until_ns: int | None
    ) -> IntArray:
        lost = self._lost.get((connection, direction))
        if lost is None:
            return _NOTHING
        first = int(np.searchsorted(lost.over_ns, since_ns, "right"))
        last = (
            len(lost.sizes) if until_ns is None else int(np.searchsorted(lost.since_ns, until_ns))
        )
        return lost.sizes[first:last]

    def may_move(self, connection: int, stream: Stream, snapshots: Snapshots) -> bool:
        """Returns whether what was lost of a producer, since the stream's position was given, may
        have brought the stream to a higher seqno.
        """
        if self._links[connection].lost_at_end[self.producer(connection)] is not None:
            return True
        if stream.lost_since_marker and self._connections[connection].oso != 0:
            return True  # an OSO snapshot may have begun in what was not captured
        losses = self._connections[connection].losses[self.producer(connection)]
        count = losses - stream.position_losses
        lost = self._lost.get((connection, self.producer(connection)))
        if stream.doubt & POSITION_UNSURE or count > (len(lost.sizes) if lost is not None else 0):
            return True  # some have left the table
        number = -1 if stream.position_by == BY_START else stream.position_in
        # a later marker may have come, and all of its snapshot be lost; none without a range is
        # known to be complete
        is_complete = (
            bool(snapshots.end[number] <= stream.position)
            and snapshots[number].index == stream.snapshots_begun
            and bool(snapshots.layout[number] != UPR_LAYOUT)
            if number >= 0
            else not stream.snapshots_begun and not stream.seen
        )
        return lost is not None and may_move(
            lost.sizes[len(lost.sizes) - count :].tolist(),
            is_complete=is_complete,
            has_ranges=stream.request.has_range != 0,
        )

    def may_stream(self, connection: int, since_ns: int, until_ns: int) -> bool:
        """Returns whether a producer may have brought any stream to a higher seqno in what was lost
        between two times.
        """
        producer = self.producer(connection)
        if self._links[connection].lost_at_end[producer] is not None:
            return True
        if self.ends_before(connection, until_ns):
            return True
        sizes = self._sizes(connection, producer, since_ns, until_ns).tolist()
        is_unknown = self.between(connection, producer, since_ns, until_ns) == "unknown"
        return is_unknown or may_move(sizes, is_complete=True, has_ranges=False)

    def is_complete(self, connection: int, direction: int | None = None) -> bool:
        """Returns whether the capture lacks nothing of a connection, of one direction or of both,
        from its beginning to its end.
        """
        ways = (0, 1) if direction is None else (direction,)
        return all(self.between(connection, one_direction) == "complete" for one_direction in ways)

    def carried_nothing(self, connection: int) -> bool:
        """Returns whether no byte of a connection was captured, and none was lost."""
        link, row = self._links[connection], self._connections[connection]
        has_bytes = any((*link.skipped, *link.missing, *link.unfinished))
        is_silent = link.tls is None and link.lost_at_end == (None, None) and not has_bytes
        return is_silent and not any(row.last_row[direction] > 0 for direction in (0, 1))

    @cached_property
    def incomplete(self) -> frozenset[int]:
        """Connections of which the capture lacks something, or that may have gone on behind it."""
        latest_ns = max((link.last_ns for link in self._links.values()), default=0)
        return frozenset(
            number
            for number in self._links
            if not self.is_complete(number) or self.ends_before(number, latest_ns)
        )

    def is_complete_so_far(self, connection: int) -> bool:
        """Returns whether nothing is missing up to the latest message of each direction: then it is
        known what was negotiated.
        """
        link, row = self._links[connection], self._connections[connection]
        return link.has_handshake and not any(
            row.losses[direction] or (lost is not None and row.last_row[direction] <= 0)
            for direction, lost in enumerate(link.lost_at_end)
        )

    def has_lost(self, connection: int, direction: int, losses: int = 0) -> bool:
        """Returns whether bytes of a direction were lost since it had so many losses; what came
        before the capture does not count.
        """
        return (
            self._connections[connection].losses[direction] != losses
            or self._links[connection].lost_at_end[direction] is not None
        )

    def known_until_ns(self, connection: int, direction: int) -> int:
        """Returns the time up to which everything is known that a side said: the last message
        before its first loss; ``EVER`` without a loss.
        """
        lost = self._lost.get((connection, direction))
        if lost is not None:
            return int(lost.since_ns[0])
        if self._links[connection].lost_at_end[direction] is not None:
            return self._connections[connection].time[direction]
        return EVER

    def silent_until_ns(self, connection: int, until_ns: int) -> int:
        """Returns the time, up to ``until_ns``, to which a silence of the producer's streams says
        something: after its latest message, bytes of one that is not complete may have come.
        """
        producer = self.producer(connection)
        is_cut = self._links[connection].unfinished[producer] > 0
        return self._connections[connection].time[producer] if is_cut else until_ns

    def consumer(self, connection: int) -> int:
        """Returns the direction of the consumer's messages; the client's if nothing tells."""
        return 1 - max(0, self._connections[connection].producer)

    def producer(self, connection: int) -> int:
        """Returns the direction of the producer's messages; the client's if nothing tells."""
        return max(0, self._connections[connection].producer)

    @cached_property
    def incomplete_consumers(self) -> BoolArray:
        """Connections, by number, on which some of the consumer's messages were not captured."""
        mask = np.zeros(len(self._connections), dtype=np.bool_)
        for number in self._links:
            mask[number] = not self.is_complete(number, self.consumer(number))
        return mask

    @cached_property
    def may_have_asked(self) -> BoolArray:
        """A mask of connections, by number, whose lost bytes may have asked for a stream."""
        mask = np.zeros(len(self._connections), dtype=np.bool_)
        for number, link in self._links.items():
            mask[number] = (
                link.lost_at_end[self.consumer(number)] is not None or not link.has_handshake
            )
        losses = self._losses[self._losses.end - self._losses.start >= REQUEST]
        of_consumer = losses.direction != self._connections.producer[losses.connection]
        mask[losses.connection[of_consumer]] = True
        return mask

    def captured_until_ns(self, connection: int) -> int:
        """Returns when the capture of a connection ended."""
        link = self._links[connection]
        return max(self._until[link.first_file], self._until[link.last_file])

    def ends_before(self, connection: int, time_ns: int) -> bool:
        """Returns whether a connection may have gone on up to a time, after its capture had ended,
        and others not.
        """
        return (
            len(self._until) > 1
            and not self._links[connection].closed
            and self.captured_until_ns(connection) < time_ns
        )

    @cached_property
    def _until(self) -> Mapping[int, int]:
        """By file: time of the last packet of the connections that begin or end in it, and of those
        that go on meanwhile at its capture point.
        """
        until_of: dict[int, int] = {}
        spans: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for link in self._links.values():
            first_point, last_point = link.points
            is_one = first_point == last_point  # else the capture of the first may have ended
            first_until, last_since = (
                (link.last_ns, link.first_ns) if is_one else (link.first_ns, link.last_ns)
            )
            spans[first_point].append((link.first_ns, first_until, link.first_file))
            spans[last_point].append((last_since, link.last_ns, link.last_file))
        for of_point in spans.values():
            together: set[int] = set()
            until = 0
            for first_ns, last_ns, file in sorted(of_point):
                if first_ns > until:  # nothing was captured in between
                    until_of |= dict.fromkeys(together, until)
                    together.clear()
                together.add(file)
                until = max(until, last_ns)
            until_of |= dict.fromkeys(together, until)
        return until_of

    @cached_property
    def _lost(self) -> Mapping[tuple[int, int], _Lost]:
        losses = self._losses
        losses_of = {}
        for number, loss_rows in by_value(2 * losses.connection + losses.direction):
            over_ns = np.maximum.accumulate(losses.after_time[loss_rows])
            sizes = losses.end[loss_rows] - losses.start[loss_rows]
            losses_of[number >> 1, number & 1] = _Lost(
                losses.before_time[loss_rows], over_ns, sizes
            )
        return losses_of


_NOTHING = np.zeros(0, dtype=np.int64)
