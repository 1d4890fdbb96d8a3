"""The table of vbuckets: one consumer's whole story of each, over all its connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask, Numbers
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import VBUCKETS
from dcpinspect.streams.gaps import Amounts, whole
from dcpinspect.streams.rows import FILE_SHIFT
from dcpinspect.streams.server_reports import HighSeqno
from dcpinspect.streams.state import Known, unbiased
from dcpinspect.streams.waits import Wait, Waits
from dcpinspect.tables.records import Records, Values

Table = npt.NDArray[np.int64]


def vbucket_records(
    known: Known,
    verdicts: Sequence[str],
    amounts: tuple[Table, Amounts],
    clients: Mapping[int, str],
    high_seqnos: Mapping[tuple[str, int], HighSeqno],
    waits: Waits,
) -> Records:
    """The table; ``amounts``: snapshots of each stream, and gaps."""
    streams, (snapshot_counts, gaps) = known.streams, amounts
    found: dict[tuple[str, int], list[int]] = {}
    for number, (connection, vbucket) in enumerate(zip(streams.connection.tolist(), streams.vbucket.tolist(), strict=True)):
        if connection in clients:
            found.setdefault((clients[connection], vbucket), []).append(number)
    if not found:
        return Records(VBUCKETS, {column.name: [] for column in VBUCKETS.columns}, 0)
    # All streams, vbucket by vbucket in order of their first streams, those of each in order of their opening.
    opened = streams.opened.time.tolist()
    keys = tuple(found)
    stories = [sorted(found[key], key=opened.__getitem__) for key in keys]  # requests may have been read after what followed them
    numbers = np.concatenate([np.array(story, dtype=np.int64) for story in stories])
    count = np.array([len(story) for story in stories], dtype=np.int64)
    begin = np.cumsum(count) - count
    own = streams[numbers]
    newest = own[begin + count - 1]
    place, has_any = np.arange(len(own)), own.seen > 0
    first = np.minimum.reduceat(np.where(has_any, place, len(own) - 1), begin)
    last = np.maximum.reduceat(np.where(has_any, place, 0), begin)
    received = np.logical_or.reduceat(has_any, begin)

    def total(values: Table | Mask) -> Numbers:
        return Numbers(np.add.reduceat(values.astype(np.int64), begin))

    def by_cause(counts: npt.NDArray[Any]) -> list[dict[str, int]]:
        sums = whole(np.add.reduceat(counts[numbers].astype(np.float64), begin, axis=0))
        return [{cause: number for cause, number in zip(w.CAUSES, causes, strict=True) if number} for causes in sums.tolist()]

    latest = Numbers(unbiased(own.last[last]), received)
    high = [_high_seqno(high_seqnos.get(key), waits.get(story[-1])) for key, story in zip(keys, stories, strict=True)]
    reached = np.where(received, latest.values, 0).tolist()
    columns: dict[str, Values] = {
        "client": [client for client, _ in keys],
        "vbucket": [vbucket for _, vbucket in keys],
        "verdict": [verdicts[story[-1]] for story in stories],
        "connections": [sorted(set(streams.connection[story].tolist())) for story in stories],
        "streams": Numbers(count),
        "requested_end": Numbers(unbiased(newest.request.end), newest.request.form > 0),
        "first_seqno": Numbers(unbiased(own.first[first]), received),
        "last_seqno": latest,
        "high_seqno": high,
        "behind": [None if told is None else max(0, told - seqno) for told, seqno in zip(high, reached, strict=True)],
        "items": total(own.items),
        "bytes": total(own.bytes),
        "gaps": by_cause(gaps[0]),
        "gap_seqnos": by_cause(gaps[1]),
        "snapshots": total(snapshot_counts[numbers]),
        "rollbacks": total(own.answer == w.A_ROLLBACK),
        "findings": [None] * len(stories),  # this layer knows none
        "first_time": Numbers(np.minimum.reduceat(own.opened.time, begin)),
        "last_time": Numbers(np.maximum.reduceat(own.latest.time, begin)),
    }
    return Records(VBUCKETS, columns, len(stories), file=own.opened.frame[begin] >> FILE_SHIFT)


def _high_seqno(told: HighSeqno | None, wait: Wait | None) -> int | None:
    """The newest seqno that the client was told, or what its newest stream waits for: another client may have been told of that."""
    return wait.newest if wait is not None else told.seqno if told is not None else None
