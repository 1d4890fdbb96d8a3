"""Connections that show one conversation a second time.

A capture on all interfaces of a node has each packet before and after address translation: other
addresses, the same sequence numbers. A proxy or a sidecar passes every byte on: a second
connection, with the same bytes and sequence numbers of its own.

Two recordings of one conversation, by clocks that differ for longer than it lasts, show it with the
same sequence numbers, one after the other, and on the same addresses, unless these were translated
between the two. Times tell nothing then.

Messages tell all of them. They have to be the same in both directions for as long as both
connections go on. At the same sequence numbers they are the same packets. Else requests have to come later, and
answers earlier, on the connection that is nearer to the server: two clients that say the same at
the same time get their answers in the order in which they asked. Sequence numbers alone tell
little: test tools give all connections the same ones.

Only a sample of the messages is kept. Their own bytes choose it, so each copy keeps the same ones,
wherever its capture begins.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain, islice, pairwise
from typing import Any, Self

import numpy as np

from dcpinspect.arrays import Array, BoolArray, IntArray, grown
from dcpinspect.kernels.structs import Struct, StructRows, T, number
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import numbers_at
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.streams.followers import Portable
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.tables.messages import MessageBatch

TRANSLATION, PROXY, RECORDED = "address translation", "proxy", "second recording"
"""What a conversation passed between two connections that show it. ``RECORDED``: nothing, it was
captured at two places with different clocks.
"""

MOST = 128
"""Number of messages of a direction that are kept at most: half of them leave when there are more.
"""
MOST_SAMPLES = 1 << 20
"""Number of messages of all directions that are kept at most."""
ENOUGH = 3
"""Least number of equal messages in each direction that make a connection a leg of another one."""
MOST_PAIRS = 1 << 12
"""Greatest number of pairs of connections that are compared. A flood of connections that are alike
has more; these count by themselves.
"""
_SURE = 0.9
"""Least share of these messages in order of time: clocks of two processors differ a little."""
_NEXT = 3
"""Number of connections with the same message, in order of time, with which each one is compared.
"""
_APART_NS = 1_000_000_000
"""A copy is never so much later, in nanoseconds."""
_NEAR_NS = 10_000_000
"""Two handshakes with the same sequence numbers are no further apart than that, if nothing else
tells that they are the same.
"""
_NEXT_NS = 1_000_000
"""Where the client's port changed, or the server did not answer, the packet is no further away.
Recordings that are further apart have clocks that differ.
"""
_BODY = 256
"""Number of bytes of a message that are compared besides its header."""
_PENDING = 1 << 9
_CHOOSING = 40
"""The first bit of a hash that chooses."""
_LAST_LEVEL = 64 - _CHOOSING
_LAPS = 1 << 32
_MIX = np.array((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9), dtype=np.uint64)
_TELLING = np.ones(256, dtype=np.bool_)
"""Whether messages of a command differ from each other by their headers."""
_TELLING[
    [Opcode.DCP_BUFFER_ACKNOWLEDGEMENT, Opcode.DCP_SNAPSHOT_MARKER, Opcode.DCP_SEQNO_ADVANCED]
] = False


class KeptMessage(Struct[T]):
    """A message that is kept."""

    way: T = number("Connection and direction: 2 * connection + direction.")
    hash: T = number("Hash of its header.")
    body: T = number("Checksum of what follows; -1 if not all of it was captured.")
    time: T = number("Capture time in nanoseconds.")
    offset: T = number("Stream offset of its first byte.")
    is_repeated: T = number("1 if its direction has this header more than once.")


class KeptMessages(KeptMessage[IntArray], StructRows[KeptMessage]):
    """The messages that are kept."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A connection that shows what another one shows."""

    of: int
    """Number of the other connection, which counts."""
    by: str
    """``TRANSLATION``, ``PROXY`` or ``RECORDED``."""
    delay_ns: int
    """How much later the client's messages come here; below 0: nearer to the client."""
    both_lack: bool = False
    """Whether each of the two lacks bytes."""


