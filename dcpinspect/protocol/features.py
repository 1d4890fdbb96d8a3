"""HELLO features: number, name, and what they change on the wire.

Source: kv_engine ``include/mcbp/protocol/feature.h`` and its HELLO executor. Each HELLO first
switches everything off, then the answer lists what was granted.
"""

from __future__ import annotations

from dcpinspect.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a HELLO."""

    code: int
    name: str
    effect: str
    """wire: changes later messages; behaviour: changes the server; info: advertisement only; dead:
    never granted.
    """
    doc: str
    requires: tuple[str, ...] = ()


FEATURES = (
    Feature(0x01, "Invalid", "dead", 'Old "datatype" umbrella feature; retired'),
    Feature(0x02, "TLS", "dead", "STARTTLS; never built"),
    Feature(0x03, "TcpNoDelay", "info", "Always on in current servers"),
    Feature(
        0x04,
        "MUTATION_SEQNO",
        "wire",
        "Mutation replies carry 16 bytes of extras: vbucket uuid u64, seqno u64",
    ),
    Feature(0x05, "TCPDELAY_Unsupported", "dead", "No longer granted"),
    Feature(
        0x06,
        "XATTR",
        "wire",
        "Xattr datatype bit (0x04) may be used on the connection; needed for DCP "
        "INCLUDE_XATTRS to have effect",
    ),
    Feature(
        0x07,
        "XERROR",
        "wire",
        "Server may send newer status codes instead of disconnecting; error replies may hold "
        'JSON {"error":{"context","ref"}}',
    ),
    Feature(0x08, "SELECT_BUCKET", "info", "SELECT_BUCKET may be used"),
    Feature(0x09, "Invalid2", "dead", "Old collections prototype (5.0)"),
    Feature(
        0x0A,
        "SNAPPY",
        "wire",
        "Snappy datatype bit (0x02) may be used; DCP values may arrive compressed",
    ),
    Feature(
        0x0B,
        "JSON",
        "wire",
        "JSON datatype bit (0x01) may be used (DCP open switches this on by itself)",
    ),
    Feature(0x0C, "Duplex", "wire", "Server may send requests with magic 0x82"),
    Feature(
        0x0D,
        "ClustermapChangeNotification",
        "wire",
        "Server pushes full cluster maps (opcode 0x01, magic 0x82)",
        ("Duplex",),
    ),
    Feature(0x0E, "UnorderedExecution", "behaviour", "Replies may come out of order; excludes DCP"),
    Feature(0x0F, "Tracing", "wire", "Replies may use magic 0x18 with the server duration frame"),
    Feature(0x10, "AltRequestSupport", "info", "Client may send magic 0x08 requests"),
    Feature(0x11, "SyncReplication", "info", "Client may send durability frames"),
    Feature(
        0x12,
        "Collections",
        "wire",
        "Every document key on the connection starts with a LEB128 collection id, DCP included",
    ),
    Feature(
        0x13,
        "SnappyEverywhere",
        "wire",
        "Snappy bit may appear on any reply, not only documents. Same code was OpenTracing in "
        "6.5-7.2 headers",
    ),
    Feature(0x14, "PreserveTtl", "info", "Client may send the preserve-TTL frame"),
    Feature(0x15, "VAttr", "info", "Virtual xattrs are answered generically", ("XATTR",)),
    Feature(0x16, "Invalid3", "dead", "Old point-in-time recovery (7.0-7.6)"),
    Feature(0x17, "SubdocCreateAsDeleted", "info", "Subdoc create-as-deleted flag is known"),
    Feature(0x18, "SubdocDocumentMacroSupport", "info", "$document macros are known", ("XATTR",)),
    Feature(0x19, "SubdocReplaceBodyWithXattr", "info", "Opcode 0xd3 is known"),
    Feature(
        0x1A,
        "ReportUnitUsage",
        "wire",
        "Replies may carry read/write unit frames (serverless only)",
    ),
    Feature(
        0x1B, "NonBlockingThrottlingMode", "behaviour", "Answer EWOULDTHROTTLE instead of delaying"
    ),
    Feature(0x1C, "SubdocReplicaRead", "info", "Subdoc replica-read doc flag is known"),
    Feature(
        0x1D,
        "GetClusterConfigWithKnownVersion",
        "info",
        "GET_CLUSTER_CONFIG takes 16 bytes of extras",
    ),
    Feature(
        0x1E,
        "DedupeNotMyVbucketClustermap",
        "wire",
        "NOT_MY_VBUCKET replies may come without a map the client already has",
    ),
    Feature(
        0x1F,
        "ClustermapChangeNotificationBrief",
        "wire",
        "As ClustermapChangeNotification, without the map; wins when both are asked for",
        ("Duplex",),
    ),
    Feature(
        0x20,
        "SubdocAllowsAccessOnMultipleXattrKeys",
        "info",
        "Several xattr keys in one multi command",
    ),
    Feature(0x21, "SubdocBinaryXattr", "info", "Binary xattr values"),
    Feature(0x22, "RangeScanIncludeXattr", "info", "Range scans can return xattrs", ("XATTR",)),
    Feature(
        0x23, "SubdocAllowReplicaReadOnDeletedDocs", "info", "Replica read of deleted documents"
    ),
    Feature(
        0x24,
        "GetRandomKeyIncludeXattr",
        "info",
        "GET_RANDOM_KEY takes 5 bytes of extras",
        ("XATTR", "JSON", "SnappyEverywhere"),
    ),
    Feature(0x25, "MutateWithMeta", "info", "Opcode 0x4b is known"),
    Feature(0x26, "DcpSkipDeletesInInitialBackfill", "info", "DCP open flag 0x200 is known"),
)

COLLECTIONS = 0x12

_BY_CODE = {feature.code: feature for feature in FEATURES}


def feature_name(code: int) -> str:
    """Returns the name of a feature, ``feature_0x1234`` for one that nobody described."""
    feature = _BY_CODE.get(code)
    return feature.name if feature is not None else f"feature_0x{code:04x}"


def feature(code: int) -> Feature | None:
    """Returns the feature with this number, or None."""
    return _BY_CODE.get(code)
