"""The kernel that pairs responses with requests: a hash table of queues of waiting requests."""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.distinct import slot_for
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.kernels.structs import Struct, StructRows, T, Tables, number

IGNORE, ASKS, TELLS, ANSWERS, CONTINUES = range(5)
"""What a message means to this kernel: nothing, a request, a request without a success answer, a
response, one of several responses.
"""

NO_SUCCESS = 1 << 61
"""This number is added to the keys of requests without a success answer."""
FREE = 0
"""The key of a free slot. Others contain their connection, which is at least 1: not 0."""


class Slot(Struct[T]):
    """A queue of requests, or room for one."""

    key: T = number(
        "Connection, direction, table and opcode of its requests as one number; FREE for none."
    )
    opaque: T = number("Their opaque.")
    first: T = number("The first of them.", of="waiting")
    last: T = number("The last of them.", of="waiting")


class Slots(Slot[IntArray], StructRows[Slot]):
    """The slots: a hash table with open addressing."""


class WaitingRequest(Struct[T]):
    """A request that waits for its answer."""

    key: T = number("As in ``Slot``.")
    opaque: T = number("Its opaque.")
    next: T = number("The next one of the same queue, or of the free rows.", of="waiting")
    row: T = number("Its row.")
    offset: T = number("Stream offset of its first byte.")
    time: T = number("Its time.")
    vbucket: T = number("Its vbucket; of requests without a success answer, that of the newest.")
    is_late: T = number("Later messages of the other side had been read before it.")
    age: T = number("Requests that had been queued before it.")
    older: T = number("The one before it in that order.", of="waiting")
    newer: T = number("The one behind it.", of="waiting")


class WaitingRequests(WaitingRequest[IntArray], StructRows[WaitingRequest]):
    """The requests that wait for an answer."""


class WaitingCounts(Struct[T]):
    """How full the table of requests is, and where its oldest and newest requests are."""

    queued: T = number("Requests that were ever queued.")
    used: T = number("Rows that were ever used.")
    unused: T = number("First of the rows that are free again.", reset=-1, of="waiting")
    oldest: T = number("The oldest request.", reset=-1, of="waiting")
    newest: T = number("The newest one.", reset=-1, of="waiting")


class PairTables(Tables):
    """The tables that the kernel works on. Columns of a batch are used as they are: a table of them
    would be a copy.
    """

    key: IntArray
    """Key of each message's request, as in ``Slot``."""
    flow: IntArray
    """Number of each message's direction."""
    after_loss: IntArray
    """Whether bytes before the message could not be read."""
    opaque: IntArray
    meaning: IntArray
    """What each message means: IGNORE and those after it."""
    row: IntArray
    offset: IntArray
    time: IntArray
    vbucket: IntArray
    request_row: IntArray
    """Row of the request that each message answers, -1 for none. The kernel writes this column and
    the next three.
    """
    request_offset: IntArray
    request_time: IntArray
    request_vbucket: IntArray
    slots: Slots
    waiting: WaitingRequests
    times: IntArray
    """The latest time of each direction; those of connection n are at 2 n and 2 n + 1."""
    lost: IntArray
    """By direction: one more than the requests queued when bytes of it were last lost; 0 if nothing
    is missing.

    In a flood there are millions of connections without a loss; memory that was never written takes
    no room.
    """
    counts: WaitingCounts
    seed: int
    """Secret start of hashes: peers choose opaques, but must not choose which ones collide."""


@kernel_function
def find(tables: PairTables, key: int, opaque: int) -> int:
    """Returns the slot of a key, or -1 - (the free slot where the key belongs)."""
    mask = len(tables.slots) - 1
    slot_index = slot_for(key, opaque, tables.seed, mask + 1)
    while tables.slots[slot_index].key != FREE:
        if tables.slots[slot_index].key == key and tables.slots[slot_index].opaque == opaque:
            return slot_index
        slot_index = (slot_index + 1) & mask
    return -1 - slot_index


@kernel_function
def remove(tables: PairTables, slot_index: int) -> None:
    """Frees a slot and closes the gap behind it, so that later keys are still found."""
    mask = len(tables.slots) - 1
    hole = slot_index
    probe = (slot_index + 1) & mask
    while tables.slots[probe].key != FREE:
        slot = tables.slots[probe]
        home_index = slot_for(slot.key, slot.opaque, tables.seed, mask + 1)
        if ((probe - home_index) & mask) >= ((probe - hole) & mask):
            put = tables.slots[hole]
            put.key = slot.key
            put.opaque = slot.opaque
            put.first = slot.first
            put.last = slot.last
            hole = probe
        probe = (probe + 1) & mask
    tables.slots[hole].key = FREE


@kernel_function
def new_row(tables: PairTables) -> int:
    """Returns a free row, which becomes the newest. There must be one."""
    counts, w = tables.counts, tables.counts.unused
    if w >= 0:
        counts.unused = tables.waiting[w].next
    else:
        w = counts.used
        counts.used = w + 1
    before = counts.newest
    tables.waiting[w].older = before
    tables.waiting[w].newer = -1
    if before >= 0:
        tables.waiting[before].newer = w
    else:
        counts.oldest = w
    counts.newest = w
    tables.waiting[w].age = counts.queued
    counts.queued += 1
    return int(w)


