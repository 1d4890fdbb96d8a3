"""From an annotated message back to bytes, through the encoder: what the reading must lose nothing
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcpinspect.protocol.fields import FieldKind, LayoutItem, RecordList, fixed_size
from dcpinspect.protocol.flex import encode_frames
from dcpinspect.protocol.message import FieldValue, Message
from tests.encode import encode_items, encode_parts
from tests.protocol.vectors import frames_of


def _plain(field: FieldValue) -> Any:
    return field.raw if field.spec is not None and not field.spec.kind.size else field.value


def _numbers(fields: Sequence[FieldValue]) -> dict[str, Any]:
    return {field.name: _plain(field) for field in fields}


def _value(items: tuple[LayoutItem, ...], fields: Sequence[FieldValue], raw: bytes) -> bytes:
    """The value section from its fields; documents, texts and FlatBuffers are one field and keep
    their bytes.
    """
    if len(items) == 1 and isinstance(items[0], RecordList):
        spec = items[0]
        records = [
            {spec.fields[0].name: _plain(field)}
            if len(spec.fields) == 1
            else _numbers(field.fields)
            for field in fields
            if field.name == spec.fields[0].name or field.name.startswith(f"{spec.name}[")
        ]
        return encode_items(items, {spec.name: records})
    if (
        len(items) == 1
        and not isinstance(items[0], RecordList)
        and items[0].kind in (FieldKind.FLATBUFFER, FieldKind.SECRET)
    ):
        return raw
    return encode_items(items, _numbers(fields))


def reencode(message: Message) -> bytes:
    """The bytes of a message whose every section a layout describes."""
    header = message.header
    assert header is not None
    frames = encode_frames(frames_of(message))
    whole = message.field("framing_extras")
    layout = message.layout
    at = 24 + message.framing_size + header.extras_size
    extras = [
        field
        for field in message.fields
        if 24 + message.framing_size <= field.offset < at and field is not whole
    ]
    value = [field for field in message.fields if field.offset >= at + header.key_size]
    raw_extras, raw_value = (
        message.data[24 + message.framing_size : at],
        message.data[at + header.key_size :],
    )
    if layout is not None:
        assert fixed_size(layout.extras) == header.extras_size
        raw_extras = (
            raw_extras
            if any(field.hidden for field in extras)
            else encode_items(layout.extras, _numbers(extras))
        )
        raw_value = _value(layout.value, value, raw_value)
    key = message.field("key")
    return encode_parts(
        header.magic,
        header.opcode,
        framing=frames,
        extras=raw_extras,
        key=key.raw if key is not None else b"",
        value=raw_value,
        datatype=header.datatype,
        specific=header.specific,
        opaque=header.opaque,
        cas=header.cas,
        framing_size=header.framing_size,
    )
