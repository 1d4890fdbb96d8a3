"""The kernel that follows a connection's flow-control window: stalls, overruns, countings."""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.kernels.structs import Struct, StructRows, T, Tables, nested, number
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.streams.message_columns import PREPARE_SURPLUS
from dcpinspect.streams.record_codes import (
    ACK,
    ANSWER,
    END,
    FACT,
    KINDS,
    MARKER,
    NOOP,
    OSO,
    PREPARE,
    SEQNO_ADVANCED,
    SYSTEM_EVENT,
    UNREADABLE,
    UNREADABLE_ACK,
)
from dcpinspect.streams.records import LEAST, MessageRow
from dcpinspect.text import words_of

SHORTEST_NS = 1_000_000_000
"""The shortest time that a window has to be full to be reported."""

ENOUGH = 3
"""Number of acknowledgements from which on a way of counting is believed."""
ENOUGH_WITHOUT = 4
"""Number of acknowledgements from which on it is believed that no way of counting fits."""

WAYS = words_of(
    "true without-flex-frames without-seqno-advanced without-stream-end without-snapshot-marker "
    "without-oso-snapshot without-system-event without-prepare-surplus without-header "
    "decompressed-sizes stream-answers-counted answers-counted noops-counted"
)
"""Ways of counting, the right one first."""
TRUE = 0
(
    _FLEX,
    _ADVANCED,
    _END,
    _MARKER,
    _OSO,
    _SYSTEM,
    _PREPARE,
    _HEADER,
    _INFLATED,
    _STREAM_ANSWERS,
    _ANSWERS,
    _NOOPS,
) = range(1, len(WAYS))
OVER = range(_INFLATED, len(WAYS))
"""The ways of counting by which a consumer acknowledges too much."""

OTHER_ANSWER = KINDS
"""The kind of the producer's answers that belong to no stream; only ways of counting use it."""


STALL, OVERRUN, EXCESS = range(3)
"""Values of ``FlowEvent.code``."""


class FlowMessage(Struct[T]):
    """A message, with what flow control needs of it."""

    kind: T = number(
        "What it is: see ``kinds``; OTHER_ANSWER; 0 for an answer that no way of counting counts."
    )
    size: T = number(
        "Bytes that flow control counts; of a message that it does not count, its length; of a "
        "granted window, the bytes counted before."
    )
    given: T = number("Of an acknowledgement: bytes that the client has processed.")
    rtt: T = number("Of an answer: nanoseconds since its request, 0 if unknown.")
    balance: T = number("Bytes that wait for an acknowledgement, LEAST if unknown.")
    window: T = number("Bytes of the window.")
    detail: T = number("As in ``Waiting``.")
    place: MessageRow[T] = nested(MessageRow, "Where it is.")


class FlowMessages(FlowMessage[IntArray], StructRows[FlowMessage]):
    """The messages of a connection that the kernel takes at once."""


class Waiting(Struct[T]):
    """A message that waits to be acknowledged."""

    size: T = number("Its bytes.")
    detail: T = number(
        "Its kind; the size of its framing extras from bit 8 up; from bit 32 up, by how much "
        "its value is longer without compression."
    )


class WaitingMessages(Waiting[IntArray], StructRows[Waiting]):
    """The messages of a connection that wait to be acknowledged, by any way of counting."""


class Counting(Struct[T]):
    """A way of counting."""

    is_open: T = number("Nothing speaks against it.", reset=1)
    messages: T = number("Messages that are acknowledged by it, of those in ``waiting``.")
    bytes: T = number("Their size.")
    landed: T = number("Acknowledgements that were a sum of whole messages.")
    affected: T = number("Messages that it counts otherwise than the right way.")
    less: T = number("By how many bytes it counts those less.")


class Countings(Counting[IntArray], StructRows[Counting]):
    """The ways of counting of a connection, one for each of ``WAYS``."""


begin_way = kernel_function(Counting.resetter())


class ExcessAck(Struct[T]):
    """Acknowledgements of more than was counted."""

    needed: T = number("Bytes that have to be counted to make the latest one good, 0 for none.")
    at: MessageRow[T] = nested(MessageRow, "Where that is.")
    count: T = number("Those that nothing made good.")
    acked: T = number("Bytes acknowledged by the worst of them.")
    counted: T = number("Bytes counted by then.")
    first: MessageRow[T] = nested(MessageRow, "The first of them.")
    last: MessageRow[T] = nested(MessageRow, "The last of them.")


