"""Kernel steps for messages that have a seqno: order, gaps, and what a snapshot received."""

from __future__ import annotations

from dcpinspect.kernels.kernel import kernel_function
from dcpinspect.protocol.flags import DISK, FROM_LATEST, HISTORY
from dcpinspect.streams import anomalies
from dcpinspect.streams import record_codes as k
from dcpinspect.streams import transitions as t
from dcpinspect.streams.lookup import (
    BACK,
    enter_anomaly,
    find_key,
    has_doubt,
    has_lost,
    has_lost_since_position,
    is_late,
    losses_of,
    meet_losses,
)
from dcpinspect.streams.records import GREATEST, LEAST, Message, Snapshot, Stream
from dcpinspect.streams.state import ReadingState


@kernel_function
def touch(state: ReadingState, message: Message, stream: Stream) -> None:
    """Notes that a message belongs to the stream; if bytes were lost since the stream's latest
    message, taints the stream.
    """
    if has_lost(state, stream):
        taint(state, stream)
    meet_losses(state, stream)
    stream.orphans = state.connections[stream.connection].orphans
    stream.doubt &= ~k.SID_UNKNOWN
    stream.latest = message.place
    stream.bytes += message.size


@kernel_function
def taint(state: ReadingState, stream: Stream) -> None:
    """Marks the stream and its current snapshots: something of the stream was not captured."""
    stream.lost_since_marker = 1
    stream.is_whole = 0
    if stream.snapshot >= 0:
        snapshot = state.snapshots[stream.snapshot]
        snapshot.is_tainted = 1
        if snapshot.has_first_event == 0:
            snapshot.has_first_event = 2
    if stream.in_oso >= 0:
        state.snapshots[stream.in_oso].is_tainted = 1


@kernel_function
def enter_gap(
    state: ReadingState, message: Message, stream: Stream, before: int, flags: int, n: int
) -> None:
    """Writes a gap: everything between the stream's position and ``before`` was not delivered.
    ``n``: snapshot of the message, -1 for none.
    """
    connection = state.connections[stream.connection]
    if has_lost_since_position(state, stream):
        flags |= k.IS_LOST
    g = state.counts.gaps
    state.counts.gaps = g + 1
    gap = state.gaps[g]
    gap.stream = stream.number
    gap.after = stream.position
    gap.before = before
    stream.unbroken = before
    gap.flags = flags
    gap.snapshot = n
    gap.begins = stream.at
    gap.ends = message.place
    gap.loss = connection.last_loss[connection.producer] if flags & k.IS_LOST else -1
    gap.losses = losses_of(connection) - stream.position_losses
    gap.unreadable = stream.unreadable if stream.doubt & k.POSITION_UNSURE != 0 else -1


@kernel_function
def narrow_gap(state: ReadingState, message: Message, stream: Stream) -> None:
    """A seqno came that was taken to be missing: the start of an OSO snapshot was lost, and of the
    gap is left what lies below.
    """
    if stream.open_gap < 0:
        return
    gap = state.gaps[stream.open_gap]
    if LEAST < message.seqno < gap.before:
        gap.after = min(gap.after, message.seqno - 1)
        gap.before = message.seqno
        gap.ends = message.place


@kernel_function
def move(state: ReadingState, message: Message, stream: Stream, position: int, by: int) -> None:
    """Moves the position: all up to ``position`` is accounted for, as the message shows."""
    stream.has_position = 1
    stream.position = position
    stream.position_by = by
    stream.position_in = stream.snapshot
    stream.position_losses = losses_of(state.connections[stream.connection])
    stream.doubt &= ~k.POSITION_UNSURE
    stream.at = message.place


@kernel_function
def undo_leap(stream: Stream, seqno: int) -> None:
    """Takes the position back before a seqno that leapt out of its snapshot, if a lower seqno
    inside its snapshot follows.

    The leap alone is the fault: one fault gets one complaint.
    """
    if stream.has_position != 0 and stream.before_leap < seqno <= stream.position:
        stream.position = stream.before_leap
        stream.before_leap = GREATEST


@kernel_function
def see(seqno: int, table_row: Stream | Snapshot) -> None:
    """Counts a seqno of a stream or snapshot: how many, the least, the greatest."""
    if table_row.seen == 0 or seqno < table_row.first:
        table_row.first = seqno
    if table_row.seen == 0 or seqno > table_row.last:
        table_row.last = seqno
    table_row.seen += 1


@kernel_function
def on_seqno_in_oso(state: ReadingState, message: Message, snapshot: Snapshot) -> None:
    """Handles a seqno inside an OSO snapshot, which has neither order nor range."""
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
    see(seqno, snapshot)


