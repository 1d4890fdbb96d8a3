"""Looking for text, a pattern or bytes in the rows of a list."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.escape import clip, escape
from dcpinspect.render.lines import Lines
from dcpinspect.store.store import Store
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.row_index import RowIndex
from dcpinspect.tui.view import Host

_PAGE = 512
"""Rows that are looked at at once."""
_TOLD = 16
"""Pages after which it is told how far the search is."""


def matcher(text: str) -> Callable[[Any], bool]:
    """Whether a line, or the bytes of a message, hold what is looked for: text, ``/regex/`` or ``x:hex``. Raises UsageError."""
    if text.startswith("x:"):
        try:
            wanted = bytes.fromhex(text[2:])
        except ValueError:
            raise UsageError(f"{clip(escape(text), 30)}: give pairs of hexadecimal digits, as in x:80 57") from None
        return lambda data: wanted in data
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        try:
            pattern = re.compile(text[1:-1])
        except re.error as error:
            raise UsageError(f"{clip(escape(text), 30)}: {error}") from None
        return lambda line: pattern.search(line) is not None
    wanted_text = text.casefold()
    return lambda line: wanted_text in line.casefold()


def search(store: Store, index: RowIndex, row: int, text: str, goes_on: Callable[[int], bool]) -> int | None:
    """The first row of the index after ``row`` that matches; None where there is none.

    ``goes_on`` is told the row that was come to, now and then, and says whether to search on; if not, InterruptedError is raised.
    Raises as ``Store.messages``.
    """
    matches, of_bytes, lines = matcher(text), text.startswith("x:"), Lines()
    place = index.place(row) + index.has(row)
    for number, start in enumerate(range(place, len(index), _PAGE)):
        rows = index.rows(start, start + _PAGE)
        if not goes_on(int(rows[0]) if not number % _TOLD else 0):
            raise InterruptedError
        batch = store.messages(rows)
        for at, one in enumerate(rows.tolist()):
            if matches(batch.bytes_of(at) if of_bytes else lines.line(batch, at)):
                return int(one)
    return None


class Search:
    """Looks behind what is shown, one thing at a time, and goes where it is found."""

    def __init__(self, rows: PacketList, host: Host) -> None:
        self._list = rows
        self._host = host
        self._is_stopping = threading.Event()
        self.text = ""
        """What was looked for last."""

    def begin(self, text: str) -> None:
        """Looks for the next row with this after the cursor."""
        self.text = text
        try:
            matcher(text)
        except UsageError as error:
            self._host.say(str(error))
            return
        self._is_stopping.clear()
        behind = partial(self._look, text, self._list.index, self._list.row)
        self._list.run_worker(behind, thread=True, group="find", exclusive=True)

    def stop(self) -> None:
        """Ends the one that runs, if one does."""
        self._is_stopping.set()

    def _look(self, text: str, index: RowIndex, row: int) -> None:
        host = self._host

        def goes_on(at: int) -> bool:
            if at:
                host.from_thread(host.say, f"searching, at row {at:,} · Esc stops")
            return not self._is_stopping.is_set()

        try:
            found = search(host.inspection.store, index, row, text, goes_on)
        except InterruptedError:
            host.from_thread(host.say, "the search was stopped")
        except DcpInspectError as error:
            host.from_thread(host.say, str(error))
        else:
            host.from_thread(host.say, "" if found else f"no {escape(text)} after row {row:,}")
            if found:
                host.from_thread(host.to_row, found)
