"""How rules are plugged in: what looks at which part of a reading, in the same form for all of them.

A module of rules ends with its ``RULE_SET``, and ``registry`` lists these. A checker knows nothing else of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dcpinspect.findings.rule import Rule

if TYPE_CHECKING:
    from dcpinspect.coverage import Coverage
    from dcpinspect.findings.candidates import Candidates
    from dcpinspect.findings.collector import Collector
    from dcpinspect.findings.context import Context
    from dcpinspect.findings.facts import Facts
    from dcpinspect.findings.finding import Occurrence, Place
    from dcpinspect.logs.evidence import Evidence
    from dcpinspect.protocol.columns import Mask, Rows
    from dcpinspect.streams.rows import Streams
    from dcpinspect.streams.tracker import Tables, Tracker
    from dcpinspect.tables.messages import MessageBatch


@dataclass(frozen=True, slots=True)
class Fed:
    """The latest messages, and what is known at them."""

    batch: MessageBatch
    tracker: Tracker
    """It was fed with the batch."""
    facts: Facts
    """What was negotiated, at each message of the batch."""
    with_rows: bool = False
    """Somebody wants the rows of all that is found."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A reading at its end, or where it is by now."""

    context: Context
    """Streams, snapshots and connections, with the tracker that has them."""
    tables: Tables
    coverage: Coverage
    places: Mapping[int, Place]
    """Where the messages of sessions were, by row."""
    faulty: Collection[int]
    """Rows of messages in which a fault was found."""
    so_far: Collector
    """What the watchers have found, and the rule sets before this one."""
    is_whole: bool
    """All messages were taken, so that what did not come is absent."""
    with_keys: bool
    """Documents, and hosts, may be named."""
    evidence: Evidence | None = None
    """Logs and checkpoints that were given beside the captures."""


class Watcher:
    """Rules that go along with the messages, and keep what later ones, or the end, will need."""

    def take(self, fed: Fed) -> Iterable[Candidates]:  # noqa: ARG002 - of others
        """The next messages; gives those that break a rule already."""
        return ()

    def reconsider(self, context: Context, found: Collector) -> None:
        """Takes back from ``found`` what batches seemed to show and the end does not."""

    def findings(self, finished: Finished) -> Iterable[Occurrence]:  # noqa: ARG002 - of others
        """What is only known at the end; may be asked more than once."""
        return ()

    def leave(self, connections: Collection[int]) -> None:
        """These connections are over, and what was found on them is known: what only they need goes."""

    @classmethod
    def joined(cls, parts: Sequence[Self], connections: Sequence[Rows]) -> Self:  # noqa: ARG003 - of others
        """What is known of readings of different connections; ``connections``: by reading, the numbers of its own among all."""
        return cls()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules that look at the same thing. Each has at least one of ``look``, ``watcher`` and ``findings``."""

    rules: Sequence[Rule]
    look: Callable[[MessageBatch], Iterable[Candidates]] | None = None
    """Messages that are wrong by themselves. In any thread, since nothing else is looked at."""
    watcher: type[Watcher] | None = None
    """What goes along with the messages."""
    findings: Callable[[Finished], Iterable[Occurrence]] | None = None
    """What the tables of a finished reading show."""
    wants: Callable[[Streams, Watcher | None], Mask] | None = None
    """Streams all snapshots of which it looks at; of others only those that ``leaving`` keeps."""
    also: Sequence[str] = ()
    """Rules of other sets of which this one finds cases, too."""
    kept: Sequence[type] = ()
    """Classes that the watcher's state is made of, besides its own and places: they travel between processes."""

    @property
    def name(self) -> str:
        """The id of the first rule."""
        return self.rules[0].id

    def finds(self, wanted: Collection[str]) -> bool:
        """Whether any of its rules is wanted."""
        return any(rule.id in wanted for rule in self.rules) or any(rule in wanted for rule in self.also)
