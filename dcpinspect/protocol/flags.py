"""Flag bits and small enumerations of DCP, one table each.

Names are those of the specification in kebab case; the text says since when a bit exists. Source:
kv_engine ``docs/dcp/documentation`` and ``include/memcached/dcp_stream_id.h``, ``dcp.h``, tags 5.0
to 8.0.
"""

from dcpinspect.protocol.fields import Bit, bits_value

OPEN_FLAGS = (
    Bit(0x001, "producer", "the TCP server becomes the producer; clear: it becomes the consumer"),
    Bit(0x002, "notifier", "only announces changes (3.0-6.6, rejected since 7.0)"),
    Bit(0x004, "include-xattrs", "values may start with xattrs (5.0)"),
    Bit(0x008, "no-value", "no document bodies; datatype 0 or xattr (5.0)"),
    Bit(0x010, "collections-prototype", "collections of the 5.0-6.0 prototype, rejected later"),
    Bit(0x020, "include-delete-times", "deletions use the v2 layout with a delete time (5.5)"),
    Bit(
        0x040,
        "no-value-with-underlying-datatype",
        "no document bodies; the datatype is that of the stored document (6.5)",
    ),
    Bit(
        0x080, "point-in-time-recovery", "never released as a feature (7.0-7.6), rejected since 8.0"
    ),
    Bit(
        0x100,
        "include-deleted-user-xattrs",
        "deletions carry user xattrs too; needs include-xattrs (6.6)",
    ),
    Bit(
        0x200,
        "skip-deletes-in-initial-backfill",
        "deletions of the first backfill, from 0, are left out; needs collections (8.5)",
    ),
)
PRODUCER = bits_value(OPEN_FLAGS, ("producer",))
INCLUDE_XATTRS = bits_value(OPEN_FLAGS, ("include-xattrs",))
UNDERLYING_DATATYPE = bits_value(OPEN_FLAGS, ("no-value-with-underlying-datatype",))
NO_VALUE = bits_value(OPEN_FLAGS, ("no-value", "no-value-with-underlying-datatype"))
"""Flags by which values are left out."""
SKIP_DELETES = bits_value(OPEN_FLAGS, ("skip-deletes-in-initial-backfill",))

STREAM_FLAGS = (
    Bit(0x001, "takeover", "move the vbucket to the consumer"),
    Bit(0x002, "disk-only", "stop at the persisted seqno (3.0)"),
    Bit(0x004, "to-latest", "the server sets the end to the high seqno (3.0)"),
    Bit(0x008, "no-value", "moved to the open flags, rejected since 5.0"),
    Bit(0x010, "active-only", "only from an active vbucket (5.0)"),
    Bit(0x020, "strict-vbucket-uuid", "check the vbucket uuid even at start 0 (5.1)"),
    Bit(0x040, "from-latest", "the server sets start and snapshot to the high seqno (7.2)"),
    Bit(0x080, "ignore-purged-tombstones", "no rollback because of purged deletions (7.2)"),
    Bit(
        0x100,
        "cache-transfer",
        "send cached documents first; with takeover and active-only at most (8.5)",
    ),
)
TAKEOVER = bits_value(STREAM_FLAGS, ("takeover",))
TO_LATEST = bits_value(STREAM_FLAGS, ("to-latest",))
ACTIVE_ONLY = bits_value(STREAM_FLAGS, ("active-only",))
STRICT = bits_value(STREAM_FLAGS, ("strict-vbucket-uuid",))
FROM_LATEST = bits_value(STREAM_FLAGS, ("from-latest",))
IGNORE_PURGED = bits_value(STREAM_FLAGS, ("ignore-purged-tombstones",))
CACHE_TRANSFER = bits_value(STREAM_FLAGS, ("cache-transfer",))
END_FLAGS = ("disk-only", "to-latest")
"""Names of the flags by which the server chooses the end, whatever the request asks for."""
TO_AN_END = bits_value(STREAM_FLAGS, (*END_FLAGS, "from-latest"))
"""Flags by which the server chooses the end, or the start."""

SNAPSHOT_FLAGS = (
    Bit(0x01, "memory", "items come from memory"),
    Bit(0x02, "disk", "items come from disk"),
    Bit(0x04, "checkpoint", "the snapshot begins a checkpoint"),
    Bit(0x08, "ack", "answer this marker once the whole snapshot was received"),
    Bit(0x10, "history", "collections with history are not de-duplicated (7.2)"),
    Bit(0x20, "may-duplicate-keys", "a key may occur more than once (7.2)"),
)
MEMORY = bits_value(SNAPSHOT_FLAGS, ("memory",))
DISK = bits_value(SNAPSHOT_FLAGS, ("disk",))
CHECKPOINT = bits_value(SNAPSHOT_FLAGS, ("checkpoint",))
ACK = bits_value(SNAPSHOT_FLAGS, ("ack",))
HISTORY = bits_value(SNAPSHOT_FLAGS, ("history",))
MAY_REPEAT = bits_value(SNAPSHOT_FLAGS, ("may-duplicate-keys",))

OSO_FLAGS = (
    Bit(0x01, "start", "an OSO snapshot begins: no markers and no seqno order until its end"),
    Bit(0x02, "end", "the OSO snapshot is complete"),
)
OSO_START = bits_value(OSO_FLAGS, ("start",))
OSO_END = bits_value(OSO_FLAGS, ("end",))

STREAM_END_REASONS = {
    0: "ok",
    1: "closed",
    2: "state-changed",
    3: "disconnected",
    4: "too-slow",
    5: "backfill-failed",
    6: "rollback",
    7: "filter-empty",
    8: "lost-privileges",
}

VBUCKET_STATES = {1: "active", 2: "replica", 3: "pending", 4: "dead"}
"""The states as now numbered; in the first specification, 2 was pending and 3 replica."""

SYSTEM_EVENTS = {
    0: "begin-collection",
    1: "end-collection",
    2: "flush-collection",
    3: "create-scope",
    4: "drop-scope",
    5: "modify-collection",
}

DURABILITY_LEVELS = {1: "majority", 2: "majority-and-persist-on-active", 3: "persist-to-majority"}

ENDLESS = 0xFFFF_FFFF_FFFF_FFFF
"""The seqno that means "no end"."""
