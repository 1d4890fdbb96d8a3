"""What a rule found: first as occurrences, then as findings that put like ones together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from dcpinspect.protocol.message import Severity

if TYPE_CHECKING:
    from dcpinspect.protocol.column_types import RowNumbers

Whose = Literal["client", "server", "capture", "normal", "unknown"]
Over = Literal["recovered", "open", "unknown"]
WHOSE: tuple[Whose, ...] = ("client", "server", "capture", "normal", "unknown")
OVER: tuple[Over, ...] = ("recovered", "open", "unknown")


def _no_rows() -> RowNumbers:
    # deferred: commands that name rules start without NumPy
    from dcpinspect.protocol.column_types import NO_ROWS

    return NO_ROWS


@dataclass(frozen=True, slots=True, order=True)
class MessagePlace:
    """A message that shows something, or a packet without one."""

    row: int
    """Row of the message; 0 if the place is of a packet, and of no message before it."""
    connection: int
    direction: str
    """``c2s`` or ``s2c``."""
    stream_offset: int
    file: int
    """Number of the capture file, from 0; ``frame`` counts within it."""
    frame: int
    """The last packet that carried bytes of the message."""
    time_ns: int
    has_message: bool = True
    """Whether ``frame`` carried the message; False: it is a packet without one, which came after
    the message of ``row``, if there is that.
    """

    def packet(self, file: int, frame: int, time_ns: int) -> MessagePlace:
        """Returns the place of a packet without a message behind this one."""
        return replace(self, file=file, frame=frame, time_ns=time_ns, has_message=False)


def captured(places: Iterable[MessagePlace | None]) -> tuple[MessagePlace, ...]:
    """Returns the messages that were captured, each once."""
    return tuple(dict.fromkeys(place for place in places if place is not None))


SEVERITY_OF: dict[str, Severity] = {}
"""By rule: the severity of what it finds, unless that says otherwise; ``rule.rules`` adds it."""

FindingKey = tuple[str, Severity, str | None, int, int | None, int | None]
"""Rule, severity, cause, connection, vbucket, stream-id: what like occurrences have in common."""


@dataclass(slots=True)
class Occurrence:
    """A case of a rule that happened once, or ``count`` times if only place and time differ."""

    rule: str
    message: str
    """One sentence, without the place, which every view adds in its own way."""
    connection: int
    """Number of the connection; 0 or below: a log or a checkpoint, not a connection. Each of their
    clients has a number of its own.
    """
    places: tuple[MessagePlace, ...] = ()
    """Messages that show the case, the offender first."""
    vbucket: int | None = None
    """The vbucket; None: the whole connection."""
    sid: int | None = None
    cause: str | None = None
    next: str | None = None
    """What to do; None: the rule's own text says it."""
    seqnos: tuple[int, ...] = ()
    vbuckets: tuple[int, ...] = ()
    """Sorted vbuckets of an occurrence that is about several at once, and ``vbucket`` is None; or
    others that it is about beside ``vbucket``.
    """
    shared: str | None = None
    """The message if many vbuckets share it, without one's numbers; None: ``message`` itself."""
    reason: str = ""
    """Why, if one cause has several: occurrences with another one are a case of their own."""
    count: int = 1
    last_time_ns: int = 0
    """Time of the last of ``count``; 0: the time of the places."""
    closes: int | None = None
    """Connection for which the occurrence says why it was closed."""
    stream: int | None = None
    """Number of the stream that the occurrence is about."""
    explains: Collection[int] = ()
    """Numbers of the streams whose findings are effects of this one, if the rule may have any."""
    effect_of: FindingKey | None = None
    """Key of what this occurrence is an effect of, if that is known without ``explains``."""
    facts: Mapping[str, int | str] = field(default_factory=dict)
    """Values that differ from one occurrence to the next, by the heading of their column."""
    is_over: bool | None = None
    """Whether the trouble has ended, if the rule knows."""
    time_ns: int = 0
    """Time when it began, if the first of ``places`` does not tell it; 0: it does, or unknown."""
    spans: Sequence[tuple[int, int]] = ()
    """When each of ``count`` and of others like it began and ended, if the rule knows of more than
    it tells; () : the one time of this occurrence.
    """
    connections: Collection[int] = ()
    """Numbers of all connections that it is about, if they are several; ``connection`` is one."""
    client: str | None = None
    """The client that it is about, if no connection tells it."""
    whose: Whose = "unknown"
    """Who has to act, if the rule does not tell it."""
    rows: Collection[int] | RowNumbers = field(default=(), compare=False)
    """Rows of all messages that show it, if they are more than the first of ``places``."""
    severity: Severity = ""  # type: ignore[assignment] # of the rule, once it is made

    def __post_init__(self) -> None:
        self.severity = self.severity or SEVERITY_OF[self.rule]

    @property
    def key(self) -> FindingKey:
        """What the occurrence has in common with others that are the same thing."""
        return self.rule, self.severity, self.cause, self.connection, self.vbucket, self.sid

    @property
    def began_ns(self) -> int:
        """Time when it began: other messages that show it may be older, such as the request of a
        stream that ended. 0: nobody knows.
        """
        return self.time_ns or (self.places[0].time_ns if self.places else 0)

    @property
    def span(self) -> tuple[int, int]:
        """When it began and ended, in nanoseconds."""
        last_ns = max((place.time_ns for place in self.places), default=0)
        return self.began_ns, max(self.last_time_ns or last_ns, self.began_ns)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Messages of a batch that break a rule."""

    rule: str
    rows: RowNumbers
    words: Callable[[int], str] | str | None = None
    """What to say of all messages, or of one; None: what the division into fields says."""
    severity: Severity | None = None
    """None: the severity of the rule."""
    seqnos: Callable[[int], tuple[int, ...]] | None = None
    others: Callable[[int], tuple[MessagePlace, ...]] | None = None
    """Returns earlier messages that one of the messages contradicts."""
    shared: str | None = None
    """What several of the messages have in common; None: what their words have in common."""
    cause: str | None = None
    """The kind by which the rule's findings are told apart, if it has kinds."""
    vbuckets: Callable[[int], tuple[int, ...]] | None = None
    """Returns other vbuckets that one of the messages is about, too."""
    next: str | None = None
    """What to do; None: the rule's own text says it."""


