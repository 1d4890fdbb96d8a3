"""The kernel that holds events against earlier ones of their stream: of the same key, and of the same collection.

Its memory is a table of entries by (stream, key): what the latest event of a key was, what of a collection is known.
"""

from __future__ import annotations

from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.protocol.flags import DISK, FROM_LATEST, MAY_REPEAT, MEMORY
from dcpinspect.streams import state as s
from dcpinspect.streams import words as w
from dcpinspect.streams.lookup import copy_place

V_MESSAGE, V_KEY, V_CAS, V_COLLECTION, V_PREPARED, V_EVENT, V_UID, V_IS_OUTSIDE, V_SLOT, V_ENTRY, VIEW = range(11)
"""What an event has besides its message, whose column is V_MESSAGE. V_KEY: hash of collection and key, -1 where the capture lacks some of
it. V_CAS, V_PREPARED, V_UID: biased; V_UID is the manifest's. V_COLLECTION: -1 where it is not known. V_EVENT: what a system event tells.
V_IS_OUTSIDE: the request names collections, and not this one. V_SLOT, V_ENTRY: the kernel writes them: the slot that its key wants; its
entry, or -1 where there may be none yet."""

H_STREAM, H_KEY, H_ROW, H_SNAPSHOT, H_SEQNO, H_CAS, H_PREPARED, H_AT, _, _, _, ENTRY = range(12)
"""Entries. H_KEY: a hash; OF_STREAM and below for the stream itself and for collections. H_ROW: of the latest event. H_SNAPSHOT: of the
latest change; of a collection, what became of it. H_PREPARED: seqno of the prepare that is pending; LEAST for none. Seqnos, H_CAS biased;
of the stream itself, H_CAS is the uid of its manifest, and H_PREPARED the latest prepare of whose key the capture lacks some. H_AT: place
of the event that H_SEQNO or H_CAS is of."""
OF_STREAM, OF_COLLECTION = -2, -3
NEW, BEGUN, OVER, TOLD = range(-1, 3)

USED, FORGOTTEN, HAS_SAID, MARKS = range(4)
"""Entries in use; row of the latest event that was forgotten, or -1; whether that has been said."""

ROOM = 8
"""Free entries, and free rows for anomalies, that are enough for any one event."""

AT_ONCE = 64
"""Events whose entries are looked for together."""

BEGIN_COLLECTION, END_COLLECTION, MODIFY_COLLECTION = 0, 1, 5
FIRST_COLLECTION = 8
"""Lower ids are the default collection's and the server's own."""


@inline
def slot_of(stream: int, key: int, seed: int, slots: int) -> int:
    """The slot that an entry wants. Products stay below 2^63, so both forms of a kernel agree."""
    mixed = (key & 0x7FFFFFFF) * 0x2545F491 + ((key >> 31) & 0x7FFFFFFF)
    mixed = (mixed ^ (mixed >> 29) ^ seed) & 0x7FFFFFFF
    mixed = mixed * 0x1B873593 + (stream & 0x7FFFFFFF) * 0x4F6CDD1D
    mixed = (mixed ^ (mixed >> 32)) & 0x7FFFFFFF
    mixed = mixed * 0x2C1B3C6D
    return int((mixed ^ (mixed >> 17)) & (slots - 1))


@inline
def entry_of(stream: int, key: int, row: int, seed: int, slots: Ints, entries: Ints, marks: Ints) -> int:
    """The entry of a key of a stream, which is there from now on."""
    return int(entry_from(slot_of(stream, key, seed, len(slots)), stream, key, row, slots, entries, marks))


@inline
def entry_from(at: int, stream: int, key: int, row: int, slots: Ints, entries: Ints, marks: Ints) -> int:
    """The same where the slot that the key wants is known."""
    while slots[at] >= 0:
        h = slots[at]
        if entries[h, H_KEY] == key and entries[h, H_STREAM] == stream:
            entries[h, H_ROW] = row
            return int(h)
        at = (at + 1) & (len(slots) - 1)
    h = marks[USED]
    marks[USED] = h + 1
    slots[at] = h
    entries[h, H_STREAM] = stream
    entries[h, H_KEY] = key
    entries[h, H_ROW] = row
    entries[h, H_SNAPSHOT] = NEW
    for column in (H_SEQNO, H_CAS, H_PREPARED):
        entries[h, column] = s.LEAST
    for part in range(s.PLACE):
        entries[h, H_AT + part] = 0
    return int(h)


