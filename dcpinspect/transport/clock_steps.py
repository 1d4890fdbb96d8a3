"""Steps of the clock of the capturing machine: it was set while it captured.

A long gap between two packets of a capture may be silence, or a step. TCP tells: who sends on has a
clock in its timestamps (RFC 7323), which nobody sets. Time that runs backwards is a step where
somebody goes on with the very next byte. Where nothing tells, times stay as they are.

Files that a capture was divided into are one, in the order in which TCP goes on from one to the
next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.merging import consecutive
from dcpinspect.transport import headers as h
from dcpinspect.transport.headers import HeaderParser, Headers
from dcpinspect.transport.packet_owners import MASK, WINDOW, distance

_LEAST_NS = 2_000_000_000
"""No smaller step forward is looked for: no rule takes a shorter wait for trouble."""
_LEAST_BACK_NS = 10_000_000
"""No smaller step back is looked for: several queues may write packets so much later. A greater one
makes what came later the earlier.
"""
BEFORE, BEHIND = 256, 64
"""Greatest number of packets before a gap, and behind it, of which one sender is looked for."""
_FIRST = BEFORE + BEHIND
"""Number of first packets of a file of which those before may tell something."""
_LATE_NS = 1_000_000_000
"""Packets that a capture writes late are not so late."""
_HEAD = 192
"""Bytes of a packet that are kept: its headers."""
_SLOWEST_HZ, _USUAL_HZ = 10, 1000
"""How fast clocks in timestamps tick: at least, and nearly all."""
_LEAST_SPAN_NS = 1_000_000_000
"""The rate of a clock is measured over no less."""
_TIMESTAMPS = 8
UNDATED_NS = 365 * 86_400 * 10**9
"""Earlier times are of clocks that were never set, and of texts without dates."""
_MOST = 10
"""Number of steps that are told, and of files that are not in order of time."""


class Pause(NamedTuple):
    """Two neighbours in the file whose times are far apart."""

    packet: int
    """Number of the second packet of the reading."""
    ns: int
    """From the time of the first packet to that of the second."""
    from_ns: int
    """The time of the first one."""


class ClockStep(NamedTuple):
    """The clock of a capturing machine was set."""

    file: int
    """Number of the file in the reading, from 0."""
    frame: int
    """The first packet with the new time."""
    ns: int
    """How far: below 0 if it was set back."""


class Edges(NamedTuple):
    """The headers of a file's first and last packets, as many as tell."""

    first: PacketBatch
    last: PacketBatch
    ahead_ns: int | None = None
    """What the clock is ahead at the end; None if that was not taken out of the times of ``last``.
    """
    pause: Pause | None = None
    """A long one near the end, of which the next packets may tell whether the clock was set;
    ``packet`` is counted from the end.
    """
    leaps: Sequence[tuple[int, int, int]] = ()
    """The greatest leaps of time of which nobody tells whether they are steps: the packet behind
    each, from 0, nanoseconds, and what the clock was ahead.
    """

    def with_later(self, batch: PacketBatch) -> Edges:
        """Returns the edges with the next packets of the file."""
        first, last = self.first, _heads(_joined(self.last, _heads(batch, BEFORE)), BEFORE)
        if len(first) < _FIRST:
            first = _joined(first, _first_heads(batch, _FIRST - len(first)))
        return self._replace(first=first, last=last)

    def with_earlier(self, earlier: Edges) -> Edges:
        """Returns the edges with the last packets of the file before, for there are few here."""
        return self._replace(last=_heads(_joined(earlier.last, self.last), BEFORE))

    def clock(self) -> _FileClock:
        """Returns the clock as it is at the end."""
        clock = _FileClock([], {})
        if self.ahead_ns is None:
            clock.steady(self.last)
        else:
            clock.continue_behind(self.last, self.ahead_ns, self.pause)
        return clock

    def ahead_in(self, later: Edges, *, goes_on: bool) -> tuple[tuple[int, int], ...]:
        """Returns what the clock is ahead in the next file, besides the steps that this shows by
        itself: from which packet on, from 0, and nanoseconds. Empty if it has another clock.

        ``goes_on``: as the function says.
        """
        clock = self.clock()
        apart_ns = later.first.time_ns[0] - clock.ahead_ns - clock.latest_ns
        if not (goes_on or apart_ns >= -_LEAST_BACK_NS) or not clock.goes_on(later.first):
            return ()
        own_ns = _FileClock([], {}).steady(later.first).time_ns
        behind_ns = own_ns - clock.steady(later.first).time_ns
        changes = np.flatnonzero(np.diff(behind_ns, prepend=0))
        ahead = [*zip(changes.tolist(), behind_ns[changes].tolist(), strict=True)]
        for packet, leap_ns, own_ahead_ns in sorted(later.leaps):
            other_ahead_ns = ahead[-1][1] if ahead else 0
            if packet >= BEFORE and _is_way_back(leap_ns, own_ahead_ns + other_ahead_ns):
                ahead.append((packet, -own_ahead_ns))
        return tuple(ahead)


