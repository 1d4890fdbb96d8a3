"""Kernel steps for snapshot markers, out-of-order snapshots and the end of streams: snapshots begin and are over."""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline
from dcpinspect.protocol.flags import DISK, FROM_LATEST, HISTORY, OSO_END, OSO_START
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.lookup import copy_place, losses_of, note
from dcpinspect.streams.seqnos import enter_gap, move


@inline
def begin_snapshot(st: int, i: int, messages: Ints, streams: Ints, snapshots: Ints, counts: Ints) -> int:
    """A row for a snapshot that message ``i`` begins; the caller fills in what the message says."""
    n = counts[s.N_SNAPSHOTS]
    counts[s.N_SNAPSHOTS] = n + 1
    for column in range(s.SNAPSHOT):
        snapshots[n, column] = 0
    streams[st, s.S_MARKERS] += 1
    snapshots[n, s.N_STREAM] = st
    snapshots[n, s.N_INDEX] = streams[st, s.S_MARKERS]
    snapshots[n, s.N_CLOSED_ROW] = -1
    snapshots[n, s.N_REACHED] = s.LEAST
    snapshots[n, s.N_HAS_BEFORE] = streams[st, s.S_HAS_POSITION]
    snapshots[n, s.N_BEFORE] = streams[st, s.S_POSITION]
    snapshots[n, s.N_DISK_END] = streams[st, s.S_DISK_END]
    copy_place(messages, i, snapshots, n, s.N_PLACE)
    return int(n)


@inline
def miss_tail(st: int, n: int, i: int, messages: Ints, connections: Ints, streams: Ints, snapshots: Ints, gaps: Ints, counts: Ints) -> None:
    """Snapshot ``n`` is over and its end never came: what it promised behind the position is a gap."""
    end = snapshots[n, s.N_END]
    if streams[st, s.S_HAS_POSITION] == 0 or end <= streams[st, s.S_POSITION]:
        return
    before = end + 1 if end < s.GREATEST else end
    enter_gap(st, before, s.G_IS_TAIL, i, messages, connections, streams, gaps, counts)
    move(st, end, s.BY_END, i, messages, connections, streams)


