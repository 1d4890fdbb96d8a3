"""The kernel that follows noops: noops without an answer, answered with another opaque, or sent too
early; and silence.
"""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.kernels.structs import (
    FieldPair,
    Struct,
    StructRows,
    T,
    Tables,
    by_direction,
    nested,
    number,
)
from dcpinspect.streams.lookup import clear
from dcpinspect.streams.records import MessageRow

OTHER, NOOP, ANSWER, LOST = range(4)
"""What a message is to this kernel. LOST is no message: bytes before the next one of its direction
could not be read.
"""
LONGEST_NS = 86_400_000_000_000
"""Longest time that an answer is taken to need: a clock that is set may jump by decades."""
UNANSWERED, OVERLAP, OPAQUE, SILENT = range(4)
"""What an event says. UNANSWERED: ``message`` is a noop that waited for its answer ``other``.
OVERLAP: it was sent while the noop ``other`` had no answer. OPAQUE: ``other`` answered it with
another opaque. SILENT: nothing was heard between the two.
"""
ROOM = 3
"""Number of free rows for events that is enough for any one message."""


class NoopRecord(Struct[T]):
    """A message."""

    opaque: T = number("Its opaque.")
    place: MessageRow[T] = nested(MessageRow, "Where it is; row 0 where there is none.")


class NoopMessage(Struct[T]):
    """A message, with what the kernel of noops needs of it."""

    code: T = number("What it is: OTHER and those after it.")
    connection: T = number("Its connection.")
    is_producers: T = number(
        "Whether its direction is the producer's: 1 yes, 0 no, -1 unknown by then."
    )
    direction: T = number("Its direction.")
    is_long: T = number("It came in several packets, so the time of its start is unknown.")
    rtt: T = number("Of an answer: nanoseconds since its request, 0 if unknown.")
    arrival: NoopRecord[T] = nested(NoopRecord, "The message itself.")


class NoopMessages(NoopMessage[IntArray], StructRows[NoopMessage]):
    """The messages of a batch."""


class Peer(Struct[T]):
    """What is known of the noops of a connection."""

    producer: T = number("Direction of the producer's messages, or -1.", reset=-1)
    limit: T = number("Longest time that an answer may take; 0 before any message.")
    silence: T = number("Longest time that the producer may be silent.")
    since: T = number("Row from which on that holds.")
    slowest: T = number("Longest time that an answer to a noop took.")
    tolerance: T = number("Longest time that any answer took.")
    unseen: T = number(
        "So many answers may still come to noops that were not captured, or are no longer known."
    )
    open: NoopRecord[T] = nested(NoopRecord, "The noop under way.")
    older: NoopRecord[T] = nested(NoopRecord, "A noop before it that has no answer.")
    undecided: NoopRecord[T] = nested(
        NoopRecord,
        "An answer with another opaque, either to ``older`` or to a noop that was not captured.",
    )
    latest: NoopRecord[T] = nested(NoopRecord, "The producer's latest message.")
    unknown_time: FieldPair[T] = by_direction(
        "Time of the latest message that came before anything showed which side is the producer."
    )
    consumer_time: T = number("Time of the consumer's latest message.")
    answer_time: T = number("Time of its latest answer to a noop.")
    is_double: T = number("``open`` was sent while ``older`` waited, and nothing has excused that.")
    excused_until: T = number("An answer up to this time excuses it.")
    is_waiting: T = number(
        "The last noop got an answer with another opaque, so that the producer still waits, "
        "and sends no other."
    )


class Peers(Peer[IntArray], StructRows[Peer]):
    """The connections of a reading; number n is at place n."""


class NoopEvent(Struct[T]):
    """A fault of noops, or a silence, that may be reported."""

    code: T = number("What it is: UNANSWERED and those after it.")
    connection: T = number("The connection.")
    time: T = number("Nanoseconds between the two messages.")
    message: NoopRecord[T] = nested(NoopRecord, "The noop, or the message before a silence.")
    other: NoopRecord[T] = nested(
        NoopRecord,
        "Its answer, the noop before it, or the message after a silence; row 0 for none.",
    )


class NoopEvents(NoopEvent[IntArray], StructRows[NoopEvent]):
    """The events that the caller has not taken yet."""


