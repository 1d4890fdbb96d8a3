"""Rules about markers that ask to be acknowledged: whether the consumer does so, and when."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.context import ALL, Context, occurrence, plain
from dcpinspect.findings.finding import Candidates, MessagePlace, Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.findings.stalled import STALLED_NS
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import ACK, TAKEOVER
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.examples import Examples
from dcpinspect.streams.followers import PerConnection, renumbered
from dcpinspect.streams.grouping import GroupedRows
from dcpinspect.streams.records import LEAST, Streams
from dcpinspect.streams.transitions import COMPLETE, COMPLETE_ADVANCED, CONTINUED
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.messages import DIRECTIONS

PREPARES = "prepares"
"""Cause of a missing acknowledgement that is no answer to a marker."""

RULES = rules(
    f"""
    ack-missing snapshot warning consumer
        fires: a marker asks for an acknowledgement, its snapshot is complete, and the consumer does
            not send one; or a replica that acknowledged prepares does not acknowledge those of a
            complete snapshot for 30 s, while it sends other messages on the connection
        unless: incomplete snapshots; streams that the consumer closes; a hole that may hide the
            answer
        next: look at the consumer's log, because the producer waits for this answer, and during a
            takeover it waits forever; a consumer has to answer each marker that asks for it
        causes: {PREPARES}
        cost: vbucket, has a snapshot that is not acknowledged, have snapshots that are not
            acknowledged
        fields: snapshot_type, by_seqno for {PREPARES}
    ack-early snapshot note consumer
        fires: a snapshot is acknowledged before its last message
        unless: less than one round trip, because the two directions cannot be compared that closely
        next: update the consumer, because a crash can lose what it acknowledged; it may acknowledge
            a snapshot only after all of it is stored
    """
)

MOST = 1 << 16
"""Number of the latest markers with the ack flag that are remembered."""
ANY_OPAQUE = -1


class Acknowledged(Watcher):
    """Follows markers that ask to be acknowledged to their answers."""

    def __init__(self) -> None:
        self._answers: dict[int, MessagePlace | None] = {}
        """The place of the answer, or None, by row of the marker. Markers that wait for an answer
        are forgotten in any case.
        """
        self._unasked: PerConnection[int, int] = PerConnection()
        """By connection, time of the latest answer whose marker had not been read: a hole may have
        held the marker back.
        """
        self._needless: PerConnection[tuple[int, int], Examples[MessagePlace]] = PerConnection()
        """By connection and opaque: answers to markers, none of which was read asking for one."""
        self._unread: PerConnection[tuple[int, int], bool] = PerConnection()
        """Connection and opaque of markers whose flags cannot be read; ANY_OPAQUE stands for all.
        """

    def watch(self, fed: RuleInput) -> Iterable[Candidates]:
        """Takes the next messages."""
        batch, decoded = fed.batch, fed.batch.decoded
        are_markers = decoded.opcode == Opcode.DCP_SNAPSHOT_MARKER
        markers = are_markers & decoded.is_request
        flags = decoded.numbers.get("snapshot_type")
        sent = np.flatnonzero(markers)
        unread = sent if flags is None else sent[~flags.is_known[sent]]
        self._unread.update(
            dict.fromkeys(
                zip(
                    batch.connection[unread].tolist(), decoded.opaque[unread].tolist(), strict=True
                ),
                True,
            )
        )
        if len(self._unread) > MOST:
            self._unread = PerConnection(
                dict.fromkeys(((connection, ANY_OPAQUE) for connection, _ in self._unread), True)
            )
        if flags is not None:
            asks = markers & ((flags.values.astype(np.int64) & ACK) != 0)
            self._answers.update(dict.fromkeys(batch.row[asks].tolist()))
        for index in np.flatnonzero(are_markers & decoded.is_answer).tolist():
            row = batch.request_row.value_at(index)
            if row in self._answers:
                self._answers[row] = place_of(batch, index)
            elif row is None:
                self._unasked[int(batch.connection[index])] = int(batch.time_ns[index])
                key = int(batch.connection[index]), int(decoded.opaque[index])
                is_known = (
                    batch.vbucket.value_at(index) is not None
                    and decoded.specific[index] == Status.SUCCESS
                )
                if is_known and (key in self._needless or len(self._needless) < MOST):
                    few = self._needless.setdefault(key, Examples())
                    few.add(place_of(batch, index))
                    if fed.with_rows:
                        few.keep(batch.row[[index]], batch.time_ns[[index]])
        while len(self._answers) > MOST:
            del self._answers[next(iter(self._answers))]
        return ()

    @property
    def needless(self) -> Collection[tuple[int, int]]:
        """Connection and opaque of answers to markers that did not ask for one."""
        return self._needless.keys()

    @classmethod
    def joined(cls, readings: Sequence[Self], connections: Sequence[RowNumbers]) -> Self:
        """Joins what is known of several readings, as in ``Follower``."""
        acknowledged = super().joined(readings, connections)
        for reading, new_numbers in zip(readings, connections, strict=True):
            for row, answer in reading._answers.items():
                acknowledged._answers[row] = renumbered(answer, new_numbers)
        acknowledged._answers = dict(
            sorted(acknowledged._answers.items(), key=lambda item: item[0])[-MOST:]
        )
        return acknowledged

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields all occurrences, once all messages were taken."""
        if not finished.is_whole:
            return
        context = finished.context
        yield from self._unneeded(context)
        yield from _ahead(context)
        yield from _stopped(context)
        if not self._answers:
            return
        snapshots = context.snapshots
        is_complete = np.isin(snapshots.state, (COMPLETE, COMPLETE_ADVANCED)) & (
            snapshots.is_tainted == 0
        )
        is_asked = np.isin(snapshots.place.row, list(self._answers))
        asking_snapshots = np.flatnonzero(is_asked).tolist()
        answers: dict[int, list[MessagePlace]] = defaultdict(list)
        for number in asking_snapshots:
            if (own_answer := self._answers[snapshots[number].place.row]) is not None:
                answers[snapshots[number].stream].append(own_answer)
        waiting: Counter[int] = Counter()
        for number in asking_snapshots:
            if snapshots.state[number] == CONTINUED:
                continue  # one answer acknowledges it and the next marker
            of_stream = snapshots[number].stream
            nth = waiting[of_stream]
            waiting[of_stream] += 1
            if not is_complete[number]:
                continue
            answer = self._answers[snapshots[number].place.row]
            if answer is None and nth < len(answers[of_stream]):
                # an answer goes to the oldest marker that waits, also if that was continued
                answer = answers[of_stream][nth]
            yield from self._acknowledged(context, number, answer)

    def _acknowledged(
        self, context: Context, number: int, answer: MessagePlace | None
    ) -> Iterator[Occurrence]:
        """Yields what is wrong with the answer to a complete snapshot, or that there is none."""
        snapshot = context.snapshots[number]
        stream = context.streams[snapshot.stream]
        link = context.by_number.get(stream.connection)
        consumer = 1 - context.producer(stream.connection)
        if (
            link is None
            or not link.has_handshake
            or link.is_cut(consumer)
            or context.sight.known_until_ns(link.number, consumer) < ALL
        ):
            return
        reached, marker = snapshot.reached_time, context.marker(number)
        slowest = context.tracker.state.connections[link.number].slowest
        start, end = plain(snapshot.start), plain(snapshot.end)
        if answer is None:
            waited = context.carried_ns(link, consumer, reached, link.heard_until_ns)
            was_answered = self._unasked.get(link.number, 0) > marker.time_ns
            if waited <= max(PATIENCE_NS, 10 * slowest) or stream.closed_row >= 0 or was_answered:
                return
            rule, evidence = "ack-missing", [marker]
            then = f"needs an acknowledgement, and has had none for {waited / 1e9:.1f} s"
        elif answer.time_ns + slowest < reached:
            rule, evidence = "ack-early", [answer, marker]
            then = f"acknowledged {duration(reached - answer.time_ns)} before its last message"
        else:
            return
        message = f"snapshot {start}–{end} {then}"
        yield occurrence(context, snapshot.stream, rule, message, evidence, seqnos=(start, end))

    def _unneeded(self, context: Context) -> Iterator[Occurrence]:
        """Yields answers to markers without the ack flag, if all fitting markers were read."""
        if not self._needless:
            return
        streams, snapshots = context.streams, context.snapshots
        streams_of: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, key in enumerate(
            zip(streams.connection.tolist(), streams.opaque.tolist(), strict=True)
        ):
            if key in self._needless:
                streams_of[key].append(number)
        snapshots_of = GroupedRows(snapshots.stream, len(streams))
        for (connection, opaque), few in self._needless.items():
            stream_numbers = streams_of[connection, opaque]
            if (
                context.by_number.get(connection) is None
                or not stream_numbers
                or self._unread.keys() & {(connection, opaque), (connection, ANY_OPAQUE)}
            ):
                continue
            numbers = np.concatenate([snapshots_of[number] for number in stream_numbers])
            if any(
                self._answers.get(row, True) is None
                for row in snapshots.place.row[numbers].tolist()
            ):
                # a marker that asks for an answer has none: its answer may have been held back
                continue
            begun_ns = (
                int(streams.opened.time[stream_numbers].min())
                if streams.request.is_captured[stream_numbers].all()
                else 0
            )
            yield from _not_asked(context, connection, few, numbers, begun_ns)


