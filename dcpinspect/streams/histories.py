"""Streams of one history that contradict each other: same branch of a vbucket, same seqno, but
another change.

Failover logs say which branch each seqno is of. A branch begins above the seqno of its entry and
reaches up to the seqno of the next newer entry. Nothing is compared beyond the least such end in
any known log: a stream may outlive a failover that its own log does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, numbers_of, unique
from dcpinspect.kernels.structs import Struct, StructRows, T
from dcpinspect.kernels.structs import number as count
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.streams.changes import ChangeEvent, Changes
from dcpinspect.streams.conversation import Conversation
from dcpinspect.streams.disputes import MOST_OTHERS
from dcpinspect.streams.events import VBUCKETS, EventQuery, FoundEvents, Interval, Intervals
from dcpinspect.streams.failover_branches import Branches
from dcpinspect.streams.grouping import VBUCKET_BITS, Groups, NameNumbers, by_value
from dcpinspect.streams.records import GREATEST, Streams
from dcpinspect.streams.server_reports import LOG

CAUSES = ("key", "state", "cas", "value")
"""The parts in which two changes may differ. Of several differences the first one counts."""
SHOWN = 3
"""Number of differences of two streams that are kept, besides the last one."""
ROUNDS = 4
"""The greatest number of times that captures are read again to compare histories."""
_AT_ONCE = 1 << 18
"""Number of changes that are compared at once."""
_NEAR = 4 * MOST_OTHERS
"""Number of preceding streams among which partners for the comparison of a stream are looked for.
"""

AS_STORED = 0x004 | 0x008 | 0x040 | 0x100
"""Flags of an open that change how values are shown: extended attributes, those of deletions too,
no values, only datatypes.
"""
HAS_CAS = (Opcode.DCP_MUTATION, Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION, Opcode.DCP_PREPARE)
HAS_BODY = (Opcode.DCP_MUTATION, Opcode.DCP_PREPARE)
STATES = np.zeros(256, dtype=np.int64)
"""Bits by opcode: as what a change may be shown. A client without sync writes gets the document, or
its deletion, instead of a commit. A client that did not ask for expirations gets a deletion.
"""
STATES[opcodes_with(Trait.EVENT)] = 32  # an event of another kind
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


@dataclass(slots=True)
class Contradiction:
    """How two streams differ in one of ``CAUSES``."""

    streams: tuple[int, int]
    cause: str
    count: int = 0
    seqnos: list[int] = field(default_factory=list)
    """Biased seqnos of the first differences and the last one."""
    events: dict[int, tuple[ChangeEvent, ChangeEvent]] = field(default_factory=dict)
    """The event of each of the two streams, by seqno."""
    rows: RowNumbers = field(default_factory=lambda: NO_ROWS)
    """Rows of all messages that differ; empty unless somebody wants them."""

    def add(self, seqnos: Sequence[int], count: int) -> None:
        """Adds ``count`` differences. ``seqnos`` are in order, and hold at least the first ones and
        the last one.
        """
        self.count += count
        self.seqnos = [
            *(*self.seqnos[:SHOWN], *seqnos[:SHOWN])[:SHOWN],
            *([seqnos[-1]] if self.count > SHOWN else []),
        ]


class StreamPair(Struct[T]):
    """Two streams, and the seqnos of one branch that both may have, biased."""

    first: T = count("The stream that was opened first.")
    second: T = count("The other one.")
    low: T = count("The first seqno.")
    high: T = count("The last one.")
    are_alike: T = count("1 if both are shown values in the same way.")


class StreamPairs(StreamPair[IntArray], StructRows[StreamPair]):
    """The pairs of streams of a reading."""


Differ = Callable[[EventQuery, StreamPairs], tuple[Sequence[Contradiction], int]]
"""Compares the wanted changes. Returns contradictions, and the first vbucket without room."""


def contradictions(
    changes: Callable[[int], Changes],
    pairs: StreamPairs,
    since: int = 0,
    *,
    keeps_rows: bool = False,
) -> list[Contradiction]:
    """Returns how streams differ, without events.

    ``changes``: returns the changes of a stream. ``since``: of two differing messages, one at least
    comes after this row.
    """
    contradiction_of: dict[tuple[int, int, str], Contradiction] = {}
    for block in _blocks(changes, pairs):
        for pair, cause, own_changes, other_changes in _differences(*block, since):
            contradiction = contradiction_of.setdefault(
                (pair.first, pair.second, cause), Contradiction((pair.first, pair.second), cause)
            )
            contradiction.add(own_changes.seqno.tolist(), len(own_changes))
            if keeps_rows:
                contradiction.rows = np.concatenate(
                    (contradiction.rows, own_changes.row, other_changes.row)
                )
    return list(contradiction_of.values())


def _differences(
    pairs: StreamPairs, changes_of: Mapping[int, Changes], since: int
) -> Iterator[tuple[StreamPair, str, Changes, Changes]]:
    """Yields (pair, cause, changes of the first, changes of the second) of what differs.

    ``changes_of``: the changes by stream.
    """
    table_number = {stream: number for number, stream in enumerate(changes_of)}
    # the first change of each seqno, in rising order
    tables = [table[np.unique(table.seqno, return_index=True)[1]] for table in changes_of.values()]
    changes = Changes.joined(tables)
    seqnos, rank = np.unique(changes.seqno, return_inverse=True)
    step = len(seqnos) + 1
    key = np.repeat(np.arange(len(tables)), [*map(len, tables)]) * step + rank  # rises
    firsts, seconds = (
        np.array([table_number[stream] for stream in column.tolist()])
        for column in (pairs.first, pairs.second)
    )
    first = np.searchsorted(key, firsts * step + np.searchsorted(seqnos, pairs.low))
    behind = np.searchsorted(key, firsts * step + np.searchsorted(seqnos, pairs.high, "right"))
    of_one, pair = numbers_of(first, behind - first)
    wanted_key = seconds[pair] * step + rank[of_one]
    of_two = np.minimum(np.searchsorted(key, wanted_key), max(0, len(key) - 1))
    has_both = key[of_two] == wanted_key
    pair, of_one, of_two = pair[has_both], of_one[has_both], of_two[has_both]
    first_changes, second_changes = changes[of_one], changes[of_two]
    is_new = np.maximum(first_changes.row, second_changes.row) > since
    cause = np.full(len(pair), -1)
    for number, differs in enumerate(_differing(first_changes, second_changes)):
        is_chosen = is_new & differs & (cause < 0)
        if CAUSES[number] == "value":
            is_chosen &= pairs.are_alike[pair] != 0
        cause[is_chosen] = number
    differing = np.flatnonzero(cause >= 0)
    for code, rows in by_value(pair[differing] * len(CAUSES) + cause[differing]):
        yield (
            pairs[code // len(CAUSES)],
            CAUSES[code % len(CAUSES)],
            first_changes[differing[rows]],
            second_changes[differing[rows]],
        )


def _blocks(
    changes: Callable[[int], Changes], pairs: StreamPairs
) -> Iterator[tuple[StreamPairs, Mapping[int, Changes]]]:
    """Yields pairs that are compared at once, with the changes of their streams: many pairs have
    only few changes each.
    """
    changes_of: dict[int, Changes] = {}
    begin = size = 0
    for pair_number, both in enumerate(
        zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    ):
        for stream in both:
            if stream not in changes_of:
                changes_of[stream] = changes(stream)
            size += len(changes_of[stream])
        if size > _AT_ONCE:
            yield pairs[begin : pair_number + 1], changes_of
            changes_of, begin, size = {}, pair_number + 1, 0
    if begin < len(pairs):
        yield pairs[begin:], changes_of


class Histories:
    """The contradictions that were found in a reading."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], Contradiction] = {}
        self._compared_row = 0
        self.keeps_rows = False
        """Whether somebody wants the rows of all messages that differ."""

    def contradictions(self) -> Iterable[Contradiction]:
        """Returns the contradictions in order of streams and cause."""
        return [self._found[key] for key in sorted(self._found)]

    def renumber(self, streams: IntArray) -> None:
        """Gives streams other numbers; ``streams``: new by old number, -1 for those that left."""
        contradictions = [
            replace(
                contradiction,
                streams=(
                    int(streams[contradiction.streams[0]]),
                    int(streams[contradiction.streams[1]]),
                ),
            )
            for contradiction in self._found.values()
        ]
        self._found = {
            (*contradiction.streams, contradiction.cause): contradiction
            for contradiction in contradictions
            if min(contradiction.streams) >= 0
        }

    def begin(self) -> None:
        """Forgets what was found: all streams are about to be compared."""
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
        """Compares streams of vbuckets from ``vbucket`` on by their events. Returns the first
        vbucket for whose events there was no room.

        ``differ``: compares the streams instead, so that their events are needed in no other place.
        """
        row, pairs = self._compared_row, _pairs(streams, conversation, vbucket)
        latest = streams.latest.row
        pairs = pairs[np.maximum(latest[pairs.first], latest[pairs.second]) > row]
        if not len(pairs):
            return VBUCKETS
        both = np.concatenate((pairs.first, pairs.second))
        query = EventQuery(
            streams, Intervals(both, np.tile(pairs.low, 2), np.tile(pairs.high, 2)), is_brief=True
        )
        if differ is None:
            events = look(query)
            differences: Sequence[Contradiction] = contradictions(
                events.changes, pairs, row, keeps_rows=self.keeps_rows
            )
            behind = events.vbuckets
        else:
            differences, behind = differ(query, pairs)
        fresh: dict[int, list[Interval]] = defaultdict(list)
        for difference in differences:
            contradiction = self._found.setdefault(
                (*difference.streams, difference.cause),
                Contradiction(difference.streams, difference.cause),
            )
            contradiction.add(difference.seqnos, difference.count)
            contradiction.rows = np.concatenate((contradiction.rows, difference.rows))
            for stream in difference.streams:
                fresh[stream] += [
                    (seqno, seqno)
                    for seqno in contradiction.seqnos
                    if seqno not in contradiction.events
                ]
        if fresh:
            self._keep_events(look(EventQuery(streams, fresh)))
        return behind

    def look_back(
        self,
        look: Callable[[EventQuery], FoundEvents],
        streams: Streams,
        conversation: Conversation,
        row: int,
    ) -> None:
        """Compares remembered events up to a row. What was compared does not count again."""
        self.compare(look, streams, conversation)
        self._compared_row = row

    def _keep_events(self, found_events: FoundEvents) -> None:
        for contradiction in self._found.values():
            first_events, second_events = (
                {event.seqno: event for event in found_events.stream_events(stream)}
                for stream in contradiction.streams
            )
            events = {
                **contradiction.events,
                **{
                    seqno: (first_events[seqno], second_events[seqno])
                    for seqno in first_events.keys() & second_events.keys()
                },
            }
            contradiction.events = {
                seqno: events[seqno] for seqno in contradiction.seqnos if seqno in events
            }


