"""The JSON of many messages at once, byte for byte what ``json.message_object`` and ``json.dump`` make of each.

Most messages of a capture are alike: same command, layout, datatype, nothing wrong with them. For every
such *kind* one message is annotated and turned into an object the ordinary way; what differs from message
to message becomes an operation of a program, all the rest a constant, and a kernel writes the rows.
Whatever is not plain (damage, problems, framing extras, rare values) goes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcpinspect.export import row_text as rt
from dcpinspect.export.document_text import document_text
from dcpinspect.export.json import Values, dump, field_object, message_object, scalar_value
from dcpinspect.export.json_check import are_json
from dcpinspect.protocol.columns import Mask, Rows, numbers_at
from dcpinspect.protocol.datatype import JSON, SNAPPY, XATTR
from dcpinspect.protocol.fields import Field, Kind, Layout
from dcpinspect.protocol.header import HEADER_SIZE, Magic
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.meanings import collection_name
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.protocol.opcodes import Trait, opcode_traits
from dcpinspect.protocol.session import STATE_NAMES
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch

OUT_BYTES = 16 << 20
"""Bytes of text made at a time; one row may be longer."""
MAX_FRAGMENTS = 256
"""Different numbers of a field with words, in a batch, that get a text of their own."""
MAX_REMEMBERED = 1 << 16
"""Kinds and texts that are kept; a capture with more is made to waste memory, and its rest goes the ordinary way."""

_COLUMNS = (
    *("row", "connection", "frame", "last_frame", "time_ns", "stream_offset", "length", "vbucket", "collection_id"),
    *("request_row", "request_stream_offset", "rtt_ns", "endpoints", "collection_name"),
    # Where the key, the id before it, its name, the value stand: in the message; then place in the buffer and size.
    *("key_start", "key_size", "id_start", "id_size", "name_at", "name_start", "name_size", "value_at", "value_start", "value_size"),
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
_WORDY = frozenset({Kind.COMMAND, Kind.STATUS, Kind.FEATURE, Kind.ID, Kind.I64})
"""Kinds whose meaning is looked up."""


def _is_plain(layout: Layout) -> bool:
    """Whether messages of a layout can go the fast way: fixed numbers, perhaps a key, no value or a document."""
    fixed = all(spec.kind.size for spec in layout.extras)
    value = not layout.value or (len(layout.value) == 1 and isinstance(layout.value[0], Field) and layout.value[0].kind is Kind.DOCUMENT)
    key = layout.key is None or layout.key.kind in (Kind.KEY, Kind.TEXT)
    secret = Trait.TOKEN in opcode_traits(layout.opcode, server=layout.server)
    return fixed and value and key and not secret and not layout.legacy and layout.check is None


_PLAIN = np.array([*(_is_plain(layout) for layout in LAYOUTS), False, False], dtype=np.bool_)
_HAS_KEY = np.array([*(layout.key is not None for layout in LAYOUTS), False, False], dtype=np.bool_)
_NEEDS_KEY = np.array([*(layout.key is not None and layout.key_required for layout in LAYOUTS), False, False], dtype=np.bool_)
_HAS_VALUE = np.array([*(bool(layout.value) for layout in LAYOUTS), False, False], dtype=np.bool_)
_NEEDS_VALUE = np.array([*(bool(layout.value) and layout.value_required for layout in LAYOUTS), False, False], dtype=np.bool_)


_BODYLESS = np.array(
    [*(any(isinstance(item, Field) and item.bodyless for item in layout.value) for layout in LAYOUTS), False, False], dtype=np.bool_
)


@dataclass(frozen=True, slots=True)
class _LookUp:
    """A number whose text depends on it: where it stands, and how the text is made."""

    name: str
    offset: int
    size: int
    in_head: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of message: its program, and the texts that the program looks up."""

    number: int
    size: int
    look_ups: tuple[_LookUp, ...]


