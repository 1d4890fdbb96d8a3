"""What a finding costs in plain words, and who has to act.

``COSTS`` makes the first line of a report: ``3 vbuckets lost data``. Rules that are not in it are counted as errors, warnings, notes.
``WHOSE`` names the side that has to change something. A rule whose fault may be of either side is of ``OF_CAUSE`` or of nobody known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dcpinspect.findings.finding import Whose

Counted = Literal["vbucket", "client", "connection"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What it means for those that it happened to."""

    of: Counted
    """What is counted."""
    one: str
    """Of one of them: ``loops``."""
    many: str
    """Of several: ``loop``."""
    lasts: bool = False
    """It goes on until somebody acts, so the report says since when."""


_LOST = Cost("vbucket", "lost data", "lost data")
_REFUSED = Cost("vbucket", "was refused", "were refused")
_WRONG_DATA = Cost("vbucket", "has messages that break the protocol", "have messages that break the protocol")
_BROKEN = Cost("connection", "has broken messages", "have broken messages")
_DOCUMENT = Cost("vbucket", "has documents that are not what they say", "have documents that are not what they say")
_STUCK = Cost("vbucket", "receives nothing", "receive nothing", lasts=True)
_BACK = Cost("vbucket", "was rolled back", "were rolled back")
_STALLED = Cost("connection", "has stalled", "have stalled", lasts=True)

COSTS: Mapping[str, Cost] = {
    "item-missing": _LOST,
    "resume-skipped": _LOST,
    "oso-resume-point": _LOST,
    "end-zero-reopen": _STUCK,
    "gap-in-history-snapshot": _LOST,
    "diverging-history": Cost("vbucket", "has two histories", "have two histories"),
    "rollback-loop": Cost("client", "loops", "loop", lasts=True),
    "rollback-not-followed": _STUCK,
    "orphaned-vbucket": _STUCK,
    "server-owes-seqno": Cost("vbucket", "waits for the server", "wait for the server", lasts=True),
    "stream-end-missing": Cost("vbucket", "waits for a stream end", "wait for a stream end", lasts=True),
    "never-persisted": Cost("vbucket", "is not persisted", "are not persisted", lasts=True),
    "bad-stream-range": _REFUSED,
    "stream-refused": _REFUSED,
    "manifest-ahead": _REFUSED,
    "noop-required": _REFUSED,
    "duplicate-stream-request": Cost("vbucket", "was requested twice", "were requested twice"),
    "rollback": _BACK,
    "no-common-history": Cost("vbucket", "has no common history", "have no common history"),
    "unknown-vbucket-uuid": Cost("vbucket", "was asked for with an unknown uuid", "were asked for with an unknown uuid"),
    "wrong-failover-entry": Cost("vbucket", "was asked for on the wrong branch", "were asked for on the wrong branch"),
    "rollback-not-honoured": Cost("vbucket", "ignored a rollback", "ignored a rollback"),
    "stream-end-reason": Cost("vbucket", "was ended by the server", "were ended by the server"),
    "snapshot-incomplete": Cost("vbucket", "has an incomplete snapshot", "have an incomplete snapshot"),
    "flow-control-stall": _STALLED,
    "silent-connection": Cost("connection", "fell silent", "fell silent"),
    "flow-control-overrun": Cost("connection", "was sent too much", "were sent too much"),
    "under-acknowledged": Cost("connection", "acknowledges too few bytes", "acknowledge too few bytes"),
    "over-acknowledged": Cost("connection", "acknowledges too many bytes", "acknowledge too many bytes"),
    "noop-opaque": Cost("connection", "answers noops wrongly", "answer noops wrongly"),
    "noop-unanswered": Cost("connection", "does not answer noops", "do not answer noops"),
    "name-clash": Cost("connection", "took the name of another", "took the name of another"),
    "open-refused": Cost("connection", "could not open DCP", "could not open DCP"),
    "dcp-before-open": Cost("connection", "was not opened for DCP", "were not opened for DCP"),
    "closed-before-stream-end": Cost("connection", "was closed too early", "were closed too early"),
    "missing-response": Cost("connection", "waits for an answer", "wait for an answer"),
    "consumer-refused": Cost("connection", "refused a message of its stream", "refused messages of their streams"),
    "cas-regress": Cost("vbucket", "has a CAS that goes backwards", "have a CAS that goes backwards"),
    "seqno-repeated-after-advanced": Cost("vbucket", "has a seqno twice", "have a seqno twice"),
    "failover-log-order": Cost("vbucket", "has a failover log out of order", "have a failover log out of order"),
    **dict.fromkeys(
        (
            *("seqno-not-increasing", "seqno-outside-snapshot", "seqno-below-request-start", "event-before-marker", "marker-behind"),
            *("marker-overlap", "oso-structure", "duplicate-key-in-snapshot", "message-without-stream", "opaque-mismatch"),
            *("message-after-stream-end", "rollback-above-start", "marker-range-inverted"),
        ),
        _WRONG_DATA,
    ),
    **dict.fromkeys(("json-bit-not-json", "bad-snappy", "bad-xattr-section", "deletion-with-body"), _DOCUMENT),
    **dict.fromkeys(("bad-magic", "length-mismatch", "extras-length", "value-length", "bad-framing-extras"), _BROKEN),
}
"""By rule, for errors and warnings."""

