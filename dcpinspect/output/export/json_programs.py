"""The JSON of many messages at once, byte for byte the same as from ``json.message_object`` and
``json.dump``.

A program writes the object of a kind of message. Operations write the parts that differ from
message to message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.json import (
    ValueLimit,
    dump,
    field_object,
    has_names,
    message_object,
    named_value,
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
from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch
from dcpinspect.text import words_of

_HEAD: dict[str, tuple[rt.ProgramPart, ...]] = {
    **{
        name: ((rt.COLUMN, COLUMN[name]),)
        for name in words_of(
            "row connection frame last_frame stream_offset length vbucket collection_id "
            "request_row request_stream_offset rtt_ns"
        )
    },
    "time": (b'"', (rt.TIME_NS, COLUMN["time_ns"]), b'Z"'),
    "opaque": ((rt.NUMBER, 12, 4),),
    "cas": (b'"0x', (rt.HEX, 16, 8), b'"'),
    "collection": ((rt.FRAGMENT, COLUMN["collection"]),),
    "key": (b'"', (rt.SPAN_TEXT, COLUMN["name_start"]), b'"'),
}
"""What writes the keys that every message has."""


class JsonRows(Programs):
    """Writes messages of a reading as JSON; remembers the kinds it has met."""

    xattrs_are_json = True

    def __init__(
        self,
        *,
        fields: bool,
        values: ValueLimit,
        before: bytes = b"",
        after: bytes = b"",
        notes: Mapping[int, str] | None = None,
    ) -> None:
        """``fields``: whether objects have field tables. ``before`` and ``after`` stand around every
        object. ``notes``: those of the user, by row.
        """
        super().__init__()
        self._fields, self._values = fields, values
        self._before, self._after = before, after
        self._notes = self.left_rows = notes or {}

    def pieces(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[bytes]:
        """Yields the JSON of these messages in order, many in a piece."""
        if self._values != "full":
            yield from (self._ordinary(batch, index) for index in rows.tolist())
            return
        run = RowRun(self, batch, rows)
        yield from run.pieces(lambda place: self._ordinary(batch, int(rows[place])))

    def _ordinary(self, batch: MessageBatch, index: int) -> bytes:
        members = message_object(batch, index, fields=self._fields, values=self._values)
        if (note := self._notes.get(members["row"])) is not None:
            members["note"] = note
        return self._before + dump(members) + self._after

    def build(
        self, builder: KindBuilder, message: Message, batch: MessageBatch, index: int
    ) -> None:
        """Writes the program for the object of a message."""
        mark = builder.mark
        numbers = {field.name: field for field in message.fields if field.offset >= HEADER_SIZE}
        numbers |= {
            field.spec.alias: field
            for field in numbers.values()
            if field.spec is not None and field.spec.alias
        }
        beside = {  # a number's text has its name
            f"{name}_name"
            for name, field in numbers.items()
            if field.spec and has_names(field.spec)
        }
        groups = {field.group for field in message.fields if field.group}
        members: dict[str, Any] = {}
        for name, value in message_object(batch, index, fields=self._fields).items():
            if name == "client":
                members[mark((rt.FRAGMENT, COLUMN["endpoints"]))] = None
            elif name == "fields":
                members[name] = [self._field(builder, field, message) for field in message.fields]
            elif name == "value" and message.value is not None:
                members[name] = self._value(
                    builder, message, is_redacted=batch.redactor is not None
                )
            elif name in numbers and _is_number(numbers[name]):
                members[name] = self._number(builder, numbers[name])
            elif name in groups:
                members[name] = [
                    {inner.name: self._number(builder, inner) for inner in field.fields}
                    for field in message.fields
                    if field.group == name
                ]
            elif name not in ("server", "direction", *beside):  # the text of both ends has these
                members[name] = mark(*_HEAD[name]) if name in _HEAD and value is not None else value
        builder.example(self._before + dump(members) + self._after)

    def _number(self, builder: KindBuilder, field: FieldValue) -> str:
        """Returns the mark for a fixed-size number of the layout."""
        spec = field.spec
        assert spec is not None, "numbers are described"
        if _is_looked_up(spec):
            return builder.look_up(field, _head_text)
        if spec.kind in (FieldKind.UUID, FieldKind.CAS):
            return builder.mark(b'"0x', (rt.HEX, field.offset, field.size), b'"')
        return builder.mark((rt.NUMBER, field.offset, field.size))

    def _field(self, builder: KindBuilder, field: FieldValue, message: Message) -> Any:
        """Returns the object of a field, or the mark for all of it."""
        members, spec = field_object(field, "full"), field.spec
        if field.name in HEADER_CONSTANTS and field.offset < HEADER_SIZE:
            return members
        if field.name == "key":
            return _key(builder, members)
        if field.name == "value":
            return _value_field(builder, members, message)
        digits = builder.mark(b'"', (rt.HEX, field.offset, field.size), b'"')
        members |= {"hex": digits, "value": None, "meaning": None}
        if field.group:
            members["fields"] = [self._field(builder, inner, message) for inner in field.fields]
            return members
        assert spec is not None, "numbers are described"
        if _is_looked_up(spec):
            return builder.look_up(field, _field_text)
        if spec.kind is FieldKind.CAS:
            members["meaning"] = builder.mark((rt.CAS_TIME, field.offset))
        elif spec.kind is FieldKind.TIME:
            members["meaning"] = builder.mark(b'"', (rt.SECONDS, field.offset), b'"')
        return members | {"value": self._number(builder, field)}

    def _value(self, builder: KindBuilder, message: Message, *, is_redacted: bool) -> Any:
        datatype = datatype_of(message)
        assert message.value is not None, "only then it is asked for"
        if message.value.encoding == "fields":
            # only the size of the value is told, and it is part of the kind
            return value_object(message.value, "full")
        encoding = encoding_of(message) if message.value.body else "text"
        members = {
            "encoding": encoding,
            "compressed": "snappy" if datatype & SNAPPY else None,
            "size": builder.number("value_length"),
        }
        if datatype & SNAPPY:
            members["inflated_size"] = builder.number("content_length")
        if datatype & XATTR:
            pairs = (rt.XATTR_MEMBERS | rt.BESIDE, COLUMN["xattrs_start"])
            members["xattrs"] = builder.mark(b"{", pairs, b"}")
        is_beside = datatype & (SNAPPY | XATTR)
        beside, where = (rt.BESIDE, "body_start") if is_beside else (0, "value_start")
        members[encoding] = (
            builder.mark((rt.SPAN_JSON | beside, COLUMN[where]))
            if encoding == "json" and not is_redacted
            else builder.mark(b'"', (rt.SPAN_TEXT | beside, COLUMN[where]), b'"')
        )
        return members

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
    """Returns a value for its own key, and what stands beside it."""
    return dump(named_value(field))[len(dump(field.name)) + 2 : -1]


def _field_text(field: FieldValue) -> bytes:
    """Returns the object of a field for the list of fields."""
    return dump(field_object(field, "full"))


def _is_looked_up(spec: Field) -> bool:
    return bool(spec.flags) or spec.values is not None or spec.kind in WORDY


def _is_number(field: FieldValue) -> bool:
    return field.spec is not None and bool(field.spec.kind.size)


def _key(builder: KindBuilder, members: dict[str, Any]) -> dict[str, Any]:
    """Returns the object of a key: with its collection id as an inner field, or as it is."""
    number = builder.number
    key_id, text = (rt.SPAN_HEX, COLUMN["id_start"]), (rt.SPAN_TEXT, COLUMN["name_start"])
    text_digits = (rt.SPAN_HEX, COLUMN["name_start"])
    members |= {
        "size": number("key_length"),
        "hex": builder.mark(b'"', key_id, text_digits, b'"'),
        "value": builder.mark(b'"', text, b'"'),
    }
    if "fields" in members:
        collection, name = members["fields"]
        members["meaning"] = builder.mark((rt.FRAGMENT, COLUMN["collection_meaning"]))
        collection |= {
            "size": number("id_size"),
            "hex": builder.mark(b'"', key_id, b'"'),
            "value": number("collection_id"),
            "meaning": members["meaning"],
        }
        name |= {
            "offset": number("name_at"),
            "size": number("name_length"),
            "hex": builder.mark(b'"', text_digits, b'"'),
            "value": members["value"],
        }
    return members


def _value_field(builder: KindBuilder, members: dict[str, Any], message: Message) -> dict[str, Any]:
    """Returns the object of a value: as it is, or unpacked."""
    encoding = encoding_of(message)

    def placed(inner: dict[str, Any], name: str, beside: int = rt.BESIDE) -> dict[str, Any]:
        digits = (rt.SPAN_HEX | beside, COLUMN[f"{name}_start"])
        return inner | {
            "offset": builder.number(f"{name}_at"),
            "size": builder.number(f"{name}_length"),
            "hex": builder.mark(b'"', digits, b'"'),
            "value": None,
        }

    members = placed(members, "value", 0) | {"meaning": encoding}
    if "fields" not in members:
        return members
    xattrs = [member for member in members["fields"] if member["name"] == "xattrs"]
    bodies = [member for member in members["fields"] if member["name"] != "xattrs"]
    members["meaning"] = builder.unpacked(message)
    pairs = builder.mark((rt.XATTR_FIELDS | rt.BESIDE, COLUMN["xattrs_start"]))
    text = builder.mark(b'"', (rt.SPAN_TEXT | rt.BESIDE, COLUMN["body_start"]), b'"')
    members["fields"] = [
        *(placed(member, "xattrs") | {"fields": [pairs]} for member in xattrs),
        *(placed(member, "body") | {"value": text, "meaning": encoding} for member in bodies),
    ]
    return members
