"""The destination of a command's result: standard output, or a file that appears complete."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dcpinspect.cli import interrupts, terminal
from dcpinspect.cli.config import config_path
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.output.export import bounded
from dcpinspect.output.export.formats import FORMATS, TEXT, Format, format_of
from dcpinspect.output.export.target import Target
from dcpinspect.text import counted, escape, to_ascii

STDOUT = ("-", "/dev/stdout")
"""Names of standard output."""


def choose_format(name: str | None, path: str | None) -> Format:
    """Returns the format that is asked for, by name or by the file's name. Raises UsageError."""
    if name is not None:
        return FORMATS[name]
    if path == "":
        raise UsageError("--output: is empty; name a file, or - for standard output")
    return TEXT if path is None or path in (*STDOUT, os.devnull) else format_of(path)


@contextmanager
def open_output(
    path: str | None,
    format_: Format,
    captures: Sequence[str],
    others: Sequence[str] = (),
    *,
    guard: bool = True,
) -> Iterator[Target]:
    """Yields the output ``path``, None or ``-`` for standard output. A file appears at the end;
    errors leave none. Says at the end what ``--max-bytes`` left out. ``guard``: as of
    ``--csv-guard``.

    Raises UsageError for files that cannot be written, and for the ``captures`` and ``others``,
    which are read.
    """
    target: Target
    if path is None or path in STDOUT:
        if format_.is_binary and sys.stdout.isatty():
            raise UsageError(
                f"--format {format_} is not for a terminal; add -o FILE, or redirect the output"
            )
        refuse_to_overwrite("-", captures, others)
        target = StandardOutput(is_ascii=format_.is_text and terminal.wants_ascii())
        target.guards_csv = guard
        yield target
        target.flush()
        interrupts.printed(is_whole=True)
    else:
        refuse_to_overwrite(path, captures, others)
        from dcpinspect.capture import rights  # deferred: only -o needs them
        from dcpinspect.output.export.atomic import AtomicFile

        rights.be_as_private_as(others)
        with AtomicFile(path) as target:
            target.guards_csv = guard
            yield target
    if bounded.command_bound.left_out:
        more = counted(bounded.command_bound.left_out, "more record")
        complain(f"{more} left out; ask for fewer rows or columns, or give a greater --max-bytes")


def refuse_to_overwrite(path: str, captures: Sequence[str], others: Sequence[str] = ()) -> None:
    """Raises UsageError if ``path`` is one of the captures, a key log, the config file, or one of
    the other files that are read.

    ``-``: what standard output goes to, to which a shell may append.
    """
    target = _file(path, descriptor=1)
    if target is None:
        return
    # deferred: a command that writes has loaded the decoder
    from dcpinspect.transport.tls.keylog import command_secrets

    for role, names in (
        ("capture", captures),
        ("key log", command_secrets.paths),
        ("config file", [config_path()[0]]),
        ("file", others),
    ):
        for name in names:
            source = _file(name)
            if source is not None and os.path.samestat(target, source):
                raise UsageError(
                    f"{'standard output' if path == '-' else escape(path)}: is the {role} that "
                    "is read; name another file"
                )


def _file(name: str | os.PathLike[str], *, descriptor: int = 0) -> os.stat_result | None:
    """Returns what the system knows of a file, ``-`` for that of a descriptor; None for pipes,
    devices and what is not there.
    """
    try:
        about = os.fstat(descriptor) if name == "-" else os.stat(name)
    except (OSError, ValueError):
        return None
    return about if stat.S_ISREG(about.st_mode) else None


class StandardOutput(Target):
    """Standard output. On a terminal, lines with data from the network are escaped."""

    def __init__(self, *, is_ascii: bool = False) -> None:
        """``is_ascii``: the output is text for people, with ASCII characters only."""
        self._is_ascii = is_ascii
        self._taken = 0

    def write_network_text(self, text: bytes) -> None:
        """Writes lines that contain data from the network."""
        self.write_piece(terminal.safe_lines(text))

    def width(self) -> int | None:
        """Returns the number of columns of the terminal; None if there is none."""
        return terminal.width()

    def painter(self) -> Callable[[str, str], str]:
        """Returns a function that colours a text in a style, if colour can be seen."""
        return terminal.painter()

    def write(self, data: bytes | memoryview, /) -> int:
        """Takes all of ``data``, and returns its size."""
        self._taken += len(data)
        terminal.write_stdout(to_ascii(str(data, "utf-8")).encode() if self._is_ascii else data)
        return len(data)

    def tell(self) -> int:
        """Returns the number of bytes taken so far."""
        return self._taken

    def flush(self) -> None:
        """Sends buffered bytes to the reader of standard output."""
        with terminal.named(), interrupts.writing:
            sys.stdout.buffer.flush()
