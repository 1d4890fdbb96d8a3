"""Finds the stream of a message by (connection, vbucket, stream-id), also where a gap in the
capture may have hidden something.
"""

from __future__ import annotations

from dcpinspect.kernels.distinct import slot_for
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import anomalies, records
from dcpinspect.streams import transitions as t
from dcpinspect.streams.record_codes import (
    ANSWER_LOST,
    BY_START,
    EVENT,
    MARKER,
    OSO,
    POSITION_UNSURE,
    SEQNO_ADVANCED,
    SID_UNKNOWN,
    UPR_LAYOUT,
)
from dcpinspect.streams.records import (
    Anomaly,
    ConnectionRow,
    Message,
    MessageRow,
    Stream,
    StreamKey,
)
from dcpinspect.streams.state import ReadingState

BACK = 16
"""Most streams of a vbucket that are searched for that of a message read late."""

reset_key = kernel_function(records.StreamKey.resetter())
reset_stream = kernel_function(records.Stream.resetter())


@kernel_function
def find_key(state: ReadingState, connection: int, vbucket: int, sid: int) -> int:
    """Returns the number of a key, or -1 - (the free slot where the key belongs)."""
    slot = slot_for((vbucket << 17) + sid + 1, connection, state.seed, len(state.slots))
    while state.slots[slot] >= 0:
        key = state.keys[state.slots[slot]]
        if key.vbucket == vbucket and key.connection == connection and key.sid == sid:
            return int(state.slots[slot])
        slot = (slot + 1) & (len(state.slots) - 1)
    return int(-1 - slot)


@kernel_function
def key_of(state: ReadingState, connection: int, vbucket: int, sid: int) -> int:
    """Returns the number of a key; adds the key if it is new."""
    number = find_key(state, connection, vbucket, sid)
    if number < 0:
        slot = -1 - number
        number = state.counts.keys
        state.counts.keys = number + 1
        state.slots[slot] = number
        key = state.keys[number]
        reset_key(key)
        key.number = number
        key.connection = connection
        key.vbucket = vbucket
        key.sid = sid
    return int(number)


@kernel("void(ReadingState)")
def refill_slots(state: ReadingState) -> None:
    """Enters all keys into empty slots."""
    for number in range(state.counts.keys):
        key = state.keys[number]
        name = (key.vbucket << 17) + key.sid + 1
        slot = slot_for(name, key.connection, state.seed, len(state.slots))
        while state.slots[slot] >= 0:
            slot = (slot + 1) & (len(state.slots) - 1)
        state.slots[slot] = number


@kernel_function
def clear(row: MessageRow) -> None:
    """Marks a place as that of no message."""
    row.row = 0
    row.offset = 0
    row.frame = 0
    row.time = 0


@kernel_function
def fill_anomaly(anomaly: Anomaly, code: int, message: Message, a: int, b: int) -> None:
    """Writes what is wrong with a message; the caller says in which stream and snapshot, if any,
    and which message it contradicts.
    """
    anomaly.code = code
    anomaly.connection = message.connection
    anomaly.direction = message.direction
    anomaly.a = a
    anomaly.b = b
    anomaly.place = message.place
    anomaly.stream = -1
    anomaly.snapshot = -1
    clear(anomaly.other)


@kernel_function
def enter_anomaly(
    state: ReadingState, code: int, message: Message, st: int, a: int, b: int
) -> None:
    """Writes an anomaly: a message is not as the protocol allows. ``st``: the stream of the
    message, -1 for none.
    """
    anomaly = state.anomalies[state.counts.anomalies]
    state.counts.anomalies += 1
    fill_anomaly(anomaly, code, message, a, b)
    if st < 0:
        return
    stream = state.streams[st]
    if MARKER <= message.kind < SEQNO_ADVANCED and code != anomalies.AFTER_END:
        stream.faulty_row = message.place.row
        stream.faulty_opaque = message.opaque
        stream.at_before_fault = stream.at
    anomaly.stream = st
    anomaly.snapshot = stream.in_oso if stream.in_oso >= 0 else stream.snapshot
    if code == anomalies.ACK_REGRESS:
        anomaly.other = stream.acknowledged_at
    else:
        anomaly.other = stream.at


