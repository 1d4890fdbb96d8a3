"""The one pass over messages: what each message does to its stream and its connection."""

from __future__ import annotations

from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import anomalies
from dcpinspect.streams import record_codes as k
from dcpinspect.streams import transitions as t
from dcpinspect.streams import words as w
from dcpinspect.streams.late_requests import (
    ask_instead,
    begin_late,
    first_answer_after,
    implicit_stream,
    is_answered_between,
    question_before_answer,
)
from dcpinspect.streams.lookup import (
    BACK,
    accept,
    asked_before,
    enter_anomaly,
    find_key,
    has_doubt,
    has_lost,
    is_late,
    key_of,
    key_of_message,
    leave_live,
    losses_of,
    meet_losses,
    note_sid,
    open_stream,
    route,
    take_place,
    unanswered,
)
from dcpinspect.streams.markers import leave_snapshot, on_marker, on_marker_refusal, on_oso
from dcpinspect.streams.records import (
    GREATEST,
    LEAST,
    TAKEN,
    UNREAD_SEQNO,
    ConnectionRow,
    EarlyAnswer,
    Message,
    MessageExtra,
    Stream,
    StreamAnswer,
    StreamKey,
)
from dcpinspect.streams.seqnos import on_refusal, on_seqno, on_seqno_ack, say_standing, taint, touch
from dcpinspect.streams.state import ReadingState, has_room

SUCCESS, ROLLBACK = int(Status.SUCCESS), int(Status.ROLLBACK)
END_ON_CLOSE_SIZE, OSO_SIZE, HISTORY_SIZE, WINDOW_SIZE = (
    HEADER_SIZE + len(key) + len(value)
    for key, value in (
        ("send_stream_end_on_client_close_stream", "true"),
        ("enable_out_of_order_snapshots", "true"),
        ("change_streams", "true"),
        ("connection_buffer_size", "1"),
    )
)
"""Size in bytes of the shortest control for each of these. Acknowledgements, the messages most
often lost, are shorter.
"""


@kernel_function
def doubt_controls(connection: ConnectionRow, lost: int) -> None:
    """Marks controls as unknown if they are not known to be on: ``lost`` bytes of the consumer's
    may have held their requests.
    """
    if lost >= END_ON_CLOSE_SIZE:
        connection.end_on_close = connection.end_on_close or -1
    if lost >= OSO_SIZE:
        connection.oso = connection.oso or -1
    if lost >= HISTORY_SIZE:
        connection.history = connection.history or -1
    if lost >= WINDOW_SIZE:
        connection.window = connection.window or -1


@kernel_function
def know_producer(
    state: ReadingState, message: Message, connection: ConnectionRow, direction: int
) -> None:
    """Sets the direction of the producer, as a message shows it."""
    if connection.producer == direction:
        return
    turn = state.turns[state.counts.turns]
    state.counts.turns += 1
    turn.connection = message.connection
    turn.row = message.place.row
    turn.before = connection.producer
    turn.after = direction
    connection.producer = direction
    if connection.losses[1 - direction] > 0:
        doubt_controls(connection, GREATEST)


@kernel_function
def on_loss(state: ReadingState, message: Message) -> None:
    """Writes down a loss: bytes before the next message of this direction could not be read."""
    connection, direction = state.connections[message.connection], message.direction
    number = state.counts.losses
    state.counts.losses = number + 1
    loss = state.losses[number]
    loss.connection = message.connection
    loss.direction = direction
    loss.start = state.holes[message.detail].start
    loss.end = state.holes[message.detail].end
    loss.before_row = connection.last_row[direction]
    loss.before_frame = connection.last_frame[direction]
    loss.before_time = connection.time[direction]
    loss.after_row = message.place.row
    loss.after_frame = message.place.frame
    loss.after_time = message.place.time
    loss.previous = connection.last_loss[direction]
    connection.last_loss[direction] = number
    connection.losses[direction] += 1
    connection.is_based = 0
    if connection.producer != direction:
        doubt_controls(connection, loss.end - loss.start)