def _differing(
    first: Changes, second: Changes
) -> tuple[BoolArray, BoolArray, BoolArray, BoolArray]:
    """Returns masks of changes that differ in key, state, CAS, value; unknown is no difference."""
    states = STATES[first.opcode], STATES[second.opcode]
    is_document = (first.opcode != Opcode.DCP_SYSTEM_EVENT) & (
        second.opcode != Opcode.DCP_SYSTEM_EVENT
    )
    names_key = (
        is_document
        & (first.collection >= 0)
        & (second.collection >= 0)
        & (first.key >= 0)
        & (second.key >= 0)
    )
    keys = names_key & ((first.collection != second.collection) | (first.key != second.key))
    is_same = (states[0] == states[1]) & np.isin(first.opcode, HAS_CAS)
    cas = is_same & (first.cas != 0) & (second.cas != 0) & (first.cas != second.cas)
    is_plain = (
        (first.datatype == second.datatype)
        & (first.datatype & SNAPPY == 0)
        & (first.opcode == second.opcode)
    )
    # only some servers left part of a body in a deletion
    has_body = np.isin(first.opcode, HAS_BODY)
    values = (
        is_same
        & is_plain
        & has_body
        & (first.value >= 0)
        & (second.value >= 0)
        & (first.value != second.value)
    )
    return keys, states[0] & states[1] == 0, cas, values


