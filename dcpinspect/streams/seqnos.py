"""Kernel steps for the messages that have a seqno: order, gaps, and what a snapshot has received."""

from __future__ import annotations

from dcpinspect.kernels.kernel import inline
from dcpinspect.protocol.flags import DISK, FROM_LATEST, HISTORY
from dcpinspect.streams import kinds as k
from dcpinspect.streams import transitions as t
from dcpinspect.streams import words as w
from dcpinspect.streams.lookup import find_key, has_doubt, is_late, losses_of, note
from dcpinspect.streams.rows import GREATEST, LEAST, Message, Snapshot, Stream
from dcpinspect.streams.state import State


@inline
def touch(state: State, message: Message, stream: Stream) -> None:
    """Notes that a message belongs to the stream; if bytes were lost since the stream's latest message, taints the stream."""
    connection = state.connections[stream.connection]
    losses = losses_of(connection)
    if stream.losses != losses:
        stream.losses = losses
        taint(state, stream)
    stream.orphans = connection.orphans
    stream.latest = message.place
    stream.bytes += message.size


@inline
def taint(state: State, stream: Stream) -> None:
    """Marks the stream and its current snapshots: something of the stream was not captured."""
    stream.suspended = 1
    stream.is_whole = 0
    if stream.snapshot >= 0:
        snapshot = state.snapshots[stream.snapshot]
        snapshot.is_tainted = 1
        if snapshot.has_first_event == 0:
            snapshot.has_first_event = 2
    if stream.in_oso >= 0:
        state.snapshots[stream.in_oso].is_tainted = 1


@inline
def enter_gap(state: State, message: Message, stream: Stream, before: int, flags: int, n: int) -> None:
    """Writes a gap: everything between the stream's position and ``before`` was not delivered. ``n``: snapshot of the message, -1 for
    none."""
    connection = state.connections[stream.connection]
    losses = losses_of(connection)
    if stream.position_losses != losses:
        flags |= k.IS_LOST
    g = state.counts.gaps
    state.counts.gaps = g + 1
    gap = state.gaps[g]
    gap.stream = stream.number
    gap.after = stream.position
    gap.before = before
    gap.flags = flags
    gap.snapshot = n
    gap.begins = stream.at
    gap.ends = message.place
    gap.loss = connection.last_loss[connection.producer] if flags & k.IS_LOST else -1
    gap.losses = losses - max(0, stream.position_losses)
    gap.unreadable = stream.unreadable if stream.position_losses < 0 else -1


@inline
def narrow_gap(state: State, message: Message, stream: Stream) -> None:
    """A seqno came that was taken to be missing: the start of an OSO snapshot was lost, and of the gap is left what lies below."""
    if stream.open_gap < 0:
        return
    gap = state.gaps[stream.open_gap]
    if LEAST < message.seqno < gap.before:
        gap.after = min(gap.after, message.seqno - 1)
        gap.before = message.seqno
        gap.ends = message.place


@inline
def move(state: State, message: Message, stream: Stream, position: int, by: int) -> None:
    """Moves the position: the stream has accounted for everything up to ``position``, as the message shows."""
    stream.has_position = 1
    stream.position = position
    stream.position_by = by
    stream.position_in = stream.snapshot
    stream.position_losses = losses_of(state.connections[stream.connection])
    stream.at = message.place


@inline
def take_back(stream: Stream, seqno: int) -> None:
    """Takes the position back before a seqno that leapt out of its snapshot, if a lower seqno inside its snapshot follows.

    The leap alone is the fault: one fault gets one complaint.
    """
    if stream.has_position != 0 and stream.before_leap < seqno <= stream.position:
        stream.position = stream.before_leap
        stream.before_leap = GREATEST


@inline
def see(seqno: int, of: Stream | Snapshot) -> None:
    """Counts a seqno of a stream or snapshot: how many, the first, the greatest."""
    if of.seen == 0:
        of.first = seqno
        of.last = seqno
    elif seqno > of.last:
        of.last = seqno
    of.seen += 1


