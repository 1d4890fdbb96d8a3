"""Replaces what users store, who they are, and their names for things by texts that reveal nothing but still differ from each other.

Keys, values with everything inside them, paths into documents, and names of users, agents, connections, buckets, scopes, collections and
hosts are replaced. Each becomes the first 32 digits of an HMAC-SHA-256 of its bytes. Equal texts stay equal under one salt, and without the
salt nobody finds out by trying which text it was. Numbers, lengths, ids, addresses and names of commands stay; ``Field.is_private`` says
which field is what.
"""

from __future__ import annotations

import dataclasses
import hmac
import secrets
from collections.abc import Sequence

from dcpinspect.protocol.fields import Kind
from dcpinspect.protocol.message import FieldValue, Message, Value
from dcpinspect.protocol.opcodes import Opcode

DIGITS = 32
"""Number of digits of a replacement: 128 bits, so that two texts never share one by chance."""
_NAMING_CONTROL = b"consumer_name"
"""The control key whose value is a name."""
_CONTAINERS = (Kind.DOCUMENT, Kind.FLATBUFFER)
"""Kinds of which no byte stays; their contents are told beside them."""


class Redactor:
    """Replaces texts by one salt, which is random unless it is given."""

    def __init__(self, salt: bytes | None = None) -> None:
        self._salt = secrets.token_bytes(32) if salt is None else salt

    def replacement(self, raw: bytes) -> bytes:
        """Returns the replacement of these bytes; empty if there are none."""
        return hmac.digest(self._salt, raw, "sha256").hex()[:DIGITS].encode() if raw else b""

    def text(self, name: str) -> str:
        """Returns the replacement of a name."""
        return self.replacement(name.encode(errors="surrogateescape")).decode()

    def message(self, message: Message) -> Message:
        """Replaces what is private in a message, which nobody else may use; the bytes of the wire become zeros there."""
        data = bytearray(message.data)
        fields = [self._field(field, data, is_private=False) for field in message.fields]
        if message.key == _NAMING_CONTROL and message.header is not None and message.header.opcode == Opcode.DCP_CONTROL:
            fields = [self._replaced(field, (), data) if field.name == "value" and field.raw else field for field in fields]
        changed = [after for before, after in zip(message.fields, fields, strict=True) if before is not after]
        if message.key is not None and any(field.name == "key" for field in changed):
            message.key = self.replacement(message.key)
        value = message.value
        if value is not None and any(field.offset >= message.size - value.size for field in changed):
            message.value = self._value(value)
        message.fields = fields
        message.data = bytes(data)
        return message

    def _field(self, field: FieldValue, data: bytearray, *, is_private: bool) -> FieldValue:
        """Returns the field itself, or a copy with private parts replaced; ``is_private``: the field around it is private, and it has no
        ``spec`` itself."""
        spec = field.spec
        if field.hidden:
            _overwrite(field, data)
            return field if spec is None or not spec.told else dataclasses.replace(field, meaning=f"hidden, {field.size} bytes")
        if spec is None and isinstance(field.value, int):  # the collection of a key, the bits of a number
            return field
        if spec is not None:
            is_private = spec.is_private or spec.kind is Kind.FLATBUFFER
            if spec.kind.size:
                return self._number(field, data) if is_private else field
        is_frames = field.name == "framing_extras"
        parts = tuple(
            # Elements of framing extras: known ones say what is private in them.
            self._field(part, data, is_private=is_private and not (is_frames and (part.fields or part.size == 1)))
            for part in field.fields
        )
        if is_private and field.raw and (not parts or spec is None or spec.kind in _CONTAINERS):
            return self._replaced(field, parts, data)
        if all(before is after for before, after in zip(field.fields, parts, strict=True)):
            return field
        raw = _spliced(field, parts)
        value = parts[-1].value if spec is not None and spec.kind is Kind.KEY else raw if field.value is not None else None
        return dataclasses.replace(field, raw=raw, value=value, fields=parts)

    def _replaced(self, field: FieldValue, parts: tuple[FieldValue, ...], data: bytearray) -> FieldValue:
        """Returns a copy of a field that is private as a whole, with everything replaced."""
        name = field.name if field.label != "xattr" else self._text(field.name)
        value = self._text(field.value) if isinstance(field.value, str | bytes) else None
        _overwrite(field, data)
        return dataclasses.replace(field, name=name, raw=self.replacement(field.raw), value=value, fields=parts, redacted=True)

    def _text(self, value: str | bytes) -> str:
        return self.text(value) if isinstance(value, str) else self.replacement(value).decode()

    def _number(self, field: FieldValue, data: bytearray) -> FieldValue:
        """Returns a copy of a number that is a document, or changes one: no text can stand for it."""
        _overwrite(field, data)
        return dataclasses.replace(field, raw=b"", value=None, meaning=f"hidden, {field.size} bytes", hidden=True, redacted=True)

    def _value(self, value: Value) -> Value:
        body = self.replacement(value.body)
        if value.encoding == "json":
            body = b'"' + body + b'"'
        xattrs = tuple((self.replacement(name), b'"' + self.replacement(text) + b'"') for name, text in value.xattrs)
        return dataclasses.replace(value, body=body, xattrs=xattrs)


def _overwrite(field: FieldValue, data: bytearray) -> None:
    """Writes zeros in the place of a field of the wire."""
    if not field.inflated:
        end = min(field.offset + field.size, len(data))
        data[field.offset : end] = bytes(max(0, end - field.offset))


def _spliced(field: FieldValue, parts: Sequence[FieldValue]) -> bytes:
    """Returns the bytes of a field, with the bytes of the fields inside it in their places."""
    out, at = b"", 0
    for before, after in zip(field.fields, parts, strict=True):
        if after is not before:
            place = before.offset - field.offset
            out += field.raw[at:place] + after.raw
            at = place + before.size
    return out + field.raw[at:]
