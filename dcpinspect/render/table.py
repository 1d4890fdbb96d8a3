"""Tables for people: aligned columns under a heading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dcpinspect.escape import cells, clip, escape

MEASURED = 1000
"""Rows that the widths of the columns are taken from."""
WIDEST = 60
"""Terminal columns of a column that is not the last, at most; longer texts push the rest of their line to the right."""


class TextTable:
    """Makes the lines of a table; widths follow from its first rows, so that any number of rows can come behind them."""

    def __init__(self, schema: Any, *, width: int | None = None) -> None:
        """``width``: terminal columns that lines are clipped to."""
        self._names = [escape(name) for name in schema.names]
        self._right = [_is_number(kind) for kind in schema.types]
        self._width = width
        self._widths: list[int] = []
        self._waiting: list[list[str]] = []

    def lines(self, batch: Any) -> Iterator[str]:
        """The lines that can be told after these rows of a record batch."""
        columns = [_texts(column) for column in batch.columns]
        self._waiting += [list(row) for row in zip(*columns, strict=True)]
        if self._widths or len(self._waiting) >= MEASURED:
            yield from self.end()

    def end(self) -> Iterator[str]:
        """The lines that were left, after the last row; at least the heading."""
        if not self._widths:
            rows = [self._names, *self._waiting]
            self._widths = [min(WIDEST, max(cells(row[place]) for row in rows)) for place in range(len(self._names))]
            yield self._line(self._names)
        for row in self._waiting:
            yield self._line(row)
        self._waiting = []

    def _line(self, row: Sequence[str]) -> str:
        padded = []
        for text, width, is_right in zip(row, self._widths, self._right, strict=True):
            room = " " * (width - cells(text))
            padded.append(room + text if is_right else text + room)
        line = "  ".join(padded).rstrip()
        return line if self._width is None else clip(line, self._width)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _texts(column: Any) -> list[str]:
    """The text of each value; nothing for none."""
    from dcpinspect.export.csv import rfc3339

    if pa.types.is_timestamp(column.type):
        column = rfc3339(column)
    return ["" if value is None else _text(value) for value in column.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, tuple):  # an entry of a map
        return " ".join("" if one is None else _text(one) for one in value)
    if isinstance(value, list):
        return ", ".join("" if one is None else _text(one) for one in value)
    if isinstance(value, dict):
        return " ".join(f"{escape(str(name))}={'' if one is None else _text(one)}" for name, one in value.items())
    return escape(str(value))
