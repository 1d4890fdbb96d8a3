"""Replaces what users store, who they are, and their names for things by texts that reveal nothing
but still differ from each other.

Every text is replaced but for the protocol's own words, since any peer can send any text in any
place: ``Field.is_private`` and ``Field.shown`` say which field is what. Each text becomes the first
digits of an HMAC-SHA-256 of its bytes, 32 by default. Equal texts stay equal under one salt, and without the
salt nobody finds out by trying which text it was. Numbers, lengths, ids, addresses and names of
commands stay. Of a message whose parts do not fit into it, the numbers of the body are texts, too:
nobody knows that they were meant to be numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import secrets
from collections.abc import Sequence

from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message, Problem, Value

DIGITS = 32
"""Number of digits of a replacement: 128 bits, so that two texts never share one by chance."""
_BLOCK = 64
"""Bytes of a block of SHA-256."""
_CONTAINERS = (FieldKind.DOCUMENT, FieldKind.FLATBUFFER)
"""Kinds of which no byte stays; their contents are told beside them."""
_OF_FRAMING = "bad-framing-extras"
_UNDIVIDED = (
    "length-mismatch",
    "extras-length",
    "failover-log-size",
    "cache-transfer-record",
    _OF_FRAMING,
)
"""Rules of messages whose parts do not fit: their framing extras, or all behind these."""
_QUOTING = (*_UNDIVIDED, "bad-snappy", "bad-xattr-section", "system-event-length")
"""Rules whose reasons quote what is there: lengths, and names of xattrs."""
_QUOTED = re.compile(r"b?'.*'|b?\".*\"|\d+")


class Redactor:
    """Replaces texts by one salt, which is random unless it is given."""

    def __init__(self, salt: bytes | None = None, digits: int = DIGITS) -> None:
        """``digits``: of each replacement. With 16, two of a million texts share one with a chance
        of 1 to 37 million.
        """
        self._salt = secrets.token_bytes(32) if salt is None else salt
        self._digits = digits
        # HMAC as RFC 2104 has it: what is the same for all texts is hashed once
        block = self._salt if len(self._salt) <= _BLOCK else hashlib.sha256(self._salt).digest()
        self._inner, self._outer = (
            hashlib.sha256(bytes(byte ^ pad for byte in block.ljust(_BLOCK, b"\0")))
            for pad in (0x36, 0x5C)
        )

    def __reduce__(self) -> tuple[type[Redactor], tuple[bytes, int]]:
        return Redactor, (self._salt, self._digits)

    def replacement(self, raw: bytes) -> bytes:
        """Returns the replacement of these bytes; empty if there are none."""
        if not raw:
            return b""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(raw)
        outer.update(inner.digest())
        return outer.hexdigest()[: self._digits].encode()

    def text(self, name: str) -> str:
        """Returns the replacement of a name."""
        return self.replacement(name.encode(errors="surrogateescape")).decode()

    def field_text(self, spec: Field, text: bytes, key: bytes = b"") -> bytes:
        """Returns a field's text with what is private replaced; ``key``: the message's."""
        if not spec.is_private:
            return text
        if spec.shown is None:
            return self.replacement(text)
        return spec.shown(text, key, self.replacement)

    def message(self, message: Message) -> Message:
        """Replaces what is private in a message, which nobody else may use; the bytes of the wire
        become zeros there.
        """
        data, key = bytearray(message.data), message.key or b""
        wrong = _undivided(message)
        framed = HEADER_SIZE + message.framing_size
        fields = [
            self._field(
                field,
                data,
                key,
                is_private=False,
                is_divided=field.offset < HEADER_SIZE or (field.offset < framed) not in wrong,
            )
            for field in message.fields
        ]
        changed = [
            after
            for before, after in zip(message.fields, fields, strict=True)
            if before is not after
        ]
        for field in changed:
            if field.name == "key" and message.key is not None:
                message.key = field.fields[-1].raw if field.fields else field.raw
        value = message.value
        if value is not None and (
            of_value := [field for field in changed if field.offset >= message.size - value.size]
        ):
            message.value = self._value(value, of_value[0].spec, key)
        message.fields = fields
        message.problems = [_unquoted(problem) for problem in message.problems]
        message.data = bytes(data)
        return message

    def _field(
        self, field: FieldValue, data: bytearray, key: bytes, *, is_private: bool, is_divided: bool
    ) -> FieldValue:
        """Returns the field itself, or a copy with private parts replaced; ``is_private``: the
        field around it is private, and it has no ``spec`` itself. ``key``: of the message.
        ``is_divided``: the parts of the message fit into it; if not, no number stays.
        """
        spec = field.spec
        if field.hidden:
            _overwrite(field, data)
            if spec is None or not spec.shown_members:
                return field
            return dataclasses.replace(field, meaning=f"hidden, {field.size} bytes")
        # the collection of a key, the bits of a number
        if spec is None and isinstance(field.value, int):
            return field if is_divided else self._number(field, data)
        if spec is not None:
            is_private = spec.is_private or not is_divided
            if spec.kind.size:
                return self._number(field, data) if is_private else field
        is_frames = field.name == "framing_extras"
        inner_fields = tuple(
            # Elements of framing extras: known ones say what is private in them.
            self._field(
                inner,
                data,
                key,
                is_private=is_private and not (is_frames and (inner.fields or inner.size == 1)),
                is_divided=is_divided,
            )
            for inner in field.fields
        )
        if is_private and spec is not None and spec.shown is not None:
            return self._with_own_words(field, spec, data, key)
        if (
            is_private
            and field.raw
            and (not inner_fields or spec is None or spec.kind in _CONTAINERS)
        ):
            return self._replaced(field, inner_fields, data)
        if all(before is after for before, after in zip(field.fields, inner_fields, strict=True)):
            return field
        raw = _spliced(field, inner_fields)
        value = (
            inner_fields[-1].value
            if spec is not None and spec.kind is FieldKind.KEY
            else raw
            if field.value is not None
            else None
        )
        return dataclasses.replace(field, raw=raw, value=value, fields=inner_fields)

    def _replaced(
        self, field: FieldValue, inner_fields: tuple[FieldValue, ...], data: bytearray
    ) -> FieldValue:
        """Returns a copy of a field that is private as a whole, with everything replaced."""
        name = field.name if field.label != "xattr" else self._text(field.name)
        value = self._text(field.value) if isinstance(field.value, str | bytes) else None
        _overwrite(field, data)
        return dataclasses.replace(
            field,
            name=name,
            raw=self.replacement(field.raw),
            value=value,
            fields=inner_fields,
            redacted=True,
        )

    def _with_own_words(
        self, field: FieldValue, spec: Field, data: bytearray, key: bytes
    ) -> FieldValue:
        """Returns the field itself, or a copy of which only the protocol's own words are left."""
        # Where bytes are missing there is no value; where they are compressed, only the value is
        # readable.
        text = (
            field.value
            if isinstance(field.value, bytes)
            else field.value.encode()
            if isinstance(field.value, str)
            else field.raw
        )
        public_text = self.field_text(spec, text, key)
        if public_text == text:
            return field
        _overwrite(field, data)
        value = None if field.value is None else public_text.decode(errors="replace")
        return dataclasses.replace(field, raw=public_text, value=value, redacted=True)

    def _text(self, value: str | bytes) -> str:
        return self.text(value) if isinstance(value, str) else self.replacement(value).decode()

    def _number(self, field: FieldValue, data: bytearray) -> FieldValue:
        """Returns a copy of a number that is a document, or changes one, or may be anything: no
        text can stand for it.
        """
        _overwrite(field, data)
        return dataclasses.replace(
            field,
            raw=b"",
            value=None,
            meaning=f"hidden, {field.size} bytes",
            fields=(),
            hidden=True,
            redacted=True,
        )

    def _value(self, value: Value, spec: Field | None, key: bytes) -> Value:
        body = (
            self.replacement(value.body)
            if spec is None or spec.shown is None
            else self.field_text(spec, value.body, key)
        )
        if value.encoding == "json" and not body.startswith(b"{"):
            body = b'"' + body + b'"'
        xattrs = tuple(
            (self.replacement(name), b'"' + self.replacement(text) + b'"')
            for name, text in value.xattrs
        )
        return dataclasses.replace(value, body=body, xattrs=xattrs)


