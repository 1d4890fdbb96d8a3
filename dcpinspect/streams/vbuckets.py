"""The table of vbuckets: one consumer's whole story of each, over all its connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import VBUCKETS
from dcpinspect.streams.heard import HighSeqno
from dcpinspect.tables.records import Records

Table = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Vbucket:
    streams: list[int] = field(default_factory=list)
    """In order of their opening."""


def vbucket_records(
    streams: Table,
    verdicts: Sequence[str],
    snapshots: Table,
    gaps: Table,
    clients: Mapping[int, str],
    high_seqnos: Mapping[tuple[str, int], HighSeqno],
) -> Records:
    """The table; ``gaps``: number of gaps by stream and cause."""
    found: dict[tuple[str, int], _Vbucket] = {}
    for number, (connection, vbucket) in enumerate(streams[:, [s.S_CONNECTION, s.S_VBUCKET]].tolist()):
        if connection in clients:
            found.setdefault((clients[connection], vbucket), _Vbucket()).streams.append(number)
    snapshot_counts = np.bincount(snapshots[:, s.N_STREAM], minlength=len(streams))
    rows: list[tuple[Any, ...]] = []
    files = []
    for (client, vbucket), story in sorted(found.items()):
        own = streams[story.streams]
        newest = own[-1]
        files.append(int(own[0, s.S_OPENED + s.AT_FRAME]) >> s.FILE_SHIFT)
        received = own[own[:, s.S_SEEN] > 0]
        high = high_seqnos.get((client, vbucket))
        causes = gaps[story.streams].sum(axis=0).tolist()
        rows.append(
            (
                client,
                vbucket,
                verdicts[story.streams[-1]],
                np.unique(own[:, s.S_CONNECTION]).tolist(),
                len(own),
                _plain(newest[s.S_END]) if newest[s.S_FORM] else None,
                _plain(received[0, s.S_FIRST]) if len(received) else None,
                _plain(received[-1, s.S_LAST]) if len(received) else None,
                high.seqno if high is not None else None,
                int(own[:, s.S_ITEMS].sum()),
                int(own[:, s.S_BYTES].sum()),
                {cause: count for cause, count in zip(w.CAUSES, causes, strict=True) if count},
                int(snapshot_counts[story.streams].sum()),
                int((own[:, s.S_ANSWER] == w.A_ROLLBACK).sum()),
                None,  # findings: this layer knows none
                int(own[:, s.S_LATEST + s.AT_TIME].max()),
            )
        )
    names = [column.name for column in VBUCKETS.columns]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}
    return Records(VBUCKETS, columns, len(rows), file=np.array(files, dtype=np.int64))


def _plain(seqno: Any) -> int:
    return int(seqno) - s.LEAST
