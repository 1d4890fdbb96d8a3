"""Gaps between a client's streams: what a rollback took back, and a resumption left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import words as w
from dcpinspect.streams.grouping import Groups, NameNumbers
from dcpinspect.streams.hole_capacity import REQUEST
from dcpinspect.streams.record_codes import OF_RESUMPTION, OF_ROLLBACK
from dcpinspect.streams.records import GREATEST, LEAST, Gaps, Snapshots, Stream, Streams
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.transitions import DRAINING, ENDED
from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.visibility import Visibility

MOST = 1000
"""Greatest number of streams of a host that are looked at between two of one client."""


def rollback_gaps(streams: Streams) -> Gaps:
    """Returns the gaps of rollbacks: a request from S answered with a rollback to r below S makes a
    gap from r to S. None where the producer then accepts the same request on the same connection,
    as one that does without purged tombstones.
    """
    is_rolled = (streams.answer == w.A_ROLLBACK) & (streams.rollback < streams.request.start)
    rolled = streams[is_rolled & ~_accepted_next(streams)]
    gaps = _up_to_start(rolled, OF_ROLLBACK)
    gaps.after, gaps.begins, gaps.ends = rolled.rollback, rolled.opened, rolled.answered
    return gaps


def _accepted_next(streams: Streams) -> BoolArray:
    """Returns a mask of streams whose next request on their connection is accepted from the same
    seqno of the same branch.
    """
    groups = Groups([streams.connection, streams.vbucket, streams.sid])
    row, next_row = groups.rows[:-1], groups.rows[1:]
    request = streams.request
    mask = np.zeros(len(streams), dtype=np.bool_)
    mask[row] = (
        (groups.of[row] == groups.of[next_row])
        & (streams.answer[next_row] == w.A_ACCEPTED)
        & (request.is_captured[next_row] != 0)
        & (request.start[row] == request.start[next_row])
        & (request.uuid[row] == request.uuid[next_row])
        & (request.flags[next_row] & FROM_LATEST == 0)
    )
    return mask


def _up_to_start(streams: Streams, flags: int) -> Gaps:
    """Returns a gap for each stream that ends with the start that was asked for; the caller fills
    in the rest.
    """
    gaps, start = Gaps.reset(len(streams)), streams.request.start
    gaps.stream, gaps.before = streams.number, start + (start < GREATEST)
    gaps.flags[:] = flags
    return gaps


@dataclass(frozen=True, slots=True)
class Client:
    """The consumer that a connection belongs to."""

    name: str
    """Name of the consumer, over all its connections."""
    host: str
    is_named: bool
    """Whether the consumer is known. False: the start of the connection was not captured, so it may
    be any consumer's on that host.
    """
    dcp_name: str = ""
    """The part of its DCP name that its connections share for certain."""
    relatives: frozenset[str] = frozenset()
    """Names of consumers that may be this one: of the same program, and never beside it."""


def resumed_gaps(
    streams: Streams,
    snapshots: Snapshots,
    clients: Mapping[int, Client],
    links: Mapping[int, TcpConnection],
    unread: UnreadRequests,
    sight: Visibility,
) -> Gaps:
    """Returns the gaps before accepted streams that start above what the same client's stream
    before had received; both captured whole.
    """
    # a stream from the latest seqno moves a client without a message, if its answer was only lost
    may_leap = (streams.answer == w.A_UNKNOWN) & (
        (streams.request.flags & FROM_LATEST != 0) | (streams.request.is_captured == 0)
    )
    taken = ((streams.answer == w.A_ACCEPTED) | (streams.seen > 0) | may_leap) & ~unread.streams
    most = 1 + max([int(streams.connection.max(initial=0)), *clients])
    names = NameNumbers({number: client.name for number, client in clients.items()}, most)
    hosts = NameNumbers({number: client.host for number, client in clients.items()}, most)
    order = np.argsort(streams.opened.time, kind="stable")
    order = order[taken[order] & (names.of[streams.connection[order]] >= 0)]
    client_groups = Groups([names.of[streams.connection], streams.vbucket, streams.sid], order)
    before_of = client_groups.previous
    own_names = {number: (client.name, client.dcp_name) for number, client in clients.items()}
    own_name = NameNumbers(own_names, most).of[streams.connection]
    own_groups = Groups([own_name, streams.vbucket, streams.sid], order)
    of_host = Groups([hosts.of[streams.connection], streams.vbucket, streams.sid], order)
    went_on = client_groups.greatest_earlier(streams.latest.time, LEAST)
    later = order[before_of[order] >= 0]
    old_of = before_of[later]
    start, own_before = streams.request.start[later], own_groups.previous[later]
    may_skip = (streams.request.flags & FROM_LATEST == 0) & (streams.answer == w.A_ACCEPTED)
    may_skip = may_skip[later] & (streams.has_position[old_of] != 0) & (streams.in_oso[old_of] < 0)
    may_skip &= streams.position[old_of] < start
    # of several names that may be one consumer's, each knows what it received itself
    may_skip &= (own_before < 0) | (streams.position[own_before] < start)
    # it received more of the vbucket beside the one before, as from another node
    may_skip &= went_on[old_of] <= streams.opened.time[old_of]
    resumed = []
    incomplete = _incomplete(sight, clients, links)
    for number in later[may_skip].tolist():
        stream, before = streams[number], int(before_of[number])
        client, old = clients[stream.connection], streams[before]
        between = of_host.before(number, MOST)
        between = between[: between.index(before)] if before in between else between
        owners = [clients[connection] for connection in streams.connection[between].tolist()]
        if not all(client.is_named and owner.is_named for owner in owners):
            # a stream that an unknown client of the host had since may have been this client's
            continue
        time_ns = stream.opened.time
        if unread.asked_between(client.name, stream.vbucket, old.opened.time, time_ns):
            continue
        # what the client may have asked for where nobody captured it came from the producer, too
        if sight.may_move(old.connection, old, snapshots) or not _is_over(old, time_ns, links):
            continue
        unseen = (*incomplete[client.name], *incomplete[client.host])
        if not _may_have_moved(old, time_ns, unseen, sight):
            resumed.append(number)
    after = streams[resumed]
    gaps, received = _up_to_start(after, OF_RESUMPTION), streams[before_of[resumed]]
    gaps.after, gaps.begins, gaps.ends = received.position, received.at, after.opened
    return gaps


def _may_have_moved(
    old: Stream, time_ns: int, unseen: Sequence[TcpConnection], sight: Visibility
) -> bool:
    """Returns whether a client may have received more than a stream had brought it, by a time.
    ``unseen``: connections of the client, or of its host, of which something is missing.
    """
    connection, since_ns = old.connection, old.at.time
    if sight.between(connection, sight.consumer(connection), since_ns, time_ns, REQUEST) == "lost":
        return True  # a stream from the latest seqno moves a client without a message
    return any(
        link.number != connection
        and link.first_ns <= time_ns
        and link.last_ns >= since_ns
        and sight.may_stream(link.number, since_ns, time_ns)
        for link in unseen
    )


def _incomplete(
    sight: Visibility, clients: Mapping[int, Client], links: Mapping[int, TcpConnection]
) -> dict[str, list[TcpConnection]]:
    """Returns incomplete connections by name of the client; by host if the client is not known."""
    links_of_client: dict[str, list[TcpConnection]] = defaultdict(list)
    for number, client in clients.items():
        link = links[number]
        if number in sight.incomplete:
            links_of_client[client.name if client.is_named else client.host].append(link)
    return links_of_client


def _is_over(stream: Stream, time_ns: int, links: Mapping[int, TcpConnection]) -> bool:
    """Returns whether a stream or its connection had ended by a time. If a connection just
    vanished, nobody knows what came last.
    """
    if stream.state in (ENDED, DRAINING):
        return bool(stream.finished.time <= time_ns)
    link = links.get(stream.connection)
    return link is not None and link.closed in ("fin", "rst") and link.closed_ns <= time_ns
