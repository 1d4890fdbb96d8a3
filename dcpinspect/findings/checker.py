"""All rules at work on one reading: fed with every batch, asked at the end, or at any time while live."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dcpinspect.coverage import Coverage
from dcpinspect.findings import (
    acknowledged,
    closing,
    connections,
    diverging,
    ends,
    flow,
    gaps,
    history,
    lint,
    markers,
    negotiation,
    noops,
    opens,
    order,
    pairing,
    refusals,
    reopening,
    reported_seqnos,
    requests,
    unrequested,
    wire,
)
from dcpinspect.findings.candidates import Candidates
from dcpinspect.findings.collector import Collector, place_of, renumbered_place
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Finding, Occurrence, Place
from dcpinspect.findings.rule import Rule
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.contents import Contents
from dcpinspect.streams.flow import FlowControl
from dcpinspect.streams.histories import Histories
from dcpinspect.streams.links import Link
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.tracker import Tables, Tracker
from dcpinspect.tables.messages import MessageBatch

RULES: Mapping[str, Rule] = {
    rule.id: rule
    for module in (
        wire,
        negotiation,
        pairing,
        refusals,
        opens,
        requests,
        history,
        reopening,
        ends,
        reported_seqnos,
        unrequested,
        order,
        markers,
        acknowledged,
        gaps,
        diverging,
        flow,
        noops,
        connections,
        closing,
        lint,
    )
    for rule in module.RULES
}
"""Every rule by its id."""

ORDINARY: Sequence[str] = tuple(rule.id for rule in RULES.values() if rule.family != "lint")
"""Those that are asked unless somebody chooses: a client that leaves recommendations out does nothing wrong."""

SILENCES: Mapping[str, Collection[str]] = {
    **{rule.id: ("stream-refused",) for rule in wire.RULES if rule.severity != "note"},
    "bad-stream-range": ("stream-refused",),
    "duplicate-stream-request": ("stream-refused",),
    "manifest-ahead": ("stream-refused",),
    "noop-required": ("stream-refused",),
    "marker-behind": ("marker-overlap", "snapshot-incomplete"),
    "seqno-not-increasing": ("seqno-outside-snapshot",),
    "seqno-outside-snapshot": ("duplicate-key-in-snapshot", "gap-unexplained"),
    "event-before-marker": ("seqno-below-request-start", "seqno-not-increasing", "seqno-outside-snapshot", "gap-unexplained"),
    "sid-missing": ("message-without-stream", "message-after-stream-end", "opaque-mismatch"),
    "sid-unexpected": ("message-without-stream", "message-after-stream-end", "opaque-mismatch"),
    "message-after-stream-end": ("message-without-stream", "opaque-mismatch"),
    "message-without-stream": ("opaque-mismatch",),
    "role-violation": ("missing-response", "bad-stream-range"),
    "consumer-refused": ("ack-early",),
    "wrong-failover-entry": ("unknown-vbucket-uuid",),
    "no-common-history": ("unknown-vbucket-uuid",),
}
"""Rules that have nothing to add about a message that a more specific rule speaks of."""

SILENCES_OF_CONNECTION: Mapping[str, Collection[str]] = {
    "flow-control-stall": ("stream-end-missing", "server-owes-seqno", "silent-connection"),
}
"""Rules that have nothing to add about a connection, in the time that a more specific rule speaks of."""

MOST_PLACES = 1 << 16
"""Messages of sessions whose places are kept."""

_SESSION = np.zeros(256, dtype=np.bool_)
_SESSION[[Opcode.HELLO, Opcode.DCP_OPEN, Opcode.DCP_CONTROL, Opcode.SELECT_BUCKET, Opcode.SASL_AUTH]] = True


_FOUND = ("_collector", "_pairing", "_refusals", "_opens", "_acknowledged", "_places")
"""What a checker knows that more than the next messages need."""


class Checker:
    """Finds what is wrong in the batches that a tracker is fed with."""

    def __init__(self, tracker: Tracker, rules: Iterable[str] = ORDINARY, *, with_keys: bool = True) -> None:
        """``rules``: ids of those that are wanted. ``with_keys``: findings may name documents that batches do not show."""
        wanted = set(rules)
        self._with_keys = with_keys
        self._tracker = tracker
        if wanted & order.OF_CONTENTS:
            tracker.contents = Contents()
        if "diverging-history" in wanted:
            tracker.histories = Histories()
        if "lint-ack-pace" in wanted or any(rule.id in wanted for rule in flow.RULES):
            tracker.flow = FlowControl()
        if any(rule.id in wanted for rule in noops.RULES):
            tracker.noops = Noops()
        self._rules = {rule.id: rule for rule in RULES.values() if rule.id in wanted}
        self._collector = Collector(self._rules)
        self._negotiation = negotiation.Negotiation()
        self._pairing = pairing.Pairing()
        self._refusals = refusals.Refusals()
        self._opens = opens.Opens()
        self._acknowledged = acknowledged.Acknowledged()
        self._places: dict[int, Place] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What was found by now, to be joined with what was found in other readings."""
        return {"rules": list(self._rules), "with_keys": self._with_keys, **{name: getattr(self, name) for name in _FOUND}}

    def __setstate__(self, known: dict[str, Any]) -> None:
        self.__init__(Tracker(), known["rules"], with_keys=known["with_keys"])  # type: ignore[misc] # there is nothing yet
        for name in _FOUND:
            setattr(self, name, known[name])

    def asks_as(self, other: Checker) -> bool:
        """Whether it looks for the same as another, and tells of it in the same way."""
        return self._rules.keys() == other._rules.keys() and self._with_keys == other._with_keys

    @classmethod
    def joined(cls, parts: Sequence[Checker], connections: Sequence[Rows], tracker: Tracker) -> Self:
        """What was found in readings of different connections, at least one, with the joined tracker of these.

        ``connections``: by reading, the numbers of its own among all.
        """
        first = parts[0]
        whole = cls(Tracker(), first._rules, with_keys=first._with_keys)
        whole._tracker = tracker
        if "diverging-history" in whole._rules:
            tracker.histories = Histories()
        whole._collector = Collector.joined(whole._rules, [part._collector for part in parts], connections)
        whole._pairing = pairing.Pairing.joined([part._pairing for part in parts], connections)
        whole._refusals = refusals.Refusals.joined([part._refusals for part in parts], connections)
        whole._opens = opens.Opens.joined([part._opens for part in parts], connections)
        whole._acknowledged = acknowledged.Acknowledged.joined([part._acknowledged for part in parts], connections)
        places = [
            (row, renumbered_place(place, of)) for part, of in zip(parts, connections, strict=True) for row, place in part._places.items()
        ]
        whole._places = dict(sorted(places, key=lambda item: item[0])[:MOST_PLACES])
        return whole

    def only(self, rules: Iterable[str]) -> Checker:
        """What it would have found if it had been asked for these of its rules only."""
        other = Checker(Tracker(), set(rules) & self._rules.keys(), with_keys=self._with_keys)
        other._tracker = self._tracker
        for name in _FOUND:
            setattr(other, name, getattr(self, name))
        other._collector = self._collector.only(other._rules)
        return other

    @staticmethod
    def look(batch: MessageBatch) -> list[Candidates]:
        """What is wrong with messages by themselves, for ``take``; in any thread, since nothing else is looked at."""
        return list(wire.candidates(batch))

    def take(self, batch: MessageBatch, alone: Iterable[Candidates] | None = None) -> None:
        """Looks at messages that the tracker was fed with just now. ``alone``: what ``look`` said of them, if it was asked."""
        found = list(self.look(batch) if alone is None else alone)
        found += self._negotiation.candidates(batch, self._tracker)
        found += self._pairing.candidates(batch)
        self._refusals.take(batch, self._negotiation.facts, self._tracker.state.connections.producer)
        self._opens.take(batch, self._tracker.conversation.news)
        self._acknowledged.take(batch)
        state = self._tracker.state
        anomalies = state.used(state.anomalies)
        if len(anomalies):
            found += order.anomalies(batch, anomalies, state.known.streams, state.known.snapshots)
        self._collector.add_batch(batch, found)
        said = np.flatnonzero(_SESSION[batch.decoded.opcode] & ~batch.decoded.is_server & batch.decoded.has_magic)
        for index in said[: max(0, MOST_PLACES - len(self._places))].tolist():
            self._places[int(batch.row[index])] = place_of(batch, index)

    @property
    def has_dcp(self) -> bool:
        """Whether anything was said by now that belongs to DCP."""
        state, sessions = self._tracker.state, self._tracker.conversation.sessions
        is_opened = any(session.open_row for session in sessions.values())
        return is_opened or len(state.known.streams) > 0 or bool((state.connections.producer >= 0).any())

    def clients(self, links: list[Link]) -> Mapping[int, str]:
        """The consumer that each connection belongs to, as the table of vbuckets calls it."""
        return Context(self._tracker, links).clients

    def findings(self, links: list[Link], coverage: Coverage, *, is_whole: bool = True, apart: bool = False) -> list[Finding]:
        """All that was found so far, worst first; ``links``: the connections as they are now.

        ``is_whole``: the reading has come to its end; connections may be further than the messages that were taken. ``apart``: those of
        many vbuckets are not put together.
        """
        tables = self._tracker.tables(links)  # first, for it meets the connections without messages
        context = Context(self._tracker, links)
        collector = self._collector.copy()
        collector.doubt(negotiation.IDS, negotiation.doubtful(self._tracker, links))
        collector.soften("marker-overlap", context.replicas)
        collector.drop("marker-overlap", context.blind)
        explained = set()
        for occurrence in self._occurrences(context, coverage, tables, collector.offenders(), is_whole=is_whole):
            collector.add(occurrence)
            if occurrence.closes is not None and occurrence.rule in self._rules:
                explained.add(occurrence.closes)
        for occurrence in connections.findings(context, coverage, self._places):
            collector.add(occurrence)
        if is_whole:
            for occurrence in closing.findings(context, collector.found(closing.CLOSES), self._tracker.noops, explained):
                collector.add(occurrence)
        for verdict in self._verdicts(context) if is_whole else ():
            if verdict.says == "FAIL":
                collector.add(verdict.occurrence)
        return collector.findings(SILENCES, SILENCES_OF_CONNECTION, apart=apart)

    def _occurrences(
        self, context: Context, coverage: Coverage, tables: Tables, faulty: Collection[int], *, is_whole: bool
    ) -> Iterator[Occurrence]:
        """What the rules over a finished reading find, but for those of connections, and advice. ``faulty``: rows of faulty messages."""
        if is_whole:
            yield from self._pairing.findings(context, coverage)
            yield from self._acknowledged.findings(context, coverage)
            yield from unrequested.findings(context)
        yield from self._refusals.findings(context, faulty, is_whole=is_whole)
        yield from self._opens.findings(context)
        yield from self._opens.clashes(context)
        yield from requests.findings(context)
        yield from history.findings(context)
        yield from reopening.findings(context, is_whole=is_whole)
        if is_whole:
            yield from ends.findings(context)
        yield from reported_seqnos.findings(context, tables.waits, is_whole=is_whole)
        yield from markers.findings(context, tables)
        yield from gaps.findings(context, tables.all_gaps, with_keys=self._with_keys)
        yield from diverging.findings(context, self._tracker.contradictions(), with_keys=self._with_keys)
        if self._tracker.flow is not None:
            yield from flow.findings(context, self._tracker.flow, is_whole=is_whole)
        if self._tracker.noops is not None:
            yield from noops.findings(context, self._tracker.noops, is_whole=is_whole)

    def verdicts(self, links: list[Link]) -> list[lint.Verdict]:
        """What the rules of the family lint say of each connection, whatever it is; none where they are not wanted."""
        return self._verdicts(Context(self._tracker, links))

    def _verdicts(self, context: Context) -> list[lint.Verdict]:
        if not any(rule.id in self._rules for rule in lint.RULES):
            return []
        return [one for one in lint.verdicts(context, self._places, self._tracker.flow) if one.rule in self._rules]
