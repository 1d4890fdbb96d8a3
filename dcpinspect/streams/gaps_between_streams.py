"""Gaps between the streams of one client: what a rollback took back, and what a resumed stream left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.gaps import Extra
from dcpinspect.streams.links import Link
from dcpinspect.streams.unread_requests import UnreadRequests

Table = npt.NDArray[np.int64]


def rollback_gaps(streams: Table) -> list[Extra]:
    """A request from S that was answered with a rollback to r below S: r to S."""
    found = []
    rolled = np.flatnonzero((streams[:, s.S_ANSWER] == w.A_ROLLBACK) & (streams[:, s.S_ROLLBACK] < streams[:, s.S_START]))
    for number in rolled.tolist():
        start = int(streams[number, s.S_START])
        before = min(start + 1, s.GREATEST)
        rows = (int(streams[number, s.S_OPENED + s.AT_ROW]), int(streams[number, s.S_ANSWERED + s.AT_ROW]))
        found.append(
            Extra(number, int(streams[number, s.S_ROLLBACK]), before, w.ROLLBACK, rows, int(streams[number, s.S_OPENED + s.AT_FRAME]))
        )
    return found


@dataclass(frozen=True, slots=True)
class Client:
    """Who a connection belongs to."""

    name: str
    """Of one consumer, over all its connections."""
    host: str
    is_named: bool
    """False: the connection's start was not captured, so it may be any consumer's of that host."""


def resumed_gaps(
    streams: Table, connections: Table, clients: Mapping[int, Client], links: Mapping[int, Link], vague: UnreadRequests
) -> list[Extra]:
    """An accepted stream that starts above what the same client's stream before it had received, both captured whole."""
    found = []
    last: dict[tuple[str, int, int], int] = {}
    earlier: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    last_of_host: dict[tuple[str, int, int], int] = {}
    blind = _blind(connections, clients, links)
    taken = ((streams[:, s.S_ANSWER] == w.A_ACCEPTED) | (streams[:, s.S_SEEN] > 0)) & ~vague.streams
    order = np.argsort(streams[:, s.S_OPENED + s.AT_TIME], kind="stable")
    for number in order[taken[order]].tolist():
        stream = streams[number]
        client = clients.get(int(stream[s.S_CONNECTION]))
        if client is None:
            continue
        key = (client.name, int(stream[s.S_VBUCKET]), int(stream[s.S_SID]))
        before = last.get(key)
        last[key] = number
        if before is not None:
            earlier[key].append(before)
        of_host = client.host, *key[1:]
        if not client.is_named and last_of_host.get(of_host) != before:
            before = None  # the stream that any other client of the host had since may have been this one's
        last_of_host[of_host] = number
        if before is None or stream[s.S_ANSWER] != w.A_ACCEPTED or stream[s.S_FLAGS] & FROM_LATEST:
            continue
        old = streams[before]
        if not old[s.S_HAS_POSITION] or old[s.S_POSITION] >= stream[s.S_START] or old[s.S_IN_OSO] >= 0:
            continue
        time_ns = int(stream[s.S_OPENED + s.AT_TIME])
        if vague.asked_between(client.name, key[1], int(old[s.S_OPENED + s.AT_TIME]), time_ns):
            continue
        if _received_meanwhile(streams, earlier[key][:-1], old):
            continue
        if not _is_whole(old, connections, links) or not _is_over(old, time_ns, links):
            continue
        if _may_have_asked_again(old, connections, links):
            continue
        if old[s.S_SUSPENDED] and connections[int(old[s.S_CONNECTION]), s.C_OSO] != 0:
            continue  # what was not captured of it may have begun an out-of-order snapshot
        # between the two the client may have received more on a connection of which something is missing
        spans = [link for link in (*blind[client.name], *blind[client.host]) if link.number != old[s.S_CONNECTION]]
        if any(link.first_ns <= time_ns and link.last_ns >= old[s.S_AT + s.AT_TIME] for link in spans):
            continue
        rows = (int(old[s.S_AT + s.AT_ROW]), int(stream[s.S_OPENED + s.AT_ROW]))
        end = min(int(stream[s.S_START]) + 1, s.GREATEST)
        found.append(Extra(number, int(old[s.S_POSITION]), end, w.RESUMED, rows, int(old[s.S_AT + s.AT_FRAME])))
    return found


def _blind(connections: Table, clients: Mapping[int, Client], links: Mapping[int, Link]) -> dict[str, list[Link]]:
    """Connections of which something is missing: of a client, and by host those of any client."""
    found: dict[str, list[Link]] = defaultdict(list)
    for number, client in clients.items():
        link = links[number]
        lost = connections[number, s.C_LOSSES : s.C_LOSSES + 2].any() or link.lost_at_end != (None, None)
        if lost or not link.has_handshake:
            found[client.name if client.is_named else client.host].append(link)
    return found


def _received_meanwhile(streams: Table, others: list[int], old: Table) -> bool:
    """Whether one of the streams that began before ``old`` went on beside it, as they may to another node."""
    return bool((streams[others, s.S_LATEST + s.AT_TIME] > old[s.S_OPENED + s.AT_TIME]).any()) if others else False


def _is_whole(stream: Table, connections: Table, links: Mapping[int, Link]) -> bool:
    """Whether nothing is missing of the producer's direction since the message that gave the position of a stream."""
    number = int(stream[s.S_CONNECTION])
    producer = int(connections[number, s.C_PRODUCER])
    return bool(stream[s.S_POSITION_LOSSES] == connections[number, s.C_LOSSES + producer] and links[number].lost_at_end[producer] is None)


def _may_have_asked_again(stream: Table, connections: Table, links: Mapping[int, Link]) -> bool:
    """Whether something that the consumer said on a stream's connection was not captured: it may have had more of the vbucket on it."""
    number = int(stream[s.S_CONNECTION])
    consumer = 1 - int(connections[number, s.C_PRODUCER])
    return bool(connections[number, s.C_LOSSES + consumer] > 0 or links[number].lost_at_end[consumer] is not None)


def _is_over(stream: Table, time_ns: int, links: Mapping[int, Link]) -> bool:
    """Whether a stream had ended, or its connection had, by a time; of one that just vanished, nobody knows what came last."""
    if stream[s.S_STATE] in (w.ENDED, w.DRAINING):
        return bool(stream[s.S_FINISHED + s.AT_TIME] <= time_ns)
    link = links.get(int(stream[s.S_CONNECTION]))
    return link is not None and link.closed in ("fin", "rst") and link.closed_ns <= time_ns