@kernel_function
def open_stream(state: ReadingState, message: Message, key: StreamKey) -> int:
    """Opens a stream of a key at a message and returns its number; the caller fills in the rest."""
    connection = state.connections[key.connection]
    st = state.counts.streams
    state.counts.streams = st + 1
    key.count += 1
    if (
        connection.streams
        and connection.opaque == message.opaque
        and connection.opaque_key != key.number
    ):
        connection.shares_opaques = 1
    connection.opaque = message.opaque
    connection.opaque_key = key.number
    connection.streams += 1
    stream = state.streams[st]
    reset_stream(stream)
    stream.number = st
    stream.connection = key.connection
    stream.vbucket = key.vbucket
    stream.sid = key.sid
    stream.ordinal = key.count
    stream.previous = key.live
    stream.opaque = message.opaque
    stream.patience = connection.slowest
    stream.losses = losses_of(connection)
    stream.orphans = connection.orphans
    stream.opened = message.place
    stream.latest = message.place
    stream.begun_row = message.place.row
    return int(st)


@kernel_function
def has_doubt(state: ReadingState, stream: Stream) -> bool:
    """Returns whether something lost since a stream's latest message may have ended the stream, or
    begun the next one.
    """
    return bool(
        has_lost(state, stream)
        or stream.doubt & SID_UNKNOWN != 0
        or stream.orphans != state.connections[stream.connection].orphans
    )


@kernel_function
def has_lost(state: ReadingState, stream: Stream) -> bool:
    """Returns whether something of a stream may be lost since its latest message."""
    losses = losses_of(state.connections[stream.connection])
    return bool(stream.doubt & ANSWER_LOST != 0 or stream.losses != losses)


@kernel_function
def meet_losses(state: ReadingState, stream: Stream) -> None:
    """Takes what was lost so far for lost before the stream's latest message."""
    stream.losses = losses_of(state.connections[stream.connection])
    stream.doubt &= ~ANSWER_LOST


@kernel_function
def has_lost_since_position(state: ReadingState, stream: Stream) -> bool:
    """Returns whether something of a stream may be lost since its position was given."""
    losses = losses_of(state.connections[stream.connection])
    return bool(stream.doubt & POSITION_UNSURE != 0 or stream.position_losses != losses)


@kernel_function
def key_of_message(state: ReadingState, message: Message) -> int:
    """Returns the number of the key that a producer's message is for, below 0 for none.

    If a stream-id is missing, or should not be there, the opaque tells the stream, provided that
    only one stream has it.
    """
    number = find_key(state, message.connection, message.vbucket, message.sid)
    if message.sid >= 0 and number < 0:
        plain = find_key(state, message.connection, message.vbucket, -1)
        live = state.keys[plain].live if plain >= 0 else -1
        if (
            live >= 0
            and state.streams[live].opaque == message.opaque
            and not has_doubt(state, state.streams[live])
        ):
            return plain
    elif (
        message.sid < 0
        and number >= 0
        and state.keys[number].live < 0
        and state.keys[number].pending < 0
    ):
        st, stream_number, count = state.keys[number].with_sid, -1, 0
        for _ in range(BACK):
            if st < 0:
                break
            if t.is_open(state.streams[st].state) and state.streams[st].opaque == message.opaque:
                stream_number = st
                count += 1
            st = state.streams[st].with_sid_before
        if count == 1 and st < 0:
            message.sid = state.streams[stream_number].sid
            return find_key(state, message.connection, message.vbucket, message.sid)
    return number


