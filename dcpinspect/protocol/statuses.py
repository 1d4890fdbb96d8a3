"""Status codes of responses: number, name, whether the body is the command's own, meaning.

Source: kv_engine ``include/mcbp/protocol/status.h``. A body under any status that is not of the
success class is an optional JSON error document, not the command's payload.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Status(IntEnum):
    """Status codes with their meaning."""

    is_success: bool
    meaning: str

    def __new__(cls, code: int, meaning: str, is_success: bool = False) -> Self:
        """Makes a member that is its code, with the other columns of the table as attributes."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.is_success = is_success
        member.meaning = meaning
        return member

    SUCCESS = (0x00, "Done", True)
    KEY_ENOENT = (
        0x01,
        'Key not found; on DCP also "no such stream for this vbucket" (before v7 status codes)',
    )
    KEY_EEXISTS = (
        0x02,
        'Key exists or CAS differs; on DCP "stream already exists" and, before v7 status '
        'codes, "opaque does not match the stream"',
    )
    E2BIG = (0x03, "Value too large")
    EINVAL = (0x04, "Malformed or invalid request")
    NOT_STORED = (0x05, "Not stored (catch-all)")
    DELTA_BADVAL = (0x06, "Counter value is not a number")
    NOT_MY_VBUCKET = (
        0x07,
        "This node does not serve the vbucket in the needed state; value may hold a cluster map",
    )
    NO_BUCKET = (0x08, "Connection is not bound to a bucket")
    LOCKED = (0x09, "Document is locked")
    DCP_STREAM_NOT_FOUND = (0x0A, "No such DCP stream (only after v7_dcp_status_codes was enabled)")
    OPAQUE_NO_MATCH = (
        0x0B,
        "Opaque is not that of the stream (only after v7_dcp_status_codes was enabled)",
    )
    EWOULDTHROTTLE = (0x0C, "Would have been throttled (non-blocking throttling mode)")
    ECONFIG_ONLY = (0x0D, "Not possible in a config-only bucket")
    NOT_LOCKED = (0x0E, "Document is not locked")
    CAS_VALUE_INVALID = (0x0F, "CAS value is not acceptable")
    AUTH_STALE = (0x1F, "Authentication expired; authenticate again")
    AUTH_ERROR = (0x20, "Authentication failed")
    AUTH_CONTINUE = (0x21, "Authentication needs another step", True)
    ERANGE = (
        0x22,
        "Value out of range; on DCP start/end/snapshot seqnos inconsistent or seqno not above "
        "the previous one",
    )
    ROLLBACK = (0x23, "Consumer must roll back; value = 8-byte seqno (UPR: extras)", True)
    EACCESS = (0x24, "No permission")
    NOT_INITIALIZED = (0x25, "Node is not initialised yet")
    ENCRYPTION_KEY_NOT_AVAILABLE = (0x26, "Needed encryption key is missing")
    CHECKSUM_MISMATCH = (0x27, "Checksum of the data does not match")
    EXPIRY_OVERFLOW = (0x28, "Expiry does not fit 32 bits")
    LOCK_EXPIRY_OVERFLOW = (0x29, "Lock expiry does not fit 32 bits")
    RATE_LIMITED_NETWORK_INGRESS = (0x30, "Tenant ingress limit")
    RATE_LIMITED_NETWORK_EGRESS = (0x31, "Tenant egress limit")
    RATE_LIMITED_MAX_CONNECTIONS = (0x32, "Tenant connection limit")
    RATE_LIMITED_MAX_COMMANDS = (0x33, "Tenant command limit")
    SCOPE_SIZE_LIMIT_EXCEEDED = (0x34, "Scope data quota exceeded (removed from current headers)")
    BUCKET_SIZE_LIMIT_EXCEEDED = (0x35, "Bucket is full")
    BUCKET_RESIDENT_RATIO_TOO_LOW = (0x36, "Resident ratio too low for writes")
    BUCKET_DATA_SIZE_TOO_BIG = (0x37, "Data size too big for writes")
    BUCKET_DISK_SPACE_TOO_LOW = (0x38, "Disk space too low for writes")
    BUCKET_PAUSED = (0x50, "Bucket is paused")
    CANCELLED = (0x51, "Cancelled, no effect")
    UNKNOWN_FRAMEINFO = (0x80, "A framing extra is not known to the server")
    UNKNOWN_COMMAND = (0x81, "Opcode not known")
    ENOMEM = (0x82, "Out of memory")
    NOT_SUPPORTED = (
        0x83,
        "Not supported here (also: DCP on an unordered connection, noop not enabled for "
        "xattr/collection streams, unsupported control)",
    )
    EINTERNAL = (0x84, "Internal error")
    EBUSY = (0x85, "Busy, try again")
    ETMPFAIL = (
        0x86,
        "Temporary failure, try again (warmup, initial disk snapshot in progress ...)",
    )
    XATTR_EINVAL = (0x87, "Xattr section malformed")
    UNKNOWN_COLLECTION = (0x88, "Collection id unknown; value is JSON with manifest_uid")
    NO_COLLECTIONS_MANIFEST = (
        0x89,
        "No collections manifest has been set (removed from current headers)",
    )
    CANNOT_APPLY_COLLECTIONS_MANIFEST = (0x8A, "Manifest could not be applied")
    COLLECTIONS_MANIFEST_IS_AHEAD = (
        0x8B,
        "Client manifest newer than the server one (removed from current headers)",
    )
    UNKNOWN_SCOPE = (0x8C, "Scope id unknown; value is JSON with manifest_uid")
    DCP_STREAM_ID_INVALID = (0x8D, "Stream-id missing, unexpected, zero or unknown")
    DURABILITY_INVALID_LEVEL = (0xA0, "Durability level invalid")
    DURABILITY_IMPOSSIBLE = (0xA1, "Not enough replicas for the durability asked")
    SYNC_WRITE_IN_PROGRESS = (0xA2, "Another durable write is pending on the key")
    SYNC_WRITE_AMBIGUOUS = (0xA3, "Durable write timed out, outcome unknown")
    SYNC_WRITE_RE_COMMIT_IN_PROGRESS = (0xA4, "Durable write is being re-committed after failover")
    RANGE_SCAN_CANCELLED = (0xA5, "Scan was cancelled")
    RANGE_SCAN_MORE = (0xA6, "Scan has more data", True)
    RANGE_SCAN_COMPLETE = (0xA7, "Scan is finished", True)
    VB_UUID_NOT_EQUAL = (0xA8, "Vbucket uuid differs from the one required")
    SUBDOC_PATH_ENOENT = (0xC0, "Path not found")
    SUBDOC_PATH_MISMATCH = (0xC1, "Path meets the wrong JSON type")
    SUBDOC_PATH_EINVAL = (0xC2, "Path syntax error")
    SUBDOC_PATH_E2BIG = (0xC3, "Path too long")
    SUBDOC_DOC_E2DEEP = (0xC4, "Document nests too deep")
    SUBDOC_VALUE_CANTINSERT = (0xC5, "Value would break the JSON")
    SUBDOC_DOC_NOTJSON = (0xC6, "Document is not JSON")
    SUBDOC_NUM_ERANGE = (0xC7, "Number out of range")
    SUBDOC_DELTA_EINVAL = (0xC8, "Delta invalid")
    SUBDOC_PATH_EEXISTS = (0xC9, "Path exists already")
    SUBDOC_VALUE_ETOODEEP = (0xCA, "Value would nest too deep")
    SUBDOC_INVALID_COMBO = (0xCB, "Command mix not allowed")
    SUBDOC_MULTI_PATH_FAILURE = (0xCC, "At least one path failed; see the value", True)
    SUBDOC_SUCCESS_DELETED = (0xCD, "Done, on a deleted document", True)
    SUBDOC_XATTR_INVALID_FLAG_COMBO = (0xCE, "Xattr flag mix not allowed")
    SUBDOC_XATTR_INVALID_KEY_COMBO = (0xCF, "Only one xattr key at a time")
    SUBDOC_XATTR_UNKNOWN_MACRO = (0xD0, "Macro not known")
    SUBDOC_XATTR_UNKNOWN_VATTR = (0xD1, "Virtual xattr not known")
    SUBDOC_XATTR_CANT_MODIFY_VATTR = (0xD2, "Virtual xattr is read-only")
    SUBDOC_MULTI_PATH_FAILURE_DELETED = (0xD3, "As MULTI_PATH_FAILURE, on a deleted document", True)
    SUBDOC_INVALID_XATTR_ORDER = (0xD4, "Xattr paths must come first")
    SUBDOC_XATTR_UNKNOWN_VATTR_MACRO = (0xD5, "Virtual macro not known")
    SUBDOC_CAN_ONLY_REVIVE_DELETED_DOCUMENTS = (0xD6, "Document is alive")
    SUBDOC_DELETED_DOCUMENT_CANT_HAVE_VALUE = (0xD7, "A deleted document cannot hold a body")
    SUBDOC_FIELD_NOT_BINARY_VALUE = (0xD8, "Field is not a binary value")


_BY_CODE = {int(status): status for status in Status}
SUCCESS_CLASS = frozenset(int(status) for status in Status if status.is_success)
"""Codes whose body holds the command's normal payload."""

APPLICATION_STATUSES = range(0xFF00, 0x10000)
"""Codes reserved for applications and proxies."""


def status_name(code: int) -> str:
    """Returns the lower-case name of a status, ``status_0x1234`` for one that nobody described."""
    status = _BY_CODE.get(code)
    return status.name.lower() if status is not None else f"status_0x{code:04x}"


def status_meaning(code: int) -> str:
    """Returns what a status means, in one sentence; for unknown ones, that it is unknown."""
    status = _BY_CODE.get(code)
    if status is not None:
        return status.meaning
    if code in APPLICATION_STATUSES:
        return "Reserved for applications and proxies"
    return "Not a known status"