@kernel_function
def on_request(state: ReadingState, message: Message) -> None:
    """Handles a stream request, which opens a stream, whatever its answer will be."""
    connection, request = state.connections[message.connection], state.requests[message.detail]
    is_cut = message.sid < -1
    if is_cut:
        message.sid = -1
        connection.orphans += (
            1  # as far as is known, the stream has an id that nobody was seen to ask for
        )
    key = state.keys[key_of(state, message.connection, message.vbucket, message.sid)]
    late = is_late(state, message)
    if late and losses_of(connection) > 0:
        question = question_before_answer(state, message, key)
        if question >= 0:
            ask_instead(state, message, key, question)
            return
    early_answer = first_answer_after(state, message) if late else -1
    stream_number = -1
    if late and (early_answer < 0 or state.early_answers[early_answer].status == SUCCESS):
        stream_number = implicit_stream(state, message, key.live)
        if (
            stream_number >= 0
            and early_answer >= 0
            and is_answered_between(
                state, state.early_answers[early_answer], state.streams[stream_number]
            )
        ):
            stream_number = -1
    is_new = stream_number < 0
    if is_new:
        stream_number = open_stream(state, message, key)
        state.streams[stream_number].asked_before = key.pending
        key.pending = stream_number
        note_sid(state, message, state.streams[stream_number])
        if late:
            state.streams[stream_number].doubt |= k.ANSWER_LOST
    stream = state.streams[stream_number]
    if is_cut:
        stream.doubt |= k.SID_UNKNOWN
    stream.opened = message.place
    stream.request = request
    ask(state, message.place.row, stream_number)
    if early_answer >= 0:
        take_early_answer(state, message, key, stream, state.early_answers[early_answer])
        if is_new and late:
            stream.lost_since_marker = (
                1  # messages since the answer were not counted for this stream
            )
            stream.position_losses = 0  # nor are those that were lost, or an end
            stream.doubt |= k.ANSWER_LOST | k.POSITION_UNSURE
    if not is_new:
        begin_late(state, message, stream)


@kernel_function
def ask(state: ReadingState, row: int, st: int) -> None:
    """Writes down that the request in ``row`` asked for stream ``st``."""
    q = state.counts.questions
    state.counts.questions = q + 1
    state.questions[q].row = row
    state.questions[q].stream = st


@kernel_function
def take_early_answer(
    state: ReadingState,
    message: Message,
    key: StreamKey,
    stream: Stream,
    answer: EarlyAnswer,
) -> None:
    """Takes an answer that was read before its request; ``message`` is the stream's request."""
    answer.connection = TAKEN
    copy_answer(stream, answer)
    take_answer(state, message, key, stream)


@kernel_function
def copy_answer(stream: Stream, answer: EarlyAnswer) -> None:
    """Copies what an answer says to its stream."""
    stream.status = answer.status
    stream.rollback = answer.rollback
    stream.log = answer.log
    stream.answered = answer.place
    if answer.place.time > stream.latest.time:
        stream.latest = answer.place


@kernel_function
def stream_of_request(state: ReadingState, row: int) -> int:
    """Returns the stream that the request in ``row`` asked for, or -1."""
    low, high = 0, state.counts.questions
    while low < high:
        middle = (low + high) >> 1
        if state.questions[middle].row < row:
            low = middle + 1
        else:
            high = middle
    if low < state.counts.questions and state.questions[low].row == row:
        return int(state.questions[low].stream)
    return -1


@kernel_function
def keep_answer(state: ReadingState, message: Message, answer: StreamAnswer) -> int:
    """Writes an answer to the next slot of early answers, and returns the slot. An answer whose
    request is known is copied from there too.
    """
    r = state.counts.early_answers % len(state.early_answers)
    early_answer = state.early_answers[r]
    early_answer.connection = message.connection
    early_answer.opaque = message.opaque
    early_answer.status = answer.status
    early_answer.rollback = answer.rollback
    early_answer.log = answer.log
    early_answer.place = message.place
    return int(r)


