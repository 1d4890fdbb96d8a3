"""A batch of decoded messages: columns, bytes, and annotations of single messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.column_types import NumberColumn, RowNumbers
from dcpinspect.protocol.decode import ERROR_LAYOUT, PROBLEMS, Decoded, by_layout
from dcpinspect.protocol.fields import Field, Layout, fixed_size
from dcpinspect.protocol.flex import STREAM_ID
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import Context, Message
from dcpinspect.protocol.opcodes import Trait, opcode_name, opcode_traits
from dcpinspect.protocol.roles import NAMES_VBUCKET
from dcpinspect.tables.collection_names import NO_NAMES, Names, NamesAt
from dcpinspect.tables.losses import NO_LOSSES, Losses

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

DIRECTIONS = ("c2s", "s2c")
SIDES = ("request", "response")

_TOKENS = np.array([Trait.TOKEN in opcode_traits(code) for code in range(256)], dtype=np.bool_)

_PRIVATE_KEYS = by_layout(lambda layout: layout.key is None or layout.key.is_private, without=True)
KNOWN_KEYS = by_layout(lambda layout: layout.key is not None and layout.key.shown is not None)
"""Layouts that show keys which the protocol knows: each such key has to be looked at, and few
messages have one.
"""


def _record_size(layout: Layout) -> int:
    """Returns the size of the records that a value consists of; 1 if any value of the layout can be
    divided, -1 if that depends on what stands in it.
    """
    if layout.value_size is not None or not layout.value:
        return 1
    item = layout.value[0] if len(layout.value) == 1 else None
    return 1 if isinstance(item, Field) else (item and fixed_size(item.fields)) or -1


_DURATION_FRAME, _STREAM_FRAME = 0x02, STREAM_ID << 4 | 2
"""How framing extras of three bytes begin that most responses, and many requests, have."""
_RECORD_SIZE = np.array([*map(_record_size, LAYOUTS), 1, 1], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class MissingBytes:
    """Byte ranges of messages that the capture does not have, sorted by row."""

    row: RowNumbers
    """Row of the batch."""
    start: RowNumbers
    end: RowNumbers

    def ranges_of(self, row: int) -> tuple[tuple[int, int], ...]:
        """Returns ranges [start, end) of one message, relative to its first byte."""
        low, high = np.searchsorted(self.row, (row, row + 1))
        return tuple(zip(self.start[low:high].tolist(), self.end[low:high].tolist(), strict=True))


class MessageTexts(Protocol):
    """Texts by number."""

    def __getitem__(self, index: int, /) -> str: ...


@dataclass(slots=True)
class Endpoints:
    """Addresses of the connections of a reading; grows while it is read."""

    client: MessageTexts
    """Address of the client of connection n at n - 1."""
    server: MessageTexts
    has_handshake: bytearray = field(default_factory=bytearray)
    """Whether the connection's SYN was captured, 1 or 0."""
    proxied: dict[int, str] = field(default_factory=dict)
    """By connection: its client as a PROXY header names it, empty where it names none."""


