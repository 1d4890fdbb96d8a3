"""Programs for the JSON of messages: one a kind, made of a message of that kind.

Most messages of a capture are alike: same command, layout, datatype, nothing wrong with them. For every
such *kind* one message is annotated and turned into an object the ordinary way; what differs from message
to message becomes an operation of a program, all the rest a constant. ``json_run`` has the rows written by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.export import row_text as rt
from dcpinspect.export.json import dump, field_object, message_object, scalar_value
from dcpinspect.protocol.datatype import JSON, SNAPPY, XATTR
from dcpinspect.protocol.fields import Kind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.meanings import collection_name
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.protocol.session import STATE_NAMES
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch
from dcpinspect.tables.naming import unnamed, with_id

MAX_REMEMBERED = 1 << 16
"""Kinds and texts that are kept; a capture with more is made to waste memory, and its rest goes the ordinary way."""

_COLUMNS = (
    *("row", "connection", "frame", "last_frame", "time_ns", "stream_offset", "length", "vbucket", "collection_id"),
    *("request_row", "request_stream_offset", "rtt_ns", "endpoints", "collection", "collection_meaning"),
    # Where the name of the key and the value stand in the message; how long they, the whole key and the body are.
    *("name_at", "value_at", "key_length", "name_length", "value_length", "body_length"),
    # What is written of them, and of the id before the name: place in the buffer and size, which redaction changes.
    *("id_start", "id_size", "name_start", "name_size", "value_start", "value_size"),
    # What was made beside the buffer: the value among the fields, and the object of the value; or the body, uncompressed.
    *("field_start", "field_size", "object_start", "object_size", "body_start", "body_size"),
)
COLUMN = {name: number for number, name in enumerate(_COLUMNS)}
"""Number of each column that operations name; those of looked-up texts come after."""


_HEAD_COLUMNS = frozenset(
    {"row", "connection", "frame", "last_frame", "stream_offset", "length", "vbucket", "collection_id"}
    | {"request_row", "request_stream_offset", "rtt_ns"}
)
_HEADER_CONSTANTS = frozenset({"magic", "opcode", "datatype", "status"})
"""Header fields that are the same in all messages of a kind."""
_WORDY = frozenset({Kind.COMMAND, Kind.STATUS, Kind.FEATURE, Kind.I64})
"""Kinds whose meaning is looked up."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A number whose text depends on it: where it stands, and how the text is made."""

    name: str
    offset: int
    size: int
    in_head: bool


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of message: its program, and the texts that the program looks up."""

    number: int
    size: int
    look_ups: tuple[LookUp, ...]


class Programs:
    """The programs of the kinds that a reading had so far, and the texts that they look up."""

    def __init__(self, *, fields: bool, before: bytes = b"", after: bytes = b"") -> None:
        """``fields``: objects have their field tables. ``before`` and ``after`` stand around every object."""
        self.fields = fields
        self._before = before
        self._after = after
        self._texts = rt.Texts()
        self._kinds: dict[int, RowKind] = {}
        self._programs: list[rt.Program] = []
        self._looked_up: dict[tuple[int, LookUp, int], int] = {}
        self._endpoints: dict[tuple[int, int], int] = {}

    def kind(self, key: int, batch: MessageBatch, index: int) -> RowKind | None:
        """The kind with this key, made from one of its messages; None when it has to go the ordinary way."""
        known = self._kinds.get(key)
        if known is None and not self.is_full:
            known = self._made_kind(batch, index)
            if known is not None:  # another batch may have a better example
                self._kinds[key] = known
        return known

    @property
    def is_full(self) -> bool:
        """No more kinds or texts are remembered."""
        return len(self._kinds) + self._texts.count > MAX_REMEMBERED

    def _made_kind(self, batch: MessageBatch, index: int) -> RowKind | None:
        message = batch.annotate(index)
        parts = [part for field in message.fields for part in field.walk()]
        # What an id is called depends on more than its kind of message.
        if message.problems or message.missing or any(part.hidden or (part.spec and part.spec.kind is Kind.ID) for part in parts):
            return None
        if _datatype(message) & SNAPPY and message.value is not None and not message.value.body:
            return None  # nothing came out of the block, so this one does not show what others have
        builder = rt.ProgramBuilder(self._texts)
        look_ups: list[LookUp] = []
        builder.text(self._before + b"{")
        separator = b""
        numbers = {field.name: field for field in message.fields if field.offset >= HEADER_SIZE}
        numbers |= {field.spec.alias: field for field in numbers.values() if field.spec is not None and field.spec.alias}
        for name, value in message_object(batch, index, fields=self.fields).items():
            if name in ("server", "direction"):
                continue  # the endpoints' text has them
            builder.text(separator + (b"" if name == "client" else dump(name) + b":"))
            separator = b","
            if name == "client":
                builder.add(rt.FRAGMENT, COLUMN["endpoints"])
            elif name == "fields":
                self._add_fields(builder, message, look_ups)
            elif name == "value" and message.value is not None:
                self._add_value(builder, message, is_redacted=batch.redactor is not None)
            elif name in numbers and self._add_number(builder, numbers[name], look_ups, in_head=True):
                continue
            elif not self._add_head(builder, name, value):
                builder.text(dump(value))
        builder.text(b"}" + self._after)
        program = builder.finish()
        self._programs.append(program)
        return RowKind(len(self._programs) - 1, program.size, tuple(look_ups))

    def _add_head(self, builder: rt.ProgramBuilder, name: str, value: object) -> bool:
        """The keys that every message has; False for others."""
        if value is None:
            return False
        if name in _HEAD_COLUMNS:
            builder.add(rt.COLUMN, COLUMN[name])
        elif name == "time":
            builder.text(b'"')
            builder.add(rt.TIME_NS, COLUMN["time_ns"])
            builder.text(b'"')
        elif name == "opaque":
            builder.add(rt.NUMBER, 12, 4)
        elif name == "cas":
            _add_hex64(builder, 16)
        elif name == "collection":
            builder.add(rt.FRAGMENT, COLUMN["collection"])
        elif name == "key":
            _add_string(builder, "name_start")
        else:
            return False
        return True

    def _add_number(self, builder: rt.ProgramBuilder, field: FieldValue, look_ups: list[LookUp], *, in_head: bool) -> bool:
        """A fixed-size number of the layout; False for what is none."""
        spec = field.spec
        if spec is None or not spec.kind.size:
            return False
        if spec.flags or spec.words or (not in_head and (spec.values is not None or spec.kind in _WORDY)) or spec.kind is Kind.I64:
            builder.add(rt.FRAGMENT, len(COLUMN) + len(look_ups))
            look_ups.append(LookUp(field.name, field.offset, field.size, in_head))
            return True
        if not in_head:
            _add_start(builder, field)
            builder.add(rt.HEX, field.offset, field.size)
            builder.text(b'","value":')
        if spec.kind in (Kind.UUID, Kind.CAS):
            _add_hex64(builder, field.offset)
        else:
            builder.add(rt.NUMBER, field.offset, field.size)
        if not in_head:
            builder.text(b',"meaning":')
            if spec.kind is Kind.CAS:
                builder.add(rt.CAS_TIME, field.offset)
            elif spec.kind is Kind.TIME:
                builder.text(b'"')
                builder.add(rt.SECONDS, field.offset)
                builder.text(b'"')
            else:
                builder.text(b"null")
            builder.text(b"}")
        return True

    def _add_fields(self, builder: rt.ProgramBuilder, message: Message, look_ups: list[LookUp]) -> None:
        opening = b"["
        for field in message.fields:
            builder.text(opening)
            opening = b","
            if field.name in _HEADER_CONSTANTS and field.offset < HEADER_SIZE:
                builder.text(dump(field_object(field, "full")))
            elif field.name == "key":
                _add_key(builder, field)
            elif field.name == "value":
                self._add_value_field(builder, message, field)
            else:
                self._add_number(builder, field, look_ups, in_head=False)
        builder.text(b"]")

    def _add_value_field(self, builder: rt.ProgramBuilder, message: Message, field: FieldValue) -> None:
        datatype = _datatype(message)
        if datatype & XATTR:
            builder.add(rt.SIDE, COLUMN["field_start"])
            return
        encoding = _encoding(message)
        builder.text(b'{"name":' + dump(field.name) + b',"label":' + dump(field.label) + b',"offset":')
        builder.add(rt.COLUMN, COLUMN["value_at"])
        builder.text(b',"size":')
        builder.add(rt.COLUMN, COLUMN["value_length"])
        builder.text(b',"hex":"')
        builder.add(rt.SPAN_HEX, COLUMN["value_start"])
        if not datatype & SNAPPY:
            builder.text(b'","value":null,"meaning":"' + encoding + b'"' + _mark(field) + b"}")
            return
        (body,) = field.fields
        builder.text(b'","value":null,"meaning":"snappy, ')
        builder.add(rt.COLUMN, COLUMN["body_length"])
        builder.text(b" bytes inflated, " + encoding + b'","fields":[' + dump({"name": body.name, "label": body.label, "offset": 0})[:-1])
        builder.text(b',"size":')
        builder.add(rt.COLUMN, COLUMN["body_length"])
        builder.text(b',"hex":"')
        builder.add(rt.SIDE_HEX, COLUMN["body_start"])
        builder.text(b'","value":"')
        builder.add(rt.SIDE_TEXT, COLUMN["body_start"])
        builder.text(b'","meaning":"' + encoding + b'","inflated":true' + _mark(body) + b"}]" + _mark(field) + b"}")

    def _add_value(self, builder: rt.ProgramBuilder, message: Message, *, is_redacted: bool) -> None:
        datatype = _datatype(message)
        if datatype & XATTR:
            builder.add(rt.SIDE, COLUMN["object_start"])
            return
        encoding, compressed = _encoding(message), bool(datatype & SNAPPY)
        builder.text(b'{"encoding":"' + encoding + b'","compressed":' + (b'"snappy"' if compressed else b"null") + b',"size":')
        builder.add(rt.COLUMN, COLUMN["value_length"])
        if compressed:
            builder.text(b',"inflated_size":')
            builder.add(rt.COLUMN, COLUMN["body_length"])
        as_it_is = encoding == b"json" and not is_redacted
        builder.text(b',"' + encoding + b'":' + (b"" if as_it_is else b'"'))
        if compressed:
            builder.add(rt.SIDE_JSON if as_it_is else rt.SIDE_TEXT, COLUMN["body_start"])
        else:
            builder.add(rt.SPAN_JSON if as_it_is else rt.SPAN_TEXT, COLUMN["value_start"])
        builder.text(b"}" if as_it_is else b'"}')

    # -- texts that programs look up --------------------------------------------------------------------

    def fragment(self, kind: RowKind, look_up: LookUp, number: int, batch: MessageBatch, index: int) -> int:
        """The number of the text for a number, made from a message that has it."""
        key = (kind.number, look_up, number)
        if key not in self._looked_up:
            field = next(field for field in batch.annotate(index).fields if field.name == look_up.name and field.offset == look_up.offset)
            text = dump(scalar_value(field)) if look_up.in_head else dump(field_object(field, "full"))
            self._looked_up[key] = self._texts.fragment(text)
        return self._looked_up[key]

    def endpoints(self, connection: int, direction: int, batch: MessageBatch) -> int:
        """The number of the text that names both ends and the direction."""
        key = (connection, direction)
        if key not in self._endpoints:
            ends = {"client": batch.endpoints.client[connection - 1], "server": batch.endpoints.server[connection - 1]}
            self._endpoints[key] = self._texts.fragment(dump({**ends, "direction": DIRECTIONS[direction]})[1:-1])
        return self._endpoints[key]

    def collection(self, number: int, state: int, name: str) -> tuple[int, int]:
        """The numbers of the texts that name a collection, and say what its id means."""
        known = None if name == unnamed(number) else with_id(name, number)
        return self._texts.fragment(dump(name)), self._texts.fragment(dump(collection_name(number, STATE_NAMES[state], known)))

    def tables(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64], int]:
        """(programs, operations, texts, fragments, longest fragment) for the kernel."""
        counts = np.array([len(program.operations) for program in self._programs], dtype=np.int64)
        ends = np.cumsum(counts)
        programs = np.stack([ends - counts, ends], axis=1) if len(counts) else np.zeros((0, 2), dtype=np.int64)
        operations = [operation for program in self._programs for operation in program.operations]
        texts, fragments = self._texts.arrays()
        return (
            np.ascontiguousarray(programs),
            np.array(operations, dtype=np.int64).reshape(-1, 3),
            texts,
            fragments,
            self._texts.longest_fragment,
        )


def _add_hex64(builder: rt.ProgramBuilder, offset: int) -> None:
    builder.text(b'"0x')
    builder.add(rt.HEX, offset, 8)
    builder.text(b'"')


def _add_string(builder: rt.ProgramBuilder, column: str) -> None:
    builder.text(b'"')
    builder.add(rt.SPAN_TEXT, COLUMN[column])
    builder.text(b'"')


def _add_start(builder: rt.ProgramBuilder, field: FieldValue) -> None:
    """A field's object up to its hexadecimal digits, for a field whose place never changes."""
    start = {"name": field.name, "label": field.label, "offset": field.offset, "size": field.size}
    builder.text(dump(start)[:-1] + b',"hex":"')