@kernel_function
def on_answer(state: ReadingState, message: Message) -> None:
    """Handles the answer to a stream request."""
    connection, answer = state.connections[message.connection], state.answers[message.detail]
    if connection.producer < 0:
        know_producer(state, message, connection, message.direction)
    if connection.producer != message.direction:
        return  # an answer to something that only a consumer may ask
    early_answer = state.early_answers[keep_answer(state, message, answer)]
    st = answered_stream(state, message, answer)
    if st < 0:
        state.counts.early_answers += 1
        if answer.status == SUCCESS:
            connection.orphans += 1
        return
    stream = state.streams[st]
    connection.slowest = max(connection.slowest, answer.rtt)
    early_answer.connection = TAKEN
    if answer.status == SUCCESS and stream.doubt & k.SID_UNKNOWN != 0:
        connection.orphans += 1  # as above, from now on
        early_answer.connection = TAKEN - message.connection
        state.counts.early_answers += 1
    copy_answer(stream, early_answer)
    take_answer(
        state,
        message,
        state.keys[find_key(state, message.connection, stream.vbucket, stream.sid)],
        stream,
    )
    if stream.state == t.ACCEPTED:
        stream.is_whole = 1


@kernel_function
def answered_stream(state: ReadingState, message: Message, answer: StreamAnswer) -> int:
    """Returns the stream that an answer is about, or -1."""
    st = stream_of_request(state, answer.request)
    if st < 0:
        return -1
    stream = state.streams[st]
    # there was an answer, or messages of the stream came, whose answer came before them
    was_taken = stream.state != t.REQUESTED
    if not was_taken and not has_doubt(state, stream):
        return int(st)
    # its own answer may have been lost, and this may be the answer to the next request with the
    # same opaque
    pending = state.keys[find_key(state, message.connection, stream.vbucket, stream.sid)].pending
    is_before = pending > st and state.streams[pending].opened.time <= message.place.time
    if is_before and state.streams[pending].opaque == message.opaque:
        return int(pending)
    return -1 if was_taken else int(st)


@kernel_function
def take_answer(state: ReadingState, message: Message, key: StreamKey, stream: Stream) -> None:
    """Changes the stream as its answer says; ``message``: the answer, or a later request."""
    was_newest = key.pending == stream.number
    if was_newest:
        key.pending = -1
    if stream.status != SUCCESS:
        if was_newest:
            before = unanswered(state, stream.asked_before)
            key.pending = before if before > key.live else -1
        refuse(state, message, stream)
        return
    stream.answer = w.A_ACCEPTED
    if stream.state != t.REQUESTED:
        return
    connection = state.connections[stream.connection]
    if key.live >= 0 and state.streams[key.live].opened.time > stream.answered.time:
        # its request was read late: the live stream came after it
        live = state.streams[key.live]
        stream.previous = live.previous
        live.previous = stream.number
        accept(message, stream)
        t.set_state(stream, t.LEFT)
        return
    if certainly_runs(state, connection, key):
        enter_anomaly(state, anomalies.ALREADY_OPEN, message, stream.number, key.live, 0)
    leave_live(state, key)
    key.live = stream.number
    meet_losses(state, stream)
    stream.orphans = connection.orphans
    accept(message, stream)


