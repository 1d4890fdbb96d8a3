"""Directions that say a few bytes and no more, in columns: of a flood there are millions, and a ``Framer`` each would be too much.

What a direction says first, in one packet, is looked at here, all directions of a batch at once. What a ``Framer`` would find in it is
certain where it is whole messages, or nothing that could be one: then this module tells the same, of the bytes by themselves or once the
direction has ended. All else is left to framers, also whatever comes later on such a connection: its bytes are then told again to them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcpinspect.gathering import gathered
from dcpinspect.growing import grown
from dcpinspect.kernel import Octets, be32, kernel
from dcpinspect.protocol.columns import Array, Mask, Rows, numbers_at
from dcpinspect.protocol.foreign import may_be_foreign
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
from dcpinspect.protocol.stretch import Bytes
from dcpinspect.structs import Ints, Struct, T, number
from dcpinspect.structs import Rows as Table
from dcpinspect.transport.chunk import FirstBytes, Segments, StreamChunk

FEW = 1024
"""A longer first packet is left to framers."""
MANY = 32
"""Fewer directions at once are left to framers: it costs as much as some of them."""
MOST_PACKETS = 1 << 31
"""What comes in later ones is left to framers, so that their numbers take four bytes here."""
MOST_BYTES = 1 << 30
"""While more of them wait, what comes is left to framers, for the same reason."""

_HELD, _SAID, _ENDED, _STARTED, _MAY_ASK, _LEFT = 1, 2, 4, 8, 16, 32
"""What is known of a direction: its bytes are kept; they were messages; it is over; they were its first ones; they may have asked for a
stream; framers have it."""

_STRANGE, _UNFINISHED, _BAD_MAGIC, _ABSURD, _MID_STREAM, _MESSAGES, _AT_END = range(7)
"""What first bytes are: something for a framer; the beginning of a message; bytes that are skipped, for three reasons; messages; messages
if nothing more comes."""
_REASON = np.zeros(7, np.int64)
_REASON[[_BAD_MAGIC, _ABSURD, _MID_STREAM]] = [REASONS.index(why) for why in (BAD_MAGIC, ABSURD_BODY, MID_STREAM)]

MAGICS = np.isin(np.arange(256), (0x80, 0x81, 0x08, 0x18, 0x82, 0x83))
"""Of each byte whether a message may begin with it."""
_MAGIC_OCTETS = MAGICS.astype(np.uint8)
_ASKING = np.isin(np.arange(256), (0x80, 0x08))
_OPENING = opcodes_with(Trait.OPENS)
_MOST_MESSAGES = 16


class Kept(Struct[T]):
    """What a direction said first."""

    time: T = number("As in ``Segments``.")
    way: T = number("2 * (connection - 1) + direction; -1 once it is not kept any more.", bits=32)
    start: T = number("Where its bytes are.", bits=32)
    packet: T = number("As in ``Segments``, and the next two.", bits=32)
    frame: T = number("The same.", bits=32)
    file: T = number("The same.", bits=32)
    length: T = number("How many bytes.", bits=16)
    kind: T = number("What they are, as above.", bits=8)


class AllKept(Kept[Ints], Table[Kept]):
    """In the order in which they came. Where the bytes stand in the file is beside them, for who asked for it."""


class Carried(NamedTuple):
    """Which packets gave what was told, a column each: all messages of a direction came in one."""

    way: Rows
    """2 * (connection - 1) + direction."""
    start: Rows
    """Where the bytes, which are the first of the direction, are in ``Framed.data``."""
    length: Rows
    packet: Rows
    file: Rows
    time_ns: Rows
    place: Rows
    """As ``StreamChunk.places``; empty for who did not ask for it."""
    ended: Rows
    """Directions with messages that are over now, numbered like ``way``; one entry a direction here and in the next three."""
    end: Rows
    """Stream offset."""
    end_packet: Rows
    """The one that shows it."""
    end_time_ns: Rows


class Told(NamedTuple):
    """What first bytes told."""

    is_taken: Mask
    """Of each direction that was asked about, whether no framer need see it."""
    connection: Rows
    """Of each message, and its direction."""
    direction: Rows
    framed: Framed
    carried: Carried


class Before(NamedTuple):
    """What a direction said before framers have its connection."""

    direction: int
    chunk: StreamChunk | None
    """Its bytes, where they have to look at them."""
    release: int
    messages: int
    """Bytes in messages."""
    is_started: bool
    """They were its first ones."""
    may_ask: bool
    """They may have asked for a stream."""
    is_ended: bool


class BriefDirections:
    """Those of a reading."""

    def __init__(self, accounts: Accounts) -> None:
        """``accounts``: are given those of directions that are over, or said messages."""
        self._accounts = accounts
        self._state = np.zeros(64, np.uint8)
        self._release: Array = np.zeros(64, np.int32)  # of what was said
        self._at: Array = np.zeros(64, np.int32)  # where that is kept, if it is
        self._forget_all()

    def _forget_all(self) -> None:
        self._kept = AllKept.zeros(64)
        self._places: Rows = np.zeros(0, np.int64)  # of each of them, as ``StreamChunk.places`` has it
        self._bytes: Bytes = np.zeros(1024, np.uint8)
        self._count = self._used = self._live = 0

    def take(self, first: FirstBytes, is_doubted: Mask, has_handshake: Mask) -> Told | None:
        """What these tell; None where none is taken. ``is_doubted``, ``has_handshake``: of each one's connection."""
        self._make_room(int(first.number.max(initial=0)) | 1)
        state, connection, says, ends = self._state[first.number], first.number >> 1, first.length > 0, first.is_end
        is_known = (state & (_LEFT | _ENDED)) != 0
        is_taken = _both(connection, (first.length >= 0) & (first.length <= FEW) & ~is_known & ~(says & (state != 0)))
        if np.count_nonzero(is_taken) < MANY or first.release.max() >= MOST_PACKETS or self._used > MOST_BYTES:
            return None
        rows = np.flatnonzero(is_taken & says)
        data, start = gathered(first.data, first.start[rows], first.length[rows])
        kind = _kinds(data, start, first.length[rows], first.is_start[rows], is_doubted[rows], has_handshake[rows])
        is_taken[rows[kind == _STRANGE]] = False
        is_taken = _both(connection, is_taken)
        still = is_taken[rows]
        rows, new = rows[still], AllKept.zeros(len(rows[still]))
        new.way, new.start, new.length, new.kind = first.number[rows], start[still], first.length[rows], kind[still]
        new.packet, new.frame, new.file, new.time = first.packet[rows], first.frame[rows], first.file[rows], first.time[rows]
        place = None if first.place is None else first.place[rows]
        may_ask = np.isin(new.kind, (_BAD_MAGIC, _ABSURD, _MID_STREAM))
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
        items = AllKept.joined([new[~waits], old])
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
            *(way, _wide(spoken.start), length, packet, file, spoken.time, in_file),
            *(ways, self._accounts.messages(ways), first.end_packet[ended], first.end_time[ended]),
        )
        return Told(is_taken, (of >> 1) + 1, of & 1, framed, carried)

    def leave(self, connection: int) -> list[Before]:
        """What the directions of a connection have said: framers have it from now on."""
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
                    )
                )
        return found

    def forget(self, numbers: Rows) -> None:
        """Nothing comes of these directions any more."""
        numbers = numbers[numbers < len(self._state)]
        self._drop(numbers[(self._state[numbers] & _HELD) != 0])
        self._state[numbers] = _LEFT

    def due(self, time_ns: int) -> list[int]:
        """Connections with messages that wait for nothing but the end, and have waited long enough by ``time_ns``."""
        kept = self._kept[: self._count]
        found = kept.way[(kept.way >= 0) & (kept.kind == _AT_END) & (kept.time <= time_ns - TRIAL_NS)]
        connections: list[int] = np.unique((found >> 1) + 1).tolist()
        return connections

    def _make_room(self, most: int) -> None:
        if most >= len(self._state):
            self._state = grown(self._state, most + 1)
            spoke = np.flatnonzero(self._state & ~np.uint8(_ENDED | _LEFT))
            self._release, self._at = (_widened(column, len(self._state), spoke) for column in (self._release, self._at))

    def _keep(self, data: Bytes, new: AllKept, place: Rows | None) -> None:
        """Copies what is waited for: the batch goes."""
        if not len(new):
            return
        if 2 * self._live < self._count and self._count >= MANY:
            self._compact()
        octets, start = gathered(data, new.start, new.length)
        if self._used + len(octets) > len(self._bytes):
            self._bytes = grown(self._bytes, self._used + len(octets))
        if self._count + len(new) > len(self._kept):
            self._kept = AllKept(grown(self._kept.array, self._count + len(new)))
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

    def _drop(self, numbers: Rows) -> tuple[AllKept, Rows]:
        """What was kept of these, and is not any more, and where it stands in the file; its bytes are there until more is kept."""
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
        self._kept = AllKept(grown(kept.array, 64))
        self._places = grown(in_file, len(self._kept)) if len(in_file) else in_file
        self._bytes = grown(octets, 1024)
        self._count, self._used, self._live = len(kept), len(octets), len(kept)
        self._at[kept.way] = np.arange(len(kept))


