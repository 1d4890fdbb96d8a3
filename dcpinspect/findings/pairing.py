"""Rules about requests and their answers: requests that nobody answered, answers that nobody asked
for.

Only commands that are always answered are looked at: those of DCP and of the connection around it.
Nothing is accused that may have been answered, or asked for, in bytes that were not captured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np

from dcpinspect.arrays import BoolArray, grown
from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.context import ALL, Context
from dcpinspect.findings.finding import Candidates, MessagePlace, Occurrence, captured
from dcpinspect.findings.rule import ACKNOWLEDGED, CLOSED, GOES_ON, SIDES, SILENT, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import TAKEOVER
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode, Trait, opcode_name
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams import words as w
from dcpinspect.streams.followers import PerConnection, renumbered
from dcpinspect.streams.grouping import by_value
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.messages import MessageBatch

RULES = rules(
    f"""
    unmatched-response session warning sender
        fires: a response answers no request
        unless: captures that begin inside the connection; a hole that may hide the request;
            commands with many answers or none
        next: report the sender's version, because it answers twice or mixes up connections; a
            client has to ignore an answer whose opaque it does not know
        cost: unmatched
    missing-response session warning
        fires: a request that needs an answer has none for ten times the slowest answer of the
            connection, or until the other side closes it
        unless: commands without an answer; requests after which the sender closes at once; a sender
            whose TCP window is 0; a hole that may hide the answer
        next: look at the load and the log of the receiver, which is busy, hangs, or does not accept
            this client; a client should wait with a time limit, and connect again
        causes: {GOES_ON} {CLOSED} {ACKNOWLEDGED} {SILENT}
        reports: couchbase/sync_gateway#2514, couchbase/sync_gateway#1406,
            couchbase/sync_gateway#3037, JDCP-206
        whose: receiver for {GOES_ON} {CLOSED} {ACKNOWLEDGED}, unknown for {SILENT}
        cost: connection, waits for an answer, wait for an answer
    unexpected-reply session warning sender
        fires: a command that has no answer is answered with success; an error for a SeqnoAdvanced
            or OSO snapshot, because a server then closes the connection
        unless: stream ends; markers that ask for an acknowledgement, or may ask for one
        next: report the version of the side that answers; a client must not answer this command,
            because at best the server ignores it
        causes: not-asked
        cost: unmatched
    close-refused stream note consumer
        fires: a close of a stream is answered with an error
        unless: a stream whose end came, or may have come, while the close was under way; a hole
            that may hide that
        next: operators have nothing to do, the stream is not open; a consumer has to close only open
            streams, each by its vbucket and stream-id
    takeover-sequence stream warning
        fires: the state of a vbucket is set on a stream without the takeover flag; or this is not
            answered; or the server closes the connection before the vbucket is active
        unless: requests that were not captured; a hole that may hide the answer
        next: look at both nodes of the rebalance, the vbucket may be active on both, or on neither;
            a client has to go by the newest cluster map
        causes: not-requested unanswered unfinished
        whose: sender for not-requested unfinished
        cost: not-requested: wrong-data; unanswered: wrong-data;
            unfinished: vbucket, was not taken over, were not taken over
    """
)

MOST = 1 << 16
"""Greatest number of requests without an answer, and the reverse, that are remembered."""
_ACTIVE = 1
LEAST_WAIT_NS = 200_000_000
"""The least wait that counts if the receiver closes the connection without an answer."""
_OUT_OF_STEP_NS = 1_000_000_000
"""An answer may have a time so much before that of its request: two interfaces, or two queues of
one, recorded the directions.
"""

_ALWAYS = (
    *(
        Opcode.HELLO,
        Opcode.SASL_LIST_MECHS,
        Opcode.SASL_AUTH,
        Opcode.SASL_STEP,
        Opcode.SELECT_BUCKET,
        Opcode.VERSION,
    ),
    *(
        Opcode.GET_CLUSTER_CONFIG,
        Opcode.GET_ERROR_MAP,
        Opcode.GET_ALL_VB_SEQNOS,
        Opcode.OBSERVE_SEQNO,
        Opcode.GET_FAILOVER_LOG,
    ),
    *(Opcode.COLLECTIONS_GET_MANIFEST, Opcode.COLLECTIONS_GET_ID, Opcode.COLLECTIONS_GET_SCOPE_ID),
    *(
        Opcode.DCP_OPEN,
        Opcode.DCP_ADD_STREAM,
        Opcode.DCP_CLOSE_STREAM,
        Opcode.DCP_STREAM_REQ,
        Opcode.DCP_GET_FAILOVER_LOG,
    ),
    *(Opcode.DCP_SET_VBUCKET_STATE, Opcode.DCP_CONTROL),
)
_ASKS = np.zeros(256, dtype=np.bool_)
_ASKS[[*_ALWAYS]] = True
_SILENT = opcodes_with(Trait.UNANSWERED) & ~opcodes_with(Trait.ENDS)
_SILENT[Opcode.DCP_SNAPSHOT_MARKER] = False  # ``acknowledged`` looks at markers
_FATAL = (Opcode.DCP_SEQNO_ADVANCED, Opcode.DCP_OSO_SNAPSHOT)
"""A server has nothing that could take an answer to these (kv_engine mcbp_executors.cc,
``execute_client_response_packet``).
"""
_ERROR: Severity = "error"
_OF_VBUCKET = (
    Opcode.DCP_ADD_STREAM,
    Opcode.DCP_CLOSE_STREAM,
    Opcode.DCP_STREAM_REQ,
    Opcode.DCP_SET_VBUCKET_STATE,
)

_NEXT: dict[int, str] = {
    Opcode.DCP_OPEN: (
        "check the name, the privileges of the user and the address, because a server may send no "
        "answer to a client that it does not accept; a client should wait with a time limit"
    ),
    Opcode.DCP_STREAM_REQ: (
        "look at the server's log, because it is busy or hangs; a client should ask again later"
    ),
}

_BEGINNING = (
    Opcode.HELLO,
    Opcode.SASL_AUTH,
    Opcode.SASL_STEP,
    Opcode.SELECT_BUCKET,
    Opcode.DCP_OPEN,
)
"""A client that is turned away at one of these was not wanted; later, an answer may just have been
on its way when a node went down.
"""

_Key = tuple[int, int, int, int]
"""Connection, direction of the request, opcode, opaque."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request without an answer so far."""

    place: MessagePlace
    direction: int
    opcode: int
    opaque: int
    vbucket: int | None

    @property
    def key(self) -> _Key:
        """What its answer has in common with it."""
        return self.place.connection, self.direction, self.opcode, self.opaque


