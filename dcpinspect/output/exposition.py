"""Numbers of a running reading, for a system that monitors: families of samples with labels, made
when somebody asks.

Labels come from the wire, so their number is bounded: there are ``MOST_PAIRS`` pairs of client and
bucket. A pair without an open connection leaves to make room for a new one. The pair ``other`` has
what found no room, and what pairs that left have counted. Counters never go down: what a connection
has counted since the last time is added to the pair that it belongs to by now.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast

import numpy as np

from dcpinspect import __version__
from dcpinspect.arrays import IntArray
from dcpinspect.capture.live import LiveCapture
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.opcodes import Opcode, opcode_code
from dcpinspect.reading.reading import Reading
from dcpinspect.streams import words as w
from dcpinspect.streams.connections import clients_of
from dcpinspect.streams.records import Streams
from dcpinspect.streams.session import Session
from dcpinspect.streams.state import unbiased
from dcpinspect.streams.tables import Tables
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from dcpinspect.streams.transitions import ACCEPTED, STREAM_STATES, STREAMING
from dcpinspect.streams.verdicts import number_streams
from dcpinspect.streams.visibility import Visibility
from dcpinspect.tables.message_statistics import SERVER, command_name, command_of, command_side
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.record_tables import WordColumn
from dcpinspect.text import clip, entries, escape_rest, words_of

if TYPE_CHECKING:
    from dcpinspect.reading.joining import MergedReading

    MeasuredReading = Reading | MergedReading
    """What the numbers are made from: a running reading, or what pipeline runs found so far."""

MOST_PAIRS = 100
"""Greatest number of pairs of client and bucket that have numbers of their own."""
_LABEL = 80
"""Greatest number of columns of a label."""
_PENDING = 1 << 16
"""Number of commands counted before their pairs are looked up, even if nobody asks."""
SETTLED_NS = 5_000_000_000
"""Age in nanoseconds at which a gap is counted: messages that come soon after it may still tell why
it is there.
"""
BOUNDS_S = tuple(
    map(
        float,
        words_of(
            "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0"
        ),
    )
)
"""Upper bounds of the histogram of answer times, in seconds."""
_BOUNDS_NS = np.array([round(bound * 1e9) for bound in BOUNDS_S], dtype=np.int64)

OTHER, NO_DCP, UNKNOWN = "other", "no dcp", "unknown"
"""Names of clients and buckets. OTHER: those without room. NO_DCP: on connections on which no DCP
was said. UNKNOWN: those that nobody named.
"""
STUCK = ("never-answered", "starved-by-flow-control", "stalled", "behind")
"""Verdicts of streams on open connections on which nothing moves, although something should."""

MetricType = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """A family of samples: one metric."""

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    help: str


_FAMILIES = f"""
gauge build_info version: Version of dcpinspect. The value is always 1.
counter messages_total client bucket opcode side: Messages by command, and whether it is request or
    response.
counter message_bytes_total client bucket opcode side: Bytes of these messages.
histogram answer_seconds client bucket opcode: Time from a request to its answer, by command.
gauge connections client bucket verdict: Open connections by their verdict.
counter connections_opened_total client bucket: Connections that were seen.
gauge streams client bucket state: Streams on open connections by their state. Of a vbucket, the
    newest one counts.
gauge stream_verdicts client bucket verdict: The same streams by their verdict.
counter streams_opened_total client bucket: Streams that were seen, also refused ones.
gauge vbuckets_stuck client bucket: Vbuckets that nothing moves: the newest stream has no answer,
    waits for an acknowledgement of the client, or is behind.
gauge seqno_lag client bucket: Seqnos from where streams are to the high seqnos that the server
    told, all vbuckets together.
gauge seqno_lag_vbuckets client bucket: Vbuckets whose high seqno is known, which are those of the
    lag.
counter rollbacks_total client bucket: Stream requests that were answered with a rollback.
counter gaps_total client bucket cause: Gaps in the seqnos of streams, by their cause. A gap counts
    after 5 seconds.
gauge flow_control_window_bytes client bucket: Flow-control windows of open connections, all
    together.
