"""How long streams have waited for a seqno that their server is known to have.

The verdict ``behind`` and the rule ``server-owes-seqno`` tell of the same wait, so it is measured here for both. It begins with the first
answer that told of a seqno above the last one of the stream, and goes on until the stream has it: later answers do not begin it anew,
messages of the stream do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask
from dcpinspect.streams import words as w
from dcpinspect.streams.links import Link
from dcpinspect.streams.logs import origin_of
from dcpinspect.streams.rows import GREATEST, LEAST, UNREAD_SEQNO, Connections, Losses, Stream, Streams
from dcpinspect.streams.server_reports import At
from dcpinspect.streams.session import Session
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.state import Known
from dcpinspect.streams.transitions import ACCEPTED, OPEN, STREAMING
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.streams.visibility import Visibility

Table = npt.NDArray[np.int64]

_DISK = 1
_HIGH, _ROLLBACK, _BRANCH = range(3)


class _Said(NamedTuple):
    """What a server said of a vbucket; in order of time."""

    time_ns: int
    kind: int
    value: int
    """A biased seqno, or the newest uuid."""
    connection: int
    at: At


@dataclass(frozen=True, slots=True)
class Wait:
    """What a stream waits for."""

    connection: int
    """On which the first answer came that told of it."""
    at: At
    """That answer."""
    newest: int
    """The newest seqno that the server told."""
    idle_ns: int
    """How long nothing of the stream has come since."""
    is_long: bool
    """Longer than the patience."""


class Waits:
    """The open streams that lack a seqno they asked for, where all was captured that may have brought it."""

    def __init__(
        self,
        known: Known,
        branches: Table,
        sessions: Mapping[int, Session],
        links: Mapping[int, Link],
        clients: Mapping[int, str],
        sight: Visibility,
    ) -> None:
        """``branches``: newest uuid of each stream's failover log, 0 for none; ``clients``: by connection."""
        self._connections, self._streams, self._snapshots, _, losses = known
        self._links, self._clients = links, clients
        self._found: dict[int, Wait] = {}
        highs = {vbucket for session in sessions.values() for vbucket in session.reports}
        if not highs:
            return
        self._deaf = _deaf_since(clients, self._connections, losses, links)
        listeners = _listeners(sessions, links, clients, sight)
        said = _said(self._streams, branches, sessions, highs)
        for number in np.flatnonzero(self._may_wait()).tolist():
            connection, vbucket = self._streams[number].connection, self._streams[number].vbucket
            if connection in links and vbucket in highs:
                wait = self._of(number, sorted(one for other in listeners[connection] for one in said.get((other, vbucket), ())))
                if wait is not None:
                    self._found[number] = wait

    def get(self, stream: int) -> Wait | None:
        """What a stream waits for, if it does."""
        return self._found.get(stream)

    @property
    def are_long(self) -> Mask:
        """Which streams have waited for longer than the patience."""
        found = np.zeros(len(self._streams), dtype=np.bool_)
        found[[number for number, wait in self._found.items() if wait.is_long]] = True
        return found

    def _may_wait(self) -> Mask:
        """From latest before the first marker there is no position: what the server had by then is not asked for."""
        streams = self._streams
        owner = streams.connection
        producer = np.maximum(self._connections.producer[owner], 0)
        is_known = (streams.has_position != 0) & (streams.suspended == 0) & (streams.in_oso < 0)
        is_known &= self._connections[owner].losses.of(producer) == streams.position_losses
        return np.asarray(is_known & np.isin(streams.state, (ACCEPTED, STREAMING)), dtype=np.bool_)

    def _of(self, number: int, said: Collection[_Said]) -> Wait | None:
        row = self._streams[number]
        connection, position = int(row.connection), int(row.position)
        if row.request.form > 0 and position >= int(row.request.end):
            return None
        first: _Said | None = None
        told, branch, heard_ns = LEAST, 0, 0
        for one in said:
            if one.kind == _HIGH:
                told, heard_ns = one.value, one.time_ns
                first = None if told <= position else first or one
            elif one.kind == _ROLLBACK:
                first = None if one.value < told else first
            else:
                first = None if branch not in (0, one.value) else first  # another history need not be as long
                branch = one.value
        deaf_ns = self._deaf.get(self._clients.get(connection, ""), 0)  # a rollback takes some back
        if first is None or heard_ns <= deaf_ns:
            return None
        since = max(first.time_ns, deaf_ns, int(row.latest.time), self._busy_until(row))
        idle = self._links[connection].last_ns - since
        patience = max(PATIENCE_NS, 10 * int(self._connections.slowest[connection]))
        return Wait(first.connection, first.at, told - LEAST, idle, idle > patience)

    def _busy_until(self, row: Stream) -> int:
        """Until when the server may have been busy with other streams before it came to the disk for this one; 0 for no reason to wait."""
        snapshot = int(row.snapshot)
        current = self._snapshots[snapshot : snapshot + 1]
        is_on_disk = snapshot >= 0 and current.state[0] == OPEN and types(current)[0] == _DISK
        waits = not row.markers or is_on_disk
        return int(self._connections.producer_time[int(row.connection)]) if waits else 0