class NoopCounts(Struct[T]):
    """Number of rows in use of each table that grows."""

    events: T = number("Events.")


class NoopTables(Tables):
    """The tables that the kernel works on."""

    messages: NoopMessages
    peers: Peers
    events: NoopEvents
    counts: NoopCounts


@kernel_function
def add_event(
    tables: NoopTables, code: int, message: NoopMessage, about: NoopRecord, waited: int
) -> int:
    """Adds an event about an earlier message, with ``message`` as the other; returns its number."""
    e = tables.counts.events
    tables.counts.events = e + 1
    event = tables.events[e]
    event.code = code
    event.connection = message.connection
    event.time = waited
    event.message = about
    event.other = message.arrival
    return int(e)


@kernel_function
def patience(peer: Peer) -> int:
    """Returns how long an answer may take before its absence is reported."""
    return int(max(peer.limit, 10 * peer.slowest))


@kernel_function
def forget_open(peer: Peer) -> None:
    """Forgets the noop under way and the older one: none is known to be under way."""
    peer.open.place.row = 0
    peer.older.place.row = 0
    peer.undecided.place.row = 0
    peer.is_double = 0


@kernel_function
def tell_vague(tables: NoopTables, message: NoopMessage, peer: Peer) -> None:
    """Reports an answer with another opaque as the older noop's, which never got its own."""
    e = add_event(
        tables, OPAQUE, message, peer.older, peer.undecided.place.time - peer.older.place.time
    )
    tables.events[e].other = peer.undecided
    peer.undecided.place.row = 0


@kernel_function
def leave_older(tables: NoopTables, message: NoopMessage, peer: Peer) -> None:
    """Stops waiting for the older of two noops, because ``message`` is another noop."""
    waited = message.arrival.place.time - peer.older.place.time
    if waited > patience(peer) and peer.undecided.place.row:
        tell_vague(tables, message, peer)
    elif waited > patience(peer):
        e = add_event(tables, UNANSWERED, message, peer.older, waited)
        clear(tables.events[e].other.place)
    else:
        peer.unseen += 1  # its answer may still come, but the noop is forgotten
    peer.undecided.place.row = 0


@kernel_function
def on_noop(tables: NoopTables, message: NoopMessage, peer: Peer) -> None:
    """Handles a noop of the producer."""
    time_ns = message.arrival.place.time
    peer.is_waiting = 0
    # a gap held the noop back: its answer may have been read already
    if peer.consumer_time > time_ns:
        forget_open(peer)
        peer.unseen = max(peer.unseen, 1)
        return
    has_older = peer.older.place.row != 0
    # an answer with another opaque is that of one of them, and nobody knows of which
    is_undecided = peer.undecided.place.row != 0
    # the answers may be read later
    is_held_back = has_older and peer.consumer_time < peer.older.place.time
    if is_held_back and peer.open.place.row:
        peer.unseen += 1
    elif has_older and not is_held_back:
        leave_older(tables, message, peer)
    peer.is_double = 1 if peer.open.place.row and not is_undecided else 0
    # answers that come from now on are in doubt themselves
    peer.excused_until = time_ns + peer.tolerance
    if not is_held_back:
        peer.older = peer.open
    peer.open = message.arrival


@kernel_function
def take_answer(
    tables: NoopTables, message: NoopMessage, peer: Peer, noop: NoopRecord, is_wrong: bool
) -> None:
    """Handles the answer to a noop; ``is_wrong``: it has another opaque."""
    time_ns = message.arrival.place.time
    waited = time_ns - noop.place.time
    peer.is_waiting = 1 if is_wrong else 0
    if is_wrong:
        add_event(tables, OPAQUE, message, noop, waited)
    elif peer.limit < waited <= LONGEST_NS:  # no patience: how long the answer took is known
        add_event(tables, UNANSWERED, message, noop, waited)
    peer.undecided.place.row = 0
    peer.answer_time = max(peer.answer_time, time_ns)
    peer.slowest = max(peer.slowest, min(waited, LONGEST_NS))
    noop.place.row = 0


