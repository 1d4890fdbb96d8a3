"""Directions that say a few bytes and no more, as columns: a flood has millions.

Measured: with a ``Framer`` for each, a connection takes 16 times the time of tshark, whether it has
one noop or no message. A limit on connections without messages would not help the first kind, and
would leave bytes unread.

This module looks at what a direction says first, in one packet, for all directions of a batch at
once. If those bytes are whole messages, or nothing that could be a message, it is certain what a
``Framer`` would find. Then this module tells it, at once or when the direction has ended.
Everything else is left to framers, and so is whatever comes later on such a connection: framers
then get its first bytes again. Where they came in several packets (many_directions.py), framers get
what they need to know of them instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import Array, BoolArray, ByteArray, IntArray, grown, unique
from dcpinspect.kernels.gathering import gathered
from dcpinspect.kernels.kernel import be32, kernel
from dcpinspect.kernels.structs import Struct, T, number
from dcpinspect.kernels.structs import StructRows as Table
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.foreign import HTTP, begins_http, is_http, may_be_foreign
from dcpinspect.protocol.framed import (
    ABSURD_BODY,
    BAD_MAGIC,
    MID_STREAM,
    NO_NUMBERS,
    REASONS,
    Accounts,
    BriefAccounts,
    Framed,
)
from dcpinspect.protocol.many_directions import Messages, messages_of
from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.resync import (
    CHAIN,
    HEADER,
    MAX_BODY,
    OF_STREAMS,
    TRIAL_NS,
    default_legal_extras,
    plausible_headers,
)
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.transport.chunk import FirstBytes, Segments, StreamChunk

FEW = 1024
"""A longer first packet is left to framers."""
MANY = 32
"""Fewer directions at once are left to framers: this module costs as much as some of them."""
MOST_PACKETS = 1 << 31
"""Bytes of later packets are left to framers, so that packet numbers take four bytes here."""
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
_MAGIC_OCTETS = MAGICS.astype(np.uint8)
_ASKING = np.isin(np.arange(256), (0x80, 0x08))
_OPENING = opcodes_with(Trait.OPENS)
_MOST_MESSAGES = 16


class FirstBytesRow(Struct[T]):
    """The first bytes of a direction."""

    time: T = number("As in ``Segments``.")
    way: T = number("2 * (connection - 1) + direction; -1 once it is not kept any more.", bits=32)
    start: T = number("Where its bytes are.", bits=32)
    packet: T = number("As in ``Segments``, and the next two.", bits=32)
    frame: T = number("The same.", bits=32)
    file: T = number("The same.", bits=32)
    length: T = number("How many bytes.", bits=16)
    kind: T = number("What they are, as above.", bits=8)


class FirstBytesRows(FirstBytesRow[IntArray], Table[FirstBytesRow]):
    """The first bytes of directions, in the order in which they came. Their places in the file are
    kept beside them, for readings with places.
    """


class CarrierPackets(NamedTuple):
    """Which packets gave what was told, as columns."""

    way: RowNumbers
    """Number of the direction: 2 * (connection - 1) + direction."""
    first: RowNumbers
    """Stream offset of the first byte that a packet gave."""
    start: RowNumbers
    """Where the bytes are in ``Framed.data``."""
    length: RowNumbers
    packet: RowNumbers
    file: RowNumbers
    time_ns: RowNumbers
    place: RowNumbers
    """As ``StreamChunk.places``; empty for readings without places."""
    ended: RowNumbers
    """Directions with messages that are over now, numbered like ``way``; this column and the next
    three have one entry for each such direction.
    """
    end: RowNumbers
    """Stream offset of the end."""
    end_packet: RowNumbers
    """The packet that shows the end."""
    end_time_ns: RowNumbers


class BriefMessages(NamedTuple):
    """Messages that were found in first bytes."""

    connection: RowNumbers
    """Connection of each message; ``direction``: direction of each message."""
    direction: RowNumbers
    framed: Framed
    carried: CarrierPackets


class TakenDirections(NamedTuple):
    """What was found in first bytes."""

    is_taken: BoolArray
    """For each direction that was asked about, whether no framer need see it."""
    told: list[BriefMessages]


class ShownStreams(NamedTuple):
    """The streams that a direction has shown."""

    keys: list[int]
    releases: list[int]
    """For each stream, the packet that made the message readable that shows it."""
    has_events: bool
    """Whether the direction is a producer's that has sent messages in streams."""


