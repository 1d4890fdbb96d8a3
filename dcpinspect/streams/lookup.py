"""Which stream a message belongs to: streams by (connection, vbucket, stream-id), and what a gap in the capture may have hidden."""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w

BACK = 16
"""Streams of one vbucket among which that of a message is sought that was read late."""


@inline
def slot_for(connection: int, vbucket: int, sid: int, seed: int, slots: int) -> int:
    """The slot that a key wants. Products stay below 2^63, so both forms of a kernel agree."""
    mixed = (connection & 0x7FFFFFFF) * 0x2545F491 + (vbucket << 17) + sid + 1
    mixed = (mixed ^ (mixed >> 29)) & 0x7FFFFFFF
    mixed = mixed * 0x1B873593 + seed * 0x4F6CDD1D
    mixed = (mixed ^ (mixed >> 32)) & 0x7FFFFFFF
    mixed = mixed * 0x2C1B3C6D
    return int((mixed ^ (mixed >> 17)) & (slots - 1))


@inline
def find_key(connection: int, vbucket: int, sid: int, seed: int, slots: Ints, keys: Ints) -> int:
    """Row of a key, or -1 - the free slot where it belongs."""
    at = slot_for(connection, vbucket, sid, seed, len(slots))
    while slots[at] >= 0:
        k = slots[at]
        if keys[k, s.K_VBUCKET] == vbucket and keys[k, s.K_CONNECTION] == connection and keys[k, s.K_SID] == sid:
            return int(k)
        at = (at + 1) & (len(slots) - 1)
    return int(-1 - at)


@inline
def key_of(connection: int, vbucket: int, sid: int, seed: int, slots: Ints, keys: Ints, counts: Ints) -> int:
    """Row of a key, which is there from now on."""
    k = find_key(connection, vbucket, sid, seed, slots, keys)
    if k < 0:
        at = -1 - k
        k = counts[s.N_KEYS]
        counts[s.N_KEYS] = k + 1
        slots[at] = k
        keys[k, s.K_CONNECTION] = connection
        keys[k, s.K_VBUCKET] = vbucket
        keys[k, s.K_SID] = sid
        keys[k, s.K_LIVE] = -1
        keys[k, s.K_PENDING] = -1
        keys[k, s.K_COUNT] = 0
        keys[k, s.K_WITH_SID] = -1
    return int(k)


@kernel("void(int64, int64[::1], int64[:,::1], int64)")
def refill_slots(seed: int, slots: Ints, keys: Ints, count: int) -> None:
    """Enters the first ``count`` keys into empty slots."""
    for k in range(count):
        at = slot_for(keys[k, s.K_CONNECTION], keys[k, s.K_VBUCKET], keys[k, s.K_SID], seed, len(slots))
        while slots[at] >= 0:
            at = (at + 1) & (len(slots) - 1)
        slots[at] = k


@inline
def copy_place(messages: Ints, i: int, table: Ints, row: int, column: int) -> None:
    """Writes the place of message ``i`` into four columns of ``table``."""
    for part in range(s.PLACE):
        table[row, column + part] = messages[s.M_PLACE + part, i]


@inline
def note(code: int, i: int, stream: int, a: int, b: int, messages: Ints, streams: Ints, anomalies: Ints, counts: Ints) -> None:
    """Something about message ``i`` is not as the protocol has it."""
    e = counts[s.N_ANOMALIES]
    counts[s.N_ANOMALIES] = e + 1
    anomalies[e, s.E_CODE] = code
    anomalies[e, s.E_CONNECTION] = messages[s.M_CONNECTION, i]
    anomalies[e, s.E_DIRECTION] = messages[s.M_DIRECTION, i]
    anomalies[e, s.E_STREAM] = stream
    anomalies[e, s.E_A] = a
    anomalies[e, s.E_B] = b
    anomalies[e, s.E_SNAPSHOT] = -1
    if stream >= 0:
        oso = streams[stream, s.S_IN_OSO]
        anomalies[e, s.E_SNAPSHOT] = oso if oso >= 0 else streams[stream, s.S_SNAPSHOT]
    at = s.S_ACKNOWLEDGED_AT if code == w.ACK_REGRESS else s.S_AT
    for part in range(s.PLACE):
        anomalies[e, s.E_OTHER + part] = streams[stream, at + part] if stream >= 0 else 0
    copy_place(messages, i, anomalies, e, s.E_PLACE)


