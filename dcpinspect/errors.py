"""Every exception the package raises, under one root that is never raised itself.

Damaged input is data, not an exception: decoding returns what it could, with the problems beside
it. Exceptions are for wrong calls and for files of which nothing can be read. The text of an
exception is one line that names the place and the next step. It may be printed as it is, because
what came from outside is escaped when the text is made.
"""

from __future__ import annotations

import copyreg
import errno
import os
import re
import resource
from typing import ClassVar

from dcpinspect import ownership
from dcpinspect.text import cells, clip, escape


class DcpInspectError(Exception):
    """dcpinspect could not do what was asked."""

    exit_status: ClassVar[int] = 2
    """The exit status of the command line if the exception reaches it."""

    details: tuple[str, ...] = ()
    """Lines to show below the text, such as the place that it speaks of."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__(text or type(self).__doc__)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles text and attributes: classes are made from other arguments."""
        make = copyreg.__newobj__  # type: ignore[attr-defined] # typeshed leaves it out
        return make, (type(self), *self.args), vars(self)


class UsageError(DcpInspectError):
    """The request does not make sense."""


class RowError(UsageError, IndexError):
    """There is no message with this row."""


class ClosedError(UsageError, ValueError):
    """The recording is closed."""


class OutputError(DcpInspectError):
    """The result could not be written."""


class PlacedError(UsageError):
    """A text that was given, such as a filter, has a mistake at a known place."""

    def __init__(self, name: str, what: str, text: str, at: int) -> None:
        """``name`` says which text has the mistake; it is escaped, and so is ``what``. ``text`` is
        escaped here.
        """
        self.what = what
        """What is wrong, as a clause."""
        self.text = text
        """The text with the mistake, as it was given."""
        self.at = at
        """The character of the text where the mistake is, from 0."""
        self.details = _pointed_at(text, at)
        super().__init__(f"{name}: {what}")


_SHOWN = 72
"""Number of columns of a text that an error repeats."""


def _pointed_at(text: str, position: int) -> tuple[str, str]:
    """Returns the part of a text around a place, and a caret below that place."""
    before = escape(text[:position])
    if cells(escape(text)) > _SHOWN and cells(before) > _SHOWN // 2:
        while cells(before) > _SHOWN // 2:
            before = before[cells(before) - _SHOWN // 2 :]
        before = f"…{before}"
    return before + clip(escape(text[position:]), _SHOWN - cells(before)), " " * cells(before) + "^"


class CaptureError(DcpInspectError):
    """Nothing could be read from the capture."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        what: str,
        next_step: str | None = None,
        *,
        offset: int | None = None,
    ) -> None:
        self.path = os.fspath(path)
        """The capture as the user named it; ``-`` is standard input."""
        self.offset = offset
        """Byte offset in the file where reading stopped; ``None`` if no byte was reached."""
        self.what = what
        """What is wrong, as a clause: ``the record header asks for 3735928559 bytes``."""
        self.next_step = next_step
        """What to do about it, as a clause; ``None`` if nothing can be done."""
        name = "standard input" if self.path == "-" else escape(self.path)
        offset_clause = "" if offset is None else f", offset {offset}"
        advice = f"; {next_step}" if next_step else ""
        super().__init__(f"{name}{offset_clause}: {what}{advice}")


class DamagedCapture(CaptureError):  # noqa: N818  a note beside what was read, not an error
    """A part of the capture could not be read.

    A note rather than a failure: readers hand it over beside what they read, and the command that
    printed the rest ends with it.
    """

    exit_status = 3


class ChangedCaptureError(CaptureError):
    """The capture is not what it was when it was read."""

    def __init__(self, path: str | os.PathLike[str], offset: int | None, what: str) -> None:
        super().__init__(path, what, "open it again", offset=offset)


class NotKeptError(DcpInspectError):
    """The bytes came from a pipe or an interface, and of those only the newest are kept."""


class SpoolError(DcpInspectError):
    """The folder for temporary files cannot be used."""

    def __init__(self, folder: os.PathLike[str], cause: OSError) -> None:
        if isinstance(cause, ownership.UnsafeError):
            next_step = "set TMPDIR to a folder that only you can write"
        elif cause.errno == errno.EMFILE:
            next_step = "allow this process more open files (ulimit -n)"
        else:
            next_step = "set TMPDIR to a folder with room"
        super().__init__(f"{escape(os.fspath(folder))}: {reason(cause)}; {next_step}")


def reason(error: OSError) -> str:
    """Returns why the system refused something, in its own words: libraries wrap them in theirs."""
    if error.errno == errno.EBADF:
        return "is closed"
    return os.strerror(error.errno) if error.errno else error.strerror or str(error)


_NO_MEMORY = re.compile(
    r"failed to map segment|cannot allocate memory|can't start new thread|failed to launch worker "
    r"thread|cannot apply additional memory protection|out of memory",
    re.IGNORECASE,
)
"""What the dynamic linker, the threads of Python and Arrow, and DuckDB say where memory has ended."""
_SIZE = re.compile(r"(?:allocate|size|block of) (\d+(?:\.\d+)?)\.?(?: ?([KMGTPE]i?B|bytes))?")


def memory_ended(error: BaseException) -> str | None:
    """Returns the line for any library's error that memory has ended; None for another error."""
    text = str(error)
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if (
        not isinstance(error, MemoryError)
        and not _NO_MEMORY.search(text)
        and not (isinstance(error, SystemError) and is_limited)
    ):
        return (
            None  # C code that gets no memory may fail without an exception, which is a SystemError
        )
    size = _SIZE.search(text)
    amount = "" if size is None else f" ({size[1]} {size[2] or 'bytes'} more were asked for)"
    return (
        f"memory has ended{amount}; raise the limit of this process (ulimit -v) or of its "
        "container, or split the capture with editcap -c 100000, which needs less"
    )
