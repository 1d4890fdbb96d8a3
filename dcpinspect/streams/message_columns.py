"""Messages as the kernel reads them: only messages that matter to streams, with what each says as
whole numbers.
"""

from __future__ import annotations

import functools
from struct import Struct

import numpy as np

from dcpinspect.arrays import Array, BoolArray, unique
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.decode import by_layout
from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import record_codes as k
from dcpinspect.streams import records as r
from dcpinspect.streams.conversation import Conversation
from dcpinspect.streams.session import Fact, put_places, readable, value_bytes
from dcpinspect.streams.state import Details, biased
from dcpinspect.streams.words import SNAPSHOT_LAYOUTS
from dcpinspect.tables.messages import MessageBatch

_REQUESTS = np.zeros(256, dtype=np.int64)
for _role, _kind in {
    Trait.COUNTED: k.CACHE,
    Trait.SEQNO: k.SEQNO_ADVANCED,
    Trait.EVENT: k.EVENT,
    Trait.OPENS: k.REQUEST,
    Trait.ENDS: k.END,
}.items():  # the last fitting role counts; what is only counted is handled like a cache transfer
    _REQUESTS[opcodes_with(_role)] = _kind
for _opcode, _kind in {
    Opcode.DCP_CONTROL: k.CONTROL,
    Opcode.DCP_CLOSE_STREAM: k.CLOSE,
    Opcode.DCP_BUFFER_ACKNOWLEDGEMENT: k.ACK,
    Opcode.DCP_NOOP: k.NOOP,
    Opcode.DCP_FLUSH: k.FLUSH,
    Opcode.DCP_SEQNO_ACKNOWLEDGED: k.SEQNO_ACK,
    Opcode.DCP_SNAPSHOT_MARKER: k.MARKER,
    Opcode.DCP_SYSTEM_EVENT: k.SYSTEM_EVENT,
    Opcode.DCP_PREPARE: k.PREPARE,
    Opcode.DCP_COMMIT: k.COMMIT,
    Opcode.DCP_ABORT: k.ABORT,
    Opcode.DCP_OSO_SNAPSHOT: k.OSO,
    Opcode.DCP_CACHE_TRANSFER_END: k.CACHE_END,
    Opcode.DCP_SET_VBUCKET_STATE: k.SET_STATE,
}.items():
    _REQUESTS[_opcode] = _kind
_ANSWERS = np.zeros(256, dtype=np.int64)
_ANSWERS[opcodes_with(Trait.EVENT)] = k.REFUSAL
_ANSWERS[Opcode.DCP_STREAM_REQ] = k.ANSWER
_ANSWERS[Opcode.DCP_CLOSE_STREAM] = k.CLOSE_ANSWER
_ANSWERS[Opcode.DCP_NOOP] = k.NOOP_ANSWER
_ANSWERS[Opcode.DCP_SNAPSHOT_MARKER] = k.MARKER_ANSWER

_LAYOUT_WORDS = {word: number for number, word in enumerate(SNAPSHOT_LAYOUTS)} | {
    "v2.2-short": SNAPSHOT_LAYOUTS.index("v2.2")
}
_MARKER_LAYOUTS = by_layout(lambda layout: _LAYOUT_WORDS.get(layout.generation, 0), without=0)
_UPR_REQUESTS = by_layout(lambda layout: layout.generation == "upr")
_MARKER_SEQNOS = ("max_visible_seqno", "high_completed_seqno", "purge_seqno", "high_prepared_seqno")
PREPARE_SURPLUS = 2
"""Bytes that both ends of a connection between nodes count for a prepare in addition to its size.
"""


_SEQNO_SIZE = 8


def _seqno_end(layout: Layout) -> int:
    """Returns the bytes of extras up to the seqno's end; 8, as mostly, without a seqno."""
    return (
        next(
            (field.offset for field in layout.extras if "by_seqno" in (field.name, field.alias)), 0
        )
        + _SEQNO_SIZE
    )


