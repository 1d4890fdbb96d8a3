"""Searches the rows of a list for the next one with a text, a pattern or bytes.

The lines or the bytes of many messages form one column of Arrow, which Arrow searches. The store
reads half a million messages a second, and a kernel makes the lines. So a search of ten million
messages takes as long as reading them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import BoolArray, give_back
from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import clip, escape
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.progress_text import Progress
from dcpinspect.tui.row_index import RowIndex

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

PAGE, PAGE_BYTES = 1 << 14, 16 << 20
"""Number of rows that are searched at once, and greatest number of bytes of all but the last of
their messages.
"""
_NEWLINE = 10


class Matcher:
    """Finds messages with a text or a ``/regex/`` in their line, or with ``x:hex`` in their
    bytes.
    """

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
    """Runs one search at a time in the background, from the cursor on and then from the first row.
    Moves to the next match.
    """

    def __init__(self, rows: PacketList, host: Navigation) -> None:
        self._list = rows
        self._host = host
        self.text = ""
        """The text that was searched for last."""
        self._run: threading.Event | None = None
        """Set when the running search is to stop."""

    def begin(self, text: str, *, back: bool = False) -> None:
        """Moves to the next row with the text, or to the last row before the cursor."""
        lines = Lines(has_names=self._list.has_names)
        if (first_ns := self._host.inspection.reading.first_time_ns) is not None:
            lines.start_at(first_ns)
        try:
            matcher = Matcher(text, lines)
        except UsageError as error:
            self._host.show_status(str(error))
            return
        self.stop()
        self.text, self._run = text, threading.Event()
        search = partial(self._search, self._run, matcher, self._list.index.snapshot())
        start = self._list.index.place_of(self._list.row)
        start += 0 if back else self._list.index.has(self._list.row)
        self._list.run_worker(partial(search, start, is_back=back), thread=True, group="find")

    def stop(self) -> bool:
        """Stops a running search. Returns whether there was one."""
        run, self._run = self._run, None
        if run is not None:
            run.set()
        return run is not None

    def _search(
        self, run: threading.Event, matcher: Matcher, index: RowIndex, place: int, *, is_back: bool
    ) -> None:
        """Searches in a thread. ``place``: the place in the list where the search begins."""
        host, progress, done = self._host, Progress(), 0
        end = partial(host.from_thread, self._end, run)
        before, behind = _pages(0, place), _pages(place, len(index))
        pages = [*reversed(before), *reversed(behind)] if is_back else [*behind, *before]
        try:
            for start, stop in pages:
                if run.is_set():
                    return
                rows = matching(host.inspection.store, matcher, index.rows(start, stop))
                if len(rows):
                    again = (start < place) != is_back
                    turn = f" · from the {'last' if is_back else 'first'} row again" * again
                    words = f"{escape(self.text)} is in row {rows[-1 if is_back else 0]}{turn}"
                    end(words, int(rows[-1 if is_back else 0]))
                    return
                done += stop - start
                if progress.is_due:
                    words = f"searching {progress.words(done / len(index))}"
                    host.from_thread(host.show_status, words)
            end(f"no {escape(self.text)} in the {len(index):,} rows that are shown")
        except DcpInspectError as error:
            end(str(error))
        finally:
            give_back()  # C and Arrow keep 40 MB for reuse
            pa.default_memory_pool().release_unused()

    def _end(self, run: threading.Event, words: str, row: int = 0) -> None:
        if run is not self._run:
            return
        self._run = None
        if row:
            self._host.to_row(row)
        self._host.show_status(words)


def _pages(first: int, last: int) -> list[tuple[int, int]]:
    return [(start, min(start + PAGE, last)) for start in range(first, last, PAGE)]