@inline
def in_oso(state: State, message: Message, snapshot: Snapshot) -> None:
    """Handles a message of an OSO snapshot, which has neither order nor range."""
    seqno = message.seqno
    if message.kind == k.SEQNO_ADVANCED:
        if snapshot.has_advanced == 0 or seqno > snapshot.advanced:
            snapshot.advanced = seqno
            snapshot.advanced_row = message.place.row
        snapshot.has_advanced = 1
        return
    o = state.counts.oso_seqnos
    state.counts.oso_seqnos = o + 1
    state.oso_seqnos[o].snapshot = snapshot.number
    state.oso_seqnos[o].seqno = seqno
    snapshot.items += 1
    if snapshot.seen > 0 and seqno < snapshot.first:
        snapshot.first = seqno
    see(seqno, snapshot)


@inline
def may_be_over(snapshot: Snapshot, seqno: int, history: int) -> bool:
    """Returns whether the marker for a seqno may be among the bytes lost since the marker of this snapshot."""
    if snapshot.layout == k.UPR_LAYOUT or seqno > snapshot.end:
        return True
    # a snapshot from disk may be followed by the history of the same range
    return bool(history != 0 and snapshot.flags & (DISK | HISTORY) == DISK)


@inline
def on_seqno(state: State, message: Message, stream: Stream) -> None:
    """Handles an event of the stream, or a SeqnoAdvanced."""
    seqno = message.seqno
    is_advanced = message.kind == k.SEQNO_ADVANCED
    if stream.seen > 0:
        stream.first = min(stream.first, seqno)
    if stream.in_oso >= 0:
        see(seqno, stream)
        in_oso(state, message, state.snapshots[stream.in_oso])
        return
    connection = state.connections[stream.connection]
    n = stream.snapshot
    suspended = stream.suspended != 0
    has_position = stream.has_position != 0
    is_known = stream.request.form > 0
    has_range = n >= 0 and state.snapshots[n].layout != k.UPR_LAYOUT
    if suspended and n >= 0 and may_be_over(state.snapshots[n], seqno, connection.history):
        if state.snapshots[n].state == t.OPEN:
            t.set_snapshot_state(state.snapshots[n], t.NOT_KNOWN)
        stream.snapshot = -1
        n = -1
        has_range = False
    within = is_within(state, n, seqno)
    if within and not suspended:
        take_back(stream, seqno)
    position = stream.position
    is_low = has_position and seqno <= position
    # the first marker tells where a stream from latest began; it may name the seqno that follows
    is_from_latest = is_known and stream.request.flags & FROM_LATEST != 0
    is_first_of_latest = is_from_latest and seqno == position and stream.position_by == k.BY_START
    if is_low and suspended:
        stream.disorder = 1
    if stream.disorder:
        see(seqno, stream)
        narrow_gap(state, message, stream)
        if not is_low:
            stream.position = seqno
        return
    fault = -1
    if n < 0 and not suspended and is_known and stream.markers == 0:
        fault = w.BEFORE_MARKER
        note(state, fault, message, stream.number, seqno, message.kind)
    if is_low:
        if fault < 0 and not is_advanced and seqno == position and stream.position_by == k.BY_ADVANCED:
            note(state, w.REPEATED, message, stream.number, seqno, position)
            stream.position_by = k.BY_EVENT
        elif fault < 0 and is_first_of_latest:
            move(state, message, stream, seqno, k.BY_EVENT)
        elif fault < 0:
            fault = w.BELOW_START if stream.position_by == k.BY_START else w.NOT_INCREASING
            note(state, fault, message, stream.number, seqno, position)
        see(seqno, stream)
        see_in_snapshot(state, message, n)
        return
    is_outside = has_range and not within and not suspended and fault < 0
    if is_outside:
        note(state, w.OUTSIDE_SNAPSHOT, message, stream.number, seqno, message.kind)
    # before the first marker of an implicit stream, and in a possible OSO snapshot, nobody knows what should have come
    is_unclear = n < 0 and suspended and (not is_known or connection.oso != 0)
    is_jump = has_position and (is_advanced or seqno - 1 > position)
    is_lost = stream.position_losses != losses_of(connection)
    if within:
        stream.before_leap = GREATEST
    elif is_outside and is_jump and stream.before_leap == GREATEST:
        stream.before_leap = position
    before = seqno + 1 if is_advanced and seqno < GREATEST else seqno
    is_begun = stream.seen == 0 and not has_position and not is_known and seqno > LEAST
    if is_begun:
        stream.position = position = before - 1
    if is_begun or (is_jump and before - 1 > position and (is_lost or is_advanced or not is_unclear)):
        flags = gap_flags(state, stream, n, within)
        enter_gap(state, message, stream, before, flags | k.IS_ADVANCED if is_advanced else flags, n)
        if is_begun or (is_known and is_unclear):
            stream.open_gap = state.counts.gaps - 1
    see(seqno, stream)
    move(state, message, stream, seqno, k.BY_ADVANCED if is_advanced else k.BY_EVENT)
    see_in_snapshot(state, message, n)


