"""The records that the tracker remembers, with the meaning of each field.

Seqnos are *biased*: stored as the seqno less 2**63, so that signed integers of 64 bits compare as unsigned ones do. The number of a record
is its place in its table. Where -1 means none, ``of`` names the table that a field has numbers of.
"""

from __future__ import annotations

from dcpinspect.structs import Ints, Pair, Rows, Struct, T, by_direction, nested, number

LEAST = -(1 << 63)
"""Seqno 0, biased."""
GREATEST = (1 << 63) - 1
"""Seqno 2**64 - 1, biased."""
FILE_SHIFT = 40
"""Bits of ``Place.frame`` for the frame; the number of its file is in the bits above."""
UNREAD_SEQNO = GREATEST
"""Value of ``Stream.rollback`` where an answer was read, but not its seqno."""
CUT_VALUE = -2
"""Value of ``Stream.filter`` where the request was not captured whole: nobody knows what it asks for, and with which stream-id."""
TAKEN = -1
"""Value of ``EarlyAnswer.connection`` once its request was found."""


class Place(Struct[T]):
    """Where a message is."""

    row: T = number("Its row.")
    offset: T = number("Stream offset of its first byte.")
    frame: T = number("Frame that has it, with the number of the frame's file from bit FILE_SHIFT up.")
    time: T = number("Its capture time in nanoseconds.")


# -- what a batch gives to the kernel --------------------------------------------------------------------------------------------


class Message(Struct[T]):
    """One message, or bytes that could not be read."""

    kind: T = number("What it is to streams: see ``kinds``.")
    connection: T = number("Its connection.")
    direction: T = number("0 from the client, 1 from the server.")
    vbucket: T = number("Its vbucket; -1 if unknown.")
    sid: T = number("Its stream-id, -1 for none.")
    opaque: T = number("Its opaque.")
    seqno: T = number("Its seqno, biased, where its kind has one.")
    detail: T = number("Number of what its kind carries besides: in requests, answers, markers, holes or extras.")
    size: T = number(
        "Bytes that flow control counts. Where a window is granted, the kernel writes those that it would have counted before."
    )
    stream: T = number("The kernel writes at events: the stream.", of="streams")
    snapshot: T = number("The kernel writes at events: the snapshot.", of="snapshots")
    standing: T = number("The kernel writes at events: bits of what is certain, IS_EVENT and those after it.")
    window: T = number("The kernel writes at acknowledgements, windows and what windows count: ``Connection.window``.")
    balance: T = number("The kernel writes there: bytes that wait for an acknowledgement, LEAST if unknown.")
    place: Place[T] = nested(Place, "Where it is.")


class Messages(Message[Ints], Rows[Message]):
    """The messages of a batch that concern streams."""


class Request(Struct[T]):
    """What a stream request asks for."""

    start: T = number("start_seqno, biased.")
    end: T = number("end_seqno, biased.")
    uuid: T = number("vbucket_uuid.")
    snapshot_start: T = number("snapshot_start_seqno, biased.")
    snapshot_end: T = number("snapshot_end_seqno, biased.")
    flags: T = number("Its flags.")
    form: T = number("1 as now, 2 the 40 bytes of UPR, 0 where the request was not captured or cannot be read.")
    filter: T = number("Number of its parsed value, -1 for none, or CUT_VALUE.", reset=-1, of="filters")


class Requests(Request[Ints], Rows[Request]):
    """The stream requests of a batch."""


class Answer(Struct[T]):
    """The answer to a stream request."""

    status: T = number("Its status.")
    rollback: T = number("Seqno to roll back to, biased, or UNREAD_SEQNO.")
    log: T = number("Number of the failover log, or -1.", reset=-1, of="logs")
    request: T = number("Row of the request, or -1.")
    rtt: T = number("Nanoseconds since the request, 0 if unknown.")


class Answers(Answer[Ints], Rows[Answer]):
    """The answers to stream requests of a batch."""


class OptionalSeqnos(Struct[T]):
    """The seqnos that only some layouts of markers have."""

    max_visible: T = number("max_visible_seqno, biased.")
    high_completed: T = number("high_completed_seqno, biased.")
    purge: T = number("purge_seqno, biased.")
    high_prepared: T = number("high_prepared_seqno, biased.")
    present: T = number("Bits of those that are there, in this order.")


class Marker(Struct[T]):
    """What a snapshot marker says."""

    start: T = number("First seqno of the snapshot, biased.")
    end: T = number("Last seqno of the snapshot, biased.")
    flags: T = number("Type of the snapshot.")
    layout: T = number("Number of the marker's layout; UPR_LAYOUT has no range.")
    seqnos: OptionalSeqnos[T] = nested(OptionalSeqnos, "Seqnos of its layout.")


