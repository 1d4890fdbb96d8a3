"""Marks of what was said between two ends: by which the same connection is known at another place, whatever was lost, cut or translated.

Some places of the sequence numbers are looked at, the same ones everywhere. A mark is a hash of such a place, and behind it a hash of the
bytes there. Both ends of a connection see the same bytes at the same sequence numbers, also behind NAT, and without the SYN. Of each group
the lowest marks are kept (a bottom-k sketch: Broder 1997), so two groups that share places have the same ones of them. Where many
are known, the place alone says that it does not count, and nobody looks at its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.capture.batch import Bytes, Column
from dcpinspect.growing import grown
from dcpinspect.transport.headers import CAPTURED, PAYLOAD, SEQ

Marks = npt.NDArray[np.uint64]

MOST = 64
"""Marks that are kept of a group."""
EVERY = 128
"""Sequence numbers between two places."""
_BYTES = 48
"""Bytes that are looked at in a place."""
_VARIED = 12
"""Values that these have at least: padding is the same in many connections."""
SHARED = 4
"""Marks that two groups have in common at least, if they are the same."""
SHARE = 8
"""And one in so many of those that both could have."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = 0x9E3779B1
"""Odd, so that no two places have the same hash."""
_LOW = np.uint64(0xFFFF_FFFF)
_NONE = np.uint64((1 << 64) - 1)
_BATCH = 1 << 12
"""Places that are looked at together."""


class Marker:
    """Keeps the marks of groups while their packets go by."""

    def __init__(self) -> None:
        self._limit = np.empty(0, np.int64)  # by group: places that count have lower hashes
        self._marks: dict[int, Marks] = {}

    def add(self, data: Bytes, tcp: Column, groups: Column) -> None:
        """``tcp``: rows of ``Headers.tcp``, whose payload is in ``data``; ``groups``: the number of the group of each."""
        first = -tcp[:, SEQ] % EVERY
        count = np.maximum(0, (tcp[:, CAPTURED] - first - _BYTES) // EVERY + 1)
        rows = np.flatnonzero(count)
        if not len(rows):
            return
        known, top = len(self._limit), int(groups[rows].max()) + 1
        if top > known:
            self._limit = grown(self._limit, top)
            self._limit[known:] = 1 << 32
        of = np.repeat(rows, count[rows])
        step = EVERY * (np.arange(len(of)) - np.repeat(np.cumsum(count[rows]) - count[rows], count[rows])) + first[of]
        place = (((tcp[of, SEQ] + step) & 0xFFFF_FFFF) // EVERY * _SPREAD) & 0xFFFF_FFFF
        owner, offset = groups[of], tcp[of, PAYLOAD] + step
        chosen = np.arange(len(of))
        while len(chosen := chosen[place[chosen] < self._limit[owner[chosen]]]):  # every look leaves fewer that count
            some, chosen = chosen[:_BATCH], chosen[_BATCH:]
            self._look(data, owner[some], offset[some], place[some])

    def _look(self, data: Bytes, groups: Column, offset: Column, place: Column) -> None:
        octets = data[offset[:, None] + np.arange(_BYTES)]
        ordered = np.sort(octets, axis=1)
        varied = np.flatnonzero((np.diff(ordered, axis=1) != 0).sum(axis=1) + 1 >= _VARIED)
        words = octets[varied].view(np.uint64)
        hashes = np.zeros(len(varied), np.uint64)
        for one in range(words.shape[1]):
            hashes = (hashes ^ words[:, one]) * _MIX
            hashes ^= hashes >> np.uint64(29)
        marks, groups = (place[varied].astype(np.uint64) << np.uint64(32)) | (hashes & _LOW), groups[varied]
        for group in np.unique(groups).tolist():
            found = np.union1d(self._marks.get(group, marks[:0]), marks[groups == group])[:MOST]
            self._marks[group] = found
            if len(found) == MOST:
                self._limit[group] = int(found[-1] >> np.uint64(32)) + 1

    def of(self, group: int) -> Marks:
        """The marks of a group, lowest first."""
        return self._marks.get(group, np.empty(0, np.uint64))


def together(sketches: Sequence[Marks]) -> Marks:
    """The marks of a group whose packets are in several captures."""
    return np.unique(np.concatenate([np.empty(0, np.uint64), *sketches]))[:MOST]


def are_same(one: Marks, two: Marks) -> bool:
    """Whether two groups have the same bytes in the same places, as far as both have any."""
    bound = min(marks[-1] if len(marks) == MOST else _NONE for marks in (one, two))
    mine, theirs = one[one <= bound], two[two <= bound]
    shared = len(np.intersect1d(mine, theirs, assume_unique=True))
    return shared >= SHARED and shared * SHARE >= min(len(mine), len(theirs))
