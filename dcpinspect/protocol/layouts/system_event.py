"""DCP system event (0x5f): collections and scopes come and go.

The value's form follows from event and version. The order is manifest uid, then scope, then
collection. The published example prints the two ids the other way round and contradicts its own
struct.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.protocol.fields import Slot
from dcpinspect.protocol.flags import SYSTEM_EVENTS
from dcpinspect.protocol.layout_text import layouts

_IDS = (
    Slot(0, "manifest_uid", "u64", "last completely processed manifest"),
    Slot(1, "scope_id", "u32", "scope"),
)
_COLLECTION_TABLE = (
    *_IDS,
    Slot(2, "collection_id", "u32", "collection"),
    Slot(3, "ttl_valid", "bool", "max_ttl means something"),
    Slot(4, "max_ttl", "u32", "maximum TTL of documents, seconds"),
    Slot(5, "collection_name", "string", "name"),
    Slot(6, "history", "bool", "history is kept (7.2)"),
    Slot(7, "default_collection_mvs", "u64", "max visible seqno of the default collection (7.2.4)"),
    Slot(8, "metered", "bool", "use is metered (7.6)"),
    Slot(9, "flush_uid", "u64", "manifest that flushed it (8.0)"),
)
_DROPPED_COLLECTION_TABLE = (
    *_IDS,
    Slot(2, "collection_id", "u32", "collection"),
    Slot(3, "system_collection", "bool", "it was a system collection"),
)
_SCOPE_TABLE = (
    *_IDS,
    Slot(2, "scope_name", "string", "name"),
)
_DROPPED_SCOPE_TABLE = (
    *_IDS,
    Slot(2, "system_scope", "bool", "it was a system scope"),
)


def _swapped(numbers: Mapping[str, int]) -> tuple[str, str] | None:
    if numbers.get("scope_id", 0) >= 8 and numbers.get("collection_id", 8) == 0:
        return "scope_id", "scope and collection id look swapped: the scope comes first"
    return None


_NAMED = {
    "events": {"values": SYSTEM_EVENTS},
    "collection": {"slots": _COLLECTION_TABLE},
    "dropped-collection": {"slots": _DROPPED_COLLECTION_TABLE},
    "scope": {"slots": _SCOPE_TABLE},
    "dropped-scope": {"slots": _DROPPED_SCOPE_TABLE},
    "swapped": _swapped,
}

# A FlatBuffer has no file identifier: the event decides which table it is.
LAYOUTS = layouts(
    """
    event
        extras by_seqno seqno (by_seqno): the seqno of this event
        extras event u32 words &events: what happened
        check: swapped
    version
        use: event
        extras version u8: how the value is encoded: 0, 1 (with a maximum TTL), 2 (FlatBuffer)
    named
        use: version
        key text: name of the collection or scope
    scope-ids
        value manifest_uid u64: last completely processed manifest
        value scope_id id: scope
    ids
        use: scope-ids
        value collection_id id: collection
    DCP_SYSTEM_EVENT request v0
        use: named
        use: ids
        when: 8 4 0, 12 1 0
    DCP_SYSTEM_EVENT request
        use: named
        use: ids
        value max_ttl u32 (max TTL): maximum TTL of documents, seconds
        when: 8 4 0, 12 1 1
    DCP_SYSTEM_EVENT request v2
        use: named
        value flatbuffer &collection: FlatBuffer table Collection
        when: 8 4 0, 12 1 2
    DCP_SYSTEM_EVENT request v0
        use: version
        use: ids
        when: 8 4 1, 12 1 0
    DCP_SYSTEM_EVENT request v2
        use: version
        value flatbuffer &dropped-collection: FlatBuffer table DroppedCollection
        when: 8 4 1, 12 1 2
    DCP_SYSTEM_EVENT request v0
        use: named
        use: scope-ids
        when: 8 4 3, 12 1 0
    DCP_SYSTEM_EVENT request v2
        use: named
        value flatbuffer &scope: FlatBuffer table Scope
        when: 8 4 3, 12 1 2
    DCP_SYSTEM_EVENT request v0
        use: version
        use: scope-ids
        when: 8 4 4, 12 1 0
    DCP_SYSTEM_EVENT request v2
        use: version
        value flatbuffer &dropped-scope: FlatBuffer table DroppedScope
        when: 8 4 4, 12 1 2
    DCP_SYSTEM_EVENT request v2
        use: named
        value flatbuffer &collection: FlatBuffer table Collection
        when: 8 4 5, 12 1 2
    DCP_SYSTEM_EVENT request v0 legacy
        use: version
        value manifest_uid u64: last completely processed manifest
        value collection_id id: collection
        note: a layout of a client library; servers never send it
        when: 8 4 2, 12 1 0
    DCP_SYSTEM_EVENT request v0 legacy
        use: named
        value manifest_uid u64: last completely processed manifest
        value collection_id id: collection
        value max_ttl u32 (max TTL): maximum TTL of documents, seconds
        note: a layout of a client library; servers never send it
        when: 8 4 5, 12 1 0
    DCP_SYSTEM_EVENT request unknown
        use: version
        key? text: name of the collection or scope
        value? bytes: by event and version
        note: an unknown event or version
    DCP_SYSTEM_EVENT request 5.0-collections legacy
        use: event
        key? text: name of the collection or scope
        value? bytes: by event and version
        note: prototype of 5.0 to 6.0, without a version
    DCP_SYSTEM_EVENT response
    """,
    "dcp/documentation/commands/system_event.md",
    _NAMED,
)
