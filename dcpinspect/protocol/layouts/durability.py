"""Durable writes (6.5): DCP prepare (0x60), seqno acknowledged, commit, abort (0x63)."""

from dcpinspect.protocol.flags import DURABILITY_LEVELS
from dcpinspect.protocol.layout_text import layouts

# A prepare is as long as a mutation's extras, with another tail: the two never share a layout.
LAYOUTS = layouts(
    """
    DCP_PREPARE request
        extras by_seqno seqno (by_seqno): the seqno of this change
        extras rev_seqno u64 (rev_seqno): how many times the document changed
        extras item_flags u32 (flags): the client's own flags
        extras expiration time: when the document expires
        extras lock_time u32 reserved: 0 from servers
        extras nru u8: 0 to 3: not recently used; 0 to 255: frequency, after supports_hifi_MFU
        extras deleted u8 [0 no, 1 yes]: 1: a durable deletion
        extras durability_level u8 (durability) &levels: what the write waits for
        key key: key of the document
        value? document: the document
    DCP_PREPARE response
    DCP_SEQNO_ACKNOWLEDGED request
        spec: dcp/documentation/commands/seqno-acknowledged.md
        extras prepared_seqno seqno: all prepares up to here are safe on the replica
    DCP_SEQNO_ACKNOWLEDGED response
        spec: dcp/documentation/commands/seqno-acknowledged.md
    DCP_COMMIT request
        spec: dcp/documentation/commands/commit.md
        extras prepared_seqno seqno: seqno of the prepare
        extras commit_seqno seqno alias=by_seqno: the seqno of this commit
        key key: key of the document
    DCP_COMMIT response
        spec: dcp/documentation/commands/commit.md
    DCP_ABORT request
        spec: dcp/documentation/commands/abort.md
        extras prepared_seqno seqno: seqno of the prepare
        extras abort_seqno seqno alias=by_seqno: the seqno of this abort
        key key: key of the document
    DCP_ABORT response
        spec: dcp/documentation/commands/abort.md
    """,
    "dcp/documentation/commands/prepare.md",
    {"levels": {"values": DURABILITY_LEVELS}},
)