@kernel_function
def on_answer(tables: NoopTables, message: NoopMessage, peer: Peer) -> None:
    """Handles an answer of the consumer."""
    opaque, time_ns = message.arrival.opaque, message.arrival.place.time
    to_older = peer.older.place.row != 0 and peer.older.opaque == opaque
    if not to_older and peer.open.place.row == 0:
        return  # it answers an earlier noop
    is_wrong = not to_older and peer.open.opaque != opaque
    if is_wrong:
        if time_ns < (peer.older.place.time if peer.older.place.row else peer.open.place.time):
            return  # as above
        if peer.unseen > 0:
            peer.unseen -= 1
            peer.undecided = message.arrival
            peer.is_double = 0
            return
        # the first of two wrong answers was for the first noop
        if peer.older.place.row and peer.undecided.place.row:
            tell_vague(tables, message, peer)
            peer.older.place.row = 0
            peer.is_double = 0
        to_older = peer.older.place.row != 0
        if not to_older and time_ns < peer.open.place.time:
            return
    if to_older:
        take_answer(tables, message, peer, peer.older, is_wrong)
        peer.is_double = 0
    else:
        take_answer(tables, message, peer, peer.open, is_wrong)
        peer.unseen = 0  # all noops before it have their answers


@kernel_function
def on_lost(message: NoopMessage, peer: Peer) -> None:
    """Handles bytes of a direction that could not be read."""
    peer.unseen = max(peer.unseen, 1)
    if message.is_producers == 1:
        peer.latest.place.row = 0
    else:
        forget_open(peer)


@kernel_function
def on_producer(tables: NoopTables, message: NoopMessage, peer: Peer) -> None:
    """Handles a message of the producer."""
    silent = message.arrival.place.time - max(peer.latest.place.time, peer.answer_time)
    is_timed = (
        peer.latest.place.row != 0 and peer.latest.place.row >= peer.since and message.is_long == 0
    )
    # the producer may be waiting for the answer to a noop that was not captured
    is_waiting = peer.open.place.row != 0 or peer.unseen != 0 or peer.is_waiting != 0
    if is_timed and silent > peer.silence and not is_waiting:
        add_event(tables, SILENT, message, peer.latest, silent)
    peer.latest = message.arrival
    if message.code == NOOP:
        on_noop(tables, message, peer)


@kernel_function
def on_consumer(tables: NoopTables, message: NoopMessage, peer: Peer) -> None:
    """Handles a message of the consumer."""
    time_ns = message.arrival.place.time
    waiting = peer.older if peer.older.place.row else peer.open
    is_first = peer.consumer_time == 0 and waiting.place.row and waiting.place.time < time_ns
    is_its_answer = message.code == ANSWER and message.arrival.opaque == waiting.opaque
    if is_first and not is_its_answer:
        # the capture may lack what the consumer said first: no gap tells of that
        forget_open(peer)
        peer.unseen = max(peer.unseen, 1)
    if peer.is_double and peer.open.place.row and time_ns > peer.excused_until:
        e = add_event(tables, OVERLAP, message, peer.open, 0)
        tables.events[e].other = peer.older
        peer.is_double = 0
    peer.consumer_time = max(peer.consumer_time, time_ns)
    if message.code == ANSWER:
        on_answer(tables, message, peer)


@kernel("int64(int64, NoopTables)")
def follow_noops(start: int, tables: NoopTables) -> int:
    """Follows the messages of all connections from number ``start`` on.

    Returns the number of the first message not handled, for want of room, or their count.
    """
    tables.counts.events = 0
    for i in range(start, len(tables.messages)):
        if len(tables.events) - tables.counts.events < ROOM:
            return i
        message = tables.messages[i]
        peer = tables.peers[message.connection]
        if message.code == LOST:
            on_lost(message, peer)
            continue
        peer.tolerance = max(peer.tolerance, message.rtt)
        if message.is_producers < 0:
            peer.unknown_time[message.direction] = max(
                peer.unknown_time[message.direction], message.arrival.place.time
            )
            continue
        if peer.consumer_time == 0:
            consumer = message.direction ^ message.is_producers
            peer.consumer_time = peer.unknown_time[consumer]
        if message.is_producers == 1:
            on_producer(tables, message, peer)
        else:
            on_consumer(tables, message, peer)
    return len(tables.messages)
