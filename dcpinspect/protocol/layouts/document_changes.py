"""Changes of documents: DCP mutation (0x57), deletion (0x58), and expiration (0x59).

The value of a deletion holds xattrs only; a body in it is an old producer's fault and meant to be
dropped.
"""

from dcpinspect.protocol.layout_text import layouts

LAYOUTS = (
    *layouts(
        """
    stored
        extras by_seqno seqno (by_seqno): the seqno of this change
        extras rev_seqno u64 (rev_seqno): how many times the document changed
        extras item_flags u32 (flags): the client's own flags
        extras expiration time: when the document expires
        extras lock_time u32 reserved: 0 from servers
        extras nmeta u16: bytes of extended metadata at the end of the value; 0 since 7.0
    document
        key key: key of the document
        value? document: the document
    DCP_MUTATION request
        use: stored
        extras nru u8: 0 to 3: not recently used; 0 to 255: frequency, after supports_hifi_MFU
        use: document
    DCP_MUTATION request upr legacy
        spec: UPR transport specification, mutation
        use: stored
        use: document
        note: without nru
    DCP_MUTATION request 5.0-collections legacy
        use: stored
        extras nru u8: 0 to 3: not recently used; 0 to 255: frequency, after supports_hifi_MFU
        extras collection_name_length u8 (clen): bytes of the key that name the collection
        key text: collection name, separator and key
        value? document: the document
        note: collections prototype of 5.0 (open flag 0x10)
    DCP_MUTATION response
    """,
        "dcp/documentation/commands/mutation.md",
    ),
    *layouts(
        """
    document
        key key: key of the document
        value? document bodyless: xattrs that survive the deletion
    prototype
        extras nmeta u16: bytes of extended metadata at the end of the value; 0 since 7.0
        extras collection_name_length u8 (clen): bytes of the key that name the collection
        key text: collection name, separator and key
        value? document bodyless: xattrs that survive the deletion
    seqnos
        extras by_seqno seqno (by_seqno): the seqno of this change
        extras rev_seqno u64 (rev_seqno): how many times the document changed
    DCP_DELETION request v2
        use: seqnos
        extras delete_time time: when it was deleted; 0 possible for deletions from memory
        extras unused u8 reserved: must be zero; a collection length in 5.5 and 6.0
        use: document
    DCP_DELETION request
        use: seqnos
        extras nmeta u16: bytes of extended metadata at the end of the value; 0 since 7.0
        use: document
    DCP_DELETION request 5.0-collections legacy
        use: seqnos
        use: prototype
        note: collections prototype of 5.0
    DCP_DELETION response
    DCP_EXPIRATION request v2
        spec: dcp/documentation/commands/expiration.md
        use: seqnos
        extras delete_time time: when it was deleted; 0 possible for deletions from memory
        use: document
    DCP_EXPIRATION request v1 legacy
        spec: dcp/documentation/commands/expiration.md
        use: seqnos
        extras nmeta u16: bytes of extended metadata at the end of the value; 0 since 7.0
        use: document
        note: 3.x to 6.0, as a deletion; 20 bytes since 6.5
    DCP_EXPIRATION request 5.0-collections legacy
        spec: dcp/documentation/commands/expiration.md
        use: seqnos
        use: prototype
        note: collections prototype of 5.0
    DCP_EXPIRATION response
        spec: dcp/documentation/commands/expiration.md
    """,
        "dcp/documentation/commands/deletion.md",
    ),
)
