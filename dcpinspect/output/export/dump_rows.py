"""Lines of messages with their bytes below, many at a time. A program writes the same text as
``render.byte_grid.hex_dump``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.distinct import distinct
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.line_rows import LineRows
from dcpinspect.output.export.row_text import RowWriter, completed, write_rows
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.decode import by_layout
from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.secrecy import Secrecy, secrecy
from dcpinspect.streams.tcp_facts import client_text
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import escape, words_of
from dcpinspect.transport.chunk import C2S

SLICE = 1 << 12
"""Number of messages that are written at once: each takes some kilobytes."""
MAX_REMEMBERED = 1 << 14
"""Number of connections whose addresses are kept as text."""
_SMALLEST_LIMIT = 8
"""Size of the longest number in bytes: a smaller limit would cut more than keys and values."""
_ROW_ROOM = 84
"""Size of a row of the dump in bytes: indent, offset, digits, letters, line break."""

_HAS_ONE_VALUE = by_layout(
    lambda layout: (
        len(layout.value) == 1
        and isinstance(layout.value[0], Field)
        and not layout.value[0].kind.size
    )
)
"""For each layout, whether its value is one field, so that a limit cuts it."""
_IS_OPEN = np.array(
    [
        [secrecy(opcode, side) is Secrecy.OPEN for side in ("request", "response")]
        for opcode in range(256)
    ],
    dtype=np.bool_,
)
"""Commands of which all bytes are shown, by opcode and by whether it is a response."""


_COLUMNS = words_of(
    "head_start head_size ends frame file stream_offset shown_start shown_size left_out"
)
_COLUMN = {name: number for number, name in enumerate(_COLUMNS)}


def _program(writer: RowWriter, *, is_cut: bool) -> int:
    """Returns the number of the program for the line of a message, where it was, and its bytes."""
    builder = writer.builder()
    builder.add(rt.SPAN_COPY | rt.BESIDE, _COLUMN["head_start"])
    builder.add(rt.FRAGMENT, _COLUMN["ends"])
    builder.add(rt.UNSIGNED, _COLUMN["frame"])
    builder.add(rt.FRAGMENT, _COLUMN["file"])
    builder.text(b", stream offset ")
    builder.add(rt.UNSIGNED, _COLUMN["stream_offset"])
    builder.text(b"\n")
    builder.add(rt.SPAN_DUMP, _COLUMN["shown_start"])
    if is_cut:
        builder.text("    … ".encode())
        builder.add(rt.UNSIGNED, _COLUMN["left_out"])
        builder.text(b" more bytes\n")
    builder.text(b"\n")
    return writer.add(builder)


class DumpRows:
    """Writes lines with bytes below; remembers the addresses it has met."""

    def __init__(self, lines: LineRows, limit: int | None) -> None:
        """``limit``: as in ``hex_dump``."""
        self._lines = lines
        self._limit = limit
        self._writer = RowWriter()
        self._writer.texts.fragment(b"")  # names no file
        self._whole, self._cut = (_program(self._writer, is_cut=is_cut) for is_cut in (False, True))
        self._files: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def pieces(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[bytes | memoryview]:
        """Yields the lines of these messages and their bytes in order, many in a piece. A piece is
        only valid until the next one is made.
        """
        for slice_rows, times in self._lines.slices(batch, rows, SLICE):
            text, ends = self.written(batch, slice_rows, times)
            ordinary = partial(self._lines.in_full, batch, slice_rows, times)
            is_whole = bool((ends >= 0).all())
            yield from (text.data,) if is_whole else completed(text, ends, ordinary)

    def written(
        self, batch: MessageBatch, rows: RowNumbers, times: RowNumbers
    ) -> tuple[ByteArray, IntArray]:
        """Returns what the kernel writes for at most ``SLICE`` messages, and where each ends: -1
        for a message that is left to Python.

        The result is only valid until the next call.
        """
        lines, line_ends = self._lines.written(batch, rows, times)
        columns, program = self._filled(batch, rows)
        heads = np.concatenate(([0], line_ends))
        columns[_COLUMN["head_start"]], columns[_COLUMN["head_size"]] = heads[:-1], np.diff(heads)
        drawn = int(columns[_COLUMN["shown_size"]][program >= 0].sum())
        line_size = (
            len(lines)
            + int(self._writer.sizes(program).sum())
            + len(rows) * 2 * self._writer.texts.longest_fragment
        )
        return self._writer.write(
            program,
            columns,
            (batch.data, lines),
            room=line_size + (drawn // 16 + len(rows)) * _ROW_ROOM,
        )

    def _filled(self, batch: MessageBatch, rows: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """Returns the columns but for those of lines, and the program of each message."""
        decoded, columns = batch.decoded, np.zeros((len(_COLUMNS), len(rows)), np.int64)
        files, length = np.zeros(len(rows), np.int64), batch.length[rows]
        ends = self._looked_up(
            self._ends,
            batch.connection[rows] * 2 + batch.direction[rows],
            lambda pair: ends_text(batch, *divmod(pair, 2)),
        )
        if len(batch.files) > 1:
            files = self._looked_up(
                self._files, batch.last_file[rows], lambda file: file_text(batch, file)
            )
        is_plain = (
            decoded.fits[rows]
            & _IS_OPEN[decoded.opcode[rows], decoded.is_response[rows].astype(np.int64)]
        )
        is_plain &= (decoded.problem[rows] == 0) & ~np.isin(rows, batch.missing.row)
        is_plain &= length == HEADER_SIZE + decoded.body_size[rows]
        is_plain &= ~decoded.is_server[rows] & (ends >= 0) & (files >= 0)
        shown_size = length
        if self._limit is not None:
            key_at = HEADER_SIZE + decoded.framing_size[rows] + decoded.extras_size[rows]
            value_size = decoded.value.size[rows]
            value_at = length - value_size
            shown_size = np.where(value_size > self._limit, value_at + self._limit, shown_size)
            shown_size = np.where(value_at - key_at > self._limit, key_at + self._limit, shown_size)
            is_plain &= (value_size <= self._limit) | _HAS_ONE_VALUE[decoded.layout[rows]]
            is_plain &= (decoded.framing_size[rows] <= self._limit) & (
                self._limit >= _SMALLEST_LIMIT
            )
        is_plain &= batch.redactor is None and write_rows.is_compiled
        for name, values in (
            *(
                ("ends", ends),
                ("file", files),
                ("frame", batch.last_frame[rows]),
                ("stream_offset", batch.stream_offset[rows]),
            ),
            *(
                ("shown_start", batch.start[rows]),
                ("shown_size", shown_size),
                ("left_out", length - shown_size),
            ),
        ):
            columns[_COLUMN[name]] = values
        return columns, np.where(
            is_plain, np.where(shown_size < length, self._cut, self._whole), -1
        )

    def _looked_up(
        self, known: dict[int, int], numbers: RowNumbers, text: Callable[[int], str]
    ) -> RowNumbers:
        """Returns the number of the text for each number; -1 if the memory for texts is full."""
        first, inverse = distinct(numbers)
        different = numbers[first].tolist()
        for number in different:
            if number not in known and self._writer.texts.count < MAX_REMEMBERED:
                known[number] = self._writer.texts.fragment(text(number).encode())
        return np.array([known.get(number, -1) for number in different], dtype=np.int64)[inverse]


def file_text(batch: MessageBatch, file: int) -> str:
    """Returns what names the file behind the frame number; empty where there is only one."""
    return f" of {escape(batch.files[file])}" if len(batch.files) > 1 else ""


def ends_text(batch: MessageBatch, connection: int, direction: int) -> str:
    """Returns the text with both addresses that stands before the frame number below a line."""
    client = batch.endpoints.client[connection - 1]
    origin = batch.endpoints.proxied.get(connection)
    ends = client_text(client, origin), batch.endpoints.server[connection - 1]
    source, target = ends if direction == C2S else ends[::-1]
    return f"    {source} > {target}, frame "
