"""Directions that say a few bytes and no more, as columns: a flood has millions.

Measured: with a ``Framer`` for each, a connection takes 16 times the time of tshark, whether it has
one noop or no message. A limit on connections without messages would not help the first kind, and
would leave bytes unread.

This module looks at what a direction says first, for all directions of a batch at once. If those
bytes are whole messages (many_directions.py), or nothing that could be a message and in one packet,
it is certain what a ``Framer`` would find. Then this module tells it, at once or when the direction
has ended. Everything else is left to framers, and so is whatever comes later on such a connection:
framers then get what they need to know of its messages, or its first bytes again.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import Array, BoolArray, ByteArray, IntArray, grown, unique
from dcpinspect.kernels.gathering import gathered
from dcpinspect.kernels.structs import Struct, T, number
from dcpinspect.kernels.structs import StructRows as Table
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.foreign import HTTP, begins_http, is_http, may_be_foreign
from dcpinspect.protocol.framed import (
    ABSURD_BODY,
    BAD_MAGIC,
    MID_STREAM,
    REASONS,
    Accounts,
    BriefAccounts,
    Framed,
)
from dcpinspect.protocol.many_directions import FirstMessages, first_messages
from dcpinspect.protocol.message_walk import ROLES
from dcpinspect.protocol.resync import (
    CHAIN,
    HEADER,
    MAX_BODY,
    TRIAL_NS,
    default_legal_extras,
    plausible_headers,
)
from dcpinspect.transport.chunk import NOWHERE, FirstBytes, StreamChunk, StreamEntries

FEW = 1024
"""A longer first packet is left to framers, if nothing else came first."""
MANY = 32
"""Fewer directions at once are left to framers: this module costs as much as some of them."""
MOST_PACKETS = 1 << 31
"""What later packets bring is left to framers, so that packet numbers take four bytes here."""
MOST_BYTES = 1 << 30
"""While more bytes wait, new ones are left to framers, so that places take four bytes here."""

_HELD, _SAID, _ENDED, _STARTED, _MAY_ASK, _LEFT = 1, 2, 4, 8, 16, 32
"""Bits: what is known of a direction. _HELD: its bytes are kept. _SAID: they were messages. _ENDED:
it is over. _STARTED: they were its first ones. _MAY_ASK: they may have asked for a stream. _LEFT:
framers have it.
"""

_STRANGE, _UNFINISHED, _BAD_MAGIC, _ABSURD, _MID_STREAM, _MESSAGES, _AT_END, _HTTP = range(8)
"""What first bytes are. _STRANGE: something for a framer. _UNFINISHED: the beginning of a message.
_BAD_MAGIC, _ABSURD, _MID_STREAM, _HTTP: bytes that are skipped, by reason. _MESSAGES: messages.
_AT_END: messages if nothing more comes.
"""
_REASON = np.zeros(8, np.int64)
_REASON[[_BAD_MAGIC, _ABSURD, _MID_STREAM, _HTTP]] = [
    REASONS.index(reason) for reason in (BAD_MAGIC, ABSURD_BODY, MID_STREAM, HTTP)
]

MAGICS = np.isin(np.arange(256), (0x80, 0x81, 0x08, 0x18, 0x82, 0x83))
"""By byte: whether a message may begin with it."""


class FirstBytesRow(Struct[T]):
    """The first bytes of a direction, which one packet gave."""

    time: T = number("As in ``StreamChunk.segments``.")
    place: T = number("The same.")
    way: T = number("2 * (connection - 1) + direction; -1 once it is not kept any more.", bits=32)
    start: T = number("Where its bytes are.", bits=32)
    packet: T = number("The same, and the next two.", bits=32)
    frame: T = number("The same.", bits=32)
    file: T = number("The same.", bits=32)
    length: T = number("How many bytes.", bits=16)
    kind: T = number("What they are, as above.", bits=8)


class FirstBytesRows(FirstBytesRow[IntArray], Table[FirstBytesRow]):
    """The first bytes of directions, in the order in which they came."""


class BriefMessages(NamedTuple):
    """Messages that were found in first bytes."""

    connection: RowNumbers
    """Connection of each message; ``direction``: direction of each message."""
    direction: RowNumbers
    framed: Framed
    pieces: StreamEntries
    """What packets gave of their bytes: ``source`` is the place in ``Framed.data``, and ``place``
    is as in ``StreamChunk.segments``.
    """
    ends: StreamEntries
    """The ends of directions with messages that are over now."""


@dataclass(slots=True)
class ShownStreams:
    """The streams that a direction has shown."""

    keys: list[int] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)
    """For each stream, the packet that made the message readable that shows it."""
    has_events: bool = False
    """Whether the direction is a producer's that has sent messages in streams."""