@dataclass(slots=True, repr=False)
class Finding:
    """Occurrences of one rule and cause that one person would call one thing."""

    rule: str
    severity: Severity
    cause: str | None
    message: str
    next: str
    connections: tuple[int, ...]
    """Numbers of the connections; empty: the finding is about a log or a checkpoint."""
    vbuckets: tuple[int, ...]
    """The vbuckets, sorted; empty: the whole connection."""
    sid: int | None
    places: tuple[MessagePlace, ...]
    """Evidence: messages that show the finding, the first offender first."""
    seqnos: tuple[int, ...]
    first_time_ns: int
    """Time when the first occurrence began; 0: nobody knows. Evidence may be older."""
    last_time_ns: int
    """Time of the last message that shows it, or when it ended."""
    count: int = 1
    left_out: int = 0
    """Number of further messages that show it, or of occurrences with no message among ``places``.
    """
    effect_of: str | None = None
    """Id of the finding that is the cause of this one, and that has the advice."""
    what: str = ""
    """The message without the places that it speaks of; empty: the message names none."""
    clients: tuple[str, ...] = ()
    """Clients of the connections, sorted, as the table of vbuckets names them."""
    who: str = ""
    """The clients in words."""
    server: str = ""
    """The server of the connections, in words."""
    whose: Whose = "unknown"
    """Who has to change something, or that nobody has to."""
    over: Over = "unknown"
    over_place: MessagePlace | None = None
    """The message that shows that the trouble is over."""
    facts: Mapping[str, int | str] = field(default_factory=dict)
    """Numbers that the message speaks of, by the heading of their column."""
    latest: MessagePlace | None = None
    """The latest offender."""
    rows: RowNumbers = field(default_factory=_no_rows, compare=False, repr=False)
    """Rows of all messages that show it, rising, if asked for (``Collector``); else empty."""
    cases: tuple[Finding, ...] = ()
    """The cases, if it happened on several vbuckets or connections: one for each. Empty: the
    finding is one case.
    """
    files: tuple[str, ...] = field(default=(), compare=False)
    """Names of the captures that ``places`` count, if a ``Recording`` gives the finding."""

    def __dir__(self) -> Iterable[str]:
        """Names for people; the others are for those who print it."""
        return {*object.__dir__(self)} - {
            "facts",
            "in_full",
            "latest",
            "over_place",
            "what",
            "where",
        }

    @property
    def over_row(self) -> int | None:
        """Row of the message that shows that the trouble is over."""
        return None if self.over_place is None else self.over_place.row

    def __repr__(self) -> str:
        return f"<{self.severity} {self.rule}, {self.where}: {self.what or self.message}>"

    def to_dict(self) -> dict[str, Any]:
        """Returns what ``dcpinspect check --format json`` prints of it, as Python objects."""
        from dcpinspect.findings.finding_records import finding_records  # deferred: it needs NumPy

        [record] = finding_records([self], self.files).records()
        return record

    @property
    def id(self) -> str:
        """A hash that is equal in every reading of the same captures, and differs between the
        findings of one reading.
        """
        id_fields = (
            self.rule,
            self.cause,
            self.connections or self.clients,
            self.vbuckets,
            self.sid,
        )
        evidence = [
            (place.connection, place.direction, place.stream_offset) for place in self.places[:1]
        ]
        return sha256(repr((*id_fields, *evidence)).encode()).hexdigest()[:12]

    @property
    def case_of_each(self) -> tuple[Finding, ...]:
        """The case of each vbucket and connection."""
        return self.cases or (self,)

    @property
    def in_full(self) -> Finding:
        """The finding with the messages of all its cases, of which ``places`` has some."""
        of_cases = (message_place for case in self.cases for message_place in case.places)
        message_places = tuple(dict.fromkeys((*self.places[:1], *of_cases, *self.places)))
        return replace(
            self,
            places=message_places,
            left_out=self.left_out - len(message_places) + len(self.places),
        )

    @property
    def evidence_rows(self) -> list[int]:
        """Rows of ``places``, those of messages."""
        return [place.row for place in self.places if place.row]

    @property
    def connection(self) -> int | None:
        """The connection; None if there are several."""
        return self.connections[0] if len(self.connections) == 1 else None

    @property
    def where(self) -> str:
        """What the finding speaks of, such as ``vb 417, connection 3``."""
        connections = connections_of(self)
        if not self.vbuckets:
            return connections or "log"
        vbuckets = (
            f"vb {self.vbuckets[0]}"
            if len(self.vbuckets) == 1
            else f"{len(self.vbuckets):,} vbuckets"
        )
        return ", ".join(
            filter(
                None,
                [f"{vbuckets}{'' if self.sid is None else f' sid {self.sid}'}", connections],
            )
        )


