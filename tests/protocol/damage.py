"""Ways to damage a message, and what must hold for any reading however damaged."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message

_FLEX = (0x08, 0x18)
_WIDTHS = {
    True: {"framing": (2, 1), "key": (3, 1), "extras": (4, 1), "body": (8, 4)},
    False: {"key": (2, 2), "extras": (4, 1), "body": (8, 4)},
}


def off_by_one(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(``key+1`` …, message) for each length field of the header, one more and one less."""
    for name, (at, size) in _WIDTHS[data[0] in _FLEX].items():
        number = int.from_bytes(data[at : at + size], "big")
        for step in (1, -1):
            if 0 <= number + step < 256**size:
                yield (
                    f"{name}{step:+}",
                    data[:at] + (number + step).to_bytes(size, "big") + data[at + size :],
                )


def assert_tiles(message: Message) -> None:
    """The outermost fields cover the message, each byte once; what is announced beyond the bytes at
    hand counts too.
    """
    at = 0
    for field in message.fields:
        assert field.offset == at, (
            f"{field.name} begins at {field.offset}, the field before it ends at {at}"
        )
        at += field.size
    if message.header is not None:
        assert at == message.size
    else:
        assert at >= len(message.data)


def assert_inside(message: Message, whole: int) -> None:
    """Problems and nested fields have their places within the message."""
    for problem in message.problems:
        assert problem.reason
        assert problem.field
        assert 0 <= problem.offset <= max(message.size, whole), problem
    for field in message.fields:
        _assert_nested(field)


def _assert_nested(field: FieldValue) -> None:
    for inner in field.fields:
        if not inner.inflated and inner.size:
            assert field.offset <= inner.offset, (field.name, inner.name)
            assert inner.offset + inner.size <= field.offset + field.size, (field.name, inner.name)
        assert len(inner.raw) <= max(inner.size, 0) or inner.inflated
        if not inner.inflated:
            _assert_nested(inner)


def body_start(message: Message) -> int:
    """Where the extras begin."""
    return HEADER_SIZE + message.framing_size