def _add_key(builder: rt.ProgramBuilder, field: FieldValue) -> None:
    """The key among the fields: with its collection id inside, or as it is."""
    builder.text(dump({"name": field.name, "label": field.label, "offset": field.offset})[:-1] + b',"size":')
    builder.add(rt.COLUMN, COLUMN["key_length"])
    builder.text(b',"hex":"')
    builder.add(rt.SPAN_HEX, COLUMN["id_start"])
    builder.add(rt.SPAN_HEX, COLUMN["name_start"])
    builder.text(b'","value":')
    _add_string(builder, "name_start")
    builder.text(b',"meaning":')
    if not field.fields:
        builder.text(dump(field.meaning) + _mark(field) + b"}")
        return
    collection, name = field.fields
    builder.add(rt.FRAGMENT, COLUMN["collection_meaning"])
    builder.text(
        b',"fields":[' + dump({"name": collection.name, "label": collection.label, "offset": collection.offset})[:-1] + b',"size":'
    )
    builder.add(rt.COLUMN, COLUMN["id_size"])
    builder.text(b',"hex":"')
    builder.add(rt.SPAN_HEX, COLUMN["id_start"])
    builder.text(b'","value":')
    builder.add(rt.COLUMN, COLUMN["collection_id"])
    builder.text(b',"meaning":')
    builder.add(rt.FRAGMENT, COLUMN["collection_meaning"])
    builder.text(b"}," + dump({"name": name.name, "label": name.label})[:-1] + b',"offset":')
    builder.add(rt.COLUMN, COLUMN["name_at"])
    builder.text(b',"size":')
    builder.add(rt.COLUMN, COLUMN["name_length"])
    builder.text(b',"hex":"')
    builder.add(rt.SPAN_HEX, COLUMN["name_start"])
    builder.text(b'","value":')
    _add_string(builder, "name_start")
    builder.text(b',"meaning":null' + _mark(name) + b"}]}")


def _mark(field: FieldValue) -> bytes:
    """What says that bytes and value are not those of the wire."""
    return b',"redacted":true' if field.redacted else b""


def _datatype(message: Message) -> int:
    return message.header.datatype if message.header is not None else 0


def _encoding(message: Message) -> bytes:
    """What the datatype promises; a message that does not keep it goes the ordinary way."""
    return b"json" if _datatype(message) & JSON else b"text"