class Overrun(Struct[T]):
    """A message that goes beyond the window, unless acknowledgements under way make room."""

    before: T = number("Balance before it, 0 for none.")
    peak: T = number("Balance after the latest message that goes beyond the window.")
    at: MessageRow[T] = nested(MessageRow, "The first such message.")


class Window(Struct[T]):
    """What is known of the flow-control window of a connection."""

    is_on: T = number("The balance is known.")
    size: T = number("Its bytes.")
    balance: T = number("Bytes that wait for an acknowledgement.")
    counted: T = number("Bytes that were counted since it was granted.")
    counted_before: T = number("Bytes that the producer had counted before it was granted.")
    tolerance: T = number(
        "Longest time that an answer took, by which the two directions may be out of step."
    )
    acks: T = number("Acknowledgements.")
    acked: T = number("Bytes that they acknowledged.")
    after_ack: T = number("Balance after the latest acknowledgement.")
    has_fallen: T = number("That was less than after the one before, once.")
    past_half: T = number("Acknowledgements that came when more than half of the window was used.")
    past_half_at: MessageRow[T] = nested(MessageRow, "The first of them.")
    quiet_since: T = number("Time since when nothing was counted, and no room was made.")
    granted_at: T = number("When it was granted first.")
    full: T = number("Nanoseconds for which it was full before acknowledgements, in all.")
    times_full: T = number("How often it was.")
    is_exempt: T = number("It became smaller than what was used.")
    is_followed: T = number("Ways of counting are held against acknowledgements.")
    waiting: T = number("Rows in use of the messages that wait.")
    fit: T = number(
        "Way of counting that was found before the window was granted again, or -1.", reset=-1
    )
    latest: MessageRow[T] = nested(MessageRow, "The latest counted message.")
    latest_ack: MessageRow[T] = nested(MessageRow, "The latest acknowledgement.")
    missed: MessageRow[T] = nested(
        MessageRow, "The first acknowledgement that is no sum of whole messages."
    )
    excess: ExcessAck[T] = nested(ExcessAck, "Acknowledgements of more than was counted.")
    overrun: Overrun[T] = nested(Overrun, "What goes beyond it.")
    events: T = number("Rows in use of the events of the messages that the kernel took last.")


class FlowEvent(Struct[T]):
    """A stall, an overrun or an excess of a window."""

    code: T = number(
        "STALL: the window was full. OVERRUN: a message began although it was. EXCESS: more "
        "was acknowledged than counted."
    )
    time: T = number("Of a stall: how long it was full, in nanoseconds.")
    used: T = number("Bytes in use, of an overrun at last.")
    window: T = number("Bytes of the window.")
    since_ack: T = number(
        "Of a stall: from the acknowledgement before to its end, in nanoseconds, -1 for never."
    )
    at: MessageRow[T] = nested(
        MessageRow, "The message that filled the window, or went beyond it; or the acknowledgement."
    )
    ack: MessageRow[T] = nested(
        MessageRow, "The acknowledgement that ended the stall; of an overrun, the one before."
    )


class FlowEvents(FlowEvent[IntArray], StructRows[FlowEvent]):
    """The events of the messages that the kernel took last."""


class FlowTables(Tables):
    """The tables that the kernel works on, for one connection."""

    messages: FlowMessages
    window: Window
    ways: Countings
    waiting: WaitingMessages
    """Has room for every message."""
    events: FlowEvents


@kernel_function
def size_by(way_number: int, size: int, detail: int) -> int:
    """Returns the size of a message by a way of counting."""
    kind = detail & 0xFF
    if kind < END or kind > UNREADABLE:  # flow control does not count it
        if kind == NOOP:
            return size if way_number == _NOOPS else 0
        if way_number == _ANSWERS or (way_number == _STREAM_ANSWERS and kind == ANSWER):
            return size
        return 0
    if way_number == _FLEX:
        return size - ((detail >> 8) & 0xFFFF)
    if way_number == _PREPARE:
        return size - PREPARE_SURPLUS if kind == PREPARE else size
    if way_number == _HEADER:
        return size - HEADER_SIZE
    if way_number == _INFLATED:
        return size + (detail >> 32)
    is_left_out = (
        (way_number == _ADVANCED and kind == SEQNO_ADVANCED)
        or (way_number == _END and kind == END)
        or (way_number == _MARKER and kind == MARKER)
        or (way_number == _OSO and kind == OSO)
        or (way_number == _SYSTEM and kind == SYSTEM_EVENT)
    )
    return 0 if is_left_out else size


