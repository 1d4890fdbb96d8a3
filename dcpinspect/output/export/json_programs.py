"""The JSON of many messages at once, byte for byte the same as from ``json.message_object`` and
``json.dump``.

A program writes the object of a kind of message. Operations write the parts that differ from
message to message.
"""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.json import (
    ValueLimit,
    dump,
    field_object,
    is_worded,
    message_object,
    scalar_value,
    value_object,
)
from dcpinspect.output.export.row_programs import (
    COLUMN,
    HEADER_CONSTANTS,
    WORDY,
    KindBuilder,
    Programs,
    datatype_of,
    encoding_of,
)
from dcpinspect.output.export.row_run import RowRun
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.datatype import SNAPPY, XATTR
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch
from dcpinspect.text import words_of

_HEAD_COLUMNS = words_of(
    "row connection frame last_frame stream_offset length vbucket collection_id request_row "
    "request_stream_offset rtt_ns"
)


class JsonRows:
    """Writes messages of a reading as JSON; remembers the kinds it has met."""

    def __init__(
        self, *, fields: bool, values: ValueLimit, before: bytes = b"", after: bytes = b""
    ) -> None:
        """``before`` and ``after`` stand around every object."""
        self._programs = JsonPrograms(fields=fields, before=before, after=after)
        self._values = values
        self._before = before
        self._after = after

    def pieces(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[bytes]:
        """Yields the JSON of these messages in order, many in a piece."""
        if self._values != "full" or not rt.write_rows.is_compiled:
            yield from (self._ordinary(batch, index) for index in rows.tolist())
            return
        run = _JsonRun(self._programs, batch, rows)
        yield from run.pieces(lambda place: self._ordinary(batch, int(rows[place])))

    def _ordinary(self, batch: MessageBatch, index: int) -> bytes:
        return (
            self._before
            + dump(message_object(batch, index, fields=self._programs.fields, values=self._values))
            + self._after
        )


class _JsonRun(RowRun):
    """Writes the objects of messages."""

    xattrs_are_json = True


class JsonPrograms(Programs):
    """Programs for the objects of messages."""

    def __init__(self, *, fields: bool, before: bytes = b"", after: bytes = b"") -> None:
        """``fields``: whether objects have field tables. ``before``, ``after``: around objects."""
        super().__init__()
        self.fields = fields
        self._before = before
        self._after = after

    def build(
        self, builder: KindBuilder, message: Message, batch: MessageBatch, index: int
    ) -> None:
        """Writes the program for the object of a message."""
        builder.text(self._before + b"{")
        separator = b""
        numbers = {field.name: field for field in message.fields if field.offset >= HEADER_SIZE}
        numbers |= {
            field.spec.alias: field
            for field in numbers.values()
            if field.spec is not None and field.spec.alias
        }
        groups = {field.group for field in message.fields if field.group}
        for name, value in message_object(batch, index, fields=self.fields).items():
            if name in ("server", "direction"):
                continue  # the text of both endpoints includes this key
            builder.text(separator + (b"" if name == "client" else dump(name) + b":"))
            separator = b","
            if name == "client":
                builder.add(rt.FRAGMENT, COLUMN["endpoints"])
            elif name == "fields":
                self._add_fields(builder, message)
            elif name == "value" and message.value is not None:
                self._add_value(builder, message, is_redacted=batch.redactor is not None)
            elif name in numbers and self._add_number(builder, numbers[name], in_head=True):
                continue
            elif name in groups:
                self._add_log(builder, [field for field in message.fields if field.group == name])
            elif not self._add_head(builder, name, value):
                builder.text(dump(value))
        builder.text(b"}" + self._after)

    def _add_head(self, builder: rt.ProgramBuilder, name: str, value: object) -> bool:
        """Adds a key that every message has; returns False for other keys."""
        if value is None:
            return False
        if name in _HEAD_COLUMNS:
            builder.add(rt.COLUMN, COLUMN[name])
        elif name == "time":
            builder.text(b'"')
            builder.add(rt.TIME_NS, COLUMN["time_ns"])
            builder.text(b'Z"')
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

    def _add_number(self, builder: KindBuilder, field: FieldValue, *, in_head: bool) -> bool:
        """Adds a fixed-size number of the layout; returns False for other fields."""
        spec = field.spec
        if spec is None or not spec.kind.size:
            return False
        if (
            spec.flags
            or spec.words
            or is_worded(spec)
            or (not in_head and (spec.values is not None or spec.kind in WORDY))
            or spec.kind is FieldKind.I64
        ):
            builder.look_up(field, _head_text if in_head else _field_text)
            return True
        if not in_head:
            _add_start(builder, field)
            builder.add(rt.HEX, field.offset, field.size)
            builder.text(b'","value":')
        if spec.kind in (FieldKind.UUID, FieldKind.CAS):
            _add_hex64(builder, field.offset)
        else:
            builder.add(rt.NUMBER, field.offset, field.size)
        if not in_head:
            builder.text(b',"meaning":')
            if spec.kind is FieldKind.CAS:
                builder.add(rt.CAS_TIME, field.offset)
            elif spec.kind is FieldKind.TIME:
                builder.text(b'"')
                builder.add(rt.SECONDS, field.offset)
                builder.text(b'"')
            else:
                builder.text(b"null")
            builder.text(b"}")
        return True

    def _add_log(self, builder: KindBuilder, entries: list[FieldValue]) -> None:
        """Adds the entries of a log, whose numbers stand under their own keys."""
        builder.text(b"[")
        for number, entry in enumerate(entries):
            builder.text(b",{" if number else b"{")
            for index, inner in enumerate(entry.fields):
                builder.text((b"," if index else b"") + dump(inner.name) + b":")
                self._add_number(builder, inner, in_head=True)
            builder.text(b"}")
        builder.text(b"]")

    def _add_fields(self, builder: KindBuilder, message: Message) -> None:
        opening = b"["
        for field in message.fields:
            builder.text(opening)
            opening = b","
            if field.name in HEADER_CONSTANTS and field.offset < HEADER_SIZE:
                builder.text(dump(field_object(field, "full")))
            elif field.name == "key":
                _add_key(builder, field)
            elif field.name == "value":
                self._add_value_field(builder, message, field)
            elif field.group:
                _add_start(builder, field)
                builder.add(rt.HEX, field.offset, field.size)
                builder.text(b'","value":null,"meaning":null,"fields":')
                for number, inner in enumerate(field.fields):
                    builder.text(b"," if number else b"[")
                    self._add_number(builder, inner, in_head=False)
                builder.text(b"]}")
            else:
                self._add_number(builder, field, in_head=False)
        builder.text(b"]")

    def _add_value_field(
        self, builder: rt.ProgramBuilder, message: Message, field: FieldValue
    ) -> None:
        datatype = datatype_of(message)
        encoding = encoding_of(message)
        inner_fields = list(field.fields)
        _add_place(builder, field, "value")
        builder.add(rt.SPAN_HEX, COLUMN["value_start"])
        builder.text(b'","value":null,"meaning":"')
        if not inner_fields:
            builder.text(encoding + b'"' + _mark(field) + b"}")
            return
        if datatype & SNAPPY:
            builder.text(b"snappy, ")
            builder.add(rt.COLUMN, COLUMN["content_length"])
            builder.text(b" bytes inflated, ")
        xattrs = inner_fields.pop(0) if datatype & XATTR else None
        if xattrs is not None:
            count = len(xattrs.fields)
            builder.text(
                f"{count} xattr{'s' if count != 1 else ''}{', ' if inner_fields else ''}".encode()
            )
        builder.text((encoding if inner_fields else b"") + b'","fields":[')
        inflated = b',"inflated":true' if datatype & SNAPPY else b""
        if xattrs is not None:
            _add_place(builder, xattrs, "xattrs")
            builder.add(rt.SPAN_HEX | rt.BESIDE, COLUMN["xattrs_start"])
            builder.text(b'","value":null,"meaning":' + dump(xattrs.meaning) + b',"fields":[')
            builder.add(rt.XATTR_FIELDS | rt.BESIDE, COLUMN["xattrs_start"])
            builder.text(b"]" + inflated + b"}" + (b"," if inner_fields else b""))
        for body in inner_fields:
            _add_place(builder, body, "body")
            builder.add(rt.SPAN_HEX | rt.BESIDE, COLUMN["body_start"])
            builder.text(b'","value":"')
            builder.add(rt.SPAN_TEXT | rt.BESIDE, COLUMN["body_start"])
            builder.text(b'","meaning":"' + encoding + b'"' + inflated + _mark(body) + b"}")
        builder.text(b"]" + _mark(field) + b"}")

    def _add_value(
        self, builder: rt.ProgramBuilder, message: Message, *, is_redacted: bool
    ) -> None:
        datatype = datatype_of(message)
        assert message.value is not None, "only then it is asked for"
        if message.value.encoding == "fields":
            # only the size of the value is told, and it is part of the kind
            builder.text(dump(value_object(message.value, "full")))
            return
        encoding = encoding_of(message) if message.value.body else b"text"
        compressed = bool(datatype & SNAPPY)
        builder.text(
            b'{"encoding":"'
            + encoding
            + b'","compressed":'
            + (b'"snappy"' if compressed else b"null")
            + b',"size":'
        )
        builder.add(rt.COLUMN, COLUMN["value_length"])
        if compressed:
            builder.text(b',"inflated_size":')
            builder.add(rt.COLUMN, COLUMN["content_length"])
        if datatype & XATTR:
            builder.text(b',"xattrs":{')
            builder.add(rt.XATTR_MEMBERS | rt.BESIDE, COLUMN["xattrs_start"])
            builder.text(b"}")
        as_it_is = encoding == b"json" and not is_redacted
        builder.text(b',"' + encoding + b'":' + (b"" if as_it_is else b'"'))
        if datatype & (SNAPPY | XATTR):
            builder.add(
                rt.SPAN_JSON | rt.BESIDE if as_it_is else rt.SPAN_TEXT | rt.BESIDE,
                COLUMN["body_start"],
            )
        else:
            builder.add(rt.SPAN_JSON if as_it_is else rt.SPAN_TEXT, COLUMN["value_start"])
        builder.text(b"}" if as_it_is else b'"}')

    # -- texts that programs look up

    def endpoints_text(self, connection: int, direction: int, batch: MessageBatch) -> bytes:
        """Returns the keys ``client``, ``server`` and ``direction`` with their values."""
        ends = {
            "client": batch.endpoints.client[connection - 1],
            "server": batch.endpoints.server[connection - 1],
        }
        return dump({**ends, "direction": DIRECTIONS[direction]})[1:-1]

    def collection_text(self, text: str) -> bytes:
        """Returns a string."""
        return dump(text)


def _head_text(field: FieldValue) -> bytes:
    """Returns a value for its own key."""
    return dump(scalar_value(field))


def _field_text(field: FieldValue) -> bytes:
    """Returns the object of a field for the list of fields."""
    return dump(field_object(field, "full"))


def _add_hex64(builder: rt.ProgramBuilder, offset: int) -> None:
    builder.text(b'"0x')
    builder.add(rt.HEX, offset, 8)
    builder.text(b'"')


def _add_string(builder: rt.ProgramBuilder, column: str) -> None:
    builder.text(b'"')
    builder.add(rt.SPAN_TEXT, COLUMN[column])
    builder.text(b'"')


def _add_start(builder: rt.ProgramBuilder, field: FieldValue) -> None:
    """Adds a field's object up to its hexadecimal digits, for a field whose place never changes."""
    start = {"name": field.name, "label": field.label, "offset": field.offset, "size": field.size}
    builder.text(dump(start)[:-1] + b',"hex":"')


def _add_key(builder: rt.ProgramBuilder, field: FieldValue) -> None:
    """Adds the key to the fields: with its collection id as an inner field, or as it is."""
    builder.text(
        dump({"name": field.name, "label": field.label, "offset": field.offset})[:-1] + b',"size":'
    )
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
        b',"fields":['
        + dump({"name": collection.name, "label": collection.label, "offset": collection.offset})[
            :-1
        ]
        + b',"size":'
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


def _add_place(builder: rt.ProgramBuilder, field: FieldValue, columns: str) -> None:
    """Adds a field's object up to its hexadecimal digits. ``columns``: prefix of the columns that
    have its place and length.
    """
    builder.text(b'{"name":' + dump(field.name) + b',"label":' + dump(field.label) + b',"offset":')
    builder.add(rt.COLUMN, COLUMN[f"{columns}_at"])
    builder.text(b',"size":')
    builder.add(rt.COLUMN, COLUMN[f"{columns}_length"])
    builder.text(b',"hex":"')


def _mark(field: FieldValue) -> bytes:
    """Returns the mark of a field whose bytes and value were replaced."""
    return b',"redacted":true' if field.redacted else b""
