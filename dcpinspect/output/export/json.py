"""Messages as annotated JSON: one object per message, in the form that ``dcpinspect schema
message`` describes.

The form is a contract: within a version, fields are only added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from dcpinspect.output.export.bounded import command_bound
from dcpinspect.protocol.command_statuses import command_status_meaning
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.fields import Field, FieldKind, bit_names
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message, Value
from dcpinspect.protocol.statuses import status_name
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch

SCHEMA = "dcpinspect.message/2"

ValueLimit = int | Literal["full", "none"]
"""How much of a value to write: all, a number of bytes, or nothing."""

_YES_NO = {0: "no", 1: "yes"}
_SECTIONS = frozenset({"key", "value", "body", "extras", "framing_extras", "rest"})
"""Outermost fields that are not numbers of only some messages."""


def rfc3339(time_ns: int) -> str:
    """Returns a capture time with all nine digits."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


def text_or_hex(raw: bytes) -> str | dict[str, str]:
    """Returns UTF-8 as text, and anything else as an object with its hex digits."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"hex": raw.hex()}


def _file_name(path: str) -> str | dict[str, str]:
    return text_or_hex(path.encode(errors="surrogateescape"))


def message_object(
    batch: MessageBatch, index: int, *, fields: bool = True, values: ValueLimit = "full"
) -> dict[str, Any]:
    """Returns the JSON object of one message, ready for ``dump``."""
    message = batch.annotate(index)
    decoded = batch.decoded
    connection = int(batch.connection[index])
    is_response = bool(decoded.is_response[index])
    file, last_file = int(batch.file[index]), int(batch.last_file[index])
    members: dict[str, Any] = {
        "schema": SCHEMA,
        "row": int(batch.row[index]),
        "file": _file_name(batch.files[file]),
        "frame": int(batch.frame[index]),
        "last_frame": int(batch.last_frame[index]),
        "time": rfc3339(int(batch.time_ns[index])),
        "connection": connection,
        "client": batch.endpoints.client[connection - 1],
        "server": batch.endpoints.server[connection - 1],
        "direction": DIRECTIONS[int(batch.direction[index])],
        "stream_offset": int(batch.stream_offset[index]),
        "length": int(batch.length[index]),
        "side": "response" if is_response else "request",
        "magic": int(decoded.magic[index]),
        "opcode": int(decoded.opcode[index]),
        "name": message.name,
        "layout": message.generation,
        "vbucket": batch.vbucket.value_at(index),
        "status": None,
        "opaque": int(decoded.opaque[index]) if _is_shown(message, "opaque") else None,
        "cas": f"0x{int(decoded.cas[index]):016x}" if _is_shown(message, "cas") else None,
        "datatype": list(DATATYPE_NAMES[int(decoded.datatype[index])]),
        "sid": message.sid,
        "collection_id": message.collection_id,
        "collection": batch.collection_of(index),
        "key": None if message.key is None else text_or_hex(message.key),
    }
    if last_file != file:
        members["last_file"] = _file_name(batch.files[last_file])
    if batch.vbucket_from_request[index]:
        members["vbucket_from"] = "request"
    if is_response:
        code = int(decoded.specific[index])
        opcode = int(decoded.opcode[index])
        is_server = bool(decoded.is_server[index])
        members["status"] = {
            "code": code,
            "name": status_name(code),
            "meaning": command_status_meaning(opcode, code, server=is_server),
        }
        request = batch.request_row.value_at(index)
        if request is not None:
            members["request_row"] = request
            members["request_stream_offset"] = batch.request_stream_offset.value_at(index)
            members["rtt_ns"] = batch.rtt_ns.value_at(index)
    members.update(specific_numbers(message))
    members["problems"] = [
        {
            "rule": problem.rule,
            "severity": problem.severity,
            "field": problem.field,
            "offset": problem.offset,
            "reason": problem.reason,
        }
        for problem in message.problems
    ]
    members["missing"] = [list(span) for span in message.missing]
    if batch.heuristic[index]:
        members["sync"] = "heuristic"
    if fields:
        members["fields"] = [field_object(field, values) for field in message.fields]
    members["value"] = None if message.value is None else value_object(message.value, values)
    return members


def _is_shown(message: Message, name: str) -> bool:
    """Whether the capture has the field, and it is no credential: a session token stands where
    other messages have their CAS.
    """
    field = message.field(name)
    return field is not None and not field.hidden and not field.missing


def specific_numbers(message: Message) -> dict[str, Any]:
    """Returns the keys that only this kind of message has, under the names of its layout."""
    members: dict[str, Any] = {}
    for field in message.fields:
        if field.offset < HEADER_SIZE:
            continue
        if field.group:
            members.setdefault(field.group, []).append(_record(field))
        elif field.spec is not None and field.spec.kind is FieldKind.FLATBUFFER:
            members.update({slot.name: scalar_value(slot) for slot in field.fields})
        elif field.spec is not None and not field.spec.reserved and field.name not in _SECTIONS:
            members |= named_value(field)
            if field.spec.alias:
                members[field.spec.alias] = scalar_value(field)
    return members


def _record(field: FieldValue) -> Any:
    if field.spec is not None and field.spec.kind is FieldKind.FEATURE:
        return field.meaning
    if not field.fields:
        return scalar_value(field)
    return {key: value for inner in field.fields for key, value in named_value(inner).items()}


def named_value(field: FieldValue) -> dict[str, Any]:
    """Returns a value under its own key, and the name of the number beside it, if it has one."""
    members, spec = {field.name: scalar_value(field)}, field.spec
    if spec is not None and has_names(spec) and isinstance(members[field.name], int):
        word = field.word if spec.values else field.meaning
        members |= {f"{field.name}_name": word} if word else {}
    return members


def has_names(spec: Field) -> bool:
    """Returns whether numbers of a field have names, which ``NAME_name`` holds beside the number."""
    is_listed = bool(spec.values) and not (spec.words or is_worded(spec) or spec.values == _YES_NO)
    return is_listed or spec.kind in (FieldKind.COMMAND, FieldKind.STATUS)


def scalar_value(field: FieldValue) -> Any:
    """Returns a number or text as its own key has it: flags as names, enumerations as words."""
    if field.missing or field.hidden:
        return None
    spec, value = field.spec, field.value
    if spec is not None and isinstance(value, int):
        if spec.flags:
            return bit_names(spec.flags, value)
        if spec.words:
            return field.word
        if is_worded(spec):
            return (spec.values or {}).get(value, value)
    return text_or_hex(value) if isinstance(value, bytes) else value


def is_worded(spec: Field) -> bool:
    """Returns whether a seqno may be one that stands for a word, such as ``no end``: many programs
    that read JSON would round this number.
    """
    return spec.kind is FieldKind.SEQNO and spec.values is not None


def field_object(field: FieldValue, values: ValueLimit, *, is_bulk: bool = False) -> dict[str, Any]:
    """Returns the object of one field, with its inner fields, as it stands under ``fields``."""
    raw = field.raw
    is_bulk = is_bulk or field.name in ("value", "body") or field.inflated
    if is_bulk and values != "full":
        raw = raw[: values if isinstance(values, int) else 0]
    value = field.value
    if field.spec is not None and field.spec.kind is FieldKind.DOCUMENT:
        value = None  # the object under "value" has it, unwrapped
    elif isinstance(value, bytes):
        value = None  # the hex digits say everything
    elif field.spec is not None and is_worded(field.spec):
        value = scalar_value(field)
    elif is_bulk and isinstance(value, str) and values != "full":
        value = None if values == "none" else value[:values]
    members: dict[str, Any] = {
        "name": field.name,
        "label": field.label,
        "offset": field.offset,
        "size": field.size,
        "hex": None if field.hidden else raw.hex(),
        "value": value,
        "meaning": field.meaning,
    }
    if field.fields:
        members["fields"] = [field_object(inner, values, is_bulk=is_bulk) for inner in field.fields]
    if field.inflated:
        members["inflated"] = True
    if field.hidden:
        members["hidden"] = True
    if field.redacted:
        members["redacted"] = True
    if field.missing:
        members["missing"] = True
    return members


def value_object(value: Value, values: ValueLimit) -> dict[str, Any]:
    """Returns the object under ``value``."""
    members: dict[str, Any] = {"encoding": value.encoding, "compressed": None, "size": value.size}
    if value.inflated_size is not None:
        members["compressed"] = "snappy"
        members["inflated_size"] = value.inflated_size
    if value.xattrs and values != "none":
        members["xattrs"] = {
            key.decode(errors="backslashreplace"): _json_or_text(text, values)
            for key, text in value.xattrs
        }
    if values == "none" or value.encoding in ("fields", "hidden", "missing"):
        return members
    body = value.body
    if isinstance(values, int) and len(body) > values:
        members["truncated"] = True
        body = body[:values]
    if value.encoding == "json" and len(body) == len(value.body):
        members["json"] = _fragment(body)
    elif value.encoding == "binary":
        members["hex"] = body.hex()
    else:
        members["text"] = body.decode(errors="ignore")
    return members


def _json_or_text(text: bytes, values: ValueLimit) -> Any:
    import orjson

    if isinstance(values, int) and len(text) > values:
        return text[:values].decode(errors="ignore")
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text_or_hex(text)
    return _fragment(text)


def _fragment(text: bytes) -> Any:
    """Returns JSON from the network, digit for digit. Line breaks in it can only stand between
    tokens, so they are replaced by blanks.
    """
    import orjson

    return orjson.Fragment(text.replace(b"\n", b" ").replace(b"\r", b" "))


def dump(record: Any) -> bytes:
    """Returns a JSON value on one line, with nothing in it that could steer a terminal."""
    import orjson

    return steered(orjson.dumps(record))


def steered(text: bytes) -> bytes:
    """Returns JSON with escapes for characters that terminals act on."""
    return _STEERING.sub(_escaped, text)


# Characters that JSON allows unescaped in a string and that terminals act on: DEL and the C1
# controls, line separators, marks of reading order, invisible tags.
_STEERING = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c|\xf3\xa0[\x80\x81][\x80-\xbf]"
)


def _escaped(match: re.Match[bytes]) -> bytes:
    units = match[0].decode().encode("utf-16-be")
    return b"".join(
        b"\\u" + units[index : index + 2].hex().encode() for index in range(0, len(units), 2)
    )


class JsonArray:
    """A JSON array that is written while it grows, one element per line."""

    BEFORE, AFTER = b",\n", b""
    """What stands around every element in the texts that ``add`` takes."""

    def __init__(self) -> None:
        self._is_empty = True

    def add(self, text: bytes) -> bytes:
        """Returns the next piece of the array. ``text``: one element or many, with ``BEFORE`` and
        ``AFTER`` around each.
        """
        text = self._within(text)
        if not self._is_empty or not text:
            return text
        self._is_empty = False
        return b"[" + text[1:]

    def _within(self, text: bytes) -> bytes:
        """Returns as much as the output may still have."""
        if command_bound.room is None:
            return text
        # no element has an end of line
        elements = [element for element in text.split(self.BEFORE or self.AFTER) if element]
        return b"".join(
            self.BEFORE + element + self.AFTER for element in command_bound.fitting(elements)
        )

    def piece(self, elements: Iterable[bytes]) -> bytes:
        """Returns the next piece of the array, from bare elements."""
        return self.add(b"".join(self.BEFORE + element + self.AFTER for element in elements))

    def end(self) -> bytes:
        """Returns the last piece; all pieces together are valid JSON."""
        return b"[]\n" if self._is_empty else b"\n]\n"


class JsonLines(JsonArray):
    """The same elements without an array, only with line ends."""

    BEFORE, AFTER = b"", b"\n"

    def add(self, text: bytes) -> bytes:
        """Returns the text itself."""
        return self._within(text)

    def end(self) -> bytes:
        """Returns nothing."""
        return b""
