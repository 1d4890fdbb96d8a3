"""The records that the tracker remembers, with the meaning of each field.

Seqnos are *biased*: stored as the seqno less 2**63, so that signed integers of 64 bits compare as
unsigned ones do. The number of a record is its place in its table. Where -1 means none, ``of``
names the table that a field has numbers of.
"""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.structs import (
    FieldPair,
    Struct,
    StructRows,
    T,
    by_direction,
    nested,
    number,
)

LEAST = -(1 << 63)
"""Seqno 0, biased."""
GREATEST = (1 << 63) - 1
"""Seqno 2**64 - 1, biased."""
FILE_SHIFT = 40
"""Bits of ``MessageRow.frame`` for the frame; the number of its file is in the bits above."""
UNREAD_SEQNO = GREATEST
"""Value of ``Stream.rollback`` where an answer was read, but not its seqno."""
CUT_VALUE = -2
"""Value of ``Stream.filter`` where the request was not captured whole: nobody knows what it asks
for, and with which stream-id.
"""
TAKEN = -1
"""Value of ``EarlyAnswer.connection`` once its request was found."""


class MessageRow(Struct[T]):
    """Where a message is."""

    row: T = number("Row of the message.")
    offset: T = number("Stream offset of its first byte.")
    frame: T = number(
        "Frame that has the first byte, with the number of the frame's file from bit FILE_SHIFT up."
    )
    time: T = number("Capture time of the message in nanoseconds.")


# -- what a batch gives to the kernel


class Message(Struct[T]):
    """One message, or bytes that could not be read."""

    kind: T = number("What the message means for streams: see ``record_codes``.")
    connection: T = number("Connection of the message.")
    direction: T = number("Direction: 0 from the client, 1 from the server.")
    vbucket: T = number("Vbucket of the message; -1 if unknown.")
    sid: T = number("Stream-id of the message, -1 for none.")
    opaque: T = number("Opaque of the message.")
    seqno: T = number("Seqno of the message, biased, if its kind has one.")
    detail: T = number(
        "Row of what the message carries besides, in the table for its kind: requests, "
        "answers, markers, holes or extras. Of prepares, written by the kernel: ``Stream.unbroken``."
    )
    size: T = number(
        "Bytes that flow control counts. Where a window is granted, the kernel writes those "
        "that it would have counted before."
    )
    stream: T = number("For events, written by the kernel: the stream.", of="streams")
    snapshot: T = number("For events, written by the kernel: the snapshot.", of="snapshots")
    standing: T = number(
        "For events, written by the kernel: bits that say what is certain, IS_EVENT and those "
        "after it."
    )
    window: T = number(
        "For acknowledgements, windows and what windows count, written by the kernel: "
        "``ConnectionRow.window``."
    )
    balance: T = number(
        "For the same, written by the kernel: bytes that wait for an acknowledgement, LEAST if "
        "unknown."
    )
    place: MessageRow[T] = nested(MessageRow, "Where the message is.")


class Messages(Message[IntArray], StructRows[Message]):
    """The messages of a batch that concern streams."""


class Request(Struct[T]):
    """What a stream request asks for."""

    start: T = number("start_seqno, biased.")
    end: T = number("end_seqno, biased.")
    uuid: T = number("vbucket_uuid.")
    snapshot_start: T = number("snapshot_start_seqno, biased.")
    snapshot_end: T = number("snapshot_end_seqno, biased.")
    flags: T = number("Flags of the request.")
    is_captured: T = number("Whether the request was captured and can be read.")
    has_range: T = number("Whether it has the range of a snapshot; the 40 bytes of UPR have none.")
    filter: T = number(
        "Row of the parsed value, -1 for none, or CUT_VALUE.", reset=-1, of="filters"
    )


class Requests(Request[IntArray], StructRows[Request]):
    """The stream requests of a batch."""


class StreamAnswer(Struct[T]):
    """The answer to a stream request."""

    status: T = number("Status of the answer.")
    rollback: T = number("Seqno to roll back to, biased, or UNREAD_SEQNO.")
    log: T = number("Number of the failover log, or -1.", reset=-1, of="logs")
    request: T = number("Row of the request, or -1.")
    rtt: T = number("Nanoseconds since the request, 0 if unknown.")


class StreamAnswers(StreamAnswer[IntArray], StructRows[StreamAnswer]):
    """The answers to stream requests of a batch."""


