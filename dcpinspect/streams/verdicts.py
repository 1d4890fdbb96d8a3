"""The table of streams: what was asked and answered, what came, and how each stream is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask, Numbers
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import STREAM_FLAGS
from dcpinspect.protocol.statuses import status_name
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import STREAMS
from dcpinspect.streams.links import Link
from dcpinspect.streams.snapshots import types
from dcpinspect.tables.records import Made, Records, Values, Worded

Table = npt.NDArray[np.int64]

PATIENCE_NS = 2_000_000_000
"""What is absent is reported after so long, or after ten times the slowest answer seen before."""
_LONG = 10**15
"""Longer times are not told apart: ten times as long is a number of 64 bits still."""


@dataclass(frozen=True, slots=True)
class Ends:
    """What the connections tell of the streams on them, by stream."""

    is_closed: Mask
    """The connection has ended."""
    is_lost: Mask
    """Something behind the stream's latest message was not captured, up to the end of its connection or of the capture."""
    is_starved: Mask
    """The connection's window is full."""
    now: Table
    """Time of the connection's latest packet."""

    @staticmethod
    def of(streams: Table, connections: Table, links: Mapping[int, Link], starved: Mapping[int, bool]) -> Ends:
        """``starved``: whether the window of each connection is full."""
        number = streams[:, s.S_CONNECTION]
        unknown = [link for link in range(len(connections)) if link not in links]
        closed = np.array([number not in unknown and bool(links[number].closed) for number in range(len(connections))], dtype=np.bool_)
        at_end = np.zeros((len(connections), 2), dtype=np.bool_)
        now = np.zeros(len(connections), dtype=np.int64)
        for link in links.values():
            if link.number < len(connections):
                at_end[link.number] = [span is not None for span in link.lost_at_end]
                now[link.number] = link.last_ns
        producer = np.maximum(connections[number, s.C_PRODUCER], 0)
        lost = (connections[number, s.C_LOSSES + producer] != streams[:, s.S_LOSSES]) | at_end[number, producer]
        lost |= connections[number, s.C_CLOSED_TIME] >= streams[:, s.S_LATEST + s.AT_TIME]  # it may be the one that was closed
        full = np.array([starved.get(number, False) for number in range(len(connections))], dtype=np.bool_)
        return Ends(closed[number], lost, full[number], now[number])


def is_over(streams: Table, ends: Ends) -> Mask:
    """Streams whose messages can come no more."""
    state = streams[:, s.S_STATE]
    return np.asarray(np.isin(state, (w.ENDED, w.DRAINING, w.LEFT)) | ends.is_closed, dtype=np.bool_)


def answers(streams: Table, ends: Ends) -> Table:
    """Number of the answer of every stream; a request without one is unanswered where nothing could hide it."""
    found = streams[:, s.S_ANSWER].copy()
    is_asked = (streams[:, s.S_FORM] > 0) | (streams[:, s.S_FILTER] == s.CUT_VALUE)
    waits = (streams[:, s.S_STATE] == w.REQUESTED) & is_asked
    found[waits & ~ends.is_lost] = w.A_UNANSWERED
    return found


def verdicts(streams: Table, snapshots: Table, answer: Table, ends: Ends, behind: Mask) -> Table:
    """Number of the verdict of every stream; ``behind``: those that have waited for long, as ``waits`` has it."""
    state, snapshot = streams[:, s.S_STATE], streams[:, s.S_SNAPSHOT]
    table = snapshots if len(snapshots) else np.zeros((1, s.SNAPSHOT), dtype=np.int64)
    current = table[snapshot]
    is_marked = snapshot >= 0
    runs = is_marked & (current[:, s.N_STATE] == w.OPEN)
    from_disk = runs & (types(current) == 1)
    in_oso = streams[:, s.S_IN_OSO] >= 0
    patience = np.maximum(PATIENCE_NS, 10 * np.minimum(streams[:, s.S_PATIENCE], _LONG))
    waited = ends.now - streams[:, s.S_OPENED + s.AT_TIME] > patience
    unanswered = answer == w.A_UNANSWERED
    never = unanswered & (waited | ends.is_closed)
    is_ended = np.isin(state, (w.ENDED, w.DRAINING)) | (ends.is_closed & (state != w.REQUESTED))
    # a message that cannot be read may have been the last one of its snapshot
    unread = runs & (streams[:, s.S_POSITION_LOSSES] < 0) & (streams[:, s.S_UNREADABLE] > current[:, s.N_PLACE + s.AT_ROW])
    unmarked = (streams[:, s.S_FORM] == 0) & (streams[:, s.S_MARKERS] == 0)
    unknown = unmarked | unread | ends.is_lost | (state == w.LEFT) | (state == w.REQUESTED)
    complete = (is_marked & np.isin(current[:, s.N_STATE], (w.COMPLETE, w.COMPLETE_ADVANCED))) | (
        ~is_marked & (streams[:, s.S_MARKERS] > 0) & (streams[:, s.S_SUSPENDED] == 0)
    )
    silent = np.isin(state, (w.ACCEPTED, w.CLOSING)) & (streams[:, s.S_MARKERS] == 0) & (streams[:, s.S_SEEN] == 0)
    order = [
        never,
        answer == w.A_REFUSED,
        answer == w.A_ROLLBACK,
        is_ended,
        unknown,
        ends.is_starved,
        behind,
        from_disk | in_oso,
        runs,
        complete,
        silent,
    ]
    fallback = w.STREAM_VERDICTS.index("unknown-capture")
    return np.select(order, list(range(len(order))), default=fallback)


