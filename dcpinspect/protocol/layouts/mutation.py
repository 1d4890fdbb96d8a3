"""DCP mutation (0x57): a document was stored."""

from __future__ import annotations

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/mutation.md"

_UPR = (
    Field("by_seqno", 0, FieldKind.SEQNO, "the seqno of this change", "by_seqno"),
    Field("rev_seqno", 8, FieldKind.U64, "how many times the document changed", "rev_seqno"),
    Field("item_flags", 16, FieldKind.U32, "the client's own flags", "flags"),
    Field("expiration", 20, FieldKind.TIME, "when the document expires", "expiration"),
    Field("lock_time", 24, FieldKind.U32, "0 from servers", "lock time", reserved=True),
    Field(
        "nmeta",
        28,
        FieldKind.U16,
        "bytes of extended metadata at the end of the value; 0 since 7.0",
        "nmeta",
    ),
)
_NRU = Field(
    "nru",
    30,
    FieldKind.U8,
    "0 to 3: not recently used; 0 to 255: frequency, after supports_hifi_MFU",
    "nru",
)
_KEY = Field("key", 0, FieldKind.KEY, "key of the document", "Key")
_VALUE = (Field("value", 0, FieldKind.DOCUMENT, "the document", "Value"),)

LAYOUTS = (
    Layout(
        Opcode.DCP_MUTATION,
        "request",
        "v1",
        _SPEC,
        extras=(*_UPR, _NRU),
        key=_KEY,
        value=_VALUE,
        value_required=False,
    ),
    Layout(
        Opcode.DCP_MUTATION,
        "request",
        "upr",
        "UPR transport specification, mutation",
        extras=_UPR,
        key=_KEY,
        value=_VALUE,
        value_required=False,
        legacy=True,
        note="without nru",
    ),
    Layout(
        Opcode.DCP_MUTATION,
        "request",
        "5.0-collections",
        _SPEC,
        extras=(
            *_UPR,
            _NRU,
            Field(
                "collection_name_length",
                31,
                FieldKind.U8,
                "bytes of the key that name the collection",
                "clen",
            ),
        ),
        key=Field("key", 0, FieldKind.TEXT, "collection name, separator and key", "Key"),
        value=_VALUE,
        value_required=False,
        legacy=True,
        note="collections prototype of 5.0 (open flag 0x10)",
    ),
    Layout(Opcode.DCP_MUTATION, "response", "v1", _SPEC),
)