def hides_numbers(message: Message) -> bool:
    """Returns whether no number behind the framing extras of a message stays."""
    return False in _undivided(message)


def _undivided(message: Message) -> set[bool]:
    """Returns which parts of a message do not fit into it: True for its framing extras, False for
    all that follows these.
    """
    return {
        problem.rule == _OF_FRAMING
        for problem in message.problems
        if problem.rule in _UNDIVIDED and problem.severity == "error"
    }


def _unquoted(problem: Problem) -> Problem:
    """Returns a problem in words that quote nothing of what is there."""
    is_of_body = problem.rule in _QUOTING and problem.offset >= HEADER_SIZE
    if is_of_body:
        return dataclasses.replace(problem, reason=_QUOTED.sub("…", problem.reason))
    return problem


def _overwrite(field: FieldValue, data: bytearray) -> None:
    """Writes zeros in the place of a field of the wire."""
    if not field.inflated:
        end = min(field.offset + field.size, len(data))
        data[field.offset : end] = bytes(max(0, end - field.offset))


def _spliced(field: FieldValue, inner_fields: Sequence[FieldValue]) -> bytes:
    """Returns the bytes of a field, with the bytes of the fields inside it in their places."""
    spliced, copied_to = b"", 0
    for before, after in zip(field.fields, inner_fields, strict=True):
        if after is not before:
            inner_start = before.offset - field.offset
            spliced += field.raw[copied_to:inner_start] + after.raw
            copied_to = inner_start + before.size
    return spliced + field.raw[copied_to:]
