"""Bytes between messages that nobody read: where they were, and between which rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dcpinspect.protocol.columns import Rows


def _none() -> Rows:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Losses:
    """Stretches of the directions' bytes that are in no message: not captured, skipped or not decodable. One entry a stretch.

    A stretch stands before the first message of its direction that comes after it; several before the same message are one.
    """

    before: Rows = field(default_factory=_none)
    """Row of the batch that it stands before, rising."""
    connection: Rows = field(default_factory=_none)
    direction: Rows = field(default_factory=_none)
    start: Rows = field(default_factory=_none)
    """Stream offset of its first byte."""
    end: Rows = field(default_factory=_none)
    """Stream offset after its last byte."""

    def __len__(self) -> int:
        return len(self.before)


NO_LOSSES = Losses()
