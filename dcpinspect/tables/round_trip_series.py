"""How long requests and noops waited over time: the longest in each span, by connection."""

from __future__ import annotations

import numpy as np

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.series import Series

CHARTED = 64
"""Number of connections that are charted: the first ones."""
_NOOPS = (Opcode.DCP_NOOP, Opcode.NOOP)


class RoundTrips:
    """Measures the batches of a reading that it is fed with."""

    def __init__(self) -> None:
        self.answers = Series(kind="peak", limit=CHARTED)
        """Longest waits for answers in nanoseconds, by connection, without noops."""
        self.noops = Series(kind="peak", limit=CHARTED)
        """Longest waits of noops in nanoseconds, by connection."""

    def feed(self, batch: MessageBatch) -> None:
        """Measures the next messages of the reading."""
        rtt = batch.rtt_ns
        is_answer = batch.decoded.is_response & rtt.is_known
        is_noop = np.isin(batch.decoded.opcode, _NOOPS)
        for series, is_measured in (
            (self.answers, is_answer & ~is_noop),
            (self.noops, is_answer & is_noop),
        ):
            rows = np.flatnonzero(is_measured)
            series.add(
                batch.connection[rows],
                batch.time_ns[rows],
                np.maximum(rtt.values[rows].astype(np.int64), 1),
            )