def edges(batch: PacketBatch) -> Edges:
    """Returns the edges of a file with these packets."""
    return Edges(_first_heads(batch, _FIRST), _heads(batch, BEFORE))


def goes_on(files: Sequence[Edges | None]) -> dict[int, int]:
    """Returns which files go on where another one ends, by number: a connection goes on with the
    very next byte, none with earlier bytes, and the clock goes on, or was set. None: not known.
    """
    parser = HeaderParser(None)
    ends = [_directions(parser, file.last, -1) if file else {} for file in files]
    ending_at: dict[tuple[_Direction, int], list[int]] = {}
    for number, directions in enumerate(ends):
        for direction, end in directions.items():
            ending_at.setdefault((direction, end.behind), []).append(number)
    pairs: list[tuple[int, int, int, int]] = []
    for number, file in enumerate(files):
        begins = _directions(parser, _first_heads(file.first, BEHIND), 0) if file else {}
        continued = Counter(
            chain.from_iterable(
                ending_at.get((direction, begin.seq), ()) for direction, begin in begins.items()
            )
        )
        for ended, count in continued.items():
            earlier = files[ended]
            if not (earlier and file and _is_later(ends[ended], begins)):
                continue
            if (apart_ns := _apart_ns(earlier, file)) is not None:
                pairs.append((apart_ns, -count, number, ended))
    before: dict[int, int] = {}
    for _, _, number, ended in sorted(pairs):
        first = ended
        while first in before:
            first = before[first]
        if number not in before and ended not in before.values() and first != number:
            before[number] = ended
    return before


class ClockSteps:
    """Takes known steps out of the times of captures, which then tell how much time passed. Each
    file has its own clock, unless it goes on where the one before ended, as the files of a ring.
    """

    def __init__(self) -> None:
        self.steps: list[ClockStep] = []
        """The first steps."""
        self.turns_back: dict[int, ClockStep] = {}
        """By file: where time first runs backwards, as a step or as packets out of order."""
        self._clocks: dict[int, _FileClock] = {}
        """By lane."""
        self._latest = _FileClock(self.steps, self.turns_back)

    @property
    def ahead_ns(self) -> int:
        """What the clock of the latest file is ahead of the one that it began with."""
        return self._latest.ahead_ns

    @property
    def may_be_set(self) -> bool:
        """Whether a clock was set, or packets before and behind these may show it."""
        return any(clock.may_be_set for clock in self._clocks.values())

    def steady_edges(self, file: Edges) -> Edges:
        """Returns the edges of the latest file, whose end was read, to be kept: steady times of the
        last packets, and no payload.
        """
        last = self._latest.heads
        assert last is not None, "its end was read"
        last = replace(_without_payload(last), first_packet=self._latest.packets - len(last))
        first, clock = _without_payload(file.first), self._latest
        return Edges(first, last, clock.ahead_ns, clock.pause, clock.leaps)

    def steady(self, batch: PacketBatch) -> PacketBatch:
        """Returns the batch with times of clocks that were not set."""
        if batch.pieces is None:
            return self._steady(batch, batch.lane) if len(batch) else batch
        time_ns, files = batch.time_ns.copy(), batch.files
        for file, lane in zip(batch.pieces.file.tolist(), batch.pieces.lane.tolist(), strict=True):
            rows = np.flatnonzero(files == file)
            time_ns[rows] = self._steady(batch.packets_of_file(rows, file), lane).time_ns
        return batch.at_times(time_ns)

    def _steady(self, batch: PacketBatch, lane: int) -> PacketBatch:
        clock = self._clocks.get(lane)
        if clock is None or not clock.goes_on(batch):
            clock = self._clocks[lane] = _FileClock(self.steps, self.turns_back)
        self._latest = clock
        return clock.steady(batch)


