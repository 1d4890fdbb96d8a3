"""Where a command's result goes: standard output, or a file that appears when it is complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dcpinspect.cli import interrupts, terminal
from dcpinspect.errors import OutputError, UsageError
from dcpinspect.escape import escape, to_ascii
from dcpinspect.export.formats import FORMATS, TEXT, Format, TableFormat, format_of
from dcpinspect.export.target import Target

STDOUT = ("-", "/dev/stdout")
"""Names of standard output."""


def choose_format(name: str | None, path: str | None) -> TableFormat:
    """The format asked for, by name or by the file's name. Raises UsageError."""
    if name is not None:
        return FORMATS[name]
    if path == "":
        raise UsageError("--output: is empty; name a file, or - for standard output")
    return TEXT if path is None or path in (*STDOUT, os.devnull) else format_of(path)


@contextmanager
def opened(path: str | None, format_: Format, captures: Sequence[str], others: Sequence[str] = ()) -> Iterator[Output]:
    """The output ``path``, None or ``-`` for standard output. A file appears at the end if it ``is_complete``.

    It may be that after Ctrl-C, too, which is deferred meanwhile; other errors leave nothing. Raises UsageError for what cannot be
    written to, the ``captures`` and ``others`` that are read among it.
    """
    with interrupts.deferred():
        if path is None or path in STDOUT:
            if format_.is_binary and sys.stdout.isatty():
                raise UsageError(f"--format {format_} is not for a terminal; add -o FILE, or redirect the output")
            yield StandardOutput(is_ascii=format_.is_text and terminal.wants_ascii())
            return
        refuse_to_overwrite(path, captures, others)
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


def refuse_to_overwrite(path: str, captures: Sequence[str], others: Sequence[str] = ()) -> None:
    """Raises UsageError when ``path`` is one of the captures, a key log, or one of the other files that are read."""
    if not os.path.isfile(path):
        return
    from dcpinspect.transport.tls.keylog import chosen  # deferred: what is written has the decoder

    for what, names in (("capture", captures), ("key log", chosen.paths), ("file", others)):
        for name in names:
            if os.path.isfile(name) and os.path.samefile(path, name):
                raise UsageError(f"{escape(path)}: is the {what} that is read; name another file")


class Output(Target):
    """Where a result goes: a piece given to ``put`` is written whole, whenever Ctrl-C comes."""

    def pause(self) -> None:
        """Now is the time for Ctrl-C."""
        interrupts.check()


class StandardOutput(Output):
    """Standard output; lines that hold what the wire held have escapes where it is a terminal."""

    is_stream = True

    def __init__(self, *, is_ascii: bool = False) -> None:
        """``is_ascii``: what is written is text for people, of which others than ASCII characters are replaced."""
        self.is_complete = False
        self._is_ascii = is_ascii
        self._taken = 0

    def put_lines(self, text: bytes) -> None:
        """Put lines that hold what the wire held."""
        self.put(terminal.safe_lines(text))

    def width(self) -> int | None:
        """Columns of the terminal; None where it is none."""
        return terminal.width()

    def painter(self) -> Callable[[str, str], str]:
        """A function (text, style) -> text that paints where colour can be seen."""
        return terminal.painter()

    def write(self, data: bytes | memoryview) -> int:
        """Take all of it."""
        self._taken += len(data)
        with _named():
            terminal.put(to_ascii(str(data, "utf-8")).encode() if self._is_ascii else data)
        return len(data)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._taken

    def flush(self) -> None:
        """Let a reader of standard output have what there is."""
        with _named(), interrupts.writing():
            sys.stdout.buffer.flush()


@contextmanager
def _named() -> Iterator[None]:
    """An error of the system with the name of what it is about."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: {error.strerror}; what was written so far is not complete") from error
