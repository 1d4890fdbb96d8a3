"""Which request a response answers.

A response repeats its request's opcode and opaque and nothing else, so requests wait in one queue for
each (connection, direction, opcode, opaque), first in, first out: clients reuse an opaque for all they
say about a vbucket, and both sides may use 0. Up to 65,536 requests of the reading wait; with more, the oldest
are forgotten, so memory does not grow with requests that are never answered.

Some messages have no answer unless they fail (mutations, stream ends, markers without the ack flag …).
They do not wait: only their newest vbucket is kept, for the error that may still come.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import SystemRandom

import numpy as np
import numpy.typing as npt

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.protocol.columns import Mask, Numbers, Rows
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.flags import ACK
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status

WAITING = 1 << 16
"""Requests of the reading that wait for an answer at most; a client has some thousands under way."""

IGNORE, ASKS, TELLS, ANSWERS, CONTINUES = range(5)
"""What a message means here: nothing, a request, a request without a success answer, a response, one of several responses."""

SILENT = opcodes_with(Trait.UNANSWERED)
"""Commands that no success answers."""

_NONE = -1
_FREE = -2

Q_KEY, Q_OPAQUE, Q_NEXT, Q_ROW, Q_OFFSET, Q_TIME, Q_VBUCKET, Q_IS_LATE, Q_AGE, Q_OLDER, Q_NEWER, ENTRY = range(12)
"""Columns of requests that wait. Q_NEXT: the next one of the same queue, or of the free rows. Q_IS_LATE: later messages of the other side
had been read before it. Q_AGE: how many had been queued before it. Q_OLDER, Q_NEWER: its neighbours in that order."""

QUEUED, USED, UNUSED, OLDEST, NEWEST, COUNTS = range(6)
"""Requests that were ever queued; rows that were ever used; first of those that are free again, or -1; ends of the order by age, or -1."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """For each message of a batch: the request it answers."""

    row: Numbers
    stream_offset: Numbers
    rtt_ns: Numbers
    """Time of the response less time of the request."""
    vbucket: Numbers
    """The request's; also for errors about messages that need no answer, which name no row."""


class Requests:
    """The requests that wait, carried from batch to batch."""

    def __init__(self) -> None:
        slots = 2 * WAITING
        self._slot_connection = np.full(slots, _FREE, dtype=np.int64)
        self._slot_opaque = np.zeros(slots, dtype=np.int64)
        self._slot_first = np.zeros(slots, dtype=np.int64)
        self._slot_last = np.zeros(slots, dtype=np.int64)
        self._entries = np.zeros((WAITING, ENTRY), dtype=np.int64)
        self._flows = np.zeros((64, 3), dtype=np.int64)
        self._counts = no_requests()
        # Opaques are chosen by the peers: an unknown seed keeps them from choosing which ones collide.
        self._seed = SystemRandom().getrandbits(32)

    def begin(self, connection: int, *, known: bool) -> None:
        """A connection is there; ``known``: nothing was said on it before the capture began. Call before its messages."""
        self._make_room(connection)
        if not known:
            self._flows[2 * connection : 2 * connection + 2, 2] = 1

    def pair(
        self, decoded: Decoded, connection: Rows, direction: Rows, row: Rows, stream_offset: Rows, time_ns: Rows, after_loss: Mask
    ) -> Pairs:
        """The request of every response; call with the batches of a reading in order.

        ``after_loss`` are messages before which bytes of their direction could not be read.
        """
        total = len(decoded)
        self._make_room(int(connection.max(initial=0)))
        meaning = _meaning(decoded)
        asked = np.where(decoded.is_response, 1 - direction, direction)
        key = (connection << 10) | (asked << 9) | (decoded.is_server.astype(np.int64) << 8) | decoded.opcode
        answered, offset, asked_at, vbucket = (np.full(total, _NONE, dtype=np.int64) for _ in range(4))
        pair_requests(
            total,
            np.ascontiguousarray(key, dtype=np.int64),
            2 * connection + direction,
            after_loss.astype(np.int64),
            decoded.opaque.view(np.int64),
            meaning,
            row,
            stream_offset,
            time_ns,
            decoded.specific.view(np.int64),
            self._slot_connection,
            self._slot_opaque,
            self._slot_first,
            self._slot_last,
            self._entries,
            self._flows,
            self._counts,
            self._seed,
            answered,
            offset,
            asked_at,
            vbucket,
        )
        has_row = answered != _NONE
        return Pairs(
            Numbers(answered, has_row),
            Numbers(offset, has_row),
            Numbers(time_ns - asked_at, has_row),
            Numbers(vbucket, vbucket != _NONE),
        )

    def _make_room(self, connection: int) -> None:
        while len(self._flows) < 2 * (connection + 1):
            self._flows = np.concatenate((self._flows, np.zeros_like(self._flows)))


