"""Rules about round trips: answers that take much longer than others do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.finding import Candidates, MessagePlace, Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode, opcode_name
from dcpinspect.streams.followers import PerConnection
from dcpinspect.streams.grouping import by_value

CONNECTION, PAUSE = "connection", "pause"
ENOUGH = 20
"""With fewer answers there is no median to compare with."""
SLOW_NS, TIMES_OTHERS = 100_000_000, 10
"""A connection stands out if its median takes this long, and this many times the median of the
server's other connections.
"""
LONG_NS, TIMES_OWN = 1_000_000_000, 100
"""An answer stands out if it took this long, and this many times the median of its connection."""
MOST = 1 << 12
"""Greatest number of pairs of connection and command that are followed."""

_STEPS = 16
"""Number of buckets from a power of two to the next: medians are right within a fortieth."""
_BUCKETS = 64 * _STEPS

# Commands that a server answers at once, from memory or disk. Writes may wait for durability, and
# stream requests, statistics and much else for work that has nothing to do with the round trip.
_AT_ONCE = np.zeros(256, dtype=np.bool_)
_AT_ONCE[
    [
        *(
            Opcode.GET,
            Opcode.GETK,
            Opcode.GET_META,
            Opcode.GET_REPLICA,
            Opcode.NOOP,
            Opcode.VERSION,
        ),
        *(
            Opcode.SUBDOC_GET,
            Opcode.SUBDOC_EXISTS,
            Opcode.SUBDOC_GET_COUNT,
            Opcode.SUBDOC_MULTI_LOOKUP,
        ),
    ]
] = True

RULES = rules(
    f"""
    slow-responses session note unknown
        fires: responses to one command take {SLOW_NS // 10**6} ms or more at the median of a
            connection, and {TIMES_OTHERS} times the median of all other connections to the server;
            or one response takes {LONG_NS // 10**9} s or more, and {TIMES_OWN} times the median
            of its connection
        unless: fewer than {ENOUGH} responses to compare; commands that may have to wait, such as
            writes and stream requests
        next: capture on both sides at once, the difference is the network's part, and the server's
            part is in its slow operation log; a client should have time limits above it
        causes: {CONNECTION} {PAUSE}
    """
)


@dataclass(slots=True)
class _Trips:
    """Times of the answers to one command on one connection."""

    counts: RowNumbers = field(default_factory=lambda: np.zeros(_BUCKETS, np.int64))
    slowest_ns: int = -1
    slowest: MessagePlace | None = None


class RoundTrips(Watcher):
    """Counts how long answers take. Memory grows with connections and commands, up to ``MOST``."""

    def __init__(self) -> None:
        self._of: PerConnection[tuple[int, int], _Trips] = PerConnection()

    def watch(self, fed: RuleInput) -> Iterable[Candidates]:
        """Takes the next messages."""
        batch, decoded = fed.batch, fed.batch.decoded
        rows = np.flatnonzero(decoded.is_answer & _AT_ONCE[decoded.opcode] & batch.rtt_ns.is_known)
        took = np.maximum(batch.rtt_ns.values[rows].astype(np.int64), 0)
        bucket = np.minimum((_STEPS * np.log2(np.maximum(took, 1))).astype(np.int64), _BUCKETS - 1)
        for number, indices in by_value(batch.connection[rows] * 256 + decoded.opcode[rows]):
            key = divmod(number, 256)
            trips = self._of.get(key)
            if trips is None and len(self._of) < MOST:
                trips = self._of[key] = _Trips()
            if trips is not None:
                trips.counts += np.bincount(bucket[indices], minlength=_BUCKETS)
                slowest = int(indices[took[indices].argmax()])
                if took[slowest] > trips.slowest_ns:
                    trips.slowest_ns = int(took[slowest])
                    trips.slowest = place_of(batch, int(rows[slowest]))
        return ()

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields what stands out so far."""
        servers = {number: link.server for number, link in finished.context.by_number.items()}
        medians: dict[tuple[str, int], dict[int, int]] = {}
        for (connection, opcode), trips in self._of.items():
            if trips.counts.sum() >= ENOUGH:
                medians.setdefault((servers.get(connection, ""), opcode), {})[connection] = (
                    _median_ns(trips.counts)
                )
        for (connection, opcode), trips in sorted(self._of.items()):
            if connection not in servers or trips.slowest is None or trips.counts.sum() < ENOUGH:
                continue
            name, own_ns = opcode_name(opcode), _median_ns(trips.counts)
            # Each connection counts once: a busy one that is slow itself does not make the others
            # quick or slow.
            other_medians = [
                ns
                for other_connection, ns in medians[servers[connection], opcode].items()
                if other_connection != connection
            ]
            others_ns = (
                sorted(other_medians)[(len(other_medians) - 1) // 2] if other_medians else None
            )
            if others_ns is not None and own_ns >= max(SLOW_NS, TIMES_OTHERS * others_ns):
                usual = duration(others_ns)
                yield Occurrence(
                    "slow-responses",
                    f"{name} takes about {duration(own_ns)} at the median, and {usual} "
                    "on the server's other connections",
                    connection,
                    (trips.slowest,),
                    cause=CONNECTION,
                    shared=f"{name} takes much longer than on the server's other connections",
                )
            elif trips.slowest_ns >= max(LONG_NS, TIMES_OWN * own_ns):
                yield Occurrence(
                    "slow-responses",
                    f"a response to {name} took {duration(trips.slowest_ns)}, where the "
                    f"median is about {duration(own_ns)}",
                    connection,
                    (trips.slowest,),
                    cause=PAUSE,
                    shared=f"a response to {name} took much longer than the median",
                )


def _median_ns(counts: RowNumbers) -> int:
    """Returns the middle of the bucket that the median is in."""
    median_index = int(np.searchsorted(np.cumsum(counts), (int(counts.sum()) + 1) // 2))
    return int(2 ** ((median_index + 0.5) / _STEPS))


RULE_SET = RuleSet(RULES, watcher=RoundTrips)
