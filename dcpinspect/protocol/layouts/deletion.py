"""DCP deletion (0x58) and expiration (0x59): a document was deleted, or ran out.

The value holds xattrs only; a body in it is an old producer's fault and meant to be dropped.
"""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import Opcode

_DELETION = "dcp/documentation/commands/deletion.md"
_EXPIRATION = "dcp/documentation/commands/expiration.md"

_SEQNOS = (
    Field("by_seqno", 0, FieldKind.SEQNO, "the seqno of this change", "by_seqno"),
    Field("rev_seqno", 8, FieldKind.U64, "how many times the document changed", "rev_seqno"),
)
_V1 = (
    *_SEQNOS,
    Field(
        "nmeta",
        16,
        FieldKind.U16,
        "bytes of extended metadata at the end of the value; 0 since 7.0",
        "nmeta",
    ),
)
_PROTOTYPE = (
    *_V1,
    Field(
        "collection_name_length",
        18,
        FieldKind.U8,
        "bytes of the key that name the collection",
        "clen",
    ),
)
_TIME = Field(
    "delete_time",
    16,
    FieldKind.TIME,
    "when it was deleted; 0 possible for deletions from memory",
    "delete time",
)

_KEY = Field("key", 0, FieldKind.KEY, "key of the document", "Key")
_PROTOTYPE_KEY = Field("key", 0, FieldKind.TEXT, "collection name, separator and key", "Key")
_VALUE = (
    Field(
        "value", 0, FieldKind.DOCUMENT, "xattrs that survive the deletion", "Value", bodyless=True
    ),
)


def _layout(
    opcode: Opcode,
    generation: str,
    spec: str,
    extras: tuple[Field, ...],
    *,
    key: Field = _KEY,
    legacy: bool = False,
    note: str = "",
) -> Layout:
    return Layout(
        opcode,
        "request",
        generation,
        spec,
        extras,
        key,
        _VALUE,
        value_required=False,
        legacy=legacy,
        note=note,
    )


LAYOUTS = (
    _layout(
        Opcode.DCP_DELETION,
        "v2",
        _DELETION,
        (
            *_SEQNOS,
            _TIME,
            Field(
                "unused",
                20,
                FieldKind.U8,
                "must be zero; a collection length in 5.5 and 6.0",
                "unused",
                reserved=True,
            ),
        ),
    ),
    _layout(Opcode.DCP_DELETION, "v1", _DELETION, _V1),
    _layout(
        Opcode.DCP_DELETION,
        "5.0-collections",
        _DELETION,
        _PROTOTYPE,
        key=_PROTOTYPE_KEY,
        legacy=True,
        note="collections prototype of 5.0",
    ),
    Layout(Opcode.DCP_DELETION, "response", "v1", _DELETION),
    _layout(Opcode.DCP_EXPIRATION, "v2", _EXPIRATION, (*_SEQNOS, _TIME)),
    _layout(
        Opcode.DCP_EXPIRATION,
        "v1",
        _EXPIRATION,
        _V1,
        legacy=True,
        note="3.x to 6.0, as a deletion; 20 bytes since 6.5",
    ),
    _layout(
        Opcode.DCP_EXPIRATION,
        "5.0-collections",
        _EXPIRATION,
        _PROTOTYPE,
        key=_PROTOTYPE_KEY,
        legacy=True,
        note="collections prototype of 5.0",
    ),
    Layout(Opcode.DCP_EXPIRATION, "response", "v1", _EXPIRATION),
)
