"""The table of snapshots: what each marker said, which rule for start seqnos it follows, and
whether everything came.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import CHECKPOINT, DISK, FROM_LATEST, MEMORY, SNAPSHOT_FLAGS
from dcpinspect.streams import transitions as t
from dcpinspect.streams import words as w
from dcpinspect.streams.record_codes import (
    HAS_COMPLETED,
    HAS_PREPARED,
    HAS_PURGE,
    HAS_VISIBLE,
    OSO_LAYOUT,
    UPR_LAYOUT,
)
from dcpinspect.streams.records import FILE_SHIFT, Gaps, Snapshots, Streams
from dcpinspect.streams.state import unbiased
from dcpinspect.streams.table_columns import SNAPSHOTS
from dcpinspect.tables.record_tables import ColumnValues, Records, WordColumn

_MEMORY_1, _MEMORY_2, _MEMORY_3, _DISK_1, _DISK_LATER, _DISK_3, _IRREGULAR, _UNKNOWN = range(8)


def conventions(snapshots: Snapshots, streams: Streams, is_blind: BoolArray) -> IntArray:
    """Returns the number of each marker's convention; -1 for OSO snapshots, which have none.
    ``is_blind``: as in ``snapshot_records``.

    Memory snapshots start at the requested position (1), at the first seqno of their checkpoint
    (2), or with the event that follows (3). Disk snapshots start at the requested position (1), at
    the start of a later backfill (2), or of a disk checkpoint sent from memory (3). Backfills have
    the checkpoint flag since 2019 (kv_engine f0a3971a1). Without it, only the first event tells a
    later backfill from the rest of a disk checkpoint.
    """
    number = snapshots.stream
    start, flags, position = snapshots.start, snapshots.flags, snapshots.position
    is_disk = (flags & DISK) != 0
    is_memory = ((flags & MEMORY) != 0) | (flags == 0)
    has_checkpoint = (flags & CHECKPOINT) != 0
    first_event = snapshots.has_first_event
    is_start = (first_event == 1) & (snapshots.first_event == start)
    is_above = (first_event == 1) & (snapshots.first_event > start)
    # the first captured event may not be the snapshot's first
    is_open = first_event != 1
    asked_start, has_range = streams.request.start[number], streams.request.has_range[number] != 0
    is_asked = streams.request.is_captured[number] != 0
    from_latest = (streams.request.flags[number] & FROM_LATEST) != 0
    at_request = is_asked & (
        (start == asked_start)
        | (has_range & (start == streams.request.snapshot_start[number]))
        | from_latest
    )
    is_first = (position == w.FIRST) | ((position == w.PERHAPS_FIRST) & at_request & ~from_latest)
    with_first_event = np.where(is_open, _UNKNOWN, np.where(is_start, _MEMORY_3, _IRREGULAR))
    later_memory = np.where(has_checkpoint, _MEMORY_2, with_first_event)
    later_disk = np.where(
        has_checkpoint | is_above, _DISK_LATER, np.where(is_start, _DISK_3, with_first_event)
    )
    from_above = is_asked & (start > asked_start) & ~has_checkpoint
    first_memory = np.where(
        at_request, _MEMORY_1, np.where(from_above, with_first_event, _IRREGULAR)
    )
    first_disk = np.where(at_request, _DISK_1, _IRREGULAR)
    of_memory = np.where(is_first, first_memory, later_memory)
    of_disk = np.where(is_first, first_disk, later_disk)
    conventions_found = np.where(
        is_memory & ~is_disk, of_memory, np.where(is_disk & ~is_memory, of_disk, _IRREGULAR)
    )
    # nobody knows whether it is the first, and the convention that a later one would have need not
    # be right
    conventions_found[
        ((position == w.PERHAPS_FIRST) & ~is_first)
        | ((position == w.PERHAPS_LATER) & is_blind[number])
    ] = _UNKNOWN
    conventions_found[snapshots.layout == UPR_LAYOUT] = _UNKNOWN
    conventions_found[snapshots.layout == OSO_LAYOUT] = -1
    return np.asarray(conventions_found, dtype=np.int64)


def states(
    snapshots: Snapshots,
    *,
    is_over: BoolArray,
    is_lost: BoolArray,
    is_replica: BoolArray,
    is_known: BoolArray,
) -> IntArray:
    """Returns the state of every snapshot.

    The masks have one element for each stream. ``is_over``: the stream is over. ``is_lost``:
    something after its latest message was lost. ``is_replica``: its vbucket is known to be a
    replica. ``is_known``: everything is known of its connection.
    """
    number = snapshots.stream
    final_states = snapshots.state.copy()
    runs = final_states == t.OPEN
    unsure = is_lost[number] | (snapshots.is_tainted != 0) | (snapshots.layout == UPR_LAYOUT)
    final_states[runs & is_over[number]] = t.CUT
    final_states[runs & unsure] = t.NOT_KNOWN
    # a marker that overlaps it may be among the lost bytes
    final_states[
        (snapshots.is_tainted != 0)
        & np.isin(final_states, (t.COMPLETE, t.COMPLETE_ADVANCED))
        & is_replica[number]
    ] = t.NOT_KNOWN
    overlapped = (final_states == t.INCOMPLETE) & (snapshots.is_overlapped != 0)
    final_states[overlapped & ~is_known[number]] = t.NOT_KNOWN  # it may be a replica's
    final_states[overlapped & is_replica[number]] = t.CONTINUED
    return final_states


def types(snapshots: Snapshots) -> IntArray:
    """Returns the number of every snapshot's type."""
    flags = snapshots.flags
    is_disk, is_memory = (flags & DISK) != 0, ((flags & MEMORY) != 0) | (flags == 0)
    snapshot_types = np.where(is_disk & ~is_memory, 1, np.where(is_memory & ~is_disk, 0, 3))
    layout = snapshots.layout
    return np.where(layout == OSO_LAYOUT, 2, np.where(layout == UPR_LAYOUT, 3, snapshot_types))


