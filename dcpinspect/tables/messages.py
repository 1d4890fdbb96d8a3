"""A run of decoded messages: their columns, their bytes, and any one of them explained on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.columns import Mask, Numbers, Rows
from dcpinspect.protocol.decode import ERROR_LAYOUT, PROBLEMS, Decoded
from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import Context, Message
from dcpinspect.protocol.opcodes import Trait, opcode_name, opcode_traits
from dcpinspect.protocol.roles import NAMES_VBUCKET
from dcpinspect.tables.losses import NO_LOSSES, Losses
from dcpinspect.tables.naming import NO_NAMES, Names, NamesAt

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

DIRECTIONS = ("c2s", "s2c")
SIDES = ("request", "response")

_TOKENS = np.array([Trait.TOKEN in opcode_traits(code) for code in range(256)], dtype=np.bool_)

_PRIVATE_KEYS = np.array([*(layout.key is None or layout.key.is_private for layout in LAYOUTS), True, True], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Missing:
    """Byte ranges of messages that the capture does not hold, sorted by row."""

    row: Rows
    """Row of the batch."""
    start: Rows
    end: Rows

    def of(self, row: int) -> tuple[tuple[int, int], ...]:
        """Ranges [start, end) of one message, relative to its first byte."""
        low, high = np.searchsorted(self.row, (row, row + 1))
        return tuple(zip(self.start[low:high].tolist(), self.end[low:high].tolist(), strict=True))


class Texts(Protocol):
    """Texts by number."""

    def __getitem__(self, index: int, /) -> str: ...


@dataclass(slots=True)
class Endpoints:
    """Addresses of the connections of a reading; grows while it is read."""

    client: Texts
    """Address of the client of connection n at n - 1."""
    server: Texts
    has_handshake: bytearray = field(default_factory=bytearray)
    """Whether the connection's SYN was captured, 1 or 0."""


