"""Kernel steps for snapshot markers, OSO snapshots and stream ends: how snapshots begin and end."""

from __future__ import annotations

from dcpinspect.kernels.kernel import kernel_function
from dcpinspect.protocol.flags import DISK, FROM_LATEST, HISTORY, OSO_END, OSO_START
from dcpinspect.streams import anomalies, records
from dcpinspect.streams import record_codes as k
from dcpinspect.streams import transitions as t
from dcpinspect.streams import words as w
from dcpinspect.streams.lookup import BACK, enter_anomaly, has_lost_since_position
from dcpinspect.streams.records import GREATEST, Marker, Message, Snapshot, Stream
from dcpinspect.streams.seqnos import enter_gap, move, refused_stream, undo_leap
from dcpinspect.streams.state import ReadingState

reset_snapshot = kernel_function(records.Snapshot.resetter())


@kernel_function
def begin_snapshot(state: ReadingState, message: Message, stream: Stream) -> int:
    """Opens a snapshot of the stream at a message and returns its number; the caller fills in what
    the message says.
    """
    n = state.counts.snapshots
    state.counts.snapshots = n + 1
    stream.snapshots_begun += 1
    snapshot = state.snapshots[n]
    reset_snapshot(snapshot)
    snapshot.number = n
    snapshot.stream = stream.number
    snapshot.index = stream.snapshots_begun
    snapshot.has_before = stream.has_position
    snapshot.before = stream.position
    snapshot.disk_end = stream.disk_end
    snapshot.place = message.place
    return int(n)


@kernel_function
def miss_tail(state: ReadingState, message: Message, stream: Stream, snapshot: Snapshot) -> None:
    """Writes a gap for the end of a finished snapshot: what it promised more never came."""
    if stream.has_position == 0 or snapshot.end <= stream.position:
        return
    before = snapshot.end + 1 if snapshot.end < GREATEST else snapshot.end
    enter_gap(state, message, stream, before, k.IS_TAIL, stream.snapshot)
    move(state, message, stream, snapshot.end, k.BY_END)


@kernel_function
def leave_snapshot(state: ReadingState, message: Message, stream: Stream, promised: bool) -> None:
    """Ends the current snapshot early. ``promised``: all up to its end should have come."""
    if stream.snapshot < 0:
        return
    snapshot = state.snapshots[stream.snapshot]
    snapshot.closed_row = message.place.row
    if snapshot.state != t.OPEN:
        return
    # what came last in it is known if nothing was lost since, whatever was lost before
    is_sure = (
        stream.position_in == stream.snapshot
        and not has_lost_since_position(state, stream)
        and stream.position_by != k.BY_START
        and snapshot.seen > 0
    )
    is_tainted = snapshot.is_tainted != 0 or stream.lost_since_marker != 0
    if (is_tainted and not is_sure) or snapshot.layout == k.UPR_LAYOUT:
        t.set_snapshot_state(snapshot, t.NOT_KNOWN)
    elif promised:
        t.set_snapshot_state(snapshot, t.INCOMPLETE)
        if snapshot.is_overlapped == 0:
            miss_tail(state, message, stream, snapshot)
    else:
        t.set_snapshot_state(snapshot, t.CUT)


