"""Stream requests of which the capture lacks so much that nobody knows which stream of their
vbucket they ask for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from dcpinspect.arrays import BoolArray, unique
from dcpinspect.streams.records import CUT_VALUE, Streams
from dcpinspect.streams.session import Session
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.visibility import Visibility

_STREAM_IDS = "enable_stream_id"


class UnreadRequests:
    """The unread stream requests of a reading."""

    def __init__(
        self,
        streams: Streams,
        sight: Visibility,
        links: Mapping[int, TcpConnection],
        sessions: Mapping[int, Session],
        clients: Mapping[int, str],
    ) -> None:
        """``clients``: name of the consumer of each connection."""
        self.streams: BoolArray = (
            (streams.request.filter == CUT_VALUE)
            & (streams.snapshots_begun == 0)
            & (streams.seen == 0)
        )
        """Streams whose stream-id may be in the missing part of their request, and on which no
        message came that shows it.
        """
        for number in unique(streams.connection[self.streams]).tolist():
            if number in links and _has_no_ids(sight, number, sessions.get(number) or Session()):
                self.streams &= streams.connection != number
        times_of: dict[tuple[str, int], list[int]] = defaultdict(list)
        unread = streams[self.streams]
        columns = (unread.connection, unread.vbucket, unread.opened.time)
        for connection, vbucket, time_ns in zip(*(c.tolist() for c in columns), strict=True):
            if connection in clients:
                times_of[clients[connection], vbucket].append(time_ns)
        for connection, session in sessions.items():
            for vbucket, time_ns in session.unread_requests if connection in clients else ():
                times_of[clients[connection], vbucket].append(time_ns)
        self._times = {key: np.sort(times) for key, times in times_of.items()}

    def asked_between(
        self, client: str, vbucket: int, since_ns: int, until_ns: int | None = None
    ) -> bool:
        """Returns whether a client sent an unread request for a vbucket between two times; without
        ``until_ns``, at any time after the first.
        """
        times = self._times.get((client, vbucket))
        if times is None:
            return False
        first = int(np.searchsorted(times, since_ns, side="right"))
        return first < len(times) and (until_ns is None or bool(times[first] < until_ns))


def _has_no_ids(sight: Visibility, connection: int, session: Session) -> bool:
    """Returns whether it is certain that stream-ids are not in use."""
    is_captured = not session.is_cut and sight.is_complete(connection, sight.consumer(connection))
    return is_captured and session.control(_STREAM_IDS) is None