@inline
def look_up(start: int, end: int, seed: int, events: Ints, messages: Ints, slots: Ints, entries: Ints) -> None:
    """Looks for the entries of the keys of some events. Nearly every slot and entry is far away in memory: here the processor waits for
    many at once, ``follow_keys`` would wait for one after the other."""
    for e in range(start, end):
        at = slot_of(messages[s.M_STREAM, events[V_MESSAGE, e]], events[V_KEY, e], seed, len(slots))
        events[V_SLOT, e] = at
        events[V_ENTRY, e] = slots[at]
    for e in range(start, end):
        h = events[V_ENTRY, e]
        if h >= 0 and (entries[h, H_KEY] != events[V_KEY, e] or entries[h, H_STREAM] != messages[s.M_STREAM, events[V_MESSAGE, e]]):
            events[V_ENTRY, e] = -1


@kernel("void(int64, int64[::1], int64[:,::1], int64)")
def refill_entries(seed: int, slots: Ints, entries: Ints, count: int) -> None:
    """Enters the first ``count`` entries into empty slots."""
    for h in range(count):
        at = slot_of(entries[h, H_STREAM], entries[h, H_KEY], seed, len(slots))
        while slots[at] >= 0:
            at = (at + 1) & (len(slots) - 1)
        slots[at] = h


@inline
def tell(code: int, i: int, h: int, a: int, b: int, messages: Ints, entries: Ints, anomalies: Ints, counts: Ints) -> None:
    """Something about event ``i`` is not as the protocol has it, or not as entry ``h`` has it, if that is not -1."""
    e = counts[s.N_ANOMALIES]
    counts[s.N_ANOMALIES] = e + 1
    anomalies[e, s.E_CODE] = code
    anomalies[e, s.E_CONNECTION] = messages[s.M_CONNECTION, i]
    anomalies[e, s.E_DIRECTION] = messages[s.M_DIRECTION, i]
    anomalies[e, s.E_STREAM] = messages[s.M_STREAM, i]
    anomalies[e, s.E_A] = a
    anomalies[e, s.E_B] = b
    anomalies[e, s.E_SNAPSHOT] = messages[s.M_SNAPSHOT, i]
    copy_place(messages, i, anomalies, e, s.E_PLACE)
    for part in range(s.PLACE):
        anomalies[e, s.E_OTHER + part] = entries[h, H_AT + part] if h >= 0 else 0


@inline
def remembers_all(st: int, streams: Ints, marks: Ints) -> bool:
    """Whether no event of stream ``st`` was forgotten."""
    return bool(marks[FORGOTTEN] < streams[st, s.S_OPENED + s.AT_ROW])


@inline
def on_collection(
    h: int,
    i: int,
    collection: int,
    messages: Ints,
    entries: Ints,
    marks: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    counts: Ints,
) -> None:
    """Event ``i`` is of a collection, whose entry is ``h``; nothing of its stream was lost."""
    st, n = messages[s.M_STREAM, i], messages[s.M_SNAPSHOT, i]
    if entries[h, H_SNAPSHOT] == OVER and messages[s.M_SEQNO, i] > entries[h, H_SEQNO]:
        tell(w.AFTER_COLLECTION_END, i, h, collection, entries[h, H_SEQNO], messages, entries, anomalies, counts)
    elif entries[h, H_SNAPSHOT] == NEW:
        from_zero = streams[st, s.S_FORM] > 0 and streams[st, s.S_START] == s.LEAST and streams[st, s.S_FLAGS] & FROM_LATEST == 0
        # on disk a later end, behind this snapshot, may have taken the place of the beginning
        is_memory = n >= 0 and snapshots[n, s.N_FLAGS] & DISK == 0
        if from_zero and is_memory and remembers_all(st, streams, marks):
            tell(w.UNKNOWN_COLLECTION, i, -1, collection, 0, messages, entries, anomalies, counts)
        entries[h, H_SNAPSHOT] = TOLD