class MessageColumns:
    """Makes the kernel's tables of a batch; remembers the stream-ids of close requests until these
    are answered.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._closing: dict[int, int] = {}
        self._room = r.Messages.zeros(0)

    def tables(self, batch: MessageBatch) -> tuple[r.Messages, Details]:
        """Returns the messages of a batch, and the details that they carry."""
        facts = self._conversation.feed(batch)
        kind, is_headless = kinds(batch)
        self._note_unread(batch, kind)
        kind[[row for row, _, _ in facts]] = k.FACT
        rows = np.flatnonzero(kind > 0)
        kind = kind[rows]
        losses = batch.losses
        lost_before = np.sort(np.concatenate((losses.before, is_headless)), kind="stable")
        index: RowNumbers = np.arange(len(rows)) + np.searchsorted(lost_before, rows, side="right")
        messages = self._zeros(len(rows) + len(lost_before))
        self._fill(batch, rows, kind, index, messages)
        stream_messages = StreamMessages(batch, rows, kind, index)
        details = Details(
            requests=self._requests(stream_messages, messages),
            answers=self._answers(stream_messages, messages),
            markers=_markers(stream_messages, messages),
            holes=_holes(batch, lost_before, rows, is_headless, messages),
            extras=self._extras(stream_messages, messages, facts),
        )
        return messages, details

    def _zeros(self, size: int) -> r.Messages:
        """Returns an empty table for so many messages. Its memory is that of the last batch's
        table, which nobody reads any more.
        """
        if len(self._room) < size:
            self._room = r.Messages.zeros(size)
        else:
            self._room.array[:size].view(np.int64)[:] = 0
        return self._room[:size]

    def _note_unread(self, batch: MessageBatch, kind: RowNumbers) -> None:
        """Remembers the stream requests whose bytes cannot be read."""
        decoded = batch.decoded
        is_asked = decoded.is_request & (decoded.opcode == Opcode.DCP_STREAM_REQ)
        for row in np.flatnonzero(
            is_asked & ((kind == 0) | (kind == k.UNREADABLE_REQUEST))
        ).tolist():
            session = self._conversation.session_of(int(batch.connection[row]))
            session.unread_requests.append((int(decoded.specific[row]), int(batch.time_ns[row])))

    def _fill(
        self,
        batch: MessageBatch,
        rows: RowNumbers,
        kind: RowNumbers,
        index: RowNumbers,
        messages: r.Messages,
    ) -> None:
        decoded, numbers = batch.decoded, batch.decoded.numbers
        vbucket = np.where(decoded.is_response, batch.vbucket.values, decoded.specific)[
            rows
        ].astype(np.int64)
        vbucket[decoded.is_response[rows] & ~batch.vbucket.is_known[rows]] = -1
        sid = np.where(decoded.sid.is_known, decoded.sid.values.astype(np.int64), -1)[rows]
        prepared = decoded.opcode[rows] == Opcode.DCP_PREPARE
        seqno = biased(batch.column("by_seqno").values)[rows]
        acknowledged = kind == k.SEQNO_ACK
        if acknowledged.any():
            seqno[acknowledged] = biased(numbers["prepared_seqno"].values[rows[acknowledged]])
        for close in np.flatnonzero((kind == k.CLOSE) | (kind == k.CLOSE_ANSWER)).tolist():
            row = int(rows[close])
            if kind[close] == k.CLOSE:
                if sid[close] >= 0:
                    self._closing[int(batch.row[row])] = int(sid[close])
            else:
                sid[close] = self._closing.pop(int(batch.request_row.values[row]), -1)
        # without losses, messages stand one after the other
        put = index if len(messages) > len(rows) else slice(None)
        messages.kind[put] = kind
        messages.connection[put] = batch.connection[rows]
        messages.direction[put] = batch.direction[rows]
        messages.vbucket[put] = vbucket
        messages.sid[put] = sid
        messages.opaque[put] = decoded.opaque[rows]
        messages.seqno[put] = seqno
        messages.size[put] = np.where(
            kind >= k.END, batch.length[rows] + PREPARE_SURPLUS * prepared, 0
        )
        put_places(messages.place, batch, rows, put)

    def _requests(self, stream_messages: StreamMessages, messages: r.Messages) -> r.Requests:
        """Returns what the stream requests ask for."""
        indices, request_rows = stream_messages.of_kinds(k.REQUEST, k.UNREADABLE_REQUEST)
        table = r.Requests.zeros(len(indices))
        messages.detail[stream_messages.at[indices]] = np.arange(len(indices))
        if len(indices):
            batch = stream_messages.batch
            table.start = biased(batch.column("start_seqno").values[request_rows])
            table.end = biased(batch.column("end_seqno").values[request_rows])
            table.snapshot_start = biased(batch.column("snapshot_start_seqno").values[request_rows])
            table.snapshot_end = biased(batch.column("snapshot_end_seqno").values[request_rows])
            table.uuid = batch.column("vbucket_uuid").values[request_rows].view(np.int64)
            table.flags = batch.column("flags").values[request_rows]
            table.is_captured[:] = 1
            table.has_range = ~_UPR_REQUESTS[batch.decoded.layout[request_rows]]
            table.filter = _filters(batch, request_rows, self._conversation)
            messages.sid[stream_messages.at[indices[table.filter == r.CUT_VALUE]]] = r.CUT_VALUE
            table[stream_messages.kind[indices] == k.UNREADABLE_REQUEST] = _UNREAD
        return table

    def _answers(self, stream_messages: StreamMessages, messages: r.Messages) -> r.StreamAnswers:
        """Returns the answers to stream requests."""
        indices, answered = stream_messages.of_kinds(k.ANSWER)
        table = r.StreamAnswers.zeros(len(indices))
        messages.detail[stream_messages.at[indices]] = np.arange(len(indices))
        if len(indices):
            batch = stream_messages.batch
            status = batch.decoded.specific[answered].astype(np.int64)
            table.status = status
            rollback = batch.column("rollback_seqno").take(answered)
            has_rollback = (
                (status == Status.ROLLBACK) & readable(batch)[answered] & rollback.is_known
            )
            table.rollback = np.where(has_rollback, biased(rollback.values), r.UNREAD_SEQNO)
            table.request = batch.request_row.values[answered]
            table.rtt = np.where(
                batch.request_row.values[answered] >= 0, batch.rtt_ns.values[answered], 0
            )
            granted = (status == 0) & readable(batch)[answered]
            table.log[:] = -1
            table.log[granted] = _failover_logs(batch, answered[granted], self._conversation)
        return table

    def _extras(
        self, stream_messages: StreamMessages, messages: r.Messages, facts: list[Fact]
    ) -> r.MessageExtras:
        """Returns what messages of other kinds carry."""
        indices, rows = stream_messages.of_kinds(*_WITH_EXTRAS)
        table = r.MessageExtras.zeros(len(indices))
        messages.detail[stream_messages.at[indices]] = np.arange(len(indices))
        if not len(indices):
            return table
        kind, decoded = stream_messages.kind[indices], stream_messages.batch.decoded
        for of_kind, column, name in (
            (k.ACK, table.ack_bytes, "ack_bytes"),
            (k.OSO, table.oso_flags, "flags"),
        ):
            if (kind == of_kind).any():
                column[kind == of_kind] = decoded.numbers[name].values[rows[kind == of_kind]]
        table.end_reason[kind == k.END] = _reasons(stream_messages.batch, rows[kind == k.END])
        is_cached = (kind == k.CACHE) & (decoded.opcode[rows] == Opcode.DCP_CACHE_TRANSFER)
        cached = np.flatnonzero(is_cached & readable(stream_messages.batch)[rows])
        if len(cached):
            facts_of_each = [cached_in(stream_messages.batch, row) for row in rows[cached].tolist()]
            table.cached_items[cached], seqno = np.array(facts_of_each, dtype=np.uint64).T
            messages.seqno[stream_messages.at[indices[cached]]] = biased(seqno)
        table.would_be[kind == k.UNREADABLE] = _REQUESTS[decoded.opcode[rows[kind == k.UNREADABLE]]]
        table.status[kind == k.CLOSE_ANSWER] = decoded.specific[rows[kind == k.CLOSE_ANSWER]]
        fact_indices = np.flatnonzero(kind == k.FACT)
        # if a message has several facts, the last one counts
        last = {row: (setting, value) for row, setting, value in facts}
        for fact_index, row in zip(fact_indices.tolist(), rows[fact_indices].tolist(), strict=True):
            table.setting[fact_index], table.value[fact_index] = last[row]
        return table


@dataclass(frozen=True, slots=True)
class StreamMessages:
    """The messages of a batch that concern streams."""

    batch: MessageBatch
    rows: RowNumbers
    """Rows of the messages in the batch."""
    kind: RowNumbers
    at: RowNumbers
    """Numbers of the messages in the kernel's table, which has holes between them."""

    def of_kinds(self, *kinds: int) -> tuple[RowNumbers, RowNumbers]:
        """Returns (places of the messages of these kinds, their rows in the batch)."""
        indices = np.flatnonzero(
            _among(*kinds)[self.kind] if len(kinds) > 1 else self.kind == kinds[0]
        )
        return indices, self.rows[indices]


