"""Every command of the memcached binary protocol as Couchbase speaks it: number, name, traits, one
line of meaning.

Source: kv_engine ``include/mcbp/protocol/opcode.h`` and ``protocol/mcbp/opcode.cc``. Two tables
share the numbers: ``Opcode`` for the magics 0x80, 0x81, 0x08 and 0x18, ``ServerOpcode`` for 0x82
and 0x83. Code that reads captures asks here which commands have a role in DCP; ``roles`` has the
roles as columns. A number that is in neither table is a value like any other: it is called
``opcode_0x7e``.
"""

from __future__ import annotations

from enum import Flag, IntEnum, auto
from typing import Self


class Trait(Flag):
    """A property of a command that changes how a capture is read."""

    NONE = 0
    KEY = auto()
    """The key is a document key: with collections on it starts with a collection id."""
    QUIET = auto()
    """The command gets no answer on success (or on a miss)."""
    GONE = auto()
    """Current servers do not serve the command."""
    TOKEN = auto()
    """The CAS of the header is a session token, a credential."""
    DATA = auto()
    """The command is about documents, their keys and seqnos, or DCP: nothing in it is a credential.
    Commands without this trait administrate.
    """

    # Roles in DCP: see ``ROLES``.
    DCP = auto()
    VBUCKET = auto()
    OPENS = auto()
    COUNTED = auto()
    UNANSWERED = auto()
    STREAM_ID = auto()
    SEQNO = auto()
    EVENT = auto()
    ENDS = auto()


ROLES = {
    Trait.DCP: "a command of DCP itself",
    Trait.VBUCKET: "the vbucket of its header is that of a stream",
    Trait.OPENS: "asks for a stream, whose messages repeat its opaque",
    Trait.COUNTED: "sent by a producer in a stream, and counted by flow control",
    Trait.UNANSWERED: "has no answer on success",
    Trait.STREAM_ID: "has its stream-id where a connection uses those",
    Trait.SEQNO: "brings its stream to a seqno, the `by_seqno` of its layouts",
    Trait.EVENT: "that seqno is its own: something changed in the vbucket",
    Trait.ENDS: "the last message of its stream",
}
"""The roles of commands in DCP. Source: kv_engine ``docs/dcp/documentation/commands``, a page each.
What flow control counts: ``active_stream.cc`` and ``cache_transfer_stream.cc``, where they insert
into the log of the producer.
"""


OTHER = Trait.NONE
DATA = Trait.DATA
KEYED = Trait.KEY | DATA
QUIET = Trait.QUIET
GONE = Trait.GONE
TOKEN = Trait.TOKEN
PROTOCOL = DATA | Trait.DCP
IN_VBUCKET = PROTOCOL | Trait.VBUCKET
COUNTED = IN_VBUCKET | Trait.COUNTED
UNANSWERED = Trait.UNANSWERED
STREAM_ID = Trait.STREAM_ID
WITH_SEQNO = COUNTED | UNANSWERED | Trait.SEQNO
CHANGE = WITH_SEQNO | Trait.EVENT


