"""What the commands say to the person at the terminal: one-line errors, and colour only where it can be seen."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from dcpinspect.cli import interrupts
from dcpinspect.escape import one_line, to_ascii

_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
INTERRUPTED = "interrupted; this result covers what was read until then"


def complain(message: object, details: Sequence[str] = ()) -> None:
    """Write a line to standard error, starting with the program's name, and the details below it as they are; a terminal gets it folded."""
    with suppress(OSError):  # a standard error that takes nothing is no reason to fail
        columns = (columns_asked() or os.get_terminal_size(sys.stderr.fileno()).columns) if sys.stderr.isatty() else None
        said = folded(f"dcpinspect: {one_line(str(message))}", columns)
        text = "".join(f"{line}\n" for line in (*said, *(f"  {line}" for line in details)))
        sys.stderr.write(to_ascii(text) if wants_ascii() else text)


_chosen = {"color": "auto", "ascii": ""}
"""What the options of the command say, which are read anew for each."""


def choose_color(value: str) -> str:
    """Take ``--color``."""
    _chosen["color"] = value
    return value


def choose_ascii(is_wanted: bool) -> bool:
    """Take ``--ascii``."""
    _chosen["ascii"] = "only" if is_wanted else ""
    return is_wanted


def wants_ascii() -> bool:
    """Tell whether text is to be ASCII: by ``--ascii``, or in a locale that has nothing else (``LC_ALL=C``)."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    return bool(_chosen["ascii"]) or locale in ("C", "POSIX")


def wants_color() -> bool:
    """Tell whether standard output is a terminal whose user has not asked for plain text (``NO_COLOR``, ``TERM=dumb``), or ``--color``."""
    if _chosen["color"] != "auto":
        return _chosen["color"] == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def put(text: str | bytes | memoryview) -> None:
    """Write to standard output, as UTF-8 whatever the locale: names and keys are escaped, arrows and dashes are not."""
    if isinstance(text, str):
        text = (to_ascii(text) if wants_ascii() else text).encode()
    rest = memoryview(text)
    with interrupts.writing():
        while len(rest):  # PYTHONUNBUFFERED makes it a raw file, which a signal may interrupt halfway
            rest = rest[sys.stdout.buffer.write(rest) :]


def safe_lines(text: bytes) -> bytes:
    """Lines that hold what the wire held, for standard output: as they are to a file or pipe, with escapes to a terminal."""
    if not sys.stdout.isatty():
        return text
    return "".join(f"{one_line(line)}\n" for line in text.decode(errors="backslashreplace").split("\n")[:-1]).encode()


def width() -> int | None:
    """Columns to clip lines to; None where standard output is no terminal and whole lines are wanted."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns_asked() -> int | None:
    """Columns that the environment asks for, where there is no terminal that tells."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and 0 < len(text) < 6 else None


def folded(line: str, columns: int | None) -> list[str]:
    """A line on lines of so many columns, broken between words; what goes on begins below the last cell, or further in."""
    if not columns or len(line) <= columns:
        return [line]
    begins = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= columns // 2]
    indent = " " * (begins[-1] if begins else len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def put_folded(lines: Iterable[str]) -> None:
    """Write lines to standard output, folded where it is a terminal."""
    columns = width()
    put("".join(f"{part}\n" for line in lines for part in folded(line, columns)))


def painter() -> Callable[[str, str], str]:
    """A function (text, style) -> text that paints where colour can be seen; an empty style leaves text as it is."""
    if not wants_color():
        return lambda text, _: text
    from rich.color import ColorSystem  # deferred: only a terminal needs it
    from rich.style import Style

    has_all = os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
    system = ColorSystem.TRUECOLOR if has_all else ColorSystem.EIGHT_BIT if "256" in os.environ.get("TERM", "") else ColorSystem.STANDARD
    return lambda text, style: Style.parse(style).render(text, color_system=system) if style else text