def reasons(streams: Table, verdict: Table, ends: Ends) -> list[str | None]:
    """Why each stream ended, null where it did not, or nobody can know."""
    ended = w.STREAM_VERDICTS.index("ended")
    reason = streams[:, s.S_REASON].copy()
    by_connection = (verdict == ended) & (reason < 0) & ends.is_closed & ~ends.is_lost & ~np.isin(streams[:, s.S_STATE], (w.ENDED, w.LEFT))
    reason[by_connection] = w.CONNECTION_CLOSED
    reason[verdict != ended] = -1
    # 9 on the wire means nothing, here it is the end of the connection
    is_word = (reason >= 0) & (reason < w.CONNECTION_CLOSED) | by_connection
    return [
        None if number < 0 else w.END_REASONS[number] if good else str(number)
        for number, good in zip(reason.tolist(), is_word.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Texts:
    """What the requests and answers of streams said besides numbers."""

    filters: Sequence[dict[str, Any] | None]
    logs: Sequence[bytes]


def failover_entries(log: bytes) -> list[tuple[int, int]]:
    """(uuid, seqno) of each branch of a failover log, newest first."""
    numbers = np.frombuffer(log[: len(log) // 16 * 16], ">u8").tolist()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def stream_records(streams: Table, snapshots: Table, gaps: Table, texts: Texts, ends: Ends, behind: Mask) -> Records:
    """The table; ``gaps``: number of gaps of each stream; ``behind``: as ``verdicts`` has it."""
    answer = answers(streams, ends)
    verdict = verdicts(streams, snapshots, answer, ends, behind)
    asked, asked_range = streams[:, s.S_FORM] > 0, streams[:, s.S_FORM] == 1
    flags, flag_number = np.unique(streams[:, s.S_FLAGS], return_inverse=True)
    flag_number = np.where(asked, flag_number.reshape(-1), -1)
    status = streams[:, s.S_STATUS]
    statuses, status_number = np.unique(status, return_inverse=True)
    rolled = (streams[:, s.S_ANSWER] == w.A_ROLLBACK) & (streams[:, s.S_ROLLBACK] != s.UNREAD_SEQNO)
    has_end = streams[:, s.S_FINISHED + s.AT_ROW] > 0
    has_seqno = streams[:, s.S_SEEN] > 0
    logs = streams[:, s.S_LOG]
    columns: dict[str, Values] = {
        "connection": Numbers(streams[:, s.S_CONNECTION]),
        "vbucket": Numbers(streams[:, s.S_VBUCKET]),
        "sid": Numbers(streams[:, s.S_SID], streams[:, s.S_SID] >= 0),
        "stream": Numbers(streams[:, s.S_ORDINAL]),
        "opaque": Numbers(streams[:, s.S_OPAQUE]),
        "requested_start": Numbers(s.unbiased(streams[:, s.S_START]), asked),
        "requested_end": Numbers(s.unbiased(streams[:, s.S_END]), asked),
        "vbucket_uuid": Numbers(streams[:, s.S_UUID].view(np.uint64), asked),
        "snapshot_start": Numbers(s.unbiased(streams[:, s.S_SNAPSHOT_START]), asked_range),
        "snapshot_end": Numbers(s.unbiased(streams[:, s.S_SNAPSHOT_END]), asked_range),
        "request_flags": Worded(flag_number, [list(bit_names(STREAM_FLAGS, flag)) for flag in flags.tolist()]),
        "filter": Worded(np.maximum(streams[:, s.S_FILTER], -1), texts.filters),
        "answer": Worded(answer, w.ANSWERS),
        "status": Worded(np.where(status < 0, -1, status_number.reshape(-1)), [status_name(max(0, code)) for code in statuses.tolist()]),
        "rollback_seqno": Numbers(s.unbiased(streams[:, s.S_ROLLBACK]), rolled),
        "failover_log": Made(len(streams), lambda row: failover_entries(texts.logs[logs[row]]) if logs[row] >= 0 else None),
        "verdict": Worded(verdict, w.STREAM_VERDICTS),
        "end_reason": reasons(streams, verdict, ends),
        "items": Numbers(streams[:, s.S_ITEMS]),
        "first_seqno": Numbers(s.unbiased(streams[:, s.S_FIRST]), has_seqno),
        "last_seqno": Numbers(s.unbiased(streams[:, s.S_LAST]), has_seqno),
        "snapshots": Numbers(np.bincount(snapshots[:, s.N_STREAM], minlength=len(streams))),
        "gaps": Numbers(gaps),
        "open_row": Numbers(streams[:, s.S_OPENED + s.AT_ROW]),
        "end_row": Numbers(streams[:, s.S_FINISHED + s.AT_ROW], has_end),
        "first_time": Numbers(streams[:, s.S_OPENED + s.AT_TIME]),
        "last_time": Numbers(streams[:, s.S_LATEST + s.AT_TIME]),
    }
    return Records(STREAMS, columns, len(streams), file=streams[:, s.S_OPENED + s.AT_FRAME] >> s.FILE_SHIFT)
