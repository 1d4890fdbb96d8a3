"""The rules about a message against its layout: their words. ``wire_checks`` looks for the faults."""

from __future__ import annotations

from dcpinspect.findings.rule import rules

ERROR_TEXT = "error-text"
"""Cause: what is no JSON is the text of an error, which is for people."""
REFUSED = "refused"
"""Cause: the server refused the request that is broken."""
BROKEN = (
    "report it with the sender's version; a client that sends it has to mend how it encodes, "
    "one that receives it must not use it"
)

RULES = rules(
    f"""
    bad-magic wire error sender
        fires: the byte after a message cannot begin another message
        unless: before the first message; after a hole; other protocols
        next: check that this port speaks DCP, else report the sender's version; a client that sends
            it has to mend its lengths
        causes: c2s s2c
        cost: broken-messages
    length-mismatch wire error sender
        fires: the sections of a message are longer than its body
        unless: messages of servers that leave the stream-id out of the header
        next: {BROKEN}
        cost: broken-messages
    oversized-body wire warning sender
        fires: a header has a body length of more than 30 MiB, or a document's key is longer than 250
            bytes (246 in collections other than 0)
        next: look at the bytes before it, because the length may be misread; a client must send
            less at once, because a server disconnects it
        cost: broken-messages
    unknown-opcode wire warning sender
        fires: the opcode is not in the table of its magic
        unless: 0x68 and 0x69, which development builds have
        next: compare the versions of both sides, because a newer one may know it; a client can pass
            over it by its length
        cost: broken-messages
    undefined-datatype wire error sender
        fires: the datatype has undefined bits
        next: {BROKEN}
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
        fields: datatype
    extras-length wire error sender
        fires: no layout of the command has extras of this length
        unless: layouts of an older generation
        next: compare the versions of client and server; a client that sends it has to use a length
            that the command has
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
    refused-payload wire warning sender
        fires: a refusal has the extras of a success
        next: report it with the sender's version; a client can go by the status alone
        cost: broken-messages
    value-length wire error sender
        fires: no layout of the command has a value of this length
        next: {BROKEN}
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
    unexpected-section wire warning sender
        fires: a message has a key or a value that its command does not have, or has none where its
            command needs one
        unless: error responses, which may have a text
        next: {BROKEN}
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
    bad-framing-extras wire error sender
        fires: an element of the framing extras goes beyond their end, or has a wrong size
        unless: unknown ids, which are a note
        next: {BROKEN}
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
    undeclared-stream-id wire note sender
        fires: a stream-id is before the extras, and the header does not count it
        next: operators have nothing to do, this is a known fault of servers; a client has to read
            the message three bytes later
    legacy-layout wire note normal
        fires: the layout of an older generation fits
        next: look whether the node is meant to be that old; a client of such nodes has to know both
            layouts
    reserved-nonzero wire warning sender
        fires: a reserved field is not zero
        unless: nmeta with enable_ext_metadata; the unused byte of deletions with the collections of
            5.0; unknown settings
        next: report it with the sender's version; a client has to send zero here, and to ignore
            what it receives
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
    unknown-flag-bits wire warning sender
        fires: flags have bits without a meaning
        next: compare the versions of both sides, because a newer one may know them; a client has to
            clear them, because a server answers EINVAL
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
        fields: flags
    flag-combination wire warning sender
        fires: two flags exclude each other
        unless: a marker without type bits
        next: set only one of them, in the client's settings or in its code
        cost: broken-messages; {REFUSED}: refused
        causes: {REFUSED}
        fields: flags
    marker-value-length wire error sender
        fires: the value of a V2 marker does not have the length of its version
        unless: generations whose published examples are contradictory
        next: {BROKEN}
        reports: MB-65564
        cost: broken-messages
    marker-range-inverted wire error sender
        fires: a marker starts above its end, or has a greatest visible or a purge seqno above it
        next: {BROKEN}
        cost: wrong-data
        fields: start_seqno
    failover-log-size wire error sender
        fires: a failover log is empty or no multiple of 16 bytes
        unless: logs that the snapshot length cut
        next: {BROKEN}
        cost: broken-messages
    failover-log-order wire warning sender
        fires: seqnos of a failover log grow from newest to oldest, or a uuid is zero or is there
            twice
        next: report the log with the sender's version; a client must not choose a branch by its
            position in the log
        cost: vbucket, has a failover log out of order, have a failover log out of order
        fields: failover_log
    rollback-layout wire note normal
        fires: the rollback seqno is in the extras
        next: operators have nothing to do, this is the form of the first specification; a client
            has to read the seqno from the extras
    system-event-length wire error sender
        fires: the value of a system event does not have the length of its version
        unless: version 2
        next: {BROKEN}
        cost: broken-messages
    bad-collection-prefix wire error sender
        fires: with collections on, a key does not begin with a collection id; or a system event has
            an id from 1 to 7, which servers keep for themselves
        unless: collections off, unknown, or only concluded from other keys; keys that are names
        next: report it with the sender's version; a client with collections has to begin each key
            with a collection id
        cost: broken-messages
        fields: collection_id key
    bad-xattr-section wire error sender
        fires: the xattr section of a value breaks its own rules
        unless: values that are left out, so that only their datatype is sent
        next: {BROKEN}
        cost: wrong-documents
        fields: value
    bad-snappy wire error sender
        fires: a compressed value does not decompress
        unless: empty values; values that are left out, so that only their datatype is sent
        next: {BROKEN}
        cost: wrong-documents
        fields: value
    json-bit-not-json wire warning
        fires: a value has the datatype JSON, but is not JSON; a note where the text of an error
            begins as JSON and is none
        unless: requests whose command has JSON, which are refused; empty values; values that are
            left out, so that only their datatype is sent
        next: read the document with a KV get, because it was damaged before it was sent; a client
            must not rely on the datatype
        causes: {ERROR_TEXT}
        whose: sender, normal for {ERROR_TEXT}
        reports: kafka-connect-couchbase#56
        cost: wrong-documents
        fields: value
    deletion-with-body wire warning sender
        fires: a deletion has a document body, or a datatype with JSON beside its xattrs
        next: report the server's version, this is an old fault of producers; a client has to use
            only the xattrs of the value
        cost: wrong-documents
    commit-order wire error sender
        fires: a commit or abort has a seqno not above its prepare's
        next: {BROKEN}
        cost: broken-messages
        silences: commit-without-prepare
    prepare-cas-zero wire warning sender
        fires: a prepare has no CAS or an undefined durability level
        next: {BROKEN}
        cost: broken-messages
    vbucket-state-value wire error sender
        fires: a vbucket state is not one of the four
        next: {BROKEN}
        cost: broken-messages
    cache-transfer-record wire error sender
        fires: the records of a cache transfer do not fill its value, or one has a seqno above the
            start of the request
        next: {BROKEN}
        cost: broken-messages
        fields: by_seqno
    cas-zero wire note sender
        fires: a mutation has no CAS
        next: operators have nothing to do; a client cannot compare such documents by CAS
        fields: cas
    seqno-huge wire warning sender
        fires: a seqno is above 2^48
        next: look at the bytes, and report the server's version unless they are misread; a client
            must not store such a seqno
        cost: broken-messages
    """
)
"""All rules speak of bytes that the capture holds. ``protocol/layout_choice.py`` finds those about lengths
when it chooses the layout.
"""

IDS = frozenset(rule.id for rule in RULES)
