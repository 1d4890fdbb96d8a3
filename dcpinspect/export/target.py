"""What formats write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcpinspect.export.atomic import AtomicFile

ARROW_STREAM = ".arrows"
"""Suffix of the Arrow format that is read from start to end; ``.arrow`` is the one with an index of its batches."""

TableWriter = tuple[Callable[[Any], object], Callable[[], object]]
"""What writes a record batch of a table to a target, and what writes the table's end."""


class Target:
    """A file, as formats write to it; ``put`` is for whole pieces, ``write`` and the rest is what a library wants of a file."""

    closed = False

    def __init__(self, file: AtomicFile, *, width: int | None = None) -> None:
        self.is_complete = False
        """Set by who writes, once a reader of the format finds nothing missing."""
        self._file = file
        self._width = width

    @property
    def is_stream(self) -> bool:
        """Whether the reader will take it from start to end only."""
        return self._file.path.endswith(ARROW_STREAM)

    def put(self, data: bytes | memoryview | str) -> None:
        """Write a whole piece, text as UTF-8."""
        self.write(data.encode() if isinstance(data, str) else data)
        self.pause()

    def put_lines(self, text: bytes) -> None:
        """Put lines that hold what the wire held."""
        self.put(text)

    def pause(self) -> None:
        """Called where everything is whole: may raise what ends the writing."""

    def width(self) -> int | None:
        """Columns to clip lines to; None where whole lines are wanted."""
        return self._width

    def painter(self) -> Callable[[str, str], str]:
        """A function (text, style) -> text that paints where colour can be seen."""
        return lambda text, _: text

    def write(self, data: bytes | memoryview) -> int:
        """Take all of it."""
        return self._file.write(data)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._file.tell()

    def flush(self) -> None:
        """Let the reader have what there is: of a file that is not complete there is none."""