class _FileClock:
    """The clock of one file."""

    def __init__(self, steps: list[ClockStep], turns_back: dict[int, ClockStep]) -> None:
        """``steps``, ``turns_back``: get those of the file, as long as there are few."""
        self.ahead_ns = 0
        """What it is ahead of the one that the file began with."""
        self._steps, self._turns_back = steps, turns_back
        self._may_be_set = False
        self.leaps: list[tuple[int, int, int]] = []
        """As ``Edges.leaps``."""
        self._parser = HeaderParser(None)
        self.packets = 0
        """Number of packets so far."""
        self.heads: PacketBatch | None = None
        """Its latest packets, with steady times."""
        self._gap: Pause | None = None

    @property
    def latest_ns(self) -> int:
        """The steady time of the latest packet."""
        assert self.heads is not None, "it has packets"
        return int(self.heads.time_ns[-1])

    @property
    def pause(self) -> Pause | None:
        """As ``Edges.pause``."""
        return self._gap and self._gap._replace(packet=self._gap.packet - self.packets)

    def continue_behind(self, heads: PacketBatch, ahead_ns: int, pause: Pause | None) -> None:
        """Goes on behind these packets, as ``Edges`` has them."""
        self.heads, self.packets, self.ahead_ns = heads, len(heads), ahead_ns
        self._gap = pause and pause._replace(packet=pause.packet + self.packets)

    def goes_on(self, batch: PacketBatch) -> bool:
        """Whether the packets have this clock: they are of its file, or of a connection that the
        file had at its end.
        """
        if self.heads is None or batch.file == self.heads.file:
            return True
        both = _joined(
            self.heads,
            _heads(batch.packets_of_file(np.arange(min(BEHIND, len(batch))), batch.file), BEHIND),
        )
        headers = self._parser.columns(both)
        ends = headers.tcp[:, [*range(h.PORTS + 2), h.NETWORK]]
        is_before = headers.index < len(self.heads)
        return bool((ends[is_before][:, None] == ends[~is_before]).all(axis=2).any())

    @property
    def may_be_set(self) -> bool:
        """Whether it was set, or packets before and behind these may show it."""
        return self._may_be_set or self._gap is not None

    def steady(self, batch: PacketBatch) -> PacketBatch:
        """Returns the next packets of the file with times of a clock that was not set."""
        steady = batch.at_times(batch.time_ns - self.ahead_ns) if self.ahead_ns else batch
        latest_ns = steady.time_ns[0] if self.heads is None else self.heads.time_ns[-1]
        apart_ns = np.diff(steady.time_ns, prepend=latest_ns)
        is_gap = is_apart(apart_ns)
        late = np.flatnonzero(apart_ns < -_LATE_NS)
        if len(late) and len(self._turns_back) < _MOST:
            turn = ClockStep(batch.file, int(batch.frames[late[0]]), int(apart_ns[late[0]]))
            self._turns_back.setdefault(batch.file, turn)
        if is_gap.any() or self._gap is not None:
            steady = steady.at_times(self._corrected(steady, np.flatnonzero(is_gap)))
        self.packets += len(batch)
        heads = _heads(steady, BEFORE)
        self.heads = heads if self.heads is None else _heads(_joined(self.heads, heads), BEFORE)
        return steady

    def _corrected(self, batch: PacketBatch, gap_places: IntArray) -> IntArray:
        """Returns the times of a batch without the steps that its packets show."""
        heads = _heads(batch, len(batch))
        both = heads if self.heads is None else _joined(self.heads, heads)
        first = len(both) - len(batch)
        headers = self._parser.columns(both)
        edges = [*(gap_places + first).tolist(), len(both)]
        if self._gap is not None:
            edges.insert(0, self._gap.packet - self.packets + first)
        for packet, next_packet in pairwise(edges):
            if self._gap is None or packet != self._gap.packet - self.packets + first:
                self._leave_gap()
                before_ns, after_ns = both.time_ns[packet - 1 : packet + 1].tolist()
                self._gap = Pause(self.packets + packet - first, after_ns - before_ns, before_ns)
                self._may_be_set |= self._gap.packet < BEFORE
            bounds = (
                packet - BEFORE,
                packet,
                max(packet, first),
                min(packet + BEHIND, next_packet),
            )
            low, high, begin, end = np.searchsorted(headers.index, bounds).tolist()
            for row in range(begin, end):
                is_back = self._gap.ns > -_LEAST_NS and self._gap.ns < 0
                if is_back and both.time_ns[headers.index[row]] >= self._gap.from_ns:
                    self._gap = None  # two clocks take turns, or packets were late
                    break
                step_ns = _step(both, headers, (low, high), row, self._gap.ns)
                if step_ns is None and _is_way_back(self._gap.ns, self.ahead_ns):
                    step_ns = -self.ahead_ns
                if step_ns is not None:
                    both.time_ns[headers.index[row] :] -= step_ns
                    self.ahead_ns += step_ns
                    if step_ns:
                        self._may_be_set = True
                        frame = int(batch.frames[int(headers.index[row]) - first])
                        if len(self._steps) < _MOST:
                            self._steps.append(ClockStep(batch.file, frame, step_ns))
                    self._gap = None
                    break
            if self._gap is not None and packet + BEHIND <= next_packet:
                self._leave_gap()
        return both.time_ns[first:]

    def _leave_gap(self) -> None:
        """Forgets the gap, of which no packet told whether it is a step."""
        if self._gap is not None and self._gap.ns > 0:
            self.leaps = greatest_leaps(
                [*self.leaps, (self._gap.packet, self._gap.ns, self.ahead_ns)]
            )
        self._gap = None


