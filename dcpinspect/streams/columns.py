"""Messages as the kernel reads them: only those that matter to streams, what each of them says as whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.columns import Array, Mask, Rows
from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import state as s
from dcpinspect.streams.session import Conversation, failover_logs, readable, stream_request_values
from dcpinspect.streams.words import SNAPSHOT_LAYOUTS
from dcpinspect.tables.messages import MessageBatch

Table = npt.NDArray[np.int64]

_REQUESTS = np.zeros(256, dtype=np.int64)
for _role, _kind in {
    Trait.COUNTED: s.CACHE,
    Trait.SEQNO: s.SEQNO_ADVANCED,
    Trait.EVENT: s.EVENT,
    Trait.OPENS: s.REQUEST,
    Trait.ENDS: s.END,
}.items():  # the last one that fits; what is counted and no more goes on as a cache transfer does
    _REQUESTS[opcodes_with(_role)] = _kind
for _opcode, _kind in {
    Opcode.DCP_CONTROL: s.CONTROL,
    Opcode.DCP_CLOSE_STREAM: s.CLOSE,
    Opcode.DCP_BUFFER_ACKNOWLEDGEMENT: s.ACK,
    Opcode.DCP_NOOP: s.NOOP,
    Opcode.DCP_FLUSH: s.FLUSH,
    Opcode.DCP_SEQNO_ACKNOWLEDGED: s.SEQNO_ACK,
    Opcode.DCP_SNAPSHOT_MARKER: s.MARKER,
    Opcode.DCP_SYSTEM_EVENT: s.SYSTEM_EVENT,
    Opcode.DCP_PREPARE: s.PREPARE,
    Opcode.DCP_COMMIT: s.COMMIT,
    Opcode.DCP_ABORT: s.ABORT,
    Opcode.DCP_OSO_SNAPSHOT: s.OSO,
    Opcode.DCP_CACHE_TRANSFER_END: s.CACHE_END,
    Opcode.DCP_SET_VBUCKET_STATE: s.SET_STATE,
}.items():
    _REQUESTS[_opcode] = _kind
_ANSWERS = np.zeros(256, dtype=np.int64)
_ANSWERS[Opcode.DCP_STREAM_REQ] = s.ANSWER
_ANSWERS[Opcode.DCP_CLOSE_STREAM] = s.CLOSE_ANSWER
_ANSWERS[Opcode.DCP_NOOP] = s.NOOP_ANSWER
_ANSWERS[Opcode.DCP_SNAPSHOT_MARKER] = s.MARKER_ANSWER

_LAYOUT_WORDS = {word: number for number, word in enumerate(SNAPSHOT_LAYOUTS)} | {"v2.2-short": SNAPSHOT_LAYOUTS.index("v2.2")}
_MARKER_LAYOUTS = np.array([_LAYOUT_WORDS.get(layout.generation, 0) for layout in LAYOUTS] + [0, 0], dtype=np.int64)
_UPR_REQUESTS = np.array([layout.generation == "upr" for layout in LAYOUTS] + [False, False], dtype=np.bool_)
_MARKER_SEQNOS = ("max_visible_seqno", "high_completed_seqno", "purge_seqno", "high_prepared_seqno")
PREPARE_SURPLUS = 2
"""Both ends of a connection between nodes count so many bytes more than a prepare has."""


_SEQNO_SIZE = 8


def _seqno_end(layout: Layout) -> int:
    """Bytes of extras up to the end of the seqno; where it is not known where that is, as most have it."""
    return next((field.offset for field in layout.extras if "by_seqno" in (field.name, field.alias)), 0) + _SEQNO_SIZE


class MessageColumns:
    """Makes the kernel's tables of a batch; remembers the stream-ids of close requests until they are answered."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._closing: dict[int, int] = {}

    def tables(self, batch: MessageBatch) -> tuple[Table, Table]:
        """(messages, extras): a column a message, a row what some of them have besides."""
        facts = self._conversation.feed(batch)
        kind, is_headless = kinds(batch)
        self._note_unread(batch, kind)
        kind[[row for row, _, _ in facts]] = s.FACT
        rows = np.flatnonzero(kind > 0)
        kind = kind[rows]
        losses = batch.losses
        lost_before = np.sort(np.concatenate((losses.before, is_headless)), kind="stable")
        at: Rows = np.arange(len(rows)) + np.searchsorted(lost_before, rows, side="right")
        messages = np.zeros((s.MESSAGE, len(rows) + len(lost_before)), dtype=np.int64)
        self._fill(batch, rows, kind, at, messages)
        for row, column, value in facts:
            place = int(at[np.searchsorted(rows, row)])
            messages[s.M_OPAQUE, place], messages[s.M_EXTRA, place] = column, value
        extras = [self._requests(batch, rows, kind, at, messages), self._answers(batch, rows, kind, at)]
        extras += [_markers(batch, rows, kind, at), _lost(batch, lost_before, rows, is_headless, messages)]
        first = 0
        for table, places in extras:
            messages[s.M_EXTRA, places] = first + np.arange(len(table))
            first += len(table)
        return messages, np.concatenate([table for table, _ in extras])

    def _note_unread(self, batch: MessageBatch, kind: Rows) -> None:
        """Remembers the stream requests that nobody can read."""
        decoded = batch.decoded
        is_asked = (decoded.opcode == Opcode.DCP_STREAM_REQ) & ~decoded.is_response & ~decoded.is_server & decoded.has_magic
        for row in np.flatnonzero(is_asked & ((kind == 0) | (kind == s.UNREADABLE_REQUEST))).tolist():
            session = self._conversation.of(int(batch.connection[row]))
            session.unread_requests.append((int(decoded.specific[row]), int(batch.time_ns[row])))

    def _fill(self, batch: MessageBatch, rows: Rows, kind: Rows, at: Rows, messages: Table) -> None:
        decoded, numbers = batch.decoded, batch.decoded.numbers
        put = at if messages.shape[1] > len(rows) else slice(None)  # where nothing was lost, one after the other
        messages[s.M_KIND, put] = kind
        messages[s.M_CONNECTION, put] = batch.connection[rows]
        messages[s.M_DIRECTION, put] = batch.direction[rows]
        messages[s.M_VBUCKET, put] = np.where(decoded.is_response, batch.vbucket.values, decoded.specific)[rows]
        messages[s.M_VBUCKET, at[decoded.is_response[rows] & ~_valid(batch.vbucket.valid, len(batch))[rows]]] = -1
        sid = np.where(_valid(decoded.sid.valid, len(batch)), decoded.sid.values.astype(np.int64), -1)[rows]
        messages[s.M_OPAQUE, put] = decoded.opaque[rows]
        messages[s.M_PLACE + s.AT_ROW, put] = batch.row[rows]
        messages[s.M_PLACE + s.AT_OFFSET, put] = batch.stream_offset[rows]
        messages[s.M_PLACE + s.AT_FRAME, put] = (batch.last_file[rows] << s.FILE_SHIFT) | batch.last_frame[rows]
        messages[s.M_PLACE + s.AT_TIME, put] = batch.time_ns[rows]
        counted = kind >= s.END
        prepared = decoded.opcode[rows] == Opcode.DCP_PREPARE
        messages[s.M_SIZE, at[counted]] = (batch.length[rows] + PREPARE_SURPLUS * prepared)[counted]
        seqno = numbers.get("by_seqno")
        if seqno is not None:
            messages[s.M_SEQNO, put] = s.biased(seqno.values[rows])
        acknowledged = kind == s.SEQNO_ACK
        if acknowledged.any():
            messages[s.M_SEQNO, at[acknowledged]] = s.biased(numbers["prepared_seqno"].values[rows[acknowledged]])
        for of_kind, name in ((s.ACK, "ack_bytes"), (s.OSO, "flags")):
            chosen = kind == of_kind
            if chosen.any():
                messages[s.M_EXTRA, at[chosen]] = numbers[name].values[rows[chosen]]
        ends = np.flatnonzero(kind == s.END)
        if len(ends):
            messages[s.M_EXTRA, at[ends]] = _reasons(batch, rows[ends])
        unreadable = kind == s.UNREADABLE
        messages[s.M_EXTRA, at[unreadable]] = _REQUESTS[decoded.opcode[rows[unreadable]]]
        for place in np.flatnonzero((kind == s.CLOSE) | (kind == s.CLOSE_ANSWER)).tolist():
            row = int(rows[place])
            if kind[place] == s.CLOSE:
                if sid[place] >= 0:
                    self._closing[int(batch.row[row])] = int(sid[place])
            else:
                sid[place] = self._closing.pop(int(batch.request_row.values[row]), -1)
                messages[s.M_EXTRA, at[place]] = decoded.specific[row]
        messages[s.M_SID, put] = sid

    def _requests(self, batch: MessageBatch, rows: Rows, kind: Rows, at: Rows, messages: Table) -> tuple[Table, Rows]:
        """Extras of stream requests."""
        chosen = np.flatnonzero((kind == s.REQUEST) | (kind == s.UNREADABLE_REQUEST))
        asked = rows[chosen]
        table = np.zeros((len(chosen), s.EXTRA), dtype=np.int64)
        if len(chosen):
            numbers = batch.decoded.numbers
            for column, name in (
                (s.X_START, "start_seqno"),
                (s.X_END, "end_seqno"),
                (s.X_SNAPSHOT_START, "snapshot_start_seqno"),
                (s.X_SNAPSHOT_END, "snapshot_end_seqno"),
            ):
                table[:, column] = s.biased(_column(batch, name, asked))
            table[:, s.X_UUID] = _column(batch, "vbucket_uuid", asked).view(np.int64)
            table[:, s.X_FLAGS] = numbers["flags"].values[asked]
            table[:, s.X_FORM] = 1 + _UPR_REQUESTS[batch.decoded.layout[asked]]
            table[:, s.X_FILTER], messages[s.M_SID, at[chosen]] = stream_request_values(batch, asked, self._conversation)
            table[kind[chosen] == s.UNREADABLE_REQUEST] = _UNREAD
        return table, at[chosen]

    def _answers(self, batch: MessageBatch, rows: Rows, kind: Rows, at: Rows) -> tuple[Table, Rows]:
        """Extras of the answers to stream requests."""
        chosen = np.flatnonzero(kind == s.ANSWER)
        answered = rows[chosen]
        table = np.zeros((len(chosen), s.EXTRA), dtype=np.int64)
        if len(chosen):
            status = batch.decoded.specific[answered].astype(np.int64)
            table[:, s.X_STATUS] = status
            rollback = batch.decoded.numbers.get("rollback_seqno")
            has_rollback = (status == Status.ROLLBACK) & readable(batch)[answered]
            has_rollback &= False if rollback is None else _valid(rollback.valid, len(batch))[answered]
            table[:, s.X_ROLLBACK] = np.where(has_rollback, s.biased(_column(batch, "rollback_seqno", answered)), s.UNREAD_SEQNO)
            table[:, s.X_REQUEST] = batch.request_row.values[answered]
            table[:, s.X_RTT] = np.where(batch.request_row.values[answered] >= 0, batch.rtt_ns.values[answered], 0)
            table[:, s.X_LOG] = -1
            granted = (status == 0) & readable(batch)[answered]
            table[granted, s.X_LOG] = failover_logs(batch, answered[granted], self._conversation)
        return table, at[chosen]