@kernel_function
def refuse(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles an answer other than SUCCESS: the server refuses the stream, or has the client ask
    again from another seqno.
    """
    stream.answer = w.A_ROLLBACK if stream.status == ROLLBACK else w.A_REFUSED
    if stream.state == t.REQUESTED:
        t.set_state(stream, t.NOT_ACCEPTED)
    is_asked = stream.request.is_captured != 0 and stream.request.flags & FROM_LATEST == 0
    if (
        stream.status == ROLLBACK
        and is_asked
        and stream.request.start < stream.rollback < UNREAD_SEQNO
    ):
        enter_anomaly(
            state,
            anomalies.ROLLBACK_ABOVE,
            message,
            stream.number,
            stream.rollback,
            stream.request.start,
        )


@kernel_function
def certainly_runs(state: ReadingState, connection: ConnectionRow, key: StreamKey) -> bool:
    """Returns whether the live stream of a key certainly runs, and nobody asked to close it."""
    if key.live < 0:
        return False
    live = state.streams[key.live]
    # the request to close it may be lost, or be from before the capture; and what came on a stream
    # that nobody was seen to ask for may be what was under way when another one was closed
    may_be_closing = connection.losses[1 - connection.producer] > 0 or live.request.is_captured == 0
    # where an answer is lost, the next one may be taken for it: streams of a vbucket with different
    # stream-ids may have one opaque
    may_be_another = live.sid >= 0 and connection.losses[connection.producer] > 0
    return (
        t.ACCEPTED <= live.state <= t.STREAMING
        and not may_be_closing
        and not may_be_another
        and not has_doubt(state, live)
    )


@kernel_function
def on_close(state: ReadingState, message: Message) -> None:
    """Handles the client's request to close a stream."""
    number = find_key(state, message.connection, message.vbucket, message.sid)
    if number < 0:
        return
    key = state.keys[number]
    st = key.live
    is_for_live_stream = (
        st >= 0
        and t.is_open(state.streams[st].state)
        and state.streams[st].opaque == message.opaque
    )
    is_for_pending_stream = (
        key.pending >= 0 and state.streams[key.pending].opened.time <= message.place.time
    )
    if is_for_pending_stream and (
        state.streams[key.pending].opaque == message.opaque or not is_for_live_stream
    ):
        st = key.pending
    for _ in range(BACK):
        if st < 0 or state.streams[st].opened.time <= message.place.time:
            break
        # that stream's request was sent after this close, but was read before it
        st = state.streams[st].previous
    if st < 0:
        return
    stream = state.streams[st]
    if t.ACCEPTED <= stream.state <= t.STREAMING:
        t.set_state(stream, t.CLOSING)
    if stream.closed_row < 0:
        stream.closed_row = message.place.row
        stream.closed_time = message.place.time
    if is_late(state, message):
        stream.doubt |= k.ANSWER_LOST  # it may have been read already


@kernel_function
def on_close_answer(state: ReadingState, message: Message) -> None:
    """Handles the answer to a close: the stream is closed, or the close failed."""
    connection, status = state.connections[message.connection], state.extras[message.detail].status
    if message.vbucket < 0 and status == SUCCESS:
        connection.closed_time = message.place.time
    number = find_key(state, message.connection, message.vbucket, message.sid)
    if number < 0 or status != SUCCESS:
        return
    key = state.keys[number]
    request = asked_before(state, message, key.pending)
    if (
        request >= 0
        and state.streams[request].closed_row >= 0
        and has_doubt(state, state.streams[request])
    ):
        # the server only closes what is open: the answer was lost
        take_place(state, message, key, state.streams[request])
    if key.live < 0:
        return
    stream = state.streams[key.live]
    is_for_stream = (
        stream.closed_row >= 0 and stream.opaque == message.opaque and t.is_open(stream.state)
    )
    if is_for_stream and has_lost(state, stream):
        # the stream was open until now, whatever was lost before
        meet_losses(state, stream)
        taint(state, stream)
    if connection.end_on_close != 1 and t.ACCEPTED <= stream.state <= t.CLOSING:
        t.set_state(stream, t.DRAINING)
        stream.reason = 1
        stream.finished = message.place


@kernel_function
def on_end(state: ReadingState, message: Message, stream: Stream, reason: int) -> None:
    """Handles the end of the stream; ``reason`` is -1 if it cannot be read."""
    if stream.in_oso >= 0:
        snapshot = state.snapshots[stream.in_oso]
        is_lost = stream.lost_since_marker != 0 or snapshot.is_tainted != 0
        t.set_snapshot_state(snapshot, t.NOT_KNOWN if is_lost else t.CUT)
        snapshot.closed_row = message.place.row
    leave_snapshot(state, message, stream, reason == 0)
    t.set_state(stream, t.ENDED)
    stream.reason = reason
    stream.finished = message.place


@kernel_function
def on_window(
    state: ReadingState, message: Message, connection: ConnectionRow, window: int
) -> None:
    """Handles a message that grants another window. A connection that had none begins with no bytes
    to be acknowledged.
    """
    before = connection.window
    if window == 0 or before <= 0:
        connection.is_based = 1 if window == 0 or before == 0 else 0
        message.size = connection.counted
        connection.counted = 0
        if not is_late(state, message):  # else later acknowledgements have been read already
            connection.acked = 0
    connection.window_losses[0] = connection.losses[0]
    connection.window_losses[1] = connection.losses[1]
    connection.window = window


@kernel_function
def say_balance(message: Message, connection: ConnectionRow) -> None:
    """Writes the connection's window and the bytes in use after the message to the message."""
    message.window = connection.window
    message.balance = connection.counted - connection.acked if connection.is_based == 1 else LEAST


@kernel_function
def setting_after(before: int, reported: int) -> int:
    """Returns what a setting is after a fact about it: 1 for on, 0 for off, -1 for unknown. The
    answer to who asked may be lost.
    """
    if reported == k.ASKED:
        return before or -1
    if reported == k.REFUSED:
        return max(before, 0)
    return reported


@kernel_function
def on_fact(
    state: ReadingState, message: Message, connection: ConnectionRow, fact: MessageExtra
) -> None:
    """Stores a fact about a connection that holds from now on."""
    if fact.value == -1:
        doubt_controls(connection, GREATEST)
    if fact.setting == k.FACT_WINDOW:
        on_window(state, message, connection, fact.value)
        say_balance(message, connection)
    elif fact.setting == k.FACT_END_ON_CLOSE:
        connection.end_on_close = fact.value
    elif fact.setting == k.FACT_OSO:
        connection.oso = setting_after(connection.oso, fact.value)
    elif fact.setting == k.FACT_HISTORY:
        connection.history = setting_after(connection.history, fact.value)
    elif fact.setting == k.FACT_PRODUCER:
        know_producer(state, message, connection, fact.value)


@kernel_function
def on_connection(state: ReadingState, message: Message) -> None:
    """Handles messages that concern the whole connection."""
    connection = state.connections[message.connection]
    if message.kind == k.FACT:
        on_fact(state, message, connection, state.extras[message.detail])
    elif message.kind == k.ACK:
        connection.acked += state.extras[message.detail].ack_bytes
        say_balance(message, connection)
    elif message.kind == k.UNREADABLE_ACK:
        connection.is_based = 0
        say_balance(message, connection)
    elif message.kind == k.NOOP:
        connection.noops += 1
        if is_late(state, message):
            connection.noop_row = -1
        elif connection.noop_row < 0:
            connection.noop_row = message.place.row
            connection.noop_time = message.place.time
    elif message.kind == k.NOOP_ANSWER:
        if connection.noop_row >= 0:
            connection.noop_slowest = max(
                connection.noop_slowest, message.place.time - connection.noop_time
            )
        connection.noop_row = -1


@kernel_function
def on_unreadable(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles a message of the stream whose extras cannot be read."""
    would_be = state.extras[message.detail].would_be
    if k.EVENT <= would_be <= k.ABORT:
        stream.items += 1
    stream.doubt |= k.POSITION_UNSURE
    stream.unreadable = message.place.row
    taint(state, stream)
    if would_be == k.MARKER:
        leave_snapshot(state, message, stream, True)
        stream.snapshot = -1
        stream.snapshots_begun += 1
    elif would_be == k.END:
        on_end(state, message, stream, -1)


@kernel_function
def on_set_state(state: ReadingState, message: Message) -> None:
    """Handles a message by which the server sets the state of a vbucket."""
    number = key_of_message(state, message)
    if number >= 0 and state.keys[number].live >= 0:
        stream = state.streams[state.keys[number].live]
        stream.bytes += message.size
        stream.latest = message.place


@kernel_function
def on_consumers(state: ReadingState, message: Message) -> None:
    """Handles what consumers send, and the answers to it."""
    if message.kind == k.REQUEST or message.kind == k.UNREADABLE_REQUEST:
        on_request(state, message)
    elif message.kind == k.ANSWER:
        on_answer(state, message)
    elif message.kind == k.CLOSE:
        on_close(state, message)
    elif message.kind == k.CLOSE_ANSWER:
        on_close_answer(state, message)
    elif message.kind == k.SEQNO_ACK:
        on_seqno_ack(state, message)
    elif message.kind == k.REFUSAL:
        on_refusal(state, message)
    elif message.kind == k.MARKER_REFUSAL:
        on_marker_refusal(state, message)
    else:
        on_connection(state, message)


@kernel_function
def on_streams(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles a message of a stream."""
    touch(state, message, stream)
    if k.EVENT <= message.kind <= k.SEQNO_ADVANCED:
        if message.kind <= k.ABORT:
            stream.items += 1
        if message.kind == k.PREPARE:
            stream.prepared = max(stream.prepared, message.seqno)
        on_seqno(state, message, stream)
        say_standing(message, stream)
    elif message.kind == k.MARKER:
        on_marker(state, message, stream)
    elif message.kind == k.OSO:
        on_oso(state, message, stream)
    elif message.kind == k.CACHE:
        on_cached(state, message, stream)
    elif message.kind == k.END:
        on_end(state, message, stream, state.extras[message.detail].end_reason)
    elif message.kind == k.UNREADABLE:
        on_unreadable(state, message, stream)


@kernel_function
def on_cached(state: ReadingState, message: Message, stream: Stream) -> None:
    """Handles a cache transfer: its items have no order, and are no events."""
    stream.cached_items += state.extras[message.detail].cached_items
    start = stream.request.start
    if stream.request.is_captured != 0 and message.seqno > start:
        enter_anomaly(state, anomalies.CACHED_ABOVE, message, stream.number, message.seqno, start)


@kernel_function
def is_of_producer(state: ReadingState, message: Message) -> bool:
    """Returns whether a message comes from the side that alone may send it. The first such message
    shows the producer's direction.
    """
    connection = state.connections[message.connection]
    producer = message.direction if message.kind >= k.NOOP else 1 - message.direction
    if connection.producer < 0:
        know_producer(state, message, connection, producer)
    return bool(connection.producer == producer)


@kernel("int64(int64, ReadingState)")
def follow_messages(start: int, state: ReadingState) -> int:
    """Handles messages from number ``start`` on. Returns the number of the first one not handled,
    for want of room in a table, or their count.

    The work for a message is constant, but for the search of a request among the streams.
    """
    for i in range(start, len(state.messages)):
        if not has_room(state):
            return i
        message = state.messages[i]
        connection = state.connections[message.connection]
        if message.kind == k.LOST:
            on_loss(state, message)
            continue
        connection.last_row[message.direction] = message.place.row
        connection.last_frame[message.direction] = message.place.frame
        connection.time[message.direction] = max(
            connection.time[message.direction], message.place.time
        )
        if message.kind >= k.REQUEST and not is_of_producer(state, message):
            enter_anomaly(state, anomalies.ROLE_VIOLATION, message, -1, message.kind, 0)
        elif message.kind < k.END:
            on_consumers(state, message)
        else:
            connection.counted += message.size
            say_balance(message, connection)
            connection.producer_time = message.place.time
            if message.kind == k.SET_STATE:
                on_set_state(state, message)
            else:
                st = route(state, message)
                if st >= 0:
                    on_streams(state, message, state.streams[st])
    return len(state.messages)