@kernel_function
def note_sid(state: ReadingState, message: Message, stream: Stream) -> None:
    """Enters a stream with a stream-id, opened by the message, as its vbucket's newest, too."""
    if message.sid >= 0:
        plain = state.keys[key_of(state, message.connection, message.vbucket, -1)]
        stream.with_sid_before = plain.with_sid
        plain.with_sid = stream.number


@kernel_function
def is_backwards(state: ReadingState, message: Message, stream: Stream) -> bool:
    """Returns whether a message lies before what the stream already has, as the beginning of
    another stream would.
    """
    if stream.has_position == 0 or stream.in_oso >= 0:
        return False
    if message.kind == MARKER:
        marker = state.markers[message.detail]
        # its first snapshot may begin below, and reach above what the client had
        if stream.position_by == BY_START:
            return bool(marker.layout != UPR_LAYOUT and marker.end <= stream.position)
        if marker.layout == UPR_LAYOUT or marker.start > stream.position:
            return False
        if stream.snapshot < 0:
            return True
        snapshot = state.snapshots[stream.snapshot]
        return bool(marker.start != snapshot.start or marker.end != snapshot.end)
    if message.kind == OSO:
        return False
    is_seqno = EVENT <= message.kind <= SEQNO_ADVANCED
    # the start of an OSO snapshot may have been lost
    may_be_out_of_order = state.connections[stream.connection].oso != 0
    return bool(is_seqno and not may_be_out_of_order and message.seqno <= stream.position)


@kernel_function
def asked_before(state: ReadingState, message: Message, pending: int) -> int:
    """Returns the newest unanswered stream whose request is older than the message, from
    ``pending`` backwards; -1 for none.
    """
    for _ in range(BACK):
        if pending < 0:
            break
        stream = state.streams[pending]
        if message.place.time >= stream.opened.time:
            return int(pending) if stream.state == t.REQUESTED else -1
        pending = stream.asked_before
    return -1


@kernel_function
def is_asked_once(state: ReadingState, stream: Stream) -> bool:
    """Returns whether at most one answer without a request came since the stream's request: a
    second one answers a lost request.

    An answer other than SUCCESS may be the stream's own, and then what follows belongs to another
    stream; so it counts as two.
    """
    answers = 0
    for r in range(len(state.early_answers)):
        answer = state.early_answers[r]
        if (
            answer.connection == stream.connection
            and answer.opaque == stream.opaque
            and answer.place.time >= stream.opened.time
        ):
            answers += 1 if answer.status == 0 else 2
    return answers <= 1


@kernel_function
def may_begin(state: ReadingState, message: Message, stream: Stream) -> bool:
    """Returns whether a message may be the first of the stream after ``stream``.

    The first message is no event, unless something before it was lost. Where two streams share an
    opaque, it is no marker that starts beyond the position that the client resumed from.
    """
    if message.kind == MARKER:
        if state.connections[stream.connection].shares_opaques == 0:
            return True
        is_at_start = stream.has_position == 0 or stream.position_by == BY_START
        return bool(is_at_start or state.markers[message.detail].start <= stream.position)
    return bool(has_lost(state, stream) or not EVENT <= message.kind <= SEQNO_ADVANCED)


@kernel_function
def is_reopened(state: ReadingState, stream: Stream) -> bool:
    """Returns whether an uncaptured request with the opaque of a stream was accepted since the
    stream's latest message.
    """
    remaining = state.connections[stream.connection].orphans - stream.orphans
    number = state.counts.early_answers
    least = max(0, number - len(state.early_answers))
    while remaining > 0 and number > least:
        number -= 1
        answer = state.early_answers[number % len(state.early_answers)]
        if answer.place.row < stream.latest.row:
            break
        is_any_sid = stream.sid >= 0 and answer.connection == records.TAKEN - stream.connection
        if (answer.connection == stream.connection or is_any_sid) and answer.status == 0:
            remaining -= 1
            if answer.opaque == stream.opaque:
                return True
    return False


