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

    def __new__(cls, code: int, is_success: bool, meaning: str) -> Self:
        """Makes a member that is its code, with the other columns of the table as attributes."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.is_success = is_success
        member.meaning = meaning
        return member

    SUCCESS = (0x00, True, "Done")
    KEY_ENOENT = (
        0x01,
        False,
        'Key not found; on DCP also "no such stream for this vbucket" (before v7 status codes)',
    )
    KEY_EEXISTS = (
        0x02,
        False,
        'Key exists or CAS differs; on DCP "stream already exists" and, before v7 status '
        'codes, "opaque does not match the stream"',
    )
    E2BIG = (0x03, False, "Value too large")
    EINVAL = (0x04, False, "Malformed or invalid request")
    NOT_STORED = (0x05, False, "Not stored (catch-all)")
    DELTA_BADVAL = (0x06, False, "Counter value is not a number")
    NOT_MY_VBUCKET = (
        0x07,
        False,
        "This node does not serve the vbucket in the needed state; value may hold a cluster map",
    )
    NO_BUCKET = (0x08, False, "Connection is not bound to a bucket")
    LOCKED = (0x09, False, "Document is locked")
    DCP_STREAM_NOT_FOUND = (
        0x0A,
        False,
        "No such DCP stream (only after v7_dcp_status_codes was enabled)",
    )
    OPAQUE_NO_MATCH = (
        0x0B,
        False,
        "Opaque is not that of the stream (only after v7_dcp_status_codes was enabled)",
    )
    EWOULDTHROTTLE = (0x0C, False, "Would have been throttled (non-blocking throttling mode)")
    ECONFIG_ONLY = (0x0D, False, "Not possible in a config-only bucket")
    NOT_LOCKED = (0x0E, False, "Document is not locked")
    CAS_VALUE_INVALID = (0x0F, False, "CAS value is not acceptable")
    AUTH_STALE = (0x1F, False, "Authentication expired; authenticate again")
    AUTH_ERROR = (0x20, False, "Authentication failed")
    AUTH_CONTINUE = (0x21, True, "Authentication needs another step")
    ERANGE = (
        0x22,
        False,
        "Value out of range; on DCP start/end/snapshot seqnos inconsistent or seqno not above "
        "the previous one",
    )
    ROLLBACK = (0x23, True, "Consumer must roll back; value = 8-byte seqno (UPR: extras)")
    EACCESS = (0x24, False, "No permission")
    NOT_INITIALIZED = (0x25, False, "Node is not initialised yet")
    ENCRYPTION_KEY_NOT_AVAILABLE = (0x26, False, "Needed encryption key is missing")
    CHECKSUM_MISMATCH = (0x27, False, "Checksum of the data does not match")
    EXPIRY_OVERFLOW = (0x28, False, "Expiry does not fit 32 bits")
    LOCK_EXPIRY_OVERFLOW = (0x29, False, "Lock expiry does not fit 32 bits")
    RATE_LIMITED_NETWORK_INGRESS = (0x30, False, "Tenant ingress limit")
    RATE_LIMITED_NETWORK_EGRESS = (0x31, False, "Tenant egress limit")
    RATE_LIMITED_MAX_CONNECTIONS = (0x32, False, "Tenant connection limit")
    RATE_LIMITED_MAX_COMMANDS = (0x33, False, "Tenant command limit")
    SCOPE_SIZE_LIMIT_EXCEEDED = (
        0x34,
        False,
        "Scope data quota exceeded (removed from current headers)",
    )
    BUCKET_SIZE_LIMIT_EXCEEDED = (0x35, False, "Bucket is full")
    BUCKET_RESIDENT_RATIO_TOO_LOW = (0x36, False, "Resident ratio too low for writes")
    BUCKET_DATA_SIZE_TOO_BIG = (0x37, False, "Data size too big for writes")
    BUCKET_DISK_SPACE_TOO_LOW = (0x38, False, "Disk space too low for writes")
    BUCKET_PAUSED = (0x50, False, "Bucket is paused")
    CANCELLED = (0x51, False, "Cancelled, no effect")
    UNKNOWN_FRAMEINFO = (0x80, False, "A framing extra is not known to the server")
    UNKNOWN_COMMAND = (0x81, False, "Opcode not known")
    ENOMEM = (0x82, False, "Out of memory")
    NOT_SUPPORTED = (
        0x83,
        False,
        "Not supported here (also: DCP on an unordered connection, noop not enabled for "
        "xattr/collection streams, unsupported control)",
    )
    EINTERNAL = (0x84, False, "Internal error")
    EBUSY = (0x85, False, "Busy, try again")
    ETMPFAIL = (
        0x86,
        False,
        "Temporary failure, try again (warmup, initial disk snapshot in progress ...)",
    )
    XATTR_EINVAL = (0x87, False, "Xattr section malformed")
    UNKNOWN_COLLECTION = (0x88, False, "Collection id unknown; value is JSON with manifest_uid")
    NO_COLLECTIONS_MANIFEST = (
        0x89,
        False,
        "No collections manifest has been set (removed from current headers)",
    )
    CANNOT_APPLY_COLLECTIONS_MANIFEST = (0x8A, False, "Manifest could not be applied")
    COLLECTIONS_MANIFEST_IS_AHEAD = (
        0x8B,
        False,
        "Client manifest newer than the server one (removed from current headers)",
    )
    UNKNOWN_SCOPE = (0x8C, False, "Scope id unknown; value is JSON with manifest_uid")
    DCP_STREAM_ID_INVALID = (0x8D, False, "Stream-id missing, unexpected, zero or unknown")
    DURABILITY_INVALID_LEVEL = (0xA0, False, "Durability level invalid")
    DURABILITY_IMPOSSIBLE = (0xA1, False, "Not enough replicas for the durability asked")
    SYNC_WRITE_IN_PROGRESS = (0xA2, False, "Another durable write is pending on the key")
    SYNC_WRITE_AMBIGUOUS = (0xA3, False, "Durable write timed out, outcome unknown")
    SYNC_WRITE_RE_COMMIT_IN_PROGRESS = (
        0xA4,
        False,
        "Durable write is being re-committed after failover",
    )
    RANGE_SCAN_CANCELLED = (0xA5, False, "Scan was cancelled")
    RANGE_SCAN_MORE = (0xA6, True, "Scan has more data")
    RANGE_SCAN_COMPLETE = (0xA7, True, "Scan is finished")
    VB_UUID_NOT_EQUAL = (0xA8, False, "Vbucket uuid differs from the one required")
    SUBDOC_PATH_ENOENT = (0xC0, False, "Path not found")
    SUBDOC_PATH_MISMATCH = (0xC1, False, "Path meets the wrong JSON type")
    SUBDOC_PATH_EINVAL = (0xC2, False, "Path syntax error")
    SUBDOC_PATH_E2BIG = (0xC3, False, "Path too long")
    SUBDOC_DOC_E2DEEP = (0xC4, False, "Document nests too deep")
    SUBDOC_VALUE_CANTINSERT = (0xC5, False, "Value would break the JSON")
    SUBDOC_DOC_NOTJSON = (0xC6, False, "Document is not JSON")
    SUBDOC_NUM_ERANGE = (0xC7, False, "Number out of range")
    SUBDOC_DELTA_EINVAL = (0xC8, False, "Delta invalid")
    SUBDOC_PATH_EEXISTS = (0xC9, False, "Path exists already")
    SUBDOC_VALUE_ETOODEEP = (0xCA, False, "Value would nest too deep")
    SUBDOC_INVALID_COMBO = (0xCB, False, "Command mix not allowed")
    SUBDOC_MULTI_PATH_FAILURE = (0xCC, True, "At least one path failed; see the value")
    SUBDOC_SUCCESS_DELETED = (0xCD, True, "Done, on a deleted document")
    SUBDOC_XATTR_INVALID_FLAG_COMBO = (0xCE, False, "Xattr flag mix not allowed")
    SUBDOC_XATTR_INVALID_KEY_COMBO = (0xCF, False, "Only one xattr key at a time")
    SUBDOC_XATTR_UNKNOWN_MACRO = (0xD0, False, "Macro not known")
    SUBDOC_XATTR_UNKNOWN_VATTR = (0xD1, False, "Virtual xattr not known")
    SUBDOC_XATTR_CANT_MODIFY_VATTR = (0xD2, False, "Virtual xattr is read-only")
    SUBDOC_MULTI_PATH_FAILURE_DELETED = (0xD3, True, "As MULTI_PATH_FAILURE, on a deleted document")
    SUBDOC_INVALID_XATTR_ORDER = (0xD4, False, "Xattr paths must come first")
    SUBDOC_XATTR_UNKNOWN_VATTR_MACRO = (0xD5, False, "Virtual macro not known")
    SUBDOC_CAN_ONLY_REVIVE_DELETED_DOCUMENTS = (0xD6, False, "Document is alive")
    SUBDOC_DELETED_DOCUMENT_CANT_HAVE_VALUE = (0xD7, False, "A deleted document cannot hold a body")
    SUBDOC_FIELD_NOT_BINARY_VALUE = (0xD8, False, "Field is not a binary value")


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