class JsonRows:
    """Writes messages of a reading as JSON; remembers the kinds it has met."""

    def __init__(self, *, fields: bool, values: Values, before: bytes = b"", after: bytes = b"") -> None:
        """``before`` and ``after`` stand around every object."""
        self._fields = fields
        self._values = values
        self._before = before
        self._after = after
        self._texts = rt.Texts()
        self._kinds: dict[int, _Kind] = {}
        self._programs: list[rt.Program] = []
        self._looked_up: dict[tuple[int, _LookUp, int], int] = {}
        self._endpoints: dict[tuple[int, int], int] = {}

    @property
    def with_fields(self) -> bool:
        """Whether objects have their field tables."""
        return self._fields

    def pieces(self, batch: MessageBatch, rows: Rows) -> Iterator[bytes]:
        """The JSON of these messages in order, many in a piece."""
        if self._values != "full" or batch.redactor is not None or not rt.write_rows.runs_compiled(len(rows)):
            yield from (self._ordinary(batch, index) for index in rows.tolist())
            return
        run = _Run(self, batch, rows)
        for first, text, ends in run.written():
            begin, at = 0, 0
            for gap in np.flatnonzero(ends < 0).tolist():
                before = int(ends[:gap].max(initial=0)) if gap else 0
                if before > begin:
                    yield text[begin:before]
                    begin = before
                yield self._ordinary(batch, int(rows[first + gap]))
                at = gap + 1
            last = int(ends[at:].max(initial=begin))
            if last > begin:
                yield text[begin:last]

    def _ordinary(self, batch: MessageBatch, index: int) -> bytes:
        return self._before + dump(message_object(batch, index, fields=self._fields, values=self._values)) + self._after

    # -- programs -------------------------------------------------------------------------------------

    def kind(self, key: int, batch: MessageBatch, index: int) -> _Kind | None:
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

    def _made_kind(self, batch: MessageBatch, index: int) -> _Kind | None:
        message = batch.annotate(index)
        if message.problems or message.missing or any(part.hidden for field in message.fields for part in field.walk()):
            return None
        if _datatype(message) & SNAPPY and message.value is not None and not message.value.body:
            return None  # nothing came out of the block, so this one does not show what others have
        builder = rt.ProgramBuilder(self._texts)
        look_ups: list[_LookUp] = []
        builder.text(self._before + b"{")
        separator = b""
        numbers = {field.name: field for field in message.fields if field.offset >= HEADER_SIZE}
        numbers |= {field.spec.alias: field for field in numbers.values() if field.spec is not None and field.spec.alias}
        for name, value in message_object(batch, index, fields=self._fields).items():
            if name in ("server", "direction"):
                continue  # the endpoints' text has them
            builder.text(separator + (b"" if name == "client" else dump(name) + b":"))
            separator = b","
            if name == "client":
                builder.add(rt.FRAGMENT, COLUMN["endpoints"])
            elif name == "fields":
                self._add_fields(builder, message, look_ups)
            elif name == "value" and message.value is not None:
                self._add_value(builder, message)
            elif name in numbers and self._add_number(builder, numbers[name], look_ups, in_head=True):
                continue
            elif not self._add_head(builder, name, value):
                builder.text(dump(value))
        builder.text(b"}" + self._after)
        program = builder.finish()
        self._programs.append(program)
        return _Kind(len(self._programs) - 1, program.size, tuple(look_ups))

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
        elif name == "key":
            _add_string(builder, "name_start")
        else:
            return False
        return True

    def _add_number(self, builder: rt.ProgramBuilder, field: FieldValue, look_ups: list[_LookUp], *, in_head: bool) -> bool:
        """A fixed-size number of the layout; False for what is none."""
        spec = field.spec
        if spec is None or not spec.kind.size:
            return False
        if spec.flags or spec.words or (not in_head and (spec.values is not None or spec.kind in _WORDY)) or spec.kind is Kind.I64:
            builder.add(rt.FRAGMENT, len(COLUMN) + len(look_ups))
            look_ups.append(_LookUp(field.name, field.offset, field.size, in_head))
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

    def _add_fields(self, builder: rt.ProgramBuilder, message: Message, look_ups: list[_LookUp]) -> None:
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
        builder.add(rt.COLUMN, COLUMN["value_size"])
        builder.text(b',"hex":"')
        builder.add(rt.SPAN_HEX, COLUMN["value_start"])
        if not datatype & SNAPPY:
            builder.text(b'","value":null,"meaning":"' + encoding + b'"}')
            return
        (body,) = field.fields
        builder.text(b'","value":null,"meaning":"snappy, ')
        builder.add(rt.COLUMN, COLUMN["body_size"])
        builder.text(b" bytes inflated, " + encoding + b'","fields":[' + dump({"name": body.name, "label": body.label, "offset": 0})[:-1])
        builder.text(b',"size":')
        builder.add(rt.COLUMN, COLUMN["body_size"])
        builder.text(b',"hex":"')
        builder.add(rt.SIDE_HEX, COLUMN["body_start"])
        builder.text(b'","value":"')
        builder.add(rt.SIDE_TEXT, COLUMN["body_start"])
        builder.text(b'","meaning":"' + encoding + b'","inflated":true}]}')

    def _add_value(self, builder: rt.ProgramBuilder, message: Message) -> None:
        datatype = _datatype(message)
        if datatype & XATTR:
            builder.add(rt.SIDE, COLUMN["object_start"])
            return
        encoding, compressed = _encoding(message), bool(datatype & SNAPPY)
        builder.text(b'{"encoding":"' + encoding + b'","compressed":' + (b'"snappy"' if compressed else b"null") + b',"size":')
        builder.add(rt.COLUMN, COLUMN["value_size"])
        if compressed:
            builder.text(b',"inflated_size":')
            builder.add(rt.COLUMN, COLUMN["body_size"])
        builder.text(b',"' + encoding + b'":' + (b"" if encoding == b"json" else b'"'))
        if compressed:
            builder.add(rt.SIDE_JSON if encoding == b"json" else rt.SIDE_TEXT, COLUMN["body_start"])
        else:
            builder.add(rt.SPAN_JSON if encoding == b"json" else rt.SPAN_TEXT, COLUMN["value_start"])
        builder.text(b"}" if encoding == b"json" else b'"}')

    # -- texts that programs look up --------------------------------------------------------------------

    def fragment(self, kind: _Kind, look_up: _LookUp, number: int, batch: MessageBatch, index: int) -> int:
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

    def collection(self, collection: int, state: int) -> int:
        """The number of the text that names a collection."""
        return self._texts.fragment(dump(collection_name(collection, STATE_NAMES[state])))

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
    builder.add(rt.COLUMN, COLUMN["key_size"])
    builder.text(b',"hex":"')
    builder.add(rt.SPAN_HEX, COLUMN["key_start"])
    builder.text(b'","value":')
    _add_string(builder, "name_start")
    builder.text(b',"meaning":')
    if not field.fields:
        builder.text(dump(field.meaning) + b"}")
        return
    collection, name = field.fields
    builder.add(rt.FRAGMENT, COLUMN["collection_name"])
    builder.text(
        b',"fields":[' + dump({"name": collection.name, "label": collection.label, "offset": collection.offset})[:-1] + b',"size":'
    )
    builder.add(rt.COLUMN, COLUMN["id_size"])
    builder.text(b',"hex":"')
    builder.add(rt.SPAN_HEX, COLUMN["id_start"])
    builder.text(b'","value":')
    builder.add(rt.COLUMN, COLUMN["collection_id"])
    builder.text(b',"meaning":')
    builder.add(rt.FRAGMENT, COLUMN["collection_name"])
    builder.text(b"}," + dump({"name": name.name, "label": name.label})[:-1] + b',"offset":')
    builder.add(rt.COLUMN, COLUMN["name_at"])
    builder.text(b',"size":')
    builder.add(rt.COLUMN, COLUMN["name_size"])
    builder.text(b',"hex":"')
    builder.add(rt.SPAN_HEX, COLUMN["name_start"])
    builder.text(b'","value":')
    _add_string(builder, "name_start")
    builder.text(b',"meaning":null}]}')