@inline
def open_stream(k: int, i: int, messages: Ints, keys: Ints, connections: Ints, streams: Ints, counts: Ints) -> int:
    """A new stream of key ``k``, opened by message ``i``; the caller fills in what kind it is."""
    c = keys[k, s.K_CONNECTION]
    st = counts[s.N_STREAMS]
    counts[s.N_STREAMS] = st + 1
    for column in range(s.STREAM):
        streams[st, column] = 0
    keys[k, s.K_COUNT] += 1
    if connections[c, s.C_STREAMS] and connections[c, s.C_OPAQUE] == messages[s.M_OPAQUE, i] and connections[c, s.C_OPAQUE_KEY] != k:
        connections[c, s.C_SHARES_OPAQUES] = 1
    connections[c, s.C_OPAQUE] = messages[s.M_OPAQUE, i]
    connections[c, s.C_OPAQUE_KEY] = k
    connections[c, s.C_STREAMS] += 1
    streams[st, s.S_CONNECTION] = c
    streams[st, s.S_VBUCKET] = keys[k, s.K_VBUCKET]
    streams[st, s.S_SID] = keys[k, s.K_SID]
    streams[st, s.S_ORDINAL] = keys[k, s.K_COUNT]
    streams[st, s.S_PREVIOUS] = keys[k, s.K_LIVE]
    streams[st, s.S_OPAQUE] = messages[s.M_OPAQUE, i]
    for column in (s.S_FILTER, s.S_STATUS, s.S_LOG, s.S_CLOSED_ROW, s.S_REASON, s.S_SNAPSHOT, s.S_IN_OSO):
        streams[st, column] = -1
    for column in (s.S_ASKED_BEFORE, s.S_WITH_SID_BEFORE):
        streams[st, column] = -1
    for column in (s.S_DISK_END, s.S_ACKNOWLEDGED):
        streams[st, column] = s.LEAST
    streams[st, s.S_PATIENCE] = connections[c, s.C_SLOWEST]
    streams[st, s.S_LOSSES] = connections[c, s.C_LOSSES + connections[c, s.C_PRODUCER]]
    streams[st, s.S_ORPHANS] = connections[c, s.C_ORPHANS]
    copy_place(messages, i, streams, st, s.S_OPENED)
    copy_place(messages, i, streams, st, s.S_LATEST)
    streams[st, s.S_BEGUN_ROW] = messages[s.M_PLACE + s.AT_ROW, i]
    return int(st)


@inline
def is_open(state: int) -> bool:
    """Whether messages may come in this state of a stream."""
    return w.ACCEPTED <= state <= w.DRAINING


@inline
def has_doubt(st: int, connections: Ints, streams: Ints) -> bool:
    """Whether something that was not captured may have ended stream ``st``, or begun the next one, since its latest message."""
    c = streams[st, s.S_CONNECTION]
    losses = connections[c, s.C_LOSSES + connections[c, s.C_PRODUCER]]
    return bool(streams[st, s.S_LOSSES] != losses or streams[st, s.S_ORPHANS] != connections[c, s.C_ORPHANS])


@inline
def key_of_message(i: int, seed: int, messages: Ints, connections: Ints, slots: Ints, keys: Ints, streams: Ints) -> int:
    """Row of the key that message ``i`` of a producer is for, or below 0.

    Where a stream-id should not be there, or is not, the opaque tells the stream, if it is of only one.
    """
    c, vbucket, sid = messages[s.M_CONNECTION, i], messages[s.M_VBUCKET, i], messages[s.M_SID, i]
    k = find_key(c, vbucket, sid, seed, slots, keys)
    if sid >= 0 and k < 0:
        plain = find_key(c, vbucket, -1, seed, slots, keys)
        live = keys[plain, s.K_LIVE] if plain >= 0 else -1
        if live >= 0 and streams[live, s.S_OPAQUE] == messages[s.M_OPAQUE, i] and not has_doubt(live, connections, streams):
            return plain
    elif sid < 0 and k >= 0 and keys[k, s.K_LIVE] < 0 and keys[k, s.K_PENDING] < 0:
        st, found, count = keys[k, s.K_WITH_SID], -1, 0
        for _ in range(BACK):
            if st < 0:
                break
            if is_open(streams[st, s.S_STATE]) and streams[st, s.S_OPAQUE] == messages[s.M_OPAQUE, i]:
                found = st
                count += 1
            st = streams[st, s.S_WITH_SID_BEFORE]
        if count == 1 and st < 0:
            messages[s.M_SID, i] = streams[found, s.S_SID]
            return find_key(c, vbucket, messages[s.M_SID, i], seed, slots, keys)
    return k


