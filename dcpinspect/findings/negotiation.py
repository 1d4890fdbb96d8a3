"""Rules about what a connection has not negotiated: messages and layouts that it did not ask for,
and the reverse.

What was negotiated is on, off or unknown, for each connection and from row to row. A rule fires on
what is known. Nothing is known at first if the capture begins inside a connection. No control is
known behind a hole in which another one may have been asked for. An answer that was not captured
leaves its control unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.context import ALL, Context
from dcpinspect.findings.finding import Candidates
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import RuleInput, RuleSet, Watcher
from dcpinspect.findings.session_facts import (
    DELETE_TIMES,
    EXPIRIES,
    MARKER_2_2,
    METADATA,
    OFF,
    ON,
    OUT_OF_ORDER,
    PROTOTYPE,
    STREAM_IDS,
    SYNC_WRITES,
    UNORDERED,
    V7_STATUSES,
    SessionFacts,
)
from dcpinspect.findings.wire_checks import faulty_frames, reserved
from dcpinspect.protocol.column_types import numbers_at
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.session import CollectionsState
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from dcpinspect.streams.visibility import BEHIND
from dcpinspect.tables.messages import MessageBatch

FAULT = (
    "report this message with the producer's version; a consumer can ask for what it needs, or "
    "has to pass over such messages"
)
ASK = (
    "report it with the versions of both sides; a consumer has to use stream-ids in all messages "
    "of a connection, or in none"
)
OWN_FAULT = (
    "report this message with the producer's version; it has to ask for what it sends when it opens "
    "the connection, and a proxy has to open both of its connections alike"
)
IN_CLEAR = "credentials-in-clear"

RULES = rules(
    f"""
    sid-missing session error sender
        fires: stream-ids are on, and a message of a stream, or a close, has none
        unless: answers; prepares, commits and aborts, which never have a stream-id; stream-ids left
            out of the header; broken framing extras; unknown settings
        next: {ASK}
        cost: unasked
        silences: message-without-stream message-after-stream-end opaque-mismatch
    sid-unexpected session error sender
        fires: a message has a stream-id, but stream-ids were never enabled
        unless: unknown settings
        next: {ASK}
        cost: unasked
        silences: message-without-stream message-after-stream-end opaque-mismatch
    marker-version-not-negotiated session warning producer
        fires: a V2.2 marker without max_marker_version 2.2, or a V2.0 marker without
            max_marker_version and without enable_sync_writes
        unless: unknown settings
        next: {FAULT}
        of_client: {OWN_FAULT}
        cost: unasked
    oso-not-negotiated session warning producer
        fires: an OSO snapshot without enable_out_of_order_snapshots
        unless: unknown settings
        next: {FAULT}
        of_client: {OWN_FAULT}
        cost: unasked
    seqno-advanced-without-collections session warning producer
        fires: SeqnoAdvanced, or a system event, on a connection without collections
        unless: an unknown HELLO; system events of the collections of 5.0
        next: {FAULT}
        of_client: {OWN_FAULT}
        cost: unasked
    expiry-not-negotiated session warning producer
        fires: an expiration without enable_expiry_opcode
        unless: expirations of the first generations; unknown settings
        next: {FAULT}
        of_client: {OWN_FAULT}
        cost: unasked
    delete-times-mismatch session warning producer
        fires: a deletion has its time although the open did not ask for it, or has no time although
            the open did
        unless: enable_expiry_opcode, which switched times on in 6.5 and 6.6; an unknown open
        next: report this message with the producer's version; a consumer can tell the two forms apart
            by the length of the extras
        of_client: {OWN_FAULT}
        cost: unasked
        fields: delete_time
    prepare-not-negotiated session error producer
        fires: a prepare, commit or abort without enable_sync_writes
        unless: unknown settings
        next: {FAULT}
        of_client: {OWN_FAULT}
        cost: unasked
    status-v7 session note producer
        fires: status 0x0a or 0x0b without v7_dcp_status_codes
        unless: unknown settings
        next: operators have nothing to do; a consumer has to read 0x0a as 0x01, and 0x0b as 0x02
    unordered-with-dcp session warning producer
        fires: DCP is opened on a connection to which UnorderedExecution was granted
        unless: an unknown HELLO
        next: leave UnorderedExecution out of HELLO, in the consumer's settings or in its code; the
            server refuses such an open
        cost: connection, opened DCP without an order of answers, opened DCP without an order of
            answers
    {IN_CLEAR} session note client
        fires: a password is sent with SASL PLAIN on a connection that is not encrypted
        unless: connections inside TLS, which a key log decrypts
        next: protect this capture, which has the password; a consumer without TLS should use
            it, or SCRAM
        fields: value
    """
)

ALSO = "reserved-nonzero"
IDS = frozenset(rule.id for rule in RULES) - {IN_CLEAR} | {ALSO}
"""Rules that depend on what the consumer asked for."""

_FRAMED = opcodes_with(Trait.STREAM_ID)
_DURABLE = (Opcode.DCP_PREPARE, Opcode.DCP_COMMIT, Opcode.DCP_ABORT)
_OF_DCP = opcodes_with(Trait.DCP)
_EXTRAS_WITH_TIME, _EXTRAS_WITHOUT_TIME = 21, 18
_EXTRAS_OF_EXPIRY = 20
"""Expirations of earlier generations are others, and nothing would enable them."""
_EVENT_EXTRAS = 13
"""System events of the prototype of 5.0 have 12 bytes, and a flag of the open enables them."""
_MARKERS = {
    number: layout.generation
    for number, layout in enumerate(LAYOUTS)
    if layout.opcode == Opcode.DCP_SNAPSHOT_MARKER
    and layout.side == "request"
    and layout.generation.startswith("v2.")
}


_Words = Callable[[int], str] | str
_Condition = tuple[int, int, str, BoolArray, _Words]
"""A fact, the value that it must not have, and the rule about messages of a kind that need another
one: a mask of these messages, and what to say of one.
"""


class Negotiation(Watcher):
    """Compares messages with what their connection has negotiated."""

    def watch(self, fed: RuleInput) -> Iterator[Candidates]:
        """Returns messages that were not negotiated."""
        batch, facts, decoded = fed.batch, fed.facts, fed.batch.decoded
        sent = fed.tracker.state.producers(batch.connection, batch.row) == batch.direction
        of_dcp = _OF_DCP[decoded.opcode]
        requests = of_dcp & decoded.is_request & _has_head(batch)
        yield from _without(batch, facts, _of_requests(batch, requests, sent))
        yield from _deletions(batch, facts, requests & sent)
        conditions = _reserved(batch, requests & sent & decoded.fits)
        conditions += _of_any(batch, of_dcp & decoded.is_answer)
        yield from _without(batch, facts, conditions)
        yield from _markers(batch, facts, requests & sent)
        is_off = requests & sent & (decoded.collections == CollectionsState.OFF)
        events = (decoded.opcode == Opcode.DCP_SYSTEM_EVENT) & (
            decoded.extras_size == _EVENT_EXTRAS
        )
        for mask, name in (
            (decoded.opcode == Opcode.DCP_SEQNO_ADVANCED, "SeqnoAdvanced"),
            (events, "a system event"),
        ):
            yield Candidates(
                "seqno-advanced-without-collections",
                np.flatnonzero(is_off & mask),
                f"{name} without collections",
            )
        asks = decoded.is_request & (decoded.opcode == Opcode.SASL_AUTH)
        in_clear = [row for row in np.flatnonzero(asks).tolist() if _is_plain(batch, row)]
        yield Candidates(
            IN_CLEAR,
            np.array(in_clear, dtype=np.int64),
            "a password is in clear (SASL PLAIN)",
        )

    def reconsider(self, context: Context, collector: Collector) -> None:
        """Drops findings near holes. A hole is only known once a message of its direction follows;
        the other direction was judged before that. What came out of TLS was not sent in clear.
        """
        collector.doubt(IDS, _doubtful(context.tracker, context.links))
        decrypted = {link.number: [(-1, ALL)] for link in context.links if link.is_decrypted}
        collector.doubt([IN_CLEAR], decrypted)


def _without(
    batch: MessageBatch, facts: SessionFacts, conditions: list[_Condition]
) -> Iterator[Candidates]:
    """Yields messages for which a fact has the value that it must not have."""
    for fact, value, rule, mask, words in conditions:
        rows = np.flatnonzero(mask)
        if len(rows):
            rows = rows[facts.values_at(fact, batch, rows) == value]
        yield Candidates(rule, rows, words)


def _of_requests(batch: MessageBatch, requests: BoolArray, sent: BoolArray) -> list[_Condition]:
    """Returns what requests of DCP need; ``sent``: messages of producers."""
    decoded, code, name = batch.decoded, batch.decoded.opcode, batch.name_of
    has_sid = decoded.sid.is_known
    framed = requests & ((sent & _FRAMED[code]) | (code == Opcode.DCP_CLOSE_STREAM))
    missing = framed & ~has_sid & ~decoded.has_undeclared_sid
    # what they should have held is not known
    missing[faulty_frames(batch, missing).get("error", [])] = False
    sent = requests & sent
    expirations = (code == Opcode.DCP_EXPIRATION) & (decoded.extras_size == _EXTRAS_OF_EXPIRY)
    return [
        (
            *(STREAM_IDS, ON, "sid-missing", missing),
            lambda row: f"{name(row)} without the stream-id negotiated",
        ),
        (
            *(STREAM_IDS, OFF, "sid-unexpected", framed & has_sid),
            lambda row: f"{name(row)} carries sid {decoded.sid.value_at(row)}, never enabled",
        ),
        (
            *(OUT_OF_ORDER, OFF, "oso-not-negotiated", sent & (code == Opcode.DCP_OSO_SNAPSHOT)),
            "an OSO snapshot, never enabled",
        ),
        (
            *(EXPIRIES, OFF, "expiry-not-negotiated", sent & expirations),
            "expiration, never enabled",
        ),
        (
            *(SYNC_WRITES, OFF, "prepare-not-negotiated", sent & np.isin(code, _DURABLE)),
            lambda row: f"{name(row)} without sync writes",
        ),
    ]


def _reserved(batch: MessageBatch, sent: BoolArray) -> list[_Condition]:
    """Returns fields that have a meaning only by settings of old servers."""
    decoded, size = batch.decoded, batch.column("nmeta")
    rows = np.flatnonzero(
        sent & (decoded.opcode == Opcode.DCP_DELETION) & (decoded.extras_size == _EXTRAS_WITH_TIME)
    )
    unused = np.zeros(len(batch), dtype=np.uint64)
    unused[rows] = numbers_at(batch.data, decoded.extras_at[rows] + _EXTRAS_WITH_TIME - 1, 1)
    return [
        (
            *(METADATA, OFF, ALSO, sent & size.is_known & (size.values > 0)),
            lambda row: reserved(batch, row, "nmeta", size.values[row]),
        ),
        (
            *(PROTOTYPE, OFF, ALSO, unused > 0),
            lambda row: reserved(batch, row, "unused", unused[row]),
        ),
    ]


def _of_any(batch: MessageBatch, answers: BoolArray) -> list[_Condition]:
    """Returns what answers of DCP and opens need."""
    decoded = batch.decoded
    is_v7 = np.isin(decoded.specific, (Status.DCP_STREAM_NOT_FOUND, Status.OPAQUE_NO_MATCH))
    opens = decoded.is_request & (decoded.opcode == Opcode.DCP_OPEN)
    return [
        (
            *(V7_STATUSES, OFF, "status-v7", answers & is_v7),
            "a status of version 7, but v7_dcp_status_codes was never enabled",
        ),
        (UNORDERED, ON, "unordered-with-dcp", opens, "DCP on an unordered connection"),
    ]


def _deletions(batch: MessageBatch, facts: SessionFacts, sent: BoolArray) -> Iterator[Candidates]:
    deletions = sent & (batch.decoded.opcode == Opcode.DCP_DELETION)
    for extras, requested, words in (
        (_EXTRAS_WITH_TIME, OFF, "a deletion has a time, which the open did not ask for"),
        (_EXTRAS_WITHOUT_TIME, ON, "a deletion has no time, which the open asked for"),
    ):
        rows = np.flatnonzero(deletions & (batch.decoded.extras_size == extras))
        rows = rows[
            (facts.values_at(DELETE_TIMES, batch, rows) == requested)
            & (facts.values_at(EXPIRIES, batch, rows) == OFF)
        ]
        yield Candidates("delete-times-mismatch", rows, words)


def _markers(batch: MessageBatch, facts: SessionFacts, sent: BoolArray) -> Iterator[Candidates]:
    layout = batch.decoded.layout
    rows = np.flatnonzero(sent & batch.decoded.fits & np.isin(layout, list(_MARKERS)))
    rows = rows[~np.isin(rows, batch.missing.row)]
    if not len(rows):
        return
    newest = [number for number, name in _MARKERS.items() if name.startswith("v2.2")]
    is_off = facts.values_at(MARKER_2_2, batch, rows) == OFF
    has_no_writes = facts.values_at(SYNC_WRITES, batch, rows) == OFF
    yield Candidates(
        "marker-version-not-negotiated",
        rows[is_off & (np.isin(layout[rows], newest) | has_no_writes)],
        lambda row: f"marker {_MARKERS[int(layout[row])]} not negotiated",
    )


def _doubtful(tracker: Tracker, links: Iterable[TcpConnection]) -> dict[int, list[tuple[int, int]]]:
    """Returns, by connection, spans of rows (both ends excluded) in which the consumer may have
    asked for something that was not captured.
    """
    state = tracker.state
    doubtful_spans: dict[int, list[tuple[int, int]]] = {}
    for loss in state.known_tables.losses:
        connection = loss.connection
        if loss.direction != state.connections.producer[connection]:
            doubtful_spans.setdefault(connection, []).append((loss.before_row, loss.after_row))
    for link in links:
        row = state.connections[link.number]
        for direction in (0, 1):
            if link.lost_at_end[direction] not in (None, BEHIND) and direction != row.producer:
                doubtful_spans.setdefault(link.number, []).append((row.last_row[direction], ALL))
    return doubtful_spans


def _has_head(batch: MessageBatch) -> BoolArray:
    """Returns a mask of messages whose header, framing extras and extras were captured."""
    decoded, missing = batch.decoded, batch.missing
    mask = np.ones(len(batch), dtype=np.bool_)
    needed = HEADER_SIZE + decoded.framing_size[missing.row] + decoded.extras_size[missing.row]
    mask[missing.row[missing.start < needed]] = False
    return mask


def _is_plain(batch: MessageBatch, row: int) -> bool:
    start, size = int(batch.decoded.key.start[row]), int(batch.decoded.key.size[row])
    return batch.data[start : start + size].tobytes() == b"PLAIN"


RULE_SET = RuleSet(RULES, watcher=Negotiation, also=(ALSO,))