@inline
def leave_snapshot(
    st: int, i: int, promised: int, messages: Ints, connections: Ints, streams: Ints, snapshots: Ints, gaps: Ints, counts: Ints
) -> None:
    """The current snapshot is over before its end came. ``promised``: everything up to its end should have come."""
    n = streams[st, s.S_SNAPSHOT]
    if n < 0:
        return
    snapshots[n, s.N_CLOSED_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    if snapshots[n, s.N_STATE] != w.OPEN:
        return
    # what came last in it is known if nothing has been lost since, whatever was before
    is_sure = streams[st, s.S_POSITION_IN] == n and streams[st, s.S_POSITION_LOSSES] == losses_of(streams[st, s.S_CONNECTION], connections)
    is_sure = is_sure and streams[st, s.S_POSITION_BY] != s.BY_START and snapshots[n, s.N_SEEN] > 0
    is_tainted = snapshots[n, s.N_TAINTED] or streams[st, s.S_SUSPENDED]
    if (is_tainted and not is_sure) or snapshots[n, s.N_LAYOUT] == s.UPR_LAYOUT:
        snapshots[n, s.N_STATE] = w.NOT_KNOWN
    elif promised:
        snapshots[n, s.N_STATE] = w.INCOMPLETE
        if snapshots[n, s.N_OVERLAPPED] == 0:
            miss_tail(st, n, i, messages, connections, streams, snapshots, gaps, counts)
    else:
        snapshots[n, s.N_STATE] = w.CUT


@inline
def on_marker(
    st: int,
    i: int,
    messages: Ints,
    extras: Ints,
    connections: Ints,
    streams: Ints,
    snapshots: Ints,
    gaps: Ints,
    anomalies: Ints,
    counts: Ints,
) -> None:
    """A snapshot marker of stream ``st``."""
    if streams[st, s.S_IN_OSO] >= 0:
        if streams[st, s.S_SUSPENDED] == 0:
            note(w.OSO_STRUCTURE, i, st, 2, 0, messages, streams, anomalies, counts)
            return
        lose_oso(st, i, messages, streams, snapshots)
    x = messages[s.M_EXTRA, i]
    start, end, flags, layout = extras[x, s.X_START], extras[x, s.X_END], extras[x, s.X_TYPE], extras[x, s.X_LAYOUT]
    old = streams[st, s.S_SNAPSHOT]
    suspended = streams[st, s.S_SUSPENDED]
    is_inverted = layout != s.UPR_LAYOUT and start > end  # nobody knows what it announces
    place = w.LATER
    is_merged = 0
    if streams[st, s.S_MARKERS] == 0:
        place = w.PERHAPS_FIRST if suspended or streams[st, s.S_FORM] == 0 else w.FIRST
    elif suspended and flags & HISTORY != 0:
        place = w.PERHAPS_FIRST  # its prologue may be lost
    elif suspended:
        place = w.PERHAPS_LATER
    if old >= 0 and snapshots[old, s.N_LAYOUT] != s.UPR_LAYOUT and layout != s.UPR_LAYOUT:
        is_prologue = start == snapshots[old, s.N_START] and end == snapshots[old, s.N_END] and flags & HISTORY != 0
        is_over = snapshots[old, s.N_STATE] != w.OPEN
        if is_prologue and not suspended:  # else the range may be that of another stream, whose request is lost
            place = snapshots[old, s.N_POSITION]
            if not is_over:
                snapshots[old, s.N_STATE] = w.CONTINUED
        elif start <= snapshots[old, s.N_END] and not is_prologue:
            snapshots[old, s.N_OVERLAPPED] = 1
            is_merged = 1
            if not suspended and not is_inverted:
                is_behind = streams[st, s.S_HAS_POSITION] != 0 and end <= streams[st, s.S_POSITION]
                note(w.BEHIND if is_behind else w.OVERLAP, i, st, start, end, messages, streams, anomalies, counts)
        elif not suspended and not is_inverted and streams[st, s.S_HAS_POSITION] != 0 and end <= streams[st, s.S_POSITION]:
            note(w.BEHIND, i, st, start, end, messages, streams, anomalies, counts)
    leave_snapshot(st, i, 1, messages, connections, streams, snapshots, gaps, counts)
    if flags & DISK != 0 and end > streams[st, s.S_DISK_END]:
        streams[st, s.S_DISK_END] = end
    n = begin_snapshot(st, i, messages, streams, snapshots, counts)
    snapshots[n, s.N_IS_MERGED] = is_merged
    snapshots[n, s.N_START] = start
    snapshots[n, s.N_END] = end
    snapshots[n, s.N_FLAGS] = flags
    snapshots[n, s.N_LAYOUT] = layout
    snapshots[n, s.N_POSITION] = place
    for part in range(5):
        snapshots[n, s.N_MAX_VISIBLE + part] = extras[x, s.X_MAX_VISIBLE + part]
    streams[st, s.S_STATE] = w.STREAMING if streams[st, s.S_STATE] < w.STREAMING else streams[st, s.S_STATE]
    streams[st, s.S_SNAPSHOT] = n
    streams[st, s.S_SUSPENDED] = 0
    streams[st, s.S_DISORDER] = 0
    if is_inverted:
        streams[st, s.S_SUSPENDED] = 1
        snapshots[n, s.N_TAINTED] = 1
    if place == w.FIRST and streams[st, s.S_HAS_POSITION] == 0 and streams[st, s.S_FLAGS] & FROM_LATEST != 0 and layout != s.UPR_LAYOUT:
        move(st, start, s.BY_START, i, messages, connections, streams)


@inline
def lose_oso(st: int, i: int, messages: Ints, streams: Ints, snapshots: Ints) -> None:
    """The end of the out-of-order snapshot was not captured."""
    n = streams[st, s.S_IN_OSO]
    snapshots[n, s.N_STATE] = w.NOT_KNOWN
    snapshots[n, s.N_CLOSED_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    streams[st, s.S_IN_OSO] = -1
    if snapshots[n, s.N_SEEN] > 0:
        last = snapshots[n, s.N_LAST]
        if streams[st, s.S_HAS_POSITION] == 0 or last > streams[st, s.S_POSITION]:
            streams[st, s.S_HAS_POSITION] = 1
            streams[st, s.S_POSITION] = last
            streams[st, s.S_POSITION_BY] = s.BY_EVENT
            streams[st, s.S_POSITION_IN] = -1


@inline
def on_oso(
    st: int,
    i: int,
    messages: Ints,
    connections: Ints,
    streams: Ints,
    snapshots: Ints,
    gaps: Ints,
    anomalies: Ints,
    counts: Ints,
) -> None:
    """The start or the end of an out-of-order snapshot of stream ``st``."""
    flags = messages[s.M_EXTRA, i]
    n = streams[st, s.S_IN_OSO]
    suspended = streams[st, s.S_SUSPENDED] != 0
    if flags != OSO_START and flags != OSO_END:
        note(w.OSO_STRUCTURE, i, st, 3, flags, messages, streams, anomalies, counts)
        return
    if flags == OSO_START:
        if n >= 0:
            if not suspended:
                note(w.OSO_STRUCTURE, i, st, 1, 0, messages, streams, anomalies, counts)
                return
            lose_oso(st, i, messages, streams, snapshots)
        leave_snapshot(st, i, 1, messages, connections, streams, snapshots, gaps, counts)
        streams[st, s.S_SNAPSHOT] = -1
        n = begin_snapshot(st, i, messages, streams, snapshots, counts)
        snapshots[n, s.N_LAYOUT] = s.OSO_LAYOUT
        streams[st, s.S_DISK_END] = s.GREATEST  # it comes from disk, and has no end
        snapshots[n, s.N_POSITION] = w.NO_POSITION
        if streams[st, s.S_POSITION_LOSSES] != losses_of(streams[st, s.S_CONNECTION], connections):
            snapshots[n, s.N_TAINTED] = 1
        streams[st, s.S_IN_OSO] = n
        streams[st, s.S_STATE] = w.STREAMING if streams[st, s.S_STATE] < w.STREAMING else streams[st, s.S_STATE]
        streams[st, s.S_SUSPENDED] = 0
        streams[st, s.S_DISORDER] = 0
        return
    if n < 0:
        if not suspended and streams[st, s.S_FORM] > 0:
            note(w.OSO_STRUCTURE, i, st, 0, 0, messages, streams, anomalies, counts)
        streams[st, s.S_DISORDER] = 0
        streams[st, s.S_HAS_POSITION] = 0  # what came in it since its start, which was not captured, nobody knows
        return
    snapshots[n, s.N_STATE] = w.COMPLETE_OSO
    snapshots[n, s.N_CLOSED_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    if snapshots[n, s.N_TAINTED]:
        c = streams[st, s.S_CONNECTION]
        snapshots[n, s.N_LOSS] = connections[c, s.C_LAST_LOSS + connections[c, s.C_PRODUCER]]
    losses = streams[st, s.S_POSITION_LOSSES]
    if snapshots[n, s.N_SEEN] > 0 and (streams[st, s.S_HAS_POSITION] == 0 or snapshots[n, s.N_LAST] > streams[st, s.S_POSITION]):
        move(st, snapshots[n, s.N_LAST], s.BY_EVENT, i, messages, connections, streams)
        streams[st, s.S_POSITION_IN] = n
        if snapshots[n, s.N_TAINTED]:  # there may have been more
            streams[st, s.S_POSITION_LOSSES] = losses
    advanced = snapshots[n, s.N_ADVANCED]
    if snapshots[n, s.N_HAS_ADVANCED] and (streams[st, s.S_HAS_POSITION] == 0 or advanced > streams[st, s.S_POSITION]):
        if streams[st, s.S_HAS_POSITION]:
            before = advanced + 1 if advanced < s.GREATEST else advanced
            if before - 1 > streams[st, s.S_POSITION]:
                enter_gap(st, before, s.G_IS_ADVANCED, i, messages, connections, streams, gaps, counts)
                gaps[counts[s.N_GAPS] - 1, s.G_SNAPSHOT] = n
        move(st, advanced, s.BY_ADVANCED, i, messages, connections, streams)
    streams[st, s.S_IN_OSO] = -1
