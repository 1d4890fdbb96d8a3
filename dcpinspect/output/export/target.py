"""The target that formats write to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

ARROW_STREAM = ".arrows"
"""Suffix of the Arrow format that is read from start to end; ``.arrow`` is the one with an index of
its batches.
"""

TableWriter = tuple[Callable[[Any], object], Callable[[], object]]
"""Two functions: one writes a record batch of a table to a target, the other the table's end."""


class Target(ABC):
    """The file that formats write to. ``write_network_text`` is for lines with data from the
    network, ``write_piece`` for other pieces; ``write`` and the other methods are for libraries that
    expect a file.
    """

    closed = False
    guards_csv = True
    """Whether CSV gets an apostrophe before texts that a spreadsheet would run."""

    is_stream = True
    """Whether the file can only be read from start to end."""

    def write_piece(self, data: bytes | memoryview | str) -> None:
        """Writes a whole piece, text as UTF-8."""
        self.write(data.encode() if isinstance(data, str) else data)

    def write_network_text(self, text: bytes) -> None:
        """Writes lines that contain data from the network, and are not escaped: a terminal gets
        them with escapes.
        """
        self.write_piece(text)

    def width(self) -> int | None:
        """Returns the number of columns to clip lines to; None for whole lines."""
        return None

    def painter(self) -> Callable[[str, str], str]:
        """Returns a function that colours a text in a style, if colour can be seen."""
        return lambda text, _: text

    @abstractmethod
    def write(self, data: bytes | memoryview, /) -> int:
        """Takes all of ``data``, and returns its size."""

    @abstractmethod
    def tell(self) -> int:
        """Returns the number of bytes taken so far."""

    def flush(self) -> None:  # noqa: B027 - for files
        """Does nothing, because nobody reads a file that is not complete."""
