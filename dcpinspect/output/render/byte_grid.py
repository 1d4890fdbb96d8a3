"""The specification's own byte grid: four bytes a row, printable bytes of keys and values with
their letter.

Byte/     0       |       1       |       2       |       3       |
   /              |               |               |               |
  |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|
  +---------------+---------------+---------------+---------------+
 0| 0x80          | 0x50          | 0x00          | 0x18          |
"""

from __future__ import annotations

from dcpinspect.output.render.field_table import DEFAULT_LIMIT
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.protocol.secrecy import Secrecy, names_credentials, secrecy

_LETTERED = frozenset(
    {
        FieldKind.TEXT,
        FieldKind.KEY,
        FieldKind.JSON,
        FieldKind.DOCUMENT,
        FieldKind.ERROR,
        FieldKind.BYTES,
    }
)
_RULE = "        " + "+---------------" * 4 + "+"
_HEAD = [
    "      Byte/     0       |       1       |       2       |       3       |",
    "         /              |               |               |               |",
    "        |0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|0 1 2 3 4 5 6 7|",
    _RULE,
]

_MISSING_SHOWN = 64
"""Number of bytes behind the end of a cut message that are drawn."""


def byte_grid(message: Message, *, limit: int | None = DEFAULT_LIMIT) -> list[str]:
    """Returns the lines of the grid, which ends ``limit`` bytes into the first longer field (None:
    never).

    A byte that the capture does not have is shown as ``··``, one of a credential as ``**``, and a
    redacted one as ``##``.
    """
    cells = [
        "0x" + cell if cell[0] not in "·*#" else cell for cell in byte_cells(message, limit=limit)
    ]
    for field in message.fields:
        if _is_text(field):
            _letters(cells, field)
    lines = list(_HEAD)
    for row in range(0, len(cells), 4):
        width = min(4, len(cells) - row)
        lines.append(f"{row:>8}|" + "".join(f" {cell:<14}|" for cell in cells[row : row + width]))
        lines.append("        " + "+---------------" * width + "+")
    if len(cells) < message.size:
        lines.append(f"        … {message.size - len(cells)} more bytes")
    return lines


def byte_cells(message: Message, *, limit: int | None) -> list[str]:
    """Returns each byte of a message, up to ``limit`` bytes into the first longer field, as two
    characters: hex, or what replaces it.
    """
    cells = GridCells(message)
    shown_count = cells.count
    if limit is not None:
        shown_count = min(
            [
                shown_count,
                *(
                    field.offset + limit
                    for field in message.fields
                    if field.size > limit and field.offset >= HEADER_SIZE
                ),
            ]
        )
    return cells.between(0, shown_count)


class GridCells:
    """The bytes of a message in the form of ``byte_cells``; only requested bytes are made."""

    def __init__(self, message: Message) -> None:
        self._data = message.data
        self.count = min(message.size, len(message.data) + _MISSING_SHOWN)
        """Number of bytes that have cells."""
        self._covers = [(start, end, "··") for start, end in message.missing]
        for field in message.fields:
            for inner_field in field.walk():
                if (inner_field.redacted and not inner_field.inflated) or inner_field.hidden:
                    self._covers.append(
                        (
                            inner_field.offset,
                            inner_field.offset + inner_field.size,
                            "##" if inner_field.redacted else "**",
                        )
                    )

    def between(self, start: int, end: int) -> list[str]:
        """Returns the cells of bytes [start, end)."""
        end = min(end, self.count)
        cells = [f"{byte:02x}" for byte in self._data[start:end]]
        cells += ["··"] * (end - start - len(cells))
        for first, behind, cover in self._covers:
            _cover(cells, max(first - start, 0), behind - start, cover)
        return cells


def _cover(cells: list[str], start: int, end: int, cover: str) -> None:
    for offset in range(start, min(end, len(cells))):
        cells[offset] = cover


def _is_text(field: FieldValue) -> bool:
    if field.spec is None:
        return field.name == "logical_key"
    return (
        field.spec.kind in _LETTERED
        and field.name not in ("framing_extras", "extras")
        and not field.hidden
    )


def _letters(cells: list[str], field: FieldValue) -> None:
    for offset in range(field.offset, min(field.offset + field.size, len(cells))):
        if cells[offset].startswith("0x"):
            byte = int(cells[offset], 16)
            if 0x20 <= byte < 0x7F:
                cells[offset] = f"0x{byte:02x} ('{chr(byte)}')"


def hex_dump(message: Message, *, limit: int | None = DEFAULT_LIMIT) -> list[str]:
    """Returns the bytes as hex, 16 per line, with printable characters beside them.

    Numbers that spell a credential are covered: the grid shows them one by one, but here they could
    be read as text.
    """
    cells = byte_cells(message, limit=limit)
    header = message.header
    is_open = (
        header is not None
        and secrecy(header.opcode, header.side, server=header.is_server) is Secrecy.OPEN
    )
    if not is_open and names_credentials(message.data[HEADER_SIZE:]):
        _cover(cells, HEADER_SIZE, message.size, "**")
    lines = []
    for offset in range(0, len(cells), 16):
        row = cells[offset : offset + 16]
        characters = "".join(
            chr(int(cell, 16)) if cell[0] not in "·*#" and 0x20 <= int(cell, 16) < 0x7F else "."
            for cell in row
        )
        lines.append(
            f"{offset:08x}  {' '.join(row[:8]):<23}  {' '.join(row[8:]):<23}  {characters}"
        )
    if len(cells) < message.size:
        lines.append(f"… {message.size - len(cells)} more bytes")
    return lines