@kernel_function
def hold_against(tables: FlowTables, acked: int) -> int:
    """Compares a sum of acknowledgements with all ways of counting, and returns how many ways are
    still possible.
    """
    remaining = 0
    for w in range(len(tables.ways)):
        way_row = tables.ways[w]
        if way_row.is_open == 0:
            continue
        while way_row.messages < tables.window.waiting:
            waiting = tables.waiting[way_row.messages]
            counted = size_by(w, waiting.size, waiting.detail)
            true = size_by(TRUE, waiting.size, waiting.detail)
            # a message that this way leaves out is never acknowledged, so it is passed over
            if counted and way_row.bytes >= acked:
                break
            way_row.bytes += counted
            way_row.less += true - counted
            way_row.affected += 1 if counted != true else 0
            way_row.messages += 1
        if way_row.bytes == acked:
            way_row.landed += 1
        elif (
            w != TRUE or way_row.bytes > acked
        ):  # by the right way, the message that was acknowledged may still have to be read
            way_row.is_open = 0
        remaining += way_row.is_open
    return remaining


@kernel_function
def fit_of(window: Window, ways: Countings) -> int:
    """Returns the way of counting that fits all acknowledgements if the right one does not."""
    acks = window.acks
    if window.fit >= 0:
        return int(window.fit)
    if window.is_followed == 0 or acks < ENOUGH or ways[TRUE].landed == acks:
        return -1
    for w in range(1, len(ways)):
        way_row = ways[w]
        if way_row.is_open and way_row.landed == acks and way_row.affected:
            return int(w)
    return -1


@kernel_function
def grant(tables: FlowTables, message: FlowMessage) -> None:
    """Handles another window. If nothing waits to be acknowledged, counting starts here."""
    window = tables.window
    if message.balance == 0:
        fit = fit_of(window, tables.ways)
        window.fit = fit
        window.counted = 0
        window.has_fallen = 0
        window.excess.needed = 0
        if fit < 0:
            window.is_followed = 1 if message.window > 0 and message.size == 0 else 0
            window.acks = 0
            window.acked = 0
            window.past_half = 0
            window.waiting = 0
            for w in range(len(tables.ways)):
                begin_way(tables.ways[w])
    window.counted_before = max(window.counted_before, message.size)
    window.tolerance = max(window.tolerance, message.rtt)
    window.is_on = 1 if message.window > 0 else 0
    if window.granted_at == 0:
        window.granted_at = message.place.time
    window.is_exempt = 1 if message.balance >= message.window else 0
    window.size = message.window
    window.balance = message.balance
    window.overrun.before = 0
    window.quiet_since = message.place.time


@kernel_function
def add_event(tables: FlowTables, code: int, used: int) -> int:
    """Adds an event of the window and returns its number; the caller fills in the rest."""
    window, number = tables.window, tables.window.events
    window.events = number + 1
    event = tables.events[number]
    event.code = code
    event.used = used
    event.window = window.size
    return int(number)


@kernel_function
def settle_overrun(tables: FlowTables, message: FlowMessage) -> None:
    """Handles an overrun at an acknowledgement: it makes room for what seemed to go beyond the
    window, or it came too late.
    """
    window, overrun = tables.window, tables.window.overrun
    if overrun.before == 0:
        return
    if message.place.time <= overrun.at.time + window.tolerance:
        overrun.before -= message.given
        if overrun.before < window.size:
            overrun.before = 0
        return
    event = tables.events[add_event(tables, OVERRUN, overrun.peak)]
    event.at = overrun.at
    event.ack = window.latest_ack
    overrun.before = 0


@kernel_function
def stays_full(window: Window, balance: int) -> bool:
    """Returns whether an acknowledgement leaves the window full: the producer still sends nothing.
    Where more was in use than a producer may send, acknowledgements take it down first.
    """
    return bool(balance >= window.size and window.is_exempt == 0 and window.overrun.peak == 0)


