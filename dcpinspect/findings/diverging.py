"""The rule about streams of one history that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dcpinspect.findings.context import Context, occurrence, plain
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.gap_rules import elsewhere
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.opcodes import Opcode, opcode_name
from dcpinspect.streams.changes import ChangeEvent, key_text
from dcpinspect.streams.histories import CAUSES, SHOWN, Contradiction

RULES = rules(
    f"""
    diverging-history snapshot error producer
        fires: two streams have the same seqno of the same branch of a vbucket, but the document,
            the kind of change, the CAS or the value is different; one history cannot have both
        unless: another branch; seqnos after a failover that any log shows; CAS 0; a commit that
            other streams get as a mutation or deletion; values of deletions; compressed values;
            values that the opens ask for in different forms; messages that are not completely
            captured; events that do not fit in memory (the last vbuckets of files, the oldest
            events of pipes)
        next: compare both rows, the failover logs and the nodes, and report them with the
            producer's version; a consumer has to read the vbucket again, because one of the two
            streams is not what the vbucket has
        causes: {" ".join(CAUSES)}
        needs: histories
        cost: vbucket, has two histories, have two histories
        fields: by_seqno
    """
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences: for two streams, the first differences and the last one, which counts
    for those between.
    """
    context = finished.context
    for contradiction in context.tracker.contradictions().contradictions():
        if _are_in_two_networks(context, contradiction):
            continue
        for index, seqno in enumerate(contradiction.seqnos):
            if seqno in contradiction.events:
                count = contradiction.count - SHOWN if index == SHOWN else 1
                diverging = _occurrence(
                    context, contradiction, seqno, count, with_keys=finished.with_keys
                )
                yield replace(diverging, rows=contradiction.rows) if index == 0 else diverging


def _are_in_two_networks(context: Context, contradiction: Contradiction) -> bool:
    """Returns whether two streams are of two servers, although their addresses are the same: those
    of networks that are apart, or connections between the same ends, at the same time.
    """
    first_link, second_link = (
        context.by_number[context.streams[stream].connection] for stream in contradiction.streams
    )
    is_beside = max(first_link.first_ns, second_link.first_ns) < min(
        first_link.last_ns, second_link.last_ns
    )
    return first_link.network != second_link.network or (
        first_link.number != second_link.number
        and (first_link.client, first_link.server) == (second_link.client, second_link.server)
        and is_beside
    )


def _occurrence(
    context: Context, contradiction: Contradiction, seqno: int, count: int, *, with_keys: bool
) -> Occurrence:
    both = sorted(
        zip(contradiction.streams, contradiction.events[seqno], strict=True),
        key=lambda stream_event: (-stream_event[1].place.time, -stream_event[1].place.row),
    )
    (newer_stream, newer_event), (older_stream, older_event) = both
    beside = (
        "another value"
        if contradiction.cause == "value"
        else _event_text(older_event, with_keys=with_keys)
    )
    if contradiction.cause == "value":
        beside += _cas(older_event)
    other_node = elsewhere(context, newer_stream, older_stream)
    message = (
        f"seqno {plain(newer_event.seqno)} is {_event_text(newer_event, with_keys=with_keys)} "
        f"here, {beside} on {other_node}"
    )
    return occurrence(
        context,
        newer_stream,
        "diverging-history",
        message,
        [context.producer_place(stream, event.place) for stream, event in both],
        cause=contradiction.cause,
        seqnos=(plain(newer_event.seqno),),
        shared="not the change that another stream has for the same seqno and branch",
        count=count,
    )


def _event_text(event: ChangeEvent, *, with_keys: bool) -> str:
    """Returns what an event is, such as "a mutation of k with CAS 0x0000000000000001"."""
    opcode = event.opcode
    key_part = f" of {key_text(event)}" if with_keys and opcode != Opcode.DCP_SYSTEM_EVENT else ""
    name = opcode_name(opcode).removeprefix("dcp_").replace("_", " ")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}{key_part}{_cas(event)}"


def _cas(event: ChangeEvent) -> str:
    cas = event.cas & ((1 << 64) - 1)
    return f" with CAS 0x{cas:016x}" if cas else ""


RULE_SET = RuleSet(RULES, findings=findings)
