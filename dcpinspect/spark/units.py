"""Units: the capture files that a pipeline reads, each once, whatever its name is and however often
it is found.

A unit is a file in the state in which it was found: its capture point, its size and a digest of
both ends. Files of a capture point are read in the order in which the point wrote them: by the
numbers in their names, or else by the times of their first packets.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from dcpinspect.capture import remote
from dcpinspect.capture.folders import captures_in, has_name_of_capture
from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark.files import digest, reached
from dcpinspect.text import escape

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

END = 1 << 16
"""Number of bytes at each end of a file that identify it."""
NO_FILE = "is not a file that can be read more than once"
BY_DIRECTORY, BY_STEM, BY_NAME = "dir", "stem", "name:"
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Unit:
    """A capture file in the state in which it was found."""

    name: str
    """Name that was given, or path below the directory that was given."""
    path: str
    """Absolute path."""
    point: str
    """Where the file was captured: files of one point continue each other, others do not."""
    size: int
    head: str = ""
    """Digest of the first 64 KiB; empty if the file cannot be read."""
    tail: str = ""
    """Digest of the last 64 KiB."""
    stamp: str = ""
    """Size and time of the last change when the file was found. As long as these stay the same,
    nobody reads the bytes again.
    """

    @property
    def identity(self) -> tuple[str, int, str, str]:
        """What two units with the same bytes have in common. The name is not part of it, because
        rings reuse names and rename files.
        """
        return (self.point, self.size, self.head, self.tail)

    def is_continued_by(self, path: str) -> bool:
        """Whether a file begins with the bytes of this unit, which was still being written then."""
        try:
            return size_of(path) > self.size and digests(path, self.size) == (self.head, self.tail)
        except OSError:
            return False


def digested(unit: Unit) -> Unit:
    """Returns a unit with its digests; without digests and with size 0 if it cannot be read."""
    try:
        size = size_of(unit.path)
        head, tail = digests(unit.path, size)
    except OSError:
        return replace(unit, size=0, stamp="")
    return replace(unit, size=size, head=head, tail=tail)


def digests(path: str, size: int) -> tuple[str, str]:
    """Returns digests of the first and of the last 64 KiB of the first ``size`` bytes of a file.
    Raises OSError.
    """
    with remote.open_remote(path) as file:
        first = file.read(min(END, size))
        file.seek(max(0, size - END))
        last = file.read(min(END, size))
    return digest(first), digest(last)


def size_of(path: str) -> int:
    """Returns the size of a file in bytes.

    Raises FileNotFoundError, and OSError for other errors, also if it is no file that can be read
    again.
    """
    if is_uri(path):
        return int(remote.info(path).size or 0)
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, NO_FILE)
    return about.st_size


def why_not(error: OSError) -> str:
    """Returns why a file cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return NO_FILE if error.strerror == NO_FILE else f"cannot be opened ({error.strerror})"


def files_of(names: Sequence[str], *, without: str, may_be_empty: bool = False) -> dict[str, str]:
    """Returns the captures that ``names`` mean (files, patterns or directories), each once, and the
    stamp of each.

    ``without``: a directory that is left out. Raises UsageError for missing names; a directory or
    pattern without captures is no error if ``may_be_empty``.
    """
    files: dict[str, tuple[str, str]] = {}
    for given_name in names:
        if given_name == "-":
            raise UsageError(
                "-: a pipeline reads files, each maybe more than once; write standard input to "
                "a file"
            )
        name = reached(given_name, "captures are read")
        if is_uri(name):
            for uri, about in _remote_files(name, may_be_empty=may_be_empty).items():
                files.setdefault(uri, (uri, f"{about.size} {about.mtime_ns}"))
            continue
        if os.path.isdir(name):
            paths = list(captures_in(name, os.path.realpath(without)))
            if not paths and not may_be_empty:
                raise UsageError(
                    f"{escape(name)}: has no captures in it; name a directory with pcap or "
                    "pcapng files"
                )
        elif os.path.lexists(name):
            paths = [name]
        else:
            paths = sorted(
                path for path in glob.glob(name, recursive=True) if not os.path.isdir(path)
            )
            if not paths and not (may_be_empty and glob.has_magic(name)):
                problem = "no file matches" if glob.has_magic(name) else "is missing"
                raise UsageError(
                    f"{escape(name) or 'an empty name'}: {problem}; name captures, patterns or "
                    "directories of them"
                )
        for path in paths:
            files.setdefault(os.path.realpath(path), (path, _stamp(path)))
    return dict(files.values())


def _stamp(path: str) -> str:
    try:
        about = os.stat(path)
    except OSError:
        return ""
    return f"{about.st_size} {about.st_mtime_ns}" if stat.S_ISREG(about.st_mode) else ""