@inline
def on_completion(
    h: int,
    i: int,
    prepared: int,
    keyless: int,
    is_certain: int,
    messages: Ints,
    entries: Ints,
    marks: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    counts: Ints,
) -> None:
    """Event ``i`` commits or aborts the prepare of a seqno, of the key of entry ``h``. ``keyless``: the latest prepare whose key is
    not known. ``is_certain``: nothing of its stream was lost."""
    if entries[h, H_PREPARED] == prepared:
        entries[h, H_PREPARED] = s.LEAST
        return
    st, n = messages[s.M_STREAM, i], messages[s.M_SNAPSHOT, i]
    if not is_certain or n < 0 or snapshots[n, s.N_FLAGS] & (MEMORY | DISK) != MEMORY:
        return
    # what the client had before, and what came from disk, need not have shown the prepare
    is_covered = (
        streams[st, s.S_FORM] == 0 or prepared <= streams[st, s.S_START] or prepared <= snapshots[n, s.N_DISK_END] or prepared <= keyless
    )
    if not is_covered and streams[st, s.S_FLAGS] & FROM_LATEST == 0 and remembers_all(st, streams, marks):
        tell(w.COMMIT_WITHOUT_PREPARE, i, -1, messages[s.M_SEQNO, i], prepared, messages, entries, anomalies, counts)


@inline
def on_change(
    h: int, i: int, cas: int, is_ordered: int, messages: Ints, entries: Ints, snapshots: Ints, anomalies: Ints, counts: Ints
) -> None:
    """Event ``i`` changes the document of entry ``h``; ``cas`` is LEAST where it tells none. ``is_ordered``: nothing was lost since the
    marker."""
    n, seqno = messages[s.M_SNAPSHOT, i], messages[s.M_SEQNO, i]
    known = entries[h, H_SEQNO]
    is_again = is_ordered and n >= 0 and entries[h, H_SNAPSHOT] == n and seqno != known
    if is_again and seqno < known and snapshots[n, s.N_LAYOUT] != s.OSO_LAYOUT:
        is_again = False  # the order is the fault
    if is_again and snapshots[n, s.N_FLAGS] & MAY_REPEAT == 0 and snapshots[n, s.N_IS_MERGED] == 0:
        tell(w.DUPLICATE_KEY, i, h, known, seqno, messages, entries, anomalies, counts)
    entries[h, H_SNAPSHOT] = n
    if seqno > known:
        if is_ordered and s.LEAST < cas < entries[h, H_CAS]:
            tell(w.CAS_REGRESS, i, h, entries[h, H_CAS], cas, messages, entries, anomalies, counts)
        entries[h, H_SEQNO] = seqno
        copy_place(messages, i, entries, h, H_AT)
        if cas > s.LEAST:
            entries[h, H_CAS] = cas


@inline
def on_system_event(
    e: int,
    i: int,
    seed: int,
    in_oso: int,
    events: Ints,
    messages: Ints,
    slots: Ints,
    entries: Ints,
    marks: Ints,
    anomalies: Ints,
    counts: Ints,
) -> None:
    """A collection or scope comes or goes."""
    st, row, seqno = messages[s.M_STREAM, i], messages[s.M_PLACE + s.AT_ROW, i], messages[s.M_SEQNO, i]
    uid = events[V_UID, e]
    if uid > s.LEAST and not in_oso:
        h = entry_of(st, OF_STREAM, row, seed, slots, entries, marks)
        if uid < entries[h, H_CAS] and messages[s.M_STANDING, i] & s.IS_SUSPENDED == 0:
            tell(w.MANIFEST_BACKWARDS, i, h, uid, entries[h, H_CAS], messages, entries, anomalies, counts)
        entries[h, H_CAS] = uid
        copy_place(messages, i, entries, h, H_AT)
    collection, event = events[V_COLLECTION, e], events[V_EVENT, e]
    if collection < 0 or (event != BEGIN_COLLECTION and event != END_COLLECTION and event != MODIFY_COLLECTION):
        return
    h = entry_of(st, OF_COLLECTION - collection, row, seed, slots, entries, marks)
    if entries[h, H_SNAPSHOT] == NEW or seqno > entries[h, H_SEQNO]:
        entries[h, H_SNAPSHOT] = OVER if event == END_COLLECTION else BEGUN
        entries[h, H_SEQNO] = seqno
        copy_place(messages, i, entries, h, H_AT)


