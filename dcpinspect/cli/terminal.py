"""Writes to the user's terminal: one-line errors, and colour only where it can be seen."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from dcpinspect.cli import interrupts
from dcpinspect.errors import OutputError, reason
from dcpinspect.text import one_line, to_ascii

_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")


def complain(message: object, details: Sequence[str] = ()) -> None:
    """Writes a line to standard error, after the program's name, and the details unchanged below
    it; a terminal gets the line folded.
    """
    with suppress(OSError):  # a standard error that cannot be written is no reason to fail
        sys.stderr.write(complaint(message, details))


def complaint(message: object, details: Sequence[str] = ()) -> str:
    """Returns what ``complain`` writes."""
    lines = folded(f"dcpinspect: {one_line(str(message))}", error_width())
    text = "".join(f"{line}\n" for line in (*lines, *(f"  {line}" for line in details)))
    return to_ascii(text) if wants_ascii() else text


def error_width() -> int | None:
    """Returns the number of columns of standard error; None if it is no terminal."""
    if not sys.stderr.isatty():
        return None
    return columns_asked() or os.get_terminal_size(sys.stderr.fileno()).columns


_chosen = {"color": "auto", "ascii": ""}
"""Values of the options of the command; every command sets them again."""


def choose_color(value: str) -> str:
    """Applies ``--color``."""
    _chosen["color"] = value
    return value


def choose_ascii(is_wanted: bool) -> bool:
    """Applies ``--ascii``."""
    _chosen["ascii"] = "only" if is_wanted else ""
    return is_wanted


def wants_ascii() -> bool:
    """Whether text must be ASCII: because of ``--ascii``, or of a locale without other characters
    (``LC_ALL=C``).
    """
    locale = next(
        (value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), ""
    )
    return bool(_chosen["ascii"]) or locale in ("C", "POSIX")


def wants_color() -> bool:
    """Whether to use colour: standard output is a terminal whose user has not asked for plain text
    (``NO_COLOR``, ``TERM=dumb``), or ``--color``.
    """
    if _chosen["color"] != "auto":
        return _chosen["color"] == "always"
    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def write_stdout(text: str | bytes | memoryview) -> None:
    """Writes to standard output, as UTF-8 whatever the locale: names and keys are escaped, arrows
    and dashes are not.
    """
    if isinstance(text, str):
        text = (to_ascii(text) if wants_ascii() else text).encode()
    unwritten = memoryview(text)
    interrupts.printed(is_whole=False)
    with named(), interrupts.writing:
        # with PYTHONUNBUFFERED this is a raw file, and a signal can interrupt a write halfway
        while len(unwritten):
            unwritten = unwritten[sys.stdout.buffer.write(unwritten) :]


@contextmanager
def named() -> Iterator[None]:
    """Adds the name of standard output to errors of the system."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        raise OutputError(
            f"standard output: {reason(error)}; what was written so far is not complete"
        ) from error


def safe_lines(text: bytes) -> bytes:
    """Returns lines with data from the network for standard output: unchanged for a file or pipe,
    with escapes for a terminal.
    """
    if not sys.stdout.isatty():
        return text
    return "".join(
        f"{one_line(line)}\n" for line in text.decode(errors="backslashreplace").split("\n")[:-1]
    ).encode()


def width() -> int | None:
    """Returns the number of columns to clip lines to; None if standard output is no terminal, and
    whole lines are wanted.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def height() -> int:
    """Returns the number of lines that a terminal shows above its prompt; 0 if standard output is
    none.
    """
    return shutil.get_terminal_size().lines - 1 if sys.stdout.isatty() else 0


def columns_asked() -> int | None:
    """Returns the number of columns that the environment asks for, if no terminal says it."""
    text = os.environ.get("COLUMNS", "")
    return int(text) or None if text.isdecimal() and len(text) < 6 else None


def folded(line: str, columns: int | None) -> list[str]:
    """Folds a line into lines of ``columns``, between words; further lines begin below the last
    cell, or are indented.
    """
    if not columns or len(line) <= columns:
        return [line]
    begins = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= columns // 2]
    indent = " " * (begins[-1] if begins else len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def put_folded(lines: Iterable[str], *, has_titles: bool = False) -> None:
    """Writes lines to standard output, folded on a terminal. ``has_titles``: the first line, and
    each line after an empty one that is not indented, is bold.
    """
    columns, paint = width(), painter() if has_titles else None
    output: list[str] = []
    before = ""
    for line in lines:
        is_title = paint is not None and not before and not line.startswith(" ")
        pieces = folded(line, columns)
        output += [paint(piece, "bold") for piece in pieces] if paint and is_title else pieces
        before = line
    write_stdout("".join(f"{piece}\n" for piece in output))


def painter() -> Callable[[str, str], str]:
    """Returns a function that takes a text and a style, and colours the text if colour can be seen.

    An empty style leaves the text unchanged.
    """
    if not wants_color():
        return lambda text, _: text
    from rich.color import ColorSystem  # deferred: only a terminal needs it
    from rich.style import Style

    has_all = os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    system = (
        ColorSystem.TRUECOLOR
        if has_all
        else ColorSystem.EIGHT_BIT
        if "256" in os.environ.get("TERM", "")
        else ColorSystem.STANDARD
    )
    return lambda text, style: (
        Style.parse(style).render(text, color_system=system) if style else text
    )
