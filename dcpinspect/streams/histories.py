"""Streams of one history that contradict each other: the same branch of a vbucket and the same seqno, and another change.

Failover logs say which branch each seqno is of: a branch begins above its entry's seqno and reaches up to that of the next newer entry.
Nothing is compared beyond the least such end that any known log tells: a stream may outlive a failover that its own log does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import NO_ROWS, Mask, Rows
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.changes import Changes, Event
from dcpinspect.streams.disputes import MOST_OTHERS
from dcpinspect.streams.events import VBUCKETS, EventQuery, FoundEvents, Interval
from dcpinspect.streams.rows import GREATEST, LEAST, Stream, Streams
from dcpinspect.streams.server_reports import LOG
from dcpinspect.streams.session import Conversation
from dcpinspect.streams.verdicts import failover_entries

Log = tuple[tuple[int, int], ...]

CAUSES = ("key", "state", "cas", "value")
"""In what two changes differ; of several the first."""
SHOWN = 3
"""Differences of two streams that are kept besides the last one."""
ROUNDS = 4
"""How often captures are read again for this, at most."""
_AT_ONCE = 1 << 18
"""Changes of streams that are compared at once."""
_NEAR = 4 * MOST_OTHERS
"""Streams before one among which those are looked for that it is compared with."""

AS_STORED = 0x004 | 0x008 | 0x040 | 0x100
"""Flags of an open by which values differ: extended attributes, also those of deletions, no values, no values but their datatype."""
HAS_CAS = (Opcode.DCP_MUTATION, Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION, Opcode.DCP_PREPARE)
HAS_BODY = (Opcode.DCP_MUTATION, Opcode.DCP_PREPARE)
STATES = np.zeros(256, dtype=np.int64)
"""By opcode, as what a change may be shown: who has no sync writes is shown the document, or its deletion, instead of a commit, and who
did not ask for expirations a deletion."""
for _opcode, _state in {
    Opcode.DCP_MUTATION: 1,
    Opcode.DCP_DELETION: 2,
    Opcode.DCP_EXPIRATION: 2,
    Opcode.DCP_COMMIT: 3,
    Opcode.DCP_PREPARE: 4,
    Opcode.DCP_ABORT: 8,
    Opcode.DCP_SYSTEM_EVENT: 16,
}.items():
    STATES[_opcode] = _state


class _Part(NamedTuple):
    """The seqnos of one branch that a stream may have, biased."""

    stream: int
    low: int
    high: int
    bucket: str | None


@dataclass(slots=True)
class Contradiction:
    """In what two streams differ."""

    streams: tuple[int, int]
    cause: str
    count: int = 0
    seqnos: list[int] = field(default_factory=list)
    """Biased; of the first ones and the last."""
    events: dict[int, tuple[Event, Event]] = field(default_factory=dict)
    """By seqno, what each stream has."""
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    """Of all messages that differ, where somebody wants them."""

    def add(self, seqnos: Sequence[int], count: int) -> None:
        """More of them, in order, the first ones and the last at least."""
        self.count += count
        self.seqnos = [*(*self.seqnos[:SHOWN], *seqnos[:SHOWN])[:SHOWN], *([seqnos[-1]] if self.count > SHOWN else [])]


class Pair(NamedTuple):
    """Two streams, and the seqnos of one branch that both may have, biased."""

    one: int
    two: int
    low: int
    high: int
    are_alike: bool
    """Both are shown values in the same way."""


Differ = Callable[[EventQuery, Sequence[Pair]], tuple[Sequence[Contradiction], int]]
"""Compares the changes that are wanted, and gives the first vbucket for whose there was no room."""


def contradictions(
    changes: Callable[[int], Changes], pairs: Iterable[Pair], since: int = 0, *, keeps_rows: bool = False
) -> list[Contradiction]:
    """In what streams differ, without events. ``changes``: those of a stream; ``since``: of each difference one is behind this row."""
    found: dict[tuple[int, int, str], Contradiction] = {}
    for block in _blocks(changes, pairs):
        for pair, cause, mine, theirs in block.differences(since):
            one = found.setdefault((pair.one, pair.two, cause), Contradiction((pair.one, pair.two), cause))
            one.add(mine.seqno.tolist(), len(mine))
            if keeps_rows:
                one.rows = np.concatenate((one.rows, mine.row, theirs.row))
    return list(found.values())


class _Block:
    """Pairs that are compared at once, and the changes of their streams: many pairs have few changes each."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.size = 0
        """Changes that the pairs have to look at, at most."""
        self._changes: dict[int, Changes] = {}

    def add(self, changes: Callable[[int], Changes], pair: Pair) -> None:
        """One more."""
        for stream in (pair.one, pair.two):
            if stream not in self._changes:
                self._changes[stream] = changes(stream)
        self.pairs.append(pair)
        self.size += len(self._changes[pair.one]) + len(self._changes[pair.two])

    def differences(self, since: int) -> Iterator[tuple[Pair, str, Changes, Changes]]:
        """(pair, cause, changes of both) of what differs."""
        place = {stream: number for number, stream in enumerate(self._changes)}
        tables = [_first_of_each(table) for table in self._changes.values()]
        whole = Changes.joined(tables)
        bounds = np.cumsum([0, *map(len, tables)])
        seqnos, rank = np.unique(whole.seqno, return_inverse=True)
        key = np.repeat(np.arange(len(tables)), np.diff(bounds)) * (len(seqnos) + 1) + rank  # rises
        ones, twos, lows, highs, alike = (np.array(column) for column in zip(*self.pairs, strict=True))
        ones, twos = (np.array([place[stream] for stream in column.tolist()]) for column in (ones, twos))
        step = len(seqnos) + 1
        first = np.searchsorted(key, ones * step + np.searchsorted(seqnos, lows))
        count = np.searchsorted(key, ones * step + np.searchsorted(seqnos, highs, "right")) - first
        pair = np.repeat(np.arange(len(ones)), count)
        of_one = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + first[pair]
        wanted = twos[pair] * step + rank[of_one]
        of_two = np.minimum(np.searchsorted(key, wanted), max(0, len(key) - 1))
        has_both = key[of_two] == wanted
        pair, of_one, of_two = pair[has_both], of_one[has_both], of_two[has_both]
        one, two = whole[of_one], whole[of_two]
        left = np.maximum(one.row, two.row) > since
        cause = np.full(len(pair), -1)
        for number, differs in enumerate(_differing(one, two)):
            chosen = left & differs & (cause < 0) & (alike[pair] if CAUSES[number] == "value" else True)
            cause[chosen] = number
        differing = np.flatnonzero(cause >= 0)
        group = pair[differing] * len(CAUSES) + cause[differing]
        order = np.argsort(group, kind="stable")
        groups, starts = np.unique(group[order], return_index=True)
        for code, rows in zip(groups.tolist(), np.split(differing[order], starts[1:]), strict=True) if len(groups) else ():
            yield self.pairs[code // len(CAUSES)], CAUSES[code % len(CAUSES)], one[rows], two[rows]


def _blocks(changes: Callable[[int], Changes], pairs: Iterable[Pair]) -> Iterator[_Block]:
    block = _Block()
    for pair in pairs:
        block.add(changes, pair)
        if block.size > _AT_ONCE:
            yield block
            block = _Block()
    if block.pairs:
        yield block


def _first_of_each(table: Changes) -> Changes:
    """The first change with each seqno, rising."""
    return table[np.unique(table.seqno, return_index=True)[1]]


class Histories:
    """The contradictions of a reading."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], Contradiction] = {}
        self._compared_row = 0
        self.keeps_rows = False
        """Whether somebody wants the rows of all that is found."""

    def found(self) -> Iterable[Contradiction]:
        """By streams and cause."""
        return [self._found[key] for key in sorted(self._found)]

    def renumber(self, streams: npt.NDArray[np.int64]) -> None:
        """Streams have other numbers from now on, -1 for those that left."""
        kept = [replace(one, streams=(int(streams[one.streams[0]]), int(streams[one.streams[1]]))) for one in self._found.values()]
        self._found = {(*one.streams, one.cause): one for one in kept if min(one.streams) >= 0}

    def begin(self) -> None:
        """All streams are about to be compared."""
        self._found.clear()

    def compare(
        self,
        look: Callable[[EventQuery], FoundEvents],
        streams: Streams,
        conversation: Conversation,
        *,
        vbucket: int = 0,
        differ: Differ | None = None,
    ) -> int:
        """Compares streams of vbuckets from ``vbucket`` on by their events; the first vbucket for whose events there was no room.

        ``differ``: compares them, so that nobody else gets their events.
        """
        latest, row, shown = streams.latest.row.tolist(), self._compared_row, _shown_as(streams, conversation)
        pairs = [
            Pair(one, two, low, high, (flags := shown[one]) is not None and flags == shown[two])
            for one, two, low, high in _pairs(streams, conversation, vbucket)
            if max(latest[one], latest[two]) > row
        ]
        if not pairs:
            return VBUCKETS
        intervals: dict[int, list[Interval]] = defaultdict(list)
        for pair in pairs:
            for stream in (pair.one, pair.two):
                intervals[stream].append((pair.low, pair.high))
        wanted = EventQuery(streams, intervals, is_brief=True)
        if differ is None:
            events = look(wanted)
            differences: Sequence[Contradiction] = contradictions(events.changes, pairs, row, keeps_rows=self.keeps_rows)
            behind = events.vbuckets
        else:
            differences, behind = differ(wanted, pairs)
        fresh: dict[int, list[Interval]] = defaultdict(list)
        for one in differences:
            found = self._found.setdefault((*one.streams, one.cause), Contradiction(one.streams, one.cause))
            found.add(one.seqnos, one.count)
            found.rows = np.concatenate((found.rows, one.rows))
            for stream in one.streams:
                fresh[stream] += [(seqno, seqno) for seqno in found.seqnos if seqno not in found.events]
        if fresh:
            self._keep_events(look(EventQuery(streams, fresh)))
        return behind

    def look_back(self, look: Callable[[EventQuery], FoundEvents], streams: Streams, conversation: Conversation, row: int) -> None:
        """Compares what is remembered of the latest events, up to a row; what was compared before is not counted again."""
        self.compare(look, streams, conversation)
        self._compared_row = row

    def _keep_events(self, shown: FoundEvents) -> None:
        for found in self._found.values():
            one, two = ({event.seqno: event for event in shown.of(stream)} for stream in found.streams)
            known = {**found.events, **{seqno: (one[seqno], two[seqno]) for seqno in one.keys() & two.keys()}}
            found.events = {seqno: known[seqno] for seqno in found.seqnos if seqno in known}


def _differing(one: Changes, two: Changes) -> tuple[Mask, Mask, Mask, Mask]:
    """Which changes differ in their keys, in what they do, in their CAS, in their values; as far as that is known of both."""
    states = STATES[one.opcode], STATES[two.opcode]
    is_document = (one.opcode != Opcode.DCP_SYSTEM_EVENT) & (two.opcode != Opcode.DCP_SYSTEM_EVENT)
    names_key = is_document & (one.collection >= 0) & (two.collection >= 0) & (one.key >= 0) & (two.key >= 0)
    keys = names_key & ((one.collection != two.collection) | (one.key != two.key))
    is_same = (states[0] == states[1]) & np.isin(one.opcode, HAS_CAS)
    cas = is_same & (one.cas != 0) & (two.cas != 0) & (one.cas != two.cas)
    is_plain = (one.datatype == two.datatype) & (one.datatype & SNAPPY == 0) & (one.opcode == two.opcode)
    has_body = np.isin(one.opcode, HAS_BODY)  # what a deletion has of a body, only some servers left there
    values = is_same & is_plain & has_body & (one.value >= 0) & (two.value >= 0) & (one.value != two.value)
    return keys, states[0] & states[1] == 0, cas, values


def _shown_as(streams: Streams, conversation: Conversation) -> list[int | None]:
    """Of each stream the flags of its connection's open by which values differ; None where they are not known."""
    opened = {number: session.open_flags for number, session in conversation.sessions.items()}
    flags = {number: None if one is None else one & AS_STORED for number, one in opened.items()}
    return [flags.get(number) for number in streams.connection.tolist()]


def _pairs(streams: Streams, conversation: Conversation, vbucket: int) -> list[tuple[int, int, int, int]]:
    """(stream, stream, first, last): seqnos of one branch, biased, that both may have."""
    has_log = (streams.log >= 0) & (streams.seen > 0)
    places, counts = np.unique(streams.vbucket[has_log], return_counts=True)
    several = has_log & np.isin(streams.vbucket, places[(counts > 1) & (places >= vbucket)])
    numbers = np.flatnonzero(several)
    if not len(numbers):
        return []
    parsed: dict[int, Log] = {}
    ends = _ends(streams, conversation, parsed)
    parts: dict[tuple[int, int], list[_Part]] = defaultdict(list)
    for number in numbers.tolist():
        row = streams[number]
        place, last = int(row.vbucket), int(row.last)
        log = parsed[int(row.log)]
        if any(newer <= older for (_, newer), (_, older) in pairwise(log)):
            continue  # nobody knows what it says
        for uuid, start in log:
            low = max(start + LEAST + 1, int(row.first))
            high = min(last, ends.get((place, uuid), GREATEST))
            if uuid and low <= high:
                parts[place, uuid].append(_Part(number, low, high, _bucket(conversation, row)))
    return [pair for own in parts.values() for pair in _overlaps(own)]


def _bucket(conversation: Conversation, row: Stream) -> str | None:
    session = conversation.sessions.get(int(row.connection))
    return session.bucket if session is not None else None


def _overlaps(parts: Sequence[_Part]) -> Iterator[tuple[int, int, int, int]]:
    """What each has in common with those before it that are near; not of buckets that are known to be two."""
    for place, one in enumerate(parts):
        near = 0
        for other in reversed(parts[max(0, place - _NEAR) : place]):
            low, high = max(one.low, other.low), min(one.high, other.high)
            if low <= high and (one.bucket == other.bucket or None in (one.bucket, other.bucket)) and near < MOST_OTHERS:
                near += 1
                yield other.stream, one.stream, low, high


def _ends(streams: Streams, conversation: Conversation, parsed: dict[int, Log]) -> dict[tuple[int, int], int]:
    """Where each branch of a vbucket ends, biased, by the least that any log says; ``parsed`` gets the logs by number."""
    found: dict[tuple[int, int], int] = {}

    def add(vbucket: int, log: Log) -> None:
        for (_, end), (uuid, _) in pairwise(log):
            found[vbucket, uuid] = min(end + LEAST, found.get((vbucket, uuid), GREATEST))

    for vbucket, number in set(zip(streams.vbucket[streams.log >= 0].tolist(), streams.log[streams.log >= 0].tolist(), strict=True)):
        if number not in parsed:
            parsed[number] = tuple(failover_entries(conversation.logs[number]))
        add(vbucket, parsed[number])
    reports = conversation.reports
    told = reports[(reports.kind == LOG) & (reports.log >= 0)]
    for vbucket, number in set(zip(told.vbucket.tolist(), told.log.tolist(), strict=True)):
        add(vbucket, tuple(failover_entries(conversation.logs[number])))
    return found
