"""What only a reading of everything knows of the streams of a part, which then makes its own snapshots and gaps as the whole would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask
from dcpinspect.streams.disputes import Comparison
from dcpinspect.streams.gaps import Extra, Name
from dcpinspect.streams.rows import Gaps

Table = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OfWhole:
    """By the numbers that things have in the part."""

    connections: Table
    """Numbers of connections in the whole."""
    replicas: Mask
    """Streams of vbuckets that their server has as a replica."""
    lacks_history: Mask
    """Streams to a bucket of which a collection is known that keeps no history."""
    resumed: Sequence[Extra]
    """Gaps that streams began with."""
    told: Mapping[Name, Comparison]
    """What other streams tell of gaps."""

    def told_of(self, gaps: Gaps, unordered: Gaps) -> dict[int, Comparison]:
        """The same by number of the gap; of those inside OSO snapshots, which count down from -1."""
        found: dict[int, Comparison] = {}
        rows = np.array([row for _, row, _ in self.told], dtype=np.int64)
        for table, is_unordered in ((gaps, False), (unordered, True)):
            for number in np.flatnonzero(np.isin(table.ends.row, rows)).tolist():
                gap = table[number]
                tale = self.told.get((int(gap.stream), int(gap.ends.row), int(gap.after)))
                if tale is not None:
                    found[-1 - number if is_unordered else number] = tale
        return found
