"""What has to be known of several captures before one of them is read: how far the clocks are apart
of those that have the same connections, as the client's and the server's, what one of them has of
packets that the snapshot length of another one cut, and secrets of TLS.

A packet takes as long in one direction as in the other: by the clock of one capture it is later in
the other, in the other direction earlier.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from dcpinspect.arrays import Array, BoolArray, ByteArray, IntArray, unique
from dcpinspect.capture.batch import MOST_OPEN, PacketBatch
from dcpinspect.capture.file_reader import EARLIEST, LATEST, last_packets
from dcpinspect.capture.open import open_capture, series_of
from dcpinspect.errors import CaptureError
from dcpinspect.transport import headers as h
from dcpinspect.transport.clock_steps import UNDATED_NS, ClockSteps, Edges, edges, goes_on
from dcpinspect.transport.headers import HeaderParser, Headers
from dcpinspect.transport.scapy_dissection import UnusualPackets

CLOCKS_NS = 10_000_000
"""Clocks that are no further apart agree: an answer may take as long."""
LOOKED_AT = 1 << 28
"""So many bytes of captures are looked at, those of each file from its start."""
_KEPT = 1 << 12
"""Greatest number of packets that are taken of a file: in each the same ones."""
_UNUSUAL = 512
"""Greatest number of packets in tunnels, or in other rare forms, that are looked at in a file."""
_LEAST = 4
"""So many packets of each direction have to be in both captures; of one direction alone, where they
are further apart than ``_BESIDE_NS``.
"""
_HEAD = 32
"""Number of bytes of a packet that have to be the same."""
_FACTORS = np.cumprod(np.full(8, 6_364_136_223_846_793_005, np.uint64))
_BESIDE_NS = 1_000_000_000
"""So long before the first and behind the last packet that a capture has of a direction, it shows
what the others have: clocks that agree, and ways through the network, are no further apart.
"""
_ASKED, _ANSWERED, _GOES_ON = range(3)
"""Steps in which a connection begins: the client's SYN, the server's, what the client sends then.
"""
_OTHER_WAY = (2, 3, 0, 1, 5, 4)
"""Where addresses and ports of the other direction are."""
_MUCH = 16
"""A capture is cut if its snapshot length took more than one byte of so many."""
_ROWS = 1 << 18
"""So many rows of directions are put together at once."""
_KEY, _SNAPLEN, _TIME, _IS_BACK, _ACKED, _HAVE, _IS_CUT = range(7)
"""Rows of what is taken of packets: what tells each from others, the snapshot length of its
interface, its time, its direction, what it acknowledges, how many bytes of it are there, and
whether there were more.
"""
_SNAPLEN_BITS = 33
_MOST_PIPED = 1 << 16
"""Greatest number of directions of a pipe whose snapshot lengths are remembered."""


class Copies(Protocol):
    """Tells which packets count as copies."""

    def mask(self, batch: PacketBatch, headers: Headers) -> BoolArray:
        """Returns which rows of a batch's headers are of such packets. Takes batches in order."""


class CutCopies:
    """The packets that count as copies: the snapshot length of their capture, or of their interface,
    cut many, and another one has more of the same direction at that time.

    To order bytes of both would need clocks that agree; and where the packets are divided in another
    way, as by a network card, what one cut off is nowhere.
    """

    def __init__(self, spans: IntArray) -> None:
        """``spans``: file, snapshot length and number of a direction, and the first and the last
        time at which another capture shows it.
        """
        self._spans = spans
        key = _mixed(spans[:3].T)
        order = np.argsort(key)
        self._key, self._from_ns, self._until_ns = key[order], *spans[3:, order]

    @property
    def directions(self) -> frozenset[tuple[int, ...]]:
        """File, snapshot length and number of each direction of which there are any."""
        return frozenset(map(tuple, self._spans[:3].T.tolist()))

    def mask(self, batch: PacketBatch, headers: Headers) -> BoolArray:
        """As that of ``Copies``."""
        key = _mixed(np.stack((*_sources(batch, headers.index), _directions(headers.tcp)), axis=1))
        row = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        time_ns = batch.time_ns[headers.index]
        is_copy: BoolArray = (
            (self._key[row] == key)
            & (self._from_ns[row] <= time_ns)
            & (time_ns <= self._until_ns[row])
            & (headers.tcp[:, h.FLAGS] < h.UNREACHED)
        )
        return is_copy


