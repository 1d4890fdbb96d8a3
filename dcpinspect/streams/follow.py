"""The one sequential pass over messages: what each of them does to its stream and its connection."""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.lookup import (
    BACK,
    accept,
    asked_before,
    copy_place,
    find_key,
    has_doubt,
    is_late,
    is_open,
    key_of,
    key_of_message,
    leave,
    losses_of,
    note,
    note_sid,
    open_stream,
    route,
    unanswered,
)
from dcpinspect.streams.markers import leave_snapshot, on_marker, on_oso
from dcpinspect.streams.seqnos import on_seqno, on_seqno_ack, say_standing, taint, touch

SUCCESS, ROLLBACK = 0, 0x23
JUST_BEFORE_NS = 1_000_000
"""Two taps or queues of one machine swap packets that are no farther apart."""


@inline
def forget(c: int, connections: Ints) -> None:
    """The consumer of a connection may have asked for something that was not captured: nothing is known to be off."""
    for column in (s.C_END_ON_CLOSE, s.C_OSO, s.C_HISTORY, s.C_WINDOW):
        if connections[c, column] == 0:
            connections[c, column] = -1


@inline
def on_loss(i: int, messages: Ints, extras: Ints, connections: Ints, losses: Ints, counts: Ints) -> None:
    """Bytes before the next message of this direction could not be read."""
    c, d, x = messages[s.M_CONNECTION, i], messages[s.M_DIRECTION, i], messages[s.M_EXTRA, i]
    n = counts[s.N_LOSSES]
    counts[s.N_LOSSES] = n + 1
    losses[n, s.L_CONNECTION] = c
    losses[n, s.L_DIRECTION] = d
    losses[n, s.L_START] = extras[x, s.X_START]
    losses[n, s.L_END] = extras[x, s.X_END]
    losses[n, s.L_BEFORE_ROW] = connections[c, s.C_LAST_ROW + d]
    losses[n, s.L_BEFORE_FRAME] = connections[c, s.C_LAST_FRAME + d]
    losses[n, s.L_BEFORE_TIME] = connections[c, s.C_TIME + d]
    losses[n, s.L_AFTER_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    losses[n, s.L_AFTER_FRAME] = messages[s.M_PLACE + s.AT_FRAME, i]
    losses[n, s.L_AFTER_TIME] = messages[s.M_PLACE + s.AT_TIME, i]
    losses[n, s.L_PREVIOUS] = connections[c, s.C_LAST_LOSS + d]
    connections[c, s.C_LAST_LOSS + d] = n
    connections[c, s.C_LOSSES + d] += 1
    connections[c, s.C_IS_BASED] = 0
    if connections[c, s.C_PRODUCER] != d:
        forget(c, connections)


@inline
def on_request(
    i: int,
    seed: int,
    messages: Ints,
    extras: Ints,
    connections: Ints,
    slots: Ints,
    keys: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    questions: Ints,
    orphans: Ints,
    counts: Ints,
) -> None:
    """A stream request opens a stream, whatever its answer will be."""
    c, x = messages[s.M_CONNECTION, i], messages[s.M_EXTRA, i]
    is_cut = messages[s.M_SID, i] < -1
    if is_cut:
        messages[s.M_SID, i] = -1
        connections[c, s.C_ORPHANS] += 1  # for all that is known, the stream of an id that nobody was seen to ask for
    k = key_of(c, messages[s.M_VBUCKET, i], messages[s.M_SID, i], seed, slots, keys, counts)
    late = is_late(i, messages, connections)
    if late and losses_of(c, connections) > 0:
        q = question_before_answer(i, k, messages, keys, streams, questions, counts)
        if q >= 0:
            ask_instead(q, i, k, messages, extras, keys, connections, streams, questions, counts)
            return
    r = find_orphan(i, messages, orphans) if late else answer_just_before(i, messages, connections, orphans, counts)
    st = -1
    if late and (r < 0 or orphans[r, s.R_STATUS] == SUCCESS):
        st = implicit_stream(keys[k, s.K_LIVE], i, messages, streams)
        if st >= 0 and r >= 0 and is_answered_between(r, st, orphans, streams):
            st = -1
    is_new = st < 0
    if is_new:
        st = open_stream(k, i, messages, keys, connections, streams, counts)
        streams[st, s.S_ASKED_BEFORE] = keys[k, s.K_PENDING]
        keys[k, s.K_PENDING] = st
        note_sid(st, i, seed, messages, slots, keys, streams, counts)
        if late:
            streams[st, s.S_LOSSES] = -1  # its answer may have been lost
    if is_cut:
        streams[st, s.S_ORPHANS] = -1  # whose stream-id nobody knows is always in doubt
    copy_place(messages, i, streams, st, s.S_OPENED)
    for part in range(8):
        streams[st, s.S_START + part] = extras[x, part]
    q = counts[s.N_QUESTIONS]
    counts[s.N_QUESTIONS] = q + 1
    questions[q, s.Q_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    questions[q, s.Q_STREAM] = st
    if r >= 0:
        orphans[r, s.R_CONNECTION] = s.TAKEN
        copy_answer(st, r, orphans, streams)
        live = keys[k, s.K_LIVE]
        has_passed = live >= 0 and streams[live, s.S_LATEST + s.AT_TIME] > streams[st, s.S_ANSWERED + s.AT_TIME]
        if is_new and streams[st, s.S_STATUS] == SUCCESS and has_passed:  # another stream was taken to be the next
            streams[st, s.S_ANSWER] = w.A_ACCEPTED
            streams[st, s.S_STATE] = w.LEFT
            keys[k, s.K_PENDING] = -1
        else:
            take_answer(st, k, i, messages, connections, keys, streams, snapshots, anomalies, counts)
        if is_new and late:
            streams[st, s.S_SUSPENDED] = 1  # what has come since the answer was not taken for this stream's
            streams[st, s.S_POSITION_LOSSES] = -1
            if losses_of(c, connections):
                streams[st, s.S_LOSSES] = -1  # since the answer, perhaps


@inline
def question_before_answer(i: int, k: int, messages: Ints, keys: Ints, streams: Ints, questions: Ints, counts: Ints) -> int:
    """The question before the late request ``i``, of its key and opaque, that was given an answer from after ``i``; or -1.

    Who asks again under an opaque has had its answer, so that one was lost, and this one is to ``i``.
    """
    time_ns = messages[s.M_PLACE + s.AT_TIME, i]
    for back in range(1, BACK + 1):
        q = counts[s.N_QUESTIONS] - back
        if q < 0:
            break
        st = questions[q, s.Q_STREAM]
        is_same = streams[st, s.S_OPAQUE] == messages[s.M_OPAQUE, i] and streams[st, s.S_CONNECTION] == keys[k, s.K_CONNECTION]
        if is_same and streams[st, s.S_VBUCKET] == keys[k, s.K_VBUCKET] and streams[st, s.S_SID] == keys[k, s.K_SID]:
            is_answered = streams[st, s.S_ANSWERED + s.AT_ROW] > 0 and streams[st, s.S_ANSWERED + s.AT_TIME] > time_ns
            return int(q) if is_answered and streams[st, s.S_OPENED + s.AT_TIME] < time_ns else -1
    return -1


@inline
def ask_instead(
    q: int,
    i: int,
    k: int,
    messages: Ints,
    extras: Ints,
    keys: Ints,
    connections: Ints,
    streams: Ints,
    questions: Ints,
    counts: Ints,
) -> None:
    """Request ``i`` takes the place of question ``q``, which becomes a stream of its own that nobody knows the answer of."""
    old = questions[q, s.Q_STREAM]
    st = open_stream(k, i, messages, keys, connections, streams, counts)
    streams[st, s.S_STATE] = w.REQUESTED
    streams[st, s.S_LOSSES] = -1
    for part in range(8):
        streams[st, s.S_START + part] = streams[old, s.S_START + part]
        streams[old, s.S_START + part] = extras[messages[s.M_EXTRA, i], part]
    for part in range(s.PLACE):
        streams[st, s.S_OPENED + part] = streams[old, s.S_OPENED + part]
        streams[st, s.S_LATEST + part] = streams[old, s.S_OPENED + part]
    copy_place(messages, i, streams, old, s.S_OPENED)
    if streams[old, s.S_HAS_POSITION] and streams[old, s.S_POSITION_BY] == s.BY_START:
        streams[old, s.S_POSITION] = streams[old, s.S_START]
        streams[old, s.S_HAS_POSITION] = 1 if streams[old, s.S_FORM] > 0 else 0
    questions[q, s.Q_STREAM] = st
    q = counts[s.N_QUESTIONS]
    counts[s.N_QUESTIONS] = q + 1
    questions[q, s.Q_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    questions[q, s.Q_STREAM] = old


@inline
def implicit_stream(st: int, i: int, messages: Ints, streams: Ints) -> int:
    """Of stream ``st`` and those before it, the first that may have begun with the request ``i``, which was not read by then; or -1."""
    found = -1
    for _ in range(BACK):
        if st < 0:
            break
        if (
            streams[st, s.S_FORM] == 0
            and streams[st, s.S_FILTER] != s.CUT_VALUE
            and streams[st, s.S_OPAQUE] == messages[s.M_OPAQUE, i]
            and streams[st, s.S_LATEST + s.AT_TIME] > messages[s.M_PLACE + s.AT_TIME, i]
            and not 0 < streams[st, s.S_FINISHED + s.AT_TIME] < messages[s.M_PLACE + s.AT_TIME, i]
        ):
            found = st
        st = streams[st, s.S_PREVIOUS]
    return int(found)


@inline
def is_answered_between(r: int, st: int, orphans: Ints, streams: Ints) -> bool:
    """Whether another request of its opaque was answered after the answer ``r`` and before stream ``st`` began."""
    for other in range(len(orphans)):
        row = orphans[other, s.R_PLACE + s.AT_ROW]
        if (
            orphans[other, s.R_CONNECTION] == orphans[r, s.R_CONNECTION]
            and orphans[other, s.R_OPAQUE] == orphans[r, s.R_OPAQUE]
            and orphans[r, s.R_PLACE + s.AT_ROW] < row < streams[st, s.S_OPENED + s.AT_ROW]
        ):
            return True
    return False


@inline
def find_orphan(i: int, messages: Ints, orphans: Ints) -> int:
    """The first answer after request ``i``, of its opaque, among those that found no request; or -1."""
    found = -1
    time_ns = messages[s.M_PLACE + s.AT_TIME, i]
    for r in range(len(orphans)):
        if (
            orphans[r, s.R_CONNECTION] == messages[s.M_CONNECTION, i]
            and orphans[r, s.R_OPAQUE] == messages[s.M_OPAQUE, i]
            and orphans[r, s.R_PLACE + s.AT_TIME] > time_ns
            and (found < 0 or orphans[r, s.R_PLACE + s.AT_ROW] < orphans[found, s.R_PLACE + s.AT_ROW])
        ):
            found = r
    return found


@inline
def answer_just_before(i: int, messages: Ints, connections: Ints, orphans: Ints, counts: Ints) -> int:
    """The answer to request ``i`` that was recorded before it, as by two taps or queues: of a connection of which all is there, or -1."""
    c = messages[s.M_CONNECTION, i]
    if counts[s.N_ORPHANS] == 0 or connections[c, s.C_KNOWN] == 0 or connections[c, s.C_LOSSES] > 0 or connections[c, s.C_LOSSES + 1] > 0:
        return -1
    number = counts[s.N_ORPHANS]
    for _ in range(min(number, BACK)):
        number -= 1
        r = number % len(orphans)
        waited = messages[s.M_PLACE + s.AT_TIME, i] - orphans[r, s.R_PLACE + s.AT_TIME]
        if orphans[r, s.R_CONNECTION] == c and orphans[r, s.R_OPAQUE] == messages[s.M_OPAQUE, i] and 0 <= waited <= JUST_BEFORE_NS:
            return int(r)
    return -1


@inline
def copy_answer(st: int, r: int, orphans: Ints, streams: Ints) -> None:
    """What an answer says of stream ``st``."""
    streams[st, s.S_STATUS] = orphans[r, s.R_STATUS]
    streams[st, s.S_ROLLBACK] = orphans[r, s.R_ROLLBACK]
    streams[st, s.S_LOG] = orphans[r, s.R_LOG]
    for part in range(s.PLACE):
        streams[st, s.S_ANSWERED + part] = orphans[r, s.R_PLACE + part]
    if orphans[r, s.R_PLACE + s.AT_TIME] > streams[st, s.S_LATEST + s.AT_TIME]:
        for part in range(s.PLACE):
            streams[st, s.S_LATEST + part] = orphans[r, s.R_PLACE + part]


@inline
def stream_of_request(row: int, questions: Ints, counts: Ints) -> int:
    """The stream that the request of a row asked for, or -1."""
    low, high = 0, counts[s.N_QUESTIONS]
    while low < high:
        middle = (low + high) >> 1
        if questions[middle, s.Q_ROW] < row:
            low = middle + 1
        else:
            high = middle
    return int(questions[low, s.Q_STREAM]) if low < counts[s.N_QUESTIONS] and questions[low, s.Q_ROW] == row else -1


@inline
def on_answer(
    i: int,
    seed: int,
    messages: Ints,
    extras: Ints,
    connections: Ints,
    slots: Ints,
    keys: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    questions: Ints,
    orphans: Ints,
    counts: Ints,
) -> None:
    """The answer to a stream request."""
    c, x = messages[s.M_CONNECTION, i], messages[s.M_EXTRA, i]
    status = extras[x, s.X_STATUS]
    if connections[c, s.C_PRODUCER] < 0:
        connections[c, s.C_PRODUCER] = messages[s.M_DIRECTION, i]
    if connections[c, s.C_PRODUCER] != messages[s.M_DIRECTION, i]:
        return  # to what only a consumer may ask
    # kept for a request that is still to come; one that is there takes it from the same place
    r = counts[s.N_ORPHANS] % len(orphans)
    orphans[r, s.R_CONNECTION] = c
    orphans[r, s.R_OPAQUE] = messages[s.M_OPAQUE, i]
    orphans[r, s.R_STATUS] = status
    orphans[r, s.R_ROLLBACK] = extras[x, s.X_ROLLBACK]
    orphans[r, s.R_LOG] = extras[x, s.X_LOG]
    copy_place(messages, i, orphans, r, s.R_PLACE)
    st = stream_of_request(extras[x, s.X_REQUEST], questions, counts)
    k = find_key(c, streams[st, s.S_VBUCKET], streams[st, s.S_SID], seed, slots, keys) if st >= 0 else -1
    was_taken = st >= 0 and streams[st, s.S_STATE] != w.REQUESTED  # answered, or its messages came, and the answer before them
    if st >= 0 and (was_taken or has_doubt(st, connections, streams)):
        # its own answer may have been lost, and this one be that of the next request with the same opaque
        pending = keys[k, s.K_PENDING]
        is_before = pending > st and streams[pending, s.S_OPENED + s.AT_TIME] <= messages[s.M_PLACE + s.AT_TIME, i]
        if is_before and streams[pending, s.S_OPAQUE] == messages[s.M_OPAQUE, i]:
            st = pending
        elif was_taken:
            st = -1
    if st < 0:
        counts[s.N_ORPHANS] += 1
        if status == SUCCESS:
            connections[c, s.C_ORPHANS] += 1
        return
    connections[c, s.C_SLOWEST] = max(connections[c, s.C_SLOWEST], extras[x, s.X_RTT])
    orphans[r, s.R_CONNECTION] = s.TAKEN
    if status == SUCCESS and streams[st, s.S_ORPHANS] < 0:
        connections[c, s.C_ORPHANS] += 1  # as above, from now on
        orphans[r, s.R_CONNECTION] = s.TAKEN - c
        counts[s.N_ORPHANS] += 1
    copy_answer(st, r, orphans, streams)
    take_answer(st, k, i, messages, connections, keys, streams, snapshots, anomalies, counts)
    if streams[st, s.S_STATE] == w.ACCEPTED:
        streams[st, s.S_WHOLE] = 1


@inline
def take_answer(
    st: int,
    k: int,
    i: int,
    messages: Ints,
    connections: Ints,
    keys: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    counts: Ints,
) -> None:
    """What the answer of stream ``st`` makes of it; message ``i`` is the answer, or the request where that was read later."""
    c = streams[st, s.S_CONNECTION]
    status = streams[st, s.S_STATUS]
    was_newest = keys[k, s.K_PENDING] == st
    if was_newest:
        keys[k, s.K_PENDING] = -1
    if status != SUCCESS:
        if was_newest:
            before = unanswered(streams[st, s.S_ASKED_BEFORE], streams)
            keys[k, s.K_PENDING] = before if before > keys[k, s.K_LIVE] else -1
        streams[st, s.S_ANSWER] = w.A_ROLLBACK if status == ROLLBACK else w.A_REFUSED
        if streams[st, s.S_STATE] == w.REQUESTED:
            streams[st, s.S_STATE] = w.NOT_ACCEPTED
        rollback, start = streams[st, s.S_ROLLBACK], streams[st, s.S_START]
        is_asked = streams[st, s.S_FORM] > 0 and streams[st, s.S_FLAGS] & FROM_LATEST == 0
        if status == ROLLBACK and is_asked and start < rollback < s.UNREAD_SEQNO:
            note(w.ROLLBACK_ABOVE, i, st, rollback, start, messages, streams, anomalies, counts)
        return
    streams[st, s.S_ANSWER] = w.A_ACCEPTED
    if streams[st, s.S_STATE] != w.REQUESTED:
        return
    live = keys[k, s.K_LIVE]
    # the request for that may be lost, or be from before the capture
    may_be_closing = connections[c, s.C_LOSSES + 1 - connections[c, s.C_PRODUCER]] > 0
    may_be_closing = may_be_closing or (live >= 0 and connections[c, s.C_KNOWN] == 0 and streams[live, s.S_FORM] == 0)
    is_running = live >= 0 and w.ACCEPTED <= streams[live, s.S_STATE] <= w.STREAMING
    if is_running and not may_be_closing and not has_doubt(live, connections, streams):
        note(w.ALREADY_OPEN, i, st, live, 0, messages, streams, anomalies, counts)
    leave(k, keys, connections, streams, snapshots)
    keys[k, s.K_LIVE] = st
    streams[st, s.S_LOSSES] = losses_of(c, connections)
    if streams[st, s.S_ORPHANS] >= 0:
        streams[st, s.S_ORPHANS] = connections[c, s.C_ORPHANS]
    accept(st, i, messages, streams)


@inline
def on_close(
    i: int, kind: int, seed: int, messages: Ints, connections: Ints, slots: Ints, keys: Ints, streams: Ints, snapshots: Ints
) -> None:
    """The client closes a stream, or hears that it is closed."""
    c = messages[s.M_CONNECTION, i]
    if messages[s.M_VBUCKET, i] < 0 and messages[s.M_EXTRA, i] == SUCCESS:
        connections[c, s.C_CLOSED_TIME] = messages[s.M_PLACE + s.AT_TIME, i]
    k = find_key(c, messages[s.M_VBUCKET, i], messages[s.M_SID, i], seed, slots, keys)
    if k < 0:
        return
    st, pending = keys[k, s.K_LIVE], keys[k, s.K_PENDING]
    if kind == s.CLOSE:
        opaque = messages[s.M_OPAQUE, i]
        is_lives = st >= 0 and is_open(streams[st, s.S_STATE]) and streams[st, s.S_OPAQUE] == opaque
        is_pendings = pending >= 0 and streams[pending, s.S_OPENED + s.AT_TIME] <= messages[s.M_PLACE + s.AT_TIME, i]
        if is_pendings and (streams[pending, s.S_OPAQUE] == opaque or not is_lives):
            st = pending
        for _ in range(BACK):
            if st < 0 or streams[st, s.S_OPENED + s.AT_TIME] <= messages[s.M_PLACE + s.AT_TIME, i]:
                break
            st = streams[st, s.S_PREVIOUS]  # it was read late
        if st < 0:
            return
        if w.ACCEPTED <= streams[st, s.S_STATE] <= w.STREAMING:
            streams[st, s.S_STATE] = w.CLOSING
        if streams[st, s.S_CLOSED_ROW] < 0:
            streams[st, s.S_CLOSED_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
            streams[st, s.S_CLOSED_TIME] = messages[s.M_PLACE + s.AT_TIME, i]
        if is_late(i, messages, connections):
            streams[st, s.S_LOSSES] = -1  # the answer may have passed already
        return
    is_good = messages[s.M_EXTRA, i] == SUCCESS and connections[c, s.C_END_ON_CLOSE] != 1
    asked = asked_before(pending, i, messages, streams)
    is_closing = asked >= 0 and streams[asked, s.S_CLOSED_ROW] >= 0
    if is_closing and messages[s.M_EXTRA, i] == SUCCESS and has_doubt(asked, connections, streams):
        # what is closed was open: its answer was lost
        leave(k, keys, connections, streams, snapshots)
        keys[k, s.K_LIVE] = asked
        if asked == pending:
            keys[k, s.K_PENDING] = -1
        accept(asked, i, messages, streams)
        st = asked
    is_its = st >= 0 and streams[st, s.S_CLOSED_ROW] >= 0 and streams[st, s.S_OPAQUE] == messages[s.M_OPAQUE, i]
    is_its = is_its and is_open(streams[st, s.S_STATE])
    if is_its and messages[s.M_EXTRA, i] == SUCCESS and streams[st, s.S_LOSSES] != losses_of(c, connections):
        # it was open until now, whatever was lost before
        streams[st, s.S_LOSSES] = losses_of(c, connections)
        taint(st, streams, snapshots)
    if st >= 0 and is_good and w.ACCEPTED <= streams[st, s.S_STATE] <= w.CLOSING:
        streams[st, s.S_STATE] = w.DRAINING
        streams[st, s.S_REASON] = 1
        copy_place(messages, i, streams, st, s.S_FINISHED)


@inline
def on_end(
    st: int,
    reason: int,
    i: int,
    messages: Ints,
    connections: Ints,
    streams: Ints,
    snapshots: Ints,
    gaps: Ints,
    counts: Ints,
) -> None:
    """The end of stream ``st``; -1 for a reason that nobody can read."""
    n = streams[st, s.S_IN_OSO]
    if n >= 0:
        snapshots[n, s.N_STATE] = w.NOT_KNOWN if streams[st, s.S_SUSPENDED] or snapshots[n, s.N_TAINTED] else w.CUT
        snapshots[n, s.N_CLOSED_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    leave_snapshot(st, i, 1 if reason == 0 else 0, messages, connections, streams, snapshots, gaps, counts)
    streams[st, s.S_STATE] = w.ENDED
    streams[st, s.S_REASON] = reason
    copy_place(messages, i, streams, st, s.S_FINISHED)


@inline
def on_window(c: int, i: int, window: int, messages: Ints, connections: Ints) -> None:
    """Message ``i`` grants connection ``c`` another window: that of a connection without one begins with nothing to be acknowledged."""
    before = connections[c, s.C_WINDOW]
    if window == 0 or before <= 0:
        connections[c, s.C_IS_BASED] = 1 if window == 0 or before == 0 else 0
        messages[s.M_SIZE, i] = connections[c, s.C_COUNTED]
        connections[c, s.C_COUNTED] = 0
        if not is_late(i, messages, connections):  # else what was acknowledged since has been read already
            connections[c, s.C_ACKED] = 0
    connections[c, s.C_WINDOW_LOSSES] = connections[c, s.C_LOSSES]
    connections[c, s.C_WINDOW_LOSSES + 1] = connections[c, s.C_LOSSES + 1]


@inline
def say_balance(c: int, i: int, messages: Ints, connections: Ints) -> None:
    """Writes down the window of connection ``c`` and how much of it is used, as they are after message ``i``."""
    messages[s.M_WINDOW, i] = connections[c, s.C_WINDOW]
    is_based = connections[c, s.C_IS_BASED] == 1
    messages[s.M_BALANCE, i] = connections[c, s.C_COUNTED] - connections[c, s.C_ACKED] if is_based else s.LEAST


@inline
def on_connection(i: int, kind: int, messages: Ints, connections: Ints) -> None:
    """Messages that concern the whole connection."""
    c, x = messages[s.M_CONNECTION, i], messages[s.M_EXTRA, i]
    if kind == s.FACT:
        column = messages[s.M_OPAQUE, i]
        if x < 0:
            forget(c, connections)
        if column == s.C_WINDOW:
            on_window(c, i, x, messages, connections)
        connections[c, column] = x
        if column == s.C_WINDOW:
            say_balance(c, i, messages, connections)
    elif kind == s.ACK or kind == s.UNREADABLE_ACK:
        if kind == s.ACK:
            connections[c, s.C_ACKED] += x
        else:
            connections[c, s.C_IS_BASED] = 0
        say_balance(c, i, messages, connections)
    elif kind == s.NOOP:
        connections[c, s.C_NOOPS] += 1
        connections[c, s.C_NOOP_ROW] = -1 if is_late(i, messages, connections) else messages[s.M_PLACE + s.AT_ROW, i]
        connections[c, s.C_NOOP_TIME] = messages[s.M_PLACE + s.AT_TIME, i]
    elif kind == s.NOOP_ANSWER:
        connections[c, s.C_NOOPS_ANSWERED] += 1
        if connections[c, s.C_NOOP_ROW] >= 0:
            waited = messages[s.M_PLACE + s.AT_TIME, i] - connections[c, s.C_NOOP_TIME]
            connections[c, s.C_NOOP_SLOWEST] = max(connections[c, s.C_NOOP_SLOWEST], waited)
        connections[c, s.C_NOOP_ROW] = -1
    elif kind == s.MARKER_ANSWER:
        connections[c, s.C_MARKERS_ACKED] += 1


@inline
def on_unreadable(
    st: int,
    i: int,
    messages: Ints,
    connections: Ints,
    streams: Ints,
    snapshots: Ints,
    gaps: Ints,
    counts: Ints,
) -> None:
    """A message of stream ``st`` whose extras nobody can read. Its M_EXTRA is the kind it would be."""
    kind = messages[s.M_EXTRA, i]
    streams[st, s.S_POSITION_LOSSES] = -1
    streams[st, s.S_UNREADABLE] = messages[s.M_PLACE + s.AT_ROW, i]
    taint(st, streams, snapshots)
    if kind == s.MARKER:
        leave_snapshot(st, i, 1, messages, connections, streams, snapshots, gaps, counts)
        streams[st, s.S_SNAPSHOT] = -1
        streams[st, s.S_MARKERS] += 1
    elif kind == s.END:
        on_end(st, -1, i, messages, connections, streams, snapshots, gaps, counts)


@kernel(
    "int64(int64, int64, int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1],"
    " int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[::1])"
)
def follow_messages(
    start: int,
    seed: int,
    messages: Ints,
    extras: Ints,
    connections: Ints,
    slots: Ints,
    keys: Ints,
    streams: Ints,
    snapshots: Ints,
    gaps: Ints,
    anomalies: Ints,
    losses: Ints,
    seqnos: Ints,
    questions: Ints,
    orphans: Ints,
    counts: Ints,
) -> int:
    """Handles messages from column ``start`` on; returns the one it stopped before for want of room in a table, or their number.

    Constant work a message, but for the search of a request among the streams.
    """
    for i in range(start, messages.shape[1]):
        if (
            len(streams) - counts[s.N_STREAMS] < s.ROOM
            or len(keys) - counts[s.N_KEYS] < s.ROOM
            or len(slots) < 2 * (counts[s.N_KEYS] + s.ROOM)
            or len(snapshots) - counts[s.N_SNAPSHOTS] < s.ROOM
            or len(gaps) - counts[s.N_GAPS] < s.ROOM
            or len(anomalies) - counts[s.N_ANOMALIES] < s.ROOM
            or len(losses) - counts[s.N_LOSSES] < s.ROOM
            or len(seqnos) - counts[s.N_OSO] < s.ROOM
            or len(questions) - counts[s.N_QUESTIONS] < s.ROOM
        ):
            return i
        kind = messages[s.M_KIND, i]
        c, d = messages[s.M_CONNECTION, i], messages[s.M_DIRECTION, i]
        if kind == s.LOST:
            on_loss(i, messages, extras, connections, losses, counts)
            continue
        connections[c, s.C_LAST_ROW + d] = messages[s.M_PLACE + s.AT_ROW, i]
        connections[c, s.C_LAST_FRAME + d] = messages[s.M_PLACE + s.AT_FRAME, i]
        connections[c, s.C_TIME + d] = max(connections[c, s.C_TIME + d], messages[s.M_PLACE + s.AT_TIME, i])
        if kind >= s.REQUEST:
            producer = d if kind >= s.NOOP else 1 - d
            if connections[c, s.C_PRODUCER] < 0:
                connections[c, s.C_PRODUCER] = producer
            if connections[c, s.C_PRODUCER] != producer:
                note(w.ROLE_VIOLATION, i, -1, kind, 0, messages, streams, anomalies, counts)
                continue
        if kind < s.END:
            if kind == s.REQUEST or kind == s.UNREADABLE_REQUEST:
                on_request(i, seed, messages, extras, connections, slots, keys, streams, snapshots, anomalies, questions, orphans, counts)
            elif kind == s.ANSWER:
                on_answer(i, seed, messages, extras, connections, slots, keys, streams, snapshots, anomalies, questions, orphans, counts)
            elif kind == s.CLOSE or kind == s.CLOSE_ANSWER:
                on_close(i, kind, seed, messages, connections, slots, keys, streams, snapshots)
            elif kind == s.SEQNO_ACK:
                on_seqno_ack(i, seed, messages, connections, slots, keys, streams, anomalies, counts)
            else:
                on_connection(i, kind, messages, connections)
            continue
        connections[c, s.C_COUNTED] += messages[s.M_SIZE, i]
        say_balance(c, i, messages, connections)
        connections[c, s.C_PRODUCER_TIME] = messages[s.M_PLACE + s.AT_TIME, i]
        if kind == s.SET_STATE:
            k = key_of_message(i, seed, messages, connections, slots, keys, streams)
            if k >= 0 and keys[k, s.K_LIVE] >= 0:
                streams[keys[k, s.K_LIVE], s.S_BYTES] += messages[s.M_SIZE, i]
                copy_place(messages, i, streams, keys[k, s.K_LIVE], s.S_LATEST)
            continue
        st = route(i, kind, seed, messages, extras, connections, slots, keys, streams, snapshots, anomalies, orphans, counts)
        if st < 0:
            continue
        touch(st, i, messages, connections, streams, snapshots)
        if s.EVENT <= kind <= s.ABORT:
            streams[st, s.S_ITEMS] += 1
        if s.EVENT <= kind <= s.SEQNO_ADVANCED:
            on_seqno(st, i, kind, messages, connections, streams, snapshots, gaps, anomalies, seqnos, counts)
            say_standing(st, i, messages, streams)
        elif kind == s.MARKER:
            on_marker(st, i, messages, extras, connections, streams, snapshots, gaps, anomalies, counts)
        elif kind == s.OSO:
            on_oso(st, i, messages, connections, streams, snapshots, gaps, anomalies, counts)
        elif kind == s.END:
            on_end(st, messages[s.M_EXTRA, i], i, messages, connections, streams, snapshots, gaps, counts)
        elif kind == s.UNREADABLE:
            if s.EVENT <= messages[s.M_EXTRA, i] <= s.ABORT:
                streams[st, s.S_ITEMS] += 1
            on_unreadable(st, i, messages, connections, streams, snapshots, gaps, counts)
    return int(messages.shape[1])