class Markers(Marker[Ints], Rows[Marker]):
    """The snapshot markers of a batch."""


class Hole(Struct[T]):
    """Bytes that could not be read."""

    start: T = number("Stream offset of the first byte.")
    end: T = number("Stream offset after the last byte.")


class Holes(Hole[Ints], Rows[Hole]):
    """The holes of a batch."""


class Extra(Struct[T]):
    """What messages of other kinds carry, each kind in a field of its own."""

    ack_bytes: T = number("Of an acknowledgement: bytes that the client has processed.")
    end_reason: T = number("Of a stream end: its reason, -1 if it cannot be read.")
    oso_flags: T = number("Of an OSO snapshot's start or end: its flags.")
    status: T = number("Of an answer to a close: its status.")
    would_be: T = number("Of a message whose extras cannot be read: the kind that it would be.")
    setting: T = number("Of a fact about the connection: which, FACT_END_ON_CLOSE and those after it.")
    value: T = number("The value of that: 1 on, 0 off, bytes of a window, -1 unknown.")


class Extras(Extra[Ints], Rows[Extra]):
    """The extras of a batch."""


# -- what is known -----------------------------------------------------------------------------------------------------------------


class Connection(Struct[T]):
    """A connection; number n is at place n, and 0 is none."""

    is_known: T = number("Seen from its handshake on.")
    producer: T = number("Direction of the producer's messages, or -1.", reset=-1)
    losses: Pair[T] = by_direction("Losses so far.")
    last_loss: Pair[T] = by_direction("The latest loss.", reset=-1, of="losses")
    last_row: Pair[T] = by_direction("Row of the latest message.")
    last_frame: Pair[T] = by_direction("Frame of the latest message.")
    orphans: T = number("Accepted stream requests that were not captured.")
    end_on_close: T = number("Whether the server ends a stream that is closed: 1 on, 0 off, -1 unknown.")
    oso: T = number("Whether snapshots may be out of order: the same.")
    history: T = number("Whether change streams have the history: the same.")
    window: T = number("Flow-control window in bytes, 0 for off, -1 for unknown.")
    window_losses: Pair[T] = by_direction("Losses by the time the window was granted.")
    counted: T = number("Bytes that flow control counted.")
    acked: T = number("Bytes that were acknowledged.")
    is_based: T = number("``counted`` and ``acked`` have all since the window was granted.")
    slowest: T = number("Longest answer time of a stream request so far.")
    streams: T = number("Streams that it had.")
    closed_time: T = number("Time of the latest answer to a close that was not captured.")
    markers_acked: T = number("Acknowledgements of markers.")
    opaque: T = number("Opaque of its newest stream.")
    opaque_key: T = number("Key of that.", of="keys")
    shares_opaques: T = number("Two streams one after the other had the same opaque and different keys.")
    noops: T = number("Noops of the server.")
    noops_answered: T = number("Answers to them.")
    noop_row: T = number("Row of the noop under way, or -1.", reset=-1)
    noop_time: T = number("Its time.")
    noop_slowest: T = number("Longest time that a noop waited for its answer.")
    producer_time: T = number("Time of the producer's latest message of a stream.")
    time: Pair[T] = by_direction("Latest capture time of a message.")
    is_met: T = number("It was met.")


class Connections(Connection[Ints], Rows[Connection]):
    """The connections of a reading."""


class Key(Struct[T]):
    """A connection, a vbucket and a stream-id: what names a stream at any time."""

    connection: T = number("The connection.")
    vbucket: T = number("The vbucket.")
    sid: T = number("The stream-id, -1 for none.")
    live: T = number("Stream that messages belong to.", reset=-1, of="streams")
    pending: T = number("Newest stream whose request has no answer yet.", reset=-1, of="streams")
    count: T = number("Streams so far.")
    with_sid: T = number("Of a key without a stream-id: the newest stream of its vbucket that has one.", reset=-1, of="streams")
    number: T = number("Its number.", of="keys")


class Keys(Key[Ints], Rows[Key]):
    """The keys of a reading."""