def _not_asked(
    context: Context,
    connection: int,
    few: Examples[MessagePlace],
    numbers: RowNumbers,
    begun_ns: int,
) -> Iterator[Occurrence]:
    """Yields those of some answers whose marker was read. ``numbers``: the snapshots that it may
    be. ``begun_ns``: since when the capture has their streams.
    """
    snapshots, producer = context.snapshots, context.producer(connection)
    marker_rows = snapshots.place.row[numbers]
    for answer_place in few.occurrences:
        before = numbers[marker_rows < answer_place.row]
        is_known = answer_place.direction == DIRECTIONS[1 - producer] and not context.may_lack(
            connection, producer, begun_ns, answer_place.time_ns
        )
        if not len(before) or not is_known:
            continue
        number = int(before[np.argmax(snapshots.place.row[before])])
        snapshot = snapshots[number]
        is_first = answer_place is few.occurrences[0]
        rows = few.rows[(few.rows > marker_rows.min()) & (few.times <= answer_place.time_ns)]
        reply = occurrence(
            context,
            snapshot.stream,
            "unexpected-reply",
            "dcp_snapshot_marker needs no answer, because its ack flag is not set",
            (answer_place, context.marker(number)),
            cause="not-asked",
            next_=NOT_ASKED,
            seqnos=(plain(snapshot.start), plain(snapshot.end)),
            count=few.count - len(few.occurrences) + 1 if is_first else 1,
        )
        yield replace(reply, rows=[*rows.tolist(), answer_place.row])


