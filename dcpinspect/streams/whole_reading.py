"""What only a reading of everything knows of the streams of a part. With it, the part makes the
same snapshots and gaps as the whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.disputes import Comparison
from dcpinspect.streams.gaps import GapName
from dcpinspect.streams.records import Gaps
from dcpinspect.streams.tcp_facts import TcpConnection


@dataclass(frozen=True, slots=True)
class OfWhole:
    """Facts from the reading of everything, under the part's numbers of connections and streams."""

    connections: IntArray
    """Number in the whole of each connection."""
    is_copy: BoolArray
    """True for connections that show what another one shows: their rows do not count."""
    unseen: Mapping[int, TcpConnection]
    """By number, those of the connections whose ends only the whole tells."""
    replicas: BoolArray
    """True for streams of vbuckets that their server has as a replica."""
    lacks_history: BoolArray
    """True for streams to a bucket of which some known collection keeps no history."""
    resumed: Gaps
    """Gaps at the beginning of resumed streams."""
    comparisons: Mapping[GapName, Comparison]
    """What other streams tell of gaps, by names of the gaps."""

    def comparisons_of(self, gaps: Gaps) -> dict[int, Comparison]:
        """Returns what other streams tell, by number of the gap."""
        found_comparisons: dict[int, Comparison] = {}
        rows = np.array([row for _, row, _ in self.comparisons], dtype=np.int64)
        for number in np.flatnonzero(np.isin(gaps.ends.row, rows)).tolist():
            gap = gaps[number]
            comparison = self.comparisons.get((int(gap.stream), int(gap.ends.row), int(gap.after)))
            if comparison is not None:
                found_comparisons[number] = comparison
        return found_comparisons
