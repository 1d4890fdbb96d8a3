"""The kernel that compares events with earlier events of their stream: of the same key, and of the
same collection.

Its memory is a table of entries by (stream, key). An entry says what the latest event of a key was,
or what is known of a collection.
"""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.distinct import slot_for
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.kernels.structs import Struct, StructRows, T, Tables, nested, number
from dcpinspect.protocol.flags import DISK, FROM_LATEST, HISTORY, MAY_REPEAT, MEMORY
from dcpinspect.streams import anomalies
from dcpinspect.streams import record_codes as k
from dcpinspect.streams.lookup import clear, fill_anomaly
from dcpinspect.streams.records import (
    LEAST,
    Anomalies,
    Message,
    MessageRow,
    Messages,
    RowCounts,
    Snapshots,
    Stream,
    Streams,
)
from dcpinspect.streams.seqnos import contradicts_range


class KeyEvent(Struct[T]):
    """What an event of a document or collection says besides its message."""

    message: T = number("Number of the message.")
    key: T = number("Hash of collection and key, -1 if part of it is not in the capture.")
    cas: T = number("Its CAS, biased.")
    revision: T = number("Its revision number, biased.")
    collection: T = number(
        "Its collection, -1 if unknown; of an event about a scope, SCOPES and the scope."
    )
    prepared: T = number("Seqno of the prepare that it completes, biased.")
    event: T = number("What a system event tells.")
    uid: T = number("Uid of the manifest, biased.")
    has_uid: T = number("It has one.")
    is_outside: T = number("The request names collections, and not this one.")
    slot: T = number("The kernel writes: the slot that its key wants.")
    entry: T = number("The kernel writes: its entry, or -1 where there may be none yet.")


class KeyEvents(KeyEvent[IntArray], StructRows[KeyEvent]):
    """The events of a batch."""


class KeyRow(Struct[T]):
    """What is known of a key of a stream, of the name of a collection or scope, of a collection
    or scope, or of the stream itself.
    """

    stream: T = number("The stream.")
    key: T = number("A hash; OF_STREAM and below for the stream itself and for collections.")
    row: T = number("Row of the latest event.")
    snapshot: T = number(
        "Snapshot of the latest change; of a collection, what became of it: NEW and those after it."
    )
    seqno: T = number("Seqno of that, biased.")
    cas: T = number("CAS of that, biased; of the stream itself, the uid of its manifest.")
    revision: T = number("Revision number of the change that ``cas`` is of, biased.")
    prepared: T = number(
        "Seqno of the prepare that is pending, biased, LEAST for none; of the stream itself, "
        "of the latest prepare without a key; of a name, the collection or scope that has it."
    )
    at: MessageRow[T] = nested(MessageRow, "The event that ``seqno`` or ``cas`` is of.")


class KeyRows(KeyRow[IntArray], StructRows[KeyRow]):
    """The entries of a reading."""


class KeyFill(Struct[T]):
    """How full the entries are."""

    used: T = number("Entries in use.")
    forgotten: T = number("Row of the latest event that was forgotten, or -1.", reset=-1)
    has_said: T = number("That has been said.")


class KeyTables(Tables):
    """The tables that the kernel works on."""

    events: KeyEvents
    messages: Messages
    streams: Streams
    snapshots: Snapshots
    anomalies: Anomalies
    counts: RowCounts
    entries: KeyRows
    slots: IntArray
    """Number of the entry in each slot, by hash; -1 for none."""
    marks: KeyFill
    seed: int
    """Secret start of hashes: clients choose keys, but must not choose which keys collide."""


OF_STREAM, OF_COLLECTION = -2, -3
NEW, BEGUN, OVER, TOLD = range(-1, 3)

ROOM = 8
"""Number of free entries, and of free rows for anomalies, that is enough for any one event."""

AT_ONCE = 64
"""Number of events whose entries are looked up together."""

BEGIN_COLLECTION, END_COLLECTION, MODIFY_COLLECTION = 0, 1, 5
CREATE_SCOPE, DROP_SCOPE = 3, 4
SCOPES = 1 << 32
"""Scopes have the numbers from here on, where those of collections end."""
FIRST_COLLECTION = 8
"""The first id that is sent besides the default collection's, 0: servers keep those between."""


@kernel_function
def entry_of(tables: KeyTables, stream: int, key: int, row: int) -> int:
    """Returns the number of the entry for a key of a stream; adds the entry if it is new."""
    return int(
        entry_from(tables, slot_for(key, stream, tables.seed, len(tables.slots)), stream, key, row)
    )