@kernel_function
def may_be_over(snapshot: Snapshot, seqno: int, history: int) -> bool:
    """Returns whether a seqno's marker may be in bytes lost since this snapshot's marker."""
    if snapshot.layout == k.UPR_LAYOUT or seqno > snapshot.end:
        return True
    # a snapshot from disk may be followed by the history of the same range
    return bool(history != 0 and snapshot.flags & (DISK | HISTORY) == DISK)


@kernel_function
def on_seqno(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles an event of the stream, or a SeqnoAdvanced, in one of four ways: inside an OSO
    snapshot; where a loss may hide the start of one; as the next seqno; or as one that is too low.
    """
    seqno = message.seqno
    if stream.in_oso >= 0:
        on_seqno_in_oso(state, message, state.snapshots[stream.in_oso])
        see(seqno, stream)
        return
    n = current_snapshot(state, seqno, stream)
    is_suspended = stream.lost_since_marker != 0
    if not is_suspended and is_in_range(state, n, seqno):
        undo_leap(stream, seqno)  # before anything asks for the position
    is_low = stream.has_position != 0 and seqno <= stream.position
    if is_low and is_suspended:
        stream.disorder = 1
    if stream.disorder != 0:
        narrow_gap(state, message, stream)
        if not is_low:
            stream.position = seqno
        see(seqno, stream)
        return
    is_unannounced = (
        n < 0
        and not is_suspended
        and stream.request.is_captured != 0
        and stream.snapshots_begun == 0
    )
    if is_unannounced:
        enter_anomaly(state, anomalies.BEFORE_MARKER, message, stream.number, seqno, message.kind)
    if not is_low:
        on_next_seqno(state, message, stream, n)
    elif not is_unannounced:
        on_low_seqno(state, message, stream)
    see(seqno, stream)  # last: a gap may have to know that nothing came before
    see_in_snapshot(state, message, n)


@kernel_function
def on_next_seqno(state: ReadingState, message: Message, stream: Stream, n: int) -> None:
    """Handles a seqno above the position. ``n``: its snapshot, -1 for none."""
    seqno = message.seqno
    is_outside = (
        n >= 0 and stream.lost_since_marker == 0 and contradicts_range(state.snapshots[n], seqno)
    )
    if is_outside:
        enter_anomaly(
            state, anomalies.OUTSIDE_SNAPSHOT, message, stream.number, seqno, message.kind
        )
    elif n >= 0 and stream.lost_since_marker == 0 and message.kind == k.EVENT:
        snapshot = state.snapshots[n]
        visible = snapshot.seqnos.max_visible  # 0 means none
        has_visible = snapshot.seqnos.present & k.HAS_VISIBLE != 0 and visible > LEAST
        if has_visible and seqno > visible and snapshot.is_merged == 0:
            enter_anomaly(state, anomalies.ABOVE_VISIBLE, message, stream.number, seqno, visible)
    remember_leap(message, stream, is_in_range(state, n, seqno), is_outside)
    leave_gap(state, message, stream, n)
    move(
        state,
        message,
        stream,
        seqno,
        k.BY_ADVANCED if message.kind == k.SEQNO_ADVANCED else k.BY_EVENT,
    )


@kernel_function
def current_snapshot(state: ReadingState, seqno: int, stream: Stream) -> int:
    """Returns the number of the snapshot that a seqno belongs to, -1 for none; gives up one that
    may be over in what is lost.
    """
    n = stream.snapshot
    if (
        n < 0
        or stream.lost_since_marker == 0
        or not may_be_over(state.snapshots[n], seqno, state.connections[stream.connection].history)
    ):
        return n
    if state.snapshots[n].state == t.OPEN:
        t.set_snapshot_state(state.snapshots[n], t.NOT_KNOWN)
    stream.snapshot = -1
    return -1


@kernel_function
def on_low_seqno(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles a seqno that the stream has accounted for: it comes again, or out of order."""
    seqno, position = message.seqno, stream.position
    if (
        message.kind != k.SEQNO_ADVANCED
        and seqno == position
        and stream.position_by == k.BY_ADVANCED
    ):
        enter_anomaly(state, anomalies.REPEATED, message, stream.number, seqno, position)
        stream.position_by = k.BY_EVENT
        return
    # the first marker tells where a stream from latest began; it may name the seqno that follows
    is_from_latest = stream.request.is_captured != 0 and stream.request.flags & FROM_LATEST != 0
    if stream.position_by == k.BY_START and (
        (is_from_latest and seqno == position) or may_be_of_another(state, stream)
    ):
        move(state, message, stream, seqno, k.BY_EVENT)
        return
    fault = anomalies.BELOW_START if stream.position_by == k.BY_START else anomalies.NOT_INCREASING
    enter_anomaly(state, fault, message, stream.number, seqno, position)


@kernel_function
def may_be_of_another(state: ReadingState, stream: Stream) -> bool:
    """Returns whether what comes on a stream may belong to another request: an answer may be lost
    since its own, and a client may use one opaque for all.
    """
    connection = state.connections[stream.connection]
    loss = connection.last_loss[connection.producer]
    return bool(loss >= 0 and state.losses[loss].after_row > stream.opened.row)


@kernel_function
def remember_leap(message: Message, stream: Stream, is_inside: bool, is_outside: bool) -> None:
    """Remembers the position before a seqno that leaps out of its snapshot, until one is inside."""
    is_jump = stream.has_position != 0 and (
        message.kind == k.SEQNO_ADVANCED or message.seqno - 1 > stream.position
    )
    if is_inside:
        stream.before_leap = GREATEST
    elif is_outside and is_jump and stream.before_leap == GREATEST:
        stream.before_leap = stream.position


@kernel_function
def leave_gap(state: ReadingState, message: Message, stream: Stream, n: int) -> None:
    """Writes the gap between the stream's position and a higher seqno, if there is one. ``n``: as
    in ``enter_gap``.
    """
    seqno, is_asked = message.seqno, stream.request.is_captured != 0
    is_advanced = message.kind == k.SEQNO_ADVANCED
    before = seqno + 1 if is_advanced and seqno < GREATEST else seqno
    if stream.has_position == 0:
        # where the stream began, only its request tells: if that is read late, this gap, which is
        # empty until then, begins there
        is_open = stream.seen == 0 and not is_asked and seqno > LEAST
        if not is_open:
            return
        stream.position = before - 1
    else:
        # before the first marker of an implicit stream, and in a possible OSO snapshot, nobody
        # knows what should have come
        is_unclear = (
            n < 0
            and stream.lost_since_marker != 0
            and (not is_asked or state.connections[stream.connection].oso != 0)
        )
        is_gap = is_advanced or not is_unclear or has_lost_since_position(state, stream)
        if not is_gap or before - 1 <= stream.position:
            return
        is_open = is_asked and is_unclear
    facts = gap_facts(state, stream, n, seqno)
    enter_gap(state, message, stream, before, facts | k.IS_ADVANCED if is_advanced else facts, n)
    if is_open:
        stream.open_gap = state.counts.gaps - 1


@kernel_function
def gap_facts(state: ReadingState, stream: Stream, n: int, seqno: int) -> int:
    """Returns bits of ``Gap.flags``: what is known of a gap from the stream's position to a seqno,
    each by itself. ``n``: snapshot of the seqno, -1 for none.
    """
    facts = 0
    if is_in_range(state, n, seqno):
        facts |= k.IN_RANGE
    if is_in_range(state, n, stream.position + 1):
        facts |= k.BEGINS_IN_RANGE
    if is_in_range(state, stream.position_in, stream.position):
        facts |= k.AFTER_IN_RANGE
    if stream.position_by == k.BY_START:
        facts |= k.FROM_START
    if stream.position_by == k.BY_EVENT:
        facts |= k.AFTER_EVENT
    if stream.position_in < 0:
        facts |= k.AFTER_UNMARKED
    elif stream.position_in == n:
        facts |= k.SAME_SNAPSHOT
    if n < 0 and stream.lost_since_marker != 0:
        facts |= k.MARKER_LOST
    has_lost = losses_of(state.connections[stream.connection]) > 0 or stream.unreadable > 0
    if has_lost or stream.request.is_captured == 0:
        facts |= k.MAY_LACK_MARKERS
    return facts


@kernel_function
def is_in_range(state: ReadingState, n: int, seqno: int) -> bool:
    """Returns whether snapshot ``n``, -1 for none, is known to have a seqno: its range has it, or
    it is an OSO snapshot, which has all that came in it.
    """
    return bool(
        n >= 0
        and state.snapshots[n].layout != k.UPR_LAYOUT
        and not contradicts_range(state.snapshots[n], seqno)
    )


@kernel_function
def contradicts_range(snapshot: Snapshot, seqno: int) -> bool:
    """Returns whether a snapshot has a range, and a seqno is outside of it. The marker of UPR and
    OSO snapshots have none.
    """
    has_range = snapshot.layout != k.OSO_LAYOUT and snapshot.layout != k.UPR_LAYOUT
    return bool(has_range and not snapshot.start <= seqno <= snapshot.end)


@kernel_function
def see_in_snapshot(state: ReadingState, message: Message, n: int) -> None:
    """Counts a message in snapshot ``n``, -1 for none, whatever its seqno; the snapshot's end seqno
    completes it.
    """
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
    if is_in_range(state, n, seqno):
        snapshot.reached = max(snapshot.reached, seqno)
        if seqno == snapshot.end and snapshot.state == t.OPEN:
            t.set_snapshot_state(snapshot, t.COMPLETE_ADVANCED if is_advanced else t.COMPLETE)
            snapshot.reached_time = message.place.time
            stream = state.streams[snapshot.stream]
            if stream.prepared > stream.acknowledged and stream.awaited.row <= 0:
                stream.awaited = message.place


@kernel_function
def say_standing(message: Message, stream: Stream) -> None:
    """Writes to an event its stream and snapshot, and what is certain about it."""
    standing = k.IS_EVENT
    if stream.lost_since_marker != 0 or stream.disorder != 0:
        standing |= k.IS_SUSPENDED
    if stream.is_whole != 0:
        standing |= k.IS_WHOLE
    if stream.request.is_captured != 0:
        standing |= k.IS_ASKED
    message.stream = stream.number
    message.snapshot = stream.in_oso if stream.in_oso >= 0 else stream.snapshot
    message.standing = standing
    if message.kind == k.PREPARE:
        message.detail = stream.unbroken


@kernel_function
def on_seqno_ack(state: ReadingState, message: Message) -> None:
    """Handles a replica's acknowledgement of all prepares up to a seqno."""
    key = find_key(state, message.connection, message.vbucket, message.sid)
    if key < 0 or state.keys[key].live < 0 or is_late(state, message):
        return
    if state.keys[key].pending >= 0:
        return  # it asked again, so its stream is over, though the end may only be read later
    stream = state.streams[state.keys[key].live]
    if stream.opaque != message.opaque:
        return
    is_lower = message.seqno < stream.acknowledged and stream.in_oso < 0
    if is_lower and not has_doubt(state, stream):
        enter_anomaly(
            state, anomalies.ACK_REGRESS, message, stream.number, message.seqno, stream.acknowledged
        )
    stream.acknowledged = message.seqno
    stream.acknowledged_at = message.place
    stream.awaited.row = 0
    if stream.snapshot >= 0 and stream.prepared > stream.acknowledged:
        # an incomplete snapshot may wait for its end, where waiting begins
        state_of_snapshot = state.snapshots[stream.snapshot].state
        if state_of_snapshot == t.COMPLETE or state_of_snapshot == t.COMPLETE_ADVANCED:
            stream.awaited = message.place


@kernel_function
def refused_stream(state: ReadingState, message: Message) -> int:
    """Returns the number of the stream whose latest message is at fault, if a consumer refuses it
    by this one; -1 for none.
    """
    key = find_key(state, message.connection, message.vbucket, message.sid)
    is_of_consumer = state.connections[message.connection].producer != message.direction
    if key < 0 or state.keys[key].live < 0 or not is_of_consumer:
        return -1
    stream = state.streams[state.keys[key].live]
    is_latest = stream.latest.row == stream.faulty_row and stream.faulty_opaque == message.opaque
    return int(stream.number) if is_latest and stream.in_oso < 0 else -1


@kernel_function
def on_refusal(state: ReadingState, message: Message) -> None:
    """Handles a consumer's refusal of an event: one that is at fault has not been received."""
    number = refused_stream(state, message)
    if number < 0:
        return
    stream = state.streams[number]
    row = stream.faulty_row
    stream.faulty_row = 0
    stream.items -= 1
    stream.seen -= 1
    if stream.snapshot >= 0 and state.snapshots[stream.snapshot].items > 0:
        snapshot = state.snapshots[stream.snapshot]
        snapshot.items -= 1
        snapshot.seen -= 1
    if stream.at.row == row and stream.position_by == k.BY_EVENT:
        take_back(state, stream)


@kernel_function
def take_back(state: ReadingState, stream: Stream) -> None:
    """Takes the position back before the event that gave it, and withdraws the gap before that."""
    before = stream.position - 1
    if stream.before_leap < GREATEST:
        before = stream.before_leap
        stream.before_leap = GREATEST
    gap_number = state.counts.gaps - 1
    for _ in range(BACK):
        if gap_number < 0:
            break
        gap = state.gaps[gap_number]
        if gap.stream == stream.number and gap.after == before:
            gap.before = before + 1
            break
        gap_number -= 1
    stream.position = before
    stream.at = stream.at_before_fault
    stream.last = min(stream.last, before)
    if stream.snapshot >= 0:
        snapshot = state.snapshots[stream.snapshot]
        snapshot.last = min(snapshot.last, before)
        if snapshot.reached > before:
            snapshot.reached = before if before >= snapshot.start else LEAST