class OptionalSeqnos(Struct[T]):
    """The seqnos that only some layouts of markers have."""

    max_visible: T = number("max_visible_seqno, biased.")
    high_completed: T = number("high_completed_seqno, biased.")
    purge: T = number("purge_seqno, biased.")
    high_prepared: T = number("high_prepared_seqno, biased.")
    present: T = number("Bits that say which of these four the marker has, in this order.")


class Marker(Struct[T]):
    """What a snapshot marker says."""

    start: T = number("First seqno of the snapshot, biased.")
    end: T = number("Last seqno of the snapshot, biased.")
    flags: T = number("Type of the snapshot.")
    layout: T = number("Number of the marker's layout; UPR_LAYOUT has no range.")
    seqnos: OptionalSeqnos[T] = nested(OptionalSeqnos, "Seqnos that only some layouts have.")


class Markers(Marker[IntArray], StructRows[Marker]):
    """The snapshot markers of a batch."""


class CaptureHole(Struct[T]):
    """Bytes that could not be read."""

    start: T = number("Stream offset of the first byte.")
    end: T = number("Stream offset after the last byte.")


class CaptureHoles(CaptureHole[IntArray], StructRows[CaptureHole]):
    """The holes of a batch."""


class MessageExtra(Struct[T]):
    """What messages of other kinds carry, each kind in a field of its own."""

    ack_bytes: T = number("For an acknowledgement: bytes that the client has processed.")
    end_reason: T = number("For a stream end: the reason, -1 if it cannot be read.")
    cached_items: T = number("For a cache transfer: its items.")
    oso_flags: T = number("For the start or end of an OSO snapshot: the flags.")
    status: T = number("For an answer to a close: the status.")
    would_be: T = number("For a message whose extras cannot be read: the kind that it would have.")
    setting: T = number(
        "For a fact about the connection: which fact, FACT_END_ON_CLOSE and those after it."
    )
    value: T = number("Value of that fact: 1 on, 0 off, bytes of a window, -1 unknown.")


class MessageExtras(MessageExtra[IntArray], StructRows[MessageExtra]):
    """The extras of a batch."""


# -- what is known


class ConnectionRow(Struct[T]):
    """A connection; number n is at place n, and 0 is none."""

    is_known: T = number("Whether the connection was captured from its handshake on.")
    producer: T = number("Direction of the producer's messages, or -1.", reset=-1)
    losses: FieldPair[T] = by_direction("Losses so far.")
    last_loss: FieldPair[T] = by_direction("The latest loss.", reset=-1, of="losses")
    last_row: FieldPair[T] = by_direction("Row of the latest message.")
    last_frame: FieldPair[T] = by_direction("Frame of the latest message.")
    orphans: T = number("Accepted stream requests that were not captured.")
    end_on_close: T = number(
        "Whether the server ends a stream that is closed: 1 on, 0 off, -1 unknown."
    )
    oso: T = number("Whether snapshots may be out of order: 1 yes, 0 no, -1 unknown.")
    history: T = number("Whether change streams have the history: 1 yes, 0 no, -1 unknown.")
    window: T = number("Flow-control window in bytes, 0 if flow control is off, -1 if unknown.")
    window_losses: FieldPair[T] = by_direction("Losses by the time the window was granted.")
    counted: T = number("Bytes that flow control counted.")
    acked: T = number("Bytes that were acknowledged.")
    is_based: T = number(
        "Whether ``counted`` and ``acked`` have everything since the window was granted."
    )
    slowest: T = number("Longest answer time of a stream request so far.")
    streams: T = number("Number of streams that the connection had.")
    closed_time: T = number(
        "Time of the latest answer to a close that was not captured; LEAST for none.", reset=LEAST
    )
    opaque: T = number("Opaque of the newest stream.")
    opaque_key: T = number("Key of the stream that ``opaque`` is of.", of="keys")
    shares_opaques: T = number(
        "Whether two streams one after the other had the same opaque and different keys."
    )
    noops: T = number("Number of noops that the server sent.")
    noop_row: T = number("Row of the noop that has waited longest for its answer, or -1.", reset=-1)
    noop_time: T = number("Capture time of that noop.")
    noop_slowest: T = number("Longest time that a noop waited for its answer.")
    producer_time: T = number("Time of the producer's latest message of a stream.")
    time: FieldPair[T] = by_direction("Latest capture time of a message.")
    is_met: T = number("Whether the connection was met; rows of others are empty.")