def kinds_by_header(opcode: Array, is_response: BoolArray, status: Array) -> RowNumbers:
    """Returns the kinds of messages whose bytes are not at hand; ``status``: of the responses."""
    kind: RowNumbers = np.where(is_response, _ANSWERS[opcode], _REQUESTS[opcode])
    kind[(kind == k.REFUSAL) & (status == Status.SUCCESS)] = 0
    kind[(kind == k.MARKER_ANSWER) & (status != Status.SUCCESS)] = k.MARKER_REFUSAL
    return kind


def kinds(batch: MessageBatch) -> tuple[RowNumbers, RowNumbers]:
    """Returns (kind of every message, rows of those captured too partly to tell their stream)."""
    decoded = batch.decoded
    kind = kinds_by_header(decoded.opcode, decoded.is_response, decoded.specific)
    kind[decoded.is_server | ~decoded.has_magic] = 0
    for name, kinds in _NEEDED.items():
        is_wanted = _among(*kinds)[kind]
        lacks = is_wanted & ~batch.column(name).is_known
        if lacks.any():
            kind[lacks] = _UNREADABLE[kind[lacks]]
    markers = (kind == k.MARKER) & ~decoded.extras_fit
    markers |= (
        (kind == k.MARKER)
        & ~batch.column("start_seqno").is_known
        & (_MARKER_LAYOUTS[decoded.layout] != k.UPR_LAYOUT)
    )
    kind[markers] = k.UNREADABLE
    missing = batch.missing
    if not len(missing.row):
        return kind, np.empty(0, dtype=np.int64)
    framing_end = HEADER_SIZE + decoded.framing_size[missing.row]
    extras_end = framing_end + decoded.extras_size[missing.row]
    is_v2 = (decoded.opcode[missing.row] == Opcode.DCP_SNAPSHOT_MARKER) & (
        decoded.value.size[missing.row] > 0
    )
    needed = np.where(is_v2, extras_end + _RANGE_SIZE, extras_end)
    needed = np.where(
        np.isin(kind[missing.row], _ONLY_SEQNO),
        framing_end + _SEQNO_ENDS[decoded.layout[missing.row]],
        needed,
    )
    hit = unique(missing.row[missing.start < needed])
    headless = unique(missing.row[missing.start < framing_end])
    hit = hit[kind[hit] > 0]
    kind[hit] = _UNREADABLE[kind[hit]]
    is_producers = kind[headless] >= k.END
    kind[headless] = 0
    return kind, headless[is_producers]