def _datatype(message: Message) -> int:
    return message.header.datatype if message.header is not None else 0


def _encoding(message: Message) -> bytes:
    """What the datatype promises; a message that does not keep it goes the ordinary way."""
    return b"json" if _datatype(message) & JSON else b"text"


class _Run:
    """One batch on its way through the kernel."""

    def __init__(self, rows_of: JsonRows, batch: MessageBatch, rows: Rows) -> None:
        self._of = rows_of
        self._batch = batch
        self._rows = rows
        self._side = bytearray()
        self._columns = np.zeros((len(COLUMN), len(rows)), dtype=np.int64)
        self._program: Rows = np.full(len(rows), -1, dtype=np.int64)
        self._size: Rows = np.zeros(len(rows), dtype=np.int64)
        self._plain = self._plain_rows()
        self._fill_columns()
        self._choose_programs()
        self._write_values()

    def written(self) -> Iterator[tuple[int, bytes, npt.NDArray[np.int64]]]:
        """(first row, text, ends) of consecutive runs of the rows."""
        programs, operations, texts, fragments, longest = self._of.tables()
        # Of each byte: two digits, those of a key twice, and at most six letters in a string.
        room = self._size + 16 * self._columns[COLUMN["length"]] + longest * (len(self._columns) - len(COLUMN) + 4)
        room += self._columns[COLUMN["field_size"]] + self._columns[COLUMN["object_size"]] + 9 * self._columns[COLUMN["body_size"]]
        side = np.frombuffer(bytes(self._side) or b"\0", np.uint8)
        total = np.cumsum(room)
        first = 0
        while first < len(self._rows):
            before = int(total[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(total, before + OUT_BYTES, side="right")))
            ends = np.full(last - first, rt.REFUSED, dtype=np.int64)
            usable = np.flatnonzero(self._program[first:last] >= 0)
            if len(usable):
                out = np.empty(int(room[first:last][usable].sum()), np.uint8)
                found = np.empty(len(usable), dtype=np.int64)
                rt.write_rows(
                    len(usable),
                    self._program[first:last][usable],
                    programs,
                    operations,
                    np.ascontiguousarray(self._columns[:, first:last][:, usable]),
                    self._batch.data,
                    side,
                    texts,
                    fragments,
                    self._batch.start[self._rows[first:last][usable]],
                    out,
                    found,
                )
                ends[usable] = found
                yield first, out[: found.max(initial=0)].tobytes(), ends
            else:
                yield first, b"", ends
            first = last

    def _plain_rows(self) -> Mask:
        """Rows that nothing is wrong with, as far as columns tell."""
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        layout = decoded.layout[rows]
        has_key, has_value = decoded.key.size[rows] > 0, decoded.value.size[rows] > 0
        plain: Mask = _PLAIN[layout] & decoded.fits[rows] & (decoded.problem[rows] == 0) & (decoded.framing_size[rows] == 0)
        plain &= (decoded.magic[rows] != Magic.FLEX_REQUEST) & (decoded.magic[rows] != Magic.FLEX_RESPONSE)
        plain &= ~batch.heuristic[rows] & (batch.file[rows] == batch.last_file[rows])
        plain &= np.where(has_key, _HAS_KEY[layout], ~_NEEDS_KEY[layout]) & np.where(has_value, _HAS_VALUE[layout], ~_NEEDS_VALUE[layout])
        plain &= ~decoded.underlying_datatype[rows]
        metadata = decoded.numbers.get("nmeta")
        if metadata is not None:
            plain &= metadata.values[rows] == 0
        if len(batch.missing.row):
            plain &= ~np.isin(rows, batch.missing.row)
        return plain

    def _set(self, name: str, values: npt.NDArray[np.generic]) -> None:
        self._columns[COLUMN[name]] = values

    def _fill_columns(self) -> None:
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        for name in ("row", "connection", "frame", "last_frame", "time_ns", "stream_offset", "length"):
            self._set(name, getattr(batch, name)[rows])
        for name in ("vbucket", "request_row", "request_stream_offset", "rtt_ns"):
            self._set(name, getattr(batch, name).values[rows].astype(np.int64))
        start = batch.start[rows]
        key_at = HEADER_SIZE + decoded.framing_size[rows] + decoded.extras_size[rows]
        name_start, name_size = decoded.key.start[rows], np.maximum(decoded.key.size[rows], 0)
        value_start = decoded.value.start[rows]
        self._set("collection_id", decoded.collection_id.values[rows].astype(np.int64))
        self._set("key_start", start + key_at)
        self._set("key_size", value_start - start - key_at)
        self._set("id_start", start + key_at)
        self._set("id_size", name_start - start - key_at)
        self._set("name_at", name_start - start)
        self._set("name_start", name_start)
        self._set("name_size", name_size)
        self._set("value_at", value_start - start)
        self._set("value_start", value_start)
        self._set("value_size", decoded.value.size[rows])
        pair = batch.connection[rows] * 2 + batch.direction[rows]
        for number in np.unique(pair).tolist():
            self._columns[COLUMN["endpoints"], pair == number] = self._of.endpoints(number // 2, number % 2, batch)
        valid = decoded.collection_id.valid
        named = np.flatnonzero(valid[rows]) if valid is not None else np.arange(len(rows))
        if len(named):
            key = self._columns[COLUMN["collection_id"]][named] * 4 + decoded.collections[rows[named]]
            numbers, inverse = np.unique(key, return_inverse=True)
            if len(numbers) > MAX_FRAGMENTS or self._of.is_full:
                self._plain[named] = False
                return
            texts = np.array([self._of.collection(number // 4, number % 4) for number in numbers.tolist()], dtype=np.int64)
            self._columns[COLUMN["collection_name"], named] = texts[inverse]

    def _choose_programs(self) -> None:
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        valid = decoded.collection_id.valid
        flags = (
            self._valid(batch.vbucket.valid),
            batch.vbucket_from_request[rows],
            self._valid(batch.request_row.valid),
            self._valid(valid),
            decoded.key.size[rows] > 0,
            decoded.value.size[rows] > 0,
        )
        key = decoded.layout[rows] << 8 | decoded.datatype[rows]
        key = key << 16 | np.where(decoded.is_response[rows], decoded.specific[rows], 0).astype(np.int64)
        key = key << 2 | decoded.collections[rows]
        for flag in flags:
            key = key << 1 | flag
        key = key << 16 | batch.file[rows]
        plain = np.flatnonzero(self._plain & (batch.file[rows] < 1 << 16))
        kinds, first, inverse = np.unique(key[plain], return_index=True, return_inverse=True)
        for number in range(len(kinds)):
            members = plain[inverse == number]
            kind = self._of.kind(int(kinds[number]), batch, int(rows[plain[first[number]]]))
            if kind is not None and self._look_up(kind, members):
                self._program[members] = kind.number
                self._size[members] = kind.size

    def _valid(self, valid: Mask | None) -> Mask:
        return np.ones(len(self._rows), dtype=np.bool_) if valid is None else valid[self._rows]

    def _look_up(self, kind: _Kind, members: Rows) -> bool:
        """Name the texts of numbers with words; False when there are too many different ones."""
        missing = len(COLUMN) + len(kind.look_ups) - len(self._columns)
        if missing > 0:
            self._columns = np.concatenate((self._columns, np.zeros((missing, len(self._rows)), dtype=np.int64)))
        for place, look_up in enumerate(kind.look_ups):
            values = numbers_at(self._batch.data, self._batch.start[self._rows[members]] + look_up.offset, look_up.size)
            numbers, first, inverse = np.unique(values, return_index=True, return_inverse=True)
            if len(numbers) > MAX_FRAGMENTS or self._of.is_full:
                return False
            texts = [
                self._of.fragment(kind, look_up, number, self._batch, int(self._rows[members[one]]))
                for number, one in zip(numbers.tolist(), first.tolist(), strict=True)
            ]
            self._columns[len(COLUMN) + place, members] = np.array(texts, dtype=np.int64)[inverse]
        return True

    def _write_values(self) -> None:
        """Check JSON, and unwrap what is compressed or has xattrs: the part of a row that Python does."""
        batch, decoded = self._batch, self._batch.decoded
        datatype = decoded.datatype[self._rows]
        with_value = (self._program >= 0) & (decoded.value.size[self._rows] > 0)
        self._program[with_value & _BODYLESS[decoded.layout[self._rows]] & (datatype & XATTR == 0)] = -1
        with_value &= self._program >= 0
        starts, sizes = self._columns[COLUMN["value_start"]], self._columns[COLUMN["value_size"]]
        bare = np.flatnonzero(with_value & (datatype == JSON))
        self._program[bare[~are_json(batch.data, starts[bare], sizes[bare])]] = -1
        compressed = with_value & (datatype & (SNAPPY | XATTR) == SNAPPY)
        data = batch.data.data.toreadonly()
        for how, unwrap in ((compressed, self._inflate), (with_value & (datatype & XATTR != 0), self._unwrap)):
            rows = np.flatnonzero(how)
            for place, start, size in zip(rows.tolist(), starts[rows].tolist(), sizes[rows].tolist(), strict=True):
                if not unwrap(place, data[start : start + size]):
                    self._program[place] = -1
        inflated = np.flatnonzero(compressed & (datatype & JSON != 0) & (self._program >= 0))
        if len(inflated):
            places, lengths = self._columns[COLUMN["body_start"]][inflated], self._columns[COLUMN["body_size"]][inflated]
            self._program[inflated[~are_json(np.frombuffer(bytes(self._side), np.uint8), places, lengths)]] = -1

    def _inflate(self, place: int, value: memoryview) -> bool:
        try:
            body = decode_snappy(value)
        except SnappyError:
            return False
        self._put("body", place, body)
        return bool(body)

    def _unwrap(self, place: int, value: memoryview) -> bool:
        row = self._rows[place]
        (spec,) = LAYOUTS[self._batch.decoded.layout[row]].value
        assert isinstance(spec, Field)
        at = int(self._columns[COLUMN["value_at"], place])
        found = document_text(spec, bytes(value), int(self._batch.decoded.datatype[row]), at, fields=self._of.with_fields)
        if found is None:
            return False
        self._put("field", place, found[0])
        self._put("object", place, found[1])
        return True

    def _put(self, name: str, place: int, text: bytes) -> None:
        self._columns[COLUMN[f"{name}_start"], place] = len(self._side)
        self._columns[COLUMN[f"{name}_size"], place] = len(text)
        self._side += text