class ConnectionRows(ConnectionRow[IntArray], StructRows[ConnectionRow]):
    """The connections of a reading."""


class StreamKey(Struct[T]):
    """A connection, a vbucket and a stream-id: what names a stream at any time."""

    connection: T = number("The connection.")
    vbucket: T = number("The vbucket.")
    sid: T = number("The stream-id, -1 for none.")
    live: T = number("Stream to which messages of the key belong.", reset=-1, of="streams")
    pending: T = number("Newest stream whose request has no answer yet.", reset=-1, of="streams")
    count: T = number("Number of streams that the key had.")
    with_sid: T = number(
        "For a key without a stream-id: the newest stream of the vbucket that has one.",
        reset=-1,
        of="streams",
    )
    number: T = number("Number of the key.", of="keys")


class Keys(StreamKey[IntArray], StructRows[StreamKey]):
    """The keys of a reading."""


class Stream(Struct[T]):
    """A stream, from its request, or its first message, to its end."""

    connection: T = number("Connection of the stream.", of="connections")
    vbucket: T = number("Vbucket of the stream.")
    sid: T = number("Stream-id, -1 for none.")
    ordinal: T = number(
        "Number of streams that the key had, this one included, when it was opened."
    )
    previous: T = number("Stream that the key had before.", of="streams")
    opaque: T = number("Opaque of the stream.")
    state: T = number("State of the stream: see ``transitions``.")
    request: Request[T] = nested(Request, "What was asked for.")
    opened: MessageRow[T] = nested(MessageRow, "The request, or the first message.")
    answered: MessageRow[T] = nested(MessageRow, "The answer.")
    finished: MessageRow[T] = nested(MessageRow, "The end.")
    latest: MessageRow[T] = nested(MessageRow, "The latest message.")
    at: MessageRow[T] = nested(MessageRow, "The message that gave ``position``.")
    answer: T = number("What the answer was: A_UNKNOWN and those after it.")
    status: T = number("Status of the answer, -1 for none.", reset=-1)
    rollback: T = number("Seqno to roll back to, biased, or UNREAD_SEQNO.")
    log: T = number("Failover log of the answer.", reset=-1, of="logs")
    patience: T = number("Value of ``Connection.slowest`` when the stream was opened.")
    closed_row: T = number("Row of the client's request to close the stream, or -1.", reset=-1)
    reason: T = number("Reason of the stream end, -1 if unknown.", reset=-1)
    items: T = number("Number of events.")
    cached_items: T = number("Number of items of cache transfers.")
    bytes: T = number("Bytes of all messages of the stream.")
    seen: T = number("Number of seqnos received.")
    first: T = number("Least seqno received, biased.")
    last: T = number("Greatest seqno received, biased.")
    snapshots_begun: T = number("Number of snapshots so far.")
    snapshot: T = number("The current snapshot.", reset=-1, of="snapshots")
    in_oso: T = number("The current OSO snapshot.", reset=-1, of="snapshots")
    has_position: T = number("Whether ``position`` is known.")
    position: T = number("Seqno up to which the stream has accounted for everything, biased.")
    unbroken: T = number("Seqno since which no other is missing, biased.", reset=LEAST)
    position_by: T = number("What gave ``position``: BY_START, BY_EVENT, BY_ADVANCED or BY_END.")
    position_in: T = number("Snapshot that ran when ``position`` was given.", of="snapshots")
    position_losses: T = number("Losses of the connection when ``position`` was given.")
    before_leap: T = number(
        "Position before a seqno that leapt out of its snapshot, biased; GREATEST for none.",
        reset=GREATEST,
    )
    unreadable: T = number("Row of the latest message that could not be read, or -1.", reset=-1)
    losses: T = number("Losses of the connection at the latest message.")
    orphans: T = number("Value of ``Connection.orphans`` at the latest message.")
    doubt: T = number("Bits: what else casts doubt on the stream. ANSWER_LOST and those after it.")
    lost_since_marker: T = number("Whether capture lost something since the last marker.")
    disorder: T = number("Whether capture loss may hide the start of an OSO snapshot.")
    open_gap: T = number(
        "A gap that is not sure yet: seqnos of an OSO snapshot, whose start was lost, make it "
        "narrower; and a request that is read late"
        " tells where that before the first seqno begins, which is empty until then.",
        reset=-1,
        of="gaps",
    )
    is_whole: T = number("Whether nothing was lost since the answer.")
    disk_end: T = number("Greatest end of a snapshot from disk, biased.", reset=LEAST)
    prepared: T = number("Greatest seqno of a prepare, biased.", reset=LEAST)
    acknowledged: T = number(
        "Seqno up to which a replica has acknowledged all prepares, biased.", reset=LEAST
    )
    acknowledged_at: MessageRow[T] = nested(MessageRow, "Where the replica said ``acknowledged``.")
    awaited: MessageRow[T] = nested(
        MessageRow,
        "What completed the first snapshot with prepares above ``acknowledged``; row 0: none waits.",
    )
    asked_before: T = number(
        "The stream of the key's request before, if that had no answer by then.",
        reset=-1,
        of="streams",
    )
    with_sid_before: T = number(
        "Stream before this one, of the same vbucket, that has a stream-id.", reset=-1, of="streams"
    )
    begun_row: T = number(
        "Row of the message that created the stream first; its request may have been read later."
    )
    closed_time: T = number("Time of the client's request to close the stream.")
    faulty_row: T = number("Row of the latest event or marker that is at fault, 0 for none.")
    faulty_opaque: T = number("Opaque of that message.")
    at_before_fault: MessageRow[T] = nested(MessageRow, "``at`` before that message.")
    number: T = number("Number of the stream.", of="streams")