class Stream(Struct[T]):
    """A stream, from its request, or its first message, to its end."""

    connection: T = number("Its connection.", of="connections")
    vbucket: T = number("Its vbucket.")
    sid: T = number("Its stream-id, -1 for none.")
    ordinal: T = number("How many streams its key had by then, with it.")
    previous: T = number("Stream that its key had before.", of="streams")
    opaque: T = number("Its opaque.")
    state: T = number("Where it is in its life: see ``transitions``.")
    request: Request[T] = nested(Request, "What was asked for.")
    opened: Place[T] = nested(Place, "The request, or the first message.")
    answered: Place[T] = nested(Place, "The answer.")
    finished: Place[T] = nested(Place, "The end.")
    latest: Place[T] = nested(Place, "The latest message.")
    at: Place[T] = nested(Place, "The message that gave ``position``.")
    answer: T = number("What the answer was: A_UNKNOWN and those after it.")
    status: T = number("Status of the answer, -1 for none.", reset=-1)
    rollback: T = number("Seqno to roll back to, biased, or UNREAD_SEQNO.")
    log: T = number("Failover log of the answer.", reset=-1, of="logs")
    patience: T = number("``Connection.slowest`` when it was opened.")
    closed_row: T = number("Row of the client's request to close it, or -1.", reset=-1)
    reason: T = number("Why it ended, -1 if unknown.", reset=-1)
    items: T = number("Events.")
    bytes: T = number("Bytes of its messages.")
    seen: T = number("Seqnos received.")
    first: T = number("Least seqno received, biased.")
    last: T = number("Greatest seqno received, biased.")
    markers: T = number("Snapshots so far.")
    snapshot: T = number("The current snapshot.", reset=-1, of="snapshots")
    in_oso: T = number("The current OSO snapshot.", reset=-1, of="snapshots")
    has_position: T = number("``position`` is known.")
    position: T = number("Seqno up to which it has accounted for everything, biased.")
    position_by: T = number("What gave that: BY_START, BY_EVENT, BY_ADVANCED or BY_END.")
    position_in: T = number("Snapshot by then.", of="snapshots")
    position_losses: T = number("Losses of the connection by then; -1 where a message since could not be read.")
    before_leap: T = number("Position before a seqno that leapt out of its snapshot, biased; GREATEST for none.", reset=GREATEST)
    unreadable: T = number("Row of that message, or -1.", reset=-1)
    losses: T = number("Losses of the connection by its latest message; -1 is always in doubt.")
    orphans: T = number("``Connection.orphans`` by its latest message; -1 if unknown its stream-id.")
    suspended: T = number("Capture loss since its last marker.")
    disorder: T = number("Capture loss may hide the start of an OSO snapshot.")
    open_gap: T = number(
        "A gap that is not sure yet: seqnos of an OSO snapshot, whose start was lost, make it narrower; and a request that is read late"
        " tells where that before the first seqno begins, which is empty until then.",
        reset=-1,
        of="gaps",
    )
    is_whole: T = number("No capture loss since its answer.")
    disk_end: T = number("Greatest end of a snapshot from disk, biased.", reset=LEAST)
    prepared: T = number("Greatest seqno of a prepare, biased.", reset=LEAST)
    acknowledged: T = number("Seqno up to which a replica has acknowledged all prepares, biased.", reset=LEAST)
    acknowledged_at: Place[T] = nested(Place, "Where it said that.")
    asked_before: T = number("Stream of the request before, of the same key, that had no answer by then.", reset=-1, of="streams")
    with_sid_before: T = number("Stream before this one, of the same vbucket, that has a stream-id.", reset=-1, of="streams")
    begun_row: T = number("Row of the message that created it first; its request may have been read later.")
    closed_time: T = number("Time of the client's request to close it.")
    number: T = number("Its number.", of="streams")


class Streams(Stream[Ints], Rows[Stream]):
    """The streams of a reading, in order of their opening."""


class Snapshot(Struct[T]):
    """A snapshot, from its marker, or its start, to what is over it."""

    stream: T = number("Its stream.", of="streams")
    index: T = number("How many its stream had by then, with it.")
    start: T = number("First seqno of its range, biased.")
    end: T = number("Last seqno of its range, biased.")
    flags: T = number("Its type.")
    layout: T = number("Layout of its marker; OSO_LAYOUT for an OSO snapshot, which has none.")
    place: Place[T] = nested(Place, "Its marker.")
    closed_row: T = number("Row of the message that was over it, or -1.", reset=-1)
    seqnos: OptionalSeqnos[T] = nested(OptionalSeqnos, "As the marker has them.")
    state: T = number("Where it is in its life: see ``transitions``.")
    position: T = number("Whether it is the first of its stream: FIRST and those after it.")
    items: T = number("Events.")
    seen: T = number("Seqnos received.")
    first: T = number("First seqno received, biased.")
    last: T = number("Greatest seqno received, biased.")
    reached: T = number("The greatest of them inside the range, LEAST for none.", reset=LEAST)
    first_event: T = number("Seqno of its first event, biased.")
    has_first_event: T = number("1 known, 2 it may be lost.")
    is_tainted: T = number("Capture loss while it ran.")
    is_overlapped: T = number("The next marker began before its end.")
    advanced: T = number("SeqnoAdvanced inside an OSO snapshot, biased.")
    has_advanced: T = number("There was one.")
    before: T = number("Position of the stream when it began, biased.")
    has_before: T = number("That is known.")
    loss: T = number("Latest loss when a tainted OSO snapshot was complete.", of="losses")
    is_merged: T = number("It began before the end of the one before.")
    disk_end: T = number("``Stream.disk_end`` when it began.")
    reached_time: T = number("Capture time of the message that completed it.")
    advanced_row: T = number("Row of ``advanced``.")
    number: T = number("Its number.", of="snapshots")


