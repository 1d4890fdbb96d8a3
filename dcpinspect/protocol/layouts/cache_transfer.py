"""DCP cache transfer (0x66) and its end (0x67): cached documents before the stream proper (8.5).

Development builds of 2025-09 to 2026-05 used 0x66 and 0x67 with other layouts; none was released. A
document may come twice, since a hash table that grows is visited again in part.
"""

from dcpinspect.protocol.datatype import DATATYPE_BITS
from dcpinspect.protocol.fields import RecordList
from dcpinspect.protocol.layout_text import fields, layouts

ITEMS = RecordList(
    "items",
    fields(
        """
        cas cas (CAS): version of the document
        by_seqno seqno (by_seqno): not above the start of the stream request
        rev_seqno u64 (rev_seqno): how many times the document changed
        value_length u32: bytes of the value; 0 keeps the datatype of the stored document
        item_flags u32 (flags): the client's own flags
        expiration time: when the document expires
        key_length u16: bytes of the key, 2 to 251
        datatype u8 &bits: what the value is wrapped in
        cache_hint u8: how recently it was used
        key key (Key) size=key_length: key of the document
        value document (Value) size=value_length: the document
        """,
        {"bits": {"flags": DATATYPE_BITS}},
    ),
    "cached documents in no order, some of them twice; no part of any snapshot",
    "item",
)

LAYOUTS = layouts(
    """
    DCP_CACHE_TRANSFER request
        value: *items
    DCP_CACHE_TRANSFER response
    DCP_CACHE_TRANSFER_END request
    DCP_CACHE_TRANSFER_END response
    """,
    "dcp/documentation/commands/cache-transfer.md",
    {"items": ITEMS},
)
