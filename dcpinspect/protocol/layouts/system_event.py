"""DCP system event (0x5f): collections and scopes come and go.

The value's form follows from event and version. The order is manifest uid, then scope, then
collection. The published example prints the two ids the other way round and contradicts its own
struct.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.protocol.fields import Field, FieldKind, Layout, LayoutItem, Slot
from dcpinspect.protocol.flags import SYSTEM_EVENTS
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/system_event.md"

_EXTRAS = (
    Field("by_seqno", 0, FieldKind.SEQNO, "the seqno of this event", "by_seqno"),
    Field("event", 8, FieldKind.U32, "what happened", "event", values=SYSTEM_EVENTS, words=True),
)
_VERSION = Field(
    "version",
    12,
    FieldKind.U8,
    "how the value is encoded: 0, 1 (with a maximum TTL), 2 (FlatBuffer)",
    "version",
)

_UID = Field("manifest_uid", 0, FieldKind.U64, "last completely processed manifest", "manifest uid")
_SCOPE = Field("scope_id", 8, FieldKind.ID, "scope", "scope id")
_COLLECTION = Field("collection_id", 12, FieldKind.ID, "collection", "collection id")
_TTL = Field("max_ttl", 16, FieldKind.U32, "maximum TTL of documents, seconds", "max TTL")

_NAME = Field("key", 0, FieldKind.TEXT, "name of the collection or scope", "Key")

_COLLECTION_TABLE = (
    Slot(0, "manifest_uid", "u64", "last completely processed manifest"),
    Slot(1, "scope_id", "u32", "scope"),
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
    Slot(0, "manifest_uid", "u64", "last completely processed manifest"),
    Slot(1, "scope_id", "u32", "scope"),
    Slot(2, "collection_id", "u32", "collection"),
    Slot(3, "system_collection", "bool", "it was a system collection"),
)
_SCOPE_TABLE = (
    Slot(0, "manifest_uid", "u64", "last completely processed manifest"),
    Slot(1, "scope_id", "u32", "scope"),
    Slot(2, "scope_name", "string", "name"),
)
_DROPPED_SCOPE_TABLE = (
    Slot(0, "manifest_uid", "u64", "last completely processed manifest"),
    Slot(1, "scope_id", "u32", "scope"),
    Slot(2, "system_scope", "bool", "it was a system scope"),
)


def _table(name: str, slots: tuple[Slot, ...]) -> tuple[LayoutItem, ...]:
    return (
        Field("value", 0, FieldKind.FLATBUFFER, f"FlatBuffer table {name}", "Value", slots=slots),
    )


# (event, version) -> how the value is built. A FlatBuffer has no file identifier: the event decides
# which table it is.
_VALUES: dict[tuple[int, int], tuple[LayoutItem, ...]] = {
    (0, 0): (_UID, _SCOPE, _COLLECTION),
    (0, 1): (_UID, _SCOPE, _COLLECTION, _TTL),
    (0, 2): _table("Collection", _COLLECTION_TABLE),
    (1, 0): (_UID, _SCOPE, _COLLECTION),
    (1, 2): _table("DroppedCollection", _DROPPED_COLLECTION_TABLE),
    (3, 0): (_UID, _SCOPE),
    (3, 2): _table("Scope", _SCOPE_TABLE),
    (4, 0): (_UID, _SCOPE),
    (4, 2): _table("DroppedScope", _DROPPED_SCOPE_TABLE),
    (5, 2): _table("Collection", _COLLECTION_TABLE),
    (2, 0): (_UID, Field("collection_id", 8, FieldKind.ID, "collection", "collection id")),
    (5, 0): (
        _UID,
        Field("collection_id", 8, FieldKind.ID, "collection", "collection id"),
        Field("max_ttl", 12, FieldKind.U32, "maximum TTL of documents, seconds", "max TTL"),
    ),
}

_CLIENT_ONLY = frozenset({(2, 0), (5, 0)})
"""Events that servers do not send; a client library has a layout for them."""

_RAW = (Field("value", 0, FieldKind.BYTES, "by event and version", "Value"),)


def _swapped(numbers: Mapping[str, int]) -> tuple[str, str] | None:
    if numbers.get("scope_id", 0) >= 8 and numbers.get("collection_id", 8) == 0:
        return "scope_id", "scope and collection id look swapped: the scope comes first"
    return None


LAYOUTS = (
    *(
        Layout(
            Opcode.DCP_SYSTEM_EVENT,
            "request",
            f"v{version}",
            _SPEC,
            extras=(*_EXTRAS, _VERSION),
            key=_NAME if event in (0, 3, 5) else None,
            value=value,
            when=((8, 4, event), (12, 1, version)),
            check=_swapped,
            legacy=(event, version) in _CLIENT_ONLY,
            note="a layout of a client library; servers never send it"
            if (event, version) in _CLIENT_ONLY
            else "",
        )
        for (event, version), value in _VALUES.items()
    ),
    Layout(
        Opcode.DCP_SYSTEM_EVENT,
        "request",
        "unknown",
        _SPEC,
        extras=(*_EXTRAS, _VERSION),
        key=_NAME,
        key_required=False,
        value=_RAW,
        value_required=False,
        note="an unknown event or version",
    ),
    Layout(
        Opcode.DCP_SYSTEM_EVENT,
        "request",
        "5.0-collections",
        _SPEC,
        extras=_EXTRAS,
        key=_NAME,
        key_required=False,
        value=_RAW,
        value_required=False,
        legacy=True,
        note="prototype of 5.0 to 6.0, without a version",
    ),
    Layout(Opcode.DCP_SYSTEM_EVENT, "response", "v1", _SPEC),
)
