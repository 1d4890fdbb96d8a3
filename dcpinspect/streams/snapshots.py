"""The table of snapshots: what each marker said, which rule for start seqnos it follows, and whether everything came."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Mask, Numbers
from dcpinspect.protocol.fields import bit_names
from dcpinspect.protocol.flags import CHECKPOINT, DISK, FROM_LATEST, MEMORY, SNAPSHOT_FLAGS
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import SNAPSHOTS
from dcpinspect.tables.records import Records, Values, Worded

Table = npt.NDArray[np.int64]

_MEMORY_1, _MEMORY_2, _MEMORY_3, _DISK_1, _DISK_LATER, _DISK_3, _IRREGULAR, _UNKNOWN = range(8)


def conventions(snapshots: Table, streams: Table, is_blind: Mask) -> Table:
    """Number of the convention of every marker; -1 for out-of-order snapshots, which have none. ``is_blind``: as in ``snapshot_records``.

    Memory snapshots start at the requested position (1), at the first seqno of their checkpoint (2), or with the event that follows (3);
    disk snapshots at the requested position (1), at the start of a later backfill (2) or of a disk checkpoint sent from memory (3).
    Backfills have the checkpoint flag since 2019 (kv_engine f0a3971a1); without it only the first event tells a later one from the rest of
    a disk checkpoint.
    """
    number = snapshots[:, s.N_STREAM]
    start, flags, place = snapshots[:, s.N_START], snapshots[:, s.N_FLAGS], snapshots[:, s.N_POSITION]
    is_disk = (flags & DISK) != 0
    is_memory = ((flags & MEMORY) != 0) | (flags == 0)
    has_checkpoint = (flags & CHECKPOINT) != 0
    first_event = snapshots[:, s.N_HAS_FIRST_EVENT]
    is_start = (first_event == 1) & (snapshots[:, s.N_FIRST_EVENT] == start)
    is_above = (first_event == 1) & (snapshots[:, s.N_FIRST_EVENT] > start)
    # a later event may be the first that was captured
    is_open = first_event != 1
    form, asked_start = streams[number, s.S_FORM], streams[number, s.S_START]
    asked = form > 0
    from_latest = (streams[number, s.S_FLAGS] & FROM_LATEST) != 0
    at_request = asked & ((start == asked_start) | ((form == 1) & (start == streams[number, s.S_SNAPSHOT_START])) | from_latest)
    is_first = (place == w.FIRST) | ((place == w.PERHAPS_FIRST) & at_request & ~from_latest)
    with_first_event = np.where(is_open, _UNKNOWN, np.where(is_start, _MEMORY_3, _IRREGULAR))
    later_memory = np.where(has_checkpoint, _MEMORY_2, with_first_event)
    later_disk = np.where(has_checkpoint | is_above, _DISK_LATER, np.where(is_start, _DISK_3, with_first_event))
    from_above = asked & (start > asked_start) & ~has_checkpoint
    first_memory = np.where(at_request, _MEMORY_1, np.where(from_above, with_first_event, _IRREGULAR))
    first_disk = np.where(at_request, _DISK_1, _IRREGULAR)
    of_memory = np.where(is_first, first_memory, later_memory)
    of_disk = np.where(is_first, first_disk, later_disk)
    found = np.where(is_memory & ~is_disk, of_memory, np.where(is_disk & ~is_memory, of_disk, _IRREGULAR))
    # whether it is the first is not known, and what it would be as a later one need not be right
    found[((place == w.PERHAPS_FIRST) & ~is_first) | ((place == w.PERHAPS_LATER) & is_blind[number])] = _UNKNOWN
    found[snapshots[:, s.N_LAYOUT] == s.UPR_LAYOUT] = _UNKNOWN
    found[snapshots[:, s.N_LAYOUT] == s.OSO_LAYOUT] = -1
    return np.asarray(found, dtype=np.int64)


def states(snapshots: Table, *, is_over: Mask, is_lost: Mask, is_replica: Mask, is_known: Mask) -> Table:
    """State of every snapshot.

    By stream: whether it is over, whether something behind its latest message was lost, whether its vbucket is known to be a replica,
    whether all is known of its connection.
    """
    number = snapshots[:, s.N_STREAM]
    found = snapshots[:, s.N_STATE].copy()
    runs = found == w.OPEN
    unsure = is_lost[number] | (snapshots[:, s.N_TAINTED] != 0) | (snapshots[:, s.N_LAYOUT] == s.UPR_LAYOUT)
    found[runs & is_over[number]] = w.CUT
    found[runs & unsure] = w.NOT_KNOWN
    # a marker that overlaps it may be among what was lost
    found[(snapshots[:, s.N_TAINTED] != 0) & np.isin(found, (w.COMPLETE, w.COMPLETE_ADVANCED)) & is_replica[number]] = w.NOT_KNOWN
    overlapped = (found == w.INCOMPLETE) & (snapshots[:, s.N_OVERLAPPED] != 0)
    found[overlapped & ~is_known[number]] = w.NOT_KNOWN  # it may be a replica's
    found[overlapped & is_replica[number]] = w.CONTINUED
    return found


def types(snapshots: Table) -> Table:
    """Number of the type of every snapshot."""
    flags = snapshots[:, s.N_FLAGS]
    is_disk, is_memory = (flags & DISK) != 0, ((flags & MEMORY) != 0) | (flags == 0)
    found = np.where(is_disk & ~is_memory, 1, np.where(is_memory & ~is_disk, 0, 3))
    layout = snapshots[:, s.N_LAYOUT]
    return np.where(layout == s.OSO_LAYOUT, 2, np.where(layout == s.UPR_LAYOUT, 3, found))


def snapshot_records(snapshots: Table, streams: Table, state: Table, is_blind: Mask) -> Records:
    """The table; ``state`` as from ``states``; ``is_blind``: streams whose consumer may have asked for another in what was not captured."""
    number = snapshots[:, s.N_STREAM]
    sid = streams[number, s.S_SID]
    has_range = snapshots[:, s.N_LAYOUT] > s.UPR_LAYOUT
    has_marker = snapshots[:, s.N_LAYOUT] >= 0
    present = snapshots[:, s.N_PRESENT]
    has_seqno = snapshots[:, s.N_SEEN] > 0
    flags, which = np.unique(snapshots[:, s.N_FLAGS], return_inverse=True)
    names = [list(bit_names(SNAPSHOT_FLAGS, flag)) for flag in flags.tolist()]
    columns: dict[str, Values] = {
        "connection": Numbers(streams[number, s.S_CONNECTION]),
        "vbucket": Numbers(streams[number, s.S_VBUCKET]),
        "sid": Numbers(sid, sid >= 0),
        "stream": Numbers(streams[number, s.S_ORDINAL]),
        "index": Numbers(snapshots[:, s.N_INDEX]),
        "start_seqno": Numbers(s.unbiased(snapshots[:, s.N_START]), has_range),
        "end_seqno": Numbers(s.unbiased(snapshots[:, s.N_END]), has_range),
        "type": Worded(types(snapshots), w.SNAPSHOT_TYPES),
        "flags": Worded(which.reshape(-1), names),
        "layout": Worded(np.where(has_marker, snapshots[:, s.N_LAYOUT], -1), w.SNAPSHOT_LAYOUTS),
        "convention": Worded(conventions(snapshots, streams, is_blind), w.CONVENTIONS),
        "items": Numbers(snapshots[:, s.N_ITEMS]),
        "first_seqno": Numbers(s.unbiased(snapshots[:, s.N_FIRST]), has_seqno),
        "last_seqno": Numbers(s.unbiased(snapshots[:, s.N_LAST]), has_seqno),
        "max_visible_seqno": Numbers(s.unbiased(snapshots[:, s.N_MAX_VISIBLE]), (present & 1) != 0),
        "high_completed_seqno": Numbers(s.unbiased(snapshots[:, s.N_HIGH_COMPLETED]), (present & 2) != 0),
        "purge_seqno": Numbers(s.unbiased(snapshots[:, s.N_PURGE]), (present & 4) != 0),
        "high_prepared_seqno": Numbers(s.unbiased(snapshots[:, s.N_HIGH_PREPARED]), (present & 8) != 0),
        "state": Worded(state, w.SNAPSHOT_STATES),
        "row": Numbers(snapshots[:, s.N_PLACE + s.AT_ROW]),
        "time": Numbers(snapshots[:, s.N_PLACE + s.AT_TIME]),
    }
    return Records(SNAPSHOTS, columns, len(snapshots), file=snapshots[:, s.N_PLACE + s.AT_FRAME] >> s.FILE_SHIFT)