@dataclass(slots=True)
class MessageBatch:
    """Messages in row order: one entry a message in every column."""

    files: Sequence[str]
    """Names of the capture files, which ``file`` and ``last_file`` number from 0."""
    endpoints: Endpoints
    data: npt.NDArray[np.uint8]
    """The bytes of all messages; holes are filled with zero."""
    start: Rows
    """Where each message begins in ``data``."""
    length: Rows
    """Bytes of each message on the wire."""
    row: Rows
    """Number in the reading, from 1; rising, and without gaps unless the reading is a part of another."""
    file: Rows
    frame: Rows
    last_file: Rows
    last_frame: Rows
    time_ns: Rows
    connection: Rows
    direction: Rows
    stream_offset: Rows
    heuristic: Mask
    """The message was found by trying; nothing proves that it begins here."""
    missing: Missing
    decoded: Decoded
    vbucket: Numbers
    vbucket_from_request: Mask
    request_row: Numbers
    request_stream_offset: Numbers
    rtt_ns: Numbers
    losses: Losses = NO_LOSSES
    earlier_keys: Mapping[int, bytes] = field(default_factory=dict)
    """Keys, as they may be shown, of requests of earlier batches that messages of this one answer, by the requests' rows."""
    origin_ns: int = 0
    """Capture time of the first packet of the reading, from which relative times count."""
    names: Names = NO_NAMES
    """What collections are called."""
    redactor: Redactor | None = None
    """Replaces what is private wherever a message is explained or its key is told; columns and ``data`` have what the wire had."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def holds_token(self) -> Mask:
        """Messages that have a session token where others have their CAS."""
        return _TOKENS[self.decoded.opcode] & ~self.decoded.is_server

    def index_of(self, rows: Rows) -> Rows:
        """Places in the batch of the messages with these numbers."""
        first = int(self.row[0]) if len(self) else 0
        is_dense = len(self) and int(self.row[-1]) - first == len(self) - 1
        return rows - first if is_dense else np.searchsorted(self.row, rows)

    def bytes_of(self, index: int) -> bytes:
        """The bytes of one message, holes filled with zero."""
        start = int(self.start[index])
        return self.data[start : start + int(self.length[index])].tobytes()

    def context_of(self, index: int) -> Context:
        """What the connection had negotiated when the message was sent."""
        return self.decoded.context_of(index)

    def annotate(self, index: int) -> Message:
        """The message with every field explained."""
        context = replace(self.context_of(index), names=self.names_at(index))
        message = annotate(self.bytes_of(index), context=context, missing=self.missing.of(index))
        return message if self.redactor is None else self.redactor.message(message)

    def names_at(self, index: int) -> NamesAt:
        """The names of collections as one message has them."""
        return NamesAt(self.names, int(self.connection[index]), int(self.row[index]))

    def vbuckets_of(self, rows: Rows) -> Numbers:
        """The vbuckets that some of the messages are about: none where the vbucket of the header is not used, as in HELLO."""
        own = self.vbucket.take(rows)
        named = NAMES_VBUCKET[self.decoded.opcode[rows]] & ~self.decoded.is_server[rows]
        return Numbers(own.values, named if own.valid is None else named & own.valid)

    def vbucket_of(self, index: int) -> int | None:
        """The vbucket that one message is about."""
        return self.vbuckets_of(np.array([index])).at(0)

    def collection_of(self, index: int) -> str | None:
        """What the collection of a message is called; None for a message of none."""
        number = self.decoded.collection_id.at(index)
        return None if number is None else self.names.collection(int(self.connection[index]), number, int(self.row[index]))

    def redacted(self, redactor: Redactor | None) -> MessageBatch:
        """The same messages, with what is private replaced from here on; None leaves them as they are."""
        if redactor is None or self.redactor is redactor:
            return self
        earlier_keys = {row: redactor.replacement(key) for row, key in self.earlier_keys.items()}
        return replace(self, redactor=redactor, earlier_keys=earlier_keys, names=self.names.redacted(redactor))

    def has_private_key(self, rows: Rows) -> Mask:
        """Messages whose key tells what users store, or who they are; so does the key of what nobody described."""
        private: Mask = _PRIVATE_KEYS[self.decoded.layout[rows]]
        return private

    def name_of(self, index: int) -> str:
        """Full lower-case name of the command."""
        return opcode_name(int(self.decoded.opcode[index]), server=bool(self.decoded.is_server[index]))

    def layout_of(self, index: int) -> Layout | None:
        """The layout that was chosen for the message, fitting or nearest; None for none and for refusals."""
        number = int(self.decoded.layout[index])
        return LAYOUTS[number] if 0 <= number < ERROR_LAYOUT else None

    def generation_of(self, index: int) -> str | None:
        """Name of the layout that fits the message; None when none does."""
        number = int(self.decoded.layout[index])
        if number < 0 or not self.decoded.extras_fit[index]:
            return None
        return "error" if number == ERROR_LAYOUT else LAYOUTS[number].generation

    def key_of(self, index: int) -> bytes | None:
        """Key of the message without collection id; None when it has none, is hidden, or part of it is not in the capture."""
        key = self.wire_key_of(index)
        if key is not None and self.redactor is not None and _PRIVATE_KEYS[self.decoded.layout[index]]:
            return self.redactor.replacement(key)
        return key

    def wire_key_of(self, index: int) -> bytes | None:
        """The same as the wire had it, also where it is to be replaced before anybody sees it."""
        size = int(self.decoded.key.size[index])
        if size < 0 or (size and self.decoded.hides_key[index]):
            return None
        start = int(self.decoded.key.start[index])
        if len(self.missing.row):
            at = start - int(self.start[index])
            if any(low < at + size and at < high for low, high in self.missing.of(index)):
                return None
        return self.data[start : start + size].tobytes()

    def request_key_of(self, index: int) -> bytes | None:
        """Key of the request that the message answers; None as ``key_of``, and for a message that answers none."""
        row = self.request_row.at(index)
        if row is None:
            return None
        place = int(self.index_of(np.array([row]))[0])
        if 0 <= place < len(self) and self.row[place] == row:
            return self.key_of(place)
        return self.earlier_keys.get(row)

    def number(self, name: str, index: int) -> int | None:
        """A message-specific number of one message, or None."""
        column = self.decoded.numbers.get(name)
        return None if column is None else column.at(index)

    def problem_of(self, index: int) -> str | None:
        """First rule that the columns show to be broken, or None."""
        return PROBLEMS[int(self.decoded.problem[index])] or None