@kernel_function
def on_marker(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles a snapshot marker of the stream."""
    if stream.in_oso >= 0:
        if stream.lost_since_marker == 0:
            enter_anomaly(
                state, anomalies.OSO_STRUCTURE, message, stream.number, anomalies.MARKER_INSIDE, 0
            )
            return
        lose_oso(state, message, stream)
    marker, old = state.markers[message.detail], stream.snapshot
    has_range = marker.layout != k.UPR_LAYOUT
    # nobody knows what it announces, or to which stream
    is_strange = (has_range and marker.start > marker.end) or message.opaque != stream.opaque
    is_sure = stream.lost_since_marker == 0 and not is_strange
    is_compared = has_range and old >= 0 and state.snapshots[old].layout != k.UPR_LAYOUT
    is_history = is_compared and is_history_of(marker, state.snapshots[old])
    # where something is lost, the range may belong to another stream, whose request is lost, too
    goes_on = is_history and stream.lost_since_marker == 0
    position = state.snapshots[old].position if goes_on else position_of(stream, marker)
    is_merged = 0
    if has_range and is_sure:
        undo_leap(stream, marker.end)  # before anything asks for the position
    if is_compared and not is_history:
        is_merged = compare_with_snapshot(state, message, stream, state.snapshots[old], is_sure)
    if goes_on and state.snapshots[old].state == t.OPEN:
        t.set_snapshot_state(state.snapshots[old], t.CONTINUED)
    if is_strange and old >= 0 and state.snapshots[old].state == t.OPEN:
        t.set_snapshot_state(state.snapshots[old], t.NOT_KNOWN)  # this may go on with it
    leave_snapshot(state, message, stream, True)
    if marker.flags & DISK != 0 and marker.end > stream.disk_end:
        stream.disk_end = marker.end
    snapshot = state.snapshots[begin_snapshot(state, message, stream)]
    snapshot.is_merged = is_merged
    snapshot.position = position
    say_marker(snapshot, marker)
    if stream.disorder != 0:
        # lower seqnos came: a request for another stream may be lost, or what came in an OSO
        # snapshot
        stream.has_position = 0
    begin_order(stream, snapshot.number, -1)
    if is_strange:
        stream.lost_since_marker = 1
        snapshot.is_tainted = 1
    is_from_latest = stream.request.flags & FROM_LATEST != 0
    if position == w.FIRST and stream.has_position == 0 and is_from_latest and has_range:
        move(state, message, stream, marker.start, k.BY_START)


@kernel_function
def on_marker_refusal(state: ReadingState, message: Message) -> None:
    """Handles a consumer's refusal of a marker: one that is at fault began no snapshot, and the
    snapshot before it goes on.
    """
    number = refused_stream(state, message)
    if number < 0:
        return
    stream = state.streams[number]
    row, n = stream.faulty_row, stream.snapshot
    if n < 0 or state.snapshots[n].place.row != row:
        return
    stream.faulty_row = 0
    t.set_snapshot_state(state.snapshots[n], t.REFUSED)
    stream.snapshot = -1
    for _ in range(BACK):
        n -= 1
        if n < 0:
            break
        snapshot = state.snapshots[n]
        if snapshot.stream == number and snapshot.closed_row == row:
            snapshot.closed_row = -1
            snapshot.is_overlapped = 0
            if snapshot.state > t.COMPLETE_OSO:
                t.set_snapshot_state(snapshot, t.OPEN)
            stream.snapshot = n
            break


@kernel_function
def position_of(stream: Stream, marker: Marker) -> int:
    """Returns whether a marker is the first of its stream, as far as anyone knows."""
    if stream.snapshots_begun == 0:
        return (
            w.PERHAPS_FIRST
            if stream.lost_since_marker != 0 or stream.request.is_captured == 0
            else w.FIRST
        )
    if stream.lost_since_marker == 0:
        return w.LATER
    # the prologue may be lost
    return w.PERHAPS_FIRST if marker.flags & HISTORY != 0 else w.PERHAPS_LATER


@kernel_function
def is_history_of(marker: Marker, before: Snapshot) -> bool:
    """Returns whether a marker announces the history of the snapshot before it."""
    is_same = marker.start == before.start and marker.end == before.end
    return bool(is_same and marker.flags & HISTORY != 0)


@kernel_function
def compare_with_snapshot(
    state: ReadingState, message: Message, stream: Stream, before: Snapshot, is_sure: bool
) -> int:
    """Notes a marker that overlaps the snapshot before it, or lies behind what came. Returns 1 if
    they overlap. ``is_sure``: nothing is lost that may explain it.
    """
    marker = state.markers[message.detail]
    is_behind = stream.has_position != 0 and marker.end <= stream.position
    if marker.start <= before.end:
        before.is_overlapped = 1
        if is_sure:
            enter_anomaly(
                state,
                anomalies.BEHIND if is_behind else anomalies.OVERLAP,
                message,
                stream.number,
                marker.start,
                marker.end,
            )
        return 1
    if is_sure and is_behind:
        enter_anomaly(state, anomalies.BEHIND, message, stream.number, marker.start, marker.end)
    return 0


@kernel_function
def say_marker(snapshot: Snapshot, marker: Marker) -> None:
    """Copies what a marker says to its snapshot."""
    snapshot.start = marker.start
    snapshot.end = marker.end
    snapshot.flags = marker.flags
    snapshot.layout = marker.layout
    snapshot.seqnos = marker.seqnos


@kernel_function
def begin_order(stream: Stream, snapshot: int, in_oso: int) -> None:
    """Goes on with a snapshot, OSO or not: losses before it no longer matter to what comes."""
    if stream.state < t.STREAMING:
        t.set_state(stream, t.STREAMING)
    stream.snapshot = snapshot
    stream.in_oso = in_oso
    stream.lost_since_marker = 0
    stream.disorder = 0


@kernel_function
def lose_oso(state: ReadingState, message: Message, stream: Stream) -> None:
    """Gives up an OSO snapshot whose end was not captured."""
    snapshot = state.snapshots[stream.in_oso]
    t.set_snapshot_state(snapshot, t.NOT_KNOWN)
    snapshot.closed_row = message.place.row
    stream.in_oso = -1
    if snapshot.seen > 0 and (stream.has_position == 0 or snapshot.last > stream.position):
        stream.has_position = 1
        stream.position = snapshot.last
        stream.position_by = k.BY_EVENT
        stream.position_in = -1


@kernel_function
def on_oso(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles the start or the end of an OSO snapshot of the stream."""
    flags = state.extras[message.detail].oso_flags
    if flags == OSO_START:
        begin_oso(state, message, stream)
    elif flags == OSO_END:
        end_oso(state, message, stream)
    else:
        enter_anomaly(
            state, anomalies.OSO_STRUCTURE, message, stream.number, anomalies.BAD_FLAGS, flags
        )


@kernel_function
def begin_oso(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles the start of an OSO snapshot."""
    if stream.in_oso >= 0:
        if stream.lost_since_marker == 0:
            enter_anomaly(
                state, anomalies.OSO_STRUCTURE, message, stream.number, anomalies.START_INSIDE, 0
            )
            return
        lose_oso(state, message, stream)
    leave_snapshot(state, message, stream, True)
    stream.snapshot = -1
    snapshot = state.snapshots[begin_snapshot(state, message, stream)]
    snapshot.layout = k.OSO_LAYOUT
    snapshot.position = w.NO_POSITION
    stream.disk_end = GREATEST  # it comes from disk, and has no end
    if has_lost_since_position(state, stream):
        snapshot.is_tainted = 1
    begin_order(stream, -1, snapshot.number)


@kernel_function
def end_oso(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles the end of an OSO snapshot: what came in it counts as delivered."""
    if stream.in_oso < 0:
        if stream.lost_since_marker == 0 and stream.request.is_captured != 0:
            enter_anomaly(
                state,
                anomalies.OSO_STRUCTURE,
                message,
                stream.number,
                anomalies.END_WITHOUT_START,
                0,
            )
        stream.disorder = 0
        stream.has_position = 0  # its start was not captured, so nobody knows what came in it
        return
    snapshot = state.snapshots[stream.in_oso]
    t.set_snapshot_state(snapshot, t.COMPLETE_OSO)
    snapshot.closed_row = message.place.row
    if snapshot.is_tainted:
        connection = state.connections[stream.connection]
        snapshot.loss = connection.last_loss[connection.producer]
    doubt, losses = stream.doubt, stream.position_losses
    if snapshot.seen > 0 and (stream.has_position == 0 or snapshot.last > stream.position):
        move(state, message, stream, snapshot.last, k.BY_EVENT)
        stream.position_in = snapshot.number
        if snapshot.is_tainted:  # more may have come
            stream.doubt = doubt
            stream.position_losses = losses
    advanced = snapshot.advanced
    if snapshot.has_advanced and (stream.has_position == 0 or advanced > stream.position):
        if stream.has_position:
            before = advanced + 1 if advanced < GREATEST else advanced
            if before - 1 > stream.position:
                enter_gap(state, message, stream, before, k.IS_ADVANCED, snapshot.number)
        move(state, message, stream, advanced, k.BY_ADVANCED)
    stream.in_oso = -1