NOTHING_SHOWN = ShownStreams([], [], has_events=False)


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
        # of each kept row, as in ``StreamChunk.places``
        self._places: RowNumbers = np.zeros(0, np.int64)
        self._bytes: ByteArray = np.zeros(1024, np.uint8)
        self._count = self._used = self._live = 0

    def feed(
        self, first: FirstBytes, is_doubted: BoolArray, has_handshake: BoolArray
    ) -> TakenDirections | None:
        """Returns what first bytes tell; None if no direction is taken.

        ``is_doubted``, ``has_handshake``: for each direction, what holds of its connection.
        """
        self._make_room(int(first.number.max(initial=0)) | 1)
        if first.release.max() >= MOST_PACKETS:
            return None
        is_several, several = self._take_several(first, is_doubted)
        is_brief, brief = self._take_brief(first, is_several, is_doubted, has_handshake)
        said_messages = [messages for messages in (several, brief) if messages is not None]
        directions = np.fromiter(self._shown, np.int64, len(self._shown))
        for direction in directions[
            (self._state[directions] & self._state[directions ^ 1] & _ENDED) != 0
        ].tolist():
            del self._shown[direction]
        return TakenDirections(is_several | is_brief, said_messages) if said_messages else None

    def _take_several(
        self, first: FirstBytes, is_doubted: BoolArray
    ) -> tuple[BoolArray, BriefMessages | None]:
        """Takes connections of which a direction has several packets, if both directions say
        messages and nothing else.
        """
        nothing = np.zeros(len(first.number), dtype=np.bool_)
        if not len(first.pieces.row):
            return nothing, None
        connection, says = first.number >> 1, first.length > 0
        says[first.pieces.row] = True
        is_several = (
            np.isin(connection, connection[first.pieces.row])
            & (self._state[first.number] == 0)
            & ~is_doubted
        )
        is_taken = _both(
            connection,
            is_several & np.where(says, first.is_start, first.is_end & (first.length == 0)),
        )
        rows = np.flatnonzero(is_taken & says)
        if len(rows) < MANY:
            return nothing, None
        messages = messages_of(first, rows)
        whole_rows = np.flatnonzero(messages.is_whole)
        begins = np.searchsorted(messages.of, whole_rows)
        is_taken[rows[~messages.is_whole]] = False
        is_taken[
            rows[whole_rows[~_are_plausible(messages.framed.data, messages.framed.start[begins])]]
        ] = False
        is_taken = _both(connection, is_taken)
        is_left = is_taken[rows]
        if not is_left.any():
            return nothing, None
        directions, size, pieces = first.number[rows], messages.size, messages.pieces
        released = np.zeros(len(rows), np.int64)
        released[pieces.of[::-1]] = pieces.release[::-1]  # by the first of its packets
        self._state[directions[is_left]] = _SAID | _STARTED
        self._release[directions[is_left]] = released[is_left]
        self._state[first.number[is_taken & first.is_end]] |= _ENDED
        nought = np.zeros(int(is_left.sum()), np.int64)
        self._accounts.put_all(
            BriefAccounts(directions[is_left], size[is_left], nought, nought, nought)
        )
        is_shown = is_left[messages.of]
        self._show(directions, messages, is_shown)
        ended = np.flatnonzero(is_left & first.is_end[rows])
        taken_pieces = np.flatnonzero(is_left[pieces.of])
        piece_row, start, length, packet, _, file, time, _ = (
            column[taken_pieces] for column in pieces[:-1]
        )
        begin = np.cumsum(size) - size
        carried = CarrierPackets(
            *(
                directions[piece_row],
                start - begin[piece_row],
                start,
                length,
                packet,
                file,
                time,
                pieces.place[taken_pieces] if len(pieces.place) else pieces.place,
            ),
            *(
                directions[ended],
                size[ended],
                first.end_packet[rows[ended]],
                first.end_time[rows[ended]],
            ),
        )
        message_direction = directions[messages.of[is_shown]]
        return is_taken, BriefMessages(
            (message_direction >> 1) + 1,
            message_direction & 1,
            messages.framed.only(is_shown),
            carried,
        )

    def _show(self, directions: RowNumbers, messages: Messages, is_shown: BoolArray) -> None:
        """Keeps the streams that directions show whose connections may go on."""
        goes_on = (self._state[directions] & self._state[directions ^ 1] & _ENDED) == 0
        for row in np.flatnonzero(is_shown & (messages.key >= 0) & goes_on[messages.of]).tolist():
            streams = self._shown.setdefault(
                int(directions[messages.of[row]]), ShownStreams([], [], has_events=False)
            )
            streams.keys.append(int(messages.key[row]))
            streams.releases.append(int(messages.framed.release[row]))
        for direction_row in unique(
            messages.of[is_shown & messages.is_event & goes_on[messages.of]]
        ).tolist():
            self._shown[int(directions[direction_row])] = self._shown[
                int(directions[direction_row])
            ]._replace(has_events=True)

    def _take_brief(
        self,
        first: FirstBytes,
        is_several: BoolArray,
        is_doubted: BoolArray,
        has_handshake: BoolArray,
    ) -> tuple[BoolArray, BriefMessages | None]:
        """Takes untaken connections of which a direction has one packet with few bytes."""
        state = self._state[first.number]
        says = first.length > 0
        is_known = ((state & (_LEFT | _ENDED)) != 0) | is_several | says & (state != 0)
        is_few = (first.length >= 0) & (first.length <= FEW)
        is_taken = _both(first.number >> 1, is_few & ~is_known)
        if np.count_nonzero(is_taken) < MANY or self._used > MOST_BYTES:
            return np.zeros(len(is_taken), dtype=np.bool_), None
        rows = np.flatnonzero(is_taken & says)
        data, start = gathered(first.data, first.start[rows], first.length[rows])
        kind = _kinds(
            data,
            start,
            first.length[rows],
            first.is_start[rows],
            is_doubted[rows],
            has_handshake[rows],
        )
        is_taken[rows[kind == _STRANGE]] = False
        is_taken = _both(first.number >> 1, is_taken)
        still = is_taken[rows]
        rows = rows[still]
        new = _rows_of(first, rows, start[still], kind[still])
        file_place = None if first.place is None else first.place[rows]
        may_ask = np.isin(new.kind, (_BAD_MAGIC, _ABSURD, _MID_STREAM, _HTTP))
        self._state[new.way] = _STARTED * first.is_start[rows] | _MAY_ASK * may_ask
        self._release[new.way] = first.release[rows]
        over = np.flatnonzero(is_taken & first.is_end)
        waited = over[(state[over] & _HELD) != 0]
        old, old_place = self._drop(first.number[waited])
        self._state[first.number[over]] |= _ENDED
        waits = ~first.is_end[rows] & (new.kind != _MESSAGES)
        earlier, old.start = gathered(self._bytes, old.start, old.length)
        old.start += len(data)
        self._keep(data, new[waits], None if file_place is None else file_place[waits])
        items = FirstBytesRows.joined([new[~waits], old])
        item_place = old_place if file_place is None else np.append(file_place[~waits], old_place)
        end_release = np.append(first.end_release[rows[~waits]], first.end_release[waited])
        speaks = (items.kind == _MESSAGES) | (items.kind == _AT_END)
        self._state[items.way[speaks]] |= _SAID
        self._accounts.put_all(_accounts_of(items))
        spoken = items[speaks]
        release = self._release[spoken.way]
        spoken.start, framed, message_direction = _framed(
            np.concatenate((data, earlier)), spoken, release, end_release[speaks]
        )
        if self._count and not self._live:
            self._forget_all()
        in_file = NO_NUMBERS if file_place is None else item_place[speaks]
        carried = self._carriers(spoken, in_file, first, over)
        return is_taken, BriefMessages(
            (message_direction >> 1) + 1, message_direction & 1, framed, carried
        )

    def _carriers(
        self, spoken: FirstBytesRows, in_file: RowNumbers, first: FirstBytes, over: IntArray
    ) -> CarrierPackets:
        """Returns which packets gave first bytes that are messages.

        ``in_file``: as ``CarrierPackets.place``; ``over``: rows of ``first`` whose direction is
        over now.
        """
        ended = over[(self._state[first.number[over]] & _SAID) != 0]
        ended_directions = first.number[ended]
        way, start, length, packet, file = map(
            _wide, (spoken.way, spoken.start, spoken.length, spoken.packet, spoken.file)
        )
        return CarrierPackets(
            way,
            np.zeros(len(way), np.int64),
            start,
            length,
            packet,
            file,
            spoken.time,
            in_file,
            ended_directions,
            self._accounts.messages(ended_directions),
            first.end_packet[ended],
            first.end_time[ended],
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
                held, file_places = (
                    self._drop(np.array([direction_number])) if state & _HELD else (None, None)
                )
                release = int(self._release[direction_number])
                before.append(
                    DirectionStart(
                        direction,
                        None
                        if held is None
                        else _chunk(
                            held[0],
                            self._bytes,
                            release,
                            file_places,
                            is_start=bool(state & _STARTED),
                        ),
                        release,
                        self._accounts.get(direction_number).messages if state & _SAID else 0,
                        bool(state & _STARTED),
                        bool(state & _MAY_ASK),
                        bool(state & _ENDED),
                        self._shown.pop(direction_number, NOTHING_SHOWN),
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

    def _keep(
        self, data: ByteArray, first_bytes: FirstBytesRows, file_places: RowNumbers | None
    ) -> None:
        """Copies bytes that are still needed: the buffer of the batch is not kept."""
        if not len(first_bytes):
            return
        if 2 * self._live < self._count and self._count >= MANY:
            self._compact()
        octets, start = gathered(data, first_bytes.start, first_bytes.length)
        if self._used + len(octets) > len(self._bytes):
            self._bytes = grown(self._bytes, self._used + len(octets))
        if self._count + len(first_bytes) > len(self._kept):
            self._kept = self._kept.grown(self._count + len(first_bytes))
        self._bytes[self._used : self._used + len(octets)] = octets
        rows = self._count + np.arange(len(first_bytes))
        self._kept[rows] = first_bytes
        if file_places is not None:
            if len(self._places) < len(self._kept):
                self._places = grown(self._places, len(self._kept))
            self._places[rows] = file_places
        self._kept.start[rows] = self._used + start
        self._at[first_bytes.way] = rows
        self._state[first_bytes.way] |= _HELD
        self._used += len(octets)
        self._count += len(first_bytes)
        self._live += len(first_bytes)

    def _drop(self, numbers: RowNumbers) -> tuple[FirstBytesRows, RowNumbers]:
        """Drops what was kept of these directions, and returns it with its places in the file; its
        bytes stay until more is kept.
        """
        rows = self._at[numbers]
        dropped = self._kept[rows]
        in_file = self._places[rows] if len(self._places) else self._places
        self._kept.way[rows] = -1
        self._state[numbers] &= 0xFF ^ _HELD
        self._live -= len(numbers)
        return dropped, in_file

    def _compact(self) -> None:
        live = np.flatnonzero(self._kept.way[: self._count] >= 0)
        live_rows = self._kept[live]
        in_file = self._places[live] if len(self._places) else self._places
        octets, start = gathered(self._bytes, live_rows.start, live_rows.length)
        live_rows.start = start
        self._forget_all()
        self._kept = live_rows.grown(64)
        self._places = grown(in_file, len(self._kept)) if len(in_file) else in_file
        self._bytes = grown(octets, 1024)
        self._count, self._used, self._live = len(live_rows), len(octets), len(live_rows)
        self._at[live_rows.way] = np.arange(len(live_rows))


def _widened(column: Array, rows: int, used: RowNumbers) -> Array:
    """Returns a longer copy of a column, as ``grown``; rows never used take no memory."""
    wide: Array = np.zeros(rows, column.dtype)
    wide[used] = column[used]
    return wide


def _wide(column: Array) -> RowNumbers:
    """Returns numbers that are kept in fewer bits as integers of 64 bits."""
    return column.astype(np.int64)


def _rows_of(first: FirstBytes, rows: IntArray, start: IntArray, kind: IntArray) -> FirstBytesRows:
    """Returns the first bytes of some directions. ``start``: where the bytes of each are kept;
    ``kind``: what they are.
    """
    new = FirstBytesRows.zeros(len(rows))
    new.way, new.start, new.kind = first.number[rows], start, kind
    for name in ("length", "packet", "frame", "file", "time"):
        setattr(new, name, getattr(first, name)[rows])
    return new


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


@kernel("int64(octets, int64[::1], int64[::1], octets, int64[::1], int64[::1], int64[::1])")
def walk(
    data: ByteArray,
    start: IntArray,
    end: IntArray,
    magics: ByteArray,
    item: IntArray,
    message_start: IntArray,
    size: IntArray,
) -> int:
    """Follows headers from ``start`` on, in each item up to its ``end``, and writes to ``start``
    where it stopped.

    Returns the number of messages. One step for each message.
    """
    message_count = 0
    for i in range(len(start)):
        offset = start[i]
        for _ in range(_MOST_MESSAGES):
            if offset + HEADER > end[i] or magics[data[offset]] == 0:
                break
            length = HEADER + be32(data, offset + 8)
            if length > HEADER + MAX_BODY or offset + length > end[i]:
                break
            item[message_count] = i
            message_start[message_count] = offset
            size[message_count] = length
            message_count += 1
            offset += length
        start[i] = offset
    return message_count


def _walked(
    data: ByteArray, start: RowNumbers, length: RowNumbers
) -> tuple[RowNumbers, RowNumbers, RowNumbers, RowNumbers]:
    """Returns (item, place, length) of each message found by following headers, and where the walk
    stopped in each item.
    """
    stop = start.copy()
    most_messages = int(np.minimum(length // HEADER, _MOST_MESSAGES).sum())
    item, message_start, size = np.empty((3, most_messages), np.int64)
    message_count = walk(data, stop, start + length, _MAGIC_OCTETS, item, message_start, size)
    return item[:message_count], message_start[:message_count], size[:message_count], stop


def _are_plausible(data: ByteArray, message_start: RowNumbers) -> BoolArray:
    """Returns whether the headers at these places begin a message as it should be; if not, their
    connection is suspected.
    """
    headers, start = gathered(data, message_start, np.full(len(message_start), HEADER))
    return np.isin(start, plausible_headers(headers, default_legal_extras)[0])


def _kinds(
    data: ByteArray,
    start: RowNumbers,
    length: RowNumbers,
    is_start: BoolArray,
    is_doubted: BoolArray,
    has_handshake: BoolArray,
) -> RowNumbers:
    """Returns what first bytes are: what a ``Framer`` and a ``Trial`` would do with them, found in
    a shorter way.
    """
    items = np.arange(len(start))
    end = start + length
    message_item, message_start, _, stop = _walked(data, start, length)
    messages = np.bincount(message_item, minlength=len(items))
    opens = (
        np.bincount(
            message_item[
                (_ASKING[data[message_start]] & OF_STREAMS[data[message_start + 1]])
                | _OPENING[data[message_start + 1]]
            ],
            minlength=len(items),
        )
        > 0
    )
    is_all = (messages > 0) & (stop == end) & ~opens
    likely = plausible_headers(data, default_legal_extras)[0]
    likely_item = np.searchsorted(start, likely, "right") - 1
    inside = likely + HEADER <= end[likely_item]
    likely, likely_item = likely[inside], likely_item[inside]
    count = np.bincount(likely_item, minlength=len(items))
    begins = np.zeros(len(data), np.bool_)
    begins[message_start] = True
    # places where no message begins
    apart = np.bincount(likely_item[~begins[likely]], minlength=len(items))
    behind = np.bincount(likely_item[likely > start[likely_item]], minlength=len(items))
    has_header = length >= HEADER
    header_start = np.where(has_header, start, 0)
    magic = MAGICS[data[header_start]] if len(data) else is_start
    is_absurd = (
        numbers_at(data, header_start + 8, 4) > MAX_BODY
        if len(data) >= HEADER
        else np.zeros(len(items), np.bool_)
    )
    is_bad = has_header & ~magic
    is_absurd = has_header & magic & is_absurd

    kind = np.full(len(items), _STRANGE)
    sure, doubtful, inner = is_start & ~is_doubted, is_start & is_doubted, ~is_start
    kind[sure & is_all] = _MESSAGES
    message_items = np.flatnonzero(sure & is_all)
    kind[message_items[~_are_plausible(data, start[message_items])]] = _STRANGE
    kind[sure & (messages == 0) & ~is_bad & ~is_absurd] = _UNFINISHED
    kind[sure & (messages == 0) & is_bad & (behind == 0)] = _BAD_MAGIC
    kind[sure & (messages == 0) & is_absurd & (behind == 0)] = _ABSURD
    kind[doubtful & (count == 0)] = _BAD_MAGIC
    kind[inner & (count == 0)] = _MID_STREAM
    chains = inner & is_all & (apart == 0) & (count == messages) & (messages < CHAIN)
    kind[chains & ~is_doubted & ~has_handshake] = _AT_END
    kind[may_be_foreign(data, start, end)] = _STRANGE
    # the checks of load balancers never end
    for row in np.flatnonzero(is_start & (kind == _STRANGE) & begins_http(data, start)).tolist():
        if is_http(data[start[row] : end[row]]):
            kind[row] = _HTTP
    return kind


def _framed(
    data: ByteArray, items: FirstBytesRows, item_release: RowNumbers, end_release: RowNumbers
) -> tuple[RowNumbers, Framed, RowNumbers]:
    """Returns (new places of each item's bytes, the messages of items that are nothing else, the
    direction of each message).
    """
    octets, start = gathered(data, items.start, items.length)
    message_item, message_start, size, _ = _walked(octets, start, items.length)
    is_late = items.kind[message_item] == _AT_END
    frame, file, release = (
        _wide(column[message_item]) for column in (items.frame, items.file, item_release)
    )
    return (
        start,
        Framed(
            data=octets,
            start=message_start,
            length=size,
            stream_offset=message_start - start[message_item],
            frame=frame,
            last_frame=frame,
            file=file,
            last_file=file,
            time_ns=items.time[message_item],
            release=np.where(is_late, np.maximum(release, end_release[message_item]), release),
            heuristic=is_late,
            missing_row=NO_NUMBERS,
            missing_start=NO_NUMBERS,
            missing_end=NO_NUMBERS,
        ),
        _wide(items.way[message_item]),
    )


def _accounts_of(items: FirstBytesRows) -> BriefAccounts:
    speaks = (items.kind == _MESSAGES) | (items.kind == _AT_END)
    is_begun, length = items.kind == _UNFINISHED, _wide(items.length)
    return BriefAccounts(
        _wide(items.way),
        messages=np.where(speaks, length, 0),
        unfinished=np.where(is_begun, length, 0),
        skipped=np.where(speaks | is_begun, 0, length),
        reason=_REASON[items.kind],
    )


def _chunk(
    first_bytes: FirstBytesRow,
    data: ByteArray,
    release: int,
    file_places: RowNumbers | None,
    *,
    is_start: bool,
) -> StreamChunk:
    columns = np.array(
        [0, first_bytes.packet, first_bytes.frame, first_bytes.file, first_bytes.time, release],
        np.int64,
    ).reshape(-1, 1)
    octets = data[first_bytes.start : first_bytes.start + first_bytes.length].copy()
    return StreamChunk(
        first_bytes.way // 2 + 1,
        first_bytes.way % 2,
        0,
        octets,
        Segments(columns),
        is_start=is_start,
        places=None if file_places is None or not len(file_places) else file_places,
    )