@kernel_function
def entry_from(tables: KeyTables, slot: int, stream: int, key: int, row: int) -> int:
    """Returns the number of the entry for a key of a stream, searched from slot ``slot``; adds the
    entry if it is new.
    """
    while tables.slots[slot] >= 0:
        entry = tables.entries[tables.slots[slot]]
        if entry.key == key and entry.stream == stream:
            entry.row = row
            return int(tables.slots[slot])
        slot = (slot + 1) & (len(tables.slots) - 1)
    h = tables.marks.used
    tables.marks.used = h + 1
    tables.slots[slot] = h
    entry = tables.entries[h]
    entry.stream = stream
    entry.key = key
    entry.row = row
    entry.snapshot = NEW
    entry.seqno = LEAST
    entry.cas = LEAST
    entry.revision = LEAST
    entry.prepared = LEAST
    clear(entry.at)
    return int(h)


@kernel_function
def look_up(tables: KeyTables, start: int, end: int) -> None:
    """Looks up the entries of the keys of some events.

    Nearly every slot and entry is far away in memory. Here the processor waits for many of them at
    once; ``follow_keys`` would wait for one after the other.
    """
    for e in range(start, end):
        event = tables.events[e]
        stream = tables.messages[event.message].stream
        event.slot = slot_for(event.key, stream, tables.seed, len(tables.slots))
        event.entry = tables.slots[event.slot]
    for e in range(start, end):
        event = tables.events[e]
        if event.entry >= 0:
            entry = tables.entries[event.entry]
            if entry.key != event.key or entry.stream != tables.messages[event.message].stream:
                event.entry = -1


@kernel("void(KeyTables)")
def refill_entries(tables: KeyTables) -> None:
    """Enters the used entries into empty slots."""
    for h in range(tables.marks.used):
        entry = tables.entries[h]
        slot = slot_for(entry.key, entry.stream, tables.seed, len(tables.slots))
        while tables.slots[slot] >= 0:
            slot = (slot + 1) & (len(tables.slots) - 1)
        tables.slots[slot] = h


@kernel_function
def enter_anomaly(tables: KeyTables, code: int, message: Message, h: int, a: int, b: int) -> None:
    """Writes an anomaly: an event breaks the protocol, or contradicts entry ``h`` if not -1."""
    anomaly = tables.anomalies[tables.counts.anomalies]
    tables.counts.anomalies += 1
    fill_anomaly(anomaly, code, message, a, b)
    anomaly.stream = message.stream
    anomaly.snapshot = message.snapshot
    if h >= 0:
        anomaly.other = tables.entries[h].at


@kernel_function
def remembers_all(tables: KeyTables, stream: Stream) -> bool:
    """Returns whether no event of the stream was forgotten."""
    return bool(tables.marks.forgotten < stream.opened.row)


@kernel_function
def on_collection(tables: KeyTables, message: Message, collection: int, h: int) -> None:
    """Handles an event in a collection whose entry is ``h``; nothing of its stream was lost."""
    entry, stream = tables.entries[h], tables.streams[message.stream]
    if entry.snapshot == OVER and message.seqno > entry.seqno:
        enter_anomaly(tables, anomalies.AFTER_COLLECTION_END, message, h, collection, entry.seqno)
    elif entry.snapshot == NEW:
        request = stream.request
        from_zero = (
            request.is_captured != 0 and request.start == LEAST and request.flags & FROM_LATEST == 0
        )
        # in a snapshot from disk, a later end of the collection, behind this snapshot, may have
        # replaced its beginning
        is_memory = message.snapshot >= 0 and tables.snapshots[message.snapshot].flags & DISK == 0
        if from_zero and is_memory and remembers_all(tables, stream):
            enter_anomaly(tables, anomalies.UNKNOWN_COLLECTION, message, -1, collection, 0)
        entry.snapshot = TOLD


