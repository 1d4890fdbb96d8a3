"""DCP cache transfer (0x66) and its end (0x67): cached documents before the stream proper (8.5).

Development builds of 2025-09 to 2026-05 used 0x66 and 0x67 with other layouts; none was released. A
document may come twice, since a hash table that grows is visited again in part.
"""

from __future__ import annotations

from dcpinspect.protocol.datatype import DATATYPE_BITS
from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.opcodes import Opcode

_SPEC = "dcp/documentation/commands/cache-transfer.md"

ITEMS = RecordList(
    "items",
    (
        Field("cas", 0, FieldKind.CAS, "version of the document", "CAS"),
        Field(
            "by_seqno", 8, FieldKind.SEQNO, "not above the start of the stream request", "by_seqno"
        ),
        Field("rev_seqno", 16, FieldKind.U64, "how many times the document changed", "rev_seqno"),
        Field(
            "value_length",
            24,
            FieldKind.U32,
            "bytes of the value; 0 keeps the datatype of the stored document",
            "value length",
        ),
        Field("item_flags", 28, FieldKind.U32, "the client's own flags", "flags"),
        Field("expiration", 32, FieldKind.TIME, "when the document expires", "expiration"),
        Field("key_length", 36, FieldKind.U16, "bytes of the key, 2 to 251", "key length"),
        Field(
            "datatype",
            38,
            FieldKind.U8,
            "what the value is wrapped in",
            "datatype",
            flags=DATATYPE_BITS,
        ),
        Field("cache_hint", 39, FieldKind.U8, "how recently it was used", "cache hint"),
        Field("key", 40, FieldKind.KEY, "key of the document", "Key", size="key_length"),
        Field("value", 40, FieldKind.DOCUMENT, "the document", "Value", size="value_length"),
    ),
    "cached documents in no order, some of them twice; no part of any snapshot",
    "item",
    at_least=1,
)

LAYOUTS = (
    Layout(Opcode.DCP_CACHE_TRANSFER, "request", "v1", _SPEC, value=(ITEMS,)),
    Layout(Opcode.DCP_CACHE_TRANSFER, "response", "v1", _SPEC),
    Layout(Opcode.DCP_CACHE_TRANSFER_END, "request", "v1", _SPEC),
    Layout(Opcode.DCP_CACHE_TRANSFER_END, "response", "v1", _SPEC),
)
