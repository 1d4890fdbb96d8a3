"""One client over all its connections: what it asked for again, how long it took, and what of that the capture may lack."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dcpinspect.findings.context import Context
from dcpinspect.streams import words as w
from dcpinspect.streams.rows import GREATEST
from dcpinspect.streams.transitions import ENDED

PATIENCE_NS = 2_000_000_000
FIRST_BAD_END, LAST_BAD_END = 2, 6
"""Reasons of stream ends after which a client that goes on asks for the vbucket again."""


class _Asked(NamedTuple):
    """A stream that was asked for, or seen first, from then until then."""

    row: int
    time_ns: int
    connection: int
    until_ns: int
    """Of its end or its connection's; 0 where it was not granted."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A stream that leaves the client with nothing until it asks again."""

    stream: int
    time_ns: int
    """When the client was told."""
    row: int
    is_rollback: bool
    reaction_ns: int | None
    """How long the client took to ask again; None where it did not."""


class Clients:
    """What the clients of a reading did about rollbacks and ended streams."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._of_host: dict[str, list[int]] = defaultdict(list)
        self._of_name: dict[str, list[int]] = defaultdict(list)
        self._nameless: dict[str, list[int]] = defaultdict(list)
        for number, owner in context.owners.items():
            self._of_host[owner.host].append(number)
            self._of_name[owner.name].append(number)
            if not owner.is_named:
                self._nameless[owner.host].append(number)

    @cached_property
    def turns(self) -> dict[str, list[Turn]]:
        """By client, in order of time."""
        found: dict[str, list[Turn]] = defaultdict(list)
        streams = self._context.streams
        for (client, _, _), numbers in self._context.of_client.items():
            times = streams.opened.time[numbers]
            in_order = np.sort(times)  # requests may have been read before what the server had said earlier
            for place, number in enumerate(numbers):
                row = streams[number]
                is_rollback = row.answer == w.A_ROLLBACK and row.request.form > 0
                is_ended = row.state == ENDED and FIRST_BAD_END <= row.reason <= LAST_BAD_END and row.closed_row < 0
                if not is_rollback and not is_ended:
                    continue
                told = row.answered if is_rollback else row.finished
                time_ns = told.time
                later = int(np.searchsorted(in_order, time_ns, side="right"))
                reaction = int(in_order[later]) - time_ns if later < len(numbers) else None
                if time_ns in times[place + 1 : place + 2]:
                    reaction = 0
                found[client].append(Turn(number, time_ns, told.row, bool(is_rollback), reaction))
        for turns in found.values():
            turns.sort(key=lambda turn: (turn.time_ns, turn.row))
        return found

    @cached_property
    def _reactions(self) -> dict[str, tuple[list[int], list[int]]]:
        """By client: when it had asked again, in order, and the slowest reaction by then."""
        found = {}
        for client, turns in self.turns.items():
            done = sorted((turn.time_ns + turn.reaction_ns, turn.reaction_ns) for turn in turns if turn.reaction_ns is not None)
            slowest = np.maximum.accumulate([reaction for _, reaction in done]).tolist() if done else []
            found[client] = ([time_ns for time_ns, _ in done], slowest)
        return found

    def patience_ns(self, client: str, time_ns: int) -> int:
        """How long a client may take from then on: 2 s, or ten times the slowest it took before."""
        times, slowest = self._reactions.get(client, ([], []))
        before = bisect_left(times, time_ns)
        return max(PATIENCE_NS, 10 * slowest[before - 1]) if before else PATIENCE_NS

    def last_reaction_ns(self, client: str, time_ns: int) -> int:
        """When a client last asked again for something of which it was told by ``time_ns`` or up to its patience later; 0 for never."""
        turns = self.turns[client]
        until = bisect_right(turns, time_ns + PATIENCE_NS, key=lambda turn: turn.time_ns)
        return max((turn.time_ns + turn.reaction_ns for turn in turns[:until] if turn.reaction_ns is not None), default=0)

    def latest_ns(self, client: str) -> int:
        """Time of the latest message on any connection of a client."""
        rows = self._context.tracker.state.connections[self._of_name[client]]
        return int(rows.time.array.max())

    def may_be(self, connection: int) -> set[int]:
        """Connections that are the client's of a connection, or may be, as their beginning was not captured."""
        owner = self._context.owners[connection]
        return {*self._of_name[owner.name], *self._nameless[owner.host]} if owner.is_named else set(self._of_host[owner.host])

    @cached_property
    def _asked(self) -> dict[tuple[int, int], list[_Asked]]:
        """By vbucket and stream-id."""
        found: dict[tuple[int, int], list[_Asked]] = defaultdict(list)
        streams, by_number = self._context.streams, self._context.by_number
        is_denied = np.isin(streams.answer, (w.A_ROLLBACK, w.A_REFUSED))
        is_finished = streams.finished.row > 0
        until = np.where(is_denied, 0, np.where(is_finished, streams.finished.time, GREATEST))
        opened = streams.opened
        columns = (streams.vbucket, streams.sid, opened.row, opened.time, streams.connection, until)
        for vbucket, sid, row, time_ns, connection, until_ns in zip(*(column.tolist() for column in columns), strict=True):
            link = by_number.get(connection)
            last_ns = min(until_ns, link.closed_ns) if link is not None and link.closed else until_ns
            found[vbucket, sid].append(_Asked(row, time_ns, connection, last_ns))
        return found

    def may_have_asked(self, turn: Turn) -> bool:
        """Whether the client of a turn asked again, or may have where the capture does not show it."""
        if self._context.unread_requests.streams[turn.stream]:
            return True
        row = self._context.streams[turn.stream]
        connections = self.may_be(int(row.connection))
        for one in self._asked[int(row.vbucket), int(row.sid)]:
            if one.connection in connections:
                is_after = one.row > turn.row or one.time_ns > turn.time_ns
                # it had the vbucket from another node already
                is_elsewhere = one.connection != row.connection and not turn.is_rollback and one.until_ns > turn.time_ns
                if is_after or is_elsewhere:
                    return True
        return self.may_have_said(int(row.connection), turn.time_ns, vbucket=int(row.vbucket))

    def may_have_said(self, connection: int, since_ns: int, until_ns: int | None = None, *, vbucket: int) -> bool:
        """Whether the client of a connection may have said something of a vbucket, on any of its connections, that nobody can read."""
        context = self._context
        if context.unread_requests.asked_between(context.clients[connection], vbucket, since_ns, until_ns):
            return True
        return any(context.may_lack(one, 1 - context.producer(one), since_ns, until_ns) for one in self.may_be(connection))

    def may_have_heard(self, connection: int, since_ns: int, until_ns: int) -> bool:
        """The same of what it was told."""
        context = self._context
        return any(context.may_lack(one, context.producer(one), since_ns, until_ns) for one in self.may_be(connection))