class DirectionStart(NamedTuple):
    """What a direction said before framers take its connection over."""

    direction: int
    chunk: StreamChunk | None
    """Its bytes, if framers have to look at them; else None."""
    release: int
    messages: int
    """Number of bytes in messages."""
    is_started: bool
    """Whether the bytes were its first ones."""
    may_ask: bool
    """Whether the bytes may have asked for a stream."""
    is_ended: bool
    shown: ShownStreams


class BriefDirections:
    """The brief directions of a reading."""

    def __init__(self, accounts: Accounts) -> None:
        """``accounts``: takes the accounts of directions that are over, or said messages."""
        self._accounts = accounts
        # by number of the direction, until both directions of its connection are over
        self._shown: dict[int, ShownStreams] = {}
        self._state = np.zeros(64, np.uint8)
        self._release: Array = np.zeros(64, np.int32)  # of what was said
        self._at: Array = np.zeros(64, np.int32)  # where it is kept, if it is
        self._forget_all()

    def _forget_all(self) -> None:
        self._kept = FirstBytesRows.zeros(64)
        self._bytes: ByteArray = np.zeros(1024, np.uint8)
        self._count = self._used = self._live = 0

    def feed(
        self, first: FirstBytes, is_doubted: BoolArray, has_handshake: BoolArray
    ) -> tuple[BoolArray, BriefMessages] | None:
        """Returns a mask of the directions that no framer need see, and the messages that were
        found; None if no direction is taken.

        ``is_doubted``, ``has_handshake``: for each direction, what holds of its connection.
        """
        directions, numbers = first.directions, first.directions.number
        self._make_room(int(numbers.max(initial=0)) | 1)
        if directions.end_release.max() >= MOST_PACKETS or self._used > MOST_BYTES:
            return None
        says, is_end, state = directions.length > 0, directions.is_end != 0, self._state[numbers]
        is_known = ((state & (_LEFT | _ENDED)) != 0) | says & (state != 0)
        is_few = (directions.length <= FEW) | (directions.pieces > 1)
        is_taken = _both(numbers >> 1, (directions.length >= 0) & is_few & ~is_known)
        if np.count_nonzero(is_taken) < MANY:
            return None
        rows = np.flatnonzero(is_taken & says)
        of_taken = np.repeat(is_taken[says], directions.pieces[says])
        speech = first_messages(first.data, first.pieces[of_taken])
        kind = _kinds(speech, directions.is_start[rows] != 0, is_doubted[rows], has_handshake[rows])
        is_taken[rows[kind == _STRANGE]] = False
        is_taken = _both(numbers >> 1, is_taken)
        taken = np.flatnonzero(is_taken[rows])
        begins, kind, rows = speech.begins[taken], kind[taken], rows[taken]
        may_ask = np.isin(kind, (_BAD_MAGIC, _ABSURD, _MID_STREAM, _HTTP))
        self._state[begins.side] = _STARTED * directions.is_start[rows] | _MAY_ASK * may_ask
        self._release[begins.side] = begins.release
        over = np.flatnonzero(is_taken & is_end)
        waited = over[(state[over] & _HELD) != 0]
        old = self._drop(numbers[waited])
        self._state[numbers[over]] |= _ENDED
        is_settled = is_end[rows] | (kind == _MESSAGES)
        kinds = np.append(kind[is_settled], old.kind)
        sizes = np.append(speech.sizes[taken[is_settled]], old.length)
        self._accounts.put_all(
            _accounts_of(np.append(begins.side[is_settled], old.way), kinds, sizes)
        )
        speaks = (kinds == _MESSAGES) | (kinds == _AT_END)
        speaks_now, spoke = speaks[: len(kinds) - len(old)], speaks[len(kinds) - len(old) :]
        spoken = self._joined(speech, taken[is_settled][speaks_now], old[spoke])
        self._keep(speech, begins[~is_settled], kind[~is_settled])
        if self._count and not self._live:
            self._forget_all()
        until = np.append(directions.end_release[rows[is_settled]], directions.end_release[waited])
        return is_taken, self._messages(
            spoken, kinds[speaks] == _AT_END, until[speaks], first.ends, is_taken[is_end]
        )

    def _joined(self, speech: FirstMessages, new: IntArray, old: FirstBytesRows) -> FirstMessages:
        """Returns what these new directions said, and what old ones had said before."""
        if len(new) == len(speech.counts) and not len(old):
            return speech
        is_new = np.zeros(len(speech.counts), dtype=np.bool_)
        is_new[new] = True
        earlier, start = gathered(self._bytes, old.start, old.length)
        entries = self._entries(old)
        entries.source = len(speech.data) + start
        pieces = speech.pieces[np.repeat(is_new, np.diff(speech.edge))]
        return first_messages(
            np.concatenate((speech.data, earlier)), StreamEntries.joined([pieces, entries])
        )

    def _entries(self, kept: FirstBytesRows) -> StreamEntries:
        """Returns what packets gave of kept bytes."""
        entries = StreamEntries.zeros(len(kept))
        packet = entries.packet
        packet.number, packet.frame, packet.file = kept.packet, kept.frame, kept.file
        packet.time = kept.time
        entries.side, entries.length, entries.place = kept.way, kept.length, kept.place
        entries.source, entries.release = kept.start, self._release[kept.way]
        return entries

    def _messages(
        self,
        spoken: FirstMessages,
        is_late: BoolArray,
        until: IntArray,
        ends: StreamEntries,
        is_taken: BoolArray,
    ) -> BriefMessages:
        """Returns messages, and notes what they show.

        ``is_late``: directions that were only certain at their end. ``until``: the packet of that.
        ``is_taken``: of the ends.
        """
        late = spoken.edge[:-1][is_late]
        spoken.pieces.release[late] = np.maximum(spoken.pieces.release[late], until[is_late])
        way = spoken.begins.side
        self._state[way] |= _SAID
        goes_on = (self._state[way] & self._state[way ^ 1] & _ENDED) == 0
        for row in np.flatnonzero((spoken.key >= 0) & goes_on[spoken.of]).tolist():
            streams = self._shown.setdefault(int(way[spoken.of[row]]), ShownStreams())
            streams.keys.append(int(spoken.key[row]))
            streams.releases.append(int(spoken.pieces.release[spoken.tables.last[row]]))
            streams.has_events |= ROLES[spoken.data[spoken.start[row] + 1]] == 2
        over = ends.side
        for direction in over[(self._state[over] & self._state[over ^ 1] & _ENDED) != 0].tolist():
            self._shown.pop(direction, None)
            self._shown.pop(direction ^ 1, None)
        of_message = way[spoken.of]
        return BriefMessages(
            (of_message >> 1) + 1,
            of_message & 1,
            spoken.framed(is_late),
            spoken.pieces,
            ends[is_taken & (self._state[over] & _SAID != 0)],
        )

    def leave(self, connection: int) -> list[DirectionStart]:
        """Returns what a connection's directions have said: framers have it from now on."""
        before = []
        self._make_room(2 * connection - 1)
        for direction in range(2):
            direction_number = 2 * (connection - 1) + direction
            state = int(self._state[direction_number])
            self._state[direction_number] = _LEFT
            if state and state != _LEFT:
                held = self._drop(np.array([direction_number])) if state & _HELD else None
                release, is_started = int(self._release[direction_number]), bool(state & _STARTED)
                chunk = None
                if held is not None:
                    segments, first = self._entries(held), held[0]
                    chunk = StreamChunk(
                        connection,
                        direction,
                        0,
                        self._bytes[first.start : first.start + first.length].copy(),
                        segments,
                        is_start=is_started,
                        is_placed=first.place != NOWHERE,
                    )
                before.append(
                    DirectionStart(
                        direction,
                        chunk,
                        release,
                        self._accounts.get(direction_number).messages if state & _SAID else 0,
                        is_started,
                        bool(state & _MAY_ASK),
                        bool(state & _ENDED),
                        self._shown.pop(direction_number, ShownStreams()),
                    )
                )
        return before

    def forget(self, numbers: RowNumbers) -> None:
        """Forgets directions on which nothing comes any more."""
        numbers = numbers[numbers < len(self._state)]
        self._drop(numbers[(self._state[numbers] & _HELD) != 0])
        self._state[numbers] = _LEFT
        for direction_number in numbers.tolist() if self._shown else ():
            self._shown.pop(direction_number, None)

    def due(self, time_ns: int) -> list[int]:
        """Returns connections whose messages wait for the end, long enough by ``time_ns``."""
        held_rows = self._kept[: self._count]
        due_directions = held_rows.way[
            (held_rows.way >= 0)
            & (held_rows.kind == _AT_END)
            & (held_rows.time <= time_ns - TRIAL_NS)
        ]
        connections: list[int] = unique((due_directions >> 1) + 1).tolist()
        return connections

    def _make_room(self, limit: int) -> None:
        if limit >= len(self._state):
            self._state = grown(self._state, limit + 1)
            spoke = np.flatnonzero(self._state & ~np.uint8(_ENDED | _LEFT))
            self._release, self._at = (
                _widened(column, len(self._state), spoke) for column in (self._release, self._at)
            )

    def _keep(self, speech: FirstMessages, begins: StreamEntries, kind: IntArray) -> None:
        """Copies bytes that are still needed: the buffer of the batch is not kept."""
        if not len(begins):
            return
        if 2 * self._live < self._count and self._count >= MANY:
            self._compact()
        octets, start = gathered(speech.data, begins.source, begins.length)
        if self._used + len(octets) > len(self._bytes):
            self._bytes = grown(self._bytes, self._used + len(octets))
        if self._count + len(begins) > len(self._kept):
            self._kept = self._kept.grown(self._count + len(begins))
        self._bytes[self._used : self._used + len(octets)] = octets
        rows, packet = self._count + np.arange(len(begins)), begins.packet
        new = FirstBytesRows.zeros(len(begins))
        new.way, new.start, new.length = begins.side, self._used + start, begins.length
        new.packet, new.frame, new.file = packet.number, packet.frame, packet.file
        new.time, new.place, new.kind = packet.time, begins.place, kind
        self._kept[rows] = new
        self._at[begins.side] = rows
        self._state[begins.side] |= _HELD
        self._used += len(octets)
        self._count += len(begins)
        self._live += len(begins)

    def _drop(self, numbers: RowNumbers) -> FirstBytesRows:
        """Drops what was kept of these directions, and returns it; its bytes stay until more is
        kept.
        """
        rows = self._at[numbers]
        dropped = self._kept[rows]
        self._kept.way[rows] = -1
        self._state[numbers] &= 0xFF ^ _HELD
        self._live -= len(numbers)
        return dropped

    def _compact(self) -> None:
        live = np.flatnonzero(self._kept.way[: self._count] >= 0)
        live_rows = self._kept[live]
        octets, start = gathered(self._bytes, live_rows.start, live_rows.length)
        live_rows.start = start
        self._forget_all()
        self._kept = live_rows.grown(64)
        self._bytes = grown(octets, 1024)
        self._count, self._used, self._live = len(live_rows), len(octets), len(live_rows)
        self._at[live_rows.way] = np.arange(len(live_rows))


