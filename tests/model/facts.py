"""What is known of connections, streams and snapshots while a tape is gone through, and the values
that rules leave open.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.model.tape import Said

Record = dict[str, Any]


class OneOf:
    """Any of these values is right."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return other in self.values

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return " or ".join(dict.fromkeys(map(repr, self.values)))


@dataclass(slots=True)
class Heard:
    """A message where it stands in the capture."""

    said: Said
    row: int
    time_ns: int
    is_whole: bool = True


@dataclass(slots=True)
class End:
    """How a connection ended: who sent the first FIN or RST; nobody when a new connection of its
    addresses showed it.
    """

    by: str | None
    time_ns: int


@dataclass(slots=True, eq=False)
class Snapshot:
    record: Record
    start: int | None
    end: int | None
    is_history: bool
    row: int
    is_first: bool = False
    """The first one of its stream, or what follows a prologue that is."""
    awaits_event: bool = False
    """The first event decides which convention the marker follows."""
    first_event: int | None = None
    last: int | None = None
    is_reached: str = ""
    seqnos: list[int] = field(default_factory=list)
    advanced: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Event:
    """One event of a stream, for the comparison between streams."""

    seqno: int
    name: str
    collection: int
    key: str
    row: int
    snapshot: Snapshot | None
    ends_collection: int | None = None


@dataclass(slots=True, eq=False)
class Stream:
    record: Record
    client: tuple[str, str]
    connection: int
    vbucket: int
    sid: int | None
    request: Heard
    state: str = "requested"
    last: int | None = None
    """The last seqno accounted for."""
    snapshots: list[Snapshot] = field(default_factory=list)
    current: Snapshot | None = None
    gaps: list[Record] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    is_first: bool = True
    """The next marker is the first one."""
    opened_at: int = 0
    heard: int = 0
    """Messages of the producer on it."""
    last_heard_ns: int = 0
    advanced_in_oso: int | None = None
    bytes: int = 0
    prepares: int = 0
    seqnos: list[int] = field(default_factory=list)
    """Of its events, as they came."""
    advanced: list[int] = field(default_factory=list)
    """Of its SeqnoAdvanced messages."""
    verdicts: set[Any] = field(default_factory=set)
    """Its verdict, and what it is to whoever knows nothing of flow control, or of the server's high
    seqno.
    """

    @property
    def branch(self) -> int | None:
        log = self.record["failover_log"]
        return int(log[0]["uuid"], 16) if log else None

    @property
    def filter_names(self) -> set[str]:
        return {"collections", "scope"} & set(self.record["filter"] or ())

    @property
    def is_running(self) -> bool:
        return self.state in ("accepted", "closing")


@dataclass(slots=True, eq=False)
class Connection:
    record: Record
    number: int
    client: tuple[str, str]
    host: str
    server: str
    pending: dict[tuple[bool, str, int], list[Heard]] = field(
        default_factory=lambda: defaultdict(list)
    )
    is_open: bool = False
    open_refused: bool = False
    collections: bool = False
    sync_writes: bool = False
    end_on_close: bool = False
    flow: bool = False
    skip_deletes: bool = False
    slowest_answer_ns: int = 0
    noop_interval_s: float | None = None


def program_of(name: str) -> str:
    """What the names of one client's connections have in common: the part before the first colon,
    or the node that a replication is for.
    """
    head, _, nodes = name.partition(":")
    return f"{head} to {nodes.split('->')[1].rpartition(':')[0]}" if head == "replication" else head
