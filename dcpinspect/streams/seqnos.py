"""Kernel steps for the messages that have a seqno: order, gaps, and what a snapshot has received."""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline
from dcpinspect.protocol.flags import DISK, FROM_LATEST, HISTORY
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.lookup import copy_place, find_key, has_doubt, is_late, losses_of, note


@inline
def touch(st: int, i: int, messages: Ints, connections: Ints, streams: Ints, snapshots: Ints) -> None:
    """Message ``i`` is of stream ``st``: what was lost since the latest one suspends what needs to know everything."""
    c = streams[st, s.S_CONNECTION]
    losses = losses_of(c, connections)
    if streams[st, s.S_LOSSES] != losses:
        streams[st, s.S_LOSSES] = losses
        taint(st, streams, snapshots)
    streams[st, s.S_ORPHANS] = connections[c, s.C_ORPHANS]
    copy_place(messages, i, streams, st, s.S_LATEST)
    streams[st, s.S_BYTES] += messages[s.M_SIZE, i]


@inline
def taint(st: int, streams: Ints, snapshots: Ints) -> None:
    """Something of stream ``st`` was not captured."""
    streams[st, s.S_SUSPENDED] = 1
    streams[st, s.S_WHOLE] = 0
    n = streams[st, s.S_SNAPSHOT]
    if n >= 0:
        snapshots[n, s.N_TAINTED] = 1
        if snapshots[n, s.N_HAS_FIRST_EVENT] == 0:
            snapshots[n, s.N_HAS_FIRST_EVENT] = 2
    n = streams[st, s.S_IN_OSO]
    if n >= 0:
        snapshots[n, s.N_TAINTED] = 1


@inline
def enter_gap(
    st: int,
    before: int,
    flags: int,
    i: int,
    messages: Ints,
    connections: Ints,
    streams: Ints,
    gaps: Ints,
    counts: Ints,
) -> None:
    """Everything between the position of stream ``st`` and ``before``, which message ``i`` gives, was not delivered."""
    g = counts[s.N_GAPS]
    counts[s.N_GAPS] = g + 1
    c = streams[st, s.S_CONNECTION]
    losses = losses_of(c, connections)
    if streams[st, s.S_POSITION_LOSSES] != losses:
        flags |= s.G_IS_LOST
    gaps[g, s.G_STREAM] = st
    gaps[g, s.G_AFTER] = streams[st, s.S_POSITION]
    gaps[g, s.G_BEFORE] = before
    gaps[g, s.G_FLAGS] = flags
    gaps[g, s.G_SNAPSHOT] = streams[st, s.S_SNAPSHOT]
    for part in range(s.PLACE):
        gaps[g, s.G_AFTER_AT + part] = streams[st, s.S_AT + part]
    copy_place(messages, i, gaps, g, s.G_BEFORE_AT)
    gaps[g, s.G_LOSS] = connections[c, s.C_LAST_LOSS + connections[c, s.C_PRODUCER]] if flags & s.G_IS_LOST else -1
    gaps[g, s.G_LOSSES] = losses - max(0, streams[st, s.S_POSITION_LOSSES])
    gaps[g, s.G_UNREADABLE] = streams[st, s.S_UNREADABLE] if streams[st, s.S_POSITION_LOSSES] < 0 else -1


@inline
def move(st: int, position: int, by: int, i: int, messages: Ints, connections: Ints, streams: Ints) -> None:
    """Stream ``st`` has accounted for everything up to ``position``, as message ``i`` shows."""
    streams[st, s.S_HAS_POSITION] = 1
    streams[st, s.S_POSITION] = position
    streams[st, s.S_POSITION_BY] = by
    streams[st, s.S_POSITION_IN] = streams[st, s.S_SNAPSHOT]
    streams[st, s.S_POSITION_LOSSES] = losses_of(streams[st, s.S_CONNECTION], connections)
    copy_place(messages, i, streams, st, s.S_AT)


@inline
def see(seqno: int, table: Ints, row: int, seen: int, first: int, last: int) -> None:
    """Counts a seqno in ``table``: how many, the first, the greatest."""
    if table[row, seen] == 0:
        table[row, first] = seqno
        table[row, last] = seqno
    elif seqno > table[row, last]:
        table[row, last] = seqno
    table[row, seen] += 1