def _widened(column: Array, rows: int, used: RowNumbers) -> Array:
    """Returns a longer copy of a column, as ``grown``; rows never used take no memory."""
    wide: Array = np.zeros(rows, column.dtype)
    wide[used] = column[used]
    return wide


def _both(connection: RowNumbers, mask: BoolArray) -> BoolArray:
    """Keeps in a mask only those whose other direction on the same connection, if it is there, is
    wanted too; both stand next to each other.
    """
    if mask.all():
        return mask
    of_same = connection[1:] == connection[:-1]
    both_mask = mask.copy()
    both_mask[1:][of_same] &= mask[:-1][of_same]
    both_mask[:-1][of_same] &= mask[1:][of_same]
    return both_mask


def _are_plausible(
    data: ByteArray, message_start: RowNumbers, *, of_any_vbucket: bool = False
) -> BoolArray:
    """Returns whether the headers at these places begin a message as it should be; if not, their
    connection is suspected.
    """
    headers, start = gathered(data, message_start, np.full(len(message_start), HEADER))
    return np.isin(
        start, plausible_headers(headers, default_legal_extras, of_any_vbucket=of_any_vbucket)[0]
    )


def _kinds(
    speech: FirstMessages, is_start: BoolArray, is_doubted: BoolArray, has_handshake: BoolArray
) -> RowNumbers:
    """Returns what first bytes are: what a ``Framer`` and a ``Trial`` would do with them, found in
    a shorter way.
    """
    kinds = np.full(len(is_start), _STRANGE)
    sure = np.flatnonzero(speech.is_whole & is_start & ~is_doubted)
    begin = speech.begin[sure]
    kinds[sure[_are_plausible(speech.data, begin, of_any_vbucket=True)]] = _MESSAGES
    strange_rows = np.flatnonzero((kinds == _STRANGE) & (np.diff(speech.edge) == 1))
    if len(strange_rows):
        kinds[strange_rows] = _strange_kinds(
            speech,
            strange_rows,
            is_start[strange_rows],
            is_doubted[strange_rows],
            has_handshake[strange_rows],
        )
    return kinds


