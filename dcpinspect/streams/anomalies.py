"""What may be wrong with a message's place in its stream: each anomaly is declared once.

The loop over messages writes the number of an anomaly, with two numbers that the anomaly explains.
``findings/sequence_rules.py`` tells it.
"""

from __future__ import annotations

from typing import Any

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.message import Severity


@dataclass(frozen=True, slots=True)
class Case:
    """How one kind of anomaly is told."""

    rule: str
    says: str
    """What is said of one, with members of ``sequence_rules._Anomaly`` put in."""
    seqnos: str = ""
    """The members that are the seqnos of the finding."""
    against: str = ""
    """Earlier messages that it contradicts, if they were captured: the *previous* one in its order;
    the *marker* of its snapshot, or the start of an OSO snapshot; the *request* of its stream, or
    of the *other* stream whose place it takes; the *end* of its stream.
    """
    shared: str | None = None
    """What several messages have in common."""
    cause: str | None = None
    severity: Severity | None = None
    """Its severity, if that differs from the rule's own."""
    next: str | None = None
    """What to do, if that differs from the rule's own text."""
    is_of_marker: bool = False
    """Whether the fault is the marker's where the event's own marker named another stream
    (``findings/strays.py``).
    """


CASES: list[Case] = []
"""Each anomaly, by its number."""


def _anomaly(rule: str, says: str, **lines: Any) -> int:
    """Declares an anomaly, as ``Case`` describes it; returns its number."""
    CASES.append(Case(rule, says, **lines))
    return len(CASES) - 1


