"""Marks of the data between two ends. They identify the same connection at another capture point,
even after loss, cuts or address translation.

Certain places of the sequence numbers are examined, everywhere the same ones. A mark has a hash of
such a place, and after it a hash of the bytes there. Both ends of a connection see the same bytes
at the same sequence numbers, also behind NAT, and without the SYN. For each group only the lowest
marks are kept (a bottom-k sketch: Broder 1997), so two groups with the same places keep the same
marks. Once a group has enough marks, the hash of a place alone shows that the place does not count,
and its bytes are not examined.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import ByteArray, IntArray, grown, numbers_of
from dcpinspect.transport.headers import CAPTURED, PAYLOAD, SEQ

GroupMarks = npt.NDArray[np.uint64]

MOST = 64
"""Number of marks that are kept for a group."""
EVERY = 128
"""Distance between two places, in sequence numbers."""
_BYTES = 48
"""Number of bytes that are examined at a place."""
_VARIED = 12
"""Least number of different byte values at a place: padding is the same in many connections."""
SHARED = 4
"""Least number of marks that two groups must share to be the same."""
SHARE = 8
"""Two groups must also share at least one in so many of the marks that both could have."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = 0x9E3779B1
"""An odd factor, so that no two places have the same hash."""
_LOW = np.uint64(0xFFFF_FFFF)
_NONE = np.uint64((1 << 64) - 1)
_BATCH = 1 << 12
"""Number of places that are examined together."""


class Marker:
    """Collects the marks of groups while their packets pass."""

    def __init__(self) -> None:
        self._limit = np.empty(0, np.int64)  # for each group: only places with lower hashes count
        self._marks: dict[int, GroupMarks] = {}

    def add(self, data: ByteArray, tcp: IntArray, groups: IntArray) -> None:
        """Adds the payload of packets.

        ``tcp``: rows of ``Headers.tcp``, whose payload is in ``data``; ``groups``: the group number
        of each row.
        """
        first = -tcp[:, SEQ] % EVERY
        count = np.maximum(0, (tcp[:, CAPTURED] - first - _BYTES) // EVERY + 1)
        rows = np.flatnonzero(count)
        if not len(rows):
            return
        known_groups, top = len(self._limit), int(groups[rows].max()) + 1
        if top > known_groups:
            self._limit = grown(self._limit, top)
            self._limit[known_groups:] = 1 << 32
        number, index = numbers_of(0, count[rows])
        row_of = rows[index]
        step = EVERY * number + first[row_of]
        spread = (((tcp[row_of, SEQ] + step) & 0xFFFF_FFFF) // EVERY * _SPREAD) & 0xFFFF_FFFF
        owner, offset = groups[row_of], tcp[row_of, PAYLOAD] + step
        candidates = np.arange(len(row_of))
        # after each batch of places, fewer of the others count
        while len(candidates := candidates[spread[candidates] < self._limit[owner[candidates]]]):
            batch_rows, candidates = candidates[:_BATCH], candidates[_BATCH:]
            self._mark_words(data, owner[batch_rows], offset[batch_rows], spread[batch_rows])

    def _mark_words(
        self, data: ByteArray, groups: IntArray, offset: IntArray, place: IntArray
    ) -> None:
        octets = data[offset[:, None] + np.arange(_BYTES)]
        ordered = np.sort(octets, axis=1)
        varied = np.flatnonzero((np.diff(ordered, axis=1) != 0).sum(axis=1) + 1 >= _VARIED)
        words = octets[varied].view(np.uint64)
        hashes = np.zeros(len(varied), np.uint64)
        for word in range(words.shape[1]):
            hashes = (hashes ^ words[:, word]) * _MIX
            hashes ^= hashes >> np.uint64(29)
        marks = (place[varied].astype(np.uint64) << np.uint64(32)) | (hashes & _LOW)
        groups = groups[varied]
        for group in np.unique(groups).tolist():
            group_marks = np.union1d(self._marks.get(group, marks[:0]), marks[groups == group])[
                :MOST
            ]
            self._marks[group] = group_marks
            if len(group_marks) == MOST:
                self._limit[group] = int(group_marks[-1] >> np.uint64(32)) + 1

    def marks_of(self, group: int) -> GroupMarks:
        """Returns the marks of a group, the lowest first."""
        return self._marks.get(group, np.empty(0, np.uint64))


def together(sketches: Sequence[GroupMarks]) -> GroupMarks:
    """Returns the marks of a group whose packets are in several captures."""
    return np.unique(np.concatenate([np.empty(0, np.uint64), *sketches]))[:MOST]


def are_same(marks_a: GroupMarks, marks_b: GroupMarks) -> bool:
    """Whether two groups have the same bytes in the same places, as far as both have marks."""
    bound = min(marks[-1] if len(marks) == MOST else _NONE for marks in (marks_a, marks_b))
    marks_one, marks_two = marks_a[marks_a <= bound], marks_b[marks_b <= bound]
    shared = len(np.intersect1d(marks_one, marks_two, assume_unique=True))
    return shared >= SHARED and shared * SHARE >= min(len(marks_one), len(marks_two))