@inline
def note_sid(st: int, i: int, seed: int, messages: Ints, slots: Ints, keys: Ints, streams: Ints, counts: Ints) -> None:
    """Stream ``st``, which message ``i`` opened, is found by its vbucket alone, too, if it has a stream-id."""
    if messages[s.M_SID, i] >= 0:
        plain = key_of(messages[s.M_CONNECTION, i], messages[s.M_VBUCKET, i], -1, seed, slots, keys, counts)
        streams[st, s.S_WITH_SID_BEFORE] = keys[plain, s.K_WITH_SID]
        keys[plain, s.K_WITH_SID] = st


@inline
def is_backwards(st: int, i: int, kind: int, extras: Ints, messages: Ints, connections: Ints, streams: Ints, snapshots: Ints) -> bool:
    """Whether message ``i`` lies behind what stream ``st`` has, as the beginning of another stream would."""
    if streams[st, s.S_HAS_POSITION] == 0 or streams[st, s.S_IN_OSO] >= 0:
        return False
    position = streams[st, s.S_POSITION]
    if kind == s.MARKER:
        x = messages[s.M_EXTRA, i]
        n = streams[st, s.S_SNAPSHOT]
        if streams[st, s.S_POSITION_BY] == s.BY_START:  # its first snapshot may begin below, and has more than what was owned
            return bool(extras[x, s.X_LAYOUT] != s.UPR_LAYOUT and extras[x, s.X_END] <= position)
        if extras[x, s.X_LAYOUT] == s.UPR_LAYOUT or extras[x, s.X_START] > position:
            return False
        return bool(n < 0 or extras[x, s.X_START] != snapshots[n, s.N_START] or extras[x, s.X_END] != snapshots[n, s.N_END])
    if kind == s.OSO:
        return False
    is_seqno = s.EVENT <= kind <= s.SEQNO_ADVANCED
    # an out-of-order snapshot may have begun in what was not captured
    may_be_out_of_order = connections[streams[st, s.S_CONNECTION], s.C_OSO] != 0
    return bool(is_seqno and not may_be_out_of_order and messages[s.M_SEQNO, i] <= position)


@inline
def asked_before(pending: int, i: int, messages: Ints, streams: Ints) -> int:
    """The newest stream whose request is older than message ``i``, of ``pending`` and those before that had no answer; or -1."""
    for _ in range(BACK):
        if pending < 0:
            break
        if messages[s.M_PLACE + s.AT_TIME, i] >= streams[pending, s.S_OPENED + s.AT_TIME]:
            return int(pending) if streams[pending, s.S_STATE] == w.REQUESTED else -1
        pending = streams[pending, s.S_ASKED_BEFORE]
    return -1


@inline
def is_asked_once(st: int, orphans: Ints, streams: Ints) -> bool:
    """Whether no more than one answer without a request has come since that of stream ``st``: a second one is to one that was lost.

    One that grants nothing may be its own, and then what follows is another's.
    """
    answers = 0
    for r in range(len(orphans)):
        if (
            orphans[r, s.R_CONNECTION] == streams[st, s.S_CONNECTION]
            and orphans[r, s.R_OPAQUE] == streams[st, s.S_OPAQUE]
            and orphans[r, s.R_PLACE + s.AT_TIME] >= streams[st, s.S_OPENED + s.AT_TIME]
        ):
            answers += 1 if orphans[r, s.R_STATUS] == 0 else 2
    return answers <= 1


@inline
def may_begin(st: int, i: int, kind: int, extras: Ints, messages: Ints, connections: Ints, streams: Ints) -> bool:
    """Whether message ``i`` may be the first of the stream after ``st``.

    The first is no event, unless what comes before it was lost; and where an opaque tells no stream from another, no marker beyond the
    position that was resumed from.
    """
    if kind == s.MARKER:
        if connections[streams[st, s.S_CONNECTION], s.C_SHARES_OPAQUES] == 0:
            return True
        is_at_start = streams[st, s.S_HAS_POSITION] == 0 or streams[st, s.S_POSITION_BY] == s.BY_START
        return bool(is_at_start or extras[messages[s.M_EXTRA, i], s.X_START] <= streams[st, s.S_POSITION])
    is_lost = streams[st, s.S_LOSSES] != losses_of(streams[st, s.S_CONNECTION], connections)
    return bool(is_lost or not s.EVENT <= kind <= s.SEQNO_ADVANCED)


