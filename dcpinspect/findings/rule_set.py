"""How rules are plugged in: what looks at which part of a reading, in the same form for all rules.

A module of rules ends with its ``RULE_SET``, and ``registry`` lists these sets. A checker knows
nothing else of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dcpinspect.findings.rule import Rule
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.followers import Follower

if TYPE_CHECKING:
    from dcpinspect.arrays import BoolArray
    from dcpinspect.coverage import Coverage
    from dcpinspect.findings.collector import Collector
    from dcpinspect.findings.context import Context
    from dcpinspect.findings.finding import Candidates, FindingKey, Occurrence
    from dcpinspect.findings.logs.log_evidence import LogEvidence
    from dcpinspect.findings.session_facts import SessionFacts
    from dcpinspect.streams.records import Streams
    from dcpinspect.streams.tables import Tables
    from dcpinspect.streams.tracker import Tracker
    from dcpinspect.tables.messages import MessageBatch


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The latest messages, and what is known when they come."""

    batch: MessageBatch
    tracker: Tracker
    """The tracker, which was already fed with the batch."""
    facts: SessionFacts
    """What was negotiated, at each message of the batch."""
    with_rows: bool = False
    """Whether somebody wants the rows of everything that is found."""


@dataclass(frozen=True, slots=True)
class ReadingEnd:
    """A reading at its end, or as far as it has come."""

    context: Context
    """Streams, snapshots and connections, with the tracker that has them."""
    tables: Tables
    coverage: Coverage
    faulty: Mapping[int, FindingKey]
    """Rows of messages in which a fault was found."""
    so_far: Collector
    """What the watchers have found, and the rule sets before this one."""
    is_whole: bool
    """Whether all messages were taken, so that what did not come is absent."""
    with_keys: bool
    """Whether documents and hosts may be named."""
    evidence: LogEvidence | None = None
    """Logs and checkpoints that were given beside the captures."""


class Watcher(Follower):
    """Rules that go along with the messages, and keep what later messages, or the end, need."""

    def watch(self, fed: RuleInput) -> Iterable[Candidates]:  # noqa: ARG002 - of others
        """Takes the next messages; returns those that already break a rule."""
        return ()

    def reconsider(self, context: Context, collector: Collector) -> None:
        """Takes back from ``collector`` what batches seemed to show and the end does not."""

    def findings(self, finished: ReadingEnd) -> Iterable[Occurrence]:  # noqa: ARG002 - of others
        """Returns what is only known at the end; may be called more than once."""
        return ()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules that look at the same thing. A set has ``look``, ``watcher`` or ``findings``."""

    rules: Sequence[Rule]
    look: Callable[[MessageBatch, int | None], Iterable[Candidates]] | None = None
    """Returns messages that are wrong by themselves, in any thread: it looks at nothing else. With
    a vbucket, values of the others are not read.
    """
    watcher: type[Watcher] | None = None
    """The class that goes along with the messages."""
    findings: Callable[[ReadingEnd], Iterable[Occurrence]] | None = None
    """Returns what the tables of a finished reading show."""
    wants: Callable[[Streams, Watcher | None], BoolArray] | None = None
    """Returns a mask of streams all of whose snapshots the rules look at; of other streams, only
    snapshots that ``leaving`` keeps are there.
    """
    also: Sequence[str] = ()
    """Rules of other sets for which this set also finds cases."""

    @property
    def name(self) -> str:
        """The id of the first rule, which names the set."""
        return self.rules[0].id

    def finds(self, rule_names: Collection[str]) -> bool:
        """Returns whether any of its rules is wanted."""
        return any(rule.id in rule_names for rule in self.rules) or any(
            rule in rule_names for rule in self.also
        )