@kernel_function
def give_back(tables: PairTables, w: int) -> None:
    """Frees a row of waiting requests."""
    counts, older, newer = tables.counts, tables.waiting[w].older, tables.waiting[w].newer
    if older >= 0:
        tables.waiting[older].newer = newer
    else:
        counts.oldest = newer
    if newer >= 0:
        tables.waiting[newer].older = older
    else:
        counts.newest = older
    tables.waiting[w].next = counts.unused
    counts.unused = w


@kernel_function
def pop(tables: PairTables, slot_index: int) -> None:
    """Takes the first request off the queue of a slot."""
    w = tables.slots[slot_index].first
    after = tables.waiting[w].next
    if after == -1:
        remove(tables, slot_index)
    else:
        tables.slots[slot_index].first = after
    give_back(tables, w)


@kernel_function
def on_request(tables: PairTables, i: int) -> None:
    """Queues message ``i``, which waits for an answer or an error."""
    is_quiet = tables.meaning[i] == TELLS
    key, opaque = tables.key[i] + NO_SUCCESS if is_quiet else tables.key[i], tables.opaque[i]
    slot_index = find(tables, key, opaque)
    if is_quiet and slot_index >= 0:
        tables.waiting[tables.slots[slot_index].first].vbucket = tables.vbucket[i]
        return
    if tables.counts.unused < 0 and tables.counts.used == len(tables.waiting):
        # the oldest request makes room; it is the first of its queue, as both are in order of
        # arrival
        oldest = tables.waiting[tables.counts.oldest]
        pop(tables, find(tables, oldest.key, oldest.opaque))
        slot_index = find(tables, key, opaque)
    w = new_row(tables)
    request = tables.waiting[w]
    request.key = key
    request.opaque = opaque
    request.next = -1
    request.row = tables.row[i]
    request.offset = tables.offset[i]
    request.time = tables.time[i]
    request.vbucket = tables.vbucket[i]
    request.is_late = 1 if not is_quiet and tables.time[i] < tables.times[tables.flow[i] ^ 1] else 0
    if slot_index >= 0:
        tables.waiting[tables.slots[slot_index].last].next = w
        tables.slots[slot_index].last = w
    else:
        slot = tables.slots[-1 - slot_index]
        slot.key = key
        slot.opaque = opaque
        slot.first = w
        slot.last = w


@kernel_function
def is_for_first(tables: PairTables, i: int, slot: Slot) -> bool:
    """Returns whether message ``i`` answers the first request of a queue; takes requests off the
    queue that have had their answers.

    A request whose answer may have been lost, or read before it, does not take the answer of the
    next one. A client that asks again under an opaque has had its answer, so a response belongs to
    the latest request before it. Nobody knows whose it is if requests for several vbuckets share
    the opaque, or if the request may have been lost as well.
    """
    w = slot.first
    lost, other_lost = tables.lost[tables.flow[i]], tables.lost[tables.flow[i] ^ 1]
    if tables.waiting[w].is_late == 0 and tables.waiting[w].age + 1 >= lost:
        return True
    is_shared = False
    after = tables.waiting[w].next
    while after != -1 and tables.waiting[after].time <= tables.time[i]:
        is_shared = is_shared or tables.waiting[after].vbucket != tables.waiting[w].vbucket
        give_back(tables, w)
        w = after
        after = tables.waiting[after].next
    slot.first = w
    age = tables.waiting[w].age
    return not (is_shared or age + 1 < min(lost, other_lost))


@kernel_function
def on_response(tables: PairTables, i: int) -> None:
    """Pairs message ``i``, a response, with its request."""
    key, opaque = tables.key[i], tables.opaque[i]
    slot_index = find(tables, key, opaque)
    if slot_index < 0:
        slot_index = find(tables, key + NO_SUCCESS, opaque)
        if slot_index >= 0:
            tables.request_vbucket[i] = tables.waiting[tables.slots[slot_index].first].vbucket
        return
    slot = tables.slots[slot_index]
    lost, first = tables.lost[tables.flow[i]], tables.waiting[slot.first]
    # the request that it answers was lost, or another response was taken for its answer
    is_in_doubt = tables.lost[tables.flow[i] ^ 1] > 0 or first.age + 1 < lost or first.is_late > 0
    if is_in_doubt and first.time > tables.time[i]:
        return
    is_its = is_for_first(tables, i, slot)
    if is_its:
        request = tables.waiting[slot.first]
        tables.request_row[i] = request.row
        tables.request_offset[i] = request.offset
        tables.request_time[i] = request.time
        tables.request_vbucket[i] = request.vbucket
    if not is_its or tables.meaning[i] == ANSWERS:
        pop(tables, slot_index)


@kernel("void(PairTables)")
def pair_requests(tables: PairTables) -> None:
    """Queues requests and pops them for their responses, in constant time for each message.

    Once all rows of ``waiting`` are in use, the oldest request makes room.
    """
    for i in range(len(tables.key)):
        flow = tables.flow[i]
        if tables.after_loss[i]:
            tables.lost[flow] = 1 + tables.counts.queued
        tables.times[flow] = max(tables.times[flow], tables.time[i])
        meaning = tables.meaning[i]
        if meaning in (ASKS, TELLS):
            on_request(tables, i)
        elif meaning != IGNORE:
            on_response(tables, i)
