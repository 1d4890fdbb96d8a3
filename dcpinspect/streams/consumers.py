"""Each consumer over all its connections: its streams in order, and what it had received before it
asked for the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from dcpinspect.streams.gaps_between_streams import Client
from dcpinspect.streams.grouping import Groups, NameNumbers
from dcpinspect.streams.state import KnownTables
from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.visibility import Visibility

MOST_EARLIER = 64
"""Number of earlier streams of a vbucket that are asked what the client received on them."""


class Consumers:
    """The consumers of a reading."""

    def __init__(
        self,
        tables: KnownTables,
        owners: Mapping[int, Client],
        unread: UnreadRequests,
        sight: Visibility,
    ) -> None:
        """``owners``: the consumer that each connection belongs to, by number of the connection."""
        self._tables, self.owners, self._unread, self._sight = tables, owners, unread, sight
        self.of_host: dict[str, list[int]] = defaultdict(list)
        self.of_name: dict[str, list[int]] = defaultdict(list)
        self._nameless: dict[str, list[int]] = defaultdict(list)
        self._may_be: dict[tuple[str | None, str], frozenset[int]] = {}
        for number, owner in owners.items():
            self.of_host[owner.host].append(number)
            self.of_name[owner.name].append(number)
            if not owner.is_named:
                self._nameless[owner.host].append(number)

    @cached_property
    def names(self) -> NameNumbers:
        """The consumers of the connections, as numbers."""
        names = {number: owner.name for number, owner in self.owners.items()}
        return NameNumbers(names, len(self._tables.connections))

    @cached_property
    def streams(self) -> Groups:
        """Streams by client, vbucket and stream-id, in the order in which they were opened; a hole
        may have held requests back.

        A stream whose stream-id nobody knows is alone. A proxy opens two connections of one name,
        from the producer and to the consumer, and passes on what each says: what it says on one of
        them was not asked again.
        """
        streams = self._tables.streams
        client = self.names.of[streams.connection]
        in_order = np.argsort(streams.opened.time, kind="stable")
        sid = np.where(self._unread.streams, -2 - np.arange(len(streams)), streams.sid)
        producer = self._tables.connections.producer[streams.connection]
        return Groups([client, producer, streams.vbucket, sid], in_order[client[in_order] >= 0])

    def may_be(self, connection: int) -> frozenset[int]:
        """Returns the connections of the client of a connection, and those that may be its own
        because their beginning was not captured.
        """
        owner = self.owners[connection]
        key = owner.name if owner.is_named else None, owner.host
        if key not in self._may_be:
            named = (*self.of_name[owner.name], *self._nameless[owner.host])
            self._may_be[key] = frozenset(named if owner.is_named else self.of_host[owner.host])
        return self._may_be[key]

    @cached_property
    def incomplete(self) -> frozenset[int]:
        """Connections of which the capture lacks something."""
        return frozenset(number for number in self.owners if not self._sight.is_complete(number))

    def received_before(self, stream: int) -> int | None:
        """Returns the seqno, biased, up to which the client of a stream had come in the vbucket
        when it asked for the stream, on earlier ones; None where there is none, or where nobody can
        tell.
        """
        streams, sight = self._tables.streams, self._sight
        before = self.streams.before(stream, MOST_EARLIER)
        earlier = np.asarray(before, dtype=np.int64)[streams.has_position[before] != 0]
        if not 0 < len(earlier) < MOST_EARLIER:
            return None
        for number in earlier[np.isin(streams.connection[earlier], list(self.incomplete))].tolist():
            stream_record = streams[number]
            if sight.may_move(
                int(stream_record.connection),
                stream_record,
                self._tables.snapshots,
                int(stream_record.position_losses),
            ):
                return None
        since_ns, until_ns = int(streams.at.time[earlier].max()), int(streams.opened.time[stream])
        other_connections = self.may_be(int(streams.connection[stream])) - {
            *streams.connection[earlier].tolist()
        }
        if any(
            sight.may_stream(incomplete, since_ns, until_ns)
            for incomplete in self.incomplete & other_connections
        ):
            return None
        return int(streams.position[earlier].max())