class _Numbered(IntEnum):
    """An ``int`` with a name, traits and a line of text."""

    traits: Trait
    doc: str

    def __new__(cls, code: int, traits: Trait, doc: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.traits = traits
        member.doc = doc
        return member


class Opcode(_Numbered):
    """Commands of the magics 0x80, 0x81, 0x08 and 0x18."""

    GET = (0x00, KEYED, "Read one document. Reply extras: 4-byte item flags; value = document.")
    SET = (
        0x01,
        KEYED,
        "Store unconditionally (or if CAS matches). Extras 8: flags u32, expiry u32.",
    )
    ADD = (0x02, KEYED, "Store only if absent. Extras 8: flags u32, expiry u32.")
    REPLACE = (0x03, KEYED, "Store only if present. Extras 8: flags u32, expiry u32.")
    DELETE = (
        0x04,
        KEYED,
        "Remove a document. No extras. Reply extras 16 (vbucket uuid, seqno) when "
        "MUTATION_SEQNO is on.",
    )
    INCREMENT = (
        0x05,
        KEYED,
        "Add to a counter. Extras 20: delta u64, initial u64, expiry u32. Reply value: new "
        "value u64.",
    )
    DECREMENT = (
        0x06,
        KEYED,
        "Subtract from a counter (floors at 0). Extras 20 as Increment. Reply value: new value "
        "u64.",
    )
    QUIT = (0x07, OTHER, "Close the connection after replying.")
    FLUSH = (0x08, GONE, "Drop all data of the bucket; no longer served.")
    GETQ = (0x09, KEYED | QUIET, "Get without a reply on a miss.")
    NOOP = (0x0A, OTHER, "Connection keep-alive; reply is empty.")
    VERSION = (0x0B, OTHER, "Ask the server version; reply value is text.")
    GETK = (0x0C, KEYED, "Get with the key echoed in the reply.")
    GETKQ = (0x0D, KEYED | QUIET, "Getk without a reply on a miss.")
    APPEND = (0x0E, KEYED, "Append the value to an existing document.")
    PREPEND = (0x0F, KEYED, "Prepend the value to an existing document.")
    STAT = (
        0x10,
        OTHER,
        "Ask for a statistics group (key). Many replies, one name/value each, ended by one "
        "with no key and no value.",
    )
    SETQ = (0x11, KEYED | QUIET, "Set without a reply on success.")
    ADDQ = (0x12, KEYED | QUIET, "Add without a reply on success.")
    REPLACEQ = (0x13, KEYED | QUIET, "Replace without a reply on success.")
    DELETEQ = (0x14, KEYED | QUIET, "Delete without a reply on success.")
    INCREMENTQ = (0x15, KEYED | QUIET, "Increment without a reply on success.")
    DECREMENTQ = (0x16, KEYED | QUIET, "Decrement without a reply on success.")
    QUITQ = (0x17, QUIET, "Quit without a reply.")
    FLUSHQ = (0x18, GONE, "Quiet flush; no longer served.")
    APPENDQ = (0x19, KEYED | QUIET, "Append without a reply on success.")
    PREPENDQ = (0x1A, KEYED | QUIET, "Prepend without a reply on success.")
    VERBOSITY = (0x1B, OTHER, "Set log verbosity. Extras 4: level u32.")
    TOUCH = (0x1C, KEYED, "Change the expiry. Extras 4: expiry u32.")
    GAT = (0x1D, KEYED, "Get and touch. Extras 4: expiry u32.")
    GATQ = (0x1E, KEYED | QUIET, "Get and touch without a reply on a miss.")
    HELLO = (
        0x1F,
        OTHER,
        'Negotiate features. Key = agent name (or JSON with "a" and "i"); value = list of u16 '
        "feature codes. Reply value = granted codes.",
    )
    SASL_LIST_MECHS = (0x20, OTHER, "List SASL mechanisms; reply value is a space-separated list.")
    SASL_AUTH = (
        0x21,
        OTHER,
        "Start SASL. Key = mechanism, value = initial client data. Reply 0x21 means continue "
        "with SaslStep.",
    )
    SASL_STEP = (0x22, OTHER, "Continue SASL. Key = mechanism, value = client data.")
    IOCTL_GET = (0x23, OTHER, "Read a server control property (key).")
    IOCTL_SET = (0x24, OTHER, "Set a server control property (key, value).")
    CONFIG_VALIDATE = (0x25, OTHER, "Validate a proposed memcached configuration (value).")
    CONFIG_RELOAD = (0x26, OTHER, "Reload the memcached configuration file.")
    AUDIT_PUT = (0x27, OTHER, "Insert an audit event. Extras 4: event id u32; value = JSON.")
    AUDIT_CONFIG_RELOAD = (0x28, OTHER, "Reload the audit configuration.")
    SHUTDOWN = (0x29, TOKEN, "Shut the node down (needs the control token in CAS).")
    SET_BUCKET_THROTTLE_PROPERTIES = (
        0x2A,
        OTHER,
        "Set per-bucket throttle limits (key = bucket, JSON value).",
    )
    SET_BUCKET_DATA_LIMIT_EXCEEDED = (
        0x2B,
        OTHER,
        "Mark a bucket over its data limit. Extras 2: status u16 to return to writers; key = "
        "bucket.",
    )
    SET_NODE_THROTTLE_PROPERTIES = (0x2C, OTHER, "Set node-wide throttle limits; no longer served.")
    SET_ACTIVE_ENCRYPTION_KEYS = (0x2D, OTHER, "Install data-at-rest encryption keys (JSON value).")
    PRUNE_ENCRYPTION_KEYS = (0x2E, OTHER, "Ask to drop encryption keys that are no longer needed.")
    REGISTER_AUTH_TOKEN = (
        0x2F,
        OTHER,
        "Register an auth token that later requests refer to by id (framing extra 7).",
    )
    RGET = (0x30, DATA | GONE, "Reserved range operation.")
    RSET = (0x31, DATA | GONE, "Reserved range operation.")
    RSETQ = (0x32, DATA | QUIET | GONE, "Reserved range operation.")
    RAPPEND = (0x33, DATA | GONE, "Reserved range operation.")
    RAPPENDQ = (0x34, DATA | QUIET | GONE, "Reserved range operation.")
    RPREPEND = (0x35, DATA | GONE, "Reserved range operation.")
    RPREPENDQ = (0x36, DATA | QUIET | GONE, "Reserved range operation.")
    RDELETE = (0x37, DATA | GONE, "Reserved range operation.")
    RDELETEQ = (0x38, DATA | QUIET | GONE, "Reserved range operation.")
    RINCR = (0x39, DATA | GONE, "Reserved range operation.")
    RINCRQ = (0x3A, DATA | QUIET | GONE, "Reserved range operation.")
    RDECR = (0x3B, DATA | GONE, "Reserved range operation.")
    RDECRQ = (0x3C, DATA | QUIET | GONE, "Reserved range operation.")
    SET_VBUCKET = (
        0x3D,
        OTHER,
        "Set a vbucket state. Extras 1 (state u8); older clients put a u32 there. Optional "
        "JSON value: topology, use_snapshot, next_expected_state.",
    )
    GET_VBUCKET = (0x3E, OTHER, "Read a vbucket state; reply value u32.")
    DEL_VBUCKET = (0x3F, OTHER, 'Delete a vbucket; value "async=0" makes it synchronous.')
    TAP_CONNECT = (0x40, DATA | GONE, "TAP (removed in 5.0).")
    TAP_MUTATION = (0x41, DATA | GONE, "TAP (removed in 5.0).")
    TAP_DELETE = (0x42, DATA | GONE, "TAP (removed in 5.0).")
    TAP_FLUSH = (0x43, DATA | GONE, "TAP (removed in 5.0).")
    TAP_OPAQUE = (0x44, DATA | GONE, "TAP (removed in 5.0).")
    TAP_VBUCKET_SET = (0x45, DATA | GONE, "TAP (removed in 5.0).")
    TAP_CHECKPOINT_START = (0x46, DATA | GONE, "TAP (removed in 5.0).")
    TAP_CHECKPOINT_END = (0x47, DATA | GONE, "TAP (removed in 5.0).")
    GET_ALL_VB_SEQNOS = (
        0x48,
        DATA,
        "High seqnos of all vbuckets. Extras 0, 4 (state u32) or 8 (state u32, collection id "
        "u32). Reply value: repeated (vbucket u16, seqno u64).",
    )
    GET_EX = (
        0x49,
        KEYED,
        "Read document and xattrs together (active vbucket). Reply extras 4: flags.",
    )
    GET_EX_REPLICA = (0x4A, KEYED, "GetEx against a replica vbucket.")
    MUTATE_WITH_META = (
        0x4B,
        KEYED,
        "Store or delete with explicit metadata (8.5). Extras 4: size of the JSON metadata "
        "that ends the value.",
    )
    DCP_OPEN = (
        0x50,
        PROTOCOL,
        "Turn the connection into a DCP connection. Extras 8: reserved/seqno u32, flags u32; "
        "key = connection name.",
    )
    DCP_ADD_STREAM = (
        0x51,
        IN_VBUCKET,
        "Tell a consumer to request a stream from its producer. Extras 4: flags u32.",
    )
    DCP_CLOSE_STREAM = (0x52, IN_VBUCKET | STREAM_ID, "Close a stream of a vbucket.")
    DCP_STREAM_REQ = (
        0x53,
        IN_VBUCKET | Trait.OPENS,
        "Ask a producer for a stream. Extras 48 (UPR: 40). Reply value: failover log, or "
        "8-byte rollback seqno with status 0x23.",
    )
    DCP_GET_FAILOVER_LOG = (
        0x54,
        IN_VBUCKET,
        "Ask for a failover log. Reply value: repeated (uuid u64, seqno u64), newest first.",
    )
    DCP_STREAM_END = (
        0x55,
        COUNTED | UNANSWERED | STREAM_ID | Trait.ENDS,
        "Producer ends a stream. Extras 4: reason u32.",
    )
    DCP_SNAPSHOT_MARKER = (
        0x56,
        COUNTED | UNANSWERED | STREAM_ID,
        "Producer starts a snapshot. V1: extras 20. V2.x: extras 1 (version) + value 36/44/52. "
        "UPR: nothing at all.",
    )
    DCP_MUTATION = (
        0x57,
        KEYED | CHANGE | STREAM_ID,
        "A document was stored. Extras 31 (30 in UPR, 32 in the 5.0 collections prototype).",
    )
    DCP_DELETION = (
        0x58,
        KEYED | CHANGE | STREAM_ID,
        "A document was deleted. Extras 18 (V1) or 21 (V2, with delete time); 5.0 prototype 19.",
    )
    DCP_EXPIRATION = (
        0x59,
        KEYED | CHANGE | STREAM_ID,
        "A document expired. Extras 20 (UPR and 3.x-6.0: 18; 5.0 prototype 19).",
    )
    DCP_FLUSH = (
        0x5A,
        IN_VBUCKET | GONE,
        "Drop all data of a vbucket; specified by UPR, never sent by a release.",
    )
    DCP_SET_VBUCKET_STATE = (
        0x5B,
        COUNTED,
        "Takeover: change the consumer's vbucket state. Extras 1: state u8. Consumer replies.",
    )
    DCP_NOOP = (
        0x5C,
        PROTOCOL,
        "Producer's liveness probe; the consumer must reply with the same opaque.",
    )
    DCP_BUFFER_ACKNOWLEDGEMENT = (
        0x5D,
        PROTOCOL | UNANSWERED,
        "Consumer returns flow-control credit. Extras 4: bytes u32. No reply on success.",
    )
    DCP_CONTROL = (
        0x5E,
        PROTOCOL,
        "Consumer sets a connection option. Key = option, value = setting, no extras. Always "
        "answered.",
    )
    DCP_SYSTEM_EVENT = (
        0x5F,
        CHANGE | STREAM_ID,
        "Collection or scope event. Extras 13: by_seqno u64, event u32, version u8 (12 in "
        "5.0-6.0, without the version).",
    )
    DCP_PREPARE = (
        0x60,
        KEYED | CHANGE,
        "First stage of a durable write. Extras 31. CAS must be non-zero.",
    )
    DCP_SEQNO_ACKNOWLEDGED = (
        0x61,
        IN_VBUCKET | UNANSWERED,
        "Replica acknowledges prepares up to a seqno. Extras 8. No reply on success.",
    )
    DCP_COMMIT = (
        0x62,
        KEYED | CHANGE,
        "A prepare is committed. Extras 16: prepared seqno, commit seqno; key, no value.",
    )
    DCP_ABORT = (
        0x63,
        KEYED | CHANGE,
        "A prepare is dropped. Extras 16: prepared seqno, abort seqno; key, no value.",
    )
    DCP_SEQNO_ADVANCED = (
        0x64,
        WITH_SEQNO | STREAM_ID,
        "The stream moved to a seqno without an event for this client; in a filtered backfill "
        "after each 10,000 items that are left out, too (8.5). Extras 8: seqno u64.",
    )
    DCP_OSO_SNAPSHOT = (
        0x65,
        COUNTED | UNANSWERED | STREAM_ID,
        "Start or end of an OSO snapshot. Extras 4: flags u32 (1 start, 2 end).",
    )
    DCP_CACHE_TRANSFER = (
        0x66,
        COUNTED | UNANSWERED | STREAM_ID,
        "Batch of cached documents sent before the stream proper (8.5). No extras, no key; "
        "value = repeated 40-byte record + key + value.",
    )
    DCP_CACHE_TRANSFER_END = (
        0x67,
        COUNTED | UNANSWERED | STREAM_ID,
        "Cache transfer is over and normal streaming follows (8.5). Header only.",
    )
    GET_FUSION_STORAGE_SNAPSHOT = (0x70, OTHER, "Fusion storage snapshot management.")
    RELEASE_FUSION_STORAGE_SNAPSHOT = (0x71, OTHER, "Fusion storage snapshot management.")
    MOUNT_FUSION_VBUCKET = (0x72, OTHER, "Fusion vbucket management.")
    UNMOUNT_FUSION_VBUCKET = (0x73, OTHER, "Fusion vbucket management.")
    SYNC_FUSION_LOGSTORE = (0x74, OTHER, "Fusion log store management.")
    START_FUSION_UPLOADER = (0x75, OTHER, "Fusion uploader management.")
    STOP_FUSION_UPLOADER = (0x76, OTHER, "Fusion uploader management.")
    DELETE_FUSION_NAMESPACE = (0x77, OTHER, "Fusion namespace management.")
    GET_FUSION_NAMESPACES = (0x78, OTHER, "Fusion namespace management.")
    CREATE_FUSION_NAMESPACE = (0x79, OTHER, "Fusion namespace management.")
    STOP_PERSISTENCE = (0x80, OTHER, "Pause the flusher (testing).")
    START_PERSISTENCE = (0x81, OTHER, "Resume the flusher (testing).")
    SET_PARAM = (
        0x82,
        OTHER,
        "Set an engine parameter. Extras 4: category u32; key = name, value = setting.",
    )
    GET_REPLICA = (0x83, KEYED, "Get from a replica vbucket.")
    SET_CHRONICLE_AUTH_TOKEN = (
        0x84,
        OTHER,
        "Set the chronicle auth token of a bucket (JSON value).",
    )
    CREATE_BUCKET = (0x85, OTHER, "Create a bucket (key = name, value = module NUL config).")
    DELETE_BUCKET = (0x86, OTHER, "Delete a bucket.")
    LIST_BUCKETS = (0x87, OTHER, "List buckets; reply value is a space-separated list.")
    SELECT_BUCKET = (0x89, OTHER, "Bind the connection to a bucket (key = name).")
    PAUSE_BUCKET = (0x8A, OTHER, "Quiesce a bucket.")
    RESUME_BUCKET = (0x8B, OTHER, "Undo PauseBucket.")
    VALIDATE_BUCKET_CONFIG = (0x8C, OTHER, "Validate a bucket configuration.")
    SET_BUCKET_CONFIG = (
        0x8D,
        OTHER,
        "Set the whole configuration of a bucket. A reserved number: no server up to 8.5 knows "
        "the command.",
    )
    OBSERVE_SEQNO = (
        0x91,
        DATA,
        "Ask how far a vbucket history is persisted. Request value: vbucket uuid u64. Reply "
        "value: 27 bytes, or 43 after a hard failover.",
    )
    OBSERVE = (
        0x92,
        DATA,
        "Ask the state of keys. Value: repeated (vbucket u16, key length u16, key).",
    )
    EVICT_KEY = (0x93, KEYED, "Evict a value from memory (testing).")
    GET_LOCKED = (0x94, KEYED, "Read and lock. Extras 0 or 4: lock time u32.")
    UNLOCK_KEY = (0x95, KEYED, "Unlock; CAS must be the lock CAS.")
    GET_FAILOVER_LOG = (0x96, DATA, "Failover log on a non-DCP connection; reply as 0x54.")
    LAST_CLOSED_CHECKPOINT = (0x97, GONE, "Removed.")
    DEREGISTER_TAP_CLIENT = (0x9E, GONE, "TAP (removed in 5.0).")
    RESET_REPLICATION_CHAIN = (0x9F, GONE, "Removed.")
    GET_META = (
        0xA0,
        KEYED,
        "Read metadata. Extras 0 or 1 (version). Reply extras 20 or 21: deleted u32, flags "
        "u32, expiry u32, rev seqno u64, [datatype u8].",
    )
    GETQ_META = (0xA1, KEYED | QUIET, "GetMeta without a reply on a miss.")
    SET_WITH_META = (
        0xA2,
        KEYED,
        "Store with explicit metadata. Extras 24/26/28/30: flags, expiry, rev seqno u64, cas "
        "u64, [options u32], [nmeta u16].",
    )
    SETQ_WITH_META = (0xA3, KEYED | QUIET, "SetWithMeta without a reply on success.")
    ADD_WITH_META = (0xA4, KEYED, "Add with explicit metadata; extras as SetWithMeta.")
    ADDQ_WITH_META = (0xA5, KEYED | QUIET, "AddWithMeta without a reply on success.")
    SNAPSHOT_VB_STATES = (0xA6, GONE, "Removed.")
    VBUCKET_BATCH_COUNT = (0xA7, GONE, "Removed.")
    DEL_WITH_META = (
        0xA8,
        KEYED,
        "Delete with explicit metadata. Extras 24/26/28/30: flags, delete time, rev seqno u64, "
        "cas u64, [options u32], [nmeta u16].",
    )
    DELQ_WITH_META = (0xA9, KEYED | QUIET, "DelWithMeta without a reply on success.")
    CREATE_CHECKPOINT = (0xAA, GONE, "Removed.")
    NOTIFY_VBUCKET_UPDATE = (0xAC, GONE, "Removed.")
    ENABLE_TRAFFIC = (0xAD, OTHER, "Let data traffic in after warmup.")
    DISABLE_TRAFFIC = (0xAE, OTHER, "Stop data traffic.")
    IFCONFIG = (0xAF, OTHER, "Network interface control.")
    CHANGE_VB_FILTER = (0xB0, GONE, "Removed.")
    CHECKPOINT_PERSISTENCE = (0xB1, GONE, "Removed.")
    RETURN_META = (
        0xB2,
        KEYED,
        "Store/add/delete and return metadata. Extras 12: type u32, flags u32, expiry u32.",
    )
    COMPACT_DB = (
        0xB3,
        OTHER,
        "Compact a vbucket file. Extras 24: purge before ts u64, purge before seqno u64, drop "
        "deletes u8, pad u8, file id u16, pad u32.",
    )
    SET_CLUSTER_CONFIG = (
        0xB4,
        OTHER,
        "Install a cluster map. Extras 16: epoch i64, revision i64; key = bucket; value = map.",
    )
    GET_CLUSTER_CONFIG = (
        0xB5,
        OTHER,
        "Read the cluster map. Extras 0 or 16 (known epoch i64, revision i64); value of the "
        "reply is JSON, empty when the client is up to date.",
    )
    GET_RANDOM_KEY = (
        0xB6,
        DATA,
        "Return any resident document. Extras 0, 4 (collection id) or 5 (collection id, "
        "include-xattr u8).",
    )
    SEQNO_PERSISTENCE = (0xB7, DATA, "Wait until a seqno is persisted. Extras 8: seqno u64.")
    GET_KEYS = (0xB8, KEYED, "List keys from a start key. Extras 0 or 4: count u32.")
    COLLECTIONS_SET_MANIFEST = (0xB9, OTHER, "Install a collections manifest (JSON value).")
    COLLECTIONS_GET_MANIFEST = (0xBA, OTHER, "Read the collections manifest; reply value is JSON.")
    COLLECTIONS_GET_ID = (
        0xBB,
        OTHER,
        'Resolve "scope.collection" (value). Reply extras 12: manifest uid u64, collection id u32.',
    )
    COLLECTIONS_GET_SCOPE_ID = (
        0xBC,
        OTHER,
        "Resolve a scope name (value). Reply extras 12: manifest uid u64, scope id u32.",
    )
    SET_DRIFT_COUNTER_STATE = (0xC1, GONE, "Removed.")
    GET_ADJUSTED_TIME = (0xC2, GONE, "Removed.")
    SUBDOC_GET = (
        0xC5,
        KEYED,
        "Read a path. Extras 3 (path length u16, flags u8) or 4 (+ doc flags u8).",
    )
    SUBDOC_EXISTS = (0xC6, KEYED, "Test a path. Extras as SubdocGet.")
    SUBDOC_DICT_ADD = (
        0xC7,
        KEYED,
        "Add a dictionary entry. Extras 3, 4, 7 or 8 (path length u16, flags u8, [expiry u32], "
        "[doc flags u8]).",
    )
    SUBDOC_DICT_UPSERT = (0xC8, KEYED, "Set a dictionary entry. Extras as SubdocDictAdd.")
    SUBDOC_DELETE = (0xC9, KEYED, "Remove a path. Extras as SubdocDictAdd.")
    SUBDOC_REPLACE = (0xCA, KEYED, "Replace a path. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_PUSH_LAST = (0xCB, KEYED, "Append to an array. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_PUSH_FIRST = (0xCC, KEYED, "Prepend to an array. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_INSERT = (0xCD, KEYED, "Insert into an array. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_ADD_UNIQUE = (
        0xCE,
        KEYED,
        "Append to an array if absent. Extras as SubdocDictAdd.",
    )
    SUBDOC_COUNTER = (0xCF, KEYED, "Add to a number at a path. Extras as SubdocDictAdd.")
    SUBDOC_MULTI_LOOKUP = (
        0xD0,
        KEYED,
        "Several lookups. Extras 0 or 1 (doc flags); value = repeated (opcode u8, flags u8, "
        "path length u16, path).",
    )
    SUBDOC_MULTI_MUTATION = (
        0xD1,
        KEYED,
        "Several mutations. Extras 0, 1, 4 or 5 ([expiry u32][doc flags u8]); value = repeated "
        "(opcode u8, flags u8, path length u16, value length u32, path, value).",
    )
    SUBDOC_GET_COUNT = (0xD2, KEYED, "Count the elements at a path. Extras as SubdocGet.")
    SUBDOC_REPLACE_BODY_WITH_XATTR = (0xD3, KEYED, "Set the document body from an xattr path.")
    RANGE_SCAN_CREATE = (
        0xDA,
        DATA,
        "Create a range scan (JSON value); reply value is a 16-byte id.",
    )
    RANGE_SCAN_CONTINUE = (
        0xDB,
        DATA,
        "Continue a range scan. Extras 28: id 16, item limit u32, time limit ms u32, byte "
        "limit u32.",
    )
    RANGE_SCAN_CANCEL = (0xDC, DATA, "Cancel a range scan. Extras 16: id.")
    PREPARE_SNAPSHOT = (0xE0, OTHER, "Prepare a downloadable vbucket snapshot.")
    RELEASE_SNAPSHOT = (0xE1, OTHER, "Release a prepared snapshot.")
    DOWNLOAD_SNAPSHOT = (0xE2, OTHER, "Make this node fetch a snapshot (JSON value).")
    GET_FILE_FRAGMENT = (0xE3, OTHER, "Read part of a snapshot file (JSON value).")
    SCRUB = (0xF0, GONE, "Removed.")
    ISASL_REFRESH = (0xF1, OTHER, "Reload the SASL password database.")
    SSL_CERTS_REFRESH = (0xF2, GONE, "Removed.")
    GET_CMD_TIMER = (0xF3, OTHER, "Command timing histogram. Extras 1: opcode.")
    SET_CTRL_TOKEN = (
        0xF4,
        TOKEN,
        "Set the ns_server session token. Extras 8: new token; header CAS = old token.",
    )
    GET_CTRL_TOKEN = (0xF5, TOKEN, "Read the session token (in the reply CAS).")
    UPDATE_USER_PERMISSIONS = (0xF6, OTHER, "Update RBAC entry of an external user (JSON value).")
    RBAC_REFRESH = (0xF7, OTHER, "Reload the RBAC database.")
    AUTH_PROVIDER = (0xF8, OTHER, "Offer to be an authentication provider.")
    DROP_PRIVILEGES = (0xFB, OTHER, "Drop one privilege (testing).")
    ADJUST_TIMEOFDAY = (0xFC, OTHER, "Shift the clock (testing). Extras 9: offset u64, type u8.")
    EWB_CTL = (0xFD, OTHER, "Drive the ewouldblock test engine. Extras 12.")
    GET_ERROR_MAP = (0xFE, OTHER, "Read the error map. Value: version u16. Reply value is JSON.")


class ServerOpcode(_Numbered):
    """Commands of the magics 0x82 and 0x83, with which a server asks something of a client."""

    CLUSTERMAP_CHANGE_NOTIFICATION = (
        0x01,
        OTHER,
        "The server sends that the cluster map changed; extras 4 bytes (revision u32) or 16 "
        "bytes (epoch i64, revision i64), key = bucket name (empty = global), value = map "
        "unless brief mode. No reply wanted.",
    )
    AUTHENTICATE = (
        0x02,
        OTHER,
        "Server asks a registered auth provider to authenticate (JSON value). Reply with magic "
        "0x83.",
    )
    ACTIVE_EXTERNAL_USERS = (
        0x03,
        OTHER,
        "Server pushes the JSON list of active external users to an auth provider.",
    )
    GET_AUTHORIZATION = (
        0x04,
        OTHER,
        "Server asks an auth provider for the rights of the user named in the key. Reply with "
        "magic 0x83.",
    )


DEVELOPMENT = {
    0x68: "cache-transfer end of a development build (2025-09 to 2026-05)",
    0x69: "cache transfer of a development build (2025-09 to 2026-05)",
}
"""Numbers that only unreleased servers used; they keep the name made of their number."""

_NAMES = (
    {int(op): op.name.lower() for op in Opcode},
    {int(op): op.name.lower() for op in ServerOpcode},
)
_CODES = (
    {name: code for code, name in _NAMES[0].items()},
    {name: code for code, name in _NAMES[1].items()},
)
_MEMBERS: tuple[dict[int, _Numbered], dict[int, _Numbered]] = (
    {int(op): op for op in Opcode},
    {int(op): op for op in ServerOpcode},
)


def opcode_name(opcode: int, *, server: bool = False) -> str:
    """Returns the full lower-case name of a command, ``opcode_0x7e`` for one that nobody described."""
    return _NAMES[server].get(opcode) or f"opcode_0x{opcode:02x}"


def is_described(opcode: int, *, server: bool = False) -> bool:
    """Returns whether somebody described a command."""
    return opcode in _NAMES[server]


def opcode_code(name: str, *, server: bool = False) -> int | None:
    """Returns the number of a full lower-case name, or None."""
    return _CODES[server].get(name)


def opcode_traits(opcode: int, *, server: bool = False) -> Trait:
    """Returns the traits of a command; none for an unknown command."""
    member = _MEMBERS[server].get(opcode)
    return member.traits if member is not None else Trait.NONE


def opcode_doc(opcode: int, *, server: bool = False) -> str:
    """Returns one line on what a command does; empty for an unknown command."""
    member = _MEMBERS[server].get(opcode)
    return member.doc if member is not None else DEVELOPMENT.get(opcode, "") if not server else ""