def _shown_as(conversation: Conversation, connections: int) -> RowNumbers:
    """Returns, by connection, the flags of its open that change how values are shown; -1 where they
    are not known.
    """
    flags = np.full(connections, -1, dtype=np.int64)
    for number, session in conversation.sessions.items():
        if number < connections and session.open_flags is not None:
            flags[number] = session.open_flags & AS_STORED
    return flags


def _pairs(streams: Streams, conversation: Conversation, vbucket: int) -> StreamPairs:
    """Returns pairs of streams, from a vbucket on, that may share seqnos of one branch, and these
    seqnos.
    """
    has_log = (streams.log >= 0) & (streams.seen > 0)
    vbuckets, counts = np.unique(streams.vbucket[has_log], return_counts=True)
    numbers = np.flatnonzero(
        has_log & np.isin(streams.vbucket, vbuckets[(counts > 1) & (vbuckets >= vbucket)])
    )
    if not len(numbers):
        return StreamPairs.zeros(0)
    reports = conversation.reports
    branches = Branches.from_logs(conversation.logs)
    log_reports = reports[(reports.kind == LOG) & (reports.log >= 0)]
    answers = streams.log >= 0
    logs = np.concatenate(
        (
            streams.log[answers] << VBUCKET_BITS | streams.vbucket[answers],
            log_reports.log << VBUCKET_BITS | log_reports.vbucket,
        )
    )
    logs = unique(logs)
    logs, of_logs = logs >> VBUCKET_BITS, logs & ((1 << VBUCKET_BITS) - 1)
    # the seqnos of each branch of each stream; a log whose branches are not in order says nothing
    numbers = numbers[branches.are_in_order[streams.log[numbers]]]
    stream, entry = branches.of_each(numbers, streams.log[numbers])
    end_of, ending = branches.of_each(of_logs, logs)
    is_older = ending > branches.begins[branches.log[ending]]
    end_of, ending = end_of[is_older], ending[is_older]
    # the end of each branch of a vbucket is the least one that any log says
    is_part = np.arange(len(stream) + len(ending)) < len(stream)
    uuid = branches.uuid[np.concatenate((entry, ending))]
    of_branch = Groups([np.concatenate((streams.vbucket[stream], end_of)), uuid])
    ends = np.full(len(of_branch), GREATEST)
    np.minimum.at(ends, of_branch.of[~is_part], branches.seqno[ending - 1])
    branch, start = of_branch.of[is_part], branches.seqno[entry]
    low = np.maximum(start + (start < GREATEST), streams.first[stream])
    high = np.minimum(streams.last[stream], ends[branch])
    is_there = (branches.uuid[entry] != 0) & (low <= high) & (start < GREATEST)
    branch_ranges = np.column_stack((branch, stream, low, high))[is_there]
    return _overlaps(
        branch_ranges[np.argsort(branch_ranges[:, 0], kind="stable")], streams, conversation
    )


