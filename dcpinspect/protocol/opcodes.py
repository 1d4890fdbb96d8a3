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


_ = Trait.NONE
D = Trait.DATA
K = Trait.KEY | D
Q = Trait.QUIET
G = Trait.GONE
T = Trait.TOKEN
P = D | Trait.DCP
V = P | Trait.VBUCKET
C = V | Trait.COUNTED
U = Trait.UNANSWERED
S = Trait.STREAM_ID
N = C | U | Trait.SEQNO
E = N | Trait.EVENT


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

    GET = (0x00, K, "Read one document. Reply extras: 4-byte item flags; value = document.")
    SET = (0x01, K, "Store unconditionally (or if CAS matches). Extras 8: flags u32, expiry u32.")
    ADD = (0x02, K, "Store only if absent. Extras 8: flags u32, expiry u32.")
    REPLACE = (0x03, K, "Store only if present. Extras 8: flags u32, expiry u32.")
    DELETE = (
        0x04,
        K,
        "Remove a document. No extras. Reply extras 16 (vbucket uuid, seqno) when "
        "MUTATION_SEQNO is on.",
    )
    INCREMENT = (
        0x05,
        K,
        "Add to a counter. Extras 20: delta u64, initial u64, expiry u32. Reply value: new "
        "value u64.",
    )
    DECREMENT = (
        0x06,
        K,
        "Subtract from a counter (floors at 0). Extras 20 as Increment. Reply value: new value "
        "u64.",
    )
    QUIT = (0x07, _, "Close the connection after replying.")
    FLUSH = (0x08, G, "Drop all data of the bucket; no longer served.")
    GETQ = (0x09, K | Q, "Get without a reply on a miss.")
    NOOP = (0x0A, _, "Connection keep-alive; reply is empty.")
    VERSION = (0x0B, _, "Ask the server version; reply value is text.")
    GETK = (0x0C, K, "Get with the key echoed in the reply.")
    GETKQ = (0x0D, K | Q, "Getk without a reply on a miss.")
    APPEND = (0x0E, K, "Append the value to an existing document.")
    PREPEND = (0x0F, K, "Prepend the value to an existing document.")
    STAT = (
        0x10,
        _,
        "Ask for a statistics group (key). Many replies, one name/value each, ended by one "
        "with no key and no value.",
    )
    SETQ = (0x11, K | Q, "Set without a reply on success.")
    ADDQ = (0x12, K | Q, "Add without a reply on success.")
    REPLACEQ = (0x13, K | Q, "Replace without a reply on success.")
    DELETEQ = (0x14, K | Q, "Delete without a reply on success.")
    INCREMENTQ = (0x15, K | Q, "Increment without a reply on success.")
    DECREMENTQ = (0x16, K | Q, "Decrement without a reply on success.")
    QUITQ = (0x17, Q, "Quit without a reply.")
    FLUSHQ = (0x18, G, "Quiet flush; no longer served.")
    APPENDQ = (0x19, K | Q, "Append without a reply on success.")
    PREPENDQ = (0x1A, K | Q, "Prepend without a reply on success.")
    VERBOSITY = (0x1B, _, "Set log verbosity. Extras 4: level u32.")
    TOUCH = (0x1C, K, "Change the expiry. Extras 4: expiry u32.")
    GAT = (0x1D, K, "Get and touch. Extras 4: expiry u32.")
    GATQ = (0x1E, K | Q, "Get and touch without a reply on a miss.")
    HELLO = (
        0x1F,
        _,
        'Negotiate features. Key = agent name (or JSON with "a" and "i"); value = list of u16 '
        "feature codes. Reply value = granted codes.",
    )
    SASL_LIST_MECHS = (0x20, _, "List SASL mechanisms; reply value is a space-separated list.")
    SASL_AUTH = (
        0x21,
        _,
        "Start SASL. Key = mechanism, value = initial client data. Reply 0x21 means continue "
        "with SaslStep.",
    )
    SASL_STEP = (0x22, _, "Continue SASL. Key = mechanism, value = client data.")
    IOCTL_GET = (0x23, _, "Read a server control property (key).")
    IOCTL_SET = (0x24, _, "Set a server control property (key, value).")
    CONFIG_VALIDATE = (0x25, _, "Validate a proposed memcached configuration (value).")
    CONFIG_RELOAD = (0x26, _, "Reload the memcached configuration file.")
    AUDIT_PUT = (0x27, _, "Insert an audit event. Extras 4: event id u32; value = JSON.")
    AUDIT_CONFIG_RELOAD = (0x28, _, "Reload the audit configuration.")
    SHUTDOWN = (0x29, T, "Shut the node down (needs the control token in CAS).")
    SET_BUCKET_THROTTLE_PROPERTIES = (
        0x2A,
        _,
        "Set per-bucket throttle limits (key = bucket, JSON value).",
    )
    SET_BUCKET_DATA_LIMIT_EXCEEDED = (
        0x2B,
        _,
        "Mark a bucket over its data limit. Extras 2: status u16 to return to writers; key = "
        "bucket.",
    )
    SET_NODE_THROTTLE_PROPERTIES = (0x2C, _, "Set node-wide throttle limits; no longer served.")
    SET_ACTIVE_ENCRYPTION_KEYS = (0x2D, _, "Install data-at-rest encryption keys (JSON value).")
    PRUNE_ENCRYPTION_KEYS = (0x2E, _, "Ask to drop encryption keys that are no longer needed.")
    REGISTER_AUTH_TOKEN = (
        0x2F,
        _,
        "Register an auth token that later requests refer to by id (framing extra 7).",
    )
    RGET = (0x30, D | G, "Reserved range operation.")
    RSET = (0x31, D | G, "Reserved range operation.")
    RSETQ = (0x32, D | Q | G, "Reserved range operation.")
    RAPPEND = (0x33, D | G, "Reserved range operation.")
    RAPPENDQ = (0x34, D | Q | G, "Reserved range operation.")
    RPREPEND = (0x35, D | G, "Reserved range operation.")
    RPREPENDQ = (0x36, D | Q | G, "Reserved range operation.")
    RDELETE = (0x37, D | G, "Reserved range operation.")
    RDELETEQ = (0x38, D | Q | G, "Reserved range operation.")
    RINCR = (0x39, D | G, "Reserved range operation.")
    RINCRQ = (0x3A, D | Q | G, "Reserved range operation.")
    RDECR = (0x3B, D | G, "Reserved range operation.")
    RDECRQ = (0x3C, D | Q | G, "Reserved range operation.")
    SET_VBUCKET = (
        0x3D,
        _,
        "Set a vbucket state. Extras 1 (state u8); older clients put a u32 there. Optional "
        "JSON value: topology, use_snapshot, next_expected_state.",
    )
    GET_VBUCKET = (0x3E, _, "Read a vbucket state; reply value u32.")
    DEL_VBUCKET = (0x3F, _, 'Delete a vbucket; value "async=0" makes it synchronous.')
    TAP_CONNECT = (0x40, D | G, "TAP (removed in 5.0).")
    TAP_MUTATION = (0x41, D | G, "TAP (removed in 5.0).")
    TAP_DELETE = (0x42, D | G, "TAP (removed in 5.0).")
    TAP_FLUSH = (0x43, D | G, "TAP (removed in 5.0).")
    TAP_OPAQUE = (0x44, D | G, "TAP (removed in 5.0).")
    TAP_VBUCKET_SET = (0x45, D | G, "TAP (removed in 5.0).")
    TAP_CHECKPOINT_START = (0x46, D | G, "TAP (removed in 5.0).")
    TAP_CHECKPOINT_END = (0x47, D | G, "TAP (removed in 5.0).")
    GET_ALL_VB_SEQNOS = (
        0x48,
        D,
        "High seqnos of all vbuckets. Extras 0, 4 (state u32) or 8 (state u32, collection id "
        "u32). Reply value: repeated (vbucket u16, seqno u64).",
    )
    GET_EX = (0x49, K, "Read document and xattrs together (active vbucket). Reply extras 4: flags.")
    GET_EX_REPLICA = (0x4A, K, "GetEx against a replica vbucket.")
    MUTATE_WITH_META = (
        0x4B,
        K,
        "Store or delete with explicit metadata (8.5). Extras 4: size of the JSON metadata "
        "that ends the value.",
    )
    DCP_OPEN = (
        0x50,
        P,
        "Turn the connection into a DCP connection. Extras 8: reserved/seqno u32, flags u32; "
        "key = connection name.",
    )
    DCP_ADD_STREAM = (
        0x51,
        V,
        "Tell a consumer to request a stream from its producer. Extras 4: flags u32.",
    )
    DCP_CLOSE_STREAM = (0x52, V | S, "Close a stream of a vbucket.")
    DCP_STREAM_REQ = (
        0x53,
        V | Trait.OPENS,
        "Ask a producer for a stream. Extras 48 (UPR: 40). Reply value: failover log, or "
        "8-byte rollback seqno with status 0x23.",
    )
    DCP_GET_FAILOVER_LOG = (
        0x54,
        V,
        "Ask for a failover log. Reply value: repeated (uuid u64, seqno u64), newest first.",
    )
    DCP_STREAM_END = (0x55, C | U | S | Trait.ENDS, "Producer ends a stream. Extras 4: reason u32.")
    DCP_SNAPSHOT_MARKER = (
        0x56,
        C | U | S,
        "Producer starts a snapshot. V1: extras 20. V2.x: extras 1 (version) + value 36/44/52. "
        "UPR: nothing at all.",
    )
    DCP_MUTATION = (
        0x57,
        K | E | S,
        "A document was stored. Extras 31 (30 in UPR, 32 in the 5.0 collections prototype).",
    )
    DCP_DELETION = (
        0x58,
        K | E | S,
        "A document was deleted. Extras 18 (V1) or 21 (V2, with delete time); 5.0 prototype 19.",
    )
    DCP_EXPIRATION = (
        0x59,
        K | E | S,
        "A document expired. Extras 20 (UPR and 3.x-6.0: 18; 5.0 prototype 19).",
    )
    DCP_FLUSH = (
        0x5A,
        V | G,
        "Drop all data of a vbucket; specified by UPR, never sent by a release.",
    )
    DCP_SET_VBUCKET_STATE = (
        0x5B,
        C,
        "Takeover: change the consumer's vbucket state. Extras 1: state u8. Consumer replies.",
    )
    DCP_NOOP = (0x5C, P, "Producer's liveness probe; the consumer must reply with the same opaque.")
    DCP_BUFFER_ACKNOWLEDGEMENT = (
        0x5D,
        P | U,
        "Consumer returns flow-control credit. Extras 4: bytes u32. No reply on success.",
    )
    DCP_CONTROL = (
        0x5E,
        P,
        "Consumer sets a connection option. Key = option, value = setting, no extras. Always "
        "answered.",
    )
    DCP_SYSTEM_EVENT = (
        0x5F,
        E | S,
        "Collection or scope event. Extras 13: by_seqno u64, event u32, version u8 (12 in "
        "5.0-6.0, without the version).",
    )
    DCP_PREPARE = (0x60, K | E, "First stage of a durable write. Extras 31. CAS must be non-zero.")
    DCP_SEQNO_ACKNOWLEDGED = (
        0x61,
        V | U,
        "Replica acknowledges prepares up to a seqno. Extras 8. No reply on success.",
    )
    DCP_COMMIT = (
        0x62,
        K | E,
        "A prepare is committed. Extras 16: prepared seqno, commit seqno; key, no value.",
    )
    DCP_ABORT = (
        0x63,
        K | E,
        "A prepare is dropped. Extras 16: prepared seqno, abort seqno; key, no value.",
    )
    DCP_SEQNO_ADVANCED = (
        0x64,
        N | S,
        "The stream moved to a seqno without an event for this client; in a filtered backfill "
        "after each 10,000 items that are left out, too (8.5). Extras 8: seqno u64.",
    )
    DCP_OSO_SNAPSHOT = (
        0x65,
        C | U | S,
        "Start or end of an OSO snapshot. Extras 4: flags u32 (1 start, 2 end).",
    )
    DCP_CACHE_TRANSFER = (
        0x66,
        C | U | S,
        "Batch of cached documents sent before the stream proper (8.5). No extras, no key; "
        "value = repeated 40-byte record + key + value.",
    )
    DCP_CACHE_TRANSFER_END = (
        0x67,
        C | U | S,
        "Cache transfer is over and normal streaming follows (8.5). Header only.",
    )
    GET_FUSION_STORAGE_SNAPSHOT = (0x70, _, "Fusion storage snapshot management.")
    RELEASE_FUSION_STORAGE_SNAPSHOT = (0x71, _, "Fusion storage snapshot management.")
    MOUNT_FUSION_VBUCKET = (0x72, _, "Fusion vbucket management.")
    UNMOUNT_FUSION_VBUCKET = (0x73, _, "Fusion vbucket management.")
    SYNC_FUSION_LOGSTORE = (0x74, _, "Fusion log store management.")
    START_FUSION_UPLOADER = (0x75, _, "Fusion uploader management.")
    STOP_FUSION_UPLOADER = (0x76, _, "Fusion uploader management.")
    DELETE_FUSION_NAMESPACE = (0x77, _, "Fusion namespace management.")
    GET_FUSION_NAMESPACES = (0x78, _, "Fusion namespace management.")
    CREATE_FUSION_NAMESPACE = (0x79, _, "Fusion namespace management.")
    STOP_PERSISTENCE = (0x80, _, "Pause the flusher (testing).")
    START_PERSISTENCE = (0x81, _, "Resume the flusher (testing).")
    SET_PARAM = (
        0x82,
        _,
        "Set an engine parameter. Extras 4: category u32; key = name, value = setting.",
    )
    GET_REPLICA = (0x83, K, "Get from a replica vbucket.")
    SET_CHRONICLE_AUTH_TOKEN = (0x84, _, "Set the chronicle auth token of a bucket (JSON value).")
    CREATE_BUCKET = (0x85, _, "Create a bucket (key = name, value = module NUL config).")
    DELETE_BUCKET = (0x86, _, "Delete a bucket.")
    LIST_BUCKETS = (0x87, _, "List buckets; reply value is a space-separated list.")
    SELECT_BUCKET = (0x89, _, "Bind the connection to a bucket (key = name).")
    PAUSE_BUCKET = (0x8A, _, "Quiesce a bucket.")
    RESUME_BUCKET = (0x8B, _, "Undo PauseBucket.")
    VALIDATE_BUCKET_CONFIG = (0x8C, _, "Validate a bucket configuration.")
    SET_BUCKET_CONFIG = (
        0x8D,
        _,
        "Set the whole configuration of a bucket. A reserved number: no server up to 8.5 knows "
        "the command.",
    )
    OBSERVE_SEQNO = (
        0x91,
        D,
        "Ask how far a vbucket history is persisted. Request value: vbucket uuid u64. Reply "
        "value: 27 bytes, or 43 after a hard failover.",
    )
    OBSERVE = (
        0x92,
        D,
        "Ask the state of keys. Value: repeated (vbucket u16, key length u16, key).",
    )
    EVICT_KEY = (0x93, K, "Evict a value from memory (testing).")
    GET_LOCKED = (0x94, K, "Read and lock. Extras 0 or 4: lock time u32.")
    UNLOCK_KEY = (0x95, K, "Unlock; CAS must be the lock CAS.")
    GET_FAILOVER_LOG = (0x96, D, "Failover log on a non-DCP connection; reply as 0x54.")
    LAST_CLOSED_CHECKPOINT = (0x97, G, "Removed.")
    DEREGISTER_TAP_CLIENT = (0x9E, G, "TAP (removed in 5.0).")
    RESET_REPLICATION_CHAIN = (0x9F, G, "Removed.")
    GET_META = (
        0xA0,
        K,
        "Read metadata. Extras 0 or 1 (version). Reply extras 20 or 21: deleted u32, flags "
        "u32, expiry u32, rev seqno u64, [datatype u8].",
    )
    GETQ_META = (0xA1, K | Q, "GetMeta without a reply on a miss.")
    SET_WITH_META = (
        0xA2,
        K,
        "Store with explicit metadata. Extras 24/26/28/30: flags, expiry, rev seqno u64, cas "
        "u64, [options u32], [nmeta u16].",
    )
    SETQ_WITH_META = (0xA3, K | Q, "SetWithMeta without a reply on success.")
    ADD_WITH_META = (0xA4, K, "Add with explicit metadata; extras as SetWithMeta.")
    ADDQ_WITH_META = (0xA5, K | Q, "AddWithMeta without a reply on success.")
    SNAPSHOT_VB_STATES = (0xA6, G, "Removed.")
    VBUCKET_BATCH_COUNT = (0xA7, G, "Removed.")
    DEL_WITH_META = (
        0xA8,
        K,
        "Delete with explicit metadata. Extras 24/26/28/30: flags, delete time, rev seqno u64, "
        "cas u64, [options u32], [nmeta u16].",
    )
    DELQ_WITH_META = (0xA9, K | Q, "DelWithMeta without a reply on success.")
    CREATE_CHECKPOINT = (0xAA, G, "Removed.")
    NOTIFY_VBUCKET_UPDATE = (0xAC, G, "Removed.")
    ENABLE_TRAFFIC = (0xAD, _, "Let data traffic in after warmup.")
    DISABLE_TRAFFIC = (0xAE, _, "Stop data traffic.")
    IFCONFIG = (0xAF, _, "Network interface control.")
    CHANGE_VB_FILTER = (0xB0, G, "Removed.")
    CHECKPOINT_PERSISTENCE = (0xB1, G, "Removed.")
    RETURN_META = (
        0xB2,
        K,
        "Store/add/delete and return metadata. Extras 12: type u32, flags u32, expiry u32.",
    )
    COMPACT_DB = (
        0xB3,
        _,
        "Compact a vbucket file. Extras 24: purge before ts u64, purge before seqno u64, drop "
        "deletes u8, pad u8, file id u16, pad u32.",
    )
    SET_CLUSTER_CONFIG = (
        0xB4,
        _,
        "Install a cluster map. Extras 16: epoch i64, revision i64; key = bucket; value = map.",
    )
    GET_CLUSTER_CONFIG = (
        0xB5,
        _,
        "Read the cluster map. Extras 0 or 16 (known epoch i64, revision i64); value of the "
        "reply is JSON, empty when the client is up to date.",
    )
    GET_RANDOM_KEY = (
        0xB6,
        D,
        "Return any resident document. Extras 0, 4 (collection id) or 5 (collection id, "
        "include-xattr u8).",
    )
    SEQNO_PERSISTENCE = (0xB7, D, "Wait until a seqno is persisted. Extras 8: seqno u64.")
    GET_KEYS = (0xB8, K, "List keys from a start key. Extras 0 or 4: count u32.")
    COLLECTIONS_SET_MANIFEST = (0xB9, _, "Install a collections manifest (JSON value).")
    COLLECTIONS_GET_MANIFEST = (0xBA, _, "Read the collections manifest; reply value is JSON.")
    COLLECTIONS_GET_ID = (
        0xBB,
        _,
        'Resolve "scope.collection" (value). Reply extras 12: manifest uid u64, collection id u32.',
    )
    COLLECTIONS_GET_SCOPE_ID = (
        0xBC,
        _,
        "Resolve a scope name (value). Reply extras 12: manifest uid u64, scope id u32.",
    )
    SET_DRIFT_COUNTER_STATE = (0xC1, G, "Removed.")
    GET_ADJUSTED_TIME = (0xC2, G, "Removed.")
    SUBDOC_GET = (
        0xC5,
        K,
        "Read a path. Extras 3 (path length u16, flags u8) or 4 (+ doc flags u8).",
    )
    SUBDOC_EXISTS = (0xC6, K, "Test a path. Extras as SubdocGet.")
    SUBDOC_DICT_ADD = (
        0xC7,
        K,
        "Add a dictionary entry. Extras 3, 4, 7 or 8 (path length u16, flags u8, [expiry u32], "
        "[doc flags u8]).",
    )
    SUBDOC_DICT_UPSERT = (0xC8, K, "Set a dictionary entry. Extras as SubdocDictAdd.")
    SUBDOC_DELETE = (0xC9, K, "Remove a path. Extras as SubdocDictAdd.")
    SUBDOC_REPLACE = (0xCA, K, "Replace a path. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_PUSH_LAST = (0xCB, K, "Append to an array. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_PUSH_FIRST = (0xCC, K, "Prepend to an array. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_INSERT = (0xCD, K, "Insert into an array. Extras as SubdocDictAdd.")
    SUBDOC_ARRAY_ADD_UNIQUE = (0xCE, K, "Append to an array if absent. Extras as SubdocDictAdd.")
    SUBDOC_COUNTER = (0xCF, K, "Add to a number at a path. Extras as SubdocDictAdd.")
    SUBDOC_MULTI_LOOKUP = (
        0xD0,
        K,
        "Several lookups. Extras 0 or 1 (doc flags); value = repeated (opcode u8, flags u8, "
        "path length u16, path).",
    )
    SUBDOC_MULTI_MUTATION = (
        0xD1,
        K,
        "Several mutations. Extras 0, 1, 4 or 5 ([expiry u32][doc flags u8]); value = repeated "
        "(opcode u8, flags u8, path length u16, value length u32, path, value).",
    )
    SUBDOC_GET_COUNT = (0xD2, K, "Count the elements at a path. Extras as SubdocGet.")
    SUBDOC_REPLACE_BODY_WITH_XATTR = (0xD3, K, "Set the document body from an xattr path.")
    RANGE_SCAN_CREATE = (0xDA, D, "Create a range scan (JSON value); reply value is a 16-byte id.")
    RANGE_SCAN_CONTINUE = (
        0xDB,
        D,
        "Continue a range scan. Extras 28: id 16, item limit u32, time limit ms u32, byte "
        "limit u32.",
    )
    RANGE_SCAN_CANCEL = (0xDC, D, "Cancel a range scan. Extras 16: id.")
    PREPARE_SNAPSHOT = (0xE0, _, "Prepare a downloadable vbucket snapshot.")
    RELEASE_SNAPSHOT = (0xE1, _, "Release a prepared snapshot.")
    DOWNLOAD_SNAPSHOT = (0xE2, _, "Make this node fetch a snapshot (JSON value).")
    GET_FILE_FRAGMENT = (0xE3, _, "Read part of a snapshot file (JSON value).")
    SCRUB = (0xF0, G, "Removed.")
    ISASL_REFRESH = (0xF1, _, "Reload the SASL password database.")
    SSL_CERTS_REFRESH = (0xF2, G, "Removed.")
    GET_CMD_TIMER = (0xF3, _, "Command timing histogram. Extras 1: opcode.")
    SET_CTRL_TOKEN = (
        0xF4,
        T,
        "Set the ns_server session token. Extras 8: new token; header CAS = old token.",
    )
    GET_CTRL_TOKEN = (0xF5, T, "Read the session token (in the reply CAS).")
    UPDATE_USER_PERMISSIONS = (0xF6, _, "Update RBAC entry of an external user (JSON value).")
    RBAC_REFRESH = (0xF7, _, "Reload the RBAC database.")
    AUTH_PROVIDER = (0xF8, _, "Offer to be an authentication provider.")
    DROP_PRIVILEGES = (0xFB, _, "Drop one privilege (testing).")
    ADJUST_TIMEOFDAY = (0xFC, _, "Shift the clock (testing). Extras 9: offset u64, type u8.")
    EWB_CTL = (0xFD, _, "Drive the ewouldblock test engine. Extras 12.")
    GET_ERROR_MAP = (0xFE, _, "Read the error map. Value: version u16. Reply value is JSON.")


class ServerOpcode(_Numbered):
    """Commands of the magics 0x82 and 0x83, with which a server asks something of a client."""

    CLUSTERMAP_CHANGE_NOTIFICATION = (
        0x01,
        _,
        "The server sends that the cluster map changed; extras 4 bytes (revision u32) or 16 "
        "bytes (epoch i64, revision i64), key = bucket name (empty = global), value = map "
        "unless brief mode. No reply wanted.",
    )
    AUTHENTICATE = (
        0x02,
        _,
        "Server asks a registered auth provider to authenticate (JSON value). Reply with magic "
        "0x83.",
    )
    ACTIVE_EXTERNAL_USERS = (
        0x03,
        _,
        "Server pushes the JSON list of active external users to an auth provider.",
    )
    GET_AUTHORIZATION = (
        0x04,
        _,
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