@kernel_function
def settle_stall(tables: FlowTables, message: FlowMessage) -> None:
    """Handles a stall at an acknowledgement, which ends the time that the window was full."""
    window = tables.window
    stalled = message.place.time - window.quiet_since
    if window.balance < window.size or stays_full(window, message.balance):
        return
    window.full += max(0, stalled)
    window.times_full += 1
    if stalled < SHORTEST_NS:
        return
    event = tables.events[add_event(tables, STALL, window.balance)]
    event.time = stalled
    event.since_ack = message.place.time - window.latest_ack.time if window.acks > 0 else -1
    event.at = window.latest
    event.ack = message.place


@kernel_function
def on_ack(tables: FlowTables, message: FlowMessage) -> None:
    """Handles an acknowledgement of the consumer."""
    window, balance = tables.window, message.balance
    settle_overrun(tables, message)
    settle_stall(tables, message)
    if 2 * window.balance > window.size:
        if window.past_half == 0:
            window.past_half_at = message.place
        window.past_half += 1
    if window.acks > 0 and balance < window.after_ack:
        window.has_fallen = 1
    window.after_ack = balance
    window.acks += 1
    window.acked += message.given
    if window.excess.needed == 0 and balance + window.counted_before < 0:
        window.excess.needed = window.counted - balance - window.counted_before
        window.excess.at = message.place
    if window.is_followed and window.fit < 0:
        landed = tables.ways[TRUE].landed
        remaining = hold_against(tables, window.counted - balance)
        if landed == window.acks - 1 and tables.ways[TRUE].landed == landed:
            window.missed = message.place
        if remaining == 0:
            window.is_followed = 0
            window.waiting = 0
    window.latest_ack = message.place
    if not stays_full(window, balance):
        window.quiet_since = max(window.quiet_since, message.place.time)
    window.balance = balance


@kernel_function
def on_counted(tables: FlowTables, message: FlowMessage) -> None:
    """Handles a message of the producer that the window counts."""
    window, excess, overrun = tables.window, tables.window.excess, tables.window.overrun
    known_count = excess.count
    settle_excess(message.place.time, window)
    if excess.count > known_count:
        event = tables.events[add_event(tables, EXCESS, excess.counted)]
        event.at = excess.last
    window.counted += message.size
    if excess.needed and window.counted >= excess.needed:
        excess.needed = 0
    if window.balance < window.size:
        window.is_exempt = 0
    elif window.is_exempt == 0:
        if overrun.before == 0:
            overrun.before = window.balance
            overrun.at = message.place
        overrun.peak = message.balance
    window.latest = message.place
    window.quiet_since = max(window.quiet_since, message.place.time)
    window.balance = message.balance


@kernel_function
def settle_excess(time_ns: int, window: Window) -> None:
    """Settles an excess once the producer's messages have come to ``time_ns``: bytes acknowledged
    before and not sent by now never were sent.
    """
    excess = window.excess
    if excess.needed == 0 or time_ns <= excess.at.time + window.tolerance:
        return
    if excess.count == 0:
        excess.first = excess.at
    if excess.needed - window.counted >= excess.acked - excess.counted:
        excess.acked = excess.needed + window.counted_before
        excess.counted = window.counted + window.counted_before
    excess.last = excess.at
    excess.count += 1
    excess.needed = 0


@kernel_function
def wait(tables: FlowTables, message: FlowMessage) -> None:
    """Adds a message to those that wait to be acknowledged."""
    window, waiting = tables.window, tables.waiting[tables.window.waiting]
    waiting.size = message.size
    waiting.detail = message.detail
    window.waiting += 1


@kernel("void(FlowTables)")
def follow_flow(tables: FlowTables) -> None:
    """Follows the messages of one connection."""
    window = tables.window
    window.events = 0
    for i in range(len(tables.messages)):
        message = tables.messages[i]
        kind = message.kind
        if kind in (FACT, ACK, UNREADABLE_ACK) or END <= kind <= UNREADABLE:
            if message.balance == LEAST or (kind != FACT and window.is_on == 0):
                window.is_on = 0
                window.overrun.before = 0
                window.excess.needed = 0
                continue
            if kind == FACT:
                grant(tables, message)
                continue
            if kind == ACK:
                on_ack(tables, message)
                continue
            on_counted(tables, message)
        else:
            window.tolerance = max(window.tolerance, message.rtt)
        if kind and window.is_on and window.is_followed and window.fit < 0:
            wait(tables, message)
