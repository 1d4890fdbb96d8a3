"""HELLO features: number, name, and what they change on the wire.

Source: kv_engine ``include/mcbp/protocol/feature.h`` and its HELLO executor. Each HELLO first
switches everything off, then the answer lists what was granted.
"""

from __future__ import annotations

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import entries


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


def _feature(doc: str, code: str, name: str, effect: str, *requires: str) -> Feature:
    return Feature(int(code, 0), name, effect, doc, requires)


FEATURES = tuple(
    _feature(doc, *head.split())
    for head, doc in entries(
        """
        0x01 Invalid dead: Old "datatype" umbrella feature; retired
        0x02 TLS dead: STARTTLS; never built
        0x03 TcpNoDelay info: Always on in current servers
        0x04 MUTATION_SEQNO wire: Mutation replies carry 16 bytes of extras: vbucket uuid u64, seqno
            u64
        0x05 TCPDELAY_Unsupported dead: No longer granted
        0x06 XATTR wire: Xattr datatype bit (0x04) may be used on the connection; needed for DCP
            INCLUDE_XATTRS to have effect
        0x07 XERROR wire: Server may send newer status codes instead of disconnecting; error replies
            may hold JSON {"error":{"context","ref"}}
        0x08 SELECT_BUCKET info: SELECT_BUCKET may be used
        0x09 Invalid2 dead: Old collections prototype (5.0)
        0x0a SNAPPY wire: Snappy datatype bit (0x02) may be used; DCP values may arrive compressed
        0x0b JSON wire: JSON datatype bit (0x01) may be used (DCP open switches this on by itself)
        0x0c Duplex wire: Server may send requests with magic 0x82
        0x0d ClustermapChangeNotification wire Duplex: Server pushes full cluster maps (opcode 0x01,
            magic 0x82)
        0x0e UnorderedExecution behaviour: Replies may come out of order; excludes DCP
        0x0f Tracing wire: Replies may use magic 0x18 with the server duration frame
        0x10 AltRequestSupport info: Client may send magic 0x08 requests
        0x11 SyncReplication info: Client may send durability frames
        0x12 Collections wire: Every document key on the connection starts with a LEB128 collection
            id, DCP included
        0x13 SnappyEverywhere wire: Snappy bit may appear on any reply, not only documents. Same
            code was OpenTracing in 6.5-7.2 headers
        0x14 PreserveTtl info: Client may send the preserve-TTL frame
        0x15 VAttr info XATTR: Virtual xattrs are answered generically
        0x16 Invalid3 dead: Old point-in-time recovery (7.0-7.6)
        0x17 SubdocCreateAsDeleted info: Subdoc create-as-deleted flag is known
        0x18 SubdocDocumentMacroSupport info XATTR: $document macros are known
        0x19 SubdocReplaceBodyWithXattr info: Opcode 0xd3 is known
        0x1a ReportUnitUsage wire: Replies may carry read/write unit frames (serverless only)
        0x1b NonBlockingThrottlingMode behaviour: Answer EWOULDTHROTTLE instead of delaying
        0x1c SubdocReplicaRead info: Subdoc replica-read doc flag is known
        0x1d GetClusterConfigWithKnownVersion info: GET_CLUSTER_CONFIG takes 16 bytes of extras
        0x1e DedupeNotMyVbucketClustermap wire: NOT_MY_VBUCKET replies may come without a map the
            client already has
        0x1f ClustermapChangeNotificationBrief wire Duplex: As ClustermapChangeNotification, without
            the map; wins when both are asked for
        0x20 SubdocAllowsAccessOnMultipleXattrKeys info: Several xattr keys in one multi command
        0x21 SubdocBinaryXattr info: Binary xattr values
        0x22 RangeScanIncludeXattr info XATTR: Range scans can return xattrs
        0x23 SubdocAllowReplicaReadOnDeletedDocs info: Replica read of deleted documents
        0x24 GetRandomKeyIncludeXattr info XATTR JSON SnappyEverywhere: GET_RANDOM_KEY takes 5 bytes
            of extras
        0x25 MutateWithMeta info: Opcode 0x4b is known
        0x26 DcpSkipDeletesInInitialBackfill info: DCP open flag 0x200 is known
        """
    )
)
"""Number, name, effect, and features that it requires, of each."""

COLLECTIONS = 0x12

_BY_CODE = {feature.code: feature for feature in FEATURES}


def feature_name(code: int) -> str:
    """Returns the name of a feature, ``feature_0x1234`` for one that nobody described."""
    feature = _BY_CODE.get(code)
    return feature.name if feature is not None else f"feature_0x{code:04x}"


def feature(code: int) -> Feature | None:
    """Returns the feature with this number, or None."""
    return _BY_CODE.get(code)
