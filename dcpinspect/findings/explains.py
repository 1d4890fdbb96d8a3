"""Which rule may explain, or silence, which other rule.

The tables differ in what they look at, and in what they do:

- ``SILENCES`` is about one message. If a rule speaks of a message, the rules that it names have
  nothing to add: their cases there are dropped. Each rule says itself which these are.
- ``SILENCES_OF_CONNECTION`` is about a connection, in the time that a rule speaks of. Findings of
  which that time covers half are dropped.
- ``OWNS`` is about cause and effect. What a rule finds stays a finding, and becomes an effect of
  the finding that explains it. It is told under that finding, which also gives the advice. The rule
  that finds the cause says which streams it explains. Nothing is an effect of something milder, so
  the worst finding that is told stays the worst. No effect has effects of its own: what follows
  from one is told with its cause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dcpinspect.findings import wire_rules
from dcpinspect.findings.closing import CLOSES
from dcpinspect.findings.collector import Relations
from dcpinspect.findings.registry import RULES
from dcpinspect.text import words_of

MALFORMED = [rule.id for rule in wire_rules.RULES if rule.severity != "note"]
"""Rules about the form of a message: the refusal of one that has such a fault is told there."""
_IN_STREAM = [rule.id for rule in RULES.values() if rule.in_stream]
SILENCES: Mapping[str, Collection[str]] = {
    **dict.fromkeys(MALFORMED, ("stream-refused", "open-refused")),
    "opaque-mismatch": _IN_STREAM,
    **{rule.id: rule.silences for rule in RULES.values() if rule.silences},
}
"""Rules that have nothing to add about a message that a more specific rule speaks of."""

SILENCES_OF_CONNECTION: Mapping[str, Collection[str]] = {
    "flow-control-stall": words_of(
        "stream-end-missing server-owes-seqno snapshot-stalled silent-connection"
    ),
    **dict.fromkeys(
        ("proxy-header", "wrong-port"), ("missing-response", "tls-alert", "slow-responses")
    ),
    "tcp-window-zero": (
        *words_of(
            "flow-control-stall stream-end-missing server-owes-seqno snapshot-stalled "
            "silent-connection"
        ),
        *("missing-response", "noop-unanswered", "slow-stream"),
    ),
    # who closes a connection on which nothing comes does what the advice is
    "silent-connection": ("closed-before-stream-end",),
}
"""Rules with nothing to add about a connection, in the time that a more specific rule names."""

REFUSABLE = (
    *MALFORMED,
    *(rule for rule in _IN_STREAM if rule != "gap-unexplained"),
    *words_of(
        "sid-missing sid-unexpected message-without-stream message-after-stream-end "
        "opaque-mismatch delete-times-mismatch"
    ),
    *words_of(
        "marker-version-not-negotiated oso-not-negotiated seqno-advanced-without-collections "
        "expiry-not-negotiated"
    ),
    *("prepare-not-negotiated", "oso-structure"),
)
"""Rules about messages of a stream that a consumer may refuse."""

ANSWERED = frozenset(
    (
        *REFUSABLE,
        *(rule.id for rule in RULES.values() if "stream-refused" in rule.silences),
        *words_of("stream-refused open-refused open-twice login-refused bucket-refused"),
        *words_of("close-refused consumer-refused control-rejected control-unknown-key"),
    )
)
"""Rules about a message of which the answer may say what is wrong with it."""

OWNS: Mapping[str, Collection[str]] = {
    **dict.fromkeys(REFUSABLE, ("consumer-refused", "connection-closed")),
    **dict.fromkeys(("consumer-refused", "open-twice", "tcp-window-zero"), ("connection-closed",)),
    "flow-control-stall": ("connection-closed", "slow-stream", "server-slow-stream"),
    "name-clash": ("connection-closed", "silent-connection", "server-disconnect"),
    "rollback-loop": (
        *("rollback", "rollback-not-honoured", "stream-refused", "stream-end-reason"),
        *("wrong-failover-entry", "unknown-vbucket-uuid", "rollback-not-followed"),
    ),
    "reconnect-loop": ("read-again",),
    **dict.fromkeys(("login-refused", "bucket-refused"), ("open-refused",)),
    "failover": ("rollback", "stream-refused"),
    **dict.fromkeys(
        ("rollback-not-followed", "rollback-not-honoured", "unknown-vbucket-uuid"), ("rollback",)
    ),
    "end-lost": ("stream-end-reason", "rollback"),
    "orphaned-vbucket": ("stream-end-reason", "stream-refused", "manifest-ahead"),
    "server-owes-seqno": ("snapshot-stalled",),
    **dict.fromkeys(CLOSES, ("connection-closed",)),
    "length-mismatch": ("consumer-refused", "connection-closed"),
    **dict.fromkeys(("bad-magic", "oversized-body"), ("connection-closed", "undecoded-bytes")),
    **dict.fromkeys(("capture-hole", "capture-cut"), ("undecoded-bytes",)),
    "connection-reuse-inferred": ("mid-stream-start",),
}
"""For each rule, the rules whose findings may be its effects."""

RELATIONS = Relations(OWNS, SILENCES, SILENCES_OF_CONNECTION)
