"""Bytes between messages that were not read: where they were, and between which rows."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers


def _none() -> RowNumbers:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Losses:
    """Stretches of bytes in the directions that are in no message: not captured, skipped or not
    decodable. One entry per stretch.

    A stretch stands before the next message of its direction; several stretches before the same
    message count as one.
    """

    before: RowNumbers = field(default_factory=_none)
    """Row of the batch before which the stretch stands, rising."""
    connection: RowNumbers = field(default_factory=_none)
    direction: RowNumbers = field(default_factory=_none)
    start: RowNumbers = field(default_factory=_none)
    """Stream offset of the first byte of the stretch."""
    end: RowNumbers = field(default_factory=_none)
    """Stream offset behind its last byte."""

    def __len__(self) -> int:
        return len(self.before)


NO_LOSSES = Losses()
