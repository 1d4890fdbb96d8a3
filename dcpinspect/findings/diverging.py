"""The rule about streams of one history that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.gaps import elsewhere
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.changes import Event, key_text
from dcpinspect.streams.histories import CAUSES, SHOWN, Contradiction
from dcpinspect.streams.server_reports import At

RULES = (
    Rule(
        "diverging-history",
        "snapshot",
        "error",
        "two streams have the same seqno of the same branch of a vbucket, but the document, the kind of change, the "
        "CAS or the value is different; one history cannot have both",
        "another branch; seqnos after a failover that any log shows; CAS 0; a commit that other streams get as a mutation or deletion;"
        " values of deletions; compressed values; values that the opens ask for in different forms; messages that are not completely"
        " captured; events that do not fit in memory (the last vbuckets of files, the oldest events of pipes)",
        "compare both rows, the failover logs and the nodes, and report them with the producer's version; one of the "
        "two streams is not what the vbucket has",
        CAUSES,
        needs=("histories",),
        whose="producer",
        cost=Cost("vbucket", "has two histories", "have two histories"),
    ),
)

_WORDS: dict[int, str] = {
    Opcode.DCP_MUTATION: "a mutation",
    Opcode.DCP_DELETION: "a deletion",
    Opcode.DCP_EXPIRATION: "an expiration",
    Opcode.DCP_COMMIT: "a commit",
    Opcode.DCP_PREPARE: "a prepare",
    Opcode.DCP_ABORT: "an abort",
    Opcode.DCP_SYSTEM_EVENT: "a system event",
}


def findings(finished: Finished) -> Iterator[Occurrence]:
    """Yields all occurrences: for two streams, the first differences and the last one, which counts for those between."""
    context = finished.context
    for found in context.tracker.contradictions().found():
        if _are_in_two_networks(context, found):
            continue
        for place, seqno in enumerate(found.seqnos):
            if seqno in found.events:
                count = found.count - SHOWN if place == SHOWN else 1
                told = _occurrence(context, found, seqno, count, with_keys=finished.with_keys)
                yield replace(told, rows=found.rows) if place == 0 else told


def _are_in_two_networks(context: Context, found: Contradiction) -> bool:
    """Returns whether two streams are of two servers, although their addresses are the same: connections between the same ends, at the same
    time."""
    one, two = (context.by_number[int(context.streams.connection[stream])] for stream in found.streams)
    is_beside = max(one.first_ns, two.first_ns) < min(one.last_ns, two.last_ns)
    return one.number != two.number and (one.client, one.server) == (two.client, two.server) and is_beside


def _occurrence(context: Context, found: Contradiction, seqno: int, count: int, *, with_keys: bool) -> Occurrence:
    both = sorted(zip(found.streams, found.events[seqno], strict=True), key=lambda one: -one[1].place.row)
    (here, mine), (there, theirs) = both
    beside = "another value" if found.cause == "value" else _what(theirs, with_keys=with_keys)
    if found.cause == "value":
        beside += _cas(theirs)
    message = f"seqno {plain(mine.seqno)} is {_what(mine, with_keys=with_keys)} here, {beside} on {elsewhere(context, here, there)}"
    return occurrence(
        context,
        here,
        "diverging-history",
        "error",
        message,
        [context.at(stream, At.of(event.place)) for stream, event in both],
        cause=found.cause,
        seqnos=(plain(mine.seqno),),
        shared="not the change that another stream has for the same seqno and branch",
        count=count,
    )


def _what(event: Event, *, with_keys: bool) -> str:
    """Returns what an event is, such as "a mutation of k with CAS 0x0000000000000001"."""
    opcode = event.opcode
    of = f" of {key_text(event)}" if with_keys and opcode != Opcode.DCP_SYSTEM_EVENT else ""
    return f"{_WORDS[opcode]}{of}{_cas(event)}"


def _cas(event: Event) -> str:
    cas = event.cas & ((1 << 64) - 1)
    return f" with CAS 0x{cas:016x}" if cas else ""


RULE_SET = RuleSet(RULES, findings=findings)
