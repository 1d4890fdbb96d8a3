"""Documents by key: get, store, counters, touch, lock and their quiet forms."""

from dcpinspect.protocol.layout_text import layouts

LAYOUTS = layouts(
    """
    mutation-seqno
        extras vbucket_uuid uuid (vb UUID): branch of the history (HELLO feature MUTATION_SEQNO)
        extras seqno seqno: seqno of the change
    GET GETQ request
        key key: key of the document
    GET GETQ response
        extras item_flags u32 (flags): the client's own flags
        value? document: the document
    GET GETQ response
        value? document: the document
    GETK GETKQ request
        key key: key of the document
    GETK GETKQ response
        extras item_flags u32 (flags): the client's own flags
        key? key: key of the document
        value? document: the document
    GETK GETKQ response
        key? key: key of the document
        value? document: the document
    GETK GETKQ response miss
        key? key: key of the document
        value? error: why there is none
        status: KEY_ENOENT
    GET_REPLICA GET_EX GET_EX_REPLICA request
        key key: key of the document
    GET_REPLICA GET_EX GET_EX_REPLICA response
        extras item_flags u32 (flags): the client's own flags
        value? document: the document
    GET_REPLICA GET_EX GET_EX_REPLICA response
        value? document: the document
    GAT GATQ request
        extras expiration time: when the document expires
        key key: key of the document
    GAT GATQ response
        extras item_flags u32 (flags): the client's own flags
        value? document: the document
    GAT GATQ response
        value? document: the document
    GET_LOCKED request
        key key: key of the document
    GET_LOCKED request
        extras lock_seconds u32 (lock time): seconds to lock; 0: the default
        key key: key of the document
    GET_LOCKED response
        extras item_flags u32 (flags): the client's own flags
        value? document: the document
    GET_LOCKED response
        value? document: the document
    TOUCH request
        extras expiration time: when the document expires
        key key: key of the document
    TOUCH response
    TOUCH response
        extras item_flags u32 (flags): the client's own flags
    UNLOCK_KEY request
        key key: key of the document
    UNLOCK_KEY response
    EVICT_KEY request
        key key: key of the document
    EVICT_KEY response
        value? text: text
    GET_RANDOM_KEY request
    GET_RANDOM_KEY request collection
        extras collection_id id: only this collection
    GET_RANDOM_KEY request xattr
        extras collection_id id: only this collection
        extras include_xattr u8 [0 no, 1 yes]: 1: with xattrs
    GET_RANDOM_KEY response
        extras item_flags u32 (flags): the client's own flags
        key key: key of the document
        value? document: the document
    GET_RANDOM_KEY response
        key key: key of the document
        value? document: the document
    GET_KEYS request
        key key: key of the document
    GET_KEYS request
        extras count u32: how many
        key key: key of the document
    GET_KEYS response
        value? bytes: keys, each after its u16 length
    SET ADD REPLACE SETQ ADDQ REPLACEQ request
        extras item_flags u32 (flags): the client's own flags
        extras expiration time: when the document expires
        key key: key of the document
        value? document: the document
    SET ADD REPLACE SETQ ADDQ REPLACEQ response
    SET ADD REPLACE SETQ ADDQ REPLACEQ response mutation-seqno
        use: mutation-seqno
    APPEND PREPEND APPENDQ PREPENDQ request
        key key: key of the document
        value? document: the document
    APPEND PREPEND APPENDQ PREPENDQ response
    APPEND PREPEND APPENDQ PREPENDQ response mutation-seqno
        use: mutation-seqno
    DELETE DELETEQ request
        key key: key of the document
    DELETE DELETEQ response
    DELETE DELETEQ response mutation-seqno
        use: mutation-seqno
    INCREMENT DECREMENT INCREMENTQ DECREMENTQ request
        extras delta u64 private: how much to add or subtract
        extras initial u64 private: value of a counter that is not there yet
        extras expiration u32 [0xffffffff do not create]: when the document expires
        key key: key of the document
    INCREMENT DECREMENT INCREMENTQ DECREMENTQ response
        value counter u64 (value) private: value of the counter
    INCREMENT DECREMENT INCREMENTQ DECREMENTQ response mutation-seqno
        use: mutation-seqno
        value counter u64 (value) private: value of the counter
    FLUSH FLUSHQ request
        extras expiration u32 (expiry): seconds to wait
    FLUSH FLUSHQ request
    FLUSH FLUSHQ response
    """,
    "BinaryProtocol.md",
    columns=False,
)
