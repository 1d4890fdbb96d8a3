"""The specification's own field table of a message: label, offsets, value as on the wire, meaning.

DCP_SNAPSHOT_MARKER command (v1)
Field           (offset) (value)
Magic           (0)    : 0x80 (request)
Key length      (2,3)  : 0x0000
  Start Seqno   (24-31): 0x0000000000000001
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.text import escape

DEFAULT_LIMIT = 256
"""Number of bytes of a text or binary field that are shown by default."""

OFFSETS_WIDTH = 7
REMARKED = frozenset(
    {FieldKind.U8, FieldKind.U16, FieldKind.U32, FieldKind.U64, FieldKind.I64, FieldKind.SEQNO}
)
"""Kinds of fields whose numbers also stand in decimal behind their digits, if no other remark does.
"""


def message_title(message: Message) -> str:
    """Returns a message's heading: its name in the specification, kind, and generation."""
    if message.header is None:
        return "INCOMPLETE HEADER"
    side = "response" if message.header.side == "response" else "command"
    generation = f" ({message.generation})" if message.generation is not None else ""
    return f"{message.name.upper()} {side}{generation}"


def field_table(message: Message, *, limit: int | None = DEFAULT_LIMIT) -> list[str]:
    """Returns the lines of the table with title and heading, then the problems of the message.

    ``limit``: number of bytes of one text or binary field that are shown; None shows all.
    """
    rows = [row for field in message.fields for row in field_rows(field, limit)]
    width = label_width(rows)
    lines = [message_title(message), heading(width)]
    lines += (row_line(row, width) for row in rows)
    lines += problem_lines(message)
    return lines


FieldRow = tuple[str, str, str]
"""Label, offsets and value of a line."""


def label_width(rows: Iterable[FieldRow]) -> int:
    """Returns the width of the labels of a table in columns."""
    return max([len("Field"), *(len(label) for label, _, _ in rows)])


def heading(width: int) -> str:
    """Returns the heading above the columns of a table."""
    return f"{'Field':<{width}} (offset) (value)"


def row_line(row: FieldRow, width: int) -> str:
    """Returns a line of a table whose labels take ``width`` columns."""
    label, offsets, text = row
    return f"{label:<{width}} {offsets:<{OFFSETS_WIDTH}}: {text}".rstrip()


def problem_lines(message: Message) -> list[str]:
    """Returns a line for each problem of the message, and each part that was not captured."""
    lines = [
        (
            f"{GLYPHS[problem.severity]} {escape(problem.field)} at byte {problem.offset}: "
            f"{escape(problem.reason)}"
        )
        for problem in message.problems
    ]
    lines += [f"! bytes {start}-{end - 1} are not in the capture" for start, end in message.missing]
    return lines


def offsets_text(offset: int, size: int) -> str:
    """Writes offsets as the specification does: ``(4)``, ``(2,3)``, ``(8-11)``; ``()`` if empty."""
    if size == 0:
        return "()"
    if size == 1:
        return f"({offset})"
    return f"({offset},{offset + 1})" if size == 2 else f"({offset}-{offset + size - 1})"


def value_text(field: FieldValue, limit: int | None = DEFAULT_LIMIT) -> str:
    """Returns a field's value as in the message, followed by its meaning; safe for a terminal."""
    if field.hidden:
        return escape(field.meaning or "hidden")
    meaning = field.meaning
    if field.missing:
        held = field.raw if limit is None else field.raw[:limit]
        text = (
            "0x"
            + held.hex()
            + ("…" if len(held) < len(field.raw) else "")
            + "··" * min(field.size - len(field.raw), 16)
        )
        return f"{text} ({meaning or 'not in the capture'})"
    kind = field.spec.kind if field.spec is not None else None
    if kind is not None and kind.size:
        text = f"0x{field.raw.hex()}"
        if (
            meaning is None
            and kind in REMARKED
            and isinstance(field.value, int)
            and (field.value > 9 or field.value < 0)
        ):
            meaning = str(field.value)
    elif isinstance(field.value, bool):
        text = "true" if field.value else "false"
    elif isinstance(field.value, int):
        text = f"0x{field.raw.hex()}" if field.raw else str(field.value)
        if (
            meaning is None
            and field.raw
            and (field.value > 9 or field.value != int.from_bytes(field.raw, "big"))
        ):
            meaning = str(field.value)
    elif isinstance(field.value, str):
        text = _clipped(escape(field.value), field.value, limit)
    elif isinstance(field.value, bytes):
        held = field.value if limit is None else field.value[:limit]
        text = "0x" + held.hex() + ("…" if len(held) < len(field.value) else "")
        meaning = meaning or f"{len(field.value)} bytes"
    else:
        text = ""
    if meaning:
        text = f"{text} ({escape(meaning)})" if text else escape(meaning)
    return text


def _clipped(text: str, full_text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(full_text.encode(errors='replace'))} bytes)"


def field_rows(field: FieldValue, limit: int | None) -> Iterator[FieldRow]:
    """Yields the lines of a field and of all its inner fields."""
    inner = "~" if field.inflated else ""
    label = "  " * field.depth + escape(field.label if field.label != "xattr" else field.name)
    yield label, inner + offsets_text(field.offset, field.size), value_text(field, limit)
    for nested in field.fields:
        yield from field_rows(nested, limit)
