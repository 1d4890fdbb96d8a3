"""Looking for text, a pattern or bytes in the rows of a list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dcpinspect.errors import UsageError
from dcpinspect.escape import clip, escape
from dcpinspect.render.lines import Lines
from dcpinspect.store.store import Store
from dcpinspect.tui.row_index import RowIndex

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