class PipedCopies:
    """The same of what can be read once: the packets of interfaces with a shorter snapshot length
    than one that had a packet of the same direction before.
    """

    def __init__(self) -> None:
        self._direction = self._longest = np.empty(0, np.int64)

    def mask(self, batch: PacketBatch, headers: Headers) -> BoolArray:
        """As that of ``Copies``."""
        if batch.snaplen is None:
            return np.zeros(len(headers.index), np.bool_)
        direction, snaplen = _directions(headers.tcp), batch.snaplen[headers.index]
        direction = np.concatenate((self._direction, direction))
        snaplen = np.concatenate((self._longest, snaplen))
        order = np.argsort(direction, kind="stable")
        is_first = np.append(True, np.diff(direction[order]) != 0)[: len(order)]
        group = np.cumsum(is_first) << _SNAPLEN_BITS
        longest = np.maximum.accumulate(group + snaplen[order]) - group
        is_last = np.append(is_first[1:], True)[: len(order)]
        latest = order[is_last][-_MOST_PIPED:]
        is_copy = np.empty(len(order), np.bool_)
        is_copy[order] = snaplen[order] < longest
        known = len(self._direction)
        longest_of = np.empty(len(order), np.int64)
        longest_of[order] = longest
        self._direction, self._longest = direction[latest], longest_of[latest]
        return is_copy[known:] & (headers.tcp[:, h.FLAGS] < h.UNREACHED)


class Survey(NamedTuple):
    """What captures tell before they are read."""

    ahead_ns: Mapping[str, int] = MappingProxyType({})
    """Nanoseconds that clocks are ahead, by name of the capture; of clocks that differ, those of
    the captures that begin first count.
    """
    secrets: Sequence[bytes] = ()
    """Lines of TLS key logs: they may come behind packets of another capture."""
    copies: Copies | None = None
    """What of them counts as copies."""
    goes_on: Mapping[str, str] = MappingProxyType({})
    """Captures that go on where another one ends, whatever their times say: the files of one."""


