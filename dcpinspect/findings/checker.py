"""All rules at work on one reading: fed with every batch, and asked at the end, or at any time while live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dcpinspect.coverage import Coverage
from dcpinspect.findings import lint
from dcpinspect.findings.candidates import Candidates
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.context import Context
from dcpinspect.findings.explains import OWNS, SILENCES, SILENCES_OF_CONNECTION
from dcpinspect.findings.facts import Facts, SessionPlaces
from dcpinspect.findings.finding import Finding, Occurrence
from dcpinspect.findings.outcomes import Outcomes
from dcpinspect.findings.registry import ORDINARY, RULE_SETS, RULES
from dcpinspect.findings.rule import Need
from dcpinspect.findings.rule_set import Fed, Finished, Watcher
from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.streams.contents import Contents
from dcpinspect.streams.copies import Copy
from dcpinspect.streams.flow import FlowControl
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.histories import Histories
from dcpinspect.streams.links import Link
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.session import Session
from dcpinspect.streams.tracker import Tracker
from dcpinspect.tables.messages import MessageBatch

if TYPE_CHECKING:  # only those who have logs need to read them
    from dcpinspect.logs.evidence import LogEvidence

_NEEDED: Mapping[Need, type] = {"contents": Contents, "flow": FlowControl, "noops": Noops, "histories": Histories}
"""What trackers only follow if a rule needs it."""


class Checker(Portable):
    """Finds what is wrong in the batches that a tracker is fed with."""

    def __init__(self, tracker: Tracker, rules: Iterable[str] = ORDINARY, *, with_keys: bool = True, with_rows: bool = False) -> None:
        """``rules``: ids of the rules that are wanted. ``with_keys``: findings may name documents that batches do not show.

        ``with_rows``: findings get the rows of all messages that show them.
        """
        wanted = set(rules)
        self._with_keys = with_keys
        self.evidence: LogEvidence | None = None
        """Logs and checkpoints that are looked at beside the captures; None without any."""
        self._rules = {rule.id: rule for rule in RULES.values() if rule.id in wanted}
        self._sets = [one for one in RULE_SETS if one.finds(self._rules)]
        self._with_rows = with_rows
        self._follow(tracker)
        self._facts = Facts()
        self._collector = Collector(self._rules, OWNS, keeps_rows=with_rows)
        self._watchers: dict[str, Watcher] = {one.name: one.watcher() for one in self._sets if one.watcher is not None}
        self._places = SessionPlaces()
        self._past: dict[int, tuple[Link, Session]] = {}  # connections that have left and on which something was found

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
        found = {"collector": self._collector, "watchers": self._watchers, "places": self._places}
        return {"rules": list(self._rules), "with_keys": self._with_keys, **found}

    def __setstate__(self, known: dict[str, Any]) -> None:
        self.__init__(Tracker(), known["rules"], with_keys=known["with_keys"])  # type: ignore[misc] # there is nothing yet
        self._collector, self._watchers, self._places = known["collector"], known["watchers"], known["places"]

    def asks_as(self, other: Checker) -> bool:
        """Returns whether this checker looks for the same as another one, and tells of it in the same way."""
        return self._rules.keys() == other._rules.keys() and self._with_keys == other._with_keys

    @classmethod
    def joined(cls, parts: Sequence[Checker], connections: Sequence[Rows], tracker: Tracker) -> Self:
        """Joins what was found in readings of different connections, at least one; ``tracker``: their joined tracker.

        ``connections``: for each reading, the new numbers of its connections.
        """
        whole = cls(tracker, parts[0]._rules, with_keys=parts[0]._with_keys)
        whole._collector = Collector.joined(whole._rules, OWNS, [part._collector for part in parts], connections)
        for name, watcher in whole._watchers.items():
            whole._watchers[name] = watcher.joined([part._watchers[name] for part in parts], connections)
        whole._places = SessionPlaces.joined([part._places for part in parts], connections)
        return whole

    def only(self, rules: Iterable[str]) -> Checker:
        """Returns what this checker would have found with only these of its rules."""
        other = Checker(self._tracker, set(rules) & self._rules.keys(), with_keys=self._with_keys)
        other._collector = self._collector.only(other._rules)
        other._watchers = {name: self._watchers[name] for name in other._watchers}
        other._places = self._places
        return other

    def look(self, batch: MessageBatch) -> list[Candidates]:
        """Returns what is wrong with messages by themselves, for ``take``. It may run in any thread, since nothing else is looked at."""
        return [found for one in self._sets if one.look is not None for found in one.look(batch)]

    def gather(self, batch: MessageBatch) -> None:
        """Adds what is wrong with messages by themselves; another checker follows their connections."""
        self._collector.add_batch(batch, self.look(batch))

    @property
    def gathered(self) -> Collector:
        """What was found so far in messages by themselves, and by watchers."""
        return self._collector

    def take(self, batch: MessageBatch, alone: Iterable[Candidates] | None = None) -> None:
        """Looks at messages that the tracker was just fed with. ``alone``: what ``look`` returned for them, if it was asked."""
        self._facts.take(batch, self._tracker.conversation.news, self._tracker.state.producers)
        found = list(self.look(batch) if alone is None else alone)
        fed = Fed(batch, self._tracker, self._facts, self._with_rows)
        for watcher in self._watchers.values():
            found += watcher.take(fed)
        self._collector.add_batch(batch, found)
        self._places.take(batch)

    @property
    def wanting(self) -> Mask:
        """A mask of streams all of whose snapshots rules look at."""
        streams = self._tracker.state.known.streams
        found = np.zeros(len(streams), dtype=np.bool_)
        for one in self._sets:
            if one.wants is not None:
                found |= one.wants(streams, self._watchers.get(one.name))
        return found

    @property
    def has_dcp(self) -> bool:
        """Whether anything was said so far that belongs to DCP."""
        state, sessions = self._tracker.state, self._tracker.conversation.sessions
        is_opened = any(session.open_row for session in sessions.values())
        return is_opened or len(state.known.streams) > 0 or bool((state.connections.producer[state.connections.is_met != 0] >= 0).any())

    def clients(self, links: list[Link]) -> Mapping[int, str]:
        """Returns the consumer that each connection belongs to, as the table of vbuckets names it."""
        return Context(*self._tracker.counted(links)).clients

    def _counted(self, links: list[Link]) -> tuple[Checker, list[Link]]:
        """Returns what was found, and the connections, without those that show what another one shows."""
        tracker, counted = self._tracker.counted(links)
        if tracker is self._tracker:
            return self, links
        gone = {link.number for link in links} - {link.number for link in counted}
        other = Checker(tracker, self._rules, with_keys=self._with_keys, with_rows=self._with_rows)
        other.evidence, other._past = self.evidence, self._past
        other._collector = self._collector.without(gone)
        same = np.arange(1 + max(max(gone), len(self._tracker.state.connections)))
        other._watchers = {name: type(one).joined([one], [same]) for name, one in self._watchers.items()}
        other._places = SessionPlaces.joined([self._places], [same])
        other._places.leave(gone)
        for one in other._watchers.values():
            one.leave(gone)
        return other, list(counted)

    def findings(
        self,
        links: list[Link],
        coverage: Coverage,
        *,
        is_whole: bool = True,
        apart: bool = False,
        wanted: Callable[[Finding], bool] | None = None,
    ) -> list[Finding]:
        """Returns everything that was found so far, worst first; ``links``: the connections as they are now.

        ``is_whole``: the reading has come to its end; otherwise connections may be further than the messages that were taken. ``apart``:
        each vbucket of each connection gets a finding of its own. ``wanted``: cases that are told.
        """
        context, found = self._found(links, coverage, is_whole=is_whole)
        outcomes = Outcomes(context, self._past)

        unsure = () if is_whole else self._tracker.unsure(links)

        def judged(case: Finding) -> Finding | None:
            if any(number in unsure for number in case.connections):
                return None
            one = outcomes.judged(case)
            return one if wanted is None or wanted(one) else None

        told = found.findings(SILENCES, SILENCES_OF_CONNECTION, apart=apart, judged=judged)
        return [outcomes.named(one) for one in told]

    def let_go(self, links: list[Link], coverage: Coverage, connections: set[int]) -> None:
        """Lets finished connections leave memory, and streams that were over long ago.

        What was found on them is told as it is now. Call this between two batches.
        """
        context, found = self._found(links, coverage, is_whole=True)
        outcomes = Outcomes(context, self._past)
        told = found.cases(SILENCES, SILENCES_OF_CONNECTION, judged=outcomes.judged)
        own = ((link, context.session(link.number)) for link in links if link.number in connections)
        known = {link.number: (link, Session(name=of.name, service=of.service, agent=of.agent)) for link, of in own}
        hosts = {number: owner.host for number, owner in context.owners.items()}
        left = self._tracker.let_go(connections, hosts, [link.number for link in links if link.closed])
        self._collector.let_go(connections, left, told)
        kept = {key for _, case in self._collector.past for key in case.connections}
        self._past = {number: one for number, one in (self._past | known).items() if number in kept}
        self._facts.leave(connections)
        self._places.leave(connections)
        for watcher in self._watchers.values():
            watcher.leave(connections)
        _, found = self._found([link for link in links if link.number not in connections], coverage, is_whole=True)
        self._collector.found_again(found, SILENCES, SILENCES_OF_CONNECTION)

    def _found(self, links: list[Link], coverage: Coverage, *, is_whole: bool) -> tuple[Context, Collector]:
        """Returns the context, and everything that was found so far on connections that are still in memory and count."""
        counted, own = self._counted(links)
        copies = self._tracker.copies.among(links)
        if counted is not self:
            coverage = coverage.without(copies, Counter(link.unopened for link in links if link.number in copies))
        return counted._found_on(own, coverage, copies, is_whole=is_whole)

    def _found_on(self, links: list[Link], coverage: Coverage, copies: Mapping[int, Copy], *, is_whole: bool) -> tuple[Context, Collector]:
        tables = self._tracker.tables(links)  # first, because it adds the connections without messages
        context = Context(self._tracker, links, copies)
        found = self._collector.copy()
        for watcher in self._watchers.values():
            watcher.reconsider(context, found)
        places, faulty = self._places.by_row, found.offenders(SILENCES)
        for occurrence in self._occurrences(
            Finished(context, tables, coverage, places, faulty, found, is_whole, self._with_keys, self.evidence)
        ):
            found.add(occurrence)
        return context, found

    def _occurrences(self, finished: Finished) -> Iterator[Occurrence]:
        for one in self._sets:
            if one.watcher is not None:
                yield from self._watchers[one.name].findings(finished)
            if one.findings is not None:
                yield from one.findings(finished)

    def verdicts(self, links: list[Link]) -> list[lint.Verdict]:
        """Returns what the lint rules say of each connection, whatever it is; nothing if they are not wanted."""
        if not any(rule.id in self._rules for rule in lint.RULES):
            return []
        tracker, counted = self._tracker.counted(links)
        found = lint.verdicts(Context(tracker, counted), self._places.by_row, tracker.flow)
        return [one for one in found if one.rule in self._rules]