@inline
def gap_flags(state: State, stream: Stream, n: int, within: bool) -> int:
    """Returns bits: what is known of a gap behind the stream's position. ``n``: its snapshot; ``within``: the gap ends in that snapshot's
    range."""
    flags = 0
    if within:
        flags |= k.IN_RANGE
    is_behind_event = stream.position_by == k.BY_EVENT
    if is_behind_event and n >= 0 and stream.position_in == n:
        flags |= k.BOTH_EVENTS
    is_unmarked = is_behind_event and stream.position_in < 0
    has_lost = stream.request.form <= 0 or losses_of(state.connections[stream.connection]) > 0 or stream.unreadable > 0
    is_in_range = False
    if n >= 0 and state.snapshots[n].layout != k.UPR_LAYOUT:
        is_in_range = state.snapshots[n].start <= stream.position + 1 <= state.snapshots[n].end
    if (n < 0 and stream.suspended != 0) or (is_unmarked and has_lost and not is_in_range):
        flags |= k.NO_MARKER
    if stream.position_by == k.BY_START:
        flags |= k.FROM_START
    if is_in_range or not is_behind_event or is_within(state, stream.position_in, stream.position):
        flags |= k.AT_EDGE
    return flags


@inline
def is_within(state: State, n: int, seqno: int) -> bool:
    """Returns whether a seqno is in the range of snapshot ``n``, -1 for none; an OSO snapshot has everything that came in it."""
    return bool(n >= 0 and state.snapshots[n].layout != k.UPR_LAYOUT and not is_beside(state.snapshots[n], seqno))


@inline
def is_beside(snapshot: Snapshot, seqno: int) -> bool:
    """Whether a seqno is outside of the range of its snapshot; those out of order and of the first generation have none."""
    has_range = snapshot.layout != k.OSO_LAYOUT and snapshot.layout != k.UPR_LAYOUT
    return bool(has_range and not snapshot.start <= seqno <= snapshot.end)


@inline
def see_in_snapshot(state: State, message: Message, n: int) -> None:
    """Counts a message in snapshot ``n``, -1 for none, whatever its seqno; the snapshot's end seqno completes it."""
    if n < 0:
        return
    snapshot = state.snapshots[n]
    seqno = message.seqno
    is_advanced = message.kind == k.SEQNO_ADVANCED
    see(seqno, snapshot)
    if not is_advanced:
        snapshot.items += 1
        if snapshot.has_first_event == 0:
            snapshot.has_first_event = 1
            snapshot.first_event = seqno
    if is_within(state, n, seqno):
        snapshot.reached = max(snapshot.reached, seqno)
        if seqno == snapshot.end and snapshot.state == t.OPEN:
            t.set_snapshot_state(snapshot, t.COMPLETE_ADVANCED if is_advanced else t.COMPLETE)
            snapshot.reached_time = message.place.time


@inline
def say_standing(message: Message, stream: Stream) -> None:
    """Writes to an event its stream and snapshot, and what is certain about it."""
    standing = k.IS_EVENT
    if stream.suspended != 0 or stream.disorder != 0:
        standing |= k.IS_SUSPENDED
    if stream.is_whole != 0:
        standing |= k.IS_WHOLE
    if stream.request.form > 0:
        standing |= k.IS_ASKED
    message.stream = stream.number
    message.snapshot = stream.in_oso if stream.in_oso >= 0 else stream.snapshot
    message.standing = standing


@inline
def on_seqno_ack(state: State, message: Message) -> None:
    """Handles a replica's acknowledgement of all prepares up to a seqno."""
    key = find_key(state, message.connection, message.vbucket, message.sid)
    if key < 0 or state.keys[key].live < 0 or is_late(state, message):
        return
    stream = state.streams[state.keys[key].live]
    if stream.opaque != message.opaque:
        return
    if message.seqno < stream.acknowledged and not has_doubt(state, stream):
        note(state, w.ACK_REGRESS, message, stream.number, message.seqno, stream.acknowledged)
    stream.acknowledged = message.seqno
    stream.acknowledged_at = message.place