WITHOUT_STREAM = _anomaly(
    "message-without-stream",
    "{0.event} came for a vbucket that was never opened{0.owner}",
    seqnos="by_seqno",
)
AFTER_END = _anomaly(
    "message-after-stream-end",
    "{0.event} came after the stream end",
    seqnos="by_seqno",
    against="end",
)
OPAQUE_MISMATCH = _anomaly(
    "opaque-mismatch",
    "{0.name} has opaque 0x{0.a:08x}, its stream has 0x{0.b:08x}{0.owner}",
    seqnos="by_seqno",
    against="request",
    shared="a message has another opaque than its stream",
)
ALREADY_OPEN = _anomaly(
    "stream-already-open",
    "stream request accepted while a stream of the vbucket is open",
    against="other",
)
BEFORE_MARKER = _anomaly(
    "event-before-marker",
    "{0.name} of seqno {0.seqno} came before any snapshot marker",
    seqnos="seqno",
    against="request",
    is_of_marker=True,
)
NOT_INCREASING = _anomaly(
    "seqno-not-increasing",
    "seqno {0.seqno} came after seqno {0.other_seqno}",
    seqnos="seqno other_seqno",
    against="previous",
    shared="a seqno is not above the one before",
)
REPEATED = _anomaly(
    "seqno-repeated-after-advanced",
    "seqno {0.seqno} came again after SeqnoAdvanced",
    seqnos="seqno",
    against="previous",
    shared="a seqno is repeated after SeqnoAdvanced",
)
OUTSIDE_SNAPSHOT = _anomaly(
    "seqno-outside-snapshot",
    "seqno {0.seqno} is outside its snapshot {0.start}–{0.end}",
    seqnos="seqno start end",
    against="marker",
    shared="a seqno is outside the range of its snapshot",
    is_of_marker=True,
)
ABOVE_VISIBLE = _anomaly(
    "seqno-outside-snapshot",
    "{0.name} of seqno {0.seqno} is above the greatest visible seqno of its snapshot, "
    "{0.other_seqno}",
    seqnos="seqno other_seqno",
    against="marker",
    shared="an event is above the greatest visible seqno of its snapshot",
    severity="warning",
    next="report the marker with the producer's version; a consumer can use the event, but not the "
    "greatest visible seqno",
)
BELOW_START = _anomaly(
    "seqno-below-request-start",
    "seqno {0.seqno} came, although the consumer had all up to seqno {0.other_seqno}",
    seqnos="seqno other_seqno",
    against="request",
    shared="a seqno comes that the consumer had",
)
OVERLAP = _anomaly(
    "marker-overlap",
    "snapshot marker {0.seqno}–{0.other_seqno} overlaps {0.start}–{0.end}",
    seqnos="seqno other_seqno start end",
    against="marker",
    shared="a marker overlaps the one before",
)
BEHIND = _anomaly(
    "marker-behind",
    "snapshot marker {0.seqno}–{0.other_seqno} ends below the last seqno of the stream",
    seqnos="seqno other_seqno",
    against="marker previous",
    shared="a marker ends below the last seqno of the stream",
)
OSO_STRUCTURE = _anomaly("oso-structure", "OSO snapshot: {0.oso_fault}", against="marker")
OSO_REPEATED = _anomaly(
    "oso-structure",
    "OSO snapshot: seqno {0.seqno} came twice",
    seqnos="seqno",
    against="marker",
    shared="a seqno is twice in an OSO snapshot",
)
ROLLBACK_ABOVE = _anomaly(
    "rollback-above-start",
    "rolled back to seqno {0.seqno}, above seqno {0.other_seqno}, which was asked for",
    seqnos="seqno other_seqno",
    against="request",
)
ROLE_VIOLATION = _anomaly("role-violation", "{0.name} sent by the {0.sender}")
ACK_REGRESS = _anomaly(
    "seqno-ack-regress",
    "seqno {0.seqno} was acknowledged after seqno {0.other_seqno}",
    seqnos="seqno other_seqno",
    against="previous",
    shared="a lower seqno is acknowledged than before",
)
CACHED_ABOVE = _anomaly(
    "cache-transfer-record",
    "a cached document has seqno {0.seqno}, above the start {0.other_seqno} of the request",
    seqnos="seqno other_seqno",
    against="request",
    shared="a cached document has a seqno above the start of the request",
)
DUPLICATE_KEY = _anomaly(
    "duplicate-key-in-snapshot",
    "key {0.key} came at seqno {0.seqno} and at seqno {0.other_seqno}",
    seqnos="seqno other_seqno",
    against="previous marker",
    shared="a key is twice in a snapshot",
)
KEYS_UNCHECKED = _anomaly(
    "duplicate-key-in-snapshot",
    "keys were compared only with the latest {0.a} keys",
    cause="keys-not-checked",
    next="operators have nothing to do, what else is found is true; to compare more keys, run the "
    "pipeline, where each part remembers its own",
    severity="note",
)
CAS_REGRESS = _anomaly(
    "cas-regress",
    "key {0.key}: CAS 0x{0.other_seqno:016x} came after CAS 0x{0.seqno:016x}",
    seqnos="by_seqno",
    against="previous",
    shared="a later change has a lower CAS",
)
CAS_AND_REVISION = _anomaly(
    "cas-regress",
    "key {0.key}: CAS 0x{0.other_seqno:016x} came after CAS 0x{0.seqno:016x}, and its revision "
    "number did not rise, so it was written with its metadata",
    seqnos="by_seqno",
    against="previous",
    shared="a later change has a lower CAS, and its revision number did not rise, so it was written "
    "with its metadata",
    cause="older-revision",
    severity="note",
    next="operators have nothing to do: a restore with --force-updates, or another tool, wrote an "
    "older change over a newer one without conflict resolution; a consumer has to order changes by "
    "seqno",
)
CAS_OF_LATER = _anomaly(
    "cas-regress",
    "key {0.key}: CAS 0x{0.other_seqno:016x} came after CAS 0x{0.seqno:016x}, and its revision "
    "number is not the next one",
    seqnos="by_seqno",
    against="previous",
    shared="a later change has a lower CAS, and its revision number is not the next one",
    cause="later-revision",
    severity="note",
    next="operators have nothing to do if XDCR writes to a bucket that resolves conflicts by "
    "revision, or a backup was restored; else compare the clocks of the nodes, because only the "
    "last of several changes may have come; a consumer has to order changes by seqno",
)
DUPLICATE_PREPARE = _anomaly(
    "duplicate-key-in-snapshot",
    "key {0.key} was prepared at seqno {0.seqno}, and again at seqno {0.other_seqno}",
    seqnos="seqno other_seqno",
    against="marker",
    shared="a key is prepared twice",
)
COMMIT_WITHOUT_PREPARE = _anomaly(
    "commit-without-prepare",
    "{0.name} of seqno {0.seqno} is for a prepare of seqno {0.other_seqno}, "
    "but key {0.key} has none of that seqno pending",
    seqnos="seqno other_seqno",
    against="previous marker",
    shared="a commit or abort is for a prepare that its key does not have pending",
)
OUTSIDE_FILTER = _anomaly(
    "collection-outside-filter",
    "nobody requested {0.collection}",
    seqnos="by_seqno",
    against="request",
)
UNKNOWN_COLLECTION = _anomaly(
    "event-for-unknown-collection",
    "no event created {0.collection} before the items from memory",
    seqnos="by_seqno",
    against="request",
)
AFTER_COLLECTION_END = _anomaly(
    "event-after-collection-end",
    "{0.event} of {0.collection}, which ended at seqno {0.other_seqno}",
    seqnos="by_seqno",
    against="previous",
)
NAME_TAKEN = _anomaly(
    "name-taken",
    "{0.named} {0.key} is created, though there is one of this name that was not dropped",
    seqnos="by_seqno",
    against="previous",
    shared="a name is given that something else has",
)
RESERVED_COLLECTION = _anomaly(
    "bad-collection-prefix",
    "a system event is about collection 0x{0.a:x}, an id that servers keep for themselves",
    seqnos="by_seqno",
)
MANIFEST_BACKWARDS = _anomaly(
    "manifest-uid-backwards",
    "manifest uid 0x{0.seqno:x} came after uid 0x{0.other_seqno:x}",
    seqnos="by_seqno",
    against="previous",
)

END_WITHOUT_START, START_INSIDE, MARKER_INSIDE, BAD_FLAGS = range(4)
OSO_FAULTS = ("end without start", "start inside", "marker inside", "flags")
"""What is wrong with an OSO snapshot: the first number of ``OSO_STRUCTURE``."""
