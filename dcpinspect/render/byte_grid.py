"""The specification's own byte grid: four bytes a row, printable bytes of keys and values with their letter.

Byte/     0       |       1       |       2       |       3       |
   /              |               |               |               |
  |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|
  +---------------+---------------+---------------+---------------+
 0| 0x80          | 0x50          | 0x00          | 0x18          |
"""

from __future__ import annotations

from dcpinspect.protocol.fields import Kind
from dcpinspect.protocol.message import FieldValue, Message

_RULE = "        " + "+---------------" * 4 + "+"
_HEAD = [
    "      Byte/     0       |       1       |       2       |       3       |",
    "         /              |               |               |               |",
    "        |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|",
    _RULE,
]


def byte_grid(message: Message, *, limit: int | None = 256) -> list[str]:
    """The lines of the grid; ``limit`` bounds the bytes shown of a key or value (None: all).

    A byte that the capture does not hold shows as ``··``, one of a credential as ``**``.
    """
    size = message.size
    cells = [f"0x{byte:02x}" for byte in message.data[:size]]
    cells += ["··"] * min(max(size - len(cells), 0), 64)
    for start, end in message.missing:
        for at in range(start, min(end, len(cells))):
            cells[at] = "··"
    shown = len(cells)
    for field in message.fields:
        for part in field.walk():
            if part.hidden:
                cells[part.offset : part.offset + part.size] = ["**"] * (min(part.offset + part.size, len(cells)) - part.offset)
        if _is_text(field):
            _letters(cells, field)
            if limit is not None and field.name == "value" and field.size > limit:
                shown = min(shown, field.offset + limit)
    out = list(_HEAD)
    for row in range(0, shown, 4):
        width = min(4, shown - row)
        out.append(f"{row:>8}|" + "".join(f" {cell:<14}|" for cell in cells[row : row + width]))
        out.append("        " + "+---------------" * width + "+")
    if shown < size:
        out.append(f"        … {size - shown} more bytes")
    return out


def _is_text(field: FieldValue) -> bool:
    if field.spec is None:
        return field.name == "logical_key"
    return field.spec.kind in (Kind.TEXT, Kind.KEY, Kind.JSON, Kind.DOCUMENT, Kind.ERROR, Kind.BYTES) and not field.hidden


def _letters(cells: list[str], field: FieldValue) -> None:
    for at in range(field.offset, min(field.offset + field.size, len(cells))):
        if cells[at].startswith("0x"):
            byte = int(cells[at], 16)
            if 0x20 <= byte < 0x7F:
                cells[at] = f"0x{byte:02x} ('{chr(byte)}')"