def kinds(batch: MessageBatch) -> tuple[Rows, Rows]:
    """(kind of every message, messages of which the capture lacks so much that nobody knows which stream they are of)."""
    decoded = batch.decoded
    kind: Rows = np.where(decoded.is_response, _ANSWERS[decoded.opcode], _REQUESTS[decoded.opcode])
    kind[decoded.is_server | ~decoded.has_magic] = 0
    numbers = decoded.numbers
    for name, kinds in _NEEDED.items():
        wanted = np.isin(kind, kinds)
        column = numbers.get(name)
        lacks = wanted if column is None else wanted & ~_valid(column.valid, len(batch))
        if lacks.any():
            kind[lacks] = _UNREADABLE[kind[lacks]]
    markers = (kind == s.MARKER) & ~decoded.extras_fit
    starts = numbers.get("start_seqno")
    has_range = np.zeros(len(batch), dtype=np.bool_) if starts is None else _valid(starts.valid, len(batch))
    markers |= (kind == s.MARKER) & ~has_range & (_MARKER_LAYOUTS[decoded.layout] != s.UPR_LAYOUT)
    kind[markers] = s.UNREADABLE
    missing = batch.missing
    if not len(missing.row):
        return kind, np.empty(0, dtype=np.int64)
    framing_end = HEADER_SIZE + decoded.framing_size[missing.row]
    extras_end = framing_end + decoded.extras_size[missing.row]
    is_v2 = (decoded.opcode[missing.row] == Opcode.DCP_SNAPSHOT_MARKER) & (decoded.value.size[missing.row] > 0)
    needed = np.where(is_v2, extras_end + _RANGE_SIZE, extras_end)
    needed = np.where(np.isin(kind[missing.row], _ONLY_SEQNO), framing_end + _SEQNO_ENDS[decoded.layout[missing.row]], needed)
    hit = np.unique(missing.row[missing.start < needed])
    headless = np.unique(missing.row[missing.start < framing_end])
    hit = hit[kind[hit] > 0]
    kind[hit] = _UNREADABLE[kind[hit]]
    is_producers = kind[headless] >= s.END
    kind[headless] = 0
    return kind, headless[is_producers]