@kernel_function
def unanswered(state: ReadingState, st: int) -> int:
    """Returns the newest stream without an answer, back from ``st`` by requests; -1 for none."""
    for _ in range(BACK):
        if st < 0 or state.streams[st].state == t.REQUESTED:
            break
        st = state.streams[st].asked_before
    return int(st) if st >= 0 and state.streams[st].state == t.REQUESTED else -1


@kernel_function
def may_be_asked(state: ReadingState, message: Message, stream: Stream) -> bool:
    """Returns whether bytes lost since the stream's latest message may have asked for the stream
    again.

    That is so if a request for its vbucket, with its opaque and an unknown stream-id, has no
    answer.
    """
    if stream.sid < 0 or not has_lost(state, stream):
        return False
    number = find_key(state, stream.connection, stream.vbucket, -1)
    request = state.keys[number].pending if number >= 0 else -1
    for _ in range(BACK):
        request = unanswered(state, request)
        if request < 0 or state.streams[request].opened.time < stream.latest.time:
            break
        pending_request = state.streams[request]
        if (
            pending_request.opened.time <= message.place.time
            and pending_request.opaque == stream.opaque
            and pending_request.doubt & SID_UNKNOWN != 0
        ):
            return True
        request = pending_request.asked_before
    return False


@kernel_function
def may_be_closed(state: ReadingState, message: Message, stream: Stream) -> bool:
    """Returns whether bytes lost since the stream's latest message may have ended it, so that the
    next stream with its opaque began.

    That is so if the client closed the stream, or some stream that is not known.
    """
    if not has_lost(state, stream):
        return False
    is_closing = (
        t.CLOSING <= stream.state <= t.DRAINING and stream.closed_time <= message.place.time
    )
    closed_time = state.connections[stream.connection].closed_time
    return bool(is_closing or closed_time >= stream.latest.time)


@kernel_function
def route(state: ReadingState, message: Message) -> int:
    """Returns the stream that a producer's message belongs to; -1 if the message changes nothing.

    A stream that nobody was seen to ask for begins implicitly where its request may not have been
    captured. That is on a connection that began before the capture, after a loss in the producer's
    direction, or after the answer to a missing request. Nothing else is needed: an answer precedes
    the messages of its stream, in the same direction.
    """
    number = key_of_message(state, message)
    live = state.keys[number].live if number >= 0 else -1
    pending = state.keys[number].pending if number >= 0 else -1
    runs = live >= 0 and t.is_open(state.streams[live].state)
    same = live >= 0 and state.streams[live].opaque == message.opaque
    doubt = live >= 0 and has_doubt(state, state.streams[live])
    if runs and not doubt:
        return int(live) if same else route_mismatch(state, message, live)
    request = asked_before(state, message, pending)
    is_its = (
        request >= 0
        and state.streams[request].opaque == message.opaque
        and has_doubt(state, state.streams[request])
    )
    if is_its and is_asked_once(state, state.streams[request]):
        take_place(state, message, state.keys[number], state.streams[request])
        return int(request)
    if runs and same and not may_be_another(state, message, state.streams[live]):
        return int(live)
    if not runs and not doubt:
        connection = state.connections[message.connection]
        if live >= 0 or (
            connection.is_known == 1 and connection.orphans == 0 and losses_of(connection) == 0
        ):
            leave_out(state, message, live)
            return -1
    key = state.keys[key_of(state, message.connection, message.vbucket, message.sid)]
    leave_live(state, key)
    st = open_stream(state, message, key)
    note_sid(state, message, state.streams[st])
    t.set_state(state.streams[st], t.STREAMING)
    state.streams[st].lost_since_marker = 1
    key.live = st
    return int(st)