def _said(
    streams: Streams, branches: Table, sessions: Mapping[int, Session], vbuckets: Collection[int]
) -> Mapping[tuple[int, int], list[_Said]]:
    """What was said on each connection of each of these vbuckets."""
    found: dict[tuple[int, int], list[_Said]] = defaultdict(list)
    for connection, session in sessions.items():
        for vbucket, report in session.reports.items():
            latest = session.high_seqnos.get(vbucket)
            for high in (*report.seqnos, *([latest] if latest is not None else [])):
                found[connection, vbucket].append(_Said(high.at.time_ns, _HIGH, high.seqno + LEAST, connection, high.at))
    for number, kind, value in _changes(streams, branches):
        connection, vbucket = streams[number].connection, streams[number].vbucket
        if vbucket in vbuckets:
            at = At.of(streams[number].answered)
            found[connection, vbucket].append(_Said(at.time_ns, kind, value, connection, at))
    return found


def _changes(streams: Streams, branches: Table) -> Iterator[tuple[int, int, int]]:
    """(stream, kind, value) of answers to stream requests that say which history the vbucket has."""
    rolled = (streams.answer == w.A_ROLLBACK) & (streams.rollback != UNREAD_SEQNO)
    for number in np.flatnonzero(rolled).tolist():
        yield number, _ROLLBACK, int(streams.rollback[number])
    for number in np.flatnonzero(branches != 0).tolist():
        yield number, _BRANCH, int(branches[number])


def _listeners(
    sessions: Mapping[int, Session], links: Mapping[int, Link], clients: Mapping[int, str], sight: Visibility
) -> Mapping[int, Collection[int]]:
    """By connection: those on which its server tells of the same vbuckets, of the same bucket or to the same client."""
    groups: dict[object, set[int]] = defaultdict(set)
    names = {
        number: (origin_of(link, sessions.get(number) or Session(), sight), (clients.get(number), link.server))
        for number, link in links.items()
    }
    for number, own in names.items():
        for name in own:
            groups[name].add(number)
    return {number: groups[bucket] | groups[client] for number, (bucket, client) in names.items()}


def _deaf_since(clients: Mapping[int, str], connections: Connections, losses: Losses, links: Mapping[int, Link]) -> dict[str, int]:
    """When something that each client was told last was not captured; nothing for those of whom all was."""
    found: dict[str, int] = {}
    told = losses[losses.direction == connections.producer[losses.connection]]
    for number, time_ns in zip(told.connection.tolist(), told.after_time.tolist(), strict=True):
        if number in clients:
            found[clients[number]] = max(time_ns, found.get(clients[number], 0))
    for number, client in clients.items():
        if links[number].lost_at_end[max(0, int(connections.producer[number]))] is not None:
            found[client] = GREATEST
    return found
