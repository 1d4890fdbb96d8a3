"""Events as records: what each changes, and where it is; and how two changes compare."""

from __future__ import annotations

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.structs import Struct, StructRows, T, nested, number
from dcpinspect.streams.records import MessageRow

TOLD_OF_KEY = 32
"""Bytes of a key that are kept to be shown."""


class KeyStart(Struct[T]):
    """The first bytes of a key, eight in each."""

    first: T = number("The first eight, 0 after the key's end.")
    second: T = number("The next.")
    third: T = number("The next.")
    fourth: T = number("The last that are kept.")


class ChangeEvent(Struct[T]):
    """A change that a message tells, and where it is."""

    place: MessageRow[T] = nested(MessageRow, "The message.")
    connection: T = number("Its connection.")
    vbucket: T = number("Its vbucket.")
    sid: T = number("Its stream-id, -1 for none.")
    seqno: T = number("Its seqno, biased.")
    opcode: T = number("Its opcode.")
    collection: T = number("Its collection, -1 if unknown.")
    ended: T = number("The collection that it ends, or -1.")
    key: T = number("Hash of its key, -1 where part of it is not in the capture.")
    cas: T = number("Its CAS.")
    datatype: T = number("Its datatype.")
    value: T = number(
        "Hash of its value, -1 where part of the message is not in the capture, or it is not "
        "needed."
    )
    key_size: T = number("Bytes of its key.")
    key_start: KeyStart[T] = nested(KeyStart, "The first of them.")


class Events(ChangeEvent[IntArray], StructRows[ChangeEvent]):
    """The events of a batch, or of a stream."""


class Change(Struct[T]):
    """The parts of an event by which it is compared with others; the fields are as in ``Event``."""

    row: T = number("Row of the message.")
    seqno: T = number("Its seqno, biased.")
    opcode: T = number("Its opcode.")
    collection: T = number("Its collection, -1 if unknown.")
    key: T = number("Hash of its key, -1 where part of it is not in the capture.")
    cas: T = number("Its CAS.")
    datatype: T = number("Its datatype.")
    value: T = number("Hash of its value, or -1.")


class Changes(Change[IntArray], StructRows[Change]):
    """The changes of a stream."""


def changes_of(events: Events) -> Changes:
    """Returns the changes of events, to compare them with other changes."""
    changes = Changes.zeros(len(events))
    changes.row = events.place.row
    changes.seqno = events.seqno
    changes.opcode = events.opcode
    changes.collection = events.collection
    changes.key = events.key
    changes.cas = events.cas
    changes.datatype = events.datatype
    changes.value = events.value
    return changes


def key_text(event: ChangeEvent) -> str:
    """Returns the key of an event as text, cut short if it is long."""
    key_bytes = KeyStart.as_bytes(event.key_start)[: event.key_size]
    return key_bytes.decode(errors="backslashreplace") + (
        "…" if event.key_size > TOLD_OF_KEY else ""
    )
