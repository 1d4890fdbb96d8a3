"""What leaves the tables: records that are over and can be part of no finding any more.

Records leave in a reading without an end, and in readings of parts that are joined later. Of each
stream these snapshots stay: the first, the newest ones, those that say most, and whatever is not as
it should be. Gaps stay that nothing explains. The rest is only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.protocol.flags import ACK
from dcpinspect.streams import words as w
from dcpinspect.streams.examples import FIRST
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.gaps import Amounts
from dcpinspect.streams.record_codes import HAS_PURGE
from dcpinspect.streams.records import ByteLosses, Gaps, Keys, Snapshots, Streams
from dcpinspect.streams.rollbacks import BACK
from dcpinspect.streams.snapshots import types
from dcpinspect.streams.state import unbiased
from dcpinspect.streams.transitions import (
    COMPLETE,
    COMPLETE_ADVANCED,
    DRAINING,
    ENDED,
    LEFT,
    NOT_ACCEPTED,
)

T = TypeVar("T", bound=np.generic)

MOST_UNUSUAL = 1 << 16
"""Greatest numbers of finished snapshots, unexplained gaps and losses that stay: the latest ones.
"""
_AFTER_ALL = np.iinfo(np.int64).max
_OVER = (DRAINING, ENDED, LEFT, NOT_ACCEPTED)


class DroppedRows(Portable):
    """How much has left the tables, in all and of each stream."""

    def __init__(self) -> None:
        self.streams = self.connections = 0
        """Numbers of streams and connections that have left."""
        # snapshots and gaps of streams that left
        self._gone: IntArray = np.zeros(2, dtype=np.int64)
        self._snapshots: IntArray = np.zeros(0, dtype=np.int64)  # by stream
        self._gaps: Amounts = (
            np.zeros((0, len(w.CAUSES)), dtype=np.int64),
            np.zeros((0, len(w.CAUSES))),
        )

    @classmethod
    def joined(cls, readings: Sequence[DroppedRows], streams: Sequence[IntArray]) -> Self:
        """Joins the counts of readings of different connections; no stream may have left them.
        ``streams``: for each reading, the new numbers of its streams.
        """
        joined_tables, count = cls(), sum(map(len, streams))
        joined_tables._snapshots, joined_tables._gaps = (
            joined_tables.snapshots_of(count),
            joined_tables.gaps(count),
        )
        for reading, new_numbers in zip(readings, streams, strict=True):
            joined_tables._snapshots[new_numbers] = reading.snapshots_of(len(new_numbers))
            for all_, gap_column in zip(
                joined_tables._gaps, reading.gaps(len(new_numbers)), strict=True
            ):
                all_[new_numbers] = gap_column
        return joined_tables

    @property
    def counts(self) -> IntArray:
        """Numbers of snapshots and of gaps that have left."""
        return self._gone + np.array([self._snapshots.sum(), self._gaps[0].sum()], dtype=np.int64)

    def forget(self, staying: BoolArray) -> None:
        """Lets streams leave; streams that stay get new numbers in the same order."""
        before, (counts, seqnos) = self.counts, self.gaps(len(staying))
        self.streams += int((~staying).sum())
        self._snapshots = self.snapshots_of(len(staying))[staying]
        self._gaps = (counts[staying], seqnos[staying])
        self._gone += before - self.counts

    def gaps(self, streams: int) -> Amounts:
        """Returns the gaps that have left, by stream and cause, for so many streams."""
        return _padded(self._gaps[0], streams), _padded(self._gaps[1], streams)

    def snapshots_of(self, streams: int) -> IntArray:
        """Returns how many snapshots of each stream have left, for so many streams."""
        return _padded(self._snapshots, streams)

    def count(self, streams: int, snapshots: Snapshots, gaps: Gaps, cause: IntArray) -> None:
        """Counts snapshots and gaps that leave; ``cause``: the cause of each gap."""
        self._snapshots = _padded(self._snapshots, streams) + np.bincount(
            snapshots.stream, minlength=streams
        )
        counts, seqnos = self.gaps(streams)
        width = unbiased(gaps.before) - unbiased(gaps.after) - np.uint64(1)
        np.add.at(counts, (gaps.stream, cause), width > 0)
        np.add.at(seqnos, (gaps.stream, cause), width)
        self._gaps = counts, seqnos


def _padded(table: npt.NDArray[T], rows: int) -> npt.NDArray[T]:
    """Returns a copy with so many rows; new rows are zero."""
    padded: npt.NDArray[T] = np.zeros((rows, *table.shape[1:]), table.dtype)
    padded[: len(table)] = table
    return padded


def stale_gaps(gaps: Gaps, cause: IntArray, before_row: int, limit: int) -> BoolArray:
    """Returns a mask of gaps that ended before a row and whose cause is certain: they may leave.
    ``limit``: greatest number of others that stay.
    """
    is_old = gaps.ends.row < before_row
    unexplained = is_old & (cause == w.UNEXPLAINED)
    return is_old & ~_latest(unexplained, gaps.ends.row, limit)


def stale_snapshots(
    snapshots: Snapshots,
    streams: Streams,
    gaps: Gaps,
    before_row: int,
    limit: int,
) -> BoolArray:
    """Returns a mask of snapshots that were over before a row and that nothing needs any more.

    ``gaps``: the gaps that stay. ``limit``: greatest number of unusual snapshots that stay.
    """
    count = len(snapshots)
    order = np.lexsort((snapshots.place.row, snapshots.stream))
    stream, row = snapshots.stream[order], snapshots.place.row[order]
    if not count:
        return np.zeros(0, dtype=np.bool_)
    is_last = np.append(stream[1:] != stream[:-1], True)
    until = np.where(is_last, _AFTER_ALL, np.append(row[1:], 0))
    position = np.arange(count)
    is_first = np.append(True, is_last[:-1])
    ends = np.minimum.accumulate(np.where(is_last, position, count)[::-1])[::-1]
    ordered = snapshots[order]
    is_plain = (
        np.isin(ordered.state, (COMPLETE, COMPLETE_ADVANCED))
        & (ordered.is_tainted == 0)
        & (ordered.is_overlapped == 0)
        & (ordered.flags & ACK == 0)
    )
    kind = types(ordered)
    # the server may have fallen back to disk
    is_plain[1:] &= (kind[1:] == kind[:-1]) | is_last[:-1]
    unusual = ~is_plain
    unusual[1:] |= ~is_plain[:-1]
    unusual[:-1] |= ~is_plain[1:]
    says_most = np.zeros(count, dtype=np.bool_)
    for value, has in (
        (ordered.end, ordered.layout > 0),
        (ordered.seqnos.purge, ordered.seqnos.present & HAS_PURGE != 0),
    ):
        by_value = np.lexsort((value, has, stream))
        says_most[by_value[np.append(stream[by_value][1:] != stream[by_value][:-1], True)]] = True
    is_over = (until < before_row) & (ends - position >= BACK) & ~is_first & ~says_most
    is_wanted = np.zeros(count, dtype=np.bool_)
    for numbers in (
        streams.snapshot,
        streams.in_oso,
        streams.position_in,
        gaps.snapshot,
        np.zeros(min(1, count), dtype=np.int64),
    ):
        is_wanted[numbers[numbers >= 0]] = True
    is_over &= ~is_wanted[order]
    mask = np.zeros(count, dtype=np.bool_)
    mask[order] = is_over & ~_latest(is_over & unusual, row, limit)
    return mask


def _latest(mask: BoolArray, row: IntArray, limit: int) -> BoolArray:
    """Returns a mask of the latest of the chosen ones, ``limit`` at most."""
    numbers = np.flatnonzero(mask)
    kept_numbers = numbers[np.argsort(row[numbers], kind="stable")[-limit:]]
    latest = np.zeros(len(mask), dtype=np.bool_)
    latest[kept_numbers] = True
    return latest


def stale_losses(losses: ByteLosses, limit: int) -> BoolArray:
    """Returns a mask of losses that leave.

    The first losses of each direction stay, and the latest of all. Those between become the last of
    them, which casts the doubt of all.
    """
    count, owner = len(losses), 2 * losses.connection + losses.direction
    if count <= limit:
        return np.zeros(count, dtype=np.bool_)
    order, position = np.argsort(owner, kind="stable"), np.arange(count)
    ordered_owners = owner[order]
    begins = np.maximum.accumulate(
        np.where(np.append(True, ordered_owners[1:] != ordered_owners[:-1]), position, 0)
    )
    is_between = (order < count - limit) & (position - begins >= FIRST)
    goes_on = is_between & np.append(
        is_between[1:] & (ordered_owners[1:] == ordered_owners[:-1]), False
    )
    first = order[is_between & ~np.append(False, goes_on[:-1])]
    last = order[is_between & ~goes_on]
    for column in (
        losses.start,
        losses.before_row,
        losses.before_frame,
        losses.before_time,
        losses.previous,
    ):
        column[last] = column[first]
    mask = np.zeros(count, dtype=np.bool_)
    mask[order[goes_on]] = True
    return mask


def stale_streams(streams: Streams, keys: Keys, limit: int) -> BoolArray:
    """Returns a mask of old streams that their key no longer refers to: they are over, or were
    asked for again. The newest ones stay.
    """
    is_over = np.ones(len(streams), dtype=np.bool_)
    for numbers in (keys.live, keys.pending, keys.with_sid):
        is_over[numbers[numbers >= 0]] = False
    over = np.flatnonzero(is_over)
    mask = np.zeros(len(streams), dtype=np.bool_)
    mask[over[np.argsort(streams.latest.row[over], kind="stable")[: max(0, len(over) - limit)]]] = (
        True
    )
    return mask


def before_those(
    mask: BoolArray, streams: Streams, hosts: Mapping[int, str], closed: IntArray
) -> BoolArray:
    """Returns a mask of finished streams that the same host opened before a chosen one, for the
    same vbucket and stream-id.

    ``closed``: connections whose end also ends their streams.
    """
    latest: dict[tuple[str, int, int], int] = {}
    columns = (streams.connection, streams.vbucket, streams.sid, streams.opened.time)
    keys = [
        (hosts.get(column_values[0], ""), column_values[1], column_values[2])
        for column_values in zip(*(column.tolist() for column in columns[:3]), strict=True)
    ]
    opened_rows = columns[3].tolist()
    for number in np.flatnonzero(mask).tolist():
        latest[keys[number]] = max(opened_rows[number], latest.get(keys[number], 0))
    is_over = np.isin(streams.state, _OVER) | np.isin(streams.connection, closed)
    for number in np.flatnonzero(is_over).tolist():
        is_over[number] = opened_rows[number] <= latest.get(keys[number], -1)
    return is_over