@inline
def is_reopened(st: int, orphans: Ints, connections: Ints, streams: Ints, counts: Ints) -> bool:
    """Whether a request with the opaque of stream ``st``, which was not captured, was accepted since the stream's latest message."""
    c = streams[st, s.S_CONNECTION]
    left = connections[c, s.C_ORPHANS] - streams[st, s.S_ORPHANS]
    number = counts[s.N_ORPHANS]
    least = max(0, number - len(orphans))
    while left > 0 and number > least:
        number -= 1
        r = number % len(orphans)
        if orphans[r, s.R_PLACE + s.AT_ROW] < streams[st, s.S_LATEST + s.AT_ROW]:
            break
        is_any_sid = streams[st, s.S_SID] >= 0 and orphans[r, s.R_CONNECTION] == s.TAKEN - c
        if (orphans[r, s.R_CONNECTION] == c or is_any_sid) and orphans[r, s.R_STATUS] == 0:
            left -= 1
            if orphans[r, s.R_OPAQUE] == streams[st, s.S_OPAQUE]:
                return True
    return False


@inline
def unanswered(st: int, streams: Ints) -> int:
    """The newest stream without an answer, of ``st`` and those whose requests were before it; or -1."""
    for _ in range(BACK):
        if st < 0 or streams[st, s.S_STATE] == w.REQUESTED:
            break
        st = streams[st, s.S_ASKED_BEFORE]
    return int(st) if st >= 0 and streams[st, s.S_STATE] == w.REQUESTED else -1


@inline
def may_be_asked(st: int, i: int, seed: int, messages: Ints, connections: Ints, slots: Ints, keys: Ints, streams: Ints) -> bool:
    """Whether stream ``st`` may have been asked for again in what was lost before message ``i`` since its latest one.

    A request for its vbucket, of its opaque and of a stream-id that nobody knows, has no answer.
    """
    c = streams[st, s.S_CONNECTION]
    if streams[st, s.S_SID] < 0 or streams[st, s.S_LOSSES] == losses_of(c, connections):
        return False
    k = find_key(c, streams[st, s.S_VBUCKET], -1, seed, slots, keys)
    asked = keys[k, s.K_PENDING] if k >= 0 else -1
    for _ in range(BACK):
        asked = unanswered(asked, streams)
        if asked < 0 or streams[asked, s.S_OPENED + s.AT_TIME] < streams[st, s.S_LATEST + s.AT_TIME]:
            break
        is_before = streams[asked, s.S_OPENED + s.AT_TIME] <= messages[s.M_PLACE + s.AT_TIME, i]
        if is_before and streams[asked, s.S_OPAQUE] == streams[st, s.S_OPAQUE] and streams[asked, s.S_ORPHANS] < 0:
            return True
        asked = streams[asked, s.S_ASKED_BEFORE]
    return False


@inline
def may_be_closed(st: int, i: int, messages: Ints, connections: Ints, streams: Ints) -> bool:
    """Whether stream ``st`` may be over, and the next of its opaque begun, in what was lost before message ``i`` since its latest one.

    The client closed it, or a stream that nobody knows.
    """
    c = streams[st, s.S_CONNECTION]
    if streams[st, s.S_LOSSES] == losses_of(c, connections):
        return False
    is_closing = w.CLOSING <= streams[st, s.S_STATE] <= w.DRAINING and streams[st, s.S_CLOSED_TIME] <= messages[s.M_PLACE + s.AT_TIME, i]
    return bool(is_closing or connections[c, s.C_CLOSED_TIME] >= streams[st, s.S_LATEST + s.AT_TIME])