def _remote_files(name: str, *, may_be_empty: bool) -> dict[str, FileInfo]:
    """Returns the captures that a URI means. In folders, only the names of files are checked,
    because opening each file would take long.
    """
    magic = re.search(r"[*?]", name)
    base = name if magic is None else name[: magic.start()].rpartition("/")[0]
    try:
        about = remote.info(base)
        if about.is_file and magic is None:
            return {name: about}
        infos = remote.files_below(base)
    except FileNotFoundError:
        infos = {}
    except OSError as error:
        raise UsageError(f"{escape(name)}: cannot be looked through ({error.strerror})") from error
    if magic is None:
        infos = {uri: about for uri, about in infos.items() if has_name_of_capture(uri)}
    else:
        name_pattern = re.compile(_pattern(name), re.DOTALL)
        infos = {uri: about for uri, about in infos.items() if name_pattern.fullmatch(uri)}
    if not infos and not may_be_empty:
        problem = "no file matches" if magic is not None else "is missing, or has no captures in it"
        raise UsageError(
            f"{escape(name)}: {problem}; name captures, patterns or directories of them"
        )
    return infos


def _pattern(text: str) -> str:
    """Returns a pattern of names as a regular expression: ** stands for any number of folders."""
    words = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        words.get(piece) or re.escape(piece) for piece in re.split(r"(\*\*/|\*\*|\*|\?)", text)
    )


def units_of(
    paths: Mapping[str, str], rule: str, points: Mapping[str, str], known_units: Iterable[Unit] = ()
) -> tuple[list[Unit], dict[str, str]]:
    """Returns a unit for each file, and the names of the points by what identifies them.
    ``points``: the names that are known already.

    ``paths``: with the stamp of each. ``rule``: ``dir``, ``stem`` or ``name:`` with a name.
    ``known_units``: one of these is used for a file that has not changed since; other units have no
    digests yet. A file that cannot be read is a unit, too; its reader says why.
    """
    before = {(unit.path, unit.stamp): unit for unit in known_units if unit.head and unit.stamp}
    point_names = dict(points)
    units = []
    for path, stamp in paths.items():
        key = _point_key(path, rule)
        if key not in point_names:
            point_names[key] = _free_name(key, set(point_names.values()))
        absolute = path if is_uri(path) else os.path.abspath(path)
        units.append(
            before.get((absolute, stamp))
            or Unit(
                path, absolute, point_names[key], int(stamp.partition(" ")[0] or 0), stamp=stamp
            )
        )
    return units, point_names


def check_rule(rule: str) -> str:
    """Returns the rule by which files belong to capture points. Raises UsageError for others."""
    if rule in (BY_DIRECTORY, BY_STEM) or (rule.startswith(BY_NAME) and len(rule) > len(BY_NAME)):
        return rule
    raise UsageError(
        f"--capture-point {escape(rule)}: files belong together by their directory (dir), by their "
        "name without its number (stem), or all of them (name:NAME)"
    )


def _point_key(path: str, rule: str) -> str:
    if rule.startswith(BY_NAME):
        return rule.removeprefix(BY_NAME)
    folder, name = os.path.split(path if is_uri(path) else os.path.abspath(path))
    return folder if rule == BY_DIRECTORY else os.path.join(folder, _stem(name))


def _stem(name: str) -> str:
    """Returns a file's name up to its number, or its ending: ``node1`` for
    ``node1_00003_20240101120000.pcapng``.
    """
    stem = re.split(r"\.", name, maxsplit=1)[0]
    return re.sub(r"([-_.]\d+)+$", "", stem) or stem


def _free_name(key: str, taken: set[str]) -> str:
    """Returns the last parts of a path, as many as needed for a name that is not taken."""
    steps = [step for step in key.split(os.sep) if step] or [key]
    for count in range(1, len(steps) + 1):
        name = "/".join(steps[-count:])
        if name not in taken:
            return name
    return key


def in_order(units: Sequence[tuple[Unit, tuple[int, int] | None]]) -> list[Unit]:
    """Returns the units of one point in the order in which they were written. With each unit comes
    when it begins: a time, and how many units it goes on with; None if it has no packets.

    The order is that of the numbers in names that differ in nothing else; in a ring that has begun
    again, from its oldest file on. Otherwise it is the order of the times.
    """
    timed = [(unit, time) for unit, time in units if time is not None]
    empty = sorted((unit for unit, time in units if time is None), key=lambda unit: unit.path)
    kinds = {_NUMBER.sub("", unit.path) for unit, _ in timed}
    by_time = sorted(
        timed, key=lambda unit_and_number: (unit_and_number[1], natural(unit_and_number[0].path))
    )
    if len(kinds) == 1 and len({unit.path for unit, _ in timed}) == len(timed):
        by_number = sorted(timed, key=lambda unit_and_number: natural(unit_and_number[0].path))
        falls = [
            index
            for index, (unit_and_number, two) in enumerate(pairwise(by_number), 1)
            if two[1] < unit_and_number[1]
        ]
        is_ring = len(falls) == 1 and by_number[-1][1] <= by_number[0][1]
        begin = falls[0] if is_ring else 0
        return [unit for unit, _ in (*by_number[begin:], *by_number[:begin])] + empty
    return [unit for unit, _ in by_time] + empty


def natural(path: str) -> list[tuple[int, str]]:
    """Returns what puts paths in order, the numbers in them as numbers."""
    return [
        (int(piece), "") if piece.isdigit() and piece.isascii() else (-1, piece)
        for piece in _NUMBER.split(path)
    ]