def survey(files: Sequence[str], *, is_piped: bool = False) -> Survey:
    """Looks at captures that can be read again, in order of their begin, or at one whose interfaces
    have different snapshot lengths. ``is_piped``: one of them can be read once.
    """
    names, secrets = [name for name in files if os.path.isfile(name)], list[bytes]()
    if len(files) == 1 and (is_piped or not names):
        return Survey(copies=PipedCopies())
    if not names or len(names) > MOST_OPEN:
        return Survey()
    samples = [_sample(name, LOOKED_AT // len(names), secrets) for name in names]
    ahead_ns = _ahead(names, samples)
    later = goes_on([sample.edges for sample in samples])
    order = Survey(
        ahead_ns, secrets, None, {names[number]: names[ended] for number, ended in later.items()}
    )
    return order if is_piped else order._replace(copies=_copies(files, order, samples))


def _ahead(names: Sequence[str], samples: Sequence[_Sample]) -> dict[str, int]:
    apart = _apart(samples)
    for pair, ahead_ns in _by_openings(samples).items():
        if pair not in apart and pair[::-1] not in apart:
            apart[pair] = ahead_ns
    if not any(apart.values()):
        return {}
    # the files of a ring have one clock, and are not of the same time
    rings, ends, beside = [series_of(name) for name in names], dict[str, int](), set[str]()
    for sample, ring in zip(samples, rings, strict=True):
        if len(sample.heads):
            time_ns, end_ns = sample.packets[_TIME], ends.get(ring, EARLIEST)
            if time_ns.min() < end_ns:
                beside.add(ring)
            ends[ring] = max(int(time_ns.max()) - CLOCKS_NS, end_ns)
    clocks = [name if ring in beside else ring for name, ring in zip(names, rings, strict=True)]
    ahead: dict[str, int] = {}
    # other clocks count, and one packet of each direction tells what is so far apart
    undated = {
        clock for clock, sample in zip(clocks, samples, strict=True) if _is_undated(sample.packets)
    }
    for clock in sorted(clocks, key=undated.__contains__):
        waiting = [] if clock in ahead else [clock]
        ahead.setdefault(clock, 0)
        while waiting:
            clock = waiting.pop()
            for (first, second), apart_ns in apart.items():
                for near, far, ns in ((first, second, apart_ns), (second, first, -apart_ns)):
                    if clocks[near] == clock and clocks[far] not in ahead:
                        ahead[clocks[far]] = ahead[clock] + ns
                        waiting.append(clocks[far])
    return {name: ahead[clock] for name, clock in zip(names, clocks, strict=True) if ahead[clock]}


def _is_undated(packets: IntArray) -> bool:
    return bool((packets[_TIME] < UNDATED_NS).any())


class _Sample(NamedTuple):
    """Packets of a capture with bytes of TCP, which other captures may have, too."""

    packets: IntArray
    """Rows from ``_KEY`` on."""
    heads: ByteArray
    """The first bytes of each, as many as there are."""
    openings: IntArray
    """Rows: which connection begins, at what time, and by which of the steps below."""
    edges: Edges | None
    """Where it begins and ends; None if it is packed, and was not read to its end."""


def _sample(name: str, most: int, secrets: list[bytes]) -> _Sample:
    """Returns packets of a capture, the same ones as of others. ``most``: number of bytes that are
    read. ``secrets``: gets what the capture has.
    """
    parser, size, unusual_left = HeaderParser(None), 0, _UNUSUAL
    unusual = UnusualPackets(parser)
    packets, heads = np.empty((_IS_CUT + 1, 0), np.int64), np.empty((0, _HEAD), np.uint8)
    openings, both_edges = np.empty((3, 0), np.int64), None
    with suppress(CaptureError, OSError), open_capture(name) as capture:
        for batch in filter(len, capture):
            both_edges = both_edges.with_later(batch) if both_edges else edges(batch)
            headers = parser.parse(batch)
            headers.classes[headers.unusual[unusual_left:]] = h.NOT_TCP
            unusual_left = max(0, unusual_left - len(headers.unusual))
            headers, data, _ = unusual.resolve(batch, headers)
            more_openings = _openings(batch, headers, openings[0])
            openings = np.concatenate((openings, more_openings), axis=1)[:, :_KEPT]
            more_packets, more_heads = _packets(batch, headers, data)
            packets = np.concatenate((packets, more_packets), axis=1)
            order = np.lexsort(packets[[_SNAPLEN, _KEY]])  # of copies the first
            is_first = np.append(True, (np.diff(packets[:2][:, order]) != 0).any(axis=0))
            order = order[is_first[: len(order)]][:_KEPT]
            packets, size = packets[:, order], size + len(batch.data)
            heads = np.concatenate((heads, more_heads))[order]
            if size > most:
                last = last_packets(name)
                both_edges = both_edges.with_later(last) if last else None
                break
        secrets += capture.files[0].secrets
    return _Sample(packets, heads, openings, both_edges)


def _packets(batch: PacketBatch, headers: Headers, data: ByteArray) -> tuple[IntArray, ByteArray]:
    rows = np.flatnonzero(headers.tcp[:, h.WIRE] > 0)
    tcp, index = headers.tcp[rows], headers.index[rows]
    offsets = np.minimum(tcp[:, h.PAYLOAD, None] + np.arange(_HEAD), len(data) - 1)
    heads = data[offsets] * (np.arange(_HEAD) < tcp[:, h.CAPTURED, None])
    is_back = tcp[:, h.PORTS] > tcp[:, h.PORTS + 1]
    is_back |= (tcp[:, h.PORTS] == tcp[:, h.PORTS + 1]) & (tcp[:, 1] > tcp[:, 3])
    _, snaplen = _sources(batch, index)
    columns = (
        _mixed(np.stack((_directions(tcp), tcp[:, h.SEQ]), axis=1)),
        snaplen,
        batch.time_ns[index],
        is_back,
        tcp[:, h.ACKED],
        tcp[:, h.CAPTURED],
        tcp[:, h.CAPTURED] < tcp[:, h.WIRE],
    )
    return np.stack(columns), heads


def _openings(batch: PacketBatch, headers: Headers, known: IntArray) -> IntArray:
    """Returns rows as in ``_Sample.openings``. ``known``: connections that began before."""
    flags = headers.tcp[:, h.FLAGS]
    step = np.where(flags & h.SYN == 0, _GOES_ON, np.where(flags & h.ACK, _ANSWERED, _ASKED))
    ends = headers.tcp[:, h.ADDRESSES : h.PORTS + 2]
    of_client = np.where((step == _ANSWERED)[:, None], ends[:, _OTHER_WAY], ends)
    first_seq = np.where(step == _ANSWERED, headers.tcp[:, h.ACKED], headers.tcp[:, h.SEQ] + 1)
    first_seq -= step == _GOES_ON
    connection = _mixed(np.stack((_mixed(of_client), first_seq % (1 << 32)), axis=1))
    begun = np.concatenate((known, connection[step == _ASKED]))
    rows = np.flatnonzero((step != _GOES_ON) | np.isin(connection, begun))
    return np.stack((connection[rows], batch.time_ns[headers.index[rows]], step[rows]))


def _mixed(words: IntArray) -> IntArray:
    """Returns a number for each row, which is another one for other words."""
    mixed: Array = words.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _FACTORS[: words.shape[1]]
    sums: Array = (mixed ^ (mixed >> np.uint64(32))).sum(axis=1) * _FACTORS[-1]
    return sums.view(np.int64)


def _directions(tcp: IntArray) -> IntArray:
    """Returns a number for the direction of each packet, by its addresses and ports."""
    return _mixed(tcp[:, h.ADDRESSES : h.PORTS + 2])


def _sources(batch: PacketBatch, index: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the file of some packets of a batch, and the snapshot length of their interfaces."""
    snaplen = batch.snaplen
    return batch.files[index], np.zeros(len(index), np.int64) if snaplen is None else snaplen[index]


def _pairs(samples: Sequence[_Sample]) -> tuple[IntArray, IntArray, IntArray]:
    """Returns packets that two samples have, or one has of two interfaces: by number in all
    samples, and the sample of each of all.
    """
    owner = np.repeat(np.arange(len(samples)), [len(sample.heads) for sample in samples])
    packets = np.concatenate([sample.packets for sample in samples], axis=1)
    heads = np.concatenate([sample.heads for sample in samples])
    order = np.lexsort((owner, packets[_KEY]))
    again = np.flatnonzero(np.diff(packets[_KEY][order]) == 0)
    rows, next_rows = order[again], order[again + 1]
    common = np.minimum(packets[_HAVE][rows], packets[_HAVE][next_rows])
    is_same = ((heads[rows] == heads[next_rows]) | (np.arange(_HEAD) >= common[:, None])).all(
        axis=1
    )
    is_same &= (common > 0) | (packets[_ACKED][rows] == packets[_ACKED][next_rows])
    return rows[is_same], next_rows[is_same], owner


def _show_cuts(samples: Sequence[_Sample]) -> bool:
    """Returns whether another sample, or another interface, has more of packets that were cut."""
    rows, next_rows, _ = _pairs(samples)
    have, is_cut = np.concatenate([sample.packets for sample in samples], axis=1)[[_HAVE, _IS_CUT]]
    cut = is_cut[rows] + is_cut[next_rows]
    has_more = (cut == 1) | ((cut == 2) & (have[rows] != have[next_rows]))
    return int(np.count_nonzero(has_more)) >= _LEAST


def _copies(files: Sequence[str], order: Survey, samples: Sequence[_Sample]) -> CutCopies | None:
    """Returns what counts as copies of captures. They are read to the end for this, if ``samples``
    show any. ``order``: the survey so far.
    """
    if len(samples) == len(files) and _show_cuts(samples):
        with suppress(CaptureError, OSError), open_capture(files) as capture:
            capture.set_clocks(order.ahead_ns, order.goes_on)
            return copies_in(map(ClockSteps().steady, capture))
    return None


def copies_in(batches: Iterable[PacketBatch], *, by_time: bool = True) -> CutCopies | None:
    """Returns what of some packets counts as copies; None for nothing. ``by_time``: they come in
    order of time; else all of a direction are copies, as what came before would be in the way.
    """
    parser = HeaderParser(None)
    unusual, parts, rows = UnusualPackets(parser), list[IntArray](), 0
    for batch in batches:
        headers, _, _ = unusual.resolve(batch, parser.parse(batch))
        time_ns, captured = batch.time_ns[headers.index], batch.captured[headers.index]
        columns = (
            *_sources(batch, headers.index),
            _directions(headers.tcp),
            headers.tcp[:, h.CAPTURED],
            headers.tcp[:, h.WIRE],
            np.where(captured < batch.wire[headers.index], captured, 0),
            time_ns,
            time_ns,
        )
        parts.append(_summed(np.stack(columns)[:, headers.tcp[:, h.FLAGS] < h.UNREACHED]))
        rows += parts[-1].shape[1]
        if rows > _ROWS + 2 * parts[0].shape[1]:
            parts, rows = [_summed(np.concatenate(parts, axis=1))], 0
    table = _summed(np.concatenate(parts, axis=1)) if parts else np.empty((8, 0), np.int64)
    captured, wire, cut_to = table[3:6]
    _, source = np.unique(_mixed(table[:2].T), return_inverse=True)
    longest = np.zeros(1 + int(source.max(initial=0)), np.int64)
    np.maximum.at(longest, source, cut_to)
    # in doubt the source decides: what it has of a direction may be short
    longest_of = np.stack((longest[source], cut_to))
    longest_of[longest_of == 0] = LATEST
    lacks = (np.bincount(source, wire - captured) * _MUCH > np.bincount(source, wire))[source]
    lacks |= (wire - captured) * _MUCH > wire
    spans = [np.empty((5, 0), np.int64)]
    for number in unique(source[lacks]):
        own = np.flatnonzero(lacks & (source == number))
        same = own[np.minimum(np.searchsorted(table[2, own], table[2]), len(own) - 1)]
        (of_source, of_direction), (own_source, own_direction) = longest_of, longest_of[:, same]
        is_better = (of_direction == own_direction) & (of_source > own_source)
        is_better |= of_direction > own_direction
        better = table[:, is_better & (table[2] == table[2, same])]
        better[:2] = 0
        better = _summed(better)
        _, row, own_row = np.intersect1d(better[2], table[2, own], return_indices=True)
        times = better[6:, row] + np.array([[-_BESIDE_NS], [_BESIDE_NS]])
        if not by_time:
            times[0], times[1] = EARLIEST, LATEST
        spans.append(np.concatenate((table[:3, own[own_row]], times)))
    found = np.concatenate(spans, axis=1)
    return CutCopies(found) if found.size else None


def _summed(parts: IntArray) -> IntArray:
    """Puts columns with the same file, snapshot length and direction together, in this order."""
    parts = parts[:, np.lexsort(parts[2::-1])]
    is_first = np.append(True, (np.diff(parts[:3]) != 0).any(axis=0))[: parts.shape[1]]
    first = np.flatnonzero(is_first)
    if not len(first):
        return parts
    return np.concatenate(
        (
            parts[:3, first],
            np.add.reduceat(parts[3:5], first, axis=1),
            np.maximum.reduceat(parts[5:6], first, axis=1),
            np.minimum.reduceat(parts[6:7], first, axis=1),
            np.maximum.reduceat(parts[7:], first, axis=1),
        )
    )


def _apart(samples: Sequence[_Sample]) -> dict[tuple[int, int], int]:
    """Returns how far the clock of the second capture of a pair is ahead, by the packets that both
    have; 0 if the clocks agree. Pairs that have too few are left out.
    """
    rows, next_rows, owner = _pairs(samples)
    time_ns, is_back = np.concatenate([sample.packets for sample in samples], axis=1)[
        [_TIME, _IS_BACK]
    ]
    pair = owner[rows] * MOST_OPEN + owner[next_rows]
    apart = {}
    for number in unique(pair[owner[rows] != owner[next_rows]]).tolist():
        of_pair = np.flatnonzero(pair == number)
        apart_ns = time_ns[next_rows[of_pair]] - time_ns[rows[of_pair]]
        directions = [apart_ns[is_back[rows[of_pair]] == direction] for direction in (0, 1)]
        is_undated = [_is_undated(samples[index].packets) for index in divmod(number, MOST_OPEN)]
        least = _LEAST if len({*is_undated}) == 1 else 1
        is_sure, of_directions = min(map(len, directions)) >= least, [*filter(len, directions)]
        if is_sure or max(map(len, directions)) >= _LEAST:
            middle = int(sum(float(np.median(delays)) for delays in of_directions)) // len(
                of_directions
            )
            spread = max(
                float(np.subtract(*np.percentile(delays, (75, 25)))) for delays in of_directions
            )
            if abs(middle) > max(CLOCKS_NS if is_sure else _BESIDE_NS, 4 * spread):
                apart[divmod(number, MOST_OPEN)] = middle
            elif is_sure:
                apart[divmod(number, MOST_OPEN)] = 0
    return apart


def _by_openings(samples: Sequence[_Sample]) -> dict[tuple[int, int], int]:
    """Returns how far the clock of the second capture of a pair is ahead where it has the servers'
    SYN, and the first one what comes before and behind that, in another order.

    Each capture may have one direction, so that there is no packet in both.
    """
    apart = {}
    answers, owner_of_answer = _once(samples, _ANSWERED)
    for step, sign in ((_ASKED, -1), (_GOES_ON, 1)):
        beside, owner = _once(samples, step)
        _, rows, answered = np.intersect1d(beside[0], answers[0], return_indices=True)
        pair = owner[rows] * MOST_OPEN + owner_of_answer[answered]
        ahead_ns = answers[1, answered] - beside[1, rows]
        for number in unique(pair[owner[rows] != owner_of_answer[answered]]).tolist():
            middle = int(np.median(ahead_ns[pair == number]))
            if sign * middle > CLOCKS_NS:
                apart[divmod(number, MOST_OPEN)] = middle
    return apart


def _once(samples: Sequence[_Sample], step: int) -> tuple[IntArray, IntArray]:
    """Returns the first time of a step of each connection, and its sample. Those that two captures
    show are left out: two clients of a test tool may begin with the same numbers.
    """
    openings = np.concatenate([sample.openings for sample in samples], axis=1)
    owner = np.repeat(np.arange(len(samples)), [sample.openings.shape[1] for sample in samples])
    of_step = np.flatnonzero(openings[2] == step)
    _, first, number_of = np.unique(openings[0][of_step], return_index=True, return_inverse=True)
    is_shared = np.zeros(len(first), np.bool_)
    is_shared[number_of[owner[of_step] != owner[of_step][first][number_of]]] = True
    rows = of_step[first[~is_shared]]
    return openings[:, rows], owner[rows]
