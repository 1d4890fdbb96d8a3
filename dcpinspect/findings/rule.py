"""A rule: what it looks for, when it keeps silent, and what to do about what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from dcpinspect.findings import finding
from dcpinspect.findings.costs import SHARED, Cost, cost
from dcpinspect.findings.finding import Over, Whose
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.words import by_side
from dcpinspect.text import groups, words_of

Blamed = Whose | Literal["producer", "consumer", "sender", "receiver"]
"""Who has to act, also by what a side does: which of client and server this is differs from
connection to connection, and from message to message. A node that replicates to another one is the
producer and the client.
"""
SIDES: tuple[Whose, Whose] = ("client", "server")
"""``words.SIDES``, as those who may have to act."""
_DIRECTIONS: Mapping[str | None, int] = {"c2s": 0, "s2c": 1}

Need = Literal["contents", "flow", "noops", "histories"]
"""What a tracker only follows for rules that need it, named as the tracker's attribute."""

RuleFamily = Literal[
    "wire", "session", "stream", "snapshot", "flow", "noop", "capture", "log", "lint"
]

FAMILIES: tuple[RuleFamily, ...] = (
    "wire",
    "session",
    "stream",
    "snapshot",
    "flow",
    "noop",
    "capture",
    "log",
    "lint",
)

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Worst severity first."""


LONG_NS = 5_000_000_000
"""Something that waits for this time, and until the end, counts as stopped."""
LOOP = 3
"""Number of refusals of one thing after which a client counts as asking again and again."""
GOES_ON, CLOSED, ACKNOWLEDGED, SILENT = "goes-on", "closed", "acknowledged", "silent"
"""Causes of rules about an answer that does not come: what comes instead from that side.
ACKNOWLEDGED: nothing, but its host acknowledged the bytes of the question, so the program does not
answer.

