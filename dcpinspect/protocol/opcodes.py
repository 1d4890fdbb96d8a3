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

    def __new__(cls, code: int, doc: str, traits: Trait = Trait.NONE) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.traits = traits
        member.doc = doc
        return member


class Opcode(_Numbered):
    """Commands of the magics 0x80, 0x81, 0x08 and 0x18."""

    GET = (0x00, "Read one document. Reply extras: 4-byte item flags; value = document.", KEYED)
    SET = (
        0x01,
        "Store unconditionally (or if CAS matches). Extras 8: flags u32, expiry u32.",
        KEYED,
    )
    ADD = (0x02, "Store only if absent. Extras 8: flags u32, expiry u32.", KEYED)
    REPLACE = (0x03, "Store only if present. Extras 8: flags u32, expiry u32.", KEYED)
    DELETE = (
        0x04,
        "Remove a document. No extras. Reply extras 16 (vbucket uuid, seqno) when "
        "MUTATION_SEQNO is on.",
        KEYED,
    )
    INCREMENT = (
        0x05,
        "Add to a counter. Extras 20: delta u64, initial u64, expiry u32. Reply value: new "
        "value u64.",
        KEYED,
    )
    DECREMENT = (
        0x06,
        "Subtract from a counter (floors at 0). Extras 20 as Increment. Reply value: new value "
        "u64.",
        KEYED,
    )
    QUIT = (0x07, "Close the connection after replying.")
    FLUSH = (0x08, "Drop all data of the bucket; no longer served.", GONE)
    GETQ = (0x09, "Get without a reply on a miss.", KEYED | QUIET)
    NOOP = (0x0A, "Connection keep-alive; reply is empty.")
    VERSION = (0x0B, "Ask the server version; reply value is text.")
    GETK = (0x0C, "Get with the key echoed in the reply.", KEYED)
    GETKQ = (0x0D, "Getk without a reply on a miss.", KEYED | QUIET)
    APPEND = (0x0E, "Append the value to an existing document.", KEYED)
    PREPEND = (0x0F, "Prepend the value to an existing document.", KEYED)
    STAT = (
        0x10,
        "Ask for a statistics group (key). Many replies, one name/value each, ended by one "
        "with no key and no value.",
    )
    SETQ = (0x11, "Set without a reply on success.", KEYED | QUIET)
    ADDQ = (0x12, "Add without a reply on success.", KEYED | QUIET)
    REPLACEQ = (0x13, "Replace without a reply on success.", KEYED | QUIET)
    DELETEQ = (0x14, "Delete without a reply on success.", KEYED | QUIET)
    INCREMENTQ = (0x15, "Increment without a reply on success.", KEYED | QUIET)
    DECREMENTQ = (0x16, "Decrement without a reply on success.", KEYED | QUIET)
    QUITQ = (0x17, "Quit without a reply.", QUIET)
    FLUSHQ = (0x18, "Quiet flush; no longer served.", GONE)
    APPENDQ = (0x19, "Append without a reply on success.", KEYED | QUIET)
    PREPENDQ = (0x1A, "Prepend without a reply on success.", KEYED | QUIET)
    VERBOSITY = (0x1B, "Set log verbosity. Extras 4: level u32.")
    TOUCH = (0x1C, "Change the expiry. Extras 4: expiry u32.", KEYED)
    GAT = (0x1D, "Get and touch. Extras 4: expiry u32.", KEYED)
    GATQ = (0x1E, "Get and touch without a reply on a miss.", KEYED | QUIET)
    HELLO = (
        0x1F,
        'Negotiate features. Key = agent name (or JSON with "a" and "i"); value = list of u16 '
        "feature codes. Reply value = granted codes.",
    )
    SASL_LIST_MECHS = (0x20, "List SASL mechanisms; reply value is a space-separated list.")
    SASL_AUTH = (
        0x21,
        "Start SASL. Key = mechanism, value = initial client data. Reply 0x21 means continue "
        "with SaslStep.",
    )
    SASL_STEP = (0x22, "Continue SASL. Key = mechanism, value = client data.")
    IOCTL_GET = (0x23, "Read a server control property (key).")
    IOCTL_SET = (0x24, "Set a server control property (key, value).")
    CONFIG_VALIDATE = (0x25, "Validate a proposed memcached configuration (value).")
    CONFIG_RELOAD = (0x26, "Reload the memcached configuration file.")
    AUDIT_PUT = (0x27, "Insert an audit event. Extras 4: event id u32; value = JSON.")
    AUDIT_CONFIG_RELOAD = (0x28, "Reload the audit configuration.")
    SHUTDOWN = (0x29, "Shut the node down (needs the control token in CAS).", TOKEN)
    SET_BUCKET_THROTTLE_PROPERTIES = (
        0x2A,
        "Set per-bucket throttle limits (key = bucket, JSON value).",
    )
    SET_BUCKET_DATA_LIMIT_EXCEEDED = (
        0x2B,
        "Mark a bucket over its data limit. Extras 2: status u16 to return to writers; key = "
        "bucket.",
    )
    SET_NODE_THROTTLE_PROPERTIES = (0x2C, "Set node-wide throttle limits; no longer served.")
    SET_ACTIVE_ENCRYPTION_KEYS = (0x2D, "Install data-at-rest encryption keys (JSON value).")
    PRUNE_ENCRYPTION_KEYS = (0x2E, "Ask to drop encryption keys that are no longer needed.")
    REGISTER_AUTH_TOKEN = (
        0x2F,
        "Register an auth token that later requests refer to by id (framing extra 7).",
    )
    RGET = (0x30, "Reserved range operation.", DATA | GONE)
    RSET = (0x31, "Reserved range operation.", DATA | GONE)
    RSETQ = (0x32, "Reserved range operation.", DATA | QUIET | GONE)
    RAPPEND = (0x33, "Reserved range operation.", DATA | GONE)
    RAPPENDQ = (0x34, "Reserved range operation.", DATA | QUIET | GONE)
    RPREPEND = (0x35, "Reserved range operation.", DATA | GONE)
    RPREPENDQ = (0x36, "Reserved range operation.", DATA | QUIET | GONE)
    RDELETE = (0x37, "Reserved range operation.", DATA | GONE)
    RDELETEQ = (0x38, "Reserved range operation.", DATA | QUIET | GONE)
    RINCR = (0x39, "Reserved range operation.", DATA | GONE)
    RINCRQ = (0x3A, "Reserved range operation.", DATA | QUIET | GONE)
    RDECR = (0x3B, "Reserved range operation.", DATA | GONE)
    RDECRQ = (0x3C, "Reserved range operation.", DATA | QUIET | GONE)
    SET_VBUCKET = (
        0x3D,
        "Set a vbucket state. Extras 1 (state u8); older clients put a u32 there. Optional "
        "JSON value: topology, use_snapshot, next_expected_state.",
    )
    GET_VBUCKET = (0x3E, "Read a vbucket state; reply value u32.")
    DEL_VBUCKET = (0x3F, 'Delete a vbucket; value "async=0" makes it synchronous.')
    TAP_CONNECT = (0x40, "TAP (removed in 5.0).", DATA | GONE)
    TAP_MUTATION = (0x41, "TAP (removed in 5.0).", DATA | GONE)
    TAP_DELETE = (0x42, "TAP (removed in 5.0).", DATA | GONE)
    TAP_FLUSH = (0x43, "TAP (removed in 5.0).", DATA | GONE)
    TAP_OPAQUE = (0x44, "TAP (removed in 5.0).", DATA | GONE)
    TAP_VBUCKET_SET = (0x45, "TAP (removed in 5.0).", DATA | GONE)
    TAP_CHECKPOINT_START = (0x46, "TAP (removed in 5.0).", DATA | GONE)
    TAP_CHECKPOINT_END = (0x47, "TAP (removed in 5.0).", DATA | GONE)
    GET_ALL_VB_SEQNOS = (
        0x48,
        "High seqnos of all vbuckets. Extras 0, 4 (state u32) or 8 (state u32, collection id "
        "u32). Reply value: repeated (vbucket u16, seqno u64).",
        DATA,
    )
    GET_EX = (
        0x49,
        "Read document and xattrs together (active vbucket). Reply extras 4: flags.",
        KEYED,
    )
    GET_EX_REPLICA = (0x4A, "GetEx against a replica vbucket.", KEYED)
    MUTATE_WITH_META = (
        0x4B,
        "Store or delete with explicit metadata (8.5). Extras 4: size of the JSON metadata "
        "that ends the value.",
        KEYED,
    )
    DCP_OPEN = (
        0x50,
        "Turn the connection into a DCP connection. Extras 8: reserved/seqno u32, flags u32; "
        "key = connection name.",
        PROTOCOL,
    )
    DCP_ADD_STREAM = (
        0x51,
        "Tell a consumer to request a stream from its producer. Extras 4: flags u32.",
        IN_VBUCKET,
    )
    DCP_CLOSE_STREAM = (0x52, "Close a stream of a vbucket.", IN_VBUCKET | STREAM_ID)
    DCP_STREAM_REQ = (
        0x53,
        "Ask a producer for a stream. Extras 48 (UPR: 40). Reply value: failover log, or "
        "8-byte rollback seqno with status 0x23.",
        IN_VBUCKET | Trait.OPENS,
    )
    DCP_GET_FAILOVER_LOG = (
        0x54,
        "Ask for a failover log. Reply value: repeated (uuid u64, seqno u64), newest first.",
        IN_VBUCKET,
    )
    DCP_STREAM_END = (
        0x55,
        "Producer ends a stream. Extras 4: reason u32.",
        COUNTED | UNANSWERED | STREAM_ID | Trait.ENDS,
    )
    DCP_SNAPSHOT_MARKER = (
        0x56,
        "Producer starts a snapshot. V1: extras 20. V2.x: extras 1 (version) + value 36/44/52. "
        "UPR: nothing at all.",
        COUNTED | UNANSWERED | STREAM_ID,
    )
    DCP_MUTATION = (
        0x57,
        "A document was stored. Extras 31 (30 in UPR, 32 in the 5.0 collections prototype).",
        KEYED | CHANGE | STREAM_ID,
    )
    DCP_DELETION = (
        0x58,
        "A document was deleted. Extras 18 (V1) or 21 (V2, with delete time); 5.0 prototype 19.",
        KEYED | CHANGE | STREAM_ID,
    )
    DCP_EXPIRATION = (
        0x59,
        "A document expired. Extras 20 (UPR and 3.x-6.0: 18; 5.0 prototype 19).",
        KEYED | CHANGE | STREAM_ID,
    )
    DCP_FLUSH = (
        0x5A,
        "Drop all data of a vbucket; specified by UPR, never sent by a release.",
        IN_VBUCKET | GONE,
    )
    DCP_SET_VBUCKET_STATE = (
        0x5B,
        "Takeover: change the consumer's vbucket state. Extras 1: state u8. Consumer replies.",
        COUNTED,
    )
    DCP_NOOP = (
        0x5C,
        "Producer's liveness probe; the consumer must reply with the same opaque.",
        PROTOCOL,
    )
    DCP_BUFFER_ACKNOWLEDGEMENT = (
        0x5D,
        "Consumer returns flow-control credit. Extras 4: bytes u32. No reply on success.",
        PROTOCOL | UNANSWERED,
    )
    DCP_CONTROL = (
        0x5E,
        "Consumer sets a connection option. Key = option, value = setting, no extras. Always "
        "answered.",
        PROTOCOL,
    )
    DCP_SYSTEM_EVENT = (
        0x5F,
        "Collection or scope event. Extras 13: by_seqno u64, event u32, version u8 (12 in "
        "5.0-6.0, without the version).",
        CHANGE | STREAM_ID,
    )
    DCP_PREPARE = (
        0x60,
        "First stage of a durable write. Extras 31. CAS must be non-zero.",
        KEYED | CHANGE,
    )
    DCP_SEQNO_ACKNOWLEDGED = (
        0x61,
        "Replica acknowledges prepares up to a seqno. Extras 8. No reply on success.",
        IN_VBUCKET | UNANSWERED,
    )
    DCP_COMMIT = (
        0x62,
        "A prepare is committed. Extras 16: prepared seqno, commit seqno; key, no value.",
        KEYED | CHANGE,
    )
    DCP_ABORT = (
        0x63,
        "A prepare is dropped. Extras 16: prepared seqno, abort seqno; key, no value.",
        KEYED | CHANGE,
    )
    DCP_SEQNO_ADVANCED = (
        0x64,
        "The stream moved to a seqno without an event for this client; in a filtered backfill "
        "after each 10,000 items that are left out, too (8.5). Extras 8: seqno u64.",
        WITH_SEQNO | STREAM_ID,
    )
    DCP_OSO_SNAPSHOT = (
        0x65,
        "Start or end of an OSO snapshot. Extras 4: flags u32 (1 start, 2 end).",
        COUNTED | UNANSWERED | STREAM_ID,
    )
    DCP_CACHE_TRANSFER = (
        0x66,
        "Batch of cached documents sent before the stream proper (8.5). No extras, no key; "
        "value = repeated 40-byte record + key + value.",
        COUNTED | UNANSWERED | STREAM_ID,
    )
    DCP_CACHE_TRANSFER_END = (
        0x67,
        "Cache transfer is over and normal streaming follows (8.5). Header only.",
        COUNTED | UNANSWERED | STREAM_ID,
    )
    GET_FUSION_STORAGE_SNAPSHOT = (0x70, "Fusion storage snapshot management.")
    RELEASE_FUSION_STORAGE_SNAPSHOT = (0x71, "Fusion storage snapshot management.")
    MOUNT_FUSION_VBUCKET = (0x72, "Fusion vbucket management.")
    UNMOUNT_FUSION_VBUCKET = (0x73, "Fusion vbucket management.")
    SYNC_FUSION_LOGSTORE = (0x74, "Fusion log store management.")
    START_FUSION_UPLOADER = (0x75, "Fusion uploader management.")
    STOP_FUSION_UPLOADER = (0x76, "Fusion uploader management.")
    DELETE_FUSION_NAMESPACE = (0x77, "Fusion namespace management.")
    GET_FUSION_NAMESPACES = (0x78, "Fusion namespace management.")
    CREATE_FUSION_NAMESPACE = (0x79, "Fusion namespace management.")
    STOP_PERSISTENCE = (0x80, "Pause the flusher (testing).")
    START_PERSISTENCE = (0x81, "Resume the flusher (testing).")
    SET_PARAM = (
        0x82,
        "Set an engine parameter. Extras 4: category u32; key = name, value = setting.",
    )
    GET_REPLICA = (0x83, "Get from a replica vbucket.", KEYED)
    SET_CHRONICLE_AUTH_TOKEN = (0x84, "Set the chronicle auth token of a bucket (JSON value).")
    CREATE_BUCKET = (0x85, "Create a bucket (key = name, value = module NUL config).")
    DELETE_BUCKET = (0x86, "Delete a bucket.")
    LIST_BUCKETS = (0x87, "List buckets; reply value is a space-separated list.")
    SELECT_BUCKET = (0x89, "Bind the connection to a bucket (key = name).")
    PAUSE_BUCKET = (0x8A, "Quiesce a bucket.")
    RESUME_BUCKET = (0x8B, "Undo PauseBucket.")
    VALIDATE_BUCKET_CONFIG = (0x8C, "Validate a bucket configuration.")
    SET_BUCKET_CONFIG = (
        0x8D,
        "Set the whole configuration of a bucket. A reserved number: no server up to 8.5 knows "
        "the command.",
    )
    OBSERVE_SEQNO = (
        0x91,
        "Ask how far a vbucket history is persisted. Request value: vbucket uuid u64. Reply "
        "value: 27 bytes, or 43 after a hard failover.",
        DATA,
    )
    OBSERVE = (
        0x92,
        "Ask the state of keys. Value: repeated (vbucket u16, key length u16, key).",
        DATA,
    )
    EVICT_KEY = (0x93, "Evict a value from memory (testing).", KEYED)
    GET_LOCKED = (0x94, "Read and lock. Extras 0 or 4: lock time u32.", KEYED)
    UNLOCK_KEY = (0x95, "Unlock; CAS must be the lock CAS.", KEYED)
    GET_FAILOVER_LOG = (0x96, "Failover log on a non-DCP connection; reply as 0x54.", DATA)
    LAST_CLOSED_CHECKPOINT = (0x97, "Removed.", GONE)
    DEREGISTER_TAP_CLIENT = (0x9E, "TAP (removed in 5.0).", GONE)
    RESET_REPLICATION_CHAIN = (0x9F, "Removed.", GONE)
    GET_META = (
        0xA0,
        "Read metadata. Extras 0 or 1 (version). Reply extras 20 or 21: deleted u32, flags "
        "u32, expiry u32, rev seqno u64, [datatype u8].",
        KEYED,
    )
    GETQ_META = (0xA1, "GetMeta without a reply on a miss.", KEYED | QUIET)
    SET_WITH_META = (
        0xA2,
        "Store with explicit metadata. Extras 24/26/28/30: flags, expiry, rev seqno u64, cas "
        "u64, [options u32], [nmeta u16].",
        KEYED,
    )
    SETQ_WITH_META = (0xA3, "SetWithMeta without a reply on success.", KEYED | QUIET)
    ADD_WITH_META = (0xA4, "Add with explicit metadata; extras as SetWithMeta.", KEYED)
    ADDQ_WITH_META = (0xA5, "AddWithMeta without a reply on success.", KEYED | QUIET)
    SNAPSHOT_VB_STATES = (0xA6, "Removed.", GONE)
    VBUCKET_BATCH_COUNT = (0xA7, "Removed.", GONE)
    DEL_WITH_META = (
        0xA8,
        "Delete with explicit metadata. Extras 24/26/28/30: flags, delete time, rev seqno u64, "
        "cas u64, [options u32], [nmeta u16].",
        KEYED,
    )
    DELQ_WITH_META = (0xA9, "DelWithMeta without a reply on success.", KEYED | QUIET)
    CREATE_CHECKPOINT = (0xAA, "Removed.", GONE)
    NOTIFY_VBUCKET_UPDATE = (0xAC, "Removed.", GONE)
    ENABLE_TRAFFIC = (0xAD, "Let data traffic in after warmup.")
    DISABLE_TRAFFIC = (0xAE, "Stop data traffic.")
    IFCONFIG = (0xAF, "Network interface control.")
    CHANGE_VB_FILTER = (0xB0, "Removed.", GONE)
    CHECKPOINT_PERSISTENCE = (0xB1, "Removed.", GONE)
    RETURN_META = (
        0xB2,
        "Store/add/delete and return metadata. Extras 12: type u32, flags u32, expiry u32.",
        KEYED,
    )
    COMPACT_DB = (
        0xB3,
        "Compact a vbucket file. Extras 24: purge before ts u64, purge before seqno u64, drop "
        "deletes u8, pad u8, file id u16, pad u32.",
    )
    SET_CLUSTER_CONFIG = (
        0xB4,
        "Install a cluster map. Extras 16: epoch i64, revision i64; key = bucket; value = map.",
    )
    GET_CLUSTER_CONFIG = (
        0xB5,
        "Read the cluster map. Extras 0 or 16 (known epoch i64, revision i64); value of the "
        "reply is JSON, empty when the client is up to date.",
    )
    GET_RANDOM_KEY = (
        0xB6,
        "Return any resident document. Extras 0, 4 (collection id) or 5 (collection id, "
        "include-xattr u8).",
        DATA,
    )
    SEQNO_PERSISTENCE = (0xB7, "Wait until a seqno is persisted. Extras 8: seqno u64.", DATA)
    GET_KEYS = (0xB8, "List keys from a start key. Extras 0 or 4: count u32.", KEYED)
    COLLECTIONS_SET_MANIFEST = (0xB9, "Install a collections manifest (JSON value).")
    COLLECTIONS_GET_MANIFEST = (0xBA, "Read the collections manifest; reply value is JSON.")
    COLLECTIONS_GET_ID = (
        0xBB,
        'Resolve "scope.collection" (value). Reply extras 12: manifest uid u64, collection id u32.',
    )
    COLLECTIONS_GET_SCOPE_ID = (
        0xBC,
        "Resolve a scope name (value). Reply extras 12: manifest uid u64, scope id u32.",
    )
    SET_DRIFT_COUNTER_STATE = (0xC1, "Removed.", GONE)
    GET_ADJUSTED_TIME = (0xC2, "Removed.", GONE)
    SUBDOC_GET = (
        0xC5,
        "Read a path. Extras 3 (path length u16, flags u8) or 4 (+ doc flags u8).",
        KEYED,
    )
    SUBDOC_EXISTS = (0xC6, "Test a path. Extras as SubdocGet.", KEYED)
    SUBDOC_DICT_ADD = (
        0xC7,
        "Add a dictionary entry. Extras 3, 4, 7 or 8 (path length u16, flags u8, [expiry u32], "
        "[doc flags u8]).",
        KEYED,
    )
    SUBDOC_DICT_UPSERT = (0xC8, "Set a dictionary entry. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_DELETE = (0xC9, "Remove a path. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_REPLACE = (0xCA, "Replace a path. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_ARRAY_PUSH_LAST = (0xCB, "Append to an array. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_ARRAY_PUSH_FIRST = (0xCC, "Prepend to an array. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_ARRAY_INSERT = (0xCD, "Insert into an array. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_ARRAY_ADD_UNIQUE = (
        0xCE,
        "Append to an array if absent. Extras as SubdocDictAdd.",
        KEYED,
    )
    SUBDOC_COUNTER = (0xCF, "Add to a number at a path. Extras as SubdocDictAdd.", KEYED)
    SUBDOC_MULTI_LOOKUP = (
        0xD0,
        "Several lookups. Extras 0 or 1 (doc flags); value = repeated (opcode u8, flags u8, "
        "path length u16, path).",
        KEYED,
    )
    SUBDOC_MULTI_MUTATION = (
        0xD1,
        "Several mutations. Extras 0, 1, 4 or 5 ([expiry u32][doc flags u8]); value = repeated "
        "(opcode u8, flags u8, path length u16, value length u32, path, value).",
        KEYED,
    )
    SUBDOC_GET_COUNT = (0xD2, "Count the elements at a path. Extras as SubdocGet.", KEYED)
    SUBDOC_REPLACE_BODY_WITH_XATTR = (0xD3, "Set the document body from an xattr path.", KEYED)
    RANGE_SCAN_CREATE = (
        0xDA,
        "Create a range scan (JSON value); reply value is a 16-byte id.",
        DATA,
    )
    RANGE_SCAN_CONTINUE = (
        0xDB,
        "Continue a range scan. Extras 28: id 16, item limit u32, time limit ms u32, byte "
        "limit u32.",
        DATA,
    )
    RANGE_SCAN_CANCEL = (0xDC, "Cancel a range scan. Extras 16: id.", DATA)
    PREPARE_SNAPSHOT = (0xE0, "Prepare a downloadable vbucket snapshot.")
    RELEASE_SNAPSHOT = (0xE1, "Release a prepared snapshot.")
    DOWNLOAD_SNAPSHOT = (0xE2, "Make this node fetch a snapshot (JSON value).")
    GET_FILE_FRAGMENT = (0xE3, "Read part of a snapshot file (JSON value).")
    SCRUB = (0xF0, "Removed.", GONE)
    ISASL_REFRESH = (0xF1, "Reload the SASL password database.")
    SSL_CERTS_REFRESH = (0xF2, "Removed.", GONE)
    GET_CMD_TIMER = (0xF3, "Command timing histogram. Extras 1: opcode.")
    SET_CTRL_TOKEN = (
        0xF4,
        "Set the ns_server session token. Extras 8: new token; header CAS = old token.",
        TOKEN,
    )
    GET_CTRL_TOKEN = (0xF5, "Read the session token (in the reply CAS).", TOKEN)
    UPDATE_USER_PERMISSIONS = (0xF6, "Update RBAC entry of an external user (JSON value).")
    RBAC_REFRESH = (0xF7, "Reload the RBAC database.")
    AUTH_PROVIDER = (0xF8, "Offer to be an authentication provider.")
    DROP_PRIVILEGES = (0xFB, "Drop one privilege (testing).")
    ADJUST_TIMEOFDAY = (0xFC, "Shift the clock (testing). Extras 9: offset u64, type u8.")
    EWB_CTL = (0xFD, "Drive the ewouldblock test engine. Extras 12.")
    GET_ERROR_MAP = (0xFE, "Read the error map. Value: version u16. Reply value is JSON.")


class ServerOpcode(_Numbered):
    """Commands of the magics 0x82 and 0x83, with which a server asks something of a client."""

    CLUSTERMAP_CHANGE_NOTIFICATION = (
        0x01,
        "The server sends that the cluster map changed; extras 4 bytes (revision u32) or 16 "
        "bytes (epoch i64, revision i64), key = bucket name (empty = global), value = map "
        "unless brief mode. No reply wanted.",
    )
    AUTHENTICATE = (
        0x02,
        "Server asks a registered auth provider to authenticate (JSON value). Reply with magic "
        "0x83.",
    )
    ACTIVE_EXTERNAL_USERS = (
        0x03,
        "Server pushes the JSON list of active external users to an auth provider.",
    )
    GET_AUTHORIZATION = (
        0x04,
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