class Pairing(Watcher):
    """Follows requests to their answers. Memory grows with the requests that are not answered."""

    def __init__(self) -> None:
        self._waiting: dict[int, PendingRequest] = {}
        self._waiting_for: dict[_Key, list[int]] = {}
        self._unmatched: PerConnection[_Key, list[MessagePlace]] = PerConnection()
        self._unmatched_count = 0
        self._slowest: PerConnection[tuple[int, int], list[tuple[int, int]]] = PerConnection()
        """By connection and opcode: (time of the answer, its delay), each slower than before, and
        slow enough to count.
        """
        self._latest = np.zeros(0, np.int64)
        """Time of the latest message of each direction; two elements for each connection."""
        self._takeover: PerConnection[tuple[int, int], tuple[PendingRequest, int]] = PerConnection()
        """By connection and row: the first messages that set the state of a vbucket, and to what.
        """
        self._unclosed: PerConnection[tuple[int, int], tuple[PendingRequest, int]] = PerConnection()
        """By connection and row: the first answers by which a close was refused, with their status.
        """

    def watch(self, fed: RuleInput) -> Iterator[Candidates]:
        """Returns what the batch shows alone; ``findings`` returns the rest."""
        batch, decoded = fed.batch, fed.batch.decoded
        self._heard(batch.connection * 2 + batch.direction, batch.time_ns)
        asks = _ASKS[decoded.opcode]
        self._follow(batch, decoded.is_request & asks, decoded.is_answer & asks)
        is_done = decoded.is_answer & (decoded.specific == Status.SUCCESS)
        rows = np.flatnonzero(is_done & _SILENT[decoded.opcode])
        is_fatal = np.isin(decoded.opcode[rows], _FATAL)
        for rows_of_anomaly, severity, effect in (
            (rows[~is_fatal], None, ""),
            (rows[is_fatal], _ERROR, ", and a server closes the connection when it gets one"),
        ):
            yield Candidates(
                "unexpected-reply", rows_of_anomaly, partial(_unexpected, batch, effect), severity
            )

    def leave(self, connections: Collection[int]) -> None:
        """Drops these connections, as in ``Follower``."""
        for row in [
            row for row, request in self._waiting.items() if request.place.connection in connections
        ]:
            self._forget(row)
        super().leave(connections)
        self._unmatched_count = sum(map(len, self._unmatched.values()))

    def _heard(self, ways: RowNumbers, time_ns: RowNumbers) -> None:
        count = int(ways.max(initial=-1)) + 1
        if count > len(self._latest):
            self._latest = grown(self._latest, count)
        self._latest[ways] = np.maximum(self._latest[ways], time_ns)

    def _follow(self, batch: MessageBatch, asks: BoolArray, answers: BoolArray) -> None:
        request = batch.request_row
        has_request = request.is_known
        answered = request.values[answers & has_request]
        first = int(batch.row[0]) if len(batch) else 0
        for row in answered[answered < first].tolist():
            self._forget(row)
        waits = asks & ~np.isin(batch.row, answered)
        # in order of rows, whatever came in one batch
        for index in np.flatnonzero(waits | (answers & ~has_request)).tolist():
            (self._ask if waits[index] else self._orphan)(batch, index)
        for index in np.flatnonzero(
            asks & (batch.decoded.opcode == Opcode.DCP_SET_VBUCKET_STATE)
        ).tolist()[: MOST - len(self._takeover)]:
            self._takeover[int(batch.connection[index]), int(batch.row[index])] = (
                self._pending_request(batch, index),
                batch.number("state", index) or 0,
            )
        closes = (
            answers
            & (batch.decoded.opcode == Opcode.DCP_CLOSE_STREAM)
            & (batch.decoded.specific != Status.SUCCESS)
        )
        for index in np.flatnonzero(closes & has_request).tolist()[: MOST - len(self._unclosed)]:
            refused = replace(
                self._pending_request(batch, index), vbucket=batch.vbucket.value_at(index)
            )
            self._unclosed[refused.place.connection, refused.place.row] = (
                refused,
                int(batch.decoded.specific[index]),
            )
        self._time(batch, np.flatnonzero(answers & has_request))

    def _time(self, batch: MessageBatch, rows: RowNumbers) -> None:
        took = batch.rtt_ns.values[rows].astype(np.int64)
        for key, indices in by_value(batch.connection[rows] * 256 + batch.decoded.opcode[rows]):
            slowest_times = self._slowest.get((key // 256, key % 256), [])
            before = slowest_times[-1][1] if slowest_times else LEAST_WAIT_NS // 10
            slowest = np.maximum.accumulate(took[indices])
            if slowest[-1] <= before:
                continue
            rises = np.flatnonzero(np.diff(np.maximum(slowest, before), prepend=before) > 0)
            slowest_times += zip(
                batch.time_ns[rows[indices[rises]]].tolist(), slowest[rises].tolist(), strict=True
            )
            self._slowest[key // 256, key % 256] = slowest_times

    def _pending_request(self, batch: MessageBatch, index: int) -> PendingRequest:
        opcode = int(batch.decoded.opcode[index])
        vbucket = int(batch.decoded.specific[index]) if opcode in _OF_VBUCKET else None
        return PendingRequest(
            place_of(batch, index),
            int(batch.direction[index]),
            opcode,
            int(batch.decoded.opaque[index]),
            vbucket,
        )

    def _ask(self, batch: MessageBatch, index: int) -> None:
        request = self._pending_request(batch, index)
        orphans = self._unmatched.get(request.key, [])
        for orphan_place in orphans:
            # its answer was read before it
            if orphan_place.time_ns >= request.place.time_ns - _OUT_OF_STEP_NS:
                orphans.remove(orphan_place)
                self._unmatched_count -= 1
                return
        if len(self._waiting) >= MOST:
            self._forget(next(iter(self._waiting)))
        self._waiting[request.place.row] = request
        self._waiting_for.setdefault(request.key, []).append(request.place.row)

    def _forget(self, row: int) -> None:
        request = self._waiting.pop(row, None)
        if request is not None:
            rows = self._waiting_for[request.key]
            rows.remove(row)
            if not rows:
                del self._waiting_for[request.key]

    def _orphan(self, batch: MessageBatch, index: int) -> None:
        key = (
            *(int(batch.connection[index]), 1 - int(batch.direction[index])),
            *(int(batch.decoded.opcode[index]), int(batch.decoded.opaque[index])),
        )
        rows = self._waiting_for.get(key)
        if rows:
            self._forget(rows[0])  # it must be one of these, though nobody knows which
        elif self._unmatched_count < MOST:
            self._unmatched.setdefault(key, []).append(place_of(batch, index))
            self._unmatched_count += 1

    # -- what is known at the end

    @classmethod
    def joined(cls, readings: Sequence[Self], connections: Sequence[RowNumbers]) -> Self:
        """Joins what is known of several readings, as in ``Follower``."""
        pairing = super().joined(readings, connections)
        pairs = list(zip(readings, connections, strict=True))
        waiting = [
            renumbered(request, new_numbers)
            for reading, new_numbers in pairs
            for request in reading._waiting.values()
        ]
        for request in sorted(waiting, key=lambda request: request.place.row)[-MOST:]:
            pairing._waiting[request.place.row] = request
            pairing._waiting_for.setdefault(request.key, []).append(request.place.row)
        for reading, new_numbers in pairs:
            own_ways = np.flatnonzero(reading._latest)
            pairing._heard(2 * new_numbers[own_ways // 2] + own_ways % 2, reading._latest[own_ways])
        pairing._unmatched_count = sum(map(len, pairing._unmatched.values()))
        return pairing

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields all occurrences, once all messages were taken."""
        context = finished.context
        yield from self._closes(context)
        if not finished.is_whole:
            return
        yield from self._nobody_asked(context)
        for request in self._waiting.values():
            waited = self._waited(context, request)
            if waited is None:
                continue
            opcode = request.opcode
            name = opcode_name(opcode)
            if opcode == Opcode.DCP_SET_VBUCKET_STATE:
                message = f"the state of the vbucket was set, but not answered {waited}"
                yield _occurrence("takeover-sequence", request, message, cause="unanswered")
            else:
                message = f"{name} unanswered {waited}"
                yield _occurrence(
                    "missing-response",
                    request,
                    message,
                    cause=self._since(context, request),
                    next_=_NEXT.get(opcode),
                )
        yield from self._takeovers(context)

    def _closes(self, context: Context) -> Iterator[Occurrence]:
        """Yields closes that were refused though no stream of the vbucket ended shortly before."""
        streams = context.streams
        for answer, status in self._unclosed.values():
            connection = answer.place.connection
            if connection not in context.by_number:
                continue
            took_ns = max(PATIENCE_NS, 10 * context.tracker.state.connections[connection].slowest)
            own_streams = context.streams_of(connection)
            ended = streams.finished.time[
                own_streams[streams.vbucket[own_streams] == answer.vbucket]
            ]
            is_late = bool(((ended > answer.place.time_ns - took_ns) & (ended > 0)).any())
            if not is_late and not context.may_lack(
                connection, context.producer(connection), answer.place.time_ns - took_ns
            ):
                message = f"close of the vbucket's stream refused: {status_name(status)}"
                yield _occurrence("close-refused", answer, message)

    def _nobody_asked(self, context: Context) -> Iterator[Occurrence]:
        for (connection, direction, opcode, opaque), evidence in self._unmatched.items():
            link = context.by_number.get(connection)
            if link is None or not link.has_handshake:
                continue
            known_until_ns = context.sight.known_until_ns(link.number, direction)
            for response_place in evidence:
                # its request may be in a hole that begins soon after it, by another clock
                if response_place.time_ns <= known_until_ns - LEAST_WAIT_NS:
                    message = (
                        f"{opcode_name(opcode)} response, opaque 0x{opaque:08x}, answers no request"
                    )
                    yield Occurrence("unmatched-response", message, connection, (response_place,))

    def _waited(self, context: Context, request: PendingRequest) -> str | None:
        """Returns in words how long an answer that must have come by then did not come; None if it
        may still come, or was perhaps not captured.
        """
        connection, direction, opcode, _ = request.key
        link = context.by_number.get(connection)
        if link is None or not link.has_handshake or link.is_cut(1 - direction):
            return None
        if link.are_shut[direction] or (
            context.sight.known_until_ns(link.number, 1 - direction) < ALL
        ):
            return None
        received_ns = _received_ns(link, request)
        waited_ns = link.heard_until_ns - (
            request.place.time_ns if received_ns == GREATEST else received_ns
        )
        slowest = max(
            (
                took
                for when, took in self._slowest.get((connection, opcode), ())
                if when <= request.place.time_ns
            ),
            default=0,
        )
        if waited_ns > max(PATIENCE_NS, 10 * slowest):
            return f"for {waited_ns / 1e9:.1f} s"
        enough = 0 if opcode in _BEGINNING else max(LEAST_WAIT_NS, 10 * slowest)
        if link.closed in ("fin", "rst") and link.closed_by == 1 - direction and waited_ns > enough:
            return (
                f"when the {SIDES[link.closed_by]} {link.how_closed} the connection "
                f"{duration(waited_ns)} later"
            )
        return None

    def _since(self, context: Context, request: PendingRequest) -> str:
        """Returns what came after a request from the side that should have answered it, later than
        a round trip takes.
        """
        connection, answer_direction = request.place.connection, 1 - request.direction
        link, way_number = context.by_number[connection], connection * 2 + answer_direction
        received_ns = _received_ns(link, request)
        if received_ns == GREATEST:
            return SILENT
        if link.closed in ("fin", "rst") and link.closed_by == answer_direction:
            return CLOSED
        latest = int(self._latest[way_number]) if way_number < len(self._latest) else 0
        if latest > received_ns + LEAST_WAIT_NS:
            return GOES_ON
        if link.has_received(1 - answer_direction, request.place.stream_offset):
            return ACKNOWLEDGED
        return SILENT

    def _takeovers(self, context: Context) -> Iterator[Occurrence]:
        latest = {
            (takeover.key, takeover.vbucket): takeover for takeover, _ in self._takeover.values()
        }
        for takeover, state in self._takeover.values():
            connection = takeover.place.connection
            streams = context.streams
            stream_numbers = context.streams_of(connection)
            stream_numbers = stream_numbers[
                (streams.vbucket[stream_numbers] == takeover.vbucket)
                & (streams.answer[stream_numbers] != w.A_ROLLBACK)
                & (streams.answer[stream_numbers] != w.A_REFUSED)
            ]
            opened_ns = streams.opened.time[stream_numbers]
            stream_numbers = stream_numbers[
                (streams.opaque[stream_numbers] == takeover.opaque)
                & (opened_ns < takeover.place.time_ns)
            ]
            stream_numbers = stream_numbers[
                np.argsort(streams.opened.time[stream_numbers], kind="stable")
            ]
            if not len(stream_numbers) or not streams.request.is_captured[stream_numbers[-1]]:
                continue
            if streams[stream_numbers[-1]].request.flags & TAKEOVER:
                is_latest = latest[takeover.key, takeover.vbucket] is takeover
                if is_latest and state != _ACTIVE and len(self._takeover) < MOST:
                    yield from _unfinished(context, int(stream_numbers[-1]), takeover)
                continue
            since_ns = streams[stream_numbers[-1]].opened.time
            if context.may_lack(
                connection, 1 - context.producer(connection), since_ns, takeover.place.time_ns
            ):
                continue  # another request for this vbucket, to which its state belongs
            yield _occurrence(
                "takeover-sequence",
                takeover,
                "the state of the vbucket is set on a stream that was not requested with takeover",
                context.request(int(stream_numbers[-1])),
                cause="not-requested",
            )


def _unfinished(context: Context, stream: int, pending: PendingRequest) -> Iterator[Occurrence]:
    """Yields the occurrence of a takeover that a server ends by closing the connection, before the
    vbucket was to be active. A client may stop a rebalance at any time.
    """
    link, since_ns = context.by_number[pending.place.connection], pending.place.time_ns
    producer = context.producer(link.number)
    if (
        producer == 1 == link.closed_by
        and link.closed in ("fin", "rst")
        and stream in context.open_on(link.number)
        and not context.may_lack(link.number, producer, since_ns)
    ):
        message = (
            f"the vbucket was to be pending, and not yet active when the server {link.how_closed} "
            f"the connection {duration(link.closed_ns - since_ns)} later"
        )
        request = context.request(stream)
        yield _occurrence("takeover-sequence", pending, message, request, cause="unfinished")


def _received_ns(link: TcpConnection, request: PendingRequest) -> int:
    return link.received_ns(request.direction, request.place.stream_offset, request.place.time_ns)


def _unexpected(batch: MessageBatch, effect: str, row: int) -> str:
    return f"{batch.name_of(row)} needs no answer{effect}"


def _occurrence(
    rule: str,
    request: PendingRequest,
    message: str,
    *evidence: MessagePlace | None,
    cause: str | None = None,
    next_: str | None = None,
) -> Occurrence:
    return Occurrence(
        rule,
        message,
        request.place.connection,
        captured((request.place, *evidence)),
        request.vbucket,
        cause=cause,
        next=next_,
    )


RULE_SET = RuleSet(RULES, watcher=Pairing)