_ONLY_SEQNO = np.array([k.EVENT, k.PREPARE])
"""Kinds of messages of whose extras streams only need the seqno."""
_SEQNO_ENDS = by_layout(_seqno_end, without=_SEQNO_SIZE)
_RANGE_SIZE = 20
"""Bytes of a newer marker's value that hold its range and type."""
_UNREADABLE = np.where(np.arange(k.KINDS) >= k.END, k.UNREADABLE, 0)
"""The kind that a message of each kind gets if its extras cannot be read; 0 if streams can ignore
such a message.
"""
_UNREADABLE[[k.ACK, k.UNREADABLE_ACK]] = k.UNREADABLE_ACK
_UNREADABLE[[k.REQUEST, k.UNREADABLE_REQUEST]] = k.UNREADABLE_REQUEST
_WITH_EXTRAS = (k.FACT, k.CLOSE_ANSWER, k.CACHE, k.ACK, k.END, k.OSO, k.UNREADABLE)
_UNREAD = r.Requests.reset(1)
for _column_of in (_UNREAD.start, _UNREAD.end, _UNREAD.snapshot_start, _UNREAD.snapshot_end):
    _column_of[:] = r.LEAST
_UNREAD.filter[:] = r.CUT_VALUE
"""The request that stands for one of which only the header was captured."""
_NEEDED = {
    "by_seqno": (*range(k.EVENT, k.SEQNO_ADVANCED + 1),),
    "start_seqno": (k.REQUEST,),
    "ack_bytes": (k.ACK,),
    "prepared_seqno": (k.SEQNO_ACK,),
    "flags": (k.OSO,),
}


@functools.cache
def _among(*kinds: int) -> BoolArray:
    """Returns a mask over all kinds: True for these. Looking a small batch up in it takes a
    microsecond, ``np.isin`` 85.
    """
    return np.isin(np.arange(k.KINDS), kinds)