def _widened(column: Array, rows: int, used: Rows) -> Array:
    """As ``grown``; what was never used takes no memory."""
    wide: Array = np.zeros(rows, column.dtype)
    wide[used] = column[used]
    return wide


def _wide(column: Array) -> Rows:
    """Numbers that take less room while they are kept, as others have them."""
    return column.astype(np.int64)


def _both(connection: Rows, wanted: Mask) -> Mask:
    """Those of which the other direction of the same connection, if it is there, is wanted too; they come in order."""
    if wanted.all():
        return wanted
    of_same = connection[1:] == connection[:-1]
    found = wanted.copy()
    found[1:][of_same] &= wanted[:-1][of_same]
    found[:-1][of_same] &= wanted[1:][of_same]
    return found


@kernel("int64(octets, int64[::1], int64[::1], octets, int64[::1], int64[::1], int64[::1])")
def walk(data: Octets, at: Ints, end: Ints, magics: Octets, item: Ints, place: Ints, size: Ints) -> int:
    """Follows headers from ``at`` on, in each item up to its ``end``, and writes where it stopped there; returns how many messages there
    are. One step a message."""
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
    """Headers followed in each item: (item, place, length) of each message, and where it stopped in each."""
    at = start.copy()
    room = int(np.minimum(length // HEADER, _MOST_MESSAGES).sum())
    item, place, size = np.empty((3, room), np.int64)
    found = walk(len(start), data, at, start + length, _MAGIC_OCTETS, item, place, size)
    return item[:found], place[:found], size[:found], at


def _kinds(data: Bytes, start: Rows, length: Rows, is_start: Mask, is_doubted: Mask, has_handshake: Mask) -> Rows:
    """What first bytes are; what a ``Framer`` and a ``Trial`` do with them, of which this is the shortest way."""
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
    apart = np.bincount(whose[~begins[likely]], minlength=len(items))  # where no message begins
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
    kind[sure & (messages == 0) & ~is_bad & ~is_absurd] = _UNFINISHED
    kind[sure & (messages == 0) & is_bad & (behind == 0)] = _BAD_MAGIC
    kind[sure & (messages == 0) & is_absurd & (behind == 0)] = _ABSURD
    kind[doubtful & (count == 0)] = _BAD_MAGIC
    kind[inner & (count == 0)] = _MID_STREAM
    chains = inner & is_all & (apart == 0) & (count == messages) & (messages < CHAIN)
    kind[chains & ~is_doubted & ~has_handshake] = _AT_END
    kind[may_be_foreign(data, start, end)] = _STRANGE
    return kind


def _framed(data: Bytes, items: AllKept, said: Rows, end_release: Rows) -> tuple[Rows, Framed, Rows]:
    """(where the bytes of each item are then, the messages of items that are nothing else, the direction of each)."""
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


def _accounts_of(items: AllKept) -> BriefAccounts:
    speaks = (items.kind == _MESSAGES) | (items.kind == _AT_END)
    is_begun, length = items.kind == _UNFINISHED, _wide(items.length)
    return BriefAccounts(
        _wide(items.way),
        messages=np.where(speaks, length, 0),
        unfinished=np.where(is_begun, length, 0),
        skipped=np.where(speaks | is_begun, 0, length),
        reason=_REASON[items.kind],
    )


def _chunk(kept: Kept, data: Bytes, release: int, places: Rows | None, *, is_start: bool) -> StreamChunk:
    columns = np.array([0, kept.packet, kept.frame, kept.file, kept.time, release], np.int64).reshape(-1, 1)
    octets = data[kept.start : kept.start + kept.length].copy()
    return StreamChunk(kept.way // 2 + 1, kept.way % 2, 0, octets, Segments(columns), is_start=is_start, places=places)