@kernel_function
def on_completion(
    tables: KeyTables, message: Message, event: KeyEvent, h: int, is_certain: bool
) -> None:
    """Handles an event that commits or aborts a prepare of the key of entry ``h``. ``is_certain``:
    nothing of its stream was lost.
    """
    keyless = tables.entries[
        entry_of(tables, message.stream, OF_STREAM, message.place.row)
    ].prepared
    entry, prepared = tables.entries[h], event.prepared
    is_pending = entry.prepared == prepared
    entry.prepared = LEAST  # one of another prepare shows that this one is over, too
    if is_pending or not is_certain or message.snapshot < 0:
        return
    snapshot, stream = tables.snapshots[message.snapshot], tables.streams[message.stream]
    if snapshot.flags & (MEMORY | DISK) != MEMORY:
        return
    # the prepare need not have been shown if the client had it, if it came from disk, or if the
    # capture lacks its key
    request = stream.request
    is_covered = (
        request.is_captured == 0
        or prepared <= request.start
        or prepared <= snapshot.disk_end
        or prepared <= keyless
    )
    if not is_covered and request.flags & FROM_LATEST == 0 and remembers_all(tables, stream):
        # a change since the prepare may be what completed it
        contradicted = h if entry.seqno > prepared else -1
        enter_anomaly(
            tables, anomalies.COMMIT_WITHOUT_PREPARE, message, contradicted, message.seqno, prepared
        )


@kernel_function
def on_prepare(tables: KeyTables, message: Message, h: int, is_certain: bool) -> None:
    """Handles a prepare of the key of entry ``h``: in memory, nothing replaces one that waits.
    ``is_certain``: nothing of its stream was lost.
    """
    entry, n = tables.entries[h], message.snapshot
    if entry.prepared > LEAST and n >= 0 and message.standing & k.IS_SUSPENDED == 0:
        snapshot = tables.snapshots[n]
        is_memory = snapshot.flags & (MEMORY | DISK | HISTORY | MAY_REPEAT) == MEMORY
        is_inside = snapshot.start <= entry.prepared
        # from disk, a commit may come as a mutation, and an abort not at all; a seqno that did not
        # come may be either
        is_pending = (
            is_certain
            and entry.prepared > max(entry.seqno, snapshot.disk_end)
            and entry.prepared >= message.detail
        )
        is_later = entry.prepared < message.seqno <= snapshot.end
        if is_memory and (is_inside or is_pending) and is_later and snapshot.is_merged == 0:
            enter_anomaly(
                tables, anomalies.DUPLICATE_PREPARE, message, -1, entry.prepared, message.seqno
            )
    entry.prepared = message.seqno


@kernel_function
def lower_cas(before: int, revision: int) -> int:
    """Returns the anomaly of a change with a lower CAS than an earlier one of its document, by their
    revision numbers, biased, LEAST for unknown.

    Who writes a document makes both: the next revision and a higher CAS. Only what is written with
    its metadata (SetWithMeta of XDCR and restores) brings another revision, and a CAS of its own;
    but several changes, of which only the last is sent, raise the revision by more than 1, too.
    """
    if LEAST < revision <= before:
        return anomalies.CAS_AND_REVISION
    if revision > before > LEAST and revision - 1 == before:
        return anomalies.CAS_REGRESS
    return anomalies.CAS_OF_LATER


@kernel_function
def on_change(tables: KeyTables, message: Message, event: KeyEvent, h: int) -> None:
    """Handles an event that changes entry ``h``'s document."""
    cas = event.cas  # LEAST if it has none
    entry, seqno, n = tables.entries[h], message.seqno, message.snapshot
    if n >= 0 and contradicts_range(tables.snapshots[n], seqno):
        n = -1  # the fault is the seqno, not that the key comes twice
    is_ordered = message.standing & k.IS_SUSPENDED == 0  # nothing was lost since the marker
    if is_ordered and n >= 0 and entry.snapshot == n and seqno != entry.seqno:
        snapshot = tables.snapshots[n]
        # if seqnos go backwards, the order is the fault
        is_in_order = seqno > entry.seqno or snapshot.layout == k.OSO_LAYOUT
        if is_in_order and snapshot.flags & MAY_REPEAT == 0 and snapshot.is_merged == 0:
            enter_anomaly(tables, anomalies.DUPLICATE_KEY, message, h, entry.seqno, seqno)
    entry.snapshot = n
    if seqno > entry.seqno:
        if is_ordered and LEAST < cas < entry.cas:
            code = lower_cas(entry.revision, event.revision)
            enter_anomaly(tables, code, message, h, entry.cas, cas)
        entry.seqno = seqno
        entry.at = message.place
        if cas > LEAST:
            entry.cas = cas
            entry.revision = event.revision


@kernel_function
def on_name(tables: KeyTables, message: Message, event: KeyEvent, is_certain: bool) -> None:
    """Handles a name that a collection or scope gets. ``is_certain``: nothing of its stream was
    lost.
    """
    entry = tables.entries[entry_of(tables, message.stream, event.key, message.place.row)]
    owner, n = entry.prepared, message.snapshot
    if is_certain and n >= 0 and owner > LEAST and owner != event.collection:
        h = entry_of(tables, message.stream, OF_COLLECTION - owner, message.place.row)
        # a dropped collection leaves nothing on a disk that was compacted
        is_seen = entry.snapshot == n or entry.seqno > tables.snapshots[n].disk_end
        if is_seen and tables.entries[h].snapshot == BEGUN and message.seqno > entry.seqno:
            enter_anomaly(tables, anomalies.NAME_TAKEN, message, h, event.collection, owner)
    entry.prepared = event.collection
    entry.snapshot, entry.seqno = n, message.seqno