_ONLY_SEQNO = np.array([s.EVENT, s.PREPARE])
"""Kinds of whose extras streams need the seqno only."""
_SEQNO_ENDS = np.array([_seqno_end(layout) for layout in LAYOUTS] + [_SEQNO_SIZE] * 2, dtype=np.int64)
_RANGE_SIZE = 20
"""Bytes of a newer marker's value that have its range and type."""
_SEQNO_KINDS = np.arange(s.EVENT, s.SEQNO_ADVANCED + 1)
_UNREADABLE = np.where(np.arange(s.KINDS) >= s.END, s.UNREADABLE, 0)
"""What a message of each kind becomes where its extras cannot be read: 0 where nothing goes on without them."""
_UNREADABLE[[s.ACK, s.UNREADABLE_ACK]] = s.UNREADABLE_ACK
_UNREADABLE[[s.REQUEST, s.UNREADABLE_REQUEST]] = s.UNREADABLE_REQUEST
_UNREAD = np.zeros(s.EXTRA, dtype=np.int64)
_UNREAD[[s.X_START, s.X_END, s.X_SNAPSHOT_START, s.X_SNAPSHOT_END]] = s.LEAST
_UNREAD[s.X_FILTER] = s.CUT_VALUE
"""Extras of a request of which there is the header only."""
_NEEDED = {
    "by_seqno": _SEQNO_KINDS,
    "start_seqno": np.array([s.REQUEST]),
    "ack_bytes": np.array([s.ACK]),
    "prepared_seqno": np.array([s.SEQNO_ACK]),
    "flags": np.array([s.OSO]),
}


