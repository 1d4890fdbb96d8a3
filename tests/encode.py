"""Messages to bytes, by the tables that also decode them: the way back, which only tests go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import pack
from typing import Any

import cramjam

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.fields import (
    Field,
    FieldKind,
    Layout,
    LayoutItem,
    MessageSide,
    RecordList,
    bits_value,
)
from dcpinspect.protocol.flatbuffer import encode_table
from dcpinspect.protocol.flex import encode_frames
from dcpinspect.protocol.header import Header, Magic, encode_header
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.opcodes import opcode_code, opcode_name
from dcpinspect.protocol.statuses import SUCCESS_CLASS

_MAGICS: dict[tuple[bool, bool, MessageSide], Magic] = {
    (False, False, "request"): Magic.REQUEST,
    (False, False, "response"): Magic.RESPONSE,
    (False, True, "request"): Magic.FLEX_REQUEST,
    (False, True, "response"): Magic.FLEX_RESPONSE,
    (True, False, "request"): Magic.SERVER_REQUEST,
    (True, False, "response"): Magic.SERVER_RESPONSE,
}


def encode_parts(
    magic: int,
    opcode: int,
    *,
    framing: bytes = b"",
    extras: bytes = b"",
    key: bytes = b"",
    value: bytes = b"",
    datatype: int = 0,
    specific: int = 0,
    opaque: int = 0,
    cas: int = 0,
    framing_size: int | None = None,
) -> bytes:
    """Returns a message made of raw sections; ``specific`` is vbucket or status, ``framing_size``
    the size that the header claims.
    """
    body = framing + extras + key + value
    size = len(framing) if framing_size is None else framing_size
    return (
        encode_header(
            Header(
                magic,
                opcode,
                size,
                len(key),
                len(extras),
                datatype,
                specific,
                len(body),
                opaque,
                cas,
            )
        )
        + body
    )


def encode(
    opcode: int | str,
    side: MessageSide = "request",
    *,
    generation: str | None = None,
    server: bool = False,
    vbucket: int = 0,
    status: int = 0,
    opaque: int = 0,
    cas: int = 0,
    datatype: int = 0,
    frames: Iterable[tuple[int, bytes]] = (),
    flex: bool | None = None,
    collection: int | None = None,
    key: bytes | str = b"",
    value: bytes | str | None = None,
    **fields: Any,
) -> bytes:
    """Returns a message in one of its layouts.

    ``fields`` are the layout's numbers by name (flags also as names, enumerations as words, records
    as a list of mappings); those left out are 0. ``generation`` picks a layout, else the first that
    has all the given names. ``collection`` puts an id before the key. Raises ValueError if nothing
    fits.
    """
    code = opcode if isinstance(opcode, int) else opcode_code(opcode, server=server)
    if code is None:
        raise ValueError(f"no command is called {opcode}")
    layout = _choose(code, side, server, generation, status, fields)
    raw_key = _text(key)
    if collection is not None:
        raw_key = encode_leb128(collection) + raw_key
    framing = encode_frames(frames)
    magic = _MAGICS[server, bool(framing) if flex is None else flex, side]
    body = encode_items(layout.value, fields) if value is None else _text(value)
    extras = {
        item.size: len(_text(fields.get(item.name, b"")))
        for item in layout.value
        if isinstance(item, Field) and isinstance(item.size, str) and item.name in fields
    } | dict(fields)
    for offset, size, number in layout.when:
        extras.update(
            {
                field.name: number
                for field in layout.extras
                if (field.offset, field.kind.size) == (offset, size)
            }
        )
    return encode_parts(
        magic,
        code,
        framing=framing,
        extras=encode_items(layout.extras, extras),
        key=raw_key,
        value=body,
        datatype=datatype,
        specific=status if side == "response" else vbucket,
        opaque=opaque,
        cas=cas,
    )


def _choose(
    opcode: int,
    side: MessageSide,
    server: bool,
    generation: str | None,
    status: int,
    fields: Mapping[str, Any],
) -> Layout:
    candidates = layouts_of(opcode, side, server=server)
    if side == "response" and status not in SUCCESS_CLASS and generation is None and not fields:
        # a refusal has no extras, and any value
        return Layout(opcode, side, "error", "", server=server)
    for layout in candidates:
        if generation is not None and layout.generation != generation:
            continue
        if isinstance(layout.status, tuple) and side == "response" and status not in layout.status:
            continue
        if not set(fields) <= _names(layout):
            continue
        numbers = {
            field.name: number
            for offset, size, number in layout.when
            for field in layout.extras
            if field.offset == offset
        }
        if all(
            name not in fields or _number(_field(layout, name), fields[name]) == number
            for name, number in numbers.items()
        ):
            return layout
    name = opcode_name(opcode, server=server)
    if not candidates or (status and not fields):
        return Layout(opcode, side, generation or "raw", "", server=server)
    known_layouts = ", ".join(
        f"{layout.generation} ({', '.join(sorted(_names(layout))) or 'no fields'})"
        for layout in candidates
    )
    raise ValueError(
        f"no {side} layout of {name} has generation {generation} and the fields "
        f"{sorted(fields)}; there are: {known_layouts}"
    )


def _names(layout: Layout) -> set[str]:
    names = {item.name for item in (*layout.extras, *layout.value)}
    for item in layout.value:
        if isinstance(item, Field):
            names |= {slot.name for slot in item.slots}
    return names


def _field(layout: Layout, name: str) -> Field:
    return next(field for field in layout.extras if field.name == name)


def _number(field: Field, value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        if value.startswith("0x"):
            return int(value, 16)
        if field.values is not None:
            for number, word in field.values.items():
                if word == value:
                    return number
        raise ValueError(f"{field.name} has no value {value!r}")
    return bits_value(field.flags, value)


def encode_items(items: Sequence[LayoutItem], fields: Mapping[str, Any]) -> bytes:
    """Returns a section built of its items; numbers that are not given are 0, text that is not
    given is empty.

    The number that says how long another field is follows from that field.
    """
    lengths = {
        item.size: _text(fields.get(item.name, b""))
        for item in items
        if isinstance(item, Field) and isinstance(item.size, str)
    }
    encoded = bytearray()
    for item in items:
        if isinstance(item, RecordList):
            for record in fields.get(item.name, ()):
                encoded += encode_items(item.fields, record)
        elif item.kind is FieldKind.FLATBUFFER:
            encoded += encode_table(
                item.slots,
                {slot.name: fields[slot.name] for slot in item.slots if slot.name in fields},
            )
        elif item.kind.size:
            value = fields.get(item.name, item.default)
            if item.name in lengths and item.name not in fields:
                value = len(lengths[item.name])
            number = _number(item, value)
            encoded += number.to_bytes(item.kind.size, "big", signed=number < 0)
        else:
            text = _text(fields.get(item.name, b""))
            encoded += text.ljust(item.size, b"\0") if isinstance(item.size, int) else text
    return bytes(encoded)


def _text(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


def encode_document(
    body: bytes | str,
    *,
    xattrs: Mapping[str, str] | None = None,
    json: bool = False,
    snappy: bool = False,
) -> tuple[bytes, int]:
    """Returns (value, datatype) of a document: xattrs before the body, snappy around both."""
    value = body.encode() if isinstance(body, str) else body
    datatype = datatypes.JSON if json else 0
    if xattrs is not None:
        value = encode_xattrs((key.encode(), text.encode()) for key, text in xattrs.items()) + value
        datatype |= datatypes.XATTR
    if snappy:
        value = encode_snappy(value)
        datatype |= datatypes.SNAPPY
    return value, datatype


def encode_leb128(number: int) -> bytes:
    """Returns the shortest form of a u32; the way back from ``decode_leb128``."""
    if not 0 <= number <= 0xFFFF_FFFF:
        raise ValueError(f"{number} is not a collection id: 0 to 4294967295 are")
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def encode_snappy(data: bytes) -> bytes:
    """Returns a snappy block; the way back from ``decode_snappy``."""
    return bytes(cramjam.snappy.compress_raw(data))


def encode_xattrs(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a section of (key, value) pairs; the way back from ``decode_xattrs``."""
    section = b"".join(
        pack(">I", len(key) + len(value) + 2) + key + b"\0" + value + b"\0" for key, value in pairs
    )
    return pack(">I", len(section)) + section
