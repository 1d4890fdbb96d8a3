"""Collections: manifest (0xb9, 0xba) and ids by name (0xbb, 0xbc)."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "Collections.md"

_MANIFEST = (
    Field(
        "value",
        0,
        FieldKind.JSON,
        "collections manifest; ids in it are hexadecimal without 0x",
        "Value",
    ),
)
_UID = Field(
    "manifest_uid", 0, FieldKind.U64, "manifest that the id was looked up in", "manifest uid"
)


def _by_name(opcode: Opcode, key_text: str, result: Field) -> tuple[Layout, ...]:
    # The name is in the key up to 6.6, in either since.
    name = Field("key", 0, FieldKind.TEXT, key_text, "Key")
    value = (Field("value", 0, FieldKind.TEXT, key_text, "Value"),)
    return (
        Layout(
            opcode,
            "request",
            "v1",
            _SPEC,
            key=name,
            key_required=False,
            value=value,
            value_required=False,
            columns=False,
        ),
        Layout(opcode, "response", "v1", _SPEC, extras=(_UID, result), columns=False),
    )


LAYOUTS = (
    Layout(Opcode.COLLECTIONS_SET_MANIFEST, "request", "v1", _SPEC, value=_MANIFEST, columns=False),
    Layout(Opcode.COLLECTIONS_SET_MANIFEST, "response", "v1", _SPEC, columns=False),
    Layout(Opcode.COLLECTIONS_GET_MANIFEST, "request", "v1", _SPEC, columns=False),
    Layout(
        Opcode.COLLECTIONS_GET_MANIFEST, "response", "v1", _SPEC, value=_MANIFEST, columns=False
    ),
    *_by_name(
        Opcode.COLLECTIONS_GET_ID,
        "scope.collection",
        Field("collection_id", 8, FieldKind.ID, "its id", "collection id"),
    ),
    *_by_name(
        Opcode.COLLECTIONS_GET_SCOPE_ID,
        "scope",
        Field("scope_id", 8, FieldKind.ID, "its id", "scope id"),
    ),
)
