"""Lines of messages with their bytes below, many at a time. A kernel writes the same text as ``render.byte_grid.hex_dump``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dcpinspect.distinct import distinct
from dcpinspect.escape import escape
from dcpinspect.export.line_rows import LineRows, completed
from dcpinspect.export.number_text import hex_digit, put_integer
from dcpinspect.export.row_text import Texts
from dcpinspect.kernels.kernel import Ints, Octets, copy, inline, kernel
from dcpinspect.kernels.structs import Rows as Records
from dcpinspect.kernels.structs import Struct, T, Tables, number
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.secrecy import Secrecy, secrecy
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.chunk import C2S

SLICE = 1 << 12
"""Number of messages that are written at once: each takes some kilobytes."""
MAX_REMEMBERED = 1 << 14
"""Number of connections whose addresses are kept as text."""
_SMALLEST_LIMIT = 8
"""Size of the longest number in bytes: a smaller limit would cut more than keys and values."""
_HEAD_ROOM = 120
_ROW_ROOM = 84
"""Size of a row of the dump in bytes: indent, offset, digits, letters, line break."""

_HAS_ONE_VALUE = np.array(
    [*(len(layout.value) == 1 and isinstance(layout.value[0], Field) and not layout.value[0].kind.size for layout in LAYOUTS), False, False]
)
"""For each layout, whether its value is one field, so that a limit cuts it."""
_IS_OPEN = np.array([[secrecy(opcode, side) is Secrecy.OPEN for side in ("request", "response")] for opcode in range(256)], dtype=np.bool_)
"""Commands of which all bytes are shown, by opcode and by whether it is a response."""


class Dump(Struct[T]):
    """The bytes of one message, and what stands above them."""

    is_plain: T = number("Whether it is written: 0 for what is left to Python.")
    ends: T = number("Text of both addresses.")
    frame: T = number("Last frame of the message.")
    file: T = number("Text that says which file, where there are several.")
    stream_offset: T = number("Offset in the stream.")
    start: T = number("Where the message begins among the bytes of the batch.")
    length: T = number("Its bytes.")
    shown: T = number("Bytes that are drawn.")


class DumpTable(Dump[Ints], Records[Dump]):
    """Messages that are written at once."""


class DumpTables(Tables):
    """What ``write_dumps`` reads besides bytes."""

    dumps: DumpTable
    line_ends: Ints
    """End of each message's line in ``lines``."""
    text_start: Ints
    text_size: Ints

    def __init__(self, dumps: DumpTable, line_ends: Ints, texts: Ints) -> None:
        self.dumps, self.line_ends = dumps, line_ends
        self.text_start, self.text_size = np.ascontiguousarray(texts[:, 0]), np.ascontiguousarray(texts[:, 1])


@inline
def put_text_of(out: Octets, at: int, texts: Octets, tables: DumpTables, which: int) -> int:
    """Writes a text; returns the place behind it."""
    size = tables.text_size[which]
    copy(out, at, texts, tables.text_start[which], size)
    return int(at + size)


@inline
def put_eight(digits: Octets, letters: Octets, source: Octets, size: int) -> None:
    """Writes up to eight bytes as digits with blanks between, and as letters."""
    for i in range(size):
        byte = source[i]
        digits[3 * i], digits[3 * i + 1] = hex_digit(byte >> 4), hex_digit(byte & 15)
        letters[i] = byte if 0x20 <= byte < 0x7F else 46


@inline
def put_dump_row(out: Octets, at: int, data: Octets, start: int, place: int, size: int) -> int:
    """Writes up to 16 bytes of a message from ``place`` on; returns the place behind the line."""
    row, source = out[at : at + 80], data[start + place : start + place + size]
    for i in range(64):
        row[i] = 32
    for i in range(8):
        row[4 + i] = hex_digit(place >> (28 - 4 * i) & 15)
    if size == 16:  # with both numbers constant, the machine code writes all eight bytes at once
        put_eight(row[14:38], row[64:72], source[:8], 8)
        put_eight(row[39:63], row[72:80], source[8:16], 8)
    else:
        put_eight(row[14:38], row[64:72], source, min(size, 8))
        put_eight(row[39:63], row[72:80], source[8:], max(size - 8, 0))
    at += 64 + size
    while out[at - 1] == 32:
        at -= 1
    out[at] = 10
    return at + 1


@kernel("void(octets, octets, octets, DumpTables, uint8[::1], int64[::1])")
def write_dumps(lines: Octets, data: Octets, texts: Octets, tables: DumpTables, out: Octets, ends: Ints) -> None:
    """Writes the line and the bytes of each message; ``ends`` becomes the place behind each, or -1 for one that is left out.

    The caller has left room in ``out``. Time: number of written bytes.
    """
    at, line = 0, 0
    for i in range(len(tables.dumps)):
        dump, begin = tables.dumps[i], line
        line = tables.line_ends[i]
        if dump.is_plain == 0:
            ends[i] = -1
            continue
        copy(out, at, lines, begin, line - begin)
        at += line - begin
        at = put_text_of(out, at, texts, tables, dump.ends)
        at = put_integer(out, at, dump.frame)
        at = put_text_of(out, at, texts, tables, dump.file)
        at = put_text_of(out, at, texts, tables, 1)
        at = put_integer(out, at, dump.stream_offset)
        out[at] = 10
        at += 1
        for place in range(0, dump.shown, 16):
            at = put_dump_row(out, at, data, dump.start, place, min(16, dump.shown - place))
        if dump.shown < dump.length:
            at = put_text_of(out, at, texts, tables, 2)
            at = put_integer(out, at, dump.length - dump.shown)
            at = put_text_of(out, at, texts, tables, 3)
        out[at] = 10
        at += 1
        ends[i] = at