@inline
def in_oso(n: int, i: int, kind: int, messages: Ints, snapshots: Ints, seqnos: Ints, counts: Ints) -> None:
    """A message of an out-of-order snapshot: no order, no range."""
    seqno = messages[s.M_SEQNO, i]
    if kind == s.SEQNO_ADVANCED:
        if snapshots[n, s.N_HAS_ADVANCED] == 0 or seqno > snapshots[n, s.N_ADVANCED]:
            snapshots[n, s.N_ADVANCED] = seqno
            snapshots[n, s.N_ADVANCED_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
        snapshots[n, s.N_HAS_ADVANCED] = 1
        return
    o = counts[s.N_OSO]
    counts[s.N_OSO] = o + 1
    seqnos[o, s.O_SNAPSHOT] = n
    seqnos[o, s.O_SEQNO] = seqno
    snapshots[n, s.N_ITEMS] += 1
    if snapshots[n, s.N_SEEN] > 0 and seqno < snapshots[n, s.N_FIRST]:
        snapshots[n, s.N_FIRST] = seqno
    see(seqno, snapshots, n, s.N_SEEN, s.N_FIRST, s.N_LAST)


@inline
def may_be_over(n: int, seqno: int, history: int, snapshots: Ints) -> bool:
    """Whether the marker of a seqno may be among what was lost since that of snapshot ``n``."""
    if snapshots[n, s.N_LAYOUT] == s.UPR_LAYOUT or seqno > snapshots[n, s.N_END]:
        return True
    # a snapshot from disk may be followed by the history of the same range
    return bool(history != 0 and snapshots[n, s.N_FLAGS] & (DISK | HISTORY) == DISK)


@inline
def on_seqno(
    st: int,
    i: int,
    kind: int,
    messages: Ints,
    connections: Ints,
    streams: Ints,
    snapshots: Ints,
    gaps: Ints,
    anomalies: Ints,
    seqnos: Ints,
    counts: Ints,
) -> None:
    """An event of stream ``st``, or SeqnoAdvanced."""
    seqno = messages[s.M_SEQNO, i]
    is_advanced = kind == s.SEQNO_ADVANCED
    n = streams[st, s.S_IN_OSO]
    if n >= 0:
        if streams[st, s.S_SEEN] > 0:
            streams[st, s.S_FIRST] = min(streams[st, s.S_FIRST], seqno)
        see(seqno, streams, st, s.S_SEEN, s.S_FIRST, s.S_LAST)
        in_oso(n, i, kind, messages, snapshots, seqnos, counts)
        return
    n = streams[st, s.S_SNAPSHOT]
    suspended = streams[st, s.S_SUSPENDED] != 0
    has_position = streams[st, s.S_HAS_POSITION] != 0
    position = streams[st, s.S_POSITION]
    is_known = streams[st, s.S_FORM] > 0
    has_range = n >= 0 and snapshots[n, s.N_LAYOUT] != s.UPR_LAYOUT
    if suspended and n >= 0 and may_be_over(n, seqno, connections[streams[st, s.S_CONNECTION], s.C_HISTORY], snapshots):
        if snapshots[n, s.N_STATE] == w.OPEN:
            snapshots[n, s.N_STATE] = w.NOT_KNOWN
        streams[st, s.S_SNAPSHOT] = -1
        n = -1
        has_range = False
    is_low = has_position and seqno <= position
    # where a stream from latest began is known from its first marker, which may name the seqno that follows
    is_from_latest = is_known and streams[st, s.S_FLAGS] & FROM_LATEST != 0
    is_first_of_latest = is_from_latest and seqno == position and streams[st, s.S_POSITION_BY] == s.BY_START
    if is_low and suspended:
        streams[st, s.S_DISORDER] = 1
    if streams[st, s.S_DISORDER]:
        see(seqno, streams, st, s.S_SEEN, s.S_FIRST, s.S_LAST)
        if not is_low:
            streams[st, s.S_POSITION] = seqno
        return
    fault = -1
    if n < 0 and not suspended and is_known and streams[st, s.S_MARKERS] == 0:
        fault = w.BEFORE_MARKER
        note(fault, i, st, seqno, kind, messages, streams, anomalies, counts)
    if is_low:
        if fault < 0 and not is_advanced and seqno == position and streams[st, s.S_POSITION_BY] == s.BY_ADVANCED:
            note(w.REPEATED, i, st, seqno, position, messages, streams, anomalies, counts)
            streams[st, s.S_POSITION_BY] = s.BY_EVENT
        elif fault < 0 and is_first_of_latest:
            move(st, seqno, s.BY_EVENT, i, messages, connections, streams)
        elif fault < 0:
            fault = w.BELOW_START if streams[st, s.S_POSITION_BY] == s.BY_START else w.NOT_INCREASING
            note(fault, i, st, seqno, position, messages, streams, anomalies, counts)
        see(seqno, streams, st, s.S_SEEN, s.S_FIRST, s.S_LAST)
        see_in_snapshot(n, seqno, is_advanced, messages[s.M_PLACE + s.AT_TIME, i], snapshots)
        return
    within = n >= 0 and is_within(n, seqno, snapshots)
    if has_range and not within and not suspended and fault < 0:
        note(w.OUTSIDE_SNAPSHOT, i, st, seqno, kind, messages, streams, anomalies, counts)
    # before the first marker of an implicit stream, and where an out-of-order snapshot may run, nobody knows what should have come
    is_vague = n < 0 and suspended and (not is_known or connections[streams[st, s.S_CONNECTION], s.C_OSO] != 0)
    is_jump = has_position and (is_advanced or seqno - 1 > position)
    is_lost = streams[st, s.S_POSITION_LOSSES] != losses_of(streams[st, s.S_CONNECTION], connections)
    if is_jump and (is_lost or is_advanced or not is_vague):
        flags = 0
        if within:
            flags |= s.G_IN_RANGE
        if streams[st, s.S_POSITION_BY] == s.BY_EVENT and n >= 0 and streams[st, s.S_POSITION_IN] == n:
            flags |= s.G_BOTH_EVENTS
        is_unmarked = streams[st, s.S_POSITION_BY] == s.BY_EVENT and streams[st, s.S_POSITION_IN] < 0
        has_lost = not is_known or losses_of(streams[st, s.S_CONNECTION], connections) > 0 or streams[st, s.S_UNREADABLE] > 0
        is_in_range = has_range and snapshots[n, s.N_START] <= position + 1 <= snapshots[n, s.N_END]
        if (n < 0 and suspended) or (is_unmarked and has_lost and not is_in_range):
            flags |= s.G_NO_MARKER
        if streams[st, s.S_POSITION_BY] == s.BY_START:
            flags |= s.G_FROM_START
        if is_in_range or streams[st, s.S_POSITION_BY] != s.BY_EVENT or is_within(streams[st, s.S_POSITION_IN], position, snapshots):
            flags |= s.G_AT_EDGE
        before = seqno
        if is_advanced:
            flags |= s.G_IS_ADVANCED
            before = seqno + 1 if seqno < s.GREATEST else seqno
        if before - 1 > position:
            enter_gap(st, before, flags, i, messages, connections, streams, gaps, counts)
    see(seqno, streams, st, s.S_SEEN, s.S_FIRST, s.S_LAST)
    move(st, seqno, s.BY_ADVANCED if is_advanced else s.BY_EVENT, i, messages, connections, streams)
    see_in_snapshot(n, seqno, is_advanced, messages[s.M_PLACE + s.AT_TIME, i], snapshots)


@inline
def is_within(n: int, seqno: int, snapshots: Ints) -> bool:
    """Whether a seqno lies inside the range of snapshot ``n``, -1 for none; an out-of-order one has all that came in it."""
    if n < 0 or snapshots[n, s.N_LAYOUT] == s.UPR_LAYOUT:
        return False
    return bool(snapshots[n, s.N_LAYOUT] == s.OSO_LAYOUT or snapshots[n, s.N_START] <= seqno <= snapshots[n, s.N_END])


@inline
def see_in_snapshot(n: int, seqno: int, is_advanced: bool, time_ns: int, snapshots: Ints) -> None:
    """Counts what came in snapshot ``n``, -1 for none, wherever its seqno lies; its end completes it."""
    if n < 0:
        return
    see(seqno, snapshots, n, s.N_SEEN, s.N_FIRST, s.N_LAST)
    if not is_advanced:
        snapshots[n, s.N_ITEMS] += 1
        if snapshots[n, s.N_HAS_FIRST_EVENT] == 0:
            snapshots[n, s.N_HAS_FIRST_EVENT] = 1
            snapshots[n, s.N_FIRST_EVENT] = seqno
    if is_within(n, seqno, snapshots):
        snapshots[n, s.N_REACHED] = max(snapshots[n, s.N_REACHED], seqno)
        if seqno == snapshots[n, s.N_END] and snapshots[n, s.N_STATE] == w.OPEN:
            snapshots[n, s.N_STATE] = w.COMPLETE_ADVANCED if is_advanced else w.COMPLETE
            snapshots[n, s.N_REACHED_TIME] = time_ns


@inline
def say_standing(st: int, i: int, messages: Ints, streams: Ints) -> None:
    """Writes at event ``i`` which stream and snapshot it is of, and what is certain about it."""
    standing = s.IS_EVENT
    if streams[st, s.S_SUSPENDED] != 0 or streams[st, s.S_DISORDER] != 0:
        standing |= s.IS_SUSPENDED
    if streams[st, s.S_WHOLE] != 0:
        standing |= s.IS_WHOLE
    if streams[st, s.S_FORM] > 0:
        standing |= s.IS_ASKED
    oso = streams[st, s.S_IN_OSO]
    messages[s.M_STREAM, i] = st
    messages[s.M_SNAPSHOT, i] = oso if oso >= 0 else streams[st, s.S_SNAPSHOT]
    messages[s.M_STANDING, i] = standing


@inline
def on_seqno_ack(
    i: int, seed: int, messages: Ints, connections: Ints, slots: Ints, keys: Ints, streams: Ints, anomalies: Ints, counts: Ints
) -> None:
    """A replica has all prepares up to a seqno."""
    c, seqno = messages[s.M_CONNECTION, i], messages[s.M_SEQNO, i]
    k = find_key(c, messages[s.M_VBUCKET, i], messages[s.M_SID, i], seed, slots, keys)
    st = keys[k, s.K_LIVE] if k >= 0 else -1
    if st < 0 or streams[st, s.S_OPAQUE] != messages[s.M_OPAQUE, i] or is_late(i, messages, connections):
        return
    known = streams[st, s.S_ACKNOWLEDGED]
    if seqno < known and not has_doubt(st, connections, streams):
        note(w.ACK_REGRESS, i, st, seqno, known, messages, streams, anomalies, counts)
    streams[st, s.S_ACKNOWLEDGED] = seqno
    copy_place(messages, i, streams, st, s.S_ACKNOWLEDGED_AT)
