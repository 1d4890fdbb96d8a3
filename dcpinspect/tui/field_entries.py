"""The lines of the field tree: fields, their inner values, JSON with indents, and long text in
lines as wide as the tree.

The inner lines of a line are made when the user opens it. So a value costs only what is shown of
it, however long or deep it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.field_table import offsets_text, problem_lines, value_text
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.text import cells, escape

MOST = 200
"""Greatest number of inner lines that are shown at once; the last line then offers as many more."""
_DEEPEST = 20
"""Number of levels of JSON that are indented."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{}\],:]|[^\s"\[\]{},:]++', re.DOTALL)

Kind = Literal["field", "text", "more", "problem"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the tree."""

    path: str
    """Names of the lines around this line, and its own name, separated by ``/``."""
    kind: Kind
    depth: int
    field: FieldValue | None
    """The field that the line shows, or a part of it; None if it names a problem of the message."""
    label: str = ""
    offsets: str = ""
    text: str = ""
    span: tuple[int, int] | None = None
    """Bytes of the line in the message, [start, end); None if the message has them in another form,
    such as compressed.
    """
    source: Callable[[], str] | None = None
    """Returns the text to copy; None: the field is copied."""
    inner: Callable[[int], Sequence[Entry]] | None = None
    """Returns at most so many inner lines; None if there are none."""
    is_open: bool = False
    """Whether the line is unfolded until the user folds it."""


class Entries:
    """Makes the lines of one message."""

    def __init__(self, message: Message, width: int, head: int) -> None:
        """``width``: columns of a line; ``head``: those of them before the value of a field."""
        self._message = message
        self._width = max(width, 8)
        self._head = head

    def top(self) -> list[Entry]:
        """Returns the outermost lines."""
        entries = self._fields(self._message.fields, "", MOST * MOST)
        return entries + [
            Entry(
                f"!{number}",
                "problem",
                0,
                None,
                text=text,
                inner=self._rest_entry(f"!{number}", 0, None, text),
            )
            for number, text in enumerate(problem_lines(self._message))
        ]

    # -- fields

    def _fields(self, fields: Sequence[FieldValue], above: str, limit: int) -> list[Entry]:
        seen: dict[str, int] = {}
        entries = [
            self._field(field, f"{above}{_step(field.name, seen)}") for field in fields[:limit]
        ]
        return (
            entries
            if len(fields) <= limit
            else [
                *entries,
                _more(above, fields[limit].depth, fields[limit], f"{len(fields) - limit:,} more"),
            ]
        )

    def _field(self, field: FieldValue, path: str) -> Entry:
        label = escape(field.label if field.label != "xattr" else field.name) + (
            " (unpacked)" if field.inflated and field.depth == 1 else ""
        )
        offsets = ("~" if field.inflated else "") + offsets_text(field.offset, field.size)
        span = None if field.inflated else (field.offset, field.offset + field.size)
        text = self._text(field)
        inner: Callable[[int], Sequence[Entry]] | None = None
        is_open = False
        if field.fields:
            inner, is_open = (
                partial(self._fields, field.fields, f"{path}/"),
                field.label in ("Value", "xattrs"),
            )
        elif (
            isinstance(field.value, str | bytes)
            and not field.hidden
            and (field.spec is None or not field.spec.kind.size)
        ):
            if isinstance(field.value, bytes):
                inner = self._rest_entry(path, field.depth, field, field.value.hex(" "))
            elif field.value[:64].lstrip()[:1] in ("{", "["):
                inner = partial(self._json, path, field.depth, field)
                is_open = field.name in ("value", "body")
            else:
                inner = self._rest_entry(path, field.depth, field, field.value, text)
        else:
            inner = self._rest_entry(path, field.depth, field, text)
        return Entry(
            path,
            "field",
            field.depth,
            field,
            label,
            offsets,
            text,
            span=span,
            inner=inner,
            is_open=is_open,
        )

    def _text(self, field: FieldValue) -> str:
        limit = 4 * self._width
        if (
            isinstance(field.value, str)
            and len(field.value) > limit
            and not field.missing
            and not field.hidden
        ):
            meaning = f"{field.meaning}, " if field.meaning else ""
            return f"({meaning}{field.size:,} bytes) {escape(field.value[:limit])}…"
        return value_text(field, limit)

    # -- values

    def _json(self, path: str, depth: int, field: FieldValue, limit: int) -> list[Entry]:
        """Returns the lines of a JSON text, indented; what is not shown yet is not looked at."""
        width = max(8, self._width - 2 * depth - 5)
        assert isinstance(field.value, str)
        lines = [
            line
            for long_line in islice(json_lines(field.value), limit + 1)
            for line in wrapped(long_line[: (limit + 1) * width], width)
        ]
        entries = self._text_entries(lines, path, depth, field, limit)
        return [  # of JSON a line is copied, not the whole value
            entry
            if entry.kind == "more"
            else replace(entry, source=partial(str, entry.text.strip()))
            for entry in entries
        ]

    def _rest_entry(
        self,
        path: str,
        depth: int,
        field: FieldValue | None,
        text: str,
        shown: str = "",
    ) -> Callable[[int], Sequence[Entry]] | None:
        """Returns the function that makes lines of the whole text; None if one line is enough."""
        if cells(shown or text[: 4 * self._width]) <= self._width - self._head:
            return None
        return partial(self._lines, path, depth, field, text)

    def _lines(
        self, path: str, depth: int, field: FieldValue | None, text: str, limit: int
    ) -> list[Entry]:
        width = max(8, self._width - 2 * depth - 5)
        lines = wrapped(text[: (limit + 1) * width], width)
        return self._text_entries(lines, path, depth, field, limit)

    def _text_entries(
        self, lines: Sequence[str], path: str, depth: int, field: FieldValue | None, limit: int
    ) -> list[Entry]:
        entries = [
            Entry(f"{path}/~{number}", "text", depth + 1, field, text=line)
            for number, line in enumerate(lines[:limit])
        ]
        return (
            entries
            if len(lines) <= limit
            else [*entries, _more(f"{path}/", depth + 1, field, "more")]
        )


def _step(name: str, seen: dict[str, int]) -> str:
    """Returns a name as a step of a path; with a number if earlier steps have the same name."""
    again = seen[name] = seen.get(name, -1) + 1
    escaped = name.replace("/", "\\")
    return f"{escaped}#{again}" if again else escaped


def wrapped(text: str, width: int) -> list[str]:
    """Splits a text into lines of at most ``width`` columns, safe for a terminal. Line breaks of
    the text are kept.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if paragraph.isascii() and paragraph.isprintable():
            lines += [
                paragraph[start : start + width] for start in range(0, len(paragraph), width)
            ] or [""]
            continue
        line, width_left = "", width
        # backslashes stay: this text is read by people, not compared
        for piece in (escape(text).replace("\\\\", "\\") for text in paragraph):
            size = cells(piece)
            if size > width_left and line:
                lines.append(line)
                line, width_left = "", width
            line, width_left = line + piece, width_left - size
        lines.append(line)
    return lines


def json_lines(text: str) -> Iterator[str]:
    """Yields a JSON text in lines with indents. Only blanks between its values are left out; what
    is no JSON stays as it is.
    """
    line, depth = "", 0
    for match in _TOKEN.finditer(text):
        piece, indent = match[0], "  " * min(depth, _DEEPEST)
        is_first = line.endswith(("{", "["))
        if piece in ("}", "]"):
            depth = max(0, depth - 1)
            if not is_first:
                yield line
                line = "  " * min(depth, _DEEPEST)
            line += piece
        elif piece in (",", ":"):
            line += piece if piece == "," else ": "
            if piece == ",":
                yield line
                line = indent
        else:
            if is_first:
                yield line
                line = indent
            line += piece
            depth += piece in ("{", "[")
    yield line


def _more(above: str, depth: int, field: FieldValue | None, why: str) -> Entry:
    text = f"… {why}: Enter shows them" if why.endswith("more") else f"… {why}"
    return Entry(f"{above}…", "more", depth, field, text=text)