class Copies(Portable):
    """Samples of the messages of all connections, fed with every batch."""

    travels = ("_samples", "_levels", "messages")

    def __init__(self) -> None:
        self._samples = KeptMessages.zeros(0)
        self._pending: list[KeptMessages] = []
        self._levels = np.zeros(0, dtype=np.int64)
        """By way: of so many powers of two one message is kept."""
        self._least_level = 0
        self.messages: IntArray = np.zeros(0, dtype=np.int64)
        """Number of messages so far, by connection."""
        self._known_copies: tuple[object, tuple[dict[int, Copy], Collection[int]]] = None, ({}, ())
        self._compared_before: _Comparisons = {}

    def feed(self, batch: MessageBatch) -> None:
        """Takes the next messages."""
        counts = np.bincount(batch.connection)
        if len(counts) > len(self.messages):
            self.messages = grown(self.messages, len(counts))
            self._levels = grown(self._levels, 2 * len(self.messages), self._least_level)
        self.messages[: len(counts)] += counts
        direction_number = 2 * batch.connection + batch.direction
        hashes = _mixed(*(numbers_at(batch.data, batch.start + offset, 8) for offset in (0, 8, 16)))
        rows = np.flatnonzero(
            _is_kept(hashes.view(np.int64), self._levels[direction_number])
            & _TELLING[batch.decoded.opcode]
        )
        lacks_header = batch.missing.row[batch.missing.start < HEADER_SIZE]
        if len(lacks_header):
            rows = rows[~np.isin(rows, lacks_header)]
        if not len(rows):
            return
        samples = KeptMessages.zeros(len(rows))
        samples.hash = hashes[rows].view(np.int64)
        samples.way = direction_number[rows]
        samples.time = batch.time_ns[rows]
        samples.offset = batch.stream_offset[rows]
        samples.body = rows
        samples = self._thinned(_distinct(samples))
        is_cut, memory = np.isin(samples.body, batch.missing.row), batch.data.data
        body_ranges = zip(
            batch.start[samples.body].tolist(),
            np.minimum(batch.length[samples.body], _BODY).tolist(),
            strict=True,
        )
        sums = [
            zlib.crc32(memory[start + HEADER_SIZE : start + size]) for start, size in body_ranges
        ]
        samples.body = np.where(is_cut, -1, np.array(sums, dtype=np.int64))
        self._pending.append(samples)
        if sum(map(len, self._pending)) > max(_PENDING, len(self._samples)):
            self._settle()

    def _thinned(self, samples: KeptMessages) -> KeptMessages:
        """Returns the samples without those for which there is no room."""
        while True:
            crowded = np.bincount(samples.way, minlength=len(self._levels)) > MOST
            if len(samples) > MOST_SAMPLES:
                self._least_level += 1
                crowded |= self._levels < self._least_level
            if not crowded.any():
                return samples
            self._levels[crowded] += 1
            samples = samples[_is_kept(samples.hash, self._levels[samples.way])]

    def _settle(self) -> KeptMessages:
        """Returns all samples, by way, then by hash."""
        if self._pending:
            samples = _distinct(KeptMessages.joined([self._samples, *self._pending]))
            self._samples = self._thinned(
                samples[_is_kept(samples.hash, self._levels[samples.way])]
            )
            self._pending = []
        return self._samples

    def messages_of(self, connections: Collection[int]) -> int:
        """Returns how many messages these connections have."""
        return int(
            self.messages[[number for number in connections if number < len(self.messages)]].sum()
        )

    def leave(self, connections: Collection[int]) -> None:
        """Drops connections that are over."""
        samples = self._settle()
        self._samples = samples[~np.isin(samples.way // 2, list(connections))]

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return super().__getstate__()

    @classmethod
    def joined(cls, readings: Sequence[Self], connections: Sequence[IntArray]) -> Self:
        """Joins the samples of readings of different connections; ``connections``: for each
        reading, their new numbers.
        """
        copies = cls()
        most = 1 + max((int(new_numbers.max(initial=0)) for new_numbers in connections), default=0)
        copies.messages = np.zeros(most, dtype=np.int64)
        copies._levels = np.zeros(2 * most, dtype=np.int64)
        joined = []
        for reading, new_numbers in zip(readings, connections, strict=True):
            count = min(len(new_numbers), len(reading.messages))
            copies.messages[new_numbers[:count]] = reading.messages[:count]
            ways = reading._levels[: 2 * count].reshape(-1, 2)
            copies._levels.reshape(-1, 2)[new_numbers[:count]] = ways
            samples = KeptMessages(reading._settle().array.copy())
            samples.way = 2 * new_numbers[samples.way // 2] + samples.way % 2
            joined.append(samples)
        samples = KeptMessages.joined(joined)
        copies._samples = samples[np.lexsort((samples.hash, samples.way))]
        return copies

    def among(self, links: Sequence[TcpConnection]) -> dict[int, Copy]:
        """Returns the connections that show what another one shows, by number."""
        return self._compared(links)[0]

    def counted(self, links: Sequence[TcpConnection]) -> list[TcpConnection]:
        """Returns the connections without those that show what another one shows. What another
        clock recorded a second time ends none.
        """
        copies = self.among(links)
        ends = {link.number: (link.client, link.server) for link in links} if copies else {}
        again = {
            copy.of
            for number, copy in copies.items()
            if copy.by == RECORDED and ends[number] == ends[copy.of]
        }
        return [
            replace(link, closed="") if link.closed == "replaced" and link.number in again else link
            for link in links
            if link.number not in copies
        ]

    def unsure(self, links: Sequence[TcpConnection]) -> Collection[int]:
        """Returns connections so new that they may yet prove to show what another one shows."""
        return self._compared(links)[1]

    def _compared(self, links: Sequence[TcpConnection]) -> tuple[dict[int, Copy], Collection[int]]:
        if len(links) < 2:
            return {}, ()
        samples = self._settle()
        key = (id(samples), *links)
        if self._known_copies[0] != key:
            most = 2 * (1 + max(link.number for link in links))
            if most > len(self._levels):
                self._levels = grown(self._levels, most, self._least_level)
            ends_by_seq = defaultdict[tuple[int, int], set[tuple[str, str]]](set)
            for link in filter(_has_handshake, links):
                ends_by_seq[link.first_seq].add((link.client, link.server))
            seen = _SampleNumbers(
                samples,
                np.searchsorted(samples.way, np.arange(len(self._levels) + 1)),
                self._levels,
                {link.number: link for link in links},
                self.messages,
                self._compared_before,
                {
                    seq
                    for seq, ends in ends_by_seq.items()
                    if min(seq) >= 0
                    and len({tuple(map(host_of, pair)) for pair in ends}) == len(ends)
                },
            )
            self._known_copies = key, _copies(seen, self.messages)
            self._compared_before = seen.compared
        return self._known_copies[1]


def _mixed(*words: Array) -> Array:
    """Returns a hash of each header, given its words; each bit depends on all below."""
    mixed: Array = words[0] * _MIX[0]
    for word, factor in zip(words[1:], _MIX[1:], strict=True):
        mixed = (mixed ^ mixed >> np.uint64(32) ^ word) * factor
    return mixed


def _is_kept(hashes: IntArray, levels: IntArray | int) -> BoolArray:
    """Returns whether samples with these hashes are kept at these levels; above the last one
    nothing is, however alike the hashes are.
    """
    return np.asarray(
        ((hashes >> _CHOOSING & (1 << levels) - 1) == 0) & (levels <= _LAST_LEVEL), dtype=np.bool_
    )


def _distinct(samples: KeptMessages) -> KeptMessages:
    """Returns the first sample of each way and hash, in this order; samples are by time."""
    order = np.lexsort((samples.hash, samples.way))
    samples = samples[order]
    is_first = np.append(
        True, (samples.hash[1:] != samples.hash[:-1]) | (samples.way[1:] != samples.way[:-1])
    )[: len(samples)]
    begins = np.flatnonzero(is_first)
    first = samples[begins]
    if len(first) < len(samples):
        first.is_repeated = np.maximum.reduceat(np.where(is_first, samples.is_repeated, 1), begins)
    return first


_Comparison = tuple[str, int, bool] | None
"""What a conversation passed between two connections, how much later requests come on the second,
and whether that is certain; None if they do not show the same one.
"""
_Rank = tuple[int, bool, tuple[int, ...], int]
"""How many others its addresses stand for, how little a connection shows of its conversation, and
its number.
"""
_Comparisons = dict[tuple[int, int], tuple[object, _Comparison]]
"""By pair of connections: what was known of them, and what their comparison gave."""


@dataclass(frozen=True, slots=True)
class _SampleNumbers:
    """The samples and connections of a reading."""

    samples: KeptMessages
    begins: IntArray
    """Number of the first sample, by way."""
    levels: IntArray
    by_number: Mapping[int, TcpConnection]
    messages: IntArray
    """Number of messages, by connection."""
    compared_before: _Comparisons
    telling: Collection[tuple[int, int]]
    """Pairs of initial sequence numbers that no two connections between the same hosts have, as
    those of test tools would.
    """
    compared: _Comparisons = field(default_factory=dict)
    looked_up: dict[int, KeptMessages] = field(default_factory=dict)
    """Samples that were looked up, by way: a connection is compared with several."""

    def compare(self, first: int, second: int) -> _Comparison:
        """Compares two connections, unless nothing has come since they were compared."""
        pair = first, second
        sample_pair = (
            *(self.by_number[number] for number in pair),
            *(self.messages[number : number + 1].tolist() for number in pair),
        )
        of_pair = self.compared.get(pair) or self.compared_before.get(pair)
        if of_pair is None or of_pair[0] != sample_pair:
            of_pair = sample_pair, _compared(self, first, second)
        self.compared[pair] = of_pair
        return of_pair[1]

    def relate(self, first: int, second: int, members: Collection[int]) -> _Comparison:
        """Compares two of the connections that show one conversation, or each of them with a third
        one: a leg of a second recording has another clock, and other addresses.
        """
        links = [self.by_number[number] for number in (first, second)]
        how = self.compare(first, second) if first != second else None
        for middle in (
            members if how is None and self.ends_of(first) != self.ends_of(second) else ()
        ):
            if middle not in (first, second) and any(
                self.ends_of(middle) == self.ends_of(link.number)
                or self.numbers_tell(self.by_number[middle], link)
                for link in links
            ):
                steps = self.compare(first, middle), self.compare(middle, second)
                if steps[0] is not None and steps[1] is not None:
                    by = steps[1][0] if steps[0][0] == RECORDED else steps[0][0]
                    return by, steps[0][1] + steps[1][1], True
        return how

    def ends_of(self, connection: int) -> tuple[str, str]:
        """Returns the addresses of client and server."""
        link = self.by_number[connection]
        return link.client, link.server

    def hosts_of(self, connection: int) -> tuple[str, str]:
        """Returns the host of the client, and the server."""
        link = self.by_number[connection]
        return host_of(link.client), link.server

    def numbers_tell(self, first: TcpConnection, second: TcpConnection) -> bool:
        """Whether both initial sequence numbers, which are equal, show that two connections are
        one: hosts choose them at random.
        """
        return (
            first.first_seq == second.first_seq
            and first.first_seq in self.telling
            and first.has_handshake
            and second.has_handshake
        )

    def messages_of(self, connection: int) -> int:
        """Returns the number of messages of a connection."""
        return int(self.messages[connection]) if connection < len(self.messages) else 0

    def in_direction(self, connection: int, direction: int) -> KeptMessages:
        """Returns the samples of a direction, in order of hash."""
        direction_number = 2 * connection + direction
        if direction_number not in self.looked_up:
            low, high = self.begins[direction_number : direction_number + 2].tolist()
            self.looked_up[direction_number] = self.samples[low:high]
        return self.looked_up[direction_number]


def _copies(seen: _SampleNumbers, messages: IntArray) -> tuple[dict[int, Copy], Collection[int]]:
    """Returns the copies by number, of each conversation those that show less of it, and
    connections that may yet prove to be copies.
    """
    same: dict[int, int] = {}
    since_ns = max(link.last_ns for link in seen.by_number.values()) - _APART_NS
    says = grown(messages, len(seen.levels)) > 0
    unsure = {
        link.number
        for link in seen.by_number.values()
        if link.first_ns > since_ns and not says[link.number]
    }
    for first, second in islice(_candidates(seen, since_ns), MOST_PAIRS):
        ends = _root(same, first), _root(same, second)
        if ends[0] != ends[1] and (how := seen.compare(first, second)) is not None:
            if how[2]:
                same[max(ends)] = min(ends)
            elif seen.by_number[second].first_ns > since_ns:
                unsure.add(second)
    group = defaultdict[int, list[int]](list)
    for connection in same:
        group[_root(same, connection)].append(connection)
    copies, groups = {}, [sorted((root, *duplicates)) for root, duplicates in group.items()]
    for members, best in zip(groups, _best(seen, groups), strict=True):
        for connection in members:
            how = None if connection == best else seen.relate(best, connection, members)
            if how is not None:
                links = seen.by_number[best], seen.by_number[connection]
                copies[connection] = Copy(
                    best, *how[:2], both_lack=not any(link.is_complete for link in links)
                )
    return dict(sorted(copies.items())), unsure - copies.keys()


def _root(same: dict[int, int], connection: int) -> int:
    """Returns the connection that stands for all that show the same; ``same`` leads from each
    connection towards it.
    """
    root = connection
    while root in same:
        root = same[root]
    while connection != root:
        same[connection], connection = root, same[connection]
    return root


def _best(seen: _SampleNumbers, groups: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yields, for each conversation, the connection that shows most of it, of those that show it.

    The clock of a second recording differs, and it may have begun or ended elsewhere. What counts
    of several conversations is of one clock: else nobody knows what was earlier. An address that
    stands for several servers, or clients, does not tell who said what.
    """
    beside = defaultdict[tuple[int, str], set[frozenset[str]]](set)
    for members in groups:
        for role, names in enumerate(
            map(frozenset, zip(*map(seen.hosts_of, members), strict=True))
        ):
            for name in names:
                beside[role, name].add(names)
    # those of one conversation share their set: each may have thousands of others
    others = {
        end: len(next(iter(sets)) if len(sets) == 1 else frozenset().union(*sets)) - 1
        for end, sets in beside.items()
    }
    ranked, votes = [], 0
    for members in groups:
        hows = [seen.relate(members[0], member, members) for member in members]
        links = [seen.by_number[member] for member in members]
        lags_ns = [0 if how is None else how[1] for how in hows]
        until_ns = max(link.last_ns - lag_ns for link, lag_ns in zip(links, lags_ns, strict=True))
        counts = [seen.messages_of(member) for member in members]
        is_recorded = any(how is not None and how[0] == RECORDED for how in hows)
        by_clock: tuple[list[_Rank], list[_Rank]] = [], []
        for link, lag_ns, count in zip(links, lags_ns, counts, strict=True):
            is_short = not link.is_complete or link.last_ns - lag_ns < until_ns - _APART_NS
            is_short |= is_recorded and count < max(counts)
            shows = -count, link.unseen >= 0, sum(link.missing)
            hidden = sum(max(1, others[end]) for end in enumerate(seen.hosts_of(link.number)))
            rank = hidden, is_short, shows if is_short else (), link.number
            by_clock[is_recorded and abs(lag_ns) > _NEXT_NS].append(rank)
        ranked.append(by_clock)
        if by_clock[1]:
            first, second = (min(ranks)[:3] for ranks in by_clock)
            votes += (second < first) - (first < second)
    # a client has one address, on whichever side of a translation: who it is goes by that
    ranks_of = [by_clock[votes > 0] or by_clock[0] for by_clock in ranked]
    hosts_of = [[seen.hosts_of(rank[-1])[0] for rank in ranks] for ranks in ranks_of]
    best_hosts = Counter(
        (frozenset(hosts), hosts[ranks.index(min(ranks))])
        for ranks, hosts in zip(ranks_of, hosts_of, strict=True)
    )
    for ranks, hosts in zip(ranks_of, hosts_of, strict=True):
        counts = [best_hosts[frozenset(hosts), host] for host in hosts]
        yield min(
            rank
            for rank, host in zip(ranks, hosts, strict=True)
            if host == hosts[counts.index(max(counts))]
        )[-1]


def _candidates(seen: _SampleNumbers, since_ns: int) -> Iterator[tuple[int, int]]:
    """Yields pairs of connections that may show one conversation, those first that have the most
    messages in common.

    They have both initial sequence numbers in common, or their addresses where one lacks its
    handshake, or messages, which are at the same sequence numbers, or whose times are in order.
    These have to be enough for two legs, unless one of the two began after ``since_ns``.
    """
    by_seq = defaultdict[tuple[int, int], list[int]](list)
    by_ends = defaultdict[tuple[str, str], list[int]](list)
    starts, ends = np.zeros((2, len(seen.levels)), dtype=np.int64)
    for link in seen.by_number.values():
        starts[2 * link.number : 2 * link.number + 2] = link.first_seq
        by_ends[seen.ends_of(link.number)].append(link.number)
        ends[link.number] = by_ends[seen.ends_of(link.number)][0]
        if _has_handshake(link):
            by_seq[link.first_seq].append(link.number)
    for members in by_seq.values():
        yield from pairwise(members)
    for pair in chain.from_iterable(map(pairwise, by_ends.values())):
        if not all(_has_handshake(seen.by_number[number]) for number in pair):
            yield pair
    yield from _with_same_messages(seen, starts, ends, since_ns)


def _with_same_messages(
    seen: _SampleNumbers, starts: IntArray, ends: IntArray, since_ns: int
) -> Iterator[tuple[int, int]]:
    """Yields pairs of connections with messages in common, as ``_candidates`` does. By direction:
    ``starts``, the sequence number of its first byte. By connection: ``ends``, the first one with
    its addresses.
    """
    samples = seen.samples
    order = np.lexsort((samples.time, samples.hash, samples.way % 2))
    order = order[np.isin(samples.way[order] // 2, list(seen.by_number))]
    pairs = []
    for step in range(1, _NEXT + 1):
        # samples are in order of connections
        first, second = np.sort(np.stack((order[:-step], order[step:])), axis=0)
        is_same = (samples.hash[first] == samples.hash[second]) & (
            samples.way[first] % 2 == samples.way[second] % 2
        )
        is_near = np.abs(samples.time[second] - samples.time[first]) < _APART_NS
        is_near |= ends[samples.way[first] // 2] == ends[samples.way[second] // 2]
        pairs.append(np.stack((first, second))[:, is_same & is_near])
    first, second = np.concatenate(pairs, axis=1)
    ways = samples.way[first], samples.way[second]
    later = np.sign(samples.time[second] - samples.time[first]) * (1 - 2 * (ways[0] % 2))
    is_at_same = (
        samples.offset[second] + starts[ways[1]] - samples.offset[first] - starts[ways[0]]
    ) % _LAPS == 0
    connection_pairs, pair_of = np.unique(
        np.stack((ways[0] // 2, ways[1] // 2)), axis=1, return_inverse=True
    )
    counts, pair_index = np.bincount(pair_of.reshape(-1)), pair_of.reshape(-1)
    in_order = (
        np.maximum(np.bincount(pair_index, later >= 0), np.bincount(pair_index, later <= 0))
        >= _SURE * counts
    )
    begins = np.array(
        [
            max(seen.by_number[number].first_ns for number in pair)
            for pair in connection_pairs.T.tolist()
        ],
        dtype=np.int64,
    )
    may_be = in_order & ((counts >= 2 * ENOUGH) | (begins > since_ns)) | (
        np.bincount(pair_index, is_at_same) == counts
    )
    yield from zip(
        *connection_pairs[:, may_be][:, np.argsort(-counts[may_be], kind="stable")].tolist(),
        strict=True,
    )


def _compared(seen: _SampleNumbers, first_link: int, second_link: int) -> _Comparison:
    """Compares two connections."""
    links = seen.by_number[first_link], seen.by_number[second_link]
    since_ns, until_ns = max(link.first_ns for link in links), min(link.last_ns for link in links)
    has_same_ends = seen.ends_of(first_link) == seen.ends_of(second_link)
    is_shown = has_same_ends or seen.numbers_tell(*links)
    comes_again = is_shown and since_ns >= until_ns
    if since_ns > until_ns + _APART_NS and not comes_again:
        return None
    has_port = _port(links[0].client) == _port(links[1].client)
    delays, is_translated = [], True
    for direction in (0, 1):
        same = _same(seen, links, direction, has_one_clock=not comes_again)
        if same is None:
            return None
        first, second = same
        shift = links[1].first_seq[direction] - links[0].first_seq[direction]
        is_at_same = (second.offset - first.offset + shift) % _LAPS == 0
        if not any(_is_whole(link, direction) for link in links) and np.count_nonzero(
            is_at_same
        ) >= _SURE * len(is_at_same):
            # of headers that come twice, each of the two may lack another one
            first, second = first[is_at_same], second[is_at_same]
            is_at_same = is_at_same[is_at_same]
        is_translated &= bool(is_at_same.all())
        delays.append(second.time - first.time)
    begins = links[1].first_ns - links[0].first_ns
    has_handshakes = all(map(_has_handshake, links))
    if comes_again:  # a client that connects again has other numbers
        is_known = any(map(len, delays)) or (
            has_handshakes and links[0].first_seq == links[1].first_seq and _say_alike(links)
        )
        delay = int(np.median(np.concatenate(delays))) if any(map(len, delays)) else begins
        return (RECORDED, delay, True) if is_translated and is_known else None
    if not any(map(len, delays)):  # TLS without its secrets, or a server that does not answer
        near_ns = _NEAR_NS if min(links[0].first_seq) >= 0 else _NEXT_NS
        is_translated = (
            has_handshakes
            and links[0].first_seq == links[1].first_seq
            and has_port
            and _say_alike(links)
        )
        return (TRANSLATION, begins, True) if is_translated and abs(begins) < near_ns else None
    delay = int(np.median(delays[0])) if len(delays[0]) else begins
    is_inside = any(map(_is_inside, (delays, [-delays_of_way for delays_of_way in delays])))
    count = min(map(len, delays))
    is_next = has_handshakes and bool(count) and _are_next(delays)
    if is_translated and (has_port or is_next or (is_inside and count) or is_shown):
        is_recorded = has_same_ends or (not is_inside and abs(delay) > _NEXT_NS)
        return RECORDED if is_recorded else TRANSLATION, delay, True
    # a proxy connects once somebody connected to it
    is_sure = count > ENOUGH or (count == ENOUGH and begins * delay > 0)
    return (PROXY, delay, is_sure) if is_inside else None


def _are_next(delays: Sequence[IntArray]) -> bool:
    """Whether all of each direction came a moment later, or all a moment earlier."""
    return all(
        abs(int(delays_of_way.min())) > 0
        and abs(int(delays_of_way.max())) < _NEXT_NS
        and delays_of_way.min() * delays_of_way.max() > 0
        for delays_of_way in delays
    )


def _is_inside(delays: Sequence[IntArray]) -> bool:
    """Whether requests come later, and answers earlier, by their delays; a coarse clock gives many
    of them the same time.
    """
    signs = [np.sign(delays[0]), -np.sign(delays[1])]
    in_order, count = [np.count_nonzero(way > 0) for way in signs], sum(map(len, signs))
    is_mostly = all(
        not len(way) or (ordered and np.mean(way >= 0) >= _SURE)
        for way, ordered in zip(signs, in_order, strict=True)
    )
    return is_mostly and bool(sum(in_order) >= min(2 * ENOUGH, _SURE * count))


def _say_alike(links: tuple[TcpConnection, TcpConnection]) -> bool:
    """Whether two connections without messages have bytes in the same directions, as far as these
    were captured.
    """
    first, second = links
    return all(
        bool(first.skipped[direction]) == bool(second.skipped[direction])
        or bool(first.missing[direction])
        or bool(second.missing[direction])
        for direction in (0, 1)
    )


def _is_whole(link: TcpConnection, direction: int) -> bool:
    return not link.missing[direction] and not link.skipped[direction]


def _has_handshake(link: TcpConnection) -> bool:
    return link.has_handshake and link.first_seq[0] >= 0


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _same(
    seen: _SampleNumbers,
    links: tuple[TcpConnection, TcpConnection],
    direction: int,
    *,
    has_one_clock: bool,
) -> tuple[KeptMessages, KeptMessages] | None:
    """Returns the messages that both connections have in a direction; None if their messages are
    not the same for as long as both go on.

    ``has_one_clock``: the times of one show what the other one should have.
    """
    both = [seen.in_direction(link.number, direction) for link in links]
    # of headers that one of the two has more than once, the other may lack some
    repeated = np.concatenate([samples.hash[samples.is_repeated != 0] for samples in both])
    both = [samples[~np.isin(samples.hash, repeated)] for samples in both]
    level = max(int(seen.levels[2 * link.number + direction]) for link in links)
    both = [
        samples if (is_kept := _is_kept(samples.hash, level)).all() else samples[is_kept]
        for samples in both
    ]
    hashes = [samples.hash for samples in both]
    second_indices = np.searchsorted(hashes[1], hashes[0])
    second_indices[second_indices == len(hashes[1])] = 0
    first_indices = np.flatnonzero(
        hashes[1][second_indices] == hashes[0] if len(hashes[1]) else np.zeros(len(hashes[0]))
    )
    indices = first_indices, second_indices[first_indices]
    bodies = both[0].body[indices[0]], both[1].body[indices[1]]
    is_equal = (bodies[0] == bodies[1]) | (np.minimum(*bodies) < 0)
    first, second = (samples[rows[is_equal]] for samples, rows in zip(both, indices, strict=True))
    if not len(first):
        ways = (both[0], links[1]), (both[1], links[0])
        lacks = has_one_clock and any(
            _is_whole(other_link, direction)
            and bool((samples.time < other_link.last_ns - _NEAR_NS).any())
            for samples, other_link in ways
        )
        return None if lacks or all(map(len, both)) else (first, second)
    behind = []
    for samples, rows, other_link in zip(both, indices, reversed(links), strict=True):
        is_alone = np.ones(len(samples), dtype=np.bool_)
        is_alone[rows[is_equal]] = False
        alone, same = samples.offset[is_alone], samples.offset[~is_alone]
        least, greatest = same.min(), same.max()
        between, before = (alone > least) & (alone < greatest), alone < least
        is_whole = _is_whole(other_link, direction)
        if is_whole and (between.any() or (before.any() and other_link.has_handshake)):
            return None
        if has_one_clock and 2 * len(same) < int(between.sum()):
            return None
        behind.append(is_whole and bool((alone > greatest).any()))
    return None if all(behind) else (first, second)