class Snapshots(Snapshot[Ints], Rows[Snapshot]):
    """The snapshots of a reading, in order of their markers."""


class Gap(Struct[T]):
    """Seqnos that a stream did not deliver."""

    stream: T = number("The stream.", of="streams")
    after: T = number("Last seqno before them, biased.")
    before: T = number("First seqno after them, biased.")
    flags: T = number("What is known of it: bits, IS_LOST and those after it.")
    snapshot: T = number("Snapshot that it is in.", of="snapshots")
    begins: Place[T] = nested(Place, "Message that gave ``after``.")
    ends: Place[T] = nested(Place, "Message that gave ``before``.")
    loss: T = number("Latest loss between the two.", of="losses")
    losses: T = number("How many losses there are.")
    unreadable: T = number("Row of a message between them that cannot be read, or -1.")


class Gaps(Gap[Ints], Rows[Gap]):
    """The gaps of a reading."""


class Anomaly(Struct[T]):
    """Something that is not as the protocol has it."""

    code: T = number("What: BEFORE_MARKER and those after it.")
    connection: T = number("Connection of the message.")
    direction: T = number("Direction of the message.")
    stream: T = number("Its stream.", of="streams")
    a: T = number("A number that the code explains: a biased seqno, or an opaque.")
    b: T = number("Another one.")
    snapshot: T = number("The current snapshot of the stream.", of="snapshots")
    place: Place[T] = nested(Place, "The message.")
    other: Place[T] = nested(Place, "The earlier message of the same direction that it contradicts; row 0 for none.")


class Anomalies(Anomaly[Ints], Rows[Anomaly]):
    """The anomalies of the latest batch."""


class Loss(Struct[T]):
    """Bytes of a direction that could not be read."""

    connection: T = number("The connection.", of="connections")
    direction: T = number("The direction.")
    start: T = number("Stream offset of the first byte.")
    end: T = number("Stream offset after the last byte.")
    before_row: T = number("Row of the message before.")
    before_frame: T = number("Its frame.")
    before_time: T = number("Its time; the bytes were sent after it; 0 where there is none.")
    after_row: T = number("Row of the message after them.")
    after_frame: T = number("Its frame.")
    after_time: T = number("Its time; the bytes were sent before it.")
    previous: T = number("Loss before, of the same direction.", of="losses")


class Losses(Loss[Ints], Rows[Loss]):
    """The losses of a reading."""


class OsoSeqno(Struct[T]):
    """A seqno of an OSO snapshot."""

    snapshot: T = number("The snapshot.", of="snapshots")
    seqno: T = number("The seqno, biased.")


class OsoSeqnos(OsoSeqno[Ints], Rows[OsoSeqno]):
    """Seqnos of OSO snapshots that the tracker has not taken over yet."""


class Turn(Struct[T]):
    """A message that says which direction of its connection is the producer's, and says another than was known."""

    connection: T = number("The connection.")
    row: T = number("Row of the message.")
    before: T = number("Direction of the producer's messages up to there, or -1.")
    after: T = number("The same from there on.")


class Turns(Turn[Ints], Rows[Turn]):
    """The turns of the latest batch."""


class Question(Struct[T]):
    """A stream request, and the stream that it opened, or proved to have opened."""

    row: T = number("Row of the request.")
    stream: T = number("The stream.", of="streams")


class Questions(Question[Ints], Rows[Question]):
    """The stream requests of a reading, in order of their rows."""


class EarlyAnswer(Struct[T]):
    """An answer to a stream request that had not been read by then: requests may be held back by a hole before them."""

    connection: T = number("The connection; TAKEN once its request was found; TAKEN less the connection where that has no known stream-id.")
    opaque: T = number("The opaque.")
    status: T = number("The status.")
    rollback: T = number("As in ``Answer``.")
    log: T = number("As in ``Answer``.", of="logs")
    place: Place[T] = nested(Place, "The answer.")


class EarlyAnswers(EarlyAnswer[Ints], Rows[EarlyAnswer]):
    """The latest early answers: answer number n is in row n modulo the number of rows."""


class Counts(Struct[T]):
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
