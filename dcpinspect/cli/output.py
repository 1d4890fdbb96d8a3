"""Where a command's result goes: standard output, or a file that appears when it is complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dcpinspect.cli import interrupts, terminal
from dcpinspect.errors import OutputError, UsageError
from dcpinspect.escape import escape
from dcpinspect.export.formats import ARROW_STREAM, Format, format_of

if TYPE_CHECKING:
    from dcpinspect.export.atomic import AtomicFile

STDOUT = ("-", "/dev/stdout")
"""Names of standard output."""


def choose_format(format_: Format | None, path: str | None) -> Format:
    """The format asked for, by name or by the file's name. Raises UsageError."""
    if format_ is not None:
        return format_
    if path == "":
        raise UsageError("--output: is empty; name a file, or - for standard output")
    return Format.TEXT if path is None or path in STDOUT else format_of(path)


@contextmanager
def opened(path: str | None, format_: Format, captures: Sequence[str]) -> Iterator[Output]:
    """The output ``path``, None or ``-`` for standard output. A file appears at the end if it ``is_complete``.

    It may be that after Ctrl-C, too, which is deferred meanwhile; other errors leave nothing. Raises UsageError for what cannot be
    written to, one of the ``captures`` among it.
    """
    with interrupts.deferred():
        if path is None or path in STDOUT:
            if format_.is_binary and sys.stdout.isatty():
                raise UsageError(f"--format {format_} is not for a terminal; add -o FILE, or redirect the output")
            yield Output(None)
            return
        refuse_to_overwrite(path, captures)
        from dcpinspect.export.atomic import AtomicFile  # deferred: only -o needs it

        file = AtomicFile(path)
        output = Output(file)
        try:
            yield output
        except KeyboardInterrupt:
            if output.is_complete:
                file.commit()
                terminal.complain(f"interrupted; {escape(path)} has what was read until then")
            raise
        else:
            file.commit()
        finally:
            file.discard()


def refuse_to_overwrite(path: str, captures: Sequence[str]) -> None:
    """Raises UsageError when ``path`` is one of the captures."""
    for capture in captures:
        if os.path.isfile(path) and os.path.isfile(capture) and os.path.samefile(path, capture):
            raise UsageError(f"{escape(path)}: is the capture that is read; name another file")


class Output:
    """Takes the bytes of a result; a piece given to ``put`` is written whole, whenever Ctrl-C comes."""

    closed = False

    def __init__(self, file: AtomicFile | None) -> None:
        self.is_complete = False
        """Set by who writes, once a reader of the format finds nothing missing."""
        self._file = file
        self._taken = 0

    @property
    def is_stream(self) -> bool:
        """Whether the reader will take it from start to end only: standard output, or a file that is named as such."""
        return self._file is None or self._file.path.endswith(ARROW_STREAM)

    def put(self, data: bytes | str) -> None:
        """Write, text as UTF-8; then is the time for Ctrl-C."""
        self.write(data.encode() if isinstance(data, str) else data)
        interrupts.check()

    def put_lines(self, text: bytes) -> None:
        """Put lines that hold what the wire held: as they are to a file or pipe, with escapes to a terminal."""
        self.put(text if self._file is not None else terminal.safe_lines(text))

    # What a library wants of a file to write to.

    def write(self, data: bytes) -> int:
        """Take all of it."""
        self._taken += len(data)
        if self._file is not None:
            return self._file.write(data)
        with _named():
            terminal.put(data)
        return len(data)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._taken

    def flush(self) -> None:
        """Let a reader of standard output have what there is."""
        if self._file is None:
            with _named():
                sys.stdout.buffer.flush()

    def width(self) -> int | None:
        """Columns to clip lines to; None where whole lines are wanted."""
        return terminal.width() if self._file is None else None

    def painter(self) -> Callable[[str, str], str]:
        """A function (text, style) -> text that paints where colour can be seen."""
        return terminal.painter() if self._file is None else lambda text, _: text


@contextmanager
def _named() -> Iterator[None]:
    """An error of the system with the name of what it is about."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: {error.strerror}; what was written so far is not complete") from error
