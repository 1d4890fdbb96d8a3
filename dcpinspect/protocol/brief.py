"""Directions that say a few bytes and no more, as columns: a flood has millions.

Measured: with a ``Framer`` for each, a connection takes 16 times the time of tshark, whether it has one noop or no message. A limit on
connections without messages would not help the first kind, and would leave bytes unread.

This module looks at what a direction says first, in one packet, for all directions of a batch at once. If those bytes are whole messages,
or nothing that could be a message, it is certain what a ``Framer`` would find. Then this module tells it, at once or when the direction has
ended. Everything else is left to framers, and so is whatever comes later on such a connection: framers then get its first bytes again.
Where they came in several packets (several.py), framers get what they need to know of them instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.gathering import gathered
from dcpinspect.growing import grown
from dcpinspect.kernels.kernel import Octets, be32, kernel
from dcpinspect.kernels.structs import Ints, Struct, T, number
from dcpinspect.kernels.structs import StructRows as Table
from dcpinspect.protocol.columns import Array, Mask, Rows, numbers_at
from dcpinspect.protocol.foreign import HTTP, begins_http, is_http, may_be_foreign
from dcpinspect.protocol.framed import ABSURD_BODY, BAD_MAGIC, MID_STREAM, NO_NUMBERS, REASONS, Accounts, BriefAccounts, Framed
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
from dcpinspect.protocol.several import Messages, messages_of
from dcpinspect.protocol.stretch import Bytes
from dcpinspect.transport.chunk import FirstBytes, Segments, StreamChunk

FEW = 1024
"""A longer first packet is left to framers."""
MANY = 32
"""If fewer directions come at once, they are left to framers, since this module costs as much as some of them."""
MOST_PACKETS = 1 << 31
"""Bytes of later packets are left to framers, so that packet numbers take four bytes here."""
MOST_BYTES = 1 << 30
"""While more bytes wait, new ones are left to framers, so that places take four bytes here."""

_HELD, _SAID, _ENDED, _STARTED, _MAY_ASK, _LEFT = 1, 2, 4, 8, 16, 32
"""Bits: what is known of a direction. _HELD: its bytes are kept. _SAID: they were messages. _ENDED: it is over. _STARTED: they were its
first ones. _MAY_ASK: they may have asked for a stream. _LEFT: framers have it."""

_STRANGE, _UNFINISHED, _BAD_MAGIC, _ABSURD, _MID_STREAM, _MESSAGES, _AT_END, _HTTP = range(8)
"""What first bytes are. _STRANGE: something for a framer. _UNFINISHED: the beginning of a message. _BAD_MAGIC, _ABSURD, _MID_STREAM,
_HTTP: bytes that are skipped, by reason. _MESSAGES: messages. _AT_END: messages if nothing more comes."""
_REASON = np.zeros(8, np.int64)
_REASON[[_BAD_MAGIC, _ABSURD, _MID_STREAM, _HTTP]] = [REASONS.index(why) for why in (BAD_MAGIC, ABSURD_BODY, MID_STREAM, HTTP)]

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


class FirstBytesRows(FirstBytesRow[Ints], Table[FirstBytesRow]):
    """The first bytes of directions, in the order in which they came. Their places in the file are kept beside them, for readings with
    places."""


class Carried(NamedTuple):
    """Which packets gave what was told, as columns."""

    way: Rows
    """Number of the direction: 2 * (connection - 1) + direction."""
    first: Rows
    """Stream offset of the first byte that a packet gave."""
    start: Rows
    """Where the bytes are in ``Framed.data``."""
    length: Rows
    packet: Rows
    file: Rows
    time_ns: Rows
    place: Rows
    """As ``StreamChunk.places``; empty for readings without places."""
    ended: Rows
    """Directions with messages that are over now, numbered like ``way``; this column and the next three have one entry for each such
    direction."""
    end: Rows
    """Stream offset of the end."""
    end_packet: Rows
    """The packet that shows the end."""
    end_time_ns: Rows


class BriefMessages(NamedTuple):
    """Messages that were found in first bytes."""

    connection: Rows
    """Connection of each message; ``direction``: direction of each message."""
    direction: Rows
    framed: Framed
    carried: Carried


class TakenDirections(NamedTuple):
    """What was found in first bytes."""

    is_taken: Mask
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


class Before(NamedTuple):
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
        self._shown: dict[int, ShownStreams] = {}  # by number of the direction, until both directions of its connection are over
        self._state = np.zeros(64, np.uint8)
        self._release: Array = np.zeros(64, np.int32)  # of what was said
        self._at: Array = np.zeros(64, np.int32)  # where it is kept, if it is
        self._forget_all()

    def _forget_all(self) -> None:
        self._kept = FirstBytesRows.zeros(64)
        self._places: Rows = np.zeros(0, np.int64)  # of each kept row, as in ``StreamChunk.places``
        self._bytes: Bytes = np.zeros(1024, np.uint8)
        self._count = self._used = self._live = 0

    def take(self, first: FirstBytes, is_doubted: Mask, has_handshake: Mask) -> TakenDirections | None:
        """Returns what first bytes tell; None if no direction is taken.

        ``is_doubted``, ``has_handshake``: for each direction, what holds of its connection.
        """
        self._make_room(int(first.number.max(initial=0)) | 1)
        if first.release.max() >= MOST_PACKETS:
            return None
        is_several, several = self._take_several(first, is_doubted)
        is_brief, brief = self._take_brief(first, is_several, is_doubted, has_handshake)
        told = [one for one in (several, brief) if one is not None]
        ways = np.fromiter(self._shown, np.int64, len(self._shown))
        for way in ways[(self._state[ways] & self._state[ways ^ 1] & _ENDED) != 0].tolist():
            del self._shown[way]
        return TakenDirections(is_several | is_brief, told) if told else None

    def _take_several(self, first: FirstBytes, is_doubted: Mask) -> tuple[Mask, BriefMessages | None]:
        """Takes connections of which a direction has several packets, if both directions say messages and nothing else."""
        nothing = np.zeros(len(first.number), dtype=np.bool_)
        if not len(first.pieces.row):
            return nothing, None
        connection, says = first.number >> 1, first.length > 0
        says[first.pieces.row] = True
        is_several = np.isin(connection, connection[first.pieces.row]) & (self._state[first.number] == 0) & ~is_doubted
        is_taken = _both(connection, is_several & np.where(says, first.is_start, first.is_end & (first.length == 0)))
        rows = np.flatnonzero(is_taken & says)
        if len(rows) < MANY:
            return nothing, None
        found = messages_of(first, rows)
        whole = np.flatnonzero(found.is_whole)
        begins = np.searchsorted(found.of, whole)
        is_taken[rows[~found.is_whole]] = False
        is_taken[rows[whole[~_are_plausible(found.framed.data, found.framed.start[begins])]]] = False
        is_taken = _both(connection, is_taken)
        is_left = is_taken[rows]
        if not is_left.any():
            return nothing, None
        ways, size, pieces = first.number[rows], found.size, found.pieces
        released = np.zeros(len(rows), np.int64)
        released[pieces.of[::-1]] = pieces.release[::-1]  # by the first of its packets
        self._state[ways[is_left]] = _SAID | _STARTED
        self._release[ways[is_left]] = released[is_left]
        self._state[first.number[is_taken & first.is_end]] |= _ENDED
        nought = np.zeros(int(is_left.sum()), np.int64)
        self._accounts.put_all(BriefAccounts(ways[is_left], size[is_left], nought, nought, nought))
        wanted = is_left[found.of]
        self._show(ways, found, wanted)
        ended = np.flatnonzero(is_left & first.is_end[rows])
        own = np.flatnonzero(is_left[pieces.of])
        of, start, length, packet, _, file, time, _ = (column[own] for column in pieces[:-1])
        begin = np.cumsum(size) - size
        carried = Carried(
            *(ways[of], start - begin[of], start, length, packet, file, time, pieces.place[own] if len(pieces.place) else pieces.place),
            *(ways[ended], size[ended], first.end_packet[rows[ended]], first.end_time[rows[ended]]),
        )
        way = ways[found.of[wanted]]
        return is_taken, BriefMessages((way >> 1) + 1, way & 1, found.framed.only(wanted), carried)

    def _show(self, ways: Rows, found: Messages, wanted: Mask) -> None:
        """Keeps the streams that directions show whose connections may go on."""
        goes_on = (self._state[ways] & self._state[ways ^ 1] & _ENDED) == 0
        for row in np.flatnonzero(wanted & (found.key >= 0) & goes_on[found.of]).tolist():
            shown = self._shown.setdefault(int(ways[found.of[row]]), ShownStreams([], [], has_events=False))
            shown.keys.append(int(found.key[row]))
            shown.releases.append(int(found.framed.release[row]))
        for of in np.unique(found.of[wanted & found.is_event & goes_on[found.of]]).tolist():
            self._shown[int(ways[of])] = self._shown[int(ways[of])]._replace(has_events=True)

    def _take_brief(self, first: FirstBytes, is_several: Mask, is_doubted: Mask, has_handshake: Mask) -> tuple[Mask, BriefMessages | None]:
        """Takes connections of which a direction has one packet with few bytes, besides those that are taken."""
        state, connection, says, ends = self._state[first.number], first.number >> 1, first.length > 0, first.is_end
        is_known = ((state & (_LEFT | _ENDED)) != 0) | is_several
        is_taken = _both(connection, (first.length >= 0) & (first.length <= FEW) & ~is_known & ~(says & (state != 0)))
        if np.count_nonzero(is_taken) < MANY or self._used > MOST_BYTES:
            return np.zeros(len(is_taken), dtype=np.bool_), None
        rows = np.flatnonzero(is_taken & says)
        data, start = gathered(first.data, first.start[rows], first.length[rows])
        kind = _kinds(data, start, first.length[rows], first.is_start[rows], is_doubted[rows], has_handshake[rows])
        is_taken[rows[kind == _STRANGE]] = False
        is_taken = _both(connection, is_taken)
        still = is_taken[rows]
        rows, new = rows[still], FirstBytesRows.zeros(len(rows[still]))
        new.way, new.start, new.length, new.kind = first.number[rows], start[still], first.length[rows], kind[still]
        new.packet, new.frame, new.file, new.time = first.packet[rows], first.frame[rows], first.file[rows], first.time[rows]
        place = None if first.place is None else first.place[rows]
        may_ask = np.isin(new.kind, (_BAD_MAGIC, _ABSURD, _MID_STREAM, _HTTP))
        self._state[new.way] = _STARTED * first.is_start[rows] | _MAY_ASK * may_ask
        self._release[new.way] = first.release[rows]
        over = np.flatnonzero(is_taken & ends)
        waited = over[(state[over] & _HELD) != 0]
        old, old_place = self._drop(first.number[waited])
        self._state[first.number[over]] |= _ENDED
        waits = ~ends[rows] & (new.kind != _MESSAGES)
        earlier, old.start = gathered(self._bytes, old.start, old.length)
        old.start += len(data)
        self._keep(data, new[waits], None if place is None else place[waits])
        items = FirstBytesRows.joined([new[~waits], old])
        item_place = old_place if place is None else np.append(place[~waits], old_place)
        end_release = np.append(first.end_release[rows[~waits]], first.end_release[waited])
        speaks = (items.kind == _MESSAGES) | (items.kind == _AT_END)
        self._state[items.way[speaks]] |= _SAID
        self._accounts.put_all(_accounts_of(items))
        spoken = items[speaks]
        release = self._release[spoken.way]
        spoken.start, framed, of = _framed(np.concatenate((data, earlier)), spoken, release, end_release[speaks])
        ended = over[(self._state[first.number[over]] & _SAID) != 0]
        ways = first.number[ended]
        if self._count and not self._live:
            self._forget_all()
        way, length, packet, file = map(_wide, (spoken.way, spoken.length, spoken.packet, spoken.file))
        in_file = NO_NUMBERS if place is None else item_place[speaks]
        carried = Carried(
            *(way, np.zeros(len(way), np.int64), _wide(spoken.start), length, packet, file, spoken.time, in_file),
            *(ways, self._accounts.messages(ways), first.end_packet[ended], first.end_time[ended]),
        )
        return is_taken, BriefMessages((of >> 1) + 1, of & 1, framed, carried)

    def leave(self, connection: int) -> list[Before]:
        """Returns what the directions of a connection have said: framers have the connection from now on."""
        found = []
        self._make_room(2 * connection - 1)
        for direction in range(2):
            place = 2 * (connection - 1) + direction
            state = int(self._state[place])
            self._state[place] = _LEFT
            if state and state != _LEFT:
                held, places = self._drop(np.array([place])) if state & _HELD else (None, None)
                release = int(self._release[place])
                found.append(
                    Before(
                        direction,
                        None if held is None else _chunk(held[0], self._bytes, release, places, is_start=bool(state & _STARTED)),
                        release,
                        self._accounts.get(place).messages if state & _SAID else 0,
                        bool(state & _STARTED),
                        bool(state & _MAY_ASK),
                        bool(state & _ENDED),
                        self._shown.pop(place, NOTHING_SHOWN),
                    )
                )
        return found

    def forget(self, numbers: Rows) -> None:
        """Forgets directions on which nothing comes any more."""
        numbers = numbers[numbers < len(self._state)]
        self._drop(numbers[(self._state[numbers] & _HELD) != 0])
        self._state[numbers] = _LEFT
        for way in numbers.tolist() if self._shown else ():
            self._shown.pop(way, None)

    def due(self, time_ns: int) -> list[int]:
        """Returns connections whose messages only wait for the end, and have waited long enough by ``time_ns``."""
        kept = self._kept[: self._count]
        found = kept.way[(kept.way >= 0) & (kept.kind == _AT_END) & (kept.time <= time_ns - TRIAL_NS)]
        connections: list[int] = np.unique((found >> 1) + 1).tolist()
        return connections

    def _make_room(self, most: int) -> None:
        if most >= len(self._state):
            self._state = grown(self._state, most + 1)
            spoke = np.flatnonzero(self._state & ~np.uint8(_ENDED | _LEFT))
            self._release, self._at = (_widened(column, len(self._state), spoke) for column in (self._release, self._at))

    def _keep(self, data: Bytes, new: FirstBytesRows, place: Rows | None) -> None:
        """Copies bytes that are still needed: the buffer of the batch is not kept."""
        if not len(new):
            return
        if 2 * self._live < self._count and self._count >= MANY:
            self._compact()
        octets, start = gathered(data, new.start, new.length)
        if self._used + len(octets) > len(self._bytes):
            self._bytes = grown(self._bytes, self._used + len(octets))
        if self._count + len(new) > len(self._kept):
            self._kept = FirstBytesRows(grown(self._kept.array, self._count + len(new)))
        self._bytes[self._used : self._used + len(octets)] = octets
        places = self._count + np.arange(len(new))
        self._kept[places] = new
        if place is not None:
            if len(self._places) < len(self._kept):
                self._places = grown(self._places, len(self._kept))
            self._places[places] = place
        self._kept.start[places] = self._used + start
        self._at[new.way] = places
        self._state[new.way] |= _HELD
        self._used, self._count, self._live = self._used + len(octets), self._count + len(new), self._live + len(new)

    def _drop(self, numbers: Rows) -> tuple[FirstBytesRows, Rows]:
        """Drops what was kept of these directions, and returns it with its places in the file; its bytes stay until more is kept."""
        places = self._at[numbers]
        found, in_file = self._kept[places], self._places[places] if len(self._places) else self._places
        self._kept.way[places] = -1
        self._state[numbers] &= 0xFF ^ _HELD
        self._live -= len(numbers)
        return found, in_file

    def _compact(self) -> None:
        live = np.flatnonzero(self._kept.way[: self._count] >= 0)
        kept, in_file = self._kept[live], self._places[live] if len(self._places) else self._places
        octets, start = gathered(self._bytes, kept.start, kept.length)
        kept.start = start
        self._forget_all()
        self._kept = FirstBytesRows(grown(kept.array, 64))
        self._places = grown(in_file, len(self._kept)) if len(in_file) else in_file
        self._bytes = grown(octets, 1024)
        self._count, self._used, self._live = len(kept), len(octets), len(kept)
        self._at[kept.way] = np.arange(len(kept))


def _widened(column: Array, rows: int, used: Rows) -> Array:
    """Returns a longer copy of a column, as ``grown`` does; rows that were never used take no memory."""
    wide: Array = np.zeros(rows, column.dtype)
    wide[used] = column[used]
    return wide


def _wide(column: Array) -> Rows:
    """Returns numbers that are kept in fewer bits as integers of 64 bits."""
    return column.astype(np.int64)


def _both(connection: Rows, wanted: Mask) -> Mask:
    """Keeps in a mask only those whose other direction on the same connection, if it is there, is wanted too; both stand next to each
    other."""
    if wanted.all():
        return wanted
    of_same = connection[1:] == connection[:-1]
    found = wanted.copy()
    found[1:][of_same] &= wanted[:-1][of_same]
    found[:-1][of_same] &= wanted[1:][of_same]
    return found


@kernel("int64(octets, int64[::1], int64[::1], octets, int64[::1], int64[::1], int64[::1])")
def walk(data: Octets, at: Ints, end: Ints, magics: Octets, item: Ints, place: Ints, size: Ints) -> int:
    """Follows headers from ``at`` on, in each item up to its ``end``, and writes to ``at`` where it stopped.

    Returns the number of messages. One step for each message.
    """
    found = 0
    for i in range(len(at)):
        here = at[i]
        for _ in range(_MOST_MESSAGES):
            if here + HEADER > end[i] or magics[data[here]] == 0:
                break
            length = HEADER + be32(data, here + 8)
            if length > HEADER + MAX_BODY or here + length > end[i]:
                break
            item[found] = i
            place[found] = here
            size[found] = length
            found += 1
            here += length
        at[i] = here
    return found


def _walked(data: Bytes, start: Rows, length: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Returns (item, place, length) of each message found by following headers, and where the walk stopped in each item."""
    at = start.copy()
    room = int(np.minimum(length // HEADER, _MOST_MESSAGES).sum())
    item, place, size = np.empty((3, room), np.int64)
    found = walk(data, at, start + length, _MAGIC_OCTETS, item, place, size)
    return item[:found], place[:found], size[:found], at


def _are_plausible(data: Bytes, places: Rows) -> Mask:
    """Returns whether the headers at these places begin a message as it should be; if not, ``ConnectionEvidence`` suspects their connection."""
    headers, start = gathered(data, places, np.full(len(places), HEADER))
    return np.isin(start, plausible_headers(headers, default_legal_extras)[0])


def _kinds(data: Bytes, start: Rows, length: Rows, is_start: Mask, is_doubted: Mask, has_handshake: Mask) -> Rows:
    """Returns what first bytes are: what a ``Framer`` and a ``Trial`` would do with them, found in a shorter way."""
    items = np.arange(len(start))
    end = start + length
    of, place, _, stop = _walked(data, start, length)
    messages = np.bincount(of, minlength=len(items))
    opens = np.bincount(of[(_ASKING[data[place]] & OF_STREAMS[data[place + 1]]) | _OPENING[data[place + 1]]], minlength=len(items)) > 0
    is_all = (messages > 0) & (stop == end) & ~opens
    likely = plausible_headers(data, default_legal_extras)[0]
    whose = np.searchsorted(start, likely, "right") - 1
    inside = likely + HEADER <= end[whose]
    likely, whose = likely[inside], whose[inside]
    count = np.bincount(whose, minlength=len(items))
    begins = np.zeros(len(data), np.bool_)
    begins[place] = True
    apart = np.bincount(whose[~begins[likely]], minlength=len(items))  # places where no message begins
    behind = np.bincount(whose[likely > start[whose]], minlength=len(items))
    has_header = length >= HEADER
    where = np.where(has_header, start, 0)
    magic = MAGICS[data[where]] if len(data) else is_start
    is_absurd = numbers_at(data, where + 8, 4) > MAX_BODY if len(data) >= HEADER else np.zeros(len(items), np.bool_)
    is_bad = has_header & ~magic
    is_absurd = has_header & magic & is_absurd

    kind = np.full(len(items), _STRANGE)
    sure, doubtful, inner = is_start & ~is_doubted, is_start & is_doubted, ~is_start
    kind[sure & is_all] = _MESSAGES
    said = np.flatnonzero(sure & is_all)
    kind[said[~_are_plausible(data, start[said])]] = _STRANGE
    kind[sure & (messages == 0) & ~is_bad & ~is_absurd] = _UNFINISHED
    kind[sure & (messages == 0) & is_bad & (behind == 0)] = _BAD_MAGIC
    kind[sure & (messages == 0) & is_absurd & (behind == 0)] = _ABSURD
    kind[doubtful & (count == 0)] = _BAD_MAGIC
    kind[inner & (count == 0)] = _MID_STREAM
    chains = inner & is_all & (apart == 0) & (count == messages) & (messages < CHAIN)
    kind[chains & ~is_doubted & ~has_handshake] = _AT_END
    kind[may_be_foreign(data, start, end)] = _STRANGE
    for at in np.flatnonzero(is_start & (kind == _STRANGE) & begins_http(data, start)).tolist():  # the checks of load balancers never end
        if is_http(data[start[at] : end[at]]):
            kind[at] = _HTTP
    return kind


def _framed(data: Bytes, items: FirstBytesRows, said: Rows, end_release: Rows) -> tuple[Rows, Framed, Rows]:
    """Returns (new places of each item's bytes, the messages of items that are nothing else, the direction of each message)."""
    octets, start = gathered(data, items.start, items.length)
    of, place, size, _ = _walked(octets, start, items.length)
    is_late = items.kind[of] == _AT_END
    frame, file, release = (_wide(column[of]) for column in (items.frame, items.file, said))
    return (
        start,
        Framed(
            data=octets,
            start=place,
            length=size,
            stream_offset=place - start[of],
            frame=frame,
            last_frame=frame,
            file=file,
            last_file=file,
            time_ns=items.time[of],
            release=np.where(is_late, np.maximum(release, end_release[of]), release),
            heuristic=is_late,
            missing_row=NO_NUMBERS,
            missing_start=NO_NUMBERS,
            missing_end=NO_NUMBERS,
        ),
        _wide(items.way[of]),
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


def _chunk(kept: FirstBytesRow, data: Bytes, release: int, places: Rows | None, *, is_start: bool) -> StreamChunk:
    columns = np.array([0, kept.packet, kept.frame, kept.file, kept.time, release], np.int64).reshape(-1, 1)
    octets = data[kept.start : kept.start + kept.length].copy()
    return StreamChunk(kept.way // 2 + 1, kept.way % 2, 0, octets, Segments(columns), is_start=is_start, places=places)