Wanted = Callable[[Finding, Sequence[Finding]], bool]
"""Whether a case is told, itself or for its effects: these are the second argument."""


def connections_of(finding: Finding) -> str:
    """Returns the connections of a finding by their numbers; empty if it has none."""
    if finding.connections:
        return (
            f"connection{'s' if len(finding.connections) > 1 else ''} {ranges(finding.connections)}"
        )
    return ""


def who_alone(finding: Finding) -> str:
    """Returns the clients of a finding in words, if no connection of a capture tells them."""
    if not finding.clients:
        return ""
    if len(finding.clients) == 1:
        return f"client {finding.clients[0]}"
    return f"{len(finding.clients)} clients"


MOST_RANGES = 12
"""Greatest number of ranges that a sentence names; all numbers are in the finding's own lists."""


def ranges(numbers: Iterable[int]) -> str:
    """Returns sorted numbers as ranges (1, 5–9), and how many are beyond the first ranges."""
    bounds: list[list[int]] = []
    for number in numbers:
        if bounds and number == bounds[-1][1] + 1:
            bounds[-1][1] = number
        else:
            bounds.append([number, number])
    more = sum(high - low + 1 for low, high in bounds[MOST_RANGES:])
    range_text = ", ".join(
        str(low) if low == high else f"{low}–{high}" for low, high in bounds[:MOST_RANGES]
    )
    return f"{range_text} and {more:,} more" if more else range_text