def no_requests() -> npt.NDArray[np.int64]:
    """The counts while nothing waits."""
    return np.array([0, 0, _NONE, _NONE, _NONE], dtype=np.int64)


def _meaning(decoded: Decoded) -> npt.NDArray[np.int64]:
    opcode = decoded.opcode
    silent = SILENT[opcode] & ~decoded.is_server
    flags = decoded.numbers.get("snapshot_type")
    if flags is not None:
        wants_ack = (flags.values.astype(np.int64) & ACK) != 0
        silent &= ~((opcode == Opcode.DCP_SNAPSHOT_MARKER) & wants_ack)
    meaning = np.where(decoded.is_response, ANSWERS, np.where(silent, TELLS, ASKS)).astype(np.int64)
    more = (opcode == Opcode.STAT) & (decoded.body_size > 0) & (decoded.specific == Status.SUCCESS)
    more |= decoded.specific == Status.RANGE_SCAN_MORE
    meaning[decoded.is_response & ~decoded.is_server & more] = CONTINUES
    meaning[~decoded.has_magic] = IGNORE
    return meaning


@inline
def _home(key: int, opaque: int, seed: int, mask: int) -> int:
    """The slot a key wants. Products stay below 2^63, so both forms of a kernel agree."""
    mixed = (key & 0x7FFFFFFF) * 0x2545F491 + ((key >> 31) & 0x7FFFFFFF) * 0x5851F42D
    mixed = (mixed ^ (mixed >> 29)) & 0x7FFFFFFF
    mixed = mixed * 0x1B873593 + ((opaque ^ seed) & 0xFFFFFFFF) * 0x4F6CDD1D
    mixed = (mixed ^ (mixed >> 32)) & 0x7FFFFFFF
    mixed = mixed * 0x2C1B3C6D
    return (mixed ^ (mixed >> 17)) & mask


@inline
def _find(key: int, opaque: int, seed: int, slot_key: Ints, slot_opaque: Ints) -> int:
    """The slot of a key, or -1 - the free slot where it belongs."""
    mask = len(slot_key) - 1
    at = _home(key, opaque, seed, mask)
    while slot_key[at] != -2:
        if slot_key[at] == key and slot_opaque[at] == opaque:
            return at
        at = (at + 1) & mask
    return -1 - at


@inline
def _remove(at: int, seed: int, slot_key: Ints, slot_opaque: Ints, slot_first: Ints, slot_last: Ints) -> None:
    """Free a slot and close the gap behind it, so that later keys are still found."""
    mask = len(slot_key) - 1
    hole = at
    probe = (at + 1) & mask
    while slot_key[probe] != -2:
        home = _home(slot_key[probe], slot_opaque[probe], seed, mask)
        if ((probe - home) & mask) >= ((probe - hole) & mask):
            slot_key[hole] = slot_key[probe]
            slot_opaque[hole] = slot_opaque[probe]
            slot_first[hole] = slot_first[probe]
            slot_last[hole] = slot_last[probe]
            hole = probe
        probe = (probe + 1) & mask
    slot_key[hole] = -2


@inline
def _take(entries: Ints, counts: Ints) -> int:
    """A free row, the newest from now on; there is one."""
    entry = counts[UNUSED]
    if entry >= 0:
        counts[UNUSED] = entries[entry, Q_NEXT]
    else:
        entry = counts[USED]
        counts[USED] = entry + 1
    before = counts[NEWEST]
    entries[entry, Q_OLDER] = before
    entries[entry, Q_NEWER] = -1
    if before >= 0:
        entries[before, Q_NEWER] = entry
    else:
        counts[OLDEST] = entry
    counts[NEWEST] = entry
    entries[entry, Q_AGE] = counts[QUEUED]
    counts[QUEUED] += 1
    return int(entry)


@inline
def _give_back(entry: int, entries: Ints, counts: Ints) -> None:
    """Frees a row."""
    older, newer = entries[entry, Q_OLDER], entries[entry, Q_NEWER]
    if older >= 0:
        entries[older, Q_NEWER] = newer
    else:
        counts[OLDEST] = newer
    if newer >= 0:
        entries[newer, Q_OLDER] = older
    else:
        counts[NEWEST] = older
    entries[entry, Q_NEXT] = counts[UNUSED]
    counts[UNUSED] = entry


@inline
def _pop(at: int, seed: int, slot_key: Ints, slot_opaque: Ints, slot_first: Ints, slot_last: Ints, entries: Ints, counts: Ints) -> None:
    """Take the first request off the queue of a slot."""
    entry = slot_first[at]
    after = entries[entry, Q_NEXT]
    if after == -1:
        _remove(at, seed, slot_key, slot_opaque, slot_first, slot_last)
    else:
        slot_first[at] = after
    _give_back(entry, entries, counts)