def _overlaps(
    branch_ranges: RowNumbers, streams: Streams, conversation: Conversation
) -> StreamPairs:
    """Returns the pairs of each part and near parts before it that overlap; not those of two
    buckets known to differ.

    ``branch_ranges``: sorted by branch; columns are the branch, the stream, and the first and last
    seqno of the branch that the stream may have.
    """
    branch, stream, low, high = branch_ranges.T
    connections = 1 + int(streams.connection.max(initial=0))
    bucket_of = {
        number: session.bucket
        for number, session in conversation.sessions.items()
        if number < connections and session.bucket is not None
    }
    connection = streams.connection[stream]
    bucket = NameNumbers(bucket_of, connections).of[connection]
    near = np.zeros(len(stream), dtype=np.int64)
    overlapping: list[tuple[RowNumbers, RowNumbers]] = []
    for back in range(1, _NEAR + 1):
        later = np.arange(back, len(stream))
        later = later[(branch[later] == branch[later - back]) & (near[later] < MOST_OTHERS)]
        if not len(later):
            break
        earlier = later - back
        meets = np.maximum(low[later], low[earlier]) <= np.minimum(high[later], high[earlier])
        meets &= (bucket[later] == bucket[earlier]) | (bucket[later] < 0) | (bucket[earlier] < 0)
        near[later[meets]] += 1
        overlapping.append((later[meets], earlier[meets]))
    later, earlier = (
        (np.concatenate([NO_ROWS, *column]) for column in zip(*overlapping, strict=True))
        if overlapping
        else (NO_ROWS, NO_ROWS)
    )
    order = np.argsort(later, kind="stable")
    later, earlier = later[order], earlier[order]
    shown_flags = _shown_as(conversation, connections)
    flags, other_flags = shown_flags[connection[earlier]], shown_flags[connection[later]]
    pairs = StreamPairs.zeros(len(earlier))
    pairs.first, pairs.second = stream[earlier], stream[later]
    pairs.low = np.maximum(low[earlier], low[later])
    pairs.high = np.minimum(high[earlier], high[later])
    pairs.are_alike = (flags >= 0) & (flags == other_flags)
    return pairs
