"""What the capture shows of a connection, and what it lacks: the one place that answers this.

A direction between two times is *complete*, or something of it was *lost*, or it is *unknown*: the capture began later. A wrong
accusation costs more than a missing one, so a rule speaks of an absence only where the direction is complete that could have said more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from dcpinspect.protocol.columns import Mask
from dcpinspect.streams.links import Link
from dcpinspect.streams.rows import GREATEST, Connections, Losses
from dcpinspect.streams.state import Known
from dcpinspect.structs import Ints

Sight = Literal["complete", "lost", "unknown"]

EVER = GREATEST
"""Later than any message."""


class _Lost(NamedTuple):
    """The losses of a direction, in order."""

    since_ns: Ints
    """When each began at the earliest."""
    until_ns: Ints
    """When it and all before it were over."""


class Visibility:
    """What is seen of the connections of a reading, as far as it has come."""

    def __init__(self, known: Known, links: Mapping[int, Link]) -> None:
        self._connections: Connections = known.connections
        self._losses: Losses = known.losses
        self._links = links

    def between(self, connection: int, direction: int, since_ns: int = 0, until_ns: int | None = None) -> Sight:
        """What the capture has of all that a side said between two times; or from the first one on, to the end of the connection."""
        link = self._links[connection]
        if not link.has_handshake and link.first_ns > since_ns:
            return "unknown"
        if link.lost_at_end[direction] is not None and (until_ns is None or self._connections[connection].time[direction] < until_ns):
            return "lost"
        lost = self._lost.get((connection, direction))
        if lost is None:
            return "complete"
        count = len(lost.since_ns) if until_ns is None else int(np.searchsorted(lost.since_ns, until_ns))
        return "lost" if count > 0 and lost.until_ns[count - 1] > since_ns else "complete"

    def is_complete(self, connection: int, direction: int | None = None) -> bool:
        """Whether nothing of a connection is missing, from its beginning to its end; of one direction, or of both."""
        ways = (0, 1) if direction is None else (direction,)
        return all(self.between(connection, way) == "complete" for way in ways)

    def is_complete_so_far(self, connection: int) -> bool:
        """Whether nothing is missing from the beginning to the latest message of each direction: what was negotiated is known."""
        losses = self._connections[connection].losses
        return self._links[connection].has_handshake and not losses[0] and not losses[1]

    def has_lost(self, connection: int, direction: int, losses: int = 0) -> bool:
        """Whether something of a direction was lost since the connection had so many losses; nothing is said of before the capture."""
        return self._connections[connection].losses[direction] != losses or self._links[connection].lost_at_end[direction] is not None

    def known_until_ns(self, connection: int, direction: int) -> int:
        """Until when everything is known that a side said: the message before its first loss; ``EVER`` without a loss."""
        lost = self._lost.get((connection, direction))
        if lost is not None:
            return int(lost.since_ns[0])
        if self._links[connection].lost_at_end[direction] is not None:
            return self._connections[connection].time[direction]
        return EVER

    def consumer(self, connection: int) -> int:
        """Direction of what the consumer says; that of clients where nothing tells."""
        return 1 - max(0, self._connections[connection].producer)

    def producer(self, connection: int) -> int:
        """Direction of what the producer says; that of clients where nothing tells."""
        return max(0, self._connections[connection].producer)

    @cached_property
    def incomplete_consumers(self) -> Mask:
        """Connections, by number, of whose consumer something was not captured."""
        found = np.zeros(len(self._connections), dtype=np.bool_)
        for number in self._links:
            found[number] = not self.is_complete(number, self.consumer(number))
        return found

    def may_have_asked(self, size: int) -> Mask:
        """Connections, by number, of whose consumer so many bytes were not captured in one place: it may have asked for something."""
        found = np.zeros(len(self._connections), dtype=np.bool_)
        for number, link in self._links.items():
            found[number] = link.lost_at_end[self.consumer(number)] is not None or not link.has_handshake
        losses = self._losses[self._losses.end - self._losses.start >= size]
        of_consumer = losses.direction != self._connections.producer[losses.connection]
        found[losses.connection[of_consumer]] = True
        return found

    @cached_property
    def _lost(self) -> Mapping[tuple[int, int], _Lost]:
        losses = self._losses
        if not len(losses):
            return {}
        owner = 2 * losses.connection + losses.direction
        order = np.argsort(owner, kind="stable")
        different, starts = np.unique(owner[order], return_index=True)
        return {
            (number >> 1, number & 1): _Lost(losses.before_time[mine], np.maximum.accumulate(losses.after_time[mine]))
            for number, mine in zip(different.tolist(), np.split(order, starts[1:]), strict=True)
        }
