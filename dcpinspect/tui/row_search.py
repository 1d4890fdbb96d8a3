"""Searches the rows of a list for the next one with a text, a pattern or bytes.

The lines or the bytes of many messages form one column of Arrow, which Arrow searches. The store
reads half a million messages a second, and a kernel makes the lines. So a search of ten million
messages takes as long as reading them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import BoolArray, give_back
from dcpinspect.errors import UsageError
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import clip, escape
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.row_index import RowIndex
from dcpinspect.tui.task import GoesOn, Task

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

PAGE, PAGE_BYTES = 1 << 14, 16 << 20
"""Number of rows that are searched at once, and greatest number of bytes of all but the last of
their messages.
"""
_NEWLINE = 10


class Matcher:
    """Finds messages by a text or a ``/regex/`` in their line, or by ``x:hex`` in their bytes."""

    def __init__(self, text: str, lines: Lines) -> None:
        """Parses the text to search for. Raises UsageError."""
        import pyarrow.compute as pc  # deferred: takes 40 ms

        from dcpinspect.output.export.line_rows import LineRows  # deferred, as above

        self._lines = LineRows(lines, lambda _batch, _index: ("", ""))
        self._is_of_bytes = text.startswith("x:")
        if self._is_of_bytes:
            try:
                needle = bytes.fromhex(text[2:])
            except ValueError:
                needle = b""
            if not needle:
                raise UsageError(
                    f"{clip(escape(text), 30)}: give pairs of hexadecimal digits, as in x:80 57"
                )
            self._find: Callable[[pa.Array], pa.Array] = partial(pc.match_substring, pattern=needle)
        elif len(text) > 2 and text.startswith("/") and text.endswith("/"):
            # ``(?m)``: each text ends with its line end, and ``$`` is to match before it
            self._find = partial(pc.match_substring_regex, pattern=f"(?m){text[1:-1]}")
        else:
            self._find = partial(pc.match_substring, pattern=text, ignore_case=True)
        try:
            self._find(pa.array([""]))
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ").replace("(?m)", "")
            raise UsageError(f"{clip(escape(text), 30)}: {escape(reason)}") from None

    def rows(self, batch: MessageBatch) -> RowNumbers:
        """Returns the rows of the messages that match."""
        if self._is_of_bytes:
            return batch.row[
                _mask(self._find(_texts(batch.data, batch.start + batch.length, pa.binary())))
            ]
        pieces = self._lines.pieces(batch, np.arange(len(batch)))
        text = np.frombuffer(b"".join(pieces), np.uint8)
        return batch.row[
            _mask(self._find(_texts(text, np.flatnonzero(text == _NEWLINE) + 1, pa.string())))
        ]


def _texts(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]], ends: RowNumbers, kind: pa.DataType
) -> pa.Array:
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(kind, len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _mask(matches: pa.Array) -> BoolArray:
    return np.asarray(matches.to_numpy(zero_copy_only=False), np.bool_)


def matching(store: Store, matcher: Matcher, rows: RowNumbers) -> RowNumbers:
    """Returns those of ``rows`` that match; dropped rows never match. Raises the same errors as
    ``Store.messages``.
    """
    rows = rows[rows >= store.first_row]
    (length,) = store.numbers(rows, ("length",))
    pages = np.split(rows, np.flatnonzero(np.diff(np.cumsum(length.values) // PAGE_BYTES)) + 1)
    return np.concatenate(
        [rows[:0], *(matcher.rows(store.messages(page)) for page in pages if len(page))]
    )


class Search:
    """Searches from the cursor on and then from the first row. Moves to the next match."""

    def __init__(self, rows: PacketList, host: Navigation) -> None:
        self._list = rows
        self._host = host
        self._task = Task(host)
        self.text = ""
        """The text that was searched for last."""

    def begin(self, text: str, *, back: bool = False) -> None:
        """Moves to the next row with the text, or to the last row before the cursor."""
        lines = Lines()
        if (first_ns := self._host.inspection.reading.first_time_ns) is not None:
            lines.start_at(first_ns)
        try:
            matcher = Matcher(text, lines)
        except UsageError as error:
            self._host.show_status(str(error))
            return
        self.text = text
        start = self._list.index.place_of(self._list.row)
        start += 0 if back else self._list.index.has(self._list.row)
        search = partial(self._match, matcher, copy(self._list.index), start, is_back=back)
        show = self._host.show_status
        self._task.begin(search, self._end, say=lambda words: show(f"searching {words}"))

    def stop(self) -> bool:
        """Stops a running search. Returns whether there was one."""
        return self._task.stop()

    def _match(
        self, matcher: Matcher, index: RowIndex, place: int, goes_on: GoesOn, *, is_back: bool
    ) -> tuple[str, int]:
        """Returns words about the next match, and its row, 0 for none. ``place``: the place in the
        list where the search begins.
        """
        before, behind = _pages(0, place), _pages(place, len(index))
        pages = [*reversed(before), *reversed(behind)] if is_back else [*behind, *before]
        text, done = escape(self.text), 0
        try:
            for start, stop in pages:
                if not goes_on(done / len(index)):
                    raise InterruptedError
                rows = matching(self._host.inspection.store, matcher, index.rows(start, stop))
                if len(rows):
                    row = int(rows[-1 if is_back else 0])
                    again = (start < place) != is_back
                    turn = f" · from the {'last' if is_back else 'first'} row again" * again
                    return f"{text} is in row {row}{turn}", row
                done += stop - start
            return f"no {text} in the {len(index):,} rows that are shown", 0
        finally:
            give_back()  # C and Arrow keep 40 MB for reuse
            pa.default_memory_pool().release_unused()

    def _end(self, words_and_row: tuple[str, int]) -> None:
        words, row = words_and_row
        if row:
            self._host.to_row(row)
        self._host.show_status(words)


def _pages(first: int, last: int) -> list[tuple[int, int]]:
    return [(start, min(start + PAGE, last)) for start in range(first, last, PAGE)]
