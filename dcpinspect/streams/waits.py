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
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.links import Link
from dcpinspect.streams.logs import origin_of, place_at
from dcpinspect.streams.server_reports import At
from dcpinspect.streams.session import Session
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.verdicts import PATIENCE_NS

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
        tables: tuple[Table, Table, Table, Table],
        branches: Table,
        sessions: Mapping[int, Session],
        links: Mapping[int, Link],
        clients: Mapping[int, str],
    ) -> None:
        """``tables``: streams, snapshots, connections and losses; ``branches``: newest uuid of each stream's failover log, 0 for none;
        ``clients``: by connection."""
        self._streams, self._snapshots, self._connections, losses = tables
        self._links, self._clients = links, clients
        self._found: dict[int, Wait] = {}
        highs = {vbucket for session in sessions.values() for vbucket in session.heard}
        if not highs:
            return
        self._deaf = _deaf_since(clients, self._connections, losses, links)
        listeners = _listeners(sessions, links, clients, self._connections)
        said = _said(self._streams, branches, sessions, highs)
        for number in np.flatnonzero(self._may_wait()).tolist():
            connection, vbucket = (int(value) for value in self._streams[number, [s.S_CONNECTION, s.S_VBUCKET]])
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
        owner = streams[:, s.S_CONNECTION]
        producer = np.maximum(self._connections[owner, s.C_PRODUCER], 0)
        is_known = (streams[:, s.S_HAS_POSITION] != 0) & (streams[:, s.S_SUSPENDED] == 0) & (streams[:, s.S_IN_OSO] < 0)
        is_known &= self._connections[owner, s.C_LOSSES + producer] == streams[:, s.S_POSITION_LOSSES]
        return np.asarray(is_known & np.isin(streams[:, s.S_STATE], (w.ACCEPTED, w.STREAMING)), dtype=np.bool_)

    def _of(self, number: int, said: Collection[_Said]) -> Wait | None:
        row = self._streams[number]
        connection, position = int(row[s.S_CONNECTION]), int(row[s.S_POSITION])
        if row[s.S_FORM] > 0 and position >= int(row[s.S_END]):
            return None
        first: _Said | None = None
        told, branch, heard_ns = s.LEAST, 0, 0
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
        since = max(first.time_ns, deaf_ns, int(row[s.S_LATEST + s.AT_TIME]), self._busy_until(row))
        idle = self._links[connection].last_ns - since
        patience = max(PATIENCE_NS, 10 * int(self._connections[connection, s.C_SLOWEST]))
        return Wait(first.connection, first.at, told - s.LEAST, idle, idle > patience)

    def _busy_until(self, row: Table) -> int:
        """Until when the server may have been busy with other streams before it came to the disk for this one; 0 for no reason to wait."""
        snapshot = int(row[s.S_SNAPSHOT])
        current = self._snapshots[snapshot : snapshot + 1]
        is_on_disk = snapshot >= 0 and current[0, s.N_STATE] == w.OPEN and types(current)[0] == _DISK
        waits = not row[s.S_MARKERS] or is_on_disk
        return int(self._connections[int(row[s.S_CONNECTION]), s.C_PRODUCER_TIME]) if waits else 0


def _said(
    streams: Table, branches: Table, sessions: Mapping[int, Session], vbuckets: Collection[int]
) -> Mapping[tuple[int, int], list[_Said]]:
    """What was said on each connection of each of these vbuckets."""
    found: dict[tuple[int, int], list[_Said]] = defaultdict(list)
    for connection, session in sessions.items():
        for vbucket, heard in session.heard.items():
            latest = session.high_seqnos.get(vbucket)
            for high in (*heard.seqnos, *([latest] if latest is not None else [])):
                found[connection, vbucket].append(_Said(high.at.time_ns, _HIGH, high.seqno + s.LEAST, connection, high.at))
    for number, kind, value in _changes(streams, branches):
        connection, vbucket = (int(column) for column in streams[number, [s.S_CONNECTION, s.S_VBUCKET]])
        if vbucket in vbuckets:
            at = place_at(streams[number], s.S_ANSWERED)
            found[connection, vbucket].append(_Said(at.time_ns, kind, value, connection, at))
    return found


def _changes(streams: Table, branches: Table) -> Iterator[tuple[int, int, int]]:
    """(stream, kind, value) of answers to stream requests that say which history the vbucket has."""
    rolled = (streams[:, s.S_ANSWER] == w.A_ROLLBACK) & (streams[:, s.S_ROLLBACK] != s.UNREAD_SEQNO)
    for number in np.flatnonzero(rolled).tolist():
        yield number, _ROLLBACK, int(streams[number, s.S_ROLLBACK])
    for number in np.flatnonzero(branches != 0).tolist():
        yield number, _BRANCH, int(branches[number])


def _listeners(
    sessions: Mapping[int, Session], links: Mapping[int, Link], clients: Mapping[int, str], connections: Table
) -> Mapping[int, Collection[int]]:
    """By connection: those on which its server tells of the same vbuckets, of the same bucket or to the same client."""
    groups: dict[object, set[int]] = defaultdict(set)
    names = {
        number: (origin_of(link, sessions.get(number) or Session(), connections), (clients.get(number), link.server))
        for number, link in links.items()
    }
    for number, own in names.items():
        for name in own:
            groups[name].add(number)
    return {number: groups[bucket] | groups[client] for number, (bucket, client) in names.items()}


def _deaf_since(clients: Mapping[int, str], connections: Table, losses: Table, links: Mapping[int, Link]) -> dict[str, int]:
    """When something that each client was told last was not captured; nothing for those of whom all was."""
    found: dict[str, int] = {}
    told = losses[losses[:, s.L_DIRECTION] == connections[losses[:, s.L_CONNECTION], s.C_PRODUCER]]
    for number, time_ns in told[:, [s.L_CONNECTION, s.L_AFTER_TIME]].tolist():
        if number in clients:
            found[clients[number]] = max(time_ns, found.get(clients[number], 0))
    for number, client in clients.items():
        if links[number].lost_at_end[max(0, int(connections[number, s.C_PRODUCER]))] is not None:
            found[client] = s.GREATEST
    return found
