"""Rules about consumers that refuse what a producer sends on a stream: most servers then close the
connection.

kv_engine, ``DcpProducer::handleResponse``, tells for which answers they close it. Since 6.6 these
are all but success and those by which a consumer says that it has no such stream any more. The
latter concern that stream only. Before 6.6, only answers to prepares, commits and aborts counted.
Any answer to a snapshot marker or a vbucket state is taken for an acknowledgement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Self

import numpy as np

from dcpinspect.arrays import IntArray, unique
from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.context import Context, place_at, plain
from dcpinspect.findings.finding import Candidates, MessagePlace, Occurrence
from dcpinspect.findings.finding import FindingKey as FaultKey
from dcpinspect.findings.rule import SIDES, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.findings.session_facts import ON, V7_STATUSES
from dcpinspect.kernels.structs import Struct, StructRows, T, nested, number
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol import column_types
from dcpinspect.protocol.opcodes import Opcode, Trait, opcode_name
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams import records as r
from dcpinspect.streams.examples import FIRST
from dcpinspect.streams.followers import PerConnection
from dcpinspect.streams.grouping import Groups
from dcpinspect.streams.latest_rows import LatestRows
from dcpinspect.streams.session import put_places
from dcpinspect.streams.state import biased
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.tables.messages import MessageBatch

RULES = rules(
    """
    consumer-refused stream error unknown
        fires: a message of a stream is answered with an error; the finding includes the close of
            the connection if it follows. A fault for which a message is refused is an error, too.
            Whose it is, is unknown where bytes before it were not captured, because they may show a
            fault of the message
        unless: statuses for a stream that is gone (NOT_MY_VBUCKET, DCP_STREAM_NOT_FOUND,
            OPAQUE_NO_MATCH; without v7_dcp_status_codes also KEY_EEXISTS, and KEY_ENOENT except to
            a commit or abort), but for a fault; KEY_ENOENT to a stream end; ENOMEM to a cache
            transfer; unknown settings; messages that were not captured, or that have a fault
        next: look in the consumer's log for why it refused the message; it must not do so, because
            servers from 6.6 on close the connection, and 6.5 does for a prepare, commit or abort
        cost: connection, refused a message of its stream, refused messages of their streams
        silences: ack-early
    """
)

_UNKNOWN = (
    "look in the consumer's log for why it refused the message; bytes that were not captured may "
    "show that the message is at fault"
)
MOST = 1 << 14
"""Greatest number of streams and statuses that are remembered."""
REACH = 1 << 16
"""Number of messages of streams before an answer among which its own is looked for."""

_REFUSABLE = opcodes_with(Trait.COUNTED)
_ACKNOWLEDGED = (Opcode.DCP_SNAPSHOT_MARKER, Opcode.DCP_SET_VBUCKET_STATE)
_NO_STREAM = (
    Status.SUCCESS,
    Status.NOT_MY_VBUCKET,
    Status.DCP_STREAM_NOT_FOUND,
    Status.OPAQUE_NO_MATCH,
)
_NO_STREAM_BEFORE_V7 = (Status.KEY_EEXISTS, Status.KEY_ENOENT)
_SEQNOS = ("by_seqno", "end_seqno", "commit_seqno", "abort_seqno")
_NO_SEQNO = 0

_Key = tuple[int, int, int, int]
"""Connection, opcode, opaque, status of the answer."""


@dataclass(slots=True)
class _Refused:
    """Answers of one kind about one stream."""

    vbucket: int | None
    """The vbucket; None: messages of several vbuckets have the opaque."""
    needs_v7: bool
    """Whether the status is only an error because the connection uses the statuses of version 7."""
    is_gone: bool
    """Whether the status only says that the consumer has no such stream any more."""
    examples: list[tuple[MessagePlace, MessagePlace | None, int]] = field(default_factory=list)
    """The first answers: the place of each, the place of the latest message that it can be about,
    and the seqno of that message.
    """
    last: MessagePlace | None = None
    count: int = 0
    rows: column_types.RowNumbers = field(default_factory=lambda: column_types.NO_ROWS)
    """Rows of all answers, where somebody wants them."""


class StreamMessage(Struct[T]):
    """A message of a stream."""

    place: r.MessageRow[T] = nested(r.MessageRow, "Where it is.")
    connection: T = number("Its connection.")
    direction: T = number("0 from the client, 1 from the server.")
    opcode: T = number("Its opcode.")
    opaque: T = number("Its opaque.")
    vbucket: T = number("Its vbucket.")
    seqno: T = number("Its seqno, biased, LEAST for none.")


class SentMessages(StreamMessage[IntArray], StructRows[StreamMessage]):
    """The messages of streams, in order of rows."""


class Refusals(Watcher):
    """Follows what consumers answer to messages of streams. Memory grows with the streams of which
    something is refused.
    """

    travels = ("_of",)

    def __init__(self) -> None:
        self._of: PerConnection[_Key, _Refused] = PerConnection()
        self._recent = LatestRows(SentMessages)
        """The latest messages of streams."""

    def watch(self, fed: RuleInput) -> Iterable[Candidates]:
        """Takes the next messages."""
        batch, decoded = fed.batch, fed.batch.decoded
        producers = fed.tracker.state.producers(batch.connection, batch.row)
        of_stream = _REFUSABLE[decoded.opcode]
        sent = np.flatnonzero(of_stream & decoded.is_request)
        by_consumer = of_stream & decoded.is_answer & (producers == 1 - batch.direction)
        rows = np.flatnonzero(
            by_consumer & batch.vbucket.is_known & (decoded.specific != Status.SUCCESS)
        )
        if len(rows):
            opcode, status = decoded.opcode[rows], decoded.specific[rows]
            is_expected = (status == Status.KEY_ENOENT) & (opcode == Opcode.DCP_STREAM_END)
            is_expected |= (status == Status.ENOMEM) & (opcode == Opcode.DCP_CACHE_TRANSFER)
            is_no_key = (status == Status.KEY_ENOENT) & np.isin(
                opcode, (Opcode.DCP_COMMIT, Opcode.DCP_ABORT)
            )
            needs_v7 = np.isin(status, _NO_STREAM_BEFORE_V7) & ~is_no_key
            is_gone = np.isin(status, _NO_STREAM) | (
                needs_v7 & (fed.facts.values_at(V7_STATUSES, batch, rows) != ON)
            )
            before = SentMessages.joined([self._recent.rows, _sent(batch, sent)])
            rows, needs_v7, is_gone = (column[~is_expected] for column in (rows, needs_v7, is_gone))
            key_columns = (batch.connection, decoded.opcode, decoded.opaque, decoded.specific)
            for alike in Groups([column[rows] for column in key_columns]).values():
                self._refuse(
                    batch,
                    rows[alike],
                    before,
                    needs_v7=bool(needs_v7[alike[0]]),
                    is_gone=bool(is_gone[alike[0]]),
                    with_rows=fed.with_rows,
                )
        self._recent.add(_sent(batch, sent[-REACH:]))
        self._recent.drop(max(0, len(self._recent) - REACH))
        return ()

    def _refuse(
        self,
        batch: MessageBatch,
        rows: column_types.RowNumbers,
        before: SentMessages,
        *,
        needs_v7: bool,
        is_gone: bool,
        with_rows: bool,
    ) -> None:
        """Counts the answers of one key."""
        decoded, first = batch.decoded, int(rows[0])
        key = (
            int(batch.connection[first]),
            int(decoded.opcode[first]),
            int(decoded.opaque[first]),
            int(decoded.specific[first]),
        )
        refused = self._of.get(key)
        if refused is None:
            if len(self._of) >= MOST:
                return
            refused = self._of[key] = _Refused(int(batch.vbucket.values[first]), needs_v7, is_gone)
        for index in rows[: FIRST - len(refused.examples)].tolist():
            answer = place_of(batch, index)
            about, seqno, is_shared = _latest_message(
                before,
                key,
                answer.row,
                1 - int(batch.direction[index]),
                batch.request_row.value_at(index),
            )
            refused.examples.append((answer, about, seqno))
            refused.vbucket = None if is_shared else refused.vbucket
        refused.count += len(rows)
        if with_rows:
            refused.rows = np.concatenate((refused.rows, batch.row[rows]))
        refused.last = place_of(batch, int(rows[-1]))

    # -- what is known at the end

    @classmethod
    def joined(
        cls, readings: Sequence[Self], connections: Sequence[column_types.RowNumbers]
    ) -> Self:
        """Joins what is known of several readings, as in ``Follower``."""
        refusals = super().joined(readings, connections)
        refusals._of = PerConnection(
            sorted(refusals._of.items(), key=lambda item: item[1].examples[0][0])[:MOST]
        )
        return refusals

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields all occurrences. Refusing a faulty message is an effect of the fault."""
        context = finished.context
        alike: dict[tuple[int, int, int], list[_Key]] = defaultdict(list)
        for key in self._of:
            alike[key[1:]].append(key)
        for (connection, opcode, opaque, status), refused in self._of.items():
            link = context.by_number.get(connection)
            if link is None:
                continue
            fault = self._fault(
                context, refused, connection, alike[opcode, opaque, status], finished.faulty
            )
            if refused.is_gone and fault is None:
                continue  # what was under way when a stream ended
            if (
                refused.needs_v7
                and not refused.is_gone
                and context.sight.known_until_ns(link.number, 1 - context.producer(connection))
                < refused.examples[0][0].time_ns
            ):
                continue  # a setting of the consumer's may be in what was lost
            is_fatal = finished.is_whole and not refused.is_gone
            is_fatal &= fault is not None or opcode not in _ACKNOWLEDGED
            after_ns = _closed_after_ns(context, link, refused) if is_fatal else None
            producer = context.producer(connection)
            is_known = link.has_handshake and all(
                refused.examples[0][0].time_ns
                <= context.sight.known_until_ns(connection, direction)
                for direction in (0, 1)
            )
            refusal_text = f"answered with {status_name(status)}"
            if opcode in _ACKNOWLEDGED:
                refusal_text += f"; the {SIDES[producer]} takes any answer as an acknowledgement"
            elif after_ns is not None:
                refusal_text += (
                    f"; the {SIDES[link.closed_by]} {link.how_closed} the connection "
                    f"{duration(after_ns)} later, in frame {link.closed_frame}"
                )
            for index, (answer, about, seqno) in enumerate(refused.examples):
                upto = f" up to seqno {seqno}" if about is not None and seqno != _NO_SEQNO else ""
                yield Occurrence(
                    "consumer-refused",
                    f"{opcode_name(opcode)}{upto} {refusal_text}",
                    connection,
                    (answer, *([about] if about is not None else [])),
                    refused.vbucket,
                    cause=status_name(status).replace("_", "-"),
                    seqnos=(seqno,) if upto else (),
                    shared=f"{opcode_name(opcode)} {refusal_text}",
                    count=refused.count - len(refused.examples) + 1
                    if index == len(refused.examples) - 1
                    else 1,
                    last_time_ns=refused.last.time_ns if refused.last is not None else 0,
                    closes=connection if after_ns is not None else None,
                    effect_of=fault,
                    whose=SIDES[1 - producer] if is_known else "unknown",
                    next=None if is_known else _UNKNOWN,
                    rows=refused.rows,
                    severity="error" if fault is None else fault[1],
                )

    def _fault(
        self,
        context: Context,
        own_refused: _Refused,
        connection: int,
        alike: Iterable[_Key],
        faulty: Mapping[int, FaultKey],
    ) -> FaultKey | None:
        """Returns the fault of what was refused, also where a proxy passed it on, and passes the
        answer back; None without one.

        ``alike``: answers with the same opcode, opaque and status, on all connections.
        """
        producer = context.producer(connection)
        other_refusals = [self._of[key] for key in alike if context.producer(key[0]) != producer]
        for refused in (
            own_refused,
            *(
                other_refused
                for other_refused in other_refusals
                if other_refused.vbucket == own_refused.vbucket
            ),
        ):
            for _, about, _ in refused.examples:
                if about is not None and about.row in faulty:
                    return faulty[about.row]
        return None