@kernel(
    "void("
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[:,::1], int64[:,::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])"
)
def pair_requests(
    key: Ints,
    flow: Ints,
    after_loss: Ints,
    opaque: Ints,
    meaning: Ints,
    row: Ints,
    stream_offset: Ints,
    time_ns: Ints,
    vbucket: Ints,
    slot_key: Ints,
    slot_opaque: Ints,
    slot_first: Ints,
    slot_last: Ints,
    entries: Ints,
    flows: Ints,
    counts: Ints,
    seed: int,
    out_row: Ints,
    out_offset: Ints,
    out_time: Ints,
    out_vbucket: Ints,
) -> None:
    """Queue requests and pop them for their responses: constant time a message.

    Slots are an open hash table of queues, whose requests are in ``entries``; once these are all in use, the oldest makes room.
    It is the first of its queue, as both are in order of arrival.

    A flow is one direction of a connection: how many requests had been queued when bytes of it were lost last, the latest time
    seen, and whether anything of it is missing. A request whose answer may have been lost, or read before it, does not take the
    answer of the next one: who asks again under an opaque has had its answer, so a response is that of the latest request before
    it. Nobody knows whose it is where requests for several vbuckets share the opaque, or where the request may have been lost as
    well.
    """
    told = 1 << 61
    for i in range(len(key)):
        if after_loss[i]:
            flows[flow[i], 0] = counts[QUEUED]
            flows[flow[i], 2] = 1
        flows[flow[i], 1] = max(flows[flow[i], 1], time_ns[i])
        what = meaning[i]
        if what == 0:
            continue
        if what <= 2:
            wanted = key[i] + told if what == 2 else key[i]
            at = _find(wanted, opaque[i], seed, slot_key, slot_opaque)
            if what == 2 and at >= 0:
                entries[slot_first[at], Q_VBUCKET] = vbucket[i]
                continue
            if counts[UNUSED] < 0 and counts[USED] == len(entries):
                oldest = counts[OLDEST]
                old = _find(entries[oldest, Q_KEY], entries[oldest, Q_OPAQUE], seed, slot_key, slot_opaque)
                _pop(old, seed, slot_key, slot_opaque, slot_first, slot_last, entries, counts)
                at = _find(wanted, opaque[i], seed, slot_key, slot_opaque)
            entry = _take(entries, counts)
            entries[entry, Q_KEY] = wanted
            entries[entry, Q_OPAQUE] = opaque[i]
            entries[entry, Q_NEXT] = -1
            entries[entry, Q_ROW] = row[i]
            entries[entry, Q_OFFSET] = stream_offset[i]
            entries[entry, Q_TIME] = time_ns[i]
            entries[entry, Q_VBUCKET] = vbucket[i]
            entries[entry, Q_IS_LATE] = what == 1 and time_ns[i] < flows[flow[i] ^ 1, 1]
            if at >= 0:
                entries[slot_last[at], Q_NEXT] = entry
                slot_last[at] = entry
            else:
                at = -1 - at
                slot_key[at] = wanted
                slot_opaque[at] = opaque[i]
                slot_first[at] = entry
                slot_last[at] = entry
            continue
        at = _find(key[i], opaque[i], seed, slot_key, slot_opaque)
        if at < 0:
            at = _find(key[i] + told, opaque[i], seed, slot_key, slot_opaque)
            if at >= 0:
                out_vbucket[i] = entries[slot_first[at], Q_VBUCKET]
            continue
        entry = slot_first[at]
        if flows[flow[i] ^ 1, 2] and entries[entry, Q_TIME] > time_ns[i]:
            continue  # the request that it answers was lost
        if entries[entry, Q_IS_LATE] or entries[entry, Q_AGE] < flows[flow[i], 0]:
            is_shared = False
            after = entries[entry, Q_NEXT]
            while after != -1 and entries[after, Q_TIME] <= time_ns[i]:
                is_shared = is_shared or entries[after, Q_VBUCKET] != entries[entry, Q_VBUCKET]
                _give_back(entry, entries, counts)
                entry = after
                after = entries[after, Q_NEXT]
            slot_first[at] = entry
            age = entries[entry, Q_AGE]
            if is_shared or (age < flows[flow[i], 0] and age < flows[flow[i] ^ 1, 0]):
                _pop(at, seed, slot_key, slot_opaque, slot_first, slot_last, entries, counts)
                continue
        out_row[i] = entries[entry, Q_ROW]
        out_offset[i] = entries[entry, Q_OFFSET]
        out_time[i] = entries[entry, Q_TIME]
        out_vbucket[i] = entries[entry, Q_VBUCKET]
        if what == 3:
            _pop(at, seed, slot_key, slot_opaque, slot_first, slot_last, entries, counts)