@kernel_function
def on_system_event(
    tables: KeyTables, message: Message, event: KeyEvent, in_oso: bool, is_certain: bool
) -> None:
    """Handles a system event: a collection or scope comes or goes."""
    row = message.place.row
    if event.has_uid and not in_oso:
        h = entry_of(tables, message.stream, OF_STREAM, row)
        entry = tables.entries[h]
        if event.uid < entry.cas and message.standing & k.IS_SUSPENDED == 0:
            enter_anomaly(tables, anomalies.MANIFEST_BACKWARDS, message, h, event.uid, entry.cas)
        entry.cas = event.uid
        entry.at = message.place
    event_id = event.event
    is_end = event_id in (END_COLLECTION, DROP_SCOPE)
    is_new = event_id in (BEGIN_COLLECTION, CREATE_SCOPE)
    if event.collection < 0 or not (is_end or is_new or event_id == MODIFY_COLLECTION):
        return
    if 0 < event.collection < FIRST_COLLECTION:
        enter_anomaly(tables, anomalies.RESERVED_COLLECTION, message, -1, event.collection, 0)
    collection_entry = tables.entries[
        entry_of(tables, message.stream, OF_COLLECTION - event.collection, row)
    ]
    if collection_entry.snapshot == NEW or message.seqno > collection_entry.seqno:
        collection_entry.snapshot = OVER if is_end else BEGUN
        collection_entry.seqno = message.seqno
        collection_entry.at = message.place
    if is_new and event.key >= 0:
        on_name(tables, message, event, is_certain)


@kernel_function
def on_document(tables: KeyTables, message: Message, event: KeyEvent, is_certain: bool) -> None:
    """Handles an event of a document."""
    row = message.place.row
    if event.is_outside:
        enter_anomaly(tables, anomalies.OUTSIDE_FILTER, message, -1, event.collection, 0)
    if event.collection >= FIRST_COLLECTION and is_certain:
        on_collection(
            tables,
            message,
            event.collection,
            entry_of(tables, message.stream, OF_COLLECTION - event.collection, row),
        )
    if event.key < 0:
        if message.kind == k.PREPARE:
            entry = tables.entries[entry_of(tables, message.stream, OF_STREAM, row)]
            entry.prepared = max(entry.prepared, message.seqno)
        return
    h = event.entry
    if h < 0:
        h = entry_from(tables, event.slot, message.stream, event.key, row)
    tables.entries[h].row = row
    if message.kind == k.PREPARE:
        on_prepare(tables, message, h, is_certain)
    elif message.kind != k.EVENT:
        on_completion(tables, message, event, h, is_certain)
    if message.kind == k.EVENT or message.kind == k.COMMIT:
        on_change(tables, message, event, h)


@kernel("int64(int64, KeyTables)")
def follow_keys(start: int, tables: KeyTables) -> int:
    """Handles events from number ``start`` on; returns the number of the first one not handled, for
    want of room in a table, or their count.
    """
    looked_up = start
    for e in range(start, len(tables.events)):
        if e == looked_up:
            looked_up = min(e + AT_ONCE, len(tables.events))
            look_up(tables, e, looked_up)
        if (
            len(tables.entries) - tables.marks.used < ROOM
            or len(tables.anomalies) - tables.counts.anomalies < ROOM
        ):
            return e
        event = tables.events[e]
        message = tables.messages[event.message]
        in_oso = message.snapshot >= 0 and tables.snapshots[message.snapshot].layout == k.OSO_LAYOUT
        is_certain = (
            message.standing & k.IS_SUSPENDED == 0
            and not in_oso
            and message.standing & k.IS_WHOLE != 0
        )
        if tables.marks.forgotten >= 0 and tables.marks.has_said == 0:
            tables.marks.has_said = 1
            enter_anomaly(tables, anomalies.KEYS_UNCHECKED, message, -1, len(tables.entries), 0)
        if message.kind == k.SYSTEM_EVENT:
            on_system_event(tables, message, event, in_oso, is_certain)
        else:
            on_document(tables, message, event, is_certain)
    return len(tables.events)