def _sent(batch: MessageBatch, rows: column_types.RowNumbers) -> SentMessages:
    decoded, table = batch.decoded, SentMessages.zeros(len(rows))
    put_places(table.place, batch, rows)
    table.connection, table.direction = batch.connection[rows], batch.direction[rows]
    codes = (decoded.opcode, decoded.opaque, decoded.specific)
    table.opcode, table.opaque, table.vbucket = (column[rows].astype(np.int64) for column in codes)
    seqnos = np.full(len(rows), _NO_SEQNO, dtype=np.uint64)
    for name in _SEQNOS:
        column = batch.column(name).take(rows)
        seqnos = np.where(
            (seqnos == _NO_SEQNO) & column.is_known, column.values.astype(np.uint64), seqnos
        )
    table.seqno = biased(seqnos)
    return table


def _latest_message(
    before: SentMessages, key: _Key, row: int, direction: int, request: int | None
) -> tuple[MessagePlace | None, int, bool]:
    """Returns the latest message before a row that an answer can be about, its seqno, and whether
    several vbuckets are possible.

    ``request``: the row of the message, where it is known.
    """
    connection, opcode, opaque, _ = key
    end = int(np.searchsorted(before.place.row, row))
    sent = before[max(0, end - REACH) : end]
    is_it = (sent.connection == connection) & (sent.opcode == opcode) & (sent.opaque == opaque)
    is_it &= sent.direction == direction
    alike = sent[is_it if request is None else is_it & (sent.place.row == request)]
    if not len(alike):
        return None, _NO_SEQNO, False
    if len(unique(alike.vbucket)) > 1:
        return None, _NO_SEQNO, True
    return place_at(connection, direction, alike[-1].place), plain(alike[-1].seqno), False


def _closed_after_ns(context: Context, link: TcpConnection, refused: _Refused) -> int | None:
    """Returns how long after one of the answers the connection was closed by a side that had
    nothing more to say then; None if it was not, or too late to be about them.
    """
    if link.closed not in ("fin", "rst") or link.closed_by < 0:
        return None
    connection_row = context.tracker.state.connections[link.number]
    slowest = connection_row.slowest
    patience_ns = max(PATIENCE_NS, 10 * slowest)
    on_its_way_ns = slowest if link.closed_by == context.producer(link.number) else 0
    answers = [
        answer_place.time_ns
        for answer_place in (*(answer for answer, _, _ in refused.examples), refused.last)
        if answer_place is not None
    ]
    after = [
        link.closed_ns - time_ns
        for time_ns in answers
        if connection_row.time[link.closed_by] <= time_ns + on_its_way_ns
    ]
    return max((ns for ns in after if 0 <= ns <= patience_ns), default=None)


RULE_SET = RuleSet(RULES, watcher=Refusals)