class Streams(Stream[IntArray], StructRows[Stream]):
    """The streams of a reading, in order of their opening."""


class Snapshot(Struct[T]):
    """A snapshot, from its marker, or its start, to what is over it."""

    stream: T = number("Stream of the snapshot.", of="streams")
    index: T = number("Number of snapshots that the stream had by then, this one included.")
    start: T = number("First seqno of its range, biased.")
    end: T = number("Last seqno of its range, biased.")
    flags: T = number("Type of the snapshot.")
    layout: T = number("Layout of the marker; OSO_LAYOUT for an OSO snapshot, which has no marker.")
    place: MessageRow[T] = nested(MessageRow, "The marker.")
    closed_row: T = number("Row of the message that ended the snapshot, or -1.", reset=-1)
    seqnos: OptionalSeqnos[T] = nested(
        OptionalSeqnos, "Seqnos that only some layouts of the marker have."
    )
    state: T = number("State of the snapshot: see ``transitions``.")
    position: T = number(
        "Whether the snapshot is the first of its stream: FIRST and those after it."
    )
    items: T = number("Number of events.")
    seen: T = number("Number of seqnos received.")
    first: T = number("Least seqno received, biased.")
    last: T = number("Greatest seqno received, biased.")
    reached: T = number(
        "Greatest seqno received inside the range, biased, LEAST for none.", reset=LEAST
    )
    first_event: T = number("Seqno of the first event, biased.")
    has_first_event: T = number(
        "Whether ``first_event`` is known: 1 yes, 2 the first one may be lost."
    )
    is_tainted: T = number("Whether capture lost something while the snapshot ran.")
    is_overlapped: T = number("Whether the next marker begins before the end of this one.")
    advanced: T = number("Seqno of a SeqnoAdvanced inside an OSO snapshot, biased.")
    has_advanced: T = number("Whether there is ``advanced``.")
    before: T = number("Position of the stream when the snapshot began, biased.")
    has_before: T = number("Whether ``before`` is known.")
    loss: T = number("Latest loss when a tainted OSO snapshot was complete.", of="losses")
    is_merged: T = number("Whether the snapshot begins before the end of the one before.")
    disk_end: T = number("Value of ``Stream.disk_end`` when the snapshot began.")
    reached_time: T = number("Capture time of the message that completed the snapshot.")
    advanced_row: T = number("Row of the message that gave ``advanced``.")
    number: T = number("Number of the snapshot.", of="snapshots")


class Snapshots(Snapshot[IntArray], StructRows[Snapshot]):
    """The snapshots of a reading, in order of their markers."""


class Gap(Struct[T]):
    """Seqnos that a stream did not deliver."""

    stream: T = number("The stream.", of="streams")
    after: T = number("Last seqno before them, biased.")
    before: T = number("First seqno after them, biased.")
    flags: T = number("Bits that say what is known of the gap: IS_LOST and those after it.")
    snapshot: T = number("Snapshot that the gap is in.", reset=-1, of="snapshots")
    begins: MessageRow[T] = nested(MessageRow, "Message that gave ``after``.")
    ends: MessageRow[T] = nested(MessageRow, "Message that gave ``before``.")
    loss: T = number("Latest loss between the two messages.", reset=-1, of="losses")
    losses: T = number("Number of losses between the two messages.")
    unreadable: T = number("Row of a message between them that cannot be read, or -1.", reset=-1)


