"""How long requests waited for their answers, and noops for theirs, over time: the longest in each span, by connection."""

from __future__ import annotations

import numpy as np

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.series import Series

CHARTED = 64
"""Connections of which it is kept, the first that there are."""
_NOOPS = (Opcode.DCP_NOOP, Opcode.NOOP)


class RoundTrips:
    """Feed it with every batch of a reading."""

    def __init__(self) -> None:
        self.answers = Series(kind="peak", most=CHARTED)
        """Nanoseconds, by connection."""
        self.noops = Series(kind="peak", most=CHARTED)
        """The same of noops alone."""

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages of the reading."""
        rtt = batch.rtt_ns
        is_answer = batch.decoded.is_response if rtt.valid is None else batch.decoded.is_response & rtt.valid
        is_noop = np.isin(batch.decoded.opcode, _NOOPS)
        for series, own in ((self.answers, is_answer & ~is_noop), (self.noops, is_answer & is_noop)):
            rows = np.flatnonzero(own)
            series.add(batch.connection[rows], batch.time_ns[rows], np.maximum(rtt.values[rows].astype(np.int64), 1))