_CLIENT = (
    *("credentials-in-clear", "consumer-refused", "dcp-before-open", "open-twice", "name-clash", "open-refused", "control-rejected"),
    *("control-unknown-key", "rollback-loop", "wrong-failover-entry", "unknown-vbucket-uuid", "bad-stream-range"),
    *("duplicate-stream-request", "noop-required", "rollback-not-honoured", "end-zero-reopen", "resume-skipped"),
    *("rollback-not-followed", "orphaned-vbucket", "oso-resume-point", "closed-before-stream-end", "slow-stream", "seqno-ack-regress"),
    *("vbuckets-not-requested", "ack-missing", "ack-early", "flow-control-stall", "under-acknowledged", "over-acknowledged"),
    *("ack-without-window", "noop-unanswered", "noop-opaque"),
)
_SERVER = (
    *("undeclared-stream-id", "marker-value-length", "marker-range-inverted", "failover-log-size", "failover-log-order"),
    *("system-event-length", "commit-order", "prepare-cas-zero", "vbucket-state-value", "cache-transfer-record"),
    *("marker-version-not-negotiated", "oso-not-negotiated", "seqno-advanced-without-collections", "expiry-not-negotiated"),
    *("delete-times-mismatch", "prepare-not-negotiated", "status-v7", "unordered-with-dcp", "stream-end-missing", "server-owes-seqno"),
    *("never-persisted", "stream-already-open", "rollback-above-start", "message-without-stream", "opaque-mismatch"),
    *("message-after-stream-end", "event-before-marker", "seqno-not-increasing", "seqno-repeated-after-advanced"),
    *("seqno-outside-snapshot", "seqno-below-request-start", "marker-overlap", "marker-behind", "oso-structure"),
    *("duplicate-key-in-snapshot", "cas-regress", "commit-without-prepare", "collection-outside-filter", "event-after-collection-end"),
    *("manifest-uid-backwards", "first-marker-start", "snapshot-incomplete", "gap-in-history-snapshot", "item-missing"),
    *("diverging-history", "flow-control-overrun", "noop-overlap", "silent-connection", "no-common-history"),
)
_CAPTURE = ("capture-hole", "capture-cut", "mid-stream-start", "undecoded-bytes", "connection-reuse-inferred", "tls-without-key")
_NORMAL = (
    "failover",
    "rollback",
    "manifest-ahead",
    "event-for-unknown-collection",
    "stream-end-reason",
    "legacy-layout",
    "rollback-layout",
)

WHOSE: Mapping[str, Whose] = {
    **dict.fromkeys(_CLIENT, "client"),
    **dict.fromkeys(_SERVER, "server"),
    **dict.fromkeys(_CAPTURE, "capture"),
    **dict.fromkeys(_NORMAL, "normal"),
}
"""By rule: who has to change something. Of a rule that is not here nobody can tell: the side that sent the message is to be asked."""

OF_CAUSE: Mapping[tuple[str, str], Whose] = {
    ("connection-closed", "by-client"): "client",
    ("connection-closed", "by-server"): "server",
    ("stream-end-reason", "closed"): "client",
    ("stream-end-reason", "too-slow"): "client",
    ("stream-end-reason", "filter-empty"): "client",
    ("stream-end-reason", "lost-privileges"): "client",
    ("stream-end-reason", "backfill-failed"): "server",
    ("stream-refused", "not-my-vbucket"): "normal",
    ("stream-refused", "etmpfail"): "server",
    ("stream-refused", "tmpfail"): "server",
    ("stream-refused", "eacces"): "client",
    ("stream-refused", "eaccess"): "client",
    ("stream-refused", "einval"): "client",
    ("stream-refused", "erange"): "client",
    ("stream-refused", "unknown-collection"): "client",
    ("stream-refused", "dcp-stream-id-invalid"): "client",
    ("bad-magic", "c2s"): "client",
    ("bad-magic", "s2c"): "server",
}
"""By rule and cause, before ``WHOSE``."""


def whose(rule: str, cause: str | None, direction: str | None) -> Whose:
    """Who has to change something. ``direction``: of the message that breaks the rule, for rules about single messages; None else."""
    known = OF_CAUSE.get((rule, cause or "")) or WHOSE.get(rule)
    if known is not None:
        return known
    return "client" if direction == "c2s" else "server" if direction == "s2c" else "unknown"