def _until(snapshots: Snapshots, streams: Streams) -> IntArray:
    """Returns when the next snapshot of the same stream began; for a stream's last snapshot, when
    the stream's latest message came.
    """
    in_order = np.lexsort((snapshots.place.row, snapshots.stream))
    until: IntArray = np.maximum(streams.latest.time[snapshots.stream], snapshots.place.time)
    is_followed = np.diff(snapshots.stream[in_order]) == 0
    until[in_order[:-1][is_followed]] = snapshots.place.time[in_order[1:][is_followed]]
    return until


def _lost_seqnos(snapshots: Snapshots, lost: Gaps) -> npt.NDArray[np.uint64]:
    """Returns how many seqnos of each snapshot's range are in gaps."""
    inside = lost[lost.snapshot >= 0]
    of_gaps = snapshots[inside.snapshot]
    has_range = of_gaps.layout > UPR_LAYOUT
    first = np.where(has_range, np.maximum(inside.after + 1, of_gaps.start), inside.after + 1)
    last = np.where(has_range, np.minimum(inside.before - 1, of_gaps.end), inside.before - 1)
    widths = np.where(first <= last, unbiased(last) - unbiased(first) + np.uint64(1), 0)
    counts = np.zeros(len(snapshots), np.uint64)
    np.add.at(counts, inside.snapshot, widths.astype(np.uint64))
    return counts


def snapshot_records(
    snapshots: Snapshots,
    streams: Streams,
    state: IntArray,
    is_blind: BoolArray,
    lost: Gaps,
) -> Records:
    """Returns the table of snapshots.

    ``state``: as from ``states``. ``is_blind``: streams whose consumer may have asked for another
    stream in bytes that were not captured. ``lost``: gaps with the cause capture-loss.
    """
    lost_seqnos = _lost_seqnos(snapshots, lost)
    number = snapshots.stream
    sid = streams.sid[number]
    has_range = snapshots.layout > UPR_LAYOUT
    has_marker = snapshots.layout >= 0
    present = snapshots.seqnos.present
    has_seqno = snapshots.seen > 0
    flags, flags_index = np.unique(snapshots.flags, return_inverse=True)
    names = [list(bit_names(SNAPSHOT_FLAGS, flag)) for flag in flags.tolist()]
    columns: dict[str, ColumnValues] = {
        "connection": NumberColumn(streams.connection[number]),
        "vbucket": NumberColumn(streams.vbucket[number]),
        "sid": NumberColumn(sid, sid >= 0),
        "stream": NumberColumn(streams.ordinal[number]),
        "index": NumberColumn(snapshots.index),
        "start_seqno": NumberColumn(unbiased(snapshots.start), has_range),
        "end_seqno": NumberColumn(unbiased(snapshots.end), has_range),
        "type": WordColumn(types(snapshots), w.SNAPSHOT_TYPES),
        "flags": WordColumn(flags_index.reshape(-1), names),
        "layout": WordColumn(np.where(has_marker, snapshots.layout, -1), w.SNAPSHOT_LAYOUTS),
        "convention": WordColumn(conventions(snapshots, streams, is_blind), w.CONVENTIONS),
        "items": NumberColumn(snapshots.items),
        "first_seqno": NumberColumn(unbiased(snapshots.first), has_seqno),
        "last_seqno": NumberColumn(unbiased(snapshots.last), has_seqno),
        "max_visible_seqno": NumberColumn(
            unbiased(snapshots.seqnos.max_visible), (present & HAS_VISIBLE) != 0
        ),
        "high_completed_seqno": NumberColumn(
            unbiased(snapshots.seqnos.high_completed), (present & HAS_COMPLETED) != 0
        ),
        "purge_seqno": NumberColumn(unbiased(snapshots.seqnos.purge), (present & HAS_PURGE) != 0),
        "high_prepared_seqno": NumberColumn(
            unbiased(snapshots.seqnos.high_prepared), (present & HAS_PREPARED) != 0
        ),
        "state": WordColumn(state, t.SNAPSHOT_STATES),
        "lost_seqnos": NumberColumn(lost_seqnos, lost_seqnos > 0),
        "row": NumberColumn(snapshots.place.row),
        "time": NumberColumn(snapshots.place.time),
        "until_time": NumberColumn(_until(snapshots, streams)),
    }
    return Records(SNAPSHOTS, columns, len(snapshots), file=snapshots.place.frame >> FILE_SHIFT)