def _ahead(context: Context) -> Iterator[Occurrence]:
    """Replicas that acknowledge prepares which they were not sent."""
    streams = context.streams
    # a replica may acknowledge all of a snapshot from disk, which lacks prepares that were
    # completed
    most = np.maximum.reduce((streams.prepared, streams.disk_end, streams.request.start))
    for number in np.flatnonzero(
        (streams.acknowledged > most)
        & (streams.request.is_captured != 0)
        & (streams.unreadable < 0)
    ).tolist():
        stream, connection = streams[number], streams[number].connection
        producer = context.producer(connection)
        if (
            # the prepare may be captured after the acknowledgement
            context.tracker.state.connections[connection].time[producer]
            <= stream.acknowledged_at.time
            or context.may_lack(connection, producer, stream.opened.time)
        ):
            continue
        acknowledged, last = plain(stream.acknowledged), plain(most[number])
        ack_place = context.report_place(connection, stream.acknowledged_at, of_consumer=True)
        message = f"acknowledged {acknowledged}, above all prepares, which end at {last}"
        yield occurrence(
            context,
            number,
            "seqno-ack-regress",
            message,
            (ack_place,),
            seqnos=(acknowledged, last),
        )


def _stopped(context: Context) -> Iterator[Occurrence]:
    """Replicas that acknowledged prepares, and go on without doing so."""
    streams = context.streams
    for number in np.flatnonzero(
        (streams.acknowledged > LEAST) & (streams.awaited.row > 0)
    ).tolist():
        stream, link = streams[number], context.by_number[streams[number].connection]
        consumer = 1 - context.producer(link.number)
        since_ns = link.received_ns(1 - consumer, stream.awaited.offset, stream.awaited.time)
        until_ns = int(context.tracker.state.connections[link.number].time[consumer])
        waited_ns = context.carried_ns(link, consumer, since_ns, until_ns)
        if (
            waited_ns <= STALLED_NS
            or stream.request.flags & TAKEOVER
            or not context.runs_whole(number)
            or context.may_lack(link.number, consumer, since_ns)
        ):
            continue
        acknowledged, last = plain(stream.acknowledged), plain(stream.prepared)
        yield occurrence(
            context,
            number,
            "ack-missing",
            f"prepares up to {last} not acknowledged for {duration(waited_ns)}, after {acknowledged}",
            (
                context.stream_place(stream, stream.awaited),
                context.report_place(link.number, stream.acknowledged_at, of_consumer=True),
            ),
            cause=PREPARES,
            next_="look at the load and the log of the replica, because durable writes wait for it; "
            "a consumer has to acknowledge the prepares of each snapshot that is complete",
            seqnos=(last, acknowledged),
            shared="prepares not acknowledged",
        )


def _wants(streams: Streams, watcher: Watcher | None) -> BoolArray:
    """Returns a mask of streams with answers that nothing asked for: the marker that each answer
    can be about has to be found.
    """
    assert isinstance(watcher, Acknowledged)
    if not watcher.needless:
        return np.zeros(len(streams), dtype=np.bool_)
    return np.array(
        [
            key in watcher.needless
            for key in zip(streams.connection.tolist(), streams.opaque.tolist(), strict=True)
        ],
        np.bool_,
    )


NOT_ASKED = (
    "update the consumer; it may answer a marker only if its ack flag is set, because during a "
    "takeover the producer counts answers and may wait forever"
)


RULE_SET = RuleSet(
    RULES, watcher=Acknowledged, wants=_wants, also=("unexpected-reply", "seqno-ack-regress")
)