gauge flow_control_outstanding_bytes client bucket: Bytes in these windows that the client has not
    acknowledged.
gauge flow_control_fill_ratio client bucket: How full the fullest of these windows is. 1 is full.
gauge noop_age_seconds client bucket: Time since the last noop, of the open connection where that is
    longest.
counter holes_total client bucket: Ranges of bytes that are not in the capture.
counter missing_bytes_total client bucket: Bytes that are not in the capture.
counter capture_packets_total: Packets that were read.
counter capture_dropped_packets_total where: Packets that were lost: in the kernel, in the
    interface, on a full disk, or because they were not read in time (spool). What another program
    lost before is at file.
gauge capture_unread_packets: Packets that were captured and are not read yet.
gauge capture_behind_seconds: How long the packets wait that are read next; 0 while none wait.
gauge capture_timestamp_seconds: Capture time up to which packets were read, in seconds since 1970.
gauge metrics_pairs: Pairs of client and bucket that have numbers of their own, {MOST_PAIRS} at
    most. All others are the pair other.
gauge metrics_snapshot_seconds: Time that it took to make these numbers.
gauge metrics_snapshot_timestamp_seconds: When these numbers were made, in seconds since 1970.
"""
"""A family each: type, name behind ``dcpinspect_``, labels, and what it is."""


def _family(head: str, help_text: str) -> Family:
    kind, name, *labels = head.split()
    return Family(f"dcpinspect_{name}", cast(MetricType, kind), tuple(labels), help_text)


FAMILIES = tuple(itertools.starmap(_family, entries(_FAMILIES)))
BY_NAME: Mapping[str, Family] = {family.name: family for family in FAMILIES}


class Times(NamedTuple):
    """A histogram of seconds."""

    counts: Sequence[int]
    """Number of answers up to each of ``BOUNDS_S``, smaller ones included, and the number of all.
    """
    sum: float


Value = float | Times
Snapshot = Mapping[str, Sequence[tuple[tuple[str, ...], Value]]]
"""By name of the family: labels and value of each sample."""
Pair = tuple[str, str]
K = TypeVar("K")

_OTHERS, _NO_DCPS = (OTHER, OTHER), (NO_DCP, NO_DCP)

_COMMANDS = 1 << 10
_RISING = words_of(
    "dcpinspect_connections_opened_total dcpinspect_streams_opened_total "
    "dcpinspect_rollbacks_total dcpinspect_holes_total dcpinspect_missing_bytes_total"
)
"""Counters from the tables of connections; those of gaps, one a cause, follow them."""
_GAPS = len(_RISING)


@dataclass(slots=True)
class _Totals:
    """What was counted for a pair; commands are numbered as ``_command`` does."""

    counts: dict[int, IntArray] = field(default_factory=dict)
    """What was counted of messages, by command: as in a row of ``_counts``."""
    risen: IntArray = field(default_factory=lambda: np.zeros(_GAPS + len(w.CAUSES), dtype=np.int64))
    is_open: bool = False
    """Whether the pair has an open connection."""

    def add(self, other_totals: _Totals) -> None:
        """Adds what another pair has counted."""
        for command, numbers in other_totals.counts.items():
            _add(self.counts, command, numbers)
        self.risen = self.risen + other_totals.risen


class Metrics:
    """The numbers of a reading. Feed it with every batch, from the reading's thread."""

    def __init__(self, reading: MeasuredReading, *, limit: int = MOST_PAIRS) -> None:
        """Starts before the first batch; from now on the reading tracks streams."""
        if isinstance(reading, Reading):
            if not reading.is_tracking:
                reading.track()
            reading.forget_what_is_over()
        self.reading = reading
        """May be replaced by what the next run found."""
        self._most = limit
        self._pairs: dict[Pair, _Totals] = {}
        self._counts: dict[int, IntArray] = {}
        """Counts since their pairs were last looked up, by connection and command."""
        self._seen: dict[int, IntArray] = {}
        """Rising counts by connection, as far as they are in the totals."""
        self._noops: dict[int, int] = {}
        """Capture time of the last noop, by connection."""
        self._left_out: Collection[int] = ()
        self._unsure: Collection[int] = ()
        """Connections that show what another one shows, and those that may yet prove to."""
        self._tracker: Tracker = reading.tracker
        """What counts of what the reading's tracker knows."""

    @property
    def _clock_ns(self) -> int | None:
        """Capture time now."""
        reading = self.reading
        return reading.clock_ns if isinstance(reading, Reading) else reading.last_time_ns

    def _links(self) -> dict[int, TcpConnection]:
        """Returns the connections that count by now."""
        tracker, links = self.reading.tracker, self.reading.links
        self._left_out = tracker.left_out(links)
        self._unsure = () if tracker.counts_copies else tracker.unsure(links)
        self._tracker, counted = tracker.counted(links)
        return {link.number: link for link in counted}

    def feed(self, batch: MessageBatch) -> None:
        """Counts the next messages of the reading."""
        decoded = batch.decoded
        command = command_of(decoded.opcode, decoded.is_response, decoded.is_server)
        key = batch.connection * _COMMANDS + command
        for distinct_key, numbers in zip(*_counts(key, batch), strict=True):
            _add(self._counts, distinct_key, numbers)
        noops = np.flatnonzero(
            (decoded.opcode == Opcode.DCP_NOOP) & ~decoded.is_response & ~decoded.is_server
        )
        self._noops.update(
            zip(batch.connection[noops].tolist(), batch.time_ns[noops].tolist(), strict=True)
        )
        if len(self._counts) > _PENDING:
            self._count(self._pairs_of(self._links()))

    def snapshot(self) -> Snapshot:
        """Returns all numbers by now."""
        begin = time.perf_counter()
        reading = self.reading
        tables, links = reading.tables, self._links()
        for gone in self._seen.keys() - links.keys() - set(self._left_out):
            del self._seen[gone]
            self._noops.pop(gone, None)
        pair_of = self._pairs_of(links)
        self._count(pair_of)
        self._rise(tables, links, pair_of)
        samples: dict[str, list[tuple[tuple[str, ...], Value]]] = defaultdict(list)
        for source in (
            self._counted(),
            self._of_connections(tables, links, pair_of),
            self._of_streams(tables, links, pair_of),
            self._of_capture(),
        ):
            for name, labels, value in source:
                samples[name].append((labels, value))
        samples["dcpinspect_metrics_snapshot_seconds"].append(((), time.perf_counter() - begin))
        samples["dcpinspect_metrics_snapshot_timestamp_seconds"].append(((), time.time()))
        return samples

    # -- who it belongs to

    def _pairs_of(self, links: Mapping[int, TcpConnection]) -> dict[int, Pair]:
        """Returns the pair of each connection; the pair has totals from now on."""
        tracker = self._tracker
        sight = Visibility(tracker.state.known_tables, links)
        sessions = tracker.conversation.sessions
        for totals in self._pairs.values():
            totals.is_open = False
        pairs: dict[int, Pair] = {}
        clients = clients_of(links.values(), sessions, sight)
        for number in links:
            session = sessions.get(number) or Session()
            if tracker.speaks_dcp(number):
                client = clients[number]
                name = client.name if client.is_named else f"{client.host} {UNKNOWN}"
                pairs[number] = _label(name), _label(session.bucket or UNKNOWN)
            else:
                pairs[number] = _NO_DCPS
        # open connections first: those that are not open make room for them
        for is_open in (True, False):
            for number, pair in pairs.items():
                if bool(links[number].closed) != is_open:
                    pairs[number] = self._with_room(pair, is_open=is_open)
        return pairs

    def _with_room(self, pair: Pair, *, is_open: bool) -> Pair:
        """Returns the pair, or ``other`` if there is no room for it."""
        if pair not in self._pairs:
            if self._own_pairs >= self._most:
                gone = next(
                    (
                        candidate
                        for candidate, totals in self._pairs.items()
                        if not totals.is_open and candidate != _OTHERS
                    ),
                    None,
                )
                other_totals = self._pairs.setdefault(_OTHERS, _Totals())
                if gone is None or not is_open:
                    other_totals.is_open |= is_open
                    return _OTHERS
                other_totals.add(self._pairs.pop(gone))
            self._pairs[pair] = _Totals()
        self._pairs[pair].is_open |= is_open
        return pair

    @property
    def _own_pairs(self) -> int:
        return len(self._pairs) - (_OTHERS in self._pairs)

    # -- counters

    def _count(self, pair_of: Mapping[int, Pair]) -> None:
        """Adds what was counted since the last time to the pairs of connections by now."""
        pending, self._counts = self._counts, {}
        for key, numbers in pending.items():
            connection, command = divmod(key, _COMMANDS)
            if connection in self._left_out:
                continue
            if connection in self._unsure:
                self._counts[key] = numbers
                continue
            totals = (
                self._pairs[pair_of[connection]]
                if connection in pair_of
                else self._pairs.setdefault(_OTHERS, _Totals())
            )
            _add(totals.counts, command, numbers)

    def _rise(
        self, tables: Tables, links: Mapping[int, TcpConnection], pair_of: Mapping[int, Pair]
    ) -> None:
        """Adds what tables have counted since the last time to the pairs.

        Tables count less once streams have left memory, or a gap turned out to have another cause.
        """
        state = self._tracker.state
        streams, size = state.known_tables.streams, len(state.connections)
        owner = streams.connection
        rollbacks = np.bincount(owner[streams.answer == w.A_ROLLBACK], minlength=size)
        causes = np.zeros((size, len(w.CAUSES)), dtype=np.int64)
        np.add.at(causes, owner, self._settled_gaps(tables))
        for number, link in links.items():
            if number in self._unsure:
                continue
            numbers = (
                1,
                state.connections[number].streams,
                rollbacks[number],
                sum(link.holes),
                sum(link.missing),
            )
            now = np.concatenate((np.array(numbers, dtype=np.int64), causes[number]))
            before = self._seen.get(number)
            self._pairs[pair_of[number]].risen += (
                now if before is None else np.maximum(now - before, 0)
            )
            self._seen[number] = now

    def _settled_gaps(self, tables: Tables) -> IntArray:
        """Returns how many gaps of each cause every stream has that are old enough."""
        gaps, now_ns = tables.all_gaps, self._clock_ns or 0
        counts = tables.seen.amounts[1][0].copy()
        # one that seems to come later is old: the clock was set back
        is_new = np.abs(now_ns - gaps.table.ends.time) < SETTLED_NS
        np.subtract.at(counts, (gaps.table.stream[is_new], gaps.cause[is_new]), 1)
        return counts

    def _counted(self) -> Iterator[tuple[str, tuple[str, ...], Value]]:
        for pair, totals in self._pairs.items():
            yield from _by_command(pair, totals)
            risen = totals.risen.tolist()
            for name, number in zip(_RISING, risen, strict=False):
                yield name, pair, number
            for cause, number in zip(w.CAUSES, risen[_GAPS:], strict=True):
                yield "dcpinspect_gaps_total", (*pair, cause), number
        yield "dcpinspect_metrics_pairs", (), self._own_pairs

    # -- how it is now

    def _of_connections(
        self, tables: Tables, links: Mapping[int, TcpConnection], pair_of: Mapping[int, Pair]
    ) -> Iterator[tuple[str, tuple[str, ...], Value]]:
        verdicts: Counter[tuple[Pair, str]] = Counter()
        windows: dict[Pair, list[tuple[int, int]]] = defaultdict(list)
        names = ("connection", "verdict", "window_bytes", "outstanding_bytes")
        for number, verdict, window, outstanding in tables.connections.rows(*names):
            if number in links and not links[number].closed and pair_of[number] != _NO_DCPS:
                verdicts[pair_of[number], verdict] += 1
                if outstanding is not None and window:
                    windows[pair_of[number]].append((window, outstanding))
        for (pair, verdict), count in verdicts.items():
            yield "dcpinspect_connections", (*pair, verdict), count
        for pair, pair_windows in windows.items():
            sizes, waiting = map(sum, zip(*pair_windows, strict=True))
            fullest = max(outstanding / window for window, outstanding in pair_windows)
            yield "dcpinspect_flow_control_window_bytes", pair, sizes
            yield "dcpinspect_flow_control_outstanding_bytes", pair, waiting
            yield "dcpinspect_flow_control_fill_ratio", pair, fullest
        ages: dict[Pair, float] = {}
        for number, time_ns in self._noops.items():
            if number in links and not links[number].closed:
                age = max(0, (self._clock_ns or time_ns) - time_ns) / 1e9
                ages[pair_of[number]] = max(age, ages.get(pair_of[number], 0.0))
        for pair, age in ages.items():
            yield "dcpinspect_noop_age_seconds", pair, age

    def _of_streams(
        self, tables: Tables, links: Mapping[int, TcpConnection], pair_of: Mapping[int, Pair]
    ) -> Iterator[tuple[str, tuple[str, ...], Value]]:
        streams = self._tracker.state.known_tables.streams
        order = number_streams(streams)
        if order is not None:  # as in the table
            streams = streams[order]
        verdicts = tables.streams.columns["verdict"]
        assert isinstance(verdicts, WordColumn)
        open_pairs = {
            pair: pair_index
            for pair_index, pair in enumerate(
                dict.fromkeys(pair_of[n] for n, link in links.items() if not link.closed)
            )
        }
        pair_of_connection = np.full(len(self._tracker.state.connections), -1)
        for number, link in links.items():
            if not link.closed:
                pair_of_connection[number] = open_pairs[pair_of[number]]
        consumers = tables.seen.consumers.names.of
        rows = _newest(streams, np.where(pair_of_connection >= 0, consumers, -1))
        pairs, pair_of_stream = list(open_pairs), pair_of_connection[streams.connection[rows]]
        for name, codes, words in (
            ("dcpinspect_streams", streams.state[rows], STREAM_STATES),
            ("dcpinspect_stream_verdicts", verdicts.codes[rows], verdicts.words),
        ):
            counts = np.bincount(
                pair_of_stream * len(words) + codes, minlength=len(pairs) * len(words)
            )
            for count_index in np.flatnonzero(counts).tolist():
                yield (
                    name,
                    (*pairs[count_index // len(words)], words[count_index % len(words)]),
                    int(counts[count_index]),
                )
        stuck = np.isin(
            verdicts.codes[rows], [w.STREAM_VERDICTS.index(verdict) for verdict in STUCK]
        )
        lags = self._lags(tables, streams[rows])
        of_pair: dict[int, list[int]] = defaultdict(list)
        for pair_index, lag in zip(pair_of_stream.tolist(), lags, strict=True):
            if lag is not None:
                of_pair[pair_index].append(lag)
        for pair_index, count in enumerate(
            np.bincount(pair_of_stream[stuck], minlength=len(pairs)).tolist()
        ):
            if pairs[pair_index] != _NO_DCPS:
                yield "dcpinspect_vbuckets_stuck", pairs[pair_index], count
                yield "dcpinspect_seqno_lag_vbuckets", pairs[pair_index], len(of_pair[pair_index])
                if of_pair[pair_index]:
                    yield "dcpinspect_seqno_lag", pairs[pair_index], sum(of_pair[pair_index])

    def _lags(self, tables: Tables, streams: Streams) -> list[int | None]:
        """Returns how far each of these streams is behind what its server told, up to where it was
        asked for; None where nobody knows.
        """
        names = ("client", "vbucket", "high_seqno")
        high_seqnos = {
            (client, vbucket): high for client, vbucket, high in tables.vbuckets.rows(*names)
        }
        clients = tables.seen.clients
        runs = (streams.has_position != 0) & np.isin(streams.state, (ACCEPTED, STREAMING))
        last = np.where(
            streams.request.is_captured != 0,
            unbiased(streams.request.end),
            np.uint64((1 << 64) - 1),
        )
        lags: list[int | None] = []
        for connection, vbucket, is_running, position, end in zip(
            streams.connection.tolist(),
            streams.vbucket.tolist(),
            runs.tolist(),
            unbiased(streams.position).tolist(),
            last.tolist(),
            strict=True,
        ):
            high = high_seqnos.get((clients[connection], vbucket)) if is_running else None
            lags.append(None if high is None else max(0, min(high, end) - position))
        return lags

    def _of_capture(self) -> Iterator[tuple[str, tuple[str, ...], Value]]:
        reading, lost = self.reading, 0
        capture = reading.capture if isinstance(reading, Reading) else None
        yield "dcpinspect_build_info", (__version__,), 1
        dropped: dict[str, int | None]
        if isinstance(capture, LiveCapture):
            numbers, lost = capture.numbers, capture.lost
            dropped = {
                "kernel": capture.dropped,
                "interface": numbers.interface_drops,
                "disk": numbers.unrecorded,
                "spool": lost,
            }
            yield "dcpinspect_capture_unread_packets", (), capture.unread
            yield "dcpinspect_capture_behind_seconds", (), capture.lag_s
        else:  # what was lost before captures of runs were written is not recorded
            files = () if capture is None else capture.files
            dropped = {"file": sum(counts.lost for file in files for counts in file.counts)}
        packets = reading.capture.packets if isinstance(reading, Reading) else reading.packets
        yield "dcpinspect_capture_packets_total", (), packets - lost
        for where, count in dropped.items():
            if count is not None:
                yield "dcpinspect_capture_dropped_packets_total", (where,), count
        if self._clock_ns is not None:
            yield "dcpinspect_capture_timestamp_seconds", (), self._clock_ns / 1e9


def _counts(key: IntArray, batch: MessageBatch) -> tuple[list[int], IntArray]:
    """Returns the keys that messages have, and a row of counts for each: messages, bytes, answers
    up to each of ``BOUNDS_S`` from the bound before, slower ones, and the nanoseconds of all.
    """
    keys, group = np.unique(key, return_inverse=True)
    group, rtt = group.reshape(-1), batch.rtt_ns
    answered = np.flatnonzero(batch.decoded.is_response & rtt.is_known)
    answer, rtt_ns = group[answered], rtt.values[answered].astype(np.int64)
    size, width = len(keys), len(BOUNDS_S) + 1
    cell = answer * width + np.searchsorted(_BOUNDS_NS, rtt_ns)
    columns = (
        np.bincount(group),
        np.bincount(group, batch.length),
        np.bincount(cell, minlength=size * width).reshape(-1, width),
        np.bincount(answer, rtt_ns, size),
    )
    return keys.tolist(), np.column_stack(columns).astype(np.int64)


def _by_command(pair: Pair, totals: _Totals) -> Iterator[tuple[str, tuple[str, ...], Value]]:
    """Yields samples by command; commands that nobody described count as one."""
    counts: dict[tuple[str, str], IntArray] = {}
    for command, numbers in totals.counts.items():
        _add(counts, (_opcode(command), command_side(command)), numbers)
    for (opcode, side), (count, size, *answers, total_ns) in counts.items():
        yield "dcpinspect_messages_total", (*pair, opcode, side), int(count)
        yield "dcpinspect_message_bytes_total", (*pair, opcode, side), int(size)
        if any(answers):
            times = Times(np.cumsum(answers).tolist(), int(total_ns) / 1e9)
            yield "dcpinspect_answer_seconds", (*pair, opcode), times


def _newest(streams: Streams, consumers: IntArray) -> IntArray:
    """Returns the newest stream of each consumer, vbucket and stream-id; ``consumers``: number of
    the consumer by connection, -1 for none that counts.
    """
    rows = np.flatnonzero(consumers[streams.connection] >= 0)[::-1]  # newest first
    newest_first = streams[rows]
    key = (consumers[newest_first.connection] * (1 << 17) + newest_first.vbucket) * (
        1 << 17
    ) + newest_first.sid
    newest: IntArray = np.sort(rows[np.unique(key, return_index=True)[1]])
    return newest


def _opcode(command: int) -> str:
    is_server = bool(command & SERVER)
    name = command_name(command)
    return UNKNOWN if opcode_code(name, server=is_server) is None else name


def _label(text: str) -> str:
    """Returns a peer's name as a label: without invisible characters, and not too long."""
    return clip(escape_rest(text), _LABEL)


def _add(table: dict[K, IntArray], key: K, numbers: IntArray) -> None:
    before = table.get(key)
    table[key] = numbers if before is None else before + numbers
