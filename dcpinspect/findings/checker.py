"""All rules at work on one reading: fed with every batch, asked at the end, or while live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.coverage import Coverage
from dcpinspect.findings import lint
from dcpinspect.findings.collector import REFUSED_BY_CONSUMER, Collector
from dcpinspect.findings.context import Context
from dcpinspect.findings.explains import ANSWERED, MALFORMED, RELATIONS
from dcpinspect.findings.finding import Candidates, Finding, Occurrence, Wanted
from dcpinspect.findings.outcomes import Outcomes
from dcpinspect.findings.recommended import Verdict
from dcpinspect.findings.registry import ORDINARY, RULE_SETS, RULES
from dcpinspect.findings.rule import Need
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, Watcher
from dcpinspect.findings.session_facts import SessionFacts
from dcpinspect.findings.wire_rules import REFUSED
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.streams.contents import Contents
from dcpinspect.streams.copies import Copy
from dcpinspect.streams.flow_control import FlowControl
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.histories import Histories
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.session import Session
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from dcpinspect.streams.visibility import in_doubt
from dcpinspect.tables.messages import MessageBatch

if TYPE_CHECKING:  # only those who have logs need to read them
    from dcpinspect.findings.logs.log_evidence import LogEvidence

_NEEDED: Mapping[Need, type] = {
    "contents": Contents,
    "flow": FlowControl,
    "noops": Noops,
    "histories": Histories,
}
"""What trackers only follow if a rule needs it."""


class Checker(Portable):
    """Finds what is wrong in the batches that a tracker is fed with."""

    def __init__(
        self,
        tracker: Tracker,
        rules: Iterable[str] = ORDINARY,
        *,
        with_keys: bool = True,
        with_rows: bool = False,
        vbucket: int | None = None,
    ) -> None:
        """``rules``: ids of the rules that are wanted. ``with_keys``: findings may name documents
        that batches do not show.

        ``with_rows``: findings get the rows of all messages that show them. ``vbucket``: only
        findings about this one are wanted; to read the values of all takes longer than the rest.
        """
        self._told = frozenset(rules)
        """Ids of the rules whose findings are wanted."""
        rule_names = {*self._told}
        if any(REFUSED_BY_CONSUMER in RELATIONS.owns.get(rule, ()) for rule in rule_names):
            rule_names.add(REFUSED_BY_CONSUMER)  # what it finds changes what they say
        self._with_keys = with_keys
        self._vbucket = vbucket
        self.evidence: LogEvidence | None = None
        """Logs and checkpoints that are looked at beside the captures; None without any."""
        self._rules = {rule.id: rule for rule in RULES.values() if rule.id in rule_names}
        self._sets = [rule_set for rule_set in RULE_SETS if rule_set.finds(self._rules)]
        self._with_rows = with_rows
        self._follow(tracker)
        self._facts = SessionFacts()
        self._collector = Collector(self._rules, RELATIONS, keeps_rows=with_rows)
        self._watchers: dict[str, Watcher] = {
            rule_set.name: rule_set.watcher()
            for rule_set in self._sets
            if rule_set.watcher is not None
        }
        # connections that have left and on which something was found
        self._past: dict[int, tuple[TcpConnection, Session]] = {}

    def _follow(self, tracker: Tracker) -> None:
        """Uses a tracker, which from now on follows everything that the rules need."""
        self._tracker = tracker
        for need in {need for rule in self._rules.values() for need in rule.needs}:
            if getattr(tracker, need) is None:
                setattr(tracker, need, _NEEDED[need]())
        for follower in (tracker.flow, tracker.noops, tracker.histories):
            if follower is not None and self._with_rows:
                follower.keeps_rows = True

    def __getstate__(self) -> dict[str, Any]:
        """Returns what was found so far, to be joined with what was found in other readings."""
        return {
            "rules": list(self._told),
            "with_keys": self._with_keys,
            "collector": self._collector,
            "watchers": self._watchers,
        }

    def __setstate__(self, saved_state: dict[str, Any]) -> None:
        self.__init__(Tracker(), saved_state["rules"], with_keys=saved_state["with_keys"])  # type: ignore[misc] # there is nothing yet
        self._collector = saved_state["collector"]
        self._watchers = saved_state["watchers"]

    def asks_as(self, other_checker: Checker) -> bool:
        """Returns whether this checker looks for, and tells, the same as another one."""
        return self._told == other_checker._told and self._with_keys == other_checker._with_keys

    @classmethod
    def joined(
        cls, readings: Sequence[Checker], connections: Sequence[RowNumbers], tracker: Tracker
    ) -> Self:
        """Joins what was found in readings of different connections, at least one; ``tracker``:
        their joined tracker.

        ``connections``: for each reading, the new numbers of its connections.
        """
        checker = cls(tracker, readings[0]._told, with_keys=readings[0]._with_keys)
        checker._collector = Collector.joined(
            checker._rules, RELATIONS, [reading._collector for reading in readings], connections
        )
        for name, watcher in checker._watchers.items():
            checker._watchers[name] = watcher.joined(
                [reading._watchers[name] for reading in readings], connections
            )
        return checker

    def only(self, rules: Iterable[str]) -> Checker:
        """Returns what this checker would have found with only these of its rules."""
        checker = Checker(self._tracker, self._told & set(rules), with_keys=self._with_keys)
        checker._collector = self._collector.only(checker._rules)
        checker._watchers = {name: self._watchers[name] for name in checker._watchers}
        return checker

    def check_alone(self, batch: MessageBatch) -> list[Candidates]:
        """Returns what is wrong with messages by themselves, for ``feed``. It may run in any
        thread, since nothing else is looked at.
        """
        return [
            candidates
            for rule_set in self._sets
            if rule_set.look is not None
            for candidates in rule_set.look(batch, self._vbucket)
        ]

    def gather(self, batch: MessageBatch) -> None:
        """Adds what is wrong with messages by themselves; another checker follows connections."""
        self._collector.add_batch(batch, self.check_alone(batch))

    @property
    def gathered(self) -> Collector:
        """What was found so far in messages by themselves, and by watchers."""
        return self._collector

    def feed(self, batch: MessageBatch, alone: Iterable[Candidates] | None = None) -> None:
        """Looks at messages that the tracker was just fed with. ``alone``: what ``check_alone``
        returned for them, if it was asked.
        """
        self._facts.feed(batch, self._tracker.conversation.news, self._tracker.state.producers)
        candidates = list(self.check_alone(batch) if alone is None else alone)
        fed = RuleInput(batch, self._tracker, self._facts, self._with_rows)
        for watcher in self._watchers.values():
            candidates += watcher.watch(fed)
        self._collector.add_batch(batch, candidates)

    @property
    def wanting(self) -> BoolArray:
        """A mask of streams all of whose snapshots rules look at."""
        streams = self._tracker.state.known_tables.streams
        mask = np.zeros(len(streams), dtype=np.bool_)
        for rule_set in self._sets:
            if rule_set.wants is not None:
                mask |= rule_set.wants(streams, self._watchers.get(rule_set.name))
        return mask

    @property
    def has_dcp(self) -> bool:
        """Whether anything was said so far that belongs to DCP."""
        state, sessions = self._tracker.state, self._tracker.conversation.sessions
        is_opened = any(session.open_row for session in sessions.values())
        return (
            is_opened
            or len(state.known_tables.streams) > 0
            or bool((state.connections.producer[state.connections.is_met != 0] >= 0).any())
        )

    def clients(self, links: list[TcpConnection]) -> Mapping[int, str]:
        """Returns the consumer of each connection, as the table of vbuckets names it."""
        return Context(*self._tracker.counted(links)).clients

    def _counted(self, links: list[TcpConnection]) -> tuple[Checker, list[TcpConnection]]:
        """Returns what was found, and the connections, without those that are copies."""
        tracker, counted = self._tracker.counted(links, with_copies=False)
        if tracker is self._tracker:
            return self, list(counted)
        gone = {link.number for link in links} - {link.number for link in counted}
        copy_of_checker = Checker(
            tracker, self._told, with_keys=self._with_keys, with_rows=self._with_rows
        )
        copy_of_checker.evidence, copy_of_checker._past = self.evidence, self._past
        copy_of_checker._collector = self._collector.without(gone)
        same = np.arange(1 + max(max(gone), len(self._tracker.state.connections)))
        copy_of_checker._watchers = {
            name: type(watcher).joined([watcher], [same])
            for name, watcher in self._watchers.items()
        }
        for watcher in copy_of_checker._watchers.values():
            watcher.leave(gone)
        return copy_of_checker, list(counted)

    def findings(
        self,
        links: list[TcpConnection],
        coverage: Coverage,
        *,
        is_whole: bool = True,
        apart: bool = False,
        is_wanted: Wanted | None = None,
    ) -> list[Finding]:
        """Returns everything that was found so far, worst first; ``links``: the connections as they
        are now.

        ``is_whole``: the reading has come to its end; otherwise connections may be further than the
        messages that were taken. ``apart``: each vbucket of each connection gets a finding of its
        own. ``is_wanted``: as of ``Collector.findings``.
        """
        context, collector = self._context_and_occurrences(links, coverage, is_whole=is_whole)
        outcomes = Outcomes(context, self._past)

        unsure = () if is_whole else self._tracker.unsure(links)

        def judged(case: Finding) -> Finding | None:
            if any(number in unsure for number in case.connections):
                return None
            return outcomes.judged(case)

        unnamed = collector.findings(
            apart=apart,
            judged=judged,
            is_wanted=is_wanted,
            told=self._told,
        )
        return [outcomes.named(finding) for finding in unnamed]

    def let_go(self, links: list[TcpConnection], coverage: Coverage, connections: set[int]) -> None:
        """Lets finished connections leave memory, and streams that were over long ago.

        What was found on them is told as it is now. Call this between two batches.
        """
        context, collector = self._context_and_occurrences(links, coverage, is_whole=True)
        outcomes = Outcomes(context, self._past)
        cases = collector.cases(judged=outcomes.judged, told=self._told)
        links_and_sessions = (
            (link, context.session(link.number)) for link in links if link.number in connections
        )
        leaving = {
            link.number: (
                link,
                Session(name=session.name, service=session.service, agent=session.agent),
            )
            for link, session in links_and_sessions
        }
        hosts = {number: owner.host for number, owner in context.owners.items()}
        left_numbers = self._tracker.let_go(
            connections, hosts, [link.number for link in links if link.closed]
        )
        self._collector.let_go(connections, left_numbers, cases)
        kept_connections = {key for _, case in self._collector.past for key in case.connections}
        self._past = {
            number: past_link
            for number, past_link in (self._past | leaving).items()
            if number in kept_connections
        }
        self._facts.leave(connections)
        for watcher in self._watchers.values():
            watcher.leave(connections)
        _, collector = self._context_and_occurrences(
            [link for link in links if link.number not in connections], coverage, is_whole=True
        )
        self._collector.found_again(collector)

    def _context_and_occurrences(
        self, links: list[TcpConnection], coverage: Coverage, *, is_whole: bool
    ) -> tuple[Context, Collector]:
        """Returns the context, and everything that was found so far on connections that are still
        in memory and count.
        """
        counted, counted_links = self._counted(links)
        copy_of = self._tracker.copies.among(links)
        copies = {
            link.number: (link, copy_of[link.number]) for link in links if link.number in copy_of
        }
        if counted is not self:
            coverage = coverage.without(
                copies, Counter(link.unopened for link, _ in copies.values())
            )
        return counted._found_on(counted_links, coverage, copies, is_whole=is_whole)

    def _found_on(
        self,
        links: list[TcpConnection],
        coverage: Coverage,
        copies: Mapping[int, tuple[TcpConnection, Copy]],
        *,
        is_whole: bool,
    ) -> tuple[Context, Collector]:
        links = in_doubt(links)
        # first, because it adds the connections without messages
        tables = self._tracker.tables(links)
        context = Context(self._tracker, links, copies)
        collector = self._collector.copy()
        for watcher in self._watchers.values():
            watcher.reconsider(context, collector)
        faulty = collector.offenders()
        for occurrence in self._occurrences(
            ReadingEnd(
                context,
                tables,
                coverage,
                faulty,
                collector,
                is_whole,
                self._with_keys,
                self.evidence,
            )
        ):
            collector.add(occurrence)
        refused = {
            message_place.row: f"the request was refused: {case.cause}"
            for _, case in collector.occurrences_of(["stream-refused", "open-refused"])
            for message_place in case.places
        }
        collector.quote(MALFORMED, lambda place: refused.get(place.row, ""), cause=REFUSED)
        collector.quote(
            ANSWERED,
            lambda place: context.session(place.connection).reasons.get(place.row, ""),
        )
        return context, collector

    def _occurrences(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        for rule_set in self._sets:
            if rule_set.watcher is not None:
                yield from self._watchers[rule_set.name].findings(finished)
            if rule_set.findings is not None:
                yield from rule_set.findings(finished)

    def verdicts(self, links: list[TcpConnection]) -> list[Verdict]:
        """Returns what the lint rules say of each connection; nothing if they are not wanted."""
        if not any(rule.id in self._rules for rule in lint.RULES):
            return []
        tracker, counted = self._tracker.counted(links)
        all_verdicts = lint.verdicts(Context(tracker, counted), tracker.flow)
        return [verdict for verdict in all_verdicts if verdict.rule in self._rules]
