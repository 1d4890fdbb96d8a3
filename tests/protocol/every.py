"""One message for each way in which the layouts say that a message is built, and for each way in
which one can fail to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from dcpinspect.protocol.features import COLLECTIONS
from dcpinspect.protocol.fields import Field, FieldKind, Layout, LayoutItem, RecordList
from dcpinspect.protocol.flex import encode_frames
from dcpinspect.protocol.header import HEADER_SIZE, Magic
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.statuses import Status
from tests.encode import encode, encode_items, encode_parts, encode_snappy

_TEXTS = {
    FieldKind.KEY: b"\x08apple",
    FieldKind.JSON: b'{"sid":7,"uid":"1f"}',
    FieldKind.DOCUMENT: b'{"sid":9}',
    FieldKind.TEXT: b"text",
    FieldKind.ERROR: b"{}",
}
_FRAMES = encode_frames([(2, b"\0\x05"), (9, b"?")])
_ODD = encode_frames([(1, b"\0"), (2, b"\0")])
COLLECTIONS_ON = (
    encode("hello", key="agent"),
    encode("hello", "response", features=[{"feature": COLLECTIONS}]),
)
"""What makes keys of all later messages begin with a collection id."""


def whole_messages() -> Iterator[bytes]:
    """For each layout messages with small numbers, and one with numbers of all bits; and what no
    layout describes.
    """
    for layout in LAYOUTS:
        yield from _messages(layout, is_small=True)
        yield next(_messages(layout, is_small=False))
    for requests, responses, codes in (
        (Magic.REQUEST, Magic.RESPONSE, (*Opcode, 0x7E)),
        (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE, (*ServerOpcode, 0x7E)),
    ):
        for magic in (requests, responses):
            for code in codes:
                yield encode_parts(magic, code)
                yield encode_parts(
                    magic, code, extras=bytes(range(7)), key=b"\x08key", value=b"value", specific=3
                )


def cut_messages() -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """Good messages with the ranges that are not there: a byte, all from there on, or all else."""
    for layout in LAYOUTS:
        for message in islice(_messages(layout, is_small=True), 1 if layout.server else 2):
            size = len(message)
            places = {HEADER_SIZE, HEADER_SIZE + len(_FRAMES), (HEADER_SIZE + size) // 2, size - 1}
            for place in sorted(place for place in places if HEADER_SIZE <= place < size):
                yield message, [(place, place + 1)]
                yield message, [(place, size)]
                yield (
                    message,
                    [
                        span
                        for span in ((HEADER_SIZE, place), (place + 1, size))
                        if span[0] < span[1]
                    ],
                )


def _messages(layout: Layout, *, is_small: bool) -> Iterator[bytes]:
    """A message of a layout: as it should be, with framing extras, refused, too long, too short,
    and compressed.
    """
    numbers = {
        name: number
        for item in (*layout.extras, *layout.value)
        for name, number in _numbers(item, is_small=is_small)
    }
    for offset, size, number in layout.when:
        numbers |= {
            field.name: number
            for field in layout.extras
            if (field.offset, field.kind.size) == (offset, size)
        }
    for item in layout.value:
        if isinstance(item, Field) and isinstance(item.size, str):
            numbers[item.size] = len(numbers[item.name])
    extras, value = encode_items(layout.extras, numbers), encode_items(layout.value, numbers)
    key = b"" if layout.key is None else _TEXTS.get(layout.key.kind, b"key")
    status = (
        layout.status[0]
        if isinstance(layout.status, tuple)
        else Status.EINVAL
        if layout.status == "error"
        else Status.SUCCESS
    )
    is_request = layout.side == "request"
    parts: dict[str, Any] = {
        "extras": extras,
        "key": key,
        "value": value,
        "specific": 3 if is_request else status,
        "opaque": 5,
        "cas": 6,
    }
    magic = (
        (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)
        if layout.server
        else (Magic.REQUEST, Magic.RESPONSE)
    )
    flexible = Magic.FLEX_REQUEST if is_request else Magic.FLEX_RESPONSE
    yield encode_parts(magic[not is_request], layout.opcode, **parts)
    for framing in () if layout.server else (_FRAMES, _ODD):
        yield encode_parts(flexible, layout.opcode, framing=framing, **parts)
    if not is_request:
        yield encode_parts(magic[1], layout.opcode, **parts | {"specific": Status.EINVAL})
        yield encode_parts(magic[1], layout.opcode, **parts | {"specific": Status.ROLLBACK})
    for section in ("extras", "key", "value"):
        for other in (parts[section] + b"?", parts[section][:-1]):
            yield encode_parts(magic[not is_request], layout.opcode, **parts | {section: other})
    for datatype in (2, 7):
        yield encode_parts(magic[not is_request], layout.opcode, datatype=datatype, **parts)
    yield encode_parts(
        magic[not is_request], layout.opcode, datatype=3, **parts | {"value": encode_snappy(value)}
    )


def _numbers(item: LayoutItem, *, is_small: bool) -> Iterator[tuple[str, Any]]:
    if isinstance(item, RecordList):
        record = {
            name: value
            for field in item.fields
            for name, value in _numbers(field, is_small=is_small)
        }
        record |= {
            field.size: len(record[field.name])
            for field in item.fields
            if isinstance(field.size, str)
        }
        yield item.name, [record, record]
    elif item.slots:
        texts: Mapping[str, Any] = {"string": "name", "bool": 1}
        yield from ((slot.name, texts.get(slot.kind, 3)) for slot in item.slots)
    elif not item.kind.size:
        yield (
            item.name,
            bytes(item.size) if isinstance(item.size, int) else _TEXTS.get(item.kind, b"\xff\x01"),
        )
    else:
        number = int.from_bytes(
            bytes(range(0xF1, 0xF1 + item.kind.size)), "big", signed=item.kind is FieldKind.I64
        )
        yield item.name, 0 if item.reserved else 1 if is_small else number
