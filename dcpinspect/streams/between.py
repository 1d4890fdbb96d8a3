"""Gaps between the streams of one client: what a rollback took back, and what a resumed stream left out."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
import numpy.typing as npt

from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.gaps import Extra
from dcpinspect.streams.links import Link

Table = npt.NDArray[np.int64]

_FROM_LATEST = 0x40


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


def resumed_gaps(
    streams: Table, clients: Mapping[int, str], unnamed: Set[int], links: Mapping[int, Link], is_lost: npt.NDArray[np.bool_]
) -> list[Extra]:
    """An accepted stream that starts above what the same client's stream before it had received.

    ``clients``: who a connection belongs to; ``unnamed``: connections of which nobody can tell; ``is_lost``: streams behind whose latest
    message something was not captured.
    """
    found = []
    last: dict[tuple[str, int, int], int] = {}
    strangers = _strangers(streams, unnamed, links)
    taken = (streams[:, s.S_ANSWER] == w.A_ACCEPTED) | (streams[:, s.S_SEEN] > 0)
    order = np.argsort(streams[:, s.S_OPENED + s.AT_TIME], kind="stable")
    for number in order[taken[order]].tolist():
        stream = streams[number]
        client = clients.get(int(stream[s.S_CONNECTION]))
        if client is None:
            continue
        key = (client, int(stream[s.S_VBUCKET]), int(stream[s.S_SID]))
        before = last.get(key)
        last[key] = number
        if before is None or stream[s.S_ANSWER] != w.A_ACCEPTED or stream[s.S_FLAGS] & _FROM_LATEST:
            continue
        old = streams[before]
        if not old[s.S_HAS_POSITION] or old[s.S_POSITION] >= stream[s.S_START] or is_lost[before] or old[s.S_IN_OSO] >= 0:
            continue
        if not _is_over(old, int(stream[s.S_OPENED + s.AT_TIME]), links):
            continue
        host = links[int(stream[s.S_CONNECTION])].client.rpartition(":")[0]
        if strangers.get((host, key[1], key[2]), 0) > old[s.S_OPENED + s.AT_TIME]:
            continue
        rows = (int(old[s.S_AT + s.AT_ROW]), int(stream[s.S_OPENED + s.AT_ROW]))
        end = min(int(stream[s.S_START]) + 1, s.GREATEST)
        found.append(Extra(number, int(old[s.S_POSITION]), end, w.RESUMED, rows, int(old[s.S_AT + s.AT_FRAME])))
    return found


def _strangers(streams: Table, unnamed: Set[int], links: Mapping[int, Link]) -> dict[tuple[str, int, int], int]:
    """By host, vbucket and stream-id: when a client that nobody can tell, as its connection's start was not captured, last asked."""
    found: dict[tuple[str, int, int], int] = {}
    columns = [s.S_CONNECTION, s.S_VBUCKET, s.S_SID, s.S_OPENED + s.AT_TIME]
    for connection, vbucket, sid, time_ns in streams[:, columns].tolist():
        if connection in unnamed and connection in links:
            key = (links[connection].client.rpartition(":")[0], vbucket, sid)
            found[key] = max(time_ns, found.get(key, time_ns))
    return found


def _is_over(stream: Table, time_ns: int, links: Mapping[int, Link]) -> bool:
    """Whether a stream had ended, or its connection had, by a time."""
    if stream[s.S_STATE] in (w.ENDED, w.DRAINING):
        return bool(stream[s.S_FINISHED + s.AT_TIME] <= time_ns)
    link = links.get(int(stream[s.S_CONNECTION]))
    return link is not None and bool(link.closed) and link.closed_ns <= time_ns