@inline
def route(
    i: int,
    kind: int,
    seed: int,
    messages: Ints,
    extras: Ints,
    connections: Ints,
    slots: Ints,
    keys: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    orphans: Ints,
    counts: Ints,
) -> int:
    """The stream that message ``i`` of a producer belongs to; -1 where it changes nothing.

    A stream that nobody was seen to ask for begins implicitly where the request may not have been captured: on a connection that began
    before the capture, after a loss in the producer's direction, or after the answer to a request that is not there. Nothing else is
    needed: an answer precedes the messages of its stream, in the same direction.
    """
    c = messages[s.M_CONNECTION, i]
    opaque = messages[s.M_OPAQUE, i]
    k = key_of_message(i, seed, messages, connections, slots, keys, streams)
    live = keys[k, s.K_LIVE] if k >= 0 else -1
    pending = keys[k, s.K_PENDING] if k >= 0 else -1
    runs = live >= 0 and is_open(streams[live, s.S_STATE])
    same = live >= 0 and streams[live, s.S_OPAQUE] == opaque
    doubt = live >= 0 and has_doubt(live, connections, streams)
    if runs and not doubt:
        if same:
            return int(live)
        before = streams[live, s.S_PREVIOUS]
        if before >= 0 and streams[before, s.S_OPAQUE] == opaque and streams[before, s.S_CLOSED_ROW] >= 0:
            return -1  # of the stream before, which the client closed while they were under way
        note(w.OPAQUE_MISMATCH, i, live, opaque, streams[live, s.S_OPAQUE], messages, streams, anomalies, counts)
        return int(live)
    asked = asked_before(pending, i, messages, streams)
    is_its = asked >= 0 and streams[asked, s.S_OPAQUE] == opaque and has_doubt(asked, connections, streams)
    if is_its and is_asked_once(asked, orphans, streams):
        leave(k, keys, connections, streams, snapshots)
        keys[k, s.K_LIVE] = asked
        if asked == pending:
            keys[k, s.K_PENDING] = -1
        accept(asked, i, messages, streams)
        return int(asked)
    if runs and same:
        is_other = may_begin(live, i, kind, extras, messages, connections, streams) and is_reopened(
            live, orphans, connections, streams, counts
        )
        if (
            not is_other
            and not may_be_asked(live, i, seed, messages, connections, slots, keys, streams)
            and not may_be_closed(live, i, messages, connections, streams)
            and not is_backwards(live, i, kind, extras, messages, connections, streams, snapshots)
        ):
            return int(live)
    if not runs and not doubt:
        is_over = live >= 0
        if is_over or (connections[c, s.C_KNOWN] == 1 and connections[c, s.C_ORPHANS] == 0 and losses_of(c, connections) == 0):
            note(w.AFTER_END if is_over else w.WITHOUT_STREAM, i, live, opaque, kind, messages, streams, anomalies, counts)
            return -1
    k = key_of(c, messages[s.M_VBUCKET, i], messages[s.M_SID, i], seed, slots, keys, counts)
    leave(k, keys, connections, streams, snapshots)
    st = open_stream(k, i, messages, keys, connections, streams, counts)
    note_sid(st, i, seed, messages, slots, keys, streams, counts)
    streams[st, s.S_STATE] = w.STREAMING
    streams[st, s.S_SUSPENDED] = 1
    keys[k, s.K_LIVE] = st
    return int(st)


@inline
def is_late(i: int, messages: Ints, connections: Ints) -> bool:
    """Whether a gap before message ``i`` held it back until later messages of the other side had been read."""
    other = 1 - messages[s.M_DIRECTION, i]
    return bool(connections[messages[s.M_CONNECTION, i], s.C_TIME + other] > messages[s.M_PLACE + s.AT_TIME, i])


@inline
def losses_of(c: int, connections: Ints) -> int:
    """Losses so far in the producer's direction of a connection."""
    return int(connections[c, s.C_LOSSES + connections[c, s.C_PRODUCER]])


@inline
def accept(st: int, i: int, messages: Ints, streams: Ints) -> None:
    """Stream ``st`` is granted, as message ``i`` shows."""
    streams[st, s.S_STATE] = w.ACCEPTED if streams[st, s.S_CLOSED_ROW] < 0 else w.CLOSING
    streams[st, s.S_POSITION_LOSSES] = streams[st, s.S_LOSSES]  # of the time of the request
    if streams[st, s.S_FORM] > 0 and streams[st, s.S_FLAGS] & FROM_LATEST == 0:
        streams[st, s.S_HAS_POSITION] = 1
        streams[st, s.S_POSITION] = streams[st, s.S_START]
        streams[st, s.S_POSITION_BY] = s.BY_START
        copy_place(messages, i, streams, st, s.S_AT)


@inline
def leave(k: int, keys: Ints, connections: Ints, streams: Ints, snapshots: Ints) -> None:
    """Another stream takes the place of the live one of key ``k``, whose end was not seen."""
    st = keys[k, s.K_LIVE]
    if st < 0 or not is_open(streams[st, s.S_STATE]):
        return
    is_lost = streams[st, s.S_LOSSES] != losses_of(streams[st, s.S_CONNECTION], connections)
    if streams[st, s.S_STATE] != w.DRAINING or is_lost:
        streams[st, s.S_STATE] = w.LEFT
    else:
        streams[st, s.S_STATE] = w.ENDED
    for n in (streams[st, s.S_SNAPSHOT], streams[st, s.S_IN_OSO]):
        if n >= 0 and snapshots[n, s.N_STATE] == w.OPEN:
            is_vague = is_lost or snapshots[n, s.N_TAINTED] or snapshots[n, s.N_LAYOUT] == s.UPR_LAYOUT
            snapshots[n, s.N_STATE] = w.NOT_KNOWN if is_vague else w.CUT
    streams[st, s.S_SNAPSHOT] = -1
    streams[st, s.S_IN_OSO] = -1
