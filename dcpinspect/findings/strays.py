"""Markers with another stream's opaque: what they explain there, so a fault is told once."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.anomalies import CASES, OPAQUE_MISMATCH
from dcpinspect.streams.followers import Follower, PerConnection
from dcpinspect.streams.records import LEAST, Anomalies, Snapshots, Streams
from dcpinspect.tables.messages import MessageBatch

MOST = 1 << 12
"""Number of opaques, each of one connection, of which such markers are remembered."""
_EXPLAINED = [code for code, case in enumerate(CASES) if case.is_of_marker]

Stray = tuple[int, int, int]
"""Row of a marker, start and end of its range; both seqnos are biased."""


class Strays(Follower):
    """The markers that name one stream by their vbucket and another one by their opaque.

    They count for the stream of their vbucket. If they were meant for the other one, that stream's
    events come without a marker.
    """

    def __init__(self) -> None:
        self._latest: PerConnection[tuple[int, int], Stray] = PerConnection()
        """The latest one, by connection and opaque."""

    def without_explained(
        self, batch: MessageBatch, anomalies: Anomalies, streams: Streams, snapshots: Snapshots
    ) -> Anomalies:
        """Takes a batch's anomalies, in any order; returns those that no such marker explains."""
        new = self._new(batch, anomalies)
        if not new and not self._latest:
            return anomalies
        strays_of_stream: dict[tuple[int, int], list[Stray]] = defaultdict(list)
        for key, stray in (*self._latest.items(), *new):
            strays_of_stream[key].append(stray)
        result: Anomalies = anomalies[
            ~_are_explained(anomalies, streams, snapshots, strays_of_stream)
        ]
        for key, stray in new:
            if key in self._latest or len(self._latest) < MOST:
                self._latest[key] = stray
        return result

    @staticmethod
    def _new(batch: MessageBatch, anomalies: Anomalies) -> list[tuple[tuple[int, int], Stray]]:
        """Returns the markers among the messages with another opaque, in order of rows."""
        mismatches = anomalies[anomalies.code == OPAQUE_MISMATCH]
        rows = np.sort(mismatches.place.row)
        indexes = batch.index_of(rows)
        new = []
        for index in indexes[batch.decoded.opcode[indexes] == Opcode.DCP_SNAPSHOT_MARKER].tolist():
            start, end = batch.number("start_seqno", index), batch.number("end_seqno", index)
            if start is not None and end is not None:
                key = int(batch.connection[index]), int(batch.decoded.opaque[index])
                new.append((key, (int(batch.row[index]), start + LEAST, end + LEAST)))
        return new


def _are_explained(
    anomalies: Anomalies,
    streams: Streams,
    snapshots: Snapshots,
    strays_of_stream: Mapping[tuple[int, int], Sequence[Stray]],
) -> BoolArray:
    """Returns a mask of anomalies whose seqno is in the range of the latest such marker before,
    with no other marker in between.
    """
    explained = np.zeros(len(anomalies), dtype=np.bool_)
    indices = np.flatnonzero(np.isin(anomalies.code, _EXPLAINED))
    opaque = streams.opaque[anomalies.stream[indices]]
    may_be = np.isin(opaque, [anomaly_opaque for _, anomaly_opaque in strays_of_stream]) & np.isin(
        anomalies.connection[indices], [number for number, _ in strays_of_stream]
    )
    for index, anomaly_opaque in zip(
        indices[may_be].tolist(), opaque[may_be].tolist(), strict=True
    ):
        anomaly = anomalies[index]
        strays = strays_of_stream.get((int(anomaly.connection), anomaly_opaque), ())
        before = bisect_left(strays, (int(anomaly.place.row), LEAST, LEAST))
        if before:
            row, start, end = strays[before - 1]
            marker = snapshots[anomaly.snapshot].place.row if anomaly.snapshot >= 0 else -1
            explained[index] = start <= anomaly.a <= end and marker < row
    return explained