def _strange_kinds(
    speech: FirstMessages,
    strange_rows: RowNumbers,
    is_start: BoolArray,
    is_doubted: BoolArray,
    has_handshake: BoolArray,
) -> RowNumbers:
    """Returns the same of those that are not messages for certain, and came in one packet."""
    data, start = gathered(speech.data, speech.begin[strange_rows], speech.sizes[strange_rows])
    length, messages = speech.sizes[strange_rows], speech.counts[strange_rows]
    items, end = np.arange(len(strange_rows)), start + length
    likely = plausible_headers(data, default_legal_extras)[0]
    likely_item = np.searchsorted(start, likely, "right") - 1
    inside = likely + HEADER <= end[likely_item]
    likely, likely_item = likely[inside], likely_item[inside]
    count = np.bincount(likely_item, minlength=len(items))
    behind = np.bincount(likely_item[likely > start[likely_item]], minlength=len(items))
    has_header = length >= HEADER
    header_start = np.where(has_header, start, 0)
    magic = MAGICS[data[header_start]]
    is_absurd = (
        numbers_at(data, header_start + 8, 4) > MAX_BODY
        if len(data) >= HEADER
        else np.zeros(len(items), np.bool_)
    )
    is_bad = has_header & ~magic
    is_absurd = has_header & magic & is_absurd

    kind = np.full(len(items), _STRANGE)
    sure = is_start & ~is_doubted & (messages == 0)
    kind[sure & ~is_bad & ~is_absurd] = _UNFINISHED
    kind[sure & is_bad & (behind == 0)] = _BAD_MAGIC
    kind[sure & is_absurd & (behind == 0)] = _ABSURD
    kind[is_start & is_doubted & (count == 0)] = _BAD_MAGIC
    kind[~is_start & (count == 0)] = _MID_STREAM
    # messages in the middle, if no other place may begin one
    may_be = speech.is_whole[strange_rows] & ~is_start & ~is_doubted & ~has_handshake
    may_be &= (count == messages) & (messages < CHAIN)
    # known streams would prove two messages that show some
    shows_little = (speech.key < 0) | (speech.counts[speech.of] == 1)
    in_middle = np.isin(speech.of, strange_rows[may_be]) & shows_little
    in_middle[in_middle] = _are_plausible(speech.data, speech.start[in_middle])
    certain = np.bincount(speech.of[in_middle], minlength=len(speech.counts))[strange_rows]
    kind[may_be & (certain == messages)] = _AT_END
    kind[may_be_foreign(data, start, end)] = _STRANGE
    # the checks of load balancers never end
    for row in np.flatnonzero(is_start & (kind == _STRANGE) & begins_http(data, start)).tolist():
        if is_http(data[start[row] : end[row]]):
            kind[row] = _HTTP
    return kind


def _accounts_of(way: IntArray, kind: IntArray, size: IntArray) -> BriefAccounts:
    speaks, is_begun = (kind == _MESSAGES) | (kind == _AT_END), kind == _UNFINISHED
    return BriefAccounts(
        way,
        messages=np.where(speaks, size, 0),
        unfinished=np.where(is_begun, size, 0),
        skipped=np.where(speaks | is_begun, 0, size),
        reason=_REASON[kind],
    )