@kernel_function
def leave_out(state: ReadingState, message: Message, live: int) -> None:
    """Writes down a producer's message that no open stream has. ``live``: the stream of its vbucket
    that is over; -1 for none. Then a stream that was never opened stands for the vbucket in tables.
    """
    if live >= 0 and state.streams[live].state != t.NOT_ACCEPTED:
        enter_anomaly(state, anomalies.AFTER_END, message, live, message.opaque, message.kind)
        return
    if live < 0:
        key = state.keys[key_of(state, message.connection, message.vbucket, message.sid)]
        live = open_stream(state, message, key)
        t.set_state(state.streams[live], t.NOT_ACCEPTED)
        key.live = live
    state.streams[live].latest = message.place
    state.streams[live].bytes += message.size
    enter_anomaly(state, anomalies.WITHOUT_STREAM, message, -1, message.opaque, message.kind)


@kernel_function
def route_mismatch(state: ReadingState, message: Message, live: int) -> int:
    """Returns the stream of a message with another opaque than the open stream, ``live``, of its
    vbucket; -1 if it is of the stream before, under way when the client closed that one.
    """
    stream = state.streams[live]
    before = stream.previous
    if (
        before >= 0
        and state.streams[before].opaque == message.opaque
        and state.streams[before].closed_row >= 0
    ):
        return -1
    enter_anomaly(state, anomalies.OPAQUE_MISMATCH, message, live, message.opaque, stream.opaque)
    return live


@kernel_function
def may_be_another(state: ReadingState, message: Message, stream: Stream) -> bool:
    """Returns whether a message with the stream's opaque may be of a later stream whose beginning
    the capture lacks.
    """
    return (
        (may_begin(state, message, stream) and is_reopened(state, stream))
        or may_be_asked(state, message, stream)
        or may_be_closed(state, message, stream)
        or is_backwards(state, message, stream)
    )


@kernel_function
def take_place(state: ReadingState, message: Message, key: StreamKey, stream: Stream) -> None:
    """Makes an unanswered stream the live one of its key: only that can have the message."""
    leave_live(state, key)
    key.live = stream.number
    if key.pending == stream.number:
        key.pending = -1
    accept(message, stream)


@kernel_function
def is_late(state: ReadingState, message: Message) -> bool:
    """Returns whether a gap held a message back until later ones of the other side were read."""
    return bool(
        state.connections[message.connection].time[1 - message.direction] > message.place.time
    )


@kernel_function
def losses_of(connection: ConnectionRow) -> int:
    """Returns the number of losses so far in the producer's direction of a connection."""
    return int(connection.losses[connection.producer])


@kernel_function
def accept(message: Message, stream: Stream) -> None:
    """Marks a stream as accepted by the server, as a message shows."""
    t.set_state(stream, t.ACCEPTED if stream.closed_row < 0 else t.CLOSING)
    stream.position_losses = stream.losses  # losses at the time of the request
    if stream.doubt & ANSWER_LOST != 0:
        stream.position_losses = 0
        stream.doubt |= POSITION_UNSURE
    if stream.request.is_captured != 0 and stream.request.flags & FROM_LATEST == 0:
        stream.has_position = 1
        stream.position = stream.request.start
        stream.position_by = BY_START
        stream.at = message.place


@kernel_function
def leave_live(state: ReadingState, key: StreamKey) -> None:
    """Ends the live stream of a key: another stream takes its place, but its end was not seen."""
    if key.live < 0 or not t.is_open(state.streams[key.live].state):
        return
    stream = state.streams[key.live]
    is_lost = has_lost(state, stream)
    t.set_state(stream, t.LEFT if stream.state != t.DRAINING or is_lost else t.ENDED)
    for n in (stream.snapshot, stream.in_oso):
        if n >= 0 and state.snapshots[n].state == t.OPEN:
            snapshot = state.snapshots[n]
            is_lost_too = is_lost or snapshot.is_tainted or snapshot.layout == UPR_LAYOUT
            t.set_snapshot_state(snapshot, t.NOT_KNOWN if is_lost_too else t.CUT)
    stream.snapshot = -1
    stream.in_oso = -1