@kernel(
    "int64(int64, int64, int64[:,::1], int64[:,::1], int64[::1], int64[:,::1], int64[::1], int64[:,::1], int64[:,::1], int64[:,::1],"
    " int64[::1])"
)
def follow_keys(
    start: int,
    seed: int,
    events: Ints,
    messages: Ints,
    slots: Ints,
    entries: Ints,
    marks: Ints,
    streams: Ints,
    snapshots: Ints,
    anomalies: Ints,
    counts: Ints,
) -> int:
    """Handles events from column ``start`` on; returns the one it stopped before for want of room in a table, or their number."""
    looked_up = start
    for e in range(start, events.shape[1]):
        if e == looked_up:
            looked_up = min(e + AT_ONCE, events.shape[1])
            look_up(e, looked_up, seed, events, messages, slots, entries)
        if len(entries) - marks[USED] < ROOM or len(anomalies) - counts[s.N_ANOMALIES] < ROOM:
            return e
        i = events[V_MESSAGE, e]
        kind, st, n = messages[s.M_KIND, i], messages[s.M_STREAM, i], messages[s.M_SNAPSHOT, i]
        row, standing = messages[s.M_PLACE + s.AT_ROW, i], messages[s.M_STANDING, i]
        in_oso = n >= 0 and snapshots[n, s.N_LAYOUT] == s.OSO_LAYOUT
        is_ordered = standing & s.IS_SUSPENDED == 0
        is_certain = is_ordered and not in_oso and standing & s.IS_WHOLE != 0
        if marks[FORGOTTEN] >= 0 and marks[HAS_SAID] == 0:
            marks[HAS_SAID] = 1
            tell(w.KEYS_UNCHECKED, i, -1, len(entries), 0, messages, entries, anomalies, counts)
        if kind == s.SYSTEM_EVENT:
            on_system_event(e, i, seed, in_oso, events, messages, slots, entries, marks, anomalies, counts)
            continue
        collection = events[V_COLLECTION, e]
        if events[V_IS_OUTSIDE, e]:
            tell(w.OUTSIDE_FILTER, i, -1, collection, 0, messages, entries, anomalies, counts)
        if collection >= FIRST_COLLECTION and is_certain:
            h = entry_of(st, OF_COLLECTION - collection, row, seed, slots, entries, marks)
            on_collection(h, i, collection, messages, entries, marks, streams, snapshots, anomalies, counts)
        if events[V_KEY, e] < 0:
            if kind == s.PREPARE:
                h = entry_of(st, OF_STREAM, row, seed, slots, entries, marks)
                entries[h, H_PREPARED] = max(entries[h, H_PREPARED], messages[s.M_SEQNO, i])
            continue
        h = events[V_ENTRY, e]
        if h < 0:
            h = entry_from(events[V_SLOT, e], st, events[V_KEY, e], row, slots, entries, marks)
        entries[h, H_ROW] = row
        if kind == s.PREPARE:
            entries[h, H_PREPARED] = messages[s.M_SEQNO, i]
        elif kind != s.EVENT:
            of = entry_of(st, OF_STREAM, row, seed, slots, entries, marks)
            prepares = events[V_PREPARED, e], entries[of, H_PREPARED]
            on_completion(h, i, prepares[0], prepares[1], is_certain, messages, entries, marks, streams, snapshots, anomalies, counts)
        if kind == s.EVENT or kind == s.COMMIT:
            on_change(h, i, events[V_CAS, e], is_ordered, messages, entries, snapshots, anomalies, counts)
    return int(events.shape[1])