def _valid(valid: Mask | None, size: int) -> Mask:
    return np.ones(size, dtype=np.bool_) if valid is None else valid


def _column(batch: MessageBatch, name: str, rows: Rows) -> Array:
    """A column of numbers, 0 where there is none."""
    column = batch.decoded.numbers.get(name)
    return np.zeros(len(rows), dtype=np.uint64) if column is None else column.values[rows]


def _reasons(batch: MessageBatch, rows: Rows) -> Rows:
    """Why these streams end; -1 where that is not known."""
    column = batch.decoded.numbers.get("end_reason")
    if column is None:
        return np.full(len(rows), -1, dtype=np.int64)
    return np.where(_valid(column.valid, len(batch))[rows], column.values[rows].astype(np.int64), -1)


def _markers(batch: MessageBatch, rows: Rows, kind: Rows, at: Rows) -> tuple[Table, Rows]:
    """Extras of snapshot markers."""
    chosen = np.flatnonzero(kind == s.MARKER)
    marked = rows[chosen]
    table = np.zeros((len(chosen), s.EXTRA), dtype=np.int64)
    if len(chosen):
        table[:, s.X_START] = s.biased(_column(batch, "start_seqno", marked))
        table[:, s.X_END] = s.biased(_column(batch, "end_seqno", marked))
        table[:, s.X_TYPE] = _column(batch, "snapshot_type", marked).astype(np.int64)
        table[:, s.X_LAYOUT] = _MARKER_LAYOUTS[batch.decoded.layout[marked]]
        for bit, name in enumerate(_MARKER_SEQNOS):
            column = batch.decoded.numbers.get(name)
            if column is not None:
                table[:, s.X_MAX_VISIBLE + bit] = s.biased(column.values[marked])
                table[:, s.X_PRESENT] |= _valid(column.valid, len(batch))[marked].astype(np.int64) << bit
    return table, at[chosen]


def _lost(batch: MessageBatch, lost_before: Rows, rows: Rows, headless: Rows, messages: Table) -> tuple[Table, Rows]:
    """Extras of what could not be read, and the rest of its columns."""
    places: Rows = np.arange(len(lost_before)) + np.searchsorted(rows, lost_before, side="left")
    losses = batch.losses
    connection = np.concatenate((losses.connection, batch.connection[headless]))
    direction = np.concatenate((losses.direction, batch.direction[headless]))
    start = np.concatenate((losses.start, batch.stream_offset[headless]))
    end = np.concatenate((losses.end, (batch.stream_offset + batch.length)[headless]))
    order = np.argsort(np.concatenate((losses.before, headless)), kind="stable")
    messages[s.M_KIND, places] = s.LOST
    messages[s.M_CONNECTION, places] = connection[order]
    messages[s.M_DIRECTION, places] = direction[order]
    messages[s.M_PLACE + s.AT_ROW, places] = batch.row[lost_before]
    messages[s.M_PLACE + s.AT_FRAME, places] = (batch.file[lost_before] << s.FILE_SHIFT) | batch.frame[lost_before]
    messages[s.M_PLACE + s.AT_TIME, places] = batch.time_ns[lost_before]
    table = np.zeros((len(places), s.EXTRA), dtype=np.int64)
    table[:, s.X_START], table[:, s.X_END] = start[order], end[order]
    return table, places