@dataclass(slots=True)
class MessageBatch:
    """Messages in row order: every column has one entry per message."""

    files: Sequence[str]
    """Names of the capture files; ``file`` and ``last_file`` are numbers in this list, from 0."""
    endpoints: Endpoints
    data: ByteArray
    """The bytes of all messages; missing bytes are zero."""
    start: RowNumbers
    """Where each message begins in ``data``."""
    length: RowNumbers
    """Size of each message in the stream, in bytes."""
    row: RowNumbers
    """Number in the reading, from 1; rising, and without gaps unless it is part of another."""
    file: RowNumbers
    frame: RowNumbers
    last_file: RowNumbers
    last_frame: RowNumbers
    time_ns: RowNumbers
    connection: RowNumbers
    direction: RowNumbers
    stream_offset: RowNumbers
    heuristic: BoolArray
    """Whether the message was found by trying; nothing proves that it begins here."""
    missing: MissingBytes
    decoded: Decoded
    vbucket: NumberColumn
    vbucket_from_request: BoolArray
    request_row: NumberColumn
    request_stream_offset: NumberColumn
    rtt_ns: NumberColumn
    losses: Losses = NO_LOSSES
    earlier_keys: Mapping[int, bytes] = field(default_factory=dict)
    """Keys of earlier batches' requests that messages of this batch answer, by row of the request;
    in the form in which they may be shown.
    """
    origin_ns: int = 0
    """Capture time of the first packet of the reading, from which relative times count."""
    names: Names = NO_NAMES
    """Names of collections."""
    redactor: Redactor | None = None
    """Replaces private data in annotations and keys; columns and ``data`` have the original bytes.
    """
    _hidden: BoolArray | None = None
    """Which messages show no number of their bodies; None until somebody asks."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def holds_token(self) -> BoolArray:
        """Whether messages have a session token in the place where others have their CAS."""
        return _TOKENS[self.decoded.opcode] & ~self.decoded.is_server

    def index_of(self, rows: RowNumbers) -> RowNumbers:
        """Returns the places in the batch of the messages with these rows."""
        first = int(self.row[0]) if len(self) else 0
        is_dense = len(self) and int(self.row[-1]) - first == len(self) - 1
        return rows - first if is_dense else np.searchsorted(self.row, rows)

    def column(self, name: str) -> NumberColumn:
        """Returns a column of numbers that some commands have; no value if no message has one."""
        numbers = self.decoded.numbers.get(name)
        if numbers is None:
            return NumberColumn(np.zeros(len(self), np.uint64), np.zeros(len(self), np.bool_))
        return numbers

    def bytes_of(self, index: int) -> bytes:
        """Returns the bytes of one message; missing bytes are zero."""
        start = int(self.start[index])
        return self.data[start : start + int(self.length[index])].tobytes()

    def context_of(self, index: int) -> Context:
        """Returns what the connection had negotiated when the message was sent."""
        return self.decoded.context_of(index)

    def annotate(self, index: int) -> Message:
        """Returns the message with every field explained."""
        message = self._annotated(index)
        return message if self.redactor is None else self.redactor.message(message)

    def _annotated(self, index: int) -> Message:
        context = replace(self.context_of(index), names=self.names_at(index))
        return annotate(
            self.bytes_of(index), context=context, missing=self.missing.ranges_of(index)
        )

    def names_at(self, index: int) -> NamesAt:
        """Returns the names of collections that are valid for one message."""
        return NamesAt(self.names, int(self.connection[index]), int(self.row[index]))

    def vbuckets_of(self, rows: RowNumbers) -> NumberColumn:
        """Returns the vbuckets that messages are about; none if the vbucket of the header has no
        meaning, as in HELLO.
        """
        header_vbuckets = self.vbucket.take(rows)
        named = NAMES_VBUCKET[self.decoded.opcode[rows]] & ~self.decoded.is_server[rows]
        return NumberColumn(
            header_vbuckets.values,
            named if header_vbuckets.valid is None else named & header_vbuckets.valid,
        )

    def vbucket_of(self, index: int) -> int | None:
        """Returns the vbucket that one message is about."""
        return self.vbuckets_of(np.array([index])).value_at(0)

    def collection_of(self, index: int) -> str | None:
        """Returns the name of the message's collection; None if it has none."""
        number = self.decoded.collection_id.value_at(index)
        if number is None:
            return None
        return self.names.collection(int(self.connection[index]), number, int(self.row[index]))

    def redacted(self, redactor: Redactor | None) -> MessageBatch:
        """Returns the same messages, private data replaced from here on; None: as they are."""
        if redactor is None or self.redactor is redactor:
            return self
        earlier_keys = {row: redactor.replacement(key) for row, key in self.earlier_keys.items()}
        return replace(
            self, redactor=redactor, earlier_keys=earlier_keys, names=self.names.redacted(redactor)
        )

    def has_private_key(self, rows: RowNumbers) -> BoolArray:
        """Whether messages' keys contain users' data or names; unknown commands' keys do."""
        layout = self.decoded.layout[rows]
        private: BoolArray = _PRIVATE_KEYS[layout]
        for index in np.flatnonzero(KNOWN_KEYS[layout]).tolist():
            private[index] = self._has_unknown_key(int(rows[index]))
        return private

    def _has_unknown_key(self, index: int) -> bool:
        """Whether the protocol does not know a message's key, or the capture lacks part of it."""
        key, layout = self.wire_key_of(index), self.layout_of(index)
        if key is None or layout is None or layout.key is None or layout.key.shown is None:
            return True
        return layout.key.shown(key, b"", lambda _: b"") != key

    def name_of(self, index: int) -> str:
        """Returns the full lower-case name of the command."""
        return opcode_name(
            int(self.decoded.opcode[index]), server=bool(self.decoded.is_server[index])
        )

    def layout_of(self, index: int) -> Layout | None:
        """Returns the layout that was chosen for the message, fitting or nearest; None for
        refusals, and if there is no layout.
        """
        number = int(self.decoded.layout[index])
        return LAYOUTS[number] if 0 <= number < ERROR_LAYOUT else None

    def generation_of(self, index: int) -> str | None:
        """Returns the name of the layout that fits the message; None if none does."""
        number = int(self.decoded.layout[index])
        if number < 0 or not self.decoded.extras_fit[index]:
            return None
        return "error" if number == ERROR_LAYOUT else LAYOUTS[number].generation

    def key_of(self, index: int) -> bytes | None:
        """Returns the key of the message without collection id; None if it has none, if it is
        hidden, or if the capture lacks part of it.
        """
        key = self.wire_key_of(index)
        if key is None or self.redactor is None:
            return key
        layout = self.layout_of(index)
        if layout is None or layout.key is None:
            return self.redactor.replacement(key)
        return self.redactor.field_text(layout.key, key)

    def wire_key_of(self, index: int) -> bytes | None:
        """Returns the original key, even if nobody may see it unreplaced; None as ``key_of``."""
        size = int(self.decoded.key.size[index])
        if size < 0 or (size and self.decoded.hides_key[index]):
            return None
        start = int(self.decoded.key.start[index])
        if len(self.missing.row):
            key_offset = start - int(self.start[index])
            if any(
                low < key_offset + size and key_offset < high
                for low, high in self.missing.ranges_of(index)
            ):
                return None
        return self.data[start : start + size].tobytes()

    def request_key_of(self, index: int) -> bytes | None:
        """Returns the key of the request that the message answers; None as ``key_of``, and if the
        message answers no request.
        """
        row = self.request_row.value_at(index)
        if row is None:
            return None
        request_index = int(self.index_of(np.array([row]))[0])
        if 0 <= request_index < len(self) and self.row[request_index] == row:
            return self.key_of(request_index)
        return self.earlier_keys.get(row)

    def number(self, name: str, index: int) -> int | None:
        """Returns a message-specific number of one message, or None."""
        column = self.decoded.numbers.get(name)
        return None if column is None else column.value_at(index)

    def shown(self, name: str) -> NumberColumn | None:
        """Returns a column of numbers that some commands have, in the form in which it may be
        shown; None if no message has one.
        """
        numbers = self.decoded.numbers.get(name)
        if numbers is None or self.redactor is None:
            return numbers
        if self._hidden is None:
            self._hidden = self._hide_numbers()
        return NumberColumn(numbers.values, numbers.is_known & ~self._hidden)

    def shown_number(self, name: str, index: int) -> int | None:
        """Returns the same of one message."""
        column = self.shown(name)
        return None if column is None else column.value_at(index)

    def _hide_numbers(self) -> BoolArray:
        """Returns which messages have parts that do not fit into them, so that no number of their
        bodies is known to be one. Few may: these are annotated.
        """
        from dcpinspect.protocol.redact import hides_numbers  # deferred: few readings redact

        decoded, size = self.decoded, self.decoded.value.size
        record_size = _RECORD_SIZE[decoded.layout]
        hidden: BoolArray = ~decoded.fits | (size % np.maximum(record_size, 1) != 0)
        hidden |= (record_size < 0) & (size > 0)
        for name in ("nmeta", "metadata_size"):
            hidden |= self.column(name).values > 0
        framed = np.flatnonzero(decoded.framing_size > 0)
        frame = self.data[np.minimum(self.start[framed] + HEADER_SIZE, len(self.data) - 1)]
        usual_frame = np.where(decoded.is_response[framed], _DURATION_FRAME, _STREAM_FRAME)
        hidden[framed] |= (decoded.framing_size[framed] != 3) | (frame != usual_frame)
        for index in np.flatnonzero(hidden).tolist():
            hidden[index] = hides_numbers(self._annotated(index))
        return hidden

    def problem_of(self, index: int) -> str | None:
        """Returns the first rule that the message breaks according to the columns, or None."""
        return PROBLEMS[int(self.decoded.problem[index])] or None
