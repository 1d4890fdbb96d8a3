"""Searches the rows of a list for text, a pattern or bytes. It finds all matches, and reports the
next one first.

The lines or the bytes of many messages form one column of Arrow, which Arrow searches. The store
reads half a million messages a second, and a kernel makes the lines. So a search of ten million
messages takes as long as reading them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dcpinspect.arrays import BoolArray, give_back
from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import clip, escape
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.progress_text import Progress
from dcpinspect.tui.row_index import RowIndex
from dcpinspect.tui.view import Host

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


def _mask(found: pa.Array) -> BoolArray:
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


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


class _Span(NamedTuple):
    """A range of places in a list."""

    is_before: bool
    """Whether the range lies before the cursor, where it was when the search began."""
    start: int
    stop: int


@dataclass(slots=True)
class _Run:
    """One search through rows, in a thread."""

    matcher: Matcher
    index: RowIndex
    """The list as it was when the run began."""
    spans: Sequence[_Span]
    progress: Progress = field(default_factory=Progress)
    share: float = 0
    is_before: bool = False
    """Whether all rows behind the cursor have been searched."""
    is_stopped: threading.Event = field(default_factory=threading.Event)


class Search:
    """Runs one search at a time in the background, from the cursor on and then from the first row.
    Moves to the next match.
    """

    def __init__(self, rows: PacketList, host: Host) -> None:
        self._list = rows
        self._host = host
        self.text = ""
        """The text that was searched for last."""
        self._index: RowIndex | None = None  # the list that was searched
        self._last = 0  # the last row that was searched
        self._before, self._after = RowIndex(is_filtered=True), RowIndex(is_filtered=True)
        self._run: _Run | None = None
        self._steps = (
            0  # 1 or -1: the direction in which the cursor is to move once the next match is known
        )

    def begin(self, text: str, *, back: bool = False) -> None:
        """Moves to the next row with the text, or to the last row before the cursor. Matches that
        are known for the same list are kept.
        """
        index, row = self._list.index, self._list.row
        is_known = (
            text == self.text and index is self._index and (self._run is not None or self._last > 0)
        )
        position = (
            index.place_of(self._last + 1) if is_known else index.place_of(row) + index.has(row)
        )
        try:
            matcher = self._matcher(text)
        except UsageError as error:
            self._host.show_status(str(error))
            return
        self._steps = -1 if back else 1
        if not is_known:
            self.stop()
            self.text, self._index, self._last = text, index, 0
            self._before, self._after = RowIndex(is_filtered=True), RowIndex(is_filtered=True)
        self._before.drop(self._host.inspection.store.first_row)
        self._after.drop(self._host.inspection.store.first_row)
        if self._run is None and (position < len(index) or not is_known):
            spans = [
                _Span(is_before=False, start=position, stop=len(index)),
                *([] if is_known else [_Span(is_before=True, start=0, stop=position)]),
            ]
            self._run = _Run(matcher, index.snapshot(), spans)
            self._list.run_worker(partial(self._search, self._run), thread=True, group="find")
        self._go_to()

    def stop(self) -> bool:
        """Stops a running search. Returns whether there was one."""
        run, self._run = self._run, None
        if run is not None:
            run.is_stopped.set()
            self._index = None
        return run is not None

    def _matcher(self, text: str) -> Matcher:
        lines = Lines(has_names=self._list.has_names)
        first_ns = self._host.inspection.reading.first_time_ns
        if first_ns is not None:
            lines.start_at(first_ns)
        return Matcher(text, lines)

    # -- in a thread
    # --------------------------------------------------------------------------------------

    def _search(self, run: _Run) -> None:
        host, done, matches = self._host, 0, [np.empty(0, np.int64)]
        total = max(1, sum(span.stop - span.start for span in run.spans))
        try:
            for span in run.spans:
                for start in range(span.start, span.stop, PAGE):
                    if run.is_stopped.is_set():
                        return
                    rows = run.index.rows(start, min(start + PAGE, span.stop))
                    matches.append(matching(host.inspection.store, run.matcher, rows))
                    done += len(rows)
                    if run.progress.is_due:
                        host.from_thread(
                            self._add_matches, run, np.concatenate(matches), span, done / total
                        )
                        matches = matches[:1]
                host.from_thread(
                    self._add_matches, run, np.concatenate(matches), span, done / total
                )
                matches = matches[:1]
            host.from_thread(self._end, run)
        except DcpInspectError as error:
            host.from_thread(self._end, run, str(error))
        finally:
            give_back()  # C and Arrow keep 40 MB for reuse
            pa.default_memory_pool().release_unused()

    # -- what was found
    # -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._before) + len(self._after)

    def _add_matches(self, run: _Run, rows: RowNumbers, span: _Span, share: float) -> None:
        if run is self._run:
            (self._before if span.is_before else self._after).append(rows.astype(np.uint64), 0)
            run.share, run.is_before = share, span.is_before
            self._go_to()

    def _end(self, run: _Run, why: str = "") -> None:
        if run is not self._run:
            return
        self._run, self._last = None, run.index.row(len(run.index) - 1) if len(run.index) else 0
        self._go_to()
        if why:
            self._host.show_status(why)

    def _row(self, place: int) -> int:
        return (
            self._before.row(place)
            if place < len(self._before)
            else self._after.row(place - len(self._before))
        )

    def _go_to(self) -> None:
        """Moves the cursor to its next match if that is known by now, and says what was found so
        far.
        """
        row, count, steps, again = self._list.row, len(self), self._steps, ""
        below = self._before.place_of(row) + self._after.place_of(row)
        is_on = self._before.has(row) or self._after.has(row)
        if steps and count:
            position = below - 1 if steps < 0 else below + is_on
            is_whole = self._run is None
            if not 0 <= position < count and (
                is_whole
                or (
                    steps > 0
                    and self._run is not None
                    and self._run.is_before
                    and len(self._before)
                )
            ):
                position, again = (
                    position % count,
                    "from the first row again" if steps > 0 else "from the last row again",
                )
            if 0 <= position < count and (steps > 0 or is_whole):
                self._steps, below, is_on = 0, position, True
                self._host.to_row(self._row(position))
        self._show_count(below, again, is_on=is_on)

    def _show_count(self, place: int, again: str, *, is_on: bool) -> None:
        count, run = len(self), self._run
        count_text = (
            f"{place + 1:,} of {count:,} with {escape(self.text)}"
            if is_on
            else f"{count:,} found"
            if count
            else ""
        )
        if run is None and not count:
            self._host.show_status(
                f"no {escape(self.text)} in the {len(self._list.index):,} rows that are shown"
            )
            return
        running = "" if run is None else f"searching {run.progress.words(run.share)}"
        self._host.show_status(
            " · ".join(phrase for phrase in (count_text, again, running) if phrase)
        )