class Gaps(Gap[IntArray], StructRows[Gap]):
    """The gaps of a reading."""


class Anomaly(Struct[T]):
    """Something that is not as the protocol has it."""

    code: T = number("What is wrong: the number of a case of ``anomalies.py``.")
    connection: T = number("Connection of the message.")
    direction: T = number("Direction of the message.")
    stream: T = number("Stream of the message.", of="streams")
    a: T = number("A number that the code explains: a biased seqno, or an opaque.")
    b: T = number("A second number that the code explains.")
    snapshot: T = number("The current snapshot of the stream.", of="snapshots")
    place: MessageRow[T] = nested(MessageRow, "The message.")
    other: MessageRow[T] = nested(
        MessageRow, "The earlier message of the same direction that it contradicts; row 0 for none."
    )


class Anomalies(Anomaly[IntArray], StructRows[Anomaly]):
    """The anomalies of the latest batch."""


class ByteLoss(Struct[T]):
    """Bytes of a direction that could not be read."""

    connection: T = number("The connection.", of="connections")
    direction: T = number("The direction.")
    start: T = number("Stream offset of the first byte.")
    end: T = number("Stream offset after the last byte.")
    before_row: T = number("Row of the message before.")
    before_frame: T = number("Frame of the message before.")
    before_time: T = number(
        "Time of the message before, 0 if there is none; the bytes were sent later."
    )
    after_row: T = number("Row of the message after the bytes.")
    after_frame: T = number("Frame of the message after the bytes.")
    after_time: T = number("Time of the message after the bytes, which were sent earlier.")
    previous: T = number("Loss before, of the same direction.", of="losses")


class ByteLosses(ByteLoss[IntArray], StructRows[ByteLoss]):
    """The losses of a reading."""


class OsoSeqno(Struct[T]):
    """A seqno of an OSO snapshot."""

    snapshot: T = number("The snapshot.", of="snapshots")
    seqno: T = number("The seqno, biased.")


class OsoSeqnos(OsoSeqno[IntArray], StructRows[OsoSeqno]):
    """Seqnos of OSO snapshots that the tracker has not taken over yet."""


class RoleTurn(Struct[T]):
    """A message that shows that the producer's direction is not the one known so far."""

    connection: T = number("The connection.")
    row: T = number("Row of the message.")
    before: T = number("Direction of the producer's messages up to there, or -1.")
    after: T = number("Direction of the producer's messages from there on.")


class RoleTurns(RoleTurn[IntArray], StructRows[RoleTurn]):
    """The turns of the latest batch."""


class Question(Struct[T]):
    """A stream request, and the stream that it opened, or proved to have opened."""

    row: T = number("Row of the request.")
    stream: T = number("The stream.", of="streams")


class Questions(Question[IntArray], StructRows[Question]):
    """The stream requests of a reading, in order of their rows."""


class EarlyAnswer(Struct[T]):
    """An answer to a stream request that had not been read by then: requests may be held back by a
    hole before them.
    """

    connection: T = number(
        "The connection; TAKEN once its request was found; TAKEN less the connection where "
        "that has no known stream-id."
    )
    opaque: T = number("The opaque.")
    status: T = number("The status.")
    rollback: T = number("Seqno to roll back to, as in ``StreamAnswer``.")
    log: T = number("Number of the failover log, as in ``StreamAnswer``.", of="logs")
    place: MessageRow[T] = nested(MessageRow, "The answer.")


class EarlyAnswers(EarlyAnswer[IntArray], StructRows[EarlyAnswer]):
    """The latest early answers: answer number n is in row n modulo the number of rows."""


class RowCounts(Struct[T]):
    """Rows in use of each table that grows."""

    streams: T = number("Streams.")
    keys: T = number("Keys.")
    snapshots: T = number("Snapshots.")
    gaps: T = number("Gaps.")
    anomalies: T = number("Anomalies.")
    losses: T = number("Losses.")
    oso_seqnos: T = number("Seqnos of OSO snapshots.")
    turns: T = number("Changes of the producer's direction.")
    questions: T = number("Stream requests.")
    early_answers: T = number("Answers without a request so far.")
