"""The rules about a message against its layout: their words. ``wire`` looks for the faults."""

from __future__ import annotations

from dcpinspect.findings.costs import BROKEN_MESSAGES, WRONG_DATA, WRONG_DOCUMENTS, Cost
from dcpinspect.findings.rule import Rule

BROKEN = (
    "report it with the sender's version; a client that sends it has to mend how it encodes, "
    "one that receives it must not use it"
)

RULES = (
    Rule(
        "bad-magic",
        "wire",
        "error",
        "the byte after a message cannot begin another message",
        "before the first message; after a hole; other protocols",
        (
            "check that this port speaks DCP, else report the sender's version; a client that "
            "sends it has to mend its lengths"
        ),
        ("c2s", "s2c"),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "length-mismatch",
        "wire",
        "error",
        "the sections of a message are longer than its body",
        "messages of servers that leave the stream-id out of the header",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "oversized-body",
        "wire",
        "warning",
        "a header has a body length of more than 30 MiB",
        "",
        (
            "look at the bytes before it, because the length may be misread; a client must send "
            "less at once, because a server disconnects it"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "unknown-opcode",
        "wire",
        "warning",
        "the opcode is not in the table of its magic",
        "0x68 and 0x69, which development builds have",
        (
            "compare the versions of both sides, because a newer one may know it; a client can "
            "pass over it by its length"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "undefined-datatype",
        "wire",
        "error",
        "the datatype has undefined bits",
        "",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "extras-length",
        "wire",
        "error",
        "no layout of the command has extras of this length",
        "layouts of an older generation",
        (
            "compare the versions of client and server; a client that sends it has to use a length "
            "that the command has"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "refused-payload",
        "wire",
        "warning",
        "a refusal has the extras of a success",
        "",
        "report it with the sender's version; a client can go by the status alone",
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "value-length",
        "wire",
        "error",
        "no layout of the command has a value of this length",
        "",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "unexpected-section",
        "wire",
        "warning",
        (
            "a message has a key or a value that its command does not have, or has none where its "
            "command needs one"
        ),
        "error responses, which may have a text",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "bad-framing-extras",
        "wire",
        "error",
        "an element of the framing extras goes beyond their end, or has a wrong size",
        "unknown ids, which are a note",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "undeclared-stream-id",
        "wire",
        "note",
        "a stream-id is before the extras, and the header does not count it",
        "",
        (
            "operators have nothing to do, this is a known fault of servers; a client has to read "
            "the message three bytes later"
        ),
        whose="sender",
    ),
    Rule(
        "legacy-layout",
        "wire",
        "note",
        "the layout of an older generation fits",
        "",
        (
            "look whether the node is meant to be that old; a client of such nodes has to know "
            "both layouts"
        ),
        whose="normal",
    ),
    Rule(
        "reserved-nonzero",
        "wire",
        "warning",
        "a reserved field is not zero",
        (
            "nmeta with enable_ext_metadata; the unused byte of deletions with the collections of "
            "5.0; unknown settings"
        ),
        (
            "report it with the sender's version; a client has to send zero here, and to ignore "
            "what it receives"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "unknown-flag-bits",
        "wire",
        "warning",
        "flags have bits without a meaning",
        "",
        (
            "compare the versions of both sides, because a newer one may know them; a client has "
            "to clear them, because a server answers EINVAL"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "flag-combination",
        "wire",
        "warning",
        "two flags exclude each other",
        "a marker without type bits",
        "set only one of them, in the client's settings or in its code",
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "marker-value-length",
        "wire",
        "error",
        "the value of a V2 marker does not have the length of its version",
        "generations whose published examples are contradictory",
        BROKEN,
        reports=("MB-65564",),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "marker-range-inverted",
        "wire",
        "error",
        "a marker starts above its end",
        "",
        BROKEN,
        whose="sender",
        cost=WRONG_DATA,
    ),
    Rule(
        "failover-log-size",
        "wire",
        "error",
        "a failover log is empty or no multiple of 16 bytes",
        "logs that the snapshot length cut",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "failover-log-order",
        "wire",
        "warning",
        "seqnos of a failover log grow from newest to oldest, or a uuid is zero or is there twice",
        "",
        (
            "report the log with the server's version; a client must not choose a branch by its "
            "position in the log"
        ),
        whose="sender",
        cost=Cost("vbucket", "has a failover log out of order", "have a failover log out of order"),
    ),
    Rule(
        "rollback-layout",
        "wire",
        "note",
        "the rollback seqno is in the extras",
        "",
        (
            "operators have nothing to do, this is the form of the first specification; a client "
            "has to read the seqno from the extras"
        ),
        whose="normal",
    ),
    Rule(
        "system-event-length",
        "wire",
        "error",
        "the value of a system event does not have the length of its version",
        "version 2",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "bad-collection-prefix",
        "wire",
        "error",
        "with collections on, a key does not begin with a collection id",
        "collections off or unknown; keys that are names",
        (
            "report it with the sender's version; a client with collections has to begin each key "
            "with a collection id"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "bad-xattr-section",
        "wire",
        "error",
        "the xattr section of a value breaks its own rules",
        "values that are left out, so that only their datatype is sent",
        BROKEN,
        whose="sender",
        cost=WRONG_DOCUMENTS,
    ),
    Rule(
        "bad-snappy",
        "wire",
        "error",
        "a compressed value does not decompress",
        "empty values; values that are left out, so that only their datatype is sent",
        BROKEN,
        whose="sender",
        cost=WRONG_DOCUMENTS,
    ),
    Rule(
        "json-bit-not-json",
        "wire",
        "warning",
        "a value has the datatype JSON, but is not JSON",
        (
            "requests whose command has JSON, which are refused; empty values; values that are "
            "left out, so that only their datatype is sent"
        ),
        (
            "read the document with a KV get, because it was damaged before it was sent; a client "
            "must not rely on the datatype"
        ),
        reports=("kafka-connect-couchbase#56",),
        whose="sender",
        cost=WRONG_DOCUMENTS,
    ),
    Rule(
        "deletion-with-body",
        "wire",
        "warning",
        "a deletion has a document body, or a datatype with JSON beside its xattrs",
        "",
        (
            "report the server's version, this is an old fault of producers; a client has to use "
            "only the xattrs of the value"
        ),
        whose="sender",
        cost=WRONG_DOCUMENTS,
    ),
    Rule(
        "commit-order",
        "wire",
        "error",
        "a commit or abort has a seqno not above its prepare's",
        "",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "prepare-cas-zero",
        "wire",
        "warning",
        "a prepare has no CAS or an undefined durability level",
        "",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "vbucket-state-value",
        "wire",
        "error",
        "a vbucket state is not one of the four",
        "",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "cache-transfer-record",
        "wire",
        "error",
        (
            "the records of a cache transfer do not fill its value, or one has a seqno above the "
            "start of the request"
        ),
        "",
        BROKEN,
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
    Rule(
        "cas-zero",
        "wire",
        "note",
        "a mutation has no CAS",
        "",
        "operators have nothing to do; a client cannot compare such documents by CAS",
        whose="sender",
    ),
    Rule(
        "seqno-huge",
        "wire",
        "warning",
        "a seqno is above 2^48",
        "",
        (
            "look at the bytes, and report the server's version unless they are misread; a client "
            "must not store such a seqno"
        ),
        whose="sender",
        cost=BROKEN_MESSAGES,
    ),
)
"""All rules speak of bytes that the capture holds. ``protocol/layout_choice.py`` finds those about lengths
when it chooses the layout.
"""

IDS = frozenset(rule.id for rule in RULES)
