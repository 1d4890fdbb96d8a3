"""The specification's own field table of a message: label, offsets, value as on the wire, meaning.

DCP_SNAPSHOT_MARKER command (v1)
Field           (offset) (value)
Magic           (0)    : 0x80 (request)
Key length      (2,3)  : 0x0000
  Start Seqno   (24-31): 0x0000000000000001
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dcpinspect.escape import escape
from dcpinspect.protocol.fields import Kind
from dcpinspect.protocol.message import FieldValue, Message

DEFAULT_LIMIT = 256
"""Bytes of a text or binary field that are shown unless the caller asks for more."""

OFFSETS_WIDTH = 7
REMARKED = frozenset({Kind.U8, Kind.U16, Kind.U32, Kind.U64, Kind.I64, Kind.SEQNO})
"""Kinds whose numbers stand in decimal behind their digits, where nothing else does."""


def message_title(message: Message) -> str:
    """The heading of a message: its name as the specification writes it, command or response, generation."""
    if message.header is None:
        return "INCOMPLETE HEADER"
    side = "response" if message.header.side == "response" else "command"
    generation = f" ({message.generation})" if message.generation is not None else ""
    return f"{message.name.upper()} {side}{generation}"


def field_table(message: Message, *, limit: int | None = DEFAULT_LIMIT) -> list[str]:
    """The lines of the table, title and heading included, then what is wrong with the message.

    ``limit`` bounds the bytes shown of one text or binary field; None shows all.
    """
    rows = [row for field in message.fields for row in field_rows(field, limit)]
    width = label_width(rows)
    out = [message_title(message), heading(width)]
    out += (row_line(row, width) for row in rows)
    out += problem_lines(message)
    return out


Row = tuple[str, str, str]
"""Label, offsets and value of a line."""


def label_width(rows: Iterable[Row]) -> int:
    """Columns that the labels of a table take."""
    return max([len("Field"), *(len(label) for label, _, _ in rows)])


def heading(width: int) -> str:
    """What stands above the columns of a table."""
    return f"{'Field':<{width}} (offset) (value)"


def row_line(row: Row, width: int) -> str:
    """A line of a table whose labels take so many columns."""
    label, offsets, text = row
    return f"{label:<{width}} {offsets:<{OFFSETS_WIDTH}}: {text}".rstrip()


def problem_lines(message: Message) -> list[str]:
    """What does not fit, and what the capture does not hold: a line each."""
    glyphs = {"error": "✖", "warning": "!", "note": "·"}
    out = [
        f"{glyphs[problem.severity]} {escape(problem.field)} at byte {problem.offset}: {escape(problem.reason)}"
        for problem in message.problems
    ]
    out += [f"! bytes {start}-{end - 1} are not in the capture" for start, end in message.missing]
    return out


def offsets_text(offset: int, size: int) -> str:
    """Offsets as the specification writes them: ``(4)``, ``(2,3)``, ``(8-11)``; ``()`` for nothing."""
    if size == 0:
        return "()"
    if size == 1:
        return f"({offset})"
    return f"({offset},{offset + 1})" if size == 2 else f"({offset}-{offset + size - 1})"


def value_text(field: FieldValue, limit: int | None = DEFAULT_LIMIT) -> str:
    """A field's value as on the wire, with what it means behind it; safe for a terminal."""
    if field.hidden:
        return escape(field.meaning or "hidden")
    meaning = field.meaning
    if field.missing:
        held = field.raw if limit is None else field.raw[:limit]
        shown = "0x" + held.hex() + ("…" if len(held) < len(field.raw) else "") + "··" * min(field.size - len(field.raw), 16)
        return f"{shown} ({meaning or 'not in the capture'})"
    kind = field.spec.kind if field.spec is not None else None
    if kind is not None and kind.size:
        shown = f"0x{field.raw.hex()}"
        if meaning is None and kind in REMARKED and isinstance(field.value, int) and (field.value > 9 or field.value < 0):
            meaning = str(field.value)
    elif isinstance(field.value, bool):
        shown = "true" if field.value else "false"
    elif isinstance(field.value, int):
        shown = f"0x{field.raw.hex()}" if field.raw else str(field.value)
        if meaning is None and field.raw and (field.value > 9 or field.value != int.from_bytes(field.raw, "big")):
            meaning = str(field.value)
    elif isinstance(field.value, str):
        shown = _clipped(escape(field.value), field.value, limit)
    elif isinstance(field.value, bytes):
        held = field.value if limit is None else field.value[:limit]
        shown = "0x" + held.hex() + ("…" if len(held) < len(field.value) else "")
        meaning = meaning or f"{len(field.value)} bytes"
    else:
        shown = ""
    if meaning:
        shown = f"{shown} ({escape(meaning)})" if shown else escape(meaning)
    return shown


def _clipped(text: str, whole: str, limit: int | None) -> str:
    return text if limit is None or len(text) <= limit else f"{text[:limit]}… ({len(whole.encode(errors='replace'))} bytes)"


def field_rows(field: FieldValue, limit: int | None) -> Iterator[Row]:
    """The lines of a field with all inside it."""
    inner = "~" if field.inflated else ""
    label = "  " * field.depth + escape(field.label if field.label != "xattr" else field.name)
    yield label, inner + offsets_text(field.offset, field.size), value_text(field, limit)
    for nested in field.fields:
        yield from field_rows(nested, limit)