class DumpRows:
    """Writes lines with bytes below; remembers the addresses it has met."""

    def __init__(self, lines: LineRows, details: Callable[[MessageBatch, int], str], limit: int | None) -> None:
        """``details``: returns the text below one line, for messages that the kernel does not write. ``limit``: as in ``hex_dump``."""
        self._lines = lines
        self._details = details
        self._limit = limit
        self._texts = Texts()
        for text in ("", ", stream offset ", "    … ", " more bytes\n"):
            self._texts.fragment(text.encode())
        self._files: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._room = np.empty(0, np.uint8)

    def pieces(self, batch: MessageBatch, rows: Rows) -> Iterator[bytes | memoryview]:
        """Yields the lines of these messages and their bytes in order, many in a piece.

        A piece is only valid until the next one is made.
        """
        times = self._lines.lines.shown_times(batch.time_ns[rows])
        if not (self.can_write and self._lines.is_for_kernel and write_dumps.is_compiled):
            for index, shown in zip(rows.tolist(), times.tolist(), strict=True):
                yield self._ordinary(batch, index, shown)
            return
        for first in range(0, len(rows), SLICE):
            part, shown_ns = rows[first : first + SLICE], times[first : first + SLICE]
            text, ends = self.written(batch, part, shown_ns)
            if (ends >= 0).all():
                yield text.data
            else:
                yield b"".join(completed(text, ends, lambda place: self._ordinary(batch, int(part[place]), int(shown_ns[place]))))  # noqa: B023

    def _ordinary(self, batch: MessageBatch, index: int, shown_ns: int) -> bytes:
        return self._lines.ordinary(batch, index, shown_ns) + self._details(batch, index).encode()

    @property
    def can_write(self) -> bool:
        """Whether a kernel can cut bytes at this limit."""
        return self._limit is None or self._limit >= _SMALLEST_LIMIT

    def written(self, batch: MessageBatch, rows: Rows, times: Rows) -> tuple[Octets, Ints]:
        """Returns what the kernel writes for at most ``SLICE`` messages, and where each ends: -1 for a message that is left to Python.

        The result is only valid until the next call.
        """
        lines, line_ends = self._lines.written(batch, rows, times)
        dumps = self._table(batch, rows)
        texts, places = self._texts.arrays()
        drawn = int((dumps.shown * dumps.is_plain).sum())
        room = len(lines) + len(rows) * (_HEAD_ROOM + _ROW_ROOM + 4 * self._texts.longest_fragment) + (drawn // 16 + 1) * _ROW_ROOM
        if room > len(self._room):
            self._room = np.empty(room, np.uint8)
        out, ends = self._room, np.empty(len(rows), np.int64)
        write_dumps(lines, batch.data, texts, DumpTables(dumps, line_ends, places), out, ends)
        return out[: ends.max(initial=0)], ends

    def _table(self, batch: MessageBatch, rows: Rows) -> DumpTable:
        decoded, dumps = batch.decoded, DumpTable.zeros(len(rows))
        dumps.frame, dumps.stream_offset = batch.last_frame[rows], batch.stream_offset[rows]
        dumps.start, dumps.length = batch.start[rows], batch.length[rows]
        dumps.ends = self._looked_up(
            self._ends, batch.connection[rows] * 2 + batch.direction[rows], lambda pair: ends_text(batch, *divmod(pair, 2))
        )
        if len(batch.files) > 1:
            dumps.file = self._looked_up(self._files, batch.last_file[rows], lambda file: f" of {escape(batch.files[file])}")
        is_plain = decoded.fits[rows] & _IS_OPEN[decoded.opcode[rows], decoded.is_response[rows].astype(np.int64)]
        is_plain &= (decoded.problem[rows] == 0) & ~np.isin(rows, batch.missing.row)
        is_plain &= batch.length[rows] == HEADER_SIZE + decoded.body_size[rows]
        is_plain &= ~decoded.is_server[rows] & (dumps.ends >= 0) & (dumps.file >= 0)
        shown = batch.length[rows]
        if self._limit is not None:
            key_at = HEADER_SIZE + decoded.framing_size[rows] + decoded.extras_size[rows]
            value_size = decoded.value.size[rows]
            value_at = batch.length[rows] - value_size
            shown = np.where(value_size > self._limit, value_at + self._limit, shown)
            shown = np.where(value_at - key_at > self._limit, key_at + self._limit, shown)
            is_plain &= (value_size <= self._limit) | _HAS_ONE_VALUE[decoded.layout[rows]]
            is_plain &= decoded.framing_size[rows] <= self._limit
        dumps.shown = shown
        dumps.is_plain = (is_plain & (batch.redactor is None)).astype(np.int64)
        return dumps

    def _looked_up(self, known: dict[int, int], numbers: Rows, text: Callable[[int], str]) -> Rows:
        """Returns the number of the text for each number; -1 if the memory for texts is full."""
        first, inverse = distinct(numbers)
        different = numbers[first].tolist()
        for one in different:
            if one not in known and self._texts.count < MAX_REMEMBERED:
                known[one] = self._texts.fragment(text(one).encode())
        return np.array([known.get(one, -1) for one in different], dtype=np.int64)[inverse]


def ends_text(batch: MessageBatch, connection: int, direction: int) -> str:
    """Returns the text with both addresses that stands before the frame number below a line."""
    ends = batch.endpoints.client[connection - 1], batch.endpoints.server[connection - 1]
    source, target = ends if direction == C2S else ends[::-1]
    return f"    {source} > {target}, frame "