If nothing comes, a capture cannot tell a side that hangs from a host that is down or a network that
carries nothing. So nobody is blamed then, and a network never is.
"""
LOST = (
    "look whether a host is down, or what drops packets on the way, such as a tunnel that takes only "
    "short ones; a client has to close the connection and connect again"
)
"""What to do where bytes do not arrive."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong; ids are stable."""

    id: str
    family: RuleFamily
    severity: Severity
    """Severity of most findings of the rule; one may be milder or worse where ``fires`` says so."""
    fires: str
    """What must be known to have happened."""
    unless: str
    """What looks like the trouble but is none."""
    next: str
    """What to do about it."""
    of_client: str | None = field(default=None, kw_only=True)
    """``next`` for a client that is the producer, where other things are to be done."""
    whose: Blamed | Mapping[str, Blamed] = field(kw_only=True)
    """Who has to change something. If that differs by cause, a mapping; for causes that are not in
    it, nobody knows.
    """
    cost: Cost | Mapping[str, Cost] | None = field(default=None, kw_only=True)
    """What the finding costs those that it happened to, if that differs by cause a mapping; None if
    nobody bears a cost, or if the rule's findings only recommend.
    """
    causes: tuple[str, ...] = ()
    """Kinds by which the rule's findings are told apart."""
    reports: tuple[str, ...] = ()
    """Public reports of the same trouble."""
    adds_up: bool = False
    """Whether all numbers in its messages count something, so that several cases add up."""
    of_each: bool = False
    """Whether the numbers in its messages are of one vbucket or connection, also where several have the same."""
    needs: tuple[Need, ...] = ()
    """What the tracker has to follow for the rule."""
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Fields that findings are about, by cause, "" for all others: a reader is shown the first of
    them that the message has.
    """
    silences: tuple[str, ...] = ()
    """Rules that have nothing to add about a message that it speaks of."""
    in_stream: bool = False
    """Whether it is about a message's place in its stream: it means nothing for a message of
    another stream.
    """

    def cost_of(self, cause: str | None, over: Over = "unknown") -> Cost | None:
        """Returns what a finding of this cause costs; a cost of its cause alone ends with it."""
        if not isinstance(self.cost, Mapping):
            return self.cost
        of_others = self.cost.get("")
        return self.cost.get(cause or "", of_others) if over != "recovered" else of_others

    def fields_of(self, cause: str | None) -> Sequence[str]:
        """Returns the fields that a finding of this cause is about, and at last those in which any
        answer or end of a stream says why.
        """
        return (*self.fields.get(cause or "", self.fields.get("", ())), "end_reason", "status")

    def whose_is(self, cause: str | None, direction: str | None, producer: int = 1) -> Whose:
        """Returns who has to act on a finding of this cause.

        ``direction``: of the message that the finding is about, if there is one. ``producer``:
        direction of the producer's messages.
        """
        blamed = (
            self.whose if isinstance(self.whose, str) else self.whose.get(cause or "", "unknown")
        )
        if blamed == "producer" or blamed == "consumer":
            return SIDES[producer if blamed == "producer" else 1 - producer]
        if blamed != "sender" and blamed != "receiver":
            return blamed
        sent = _DIRECTIONS.get(cause, _DIRECTIONS.get(direction))
        return "unknown" if sent is None else SIDES[sent if blamed == "sender" else 1 - sent]

    def worded(self, advice: str, producer: int) -> str:
        """Returns advice in words for the ends of a connection. ``producer``: direction of the
        producer's messages.
        """
        is_own = not producer and advice == self.next
        return by_side((is_own and self.of_client) or advice, producer)


def rules(text: str) -> tuple[Rule, ...]:
    """Reads rules from a text. A heading has id, family, severity and, if it is the same for all
    causes, who has to act. The lines below it are the other fields of ``Rule``.

    ``whose: consumer for CAUSE CAUSE, normal for CAUSE`` says who has to act by cause; ``whose:
    consumer, normal for CAUSE`` that findings without a cause are the consumer's; so does
    ``fields``, of others for causes that it does not name. ``cost`` is
    the name of one of ``costs.SHARED``, or a cost as ``costs.cost`` reads it. If it differs by
    cause, it is ``CAUSE: COST; CAUSE: COST``, with the cost of all others first, if they have one.
    """
    return tuple(_rule(*head.split(), **lines) for head, lines in groups(text).items())


def _rule(name: str, family: str, severity: str, blamed: str = "", /, **lines: str) -> Rule:
    values: dict[str, Any] = {"family": family, "severity": severity, "unless": "", **lines}
    for name_of_text in ("fires", "unless"):
        values[name_of_text] = by_side(values[name_of_text])
    for name_of_words in ("causes", "needs", "silences"):
        values[name_of_words] = words_of(lines.get(name_of_words, ""))
    values["reports"] = tuple(filter(None, lines.get("reports", "").split(", ")))
    for name_of_choice in ("adds_up", "of_each", "in_stream"):
        values[name_of_choice] = name_of_choice in lines
    values["whose"] = blamed or _by_cause(lines.get("whose", ""))
    fields_by_cause = _by_cause(lines.get("fields", ""))
    values["fields"] = {cause: words_of(fields) for cause, fields in fields_by_cause.items()}
    costs = [part.rpartition(": ") for part in lines.get("cost", "").split("; ")]
    of_cause = {cause: SHARED.get(words) or cost(words) for cause, _, words in costs if words}
    values["cost"] = of_cause[""] if [*of_cause] == [""] else of_cause or None
    finding.SEVERITY_OF[name] = values["severity"]
    return Rule(name, **values)


def _by_cause(text: str) -> dict[str, str]:
    """Reads ``WORDS, WORDS for CAUSE CAUSE``: words by cause, "" for findings without one."""
    named = [words.partition(" for ") for words in text.split(", ")]
    return {cause: assigned for assigned, _, causes in named for cause in words_of(causes) or ("",)}
