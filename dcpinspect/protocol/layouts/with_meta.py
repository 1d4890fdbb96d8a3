"""Documents with explicit metadata: mutate (0x4b), get (0xa0), set, add and delete with meta (0xa2
to 0xa9), return meta (0xb2).
"""

from dcpinspect.protocol.datatype import DATATYPE_BITS, DATATYPE_NAMES
from dcpinspect.protocol.fields import Bit
from dcpinspect.protocol.layout_text import layouts

OPTIONS = (
    Bit(0x01, "force", "skip the check for a newer document"),
    Bit(0x02, "force-accept", "accept although conflict resolution is of the other kind"),
    Bit(0x04, "regenerate-cas", "give the document a new CAS"),
    Bit(0x08, "skip-conflict-resolution", "store whatever is there"),
    Bit(0x10, "is-expiration", "the deletion is an expiration"),
)

_WITH_META = (
    "SET_WITH_META SETQ_WITH_META ADD_WITH_META ADDQ_WITH_META DEL_WITH_META DELQ_WITH_META"
)

LAYOUTS = layouts(
    f"""
    meta
        extras item_flags u32 (flags): the client's own flags
        extras expiration time: when the document expires or was deleted
        extras rev_seqno u64 (revseqno): how many times the document changed
        extras meta_cas cas (CAS): version the document gets
    got
        extras deleted u32 [0 no, 1 yes]: 1: the document is deleted
        extras item_flags u32 (flags): the client's own flags
        extras expiration time (exptime): when the document expires
        extras rev_seqno u64 (seqno): how many times the document changed
    document
        key key: key of the document
        value? document: the document
    GET_META GETQ_META request
        key key: key of the document
    GET_META GETQ_META request
        extras meta_version u8 (version): 2: with the datatype
        key key: key of the document
    GET_META GETQ_META response
        use: got
    GET_META GETQ_META response v2
        use: got
        extras stored_datatype u8 (datatype) &datatypes: datatype of the document
    {_WITH_META} request
        use: meta
        use: document
    {_WITH_META} request
        use: meta
        extras nmeta u16 (meta length): bytes of extended metadata at the end of the value
        use: document
    {_WITH_META} request
        use: meta
        extras options u32 &options: how to resolve conflicts
        use: document
    {_WITH_META} request
        use: meta
        extras options u32 &options: how to resolve conflicts
        extras nmeta u16 (meta length): bytes of extended metadata at the end of the value
        use: document
    {_WITH_META} response
    {_WITH_META} response mutation-seqno
        extras vbucket_uuid uuid (vb UUID): branch of the history (HELLO feature MUTATION_SEQNO)
        extras seqno seqno: seqno of the change
    RETURN_META request
        extras operation u32 (type) [1 set, 2 add, 3 delete]: what to do
        extras item_flags u32 (flags): the client's own flags
        extras expiration time: when the document expires
        use: document
    RETURN_META response
        extras item_flags u32 (flags): the client's own flags
        extras expiration time: when the document expires
        extras rev_seqno u64 (seqno): how many times the document changed
    MUTATE_WITH_META request
        spec: mutate-with-meta.md
        extras metadata_size u32: bytes of the JSON object at the end of the value
        key key: key of the document
        value document: the document, and after it a JSON object: command (add, set, delete), cas,
            expiration, flags, rev_seqno, options (0x04 regenerate-cas, 0x08
            skip-conflict-resolution, 0x10 is-expiration, 0x20 force-accept); cas_offsets and
            seqno_offsets, where in the xattrs the server writes the new CAS and seqno
    MUTATE_WITH_META response
    MUTATE_WITH_META response mutation-seqno
        extras vbucket_uuid uuid (vb UUID): branch of the history (HELLO feature MUTATION_SEQNO)
        extras seqno seqno: seqno of the change
    """,
    "BinaryProtocol.md",
    {
        "options": {"flags": OPTIONS},
        "datatypes": {
            "values": {
                bits: ", ".join(DATATYPE_NAMES[bits]) or "none"
                for bits in range(1 << len(DATATYPE_BITS))
            }
        },
    },
    columns=False,
)