_CACHED = Struct(">8xQ8xI8xH2x")
"""Of a record of a cache transfer: by_seqno, bytes of its value and of its key."""


def cached_in(batch: MessageBatch, row: int) -> tuple[int, int]:
    """Returns the number of items of a cache transfer, and their greatest seqno. One step an item."""
    start, size = int(batch.decoded.value.start[row]), int(batch.decoded.value.size[row])
    records = batch.data[start : start + size].tobytes()
    offset = count = greatest = 0
    while offset + _CACHED.size <= size:
        seqno, value_size, key_size = _CACHED.unpack_from(records, offset)
        count, greatest = count + 1, max(greatest, seqno)
        offset += _CACHED.size + value_size + key_size
    return count, greatest


def _reasons(batch: MessageBatch, rows: RowNumbers) -> RowNumbers:
    """Returns why streams end, for each row; -1 if unknown."""
    reason = batch.column("end_reason").take(rows)
    return np.where(reason.is_known, reason.values.astype(np.int64), -1)


def _markers(stream_messages: StreamMessages, messages: r.Messages) -> r.Markers:
    """Returns what the snapshot markers say."""
    indices, marked = stream_messages.of_kinds(k.MARKER)
    table = r.Markers.zeros(len(indices))
    messages.detail[stream_messages.at[indices]] = np.arange(len(indices))
    if len(indices):
        batch = stream_messages.batch
        table.start = biased(batch.column("start_seqno").values[marked])
        table.end = biased(batch.column("end_seqno").values[marked])
        table.flags = batch.column("snapshot_type").values[marked].astype(np.int64)
        table.layout = _MARKER_LAYOUTS[batch.decoded.layout[marked]]
        seqnos = table.seqnos
        columns = (seqnos.max_visible, seqnos.high_completed, seqnos.purge, seqnos.high_prepared)
        for bit, (name, values) in enumerate(zip(_MARKER_SEQNOS, columns, strict=True)):
            column = batch.column(name).take(marked)
            if column.is_known.any():
                values[:] = biased(column.values)
                seqnos.present |= column.is_known.astype(np.int64) << bit
    return table


def _holes(
    batch: MessageBatch,
    lost_before: RowNumbers,
    rows: RowNumbers,
    headless: RowNumbers,
    messages: r.Messages,
) -> r.CaptureHoles:
    """Returns unreadable bytes as holes, each placed before the message that follows it."""
    indices: RowNumbers = np.arange(len(lost_before)) + np.searchsorted(
        rows, lost_before, side="left"
    )
    losses = batch.losses
    connection = np.concatenate((losses.connection, batch.connection[headless]))
    direction = np.concatenate((losses.direction, batch.direction[headless]))
    start = np.concatenate((losses.start, batch.stream_offset[headless]))
    end = np.concatenate((losses.end, (batch.stream_offset + batch.length)[headless]))
    order = np.argsort(np.concatenate((losses.before, headless)), kind="stable")
    messages.kind[indices] = k.LOST
    messages.connection[indices] = connection[order]
    messages.direction[indices] = direction[order]
    messages.detail[indices] = np.arange(len(indices))
    messages.place.row[indices] = batch.row[lost_before]
    messages.place.frame[indices] = (batch.file[lost_before] << r.FILE_SHIFT) | batch.frame[
        lost_before
    ]
    messages.place.time[indices] = batch.time_ns[lost_before]
    table = r.CaptureHoles.zeros(len(indices))
    table.start, table.end = start[order], end[order]
    return table


def _filters(batch: MessageBatch, rows: RowNumbers, conversation: Conversation) -> RowNumbers:
    """Number of the value of each of these stream requests; -1 for none, -2 where the capture lacks
    part of the value.
    """
    has_value = batch.decoded.value.size[rows] > 0
    # the part of the message before the value was captured
    is_cut = np.isin(rows, batch.missing.row) & has_value
    numbers: RowNumbers = np.where(is_cut, r.CUT_VALUE, -1)
    for request in np.flatnonzero(has_value & ~is_cut).tolist():
        numbers[request] = conversation.filter_of(
            value_bytes(batch, int(rows[request])), batch.redactor
        )
    return numbers


def _failover_logs(batch: MessageBatch, rows: RowNumbers, conversation: Conversation) -> RowNumbers:
    """Returns the number of the failover log in each of these answers, -1 where there is none."""
    return np.array(
        [conversation.log_of(value_bytes(batch, row)) for row in rows.tolist()], dtype=np.int64
    )
