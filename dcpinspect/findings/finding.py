"""What a rule found: once as it happened, then put together with its like."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from dcpinspect.protocol.message import Severity

if TYPE_CHECKING:
    from dcpinspect.protocol.columns import Rows

Whose = Literal["client", "server", "capture", "normal", "unknown"]
Over = Literal["recovered", "open", "unknown"]
WHOSE: tuple[Whose, ...] = ("client", "server", "capture", "normal", "unknown")
OVER: tuple[Over, ...] = ("recovered", "open", "unknown")


def _no_rows() -> Rows:
    from dcpinspect.protocol.columns import NO_ROWS  # deferred: commands that name rules start without NumPy

    return NO_ROWS


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A message that shows something."""

    row: int
    connection: int
    direction: str
    """``c2s`` or ``s2c``."""
    stream_offset: int
    file: int
    """Number of the capture file, from 0; ``frame`` counts within it."""
    frame: int
    """Last packet that carried bytes of the message."""
    time_ns: int


Key = tuple[str, Severity, str | None, int, int | None, int | None]
"""Rule, severity, cause, connection, vbucket, stream-id: what occurrences of one thing share."""


@dataclass(slots=True)
class Occurrence:
    """A rule met its case: once, or ``count`` times that nothing but place and time tells apart."""

    rule: str
    severity: Severity
    message: str
    """One sentence, without the place, which every view adds in its own way."""
    connection: int
    """Not above 0: of none, but of a log or a checkpoint; each of their clients has a number of its own."""
    places: tuple[Place, ...]
    """The offender first."""
    vbucket: int | None = None
    """None: the whole connection."""
    sid: int | None = None
    cause: str | None = None
    next: str | None = None
    """None: what the rule says."""
    seqnos: tuple[int, ...] = ()
    vbuckets: tuple[int, ...] = ()
    """Of an occurrence that is about several at once, which has no ``vbucket``; sorted."""
    shared: str | None = None
    """The message where many vbuckets share it, without the numbers of one; None: the same."""
    count: int = 1
    last_time_ns: int = 0
    """Time of the last of ``count``; 0: that of the places."""
    closes: int | None = None
    """Connection of which it says why it was closed."""
    stream: int | None = None
    """Number of the stream that it is about."""
    explains: Collection[int] = ()
    """Numbers of the streams of which findings are its effects, where the rule may have such effects."""
    effect_of: Key | None = None
    """What it is an effect of, where that is known without ``explains``."""
    facts: Mapping[str, int | str] = field(default_factory=dict)
    """What differs from one occurrence to the next, by the heading of its column."""
    is_over: bool | None = None
    """Whether it has ended, where the rule knows."""
    time_ns: int = 0
    """When it was, where no message shows it; 0: nobody knows."""
    client: str | None = None
    """Whose it is, where no connection says it."""
    rows: Collection[int] | Rows = field(default=(), compare=False)
    """Of all messages that show it, where they are more than the first of ``places``."""

    @property
    def key(self) -> Key:
        """What it has in common with others that are the same thing."""
        return self.rule, self.severity, self.cause, self.connection, self.vbucket, self.sid


@dataclass(slots=True)
class Finding:
    """Occurrences of one rule and cause that one person would call one thing."""

    rule: str
    severity: Severity
    cause: str | None
    message: str
    next: str
    connections: tuple[int, ...]
    """Empty: of none, but of a log or a checkpoint."""
    vbuckets: tuple[int, ...]
    """Sorted; empty: the whole connection."""
    sid: int | None
    places: tuple[Place, ...]
    """Evidence, the first offender first."""
    seqnos: tuple[int, ...]
    first_time_ns: int
    last_time_ns: int
    count: int = 1
    left_out: int = 0
    """How many more messages show it, or occurrences of which none is among ``places``."""
    effect_of: str | None = None
    """Id of the finding that is the cause of this one, and that has the advice."""
    what: str = ""
    """The message without the places that it speaks of; empty: the message is like that."""
    clients: tuple[str, ...] = ()
    """Whose connections these are, as the table of vbuckets calls them; sorted."""
    who: str = ""
    """These clients, in words."""
    server: str = ""
    """Their server, in words."""
    whose: Whose = "unknown"
    """Who has to change something, or nobody."""
    over: Over = "unknown"
    over_row: int | None = None
    """The message that shows that it is over."""
    facts: Mapping[str, int | str] = field(default_factory=dict)
    """Numbers that the message speaks of, by the heading of their column."""
    latest: Place | None = None
    """The latest offender."""
    rows: Rows = field(default_factory=_no_rows, compare=False, repr=False)
    """Of all messages that show it, rising, where somebody asked for them (``Collector``); none where nobody did."""
    cases: tuple[Finding, ...] = ()
    """Where it happened on several vbuckets or connections: what happened on each. Empty: it is one case."""

    @property
    def id(self) -> str:
        """The same in every reading of the same captures, and of no other finding of it."""
        parts = (self.rule, self.cause, self.connections or self.clients, self.vbuckets, self.sid)
        places = [(one.connection, one.direction, one.stream_offset) for one in self.places[:1]]
        return sha256(repr((*parts, *places)).encode()).hexdigest()[:12]

    @property
    def each(self) -> tuple[Finding, ...]:
        """What happened on each vbucket of each connection."""
        return self.cases or (self,)

    @property
    def connection(self) -> int | None:
        """The connection; None when there are several."""
        return self.connections[0] if len(self.connections) == 1 else None

    @property
    def where(self) -> str:
        """What it speaks of: ``vb 417, connection 3``."""
        connections = connections_of(self)
        if not self.vbuckets:
            return connections or "log"
        vbuckets = f"vb {self.vbuckets[0]}" if len(self.vbuckets) == 1 else f"{len(self.vbuckets)} vbuckets"
        return ", ".join(filter(None, [f"{vbuckets}{'' if self.sid is None else f' stream-id {self.sid}'}", connections]))


def connections_of(one: Finding) -> str:
    """Its connections by their numbers; empty where it has none."""
    return f"connection{'s' if len(one.connections) > 1 else ''} {ranges(one.connections)}" if one.connections else ""


def who_alone(found: Finding) -> str:
    """Whose it is, where no connection of a capture says it."""
    if not found.clients:
        return ""
    return f"client {found.clients[0]}" if len(found.clients) == 1 else f"{len(found.clients)} clients"


MOST_RANGES = 12
"""Ranges that a sentence names; all numbers are in the finding's own lists."""


def ranges(numbers: Iterable[int]) -> str:
    """Sorted numbers as 1, 5–9, and how many there are beyond the first ranges."""
    out: list[list[int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    more = sum(high - low + 1 for low, high in out[MOST_RANGES:])
    shown = ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in out[:MOST_RANGES])
    return f"{shown} and {more} more" if more else shown