def is_apart(apart_ns: IntArray) -> BoolArray:
    """Returns whether packets are so far apart that a step of the clock is looked for, given the
    times from each one to the next.
    """
    return np.asarray((apart_ns > _LEAST_NS) | (apart_ns < -_LEAST_BACK_NS), dtype=np.bool_)


def greatest_leaps(leaps: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Returns the greatest leaps, as in ``Edges.leaps``."""
    return nlargest(_MOST, leaps, key=lambda leap: leap[1])


def _is_way_back(leap_ns: int, ahead_ns: int) -> bool:
    """Returns whether the clock is as it was before it was set back, if this leap is a step."""
    return 0 <= leap_ns + ahead_ns <= _LEAST_NS


_Direction = tuple[int, ...]
"""Addresses, ports and network."""


class _Packet(NamedTuple):
    """The sequence number of a packet, the number behind it, and what it acknowledges."""

    seq: int
    behind: int
    acked: int | None


def _directions(parser: HeaderParser, heads: PacketBatch, which: int) -> dict[_Direction, _Packet]:
    """Returns a packet of each direction. ``which``: 0 for the first one, -1 for the last."""
    tcp = parser.columns(heads).tcp
    packets = {}
    for row in tcp[tcp[:, h.FLAGS] < h.UNREACHED].tolist()[:: 1 if which else -1]:
        flags, seq = row[h.FLAGS], row[h.SEQ] & MASK
        length = row[h.WIRE] + bool(flags & (h.SYN | h.FIN))
        acked = row[h.ACKED] if flags & h.ACK else None
        packets[(*row[: h.PORTS + 2], row[h.NETWORK])] = _Packet(seq, (seq + length) & MASK, acked)
    return packets


def _is_later(ends: Mapping[_Direction, _Packet], begins: Mapping[_Direction, _Packet]) -> bool:
    """Returns whether no direction begins before what it ended with."""
    return all(
        distance(begin.seq, end.seq) >= 0
        and (begin.acked is None or end.acked is None or distance(begin.acked, end.acked) >= 0)
        for direction, begin in begins.items()
        if (end := ends.get(direction))
    )


def _apart_ns(file: Edges, later_file: Edges) -> int | None:
    """Returns how far two files are apart if the clock of the first goes on in the other one, or
    was set between them; else None.
    """
    clock, first = file.clock(), _first_heads(later_file.first, BEHIND)
    end_ns, ahead_ns, time_ns = clock.latest_ns, clock.ahead_ns, first.time_ns
    dated_ns = time_ns[time_ns >= UNDATED_NS]  # a lone packet may have no time
    apart_ns = int(dated_ns[0] if len(dated_ns) else time_ns[0]) - ahead_ns - end_ns
    steady_ns = clock.steady(first).time_ns
    if clock.ahead_ns != ahead_ns and steady_ns[-1] >= end_ns:
        return int(steady_ns[steady_ns >= end_ns].min()) - end_ns
    return abs(apart_ns) if apart_ns >= -_LEAST_BACK_NS else None


def _step(
    batch: PacketBatch, headers: Headers, before: tuple[int, int], row: int, gap_ns: int
) -> int | None:
    """Returns how far the clock was set in a gap, as the sender of a packet behind it shows: 0 if
    it was not; None if this sender does not tell. ``before``: rows before the gap.
    """
    tcp, index = headers.tcp, headers.index
    if tcp[row, h.FLAGS] & (h.SYN | h.RST) or tcp[row, h.FLAGS] >= h.UNREACHED:
        return None
    of_sender = [*range(h.PORTS + 2), h.NETWORK]
    earlier = tcp[before[0] : before[1]]
    rows = before[0] + np.flatnonzero((earlier[:, of_sender] == tcp[row, of_sender]).all(axis=1))
    if not len(rows):
        return None
    first, latest = int(rows[0]), int(rows[-1])
    sent, acked, size = (
        distance(int(tcp[row, column]), int(tcp[latest, column]))
        for column in (h.SEQ, h.ACKED, h.WIRE)
    )
    if not tcp[latest, h.FLAGS] & h.ACK:
        acked = 0  # a SYN acknowledges nothing
    if not 0 <= sent < WINDOW or acked < 0 or sent == acked == size == 0:
        return None  # packets that are read twice show nothing
    first_ns, latest_ns, row_ns = (
        int(batch.time_ns[index[at_row]]) for at_row in (first, latest, row)
    )
    first_ticks, latest_ticks, ticks = (
        _timestamp(batch, tcp[at_row]) for at_row in (first, latest, row)
    )
    if first_ticks is None or latest_ticks is None or ticks in (None, first_ticks):
        # there is no clock, or none that ticked
        length = int(tcp[latest, h.WIRE]) + bool(tcp[latest, h.FLAGS] & (h.SYN | h.FIN))
        return gap_ns if row_ns < latest_ns and gap_ns < 0 and sent == length else None
    passed, span_ns = int(distance(ticks, latest_ticks)), latest_ns - first_ns
    passed_before = int(distance(latest_ticks, first_ticks))
    if passed < 0 or passed_before < span_ns * _SLOWEST_HZ // 1_000_000_000:
        return None  # this is no clock
    rate = passed_before * 1e9 / span_ns if span_ns >= _LEAST_SPAN_NS else 0
    if gap_ns > 0 and row_ns - latest_ns - passed * 1e9 / (rate or _SLOWEST_HZ) < gap_ns / 2:
        return 0
    if gap_ns < 0 and not rate and passed_before > 2 + 2 * _USUAL_HZ * span_ns // 1_000_000_000:
        return gap_ns if row_ns < latest_ns + gap_ns / 2 else None  # it ticks faster than usual
    step_ns = row_ns - latest_ns - int(passed * 1e9 / (rate or _USUAL_HZ))
    return None if 0 > gap_ns < 2 * step_ns else min(gap_ns, step_ns)


def _timestamp(batch: PacketBatch, row: IntArray) -> int | None:
    """Returns the timestamp in a TCP header; None if it has none."""
    end = int(row[h.PAYLOAD])
    head = bytes(batch.data[max(0, end - 60) : end])
    ends = int(row[h.PORTS]).to_bytes(2, "big") + int(row[h.PORTS + 1]).to_bytes(2, "big")
    ends += (int(row[h.SEQ]) & MASK).to_bytes(4, "big")
    start = head.rfind(ends)
    if start < 0 or len(head) - start < 20 or (head[start + 12] >> 4) * 4 != len(head) - start:
        return None
    options = head[start + 20 :]
    offset = 0
    while offset < len(options) and options[offset]:
        if options[offset] == 1:
            offset += 1
            continue
        size = options[offset + 1] if offset + 1 < len(options) else 0
        if options[offset] == _TIMESTAMPS and size == 10 and offset + 10 <= len(options):
            return int.from_bytes(options[offset + 2 : offset + 6], "big")
        offset += max(2, size)
    return None


def _first_heads(batch: PacketBatch, count: int) -> PacketBatch:
    """Returns the headers of the first packets, at most ``count``."""
    return _heads(consecutive(batch, slice(0, count)), count)


def _heads(batch: PacketBatch, count: int) -> PacketBatch:
    """Returns the headers of the last packets, at most ``count``."""
    rows = slice(max(0, len(batch) - count), len(batch))
    size = np.minimum(batch.captured[rows], _HEAD)
    begin = np.cumsum(size) - size
    data = batch.data[np.repeat(batch.offset[rows] - begin, size) + np.arange(size.sum())]
    columns = np.concatenate((np.stack((begin, size)), batch.columns[2:, rows]))
    return PacketBatch(data, columns, batch.file, 1, 0, 0)


def _without_payload(heads: PacketBatch) -> PacketBatch:
    """Returns only the headers of segments of TCP, and of other packets nothing."""
    headers, size = HeaderParser(None).columns(heads), np.zeros(len(heads), np.int64)
    size[headers.index] = headers.tcp[:, h.PAYLOAD] - heads.offset[headers.index]
    columns = heads.columns.copy()
    columns[1] = np.minimum(size, heads.captured)
    return _heads(replace(heads, columns=columns), len(heads))


def _joined(first: PacketBatch, second: PacketBatch) -> PacketBatch:
    """Returns the packets of two batches of headers."""
    columns = np.concatenate((first.columns, second.columns), axis=1)
    columns[0, len(first) :] += len(first.data)
    return replace(
        first, data=np.concatenate((first.data, second.data)), columns=columns, file=second.file
    )
