"""Directories as captures: the files in them that are captures by name, or by their first bytes."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Self

from dcpinspect.errors import CaptureError

_OF_PIPELINE = "_manifest"
"""A folder that the output of a pipeline has."""
_CAPTURE = re.compile(
    r"\.(pcap|pcapng|cap|ntar|dmp)\d*(\.\d+)?(\.(gz|zst|xz|bz2|lz4|zip|z|7z))?$", re.IGNORECASE
)
_MAGICS = tuple(
    bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1", "0a0d0d0a")
)  # fmt: skip


class FolderCapture(str):
    """A capture that was found in a directory. If it cannot be read, the others still are: a ring's
    newest file may still be empty.
    """

    directory: str
    """The directory, as it was given."""

    def __new__(cls, path: str, directory: str) -> Self:
        """Returns the name of the capture."""
        capture = super().__new__(cls, path)
        capture.directory = directory
        return capture


def named(captures: Sequence[str]) -> list[str]:
    """Returns what the user named: captures, and the directories of those found in one."""
    return list(
        dict.fromkeys(
            name.directory if isinstance(name, FolderCapture) else name for name in captures
        )
    )


def captures_in(directory: str, without: str = "") -> Iterator[str]:
    """Yields files below a directory that have the name of a capture, or begin like one; hidden
    folders and ``without`` are left out.
    """
    for root, folders, files in os.walk(directory):
        folders[:] = sorted(
            folder
            for folder in folders
            if not folder.startswith(".")
            and os.path.realpath(os.path.join(root, folder)) != without
        )
        for file in sorted(files):
            path = os.path.join(root, file)
            if is_capture(path):
                yield path


def is_capture(path: str) -> bool:
    """Returns whether a file is a capture by name or first bytes; hidden files are none."""
    name = os.path.basename(path)
    return not name.startswith(".") and (has_name_of_capture(name) or _begins_as_capture(path))


def has_name_of_capture(name: str) -> bool:
    """Returns whether a file has the name of a capture."""
    return _CAPTURE.search(name) is not None


def check_is_file(path: str) -> os.stat_result:
    """Returns what there is to know of a file, a directory, the pipe of a command as in
    ``<(command)``, or ``/dev/null``. Raises OSError for all else: a named pipe may have no writer,
    and a device no end.
    """
    about = os.stat(path)
    is_open_pipe = stat.S_ISFIFO(about.st_mode) and path.startswith(("/dev/", "/proc/"))
    is_file = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
    if not (is_file or is_open_pipe or path == os.devnull):
        raise OSError(errno.EINVAL, "it is no file")
    return about


def with_folders(names: Sequence[str]) -> list[str]:
    """Returns names of captures, with directories replaced by the captures in them. Raises
    CaptureError for a directory without any.
    """
    captures: list[str] = []
    for name in names:
        if not os.path.isdir(name):
            captures.append(name)
            continue
        try:
            os.scandir(name).close()
        except OSError as error:
            raise CaptureError(
                name, f"cannot be opened ({error.strerror})", "check its permissions"
            ) from error
        inside = [FolderCapture(path, name) for path in captures_in(name)]
        if not inside:
            if any(
                os.path.isdir(os.path.join(name, relative_path, _OF_PIPELINE))
                for relative_path in (".", "..")
            ):
                raise CaptureError(
                    name,
                    "belongs to the output of a pipeline",
                    "ask it with 'dcpinspect pipeline check', 'info' or 'sql'",
                )
            raise CaptureError(
                name, "is a directory without captures", "name one that has pcap or pcapng files"
            )
        captures += inside
    return captures


def _begins_as_capture(path: str) -> bool:
    try:
        about = os.stat(path)
        # a file of the kernel has no size, and may never end
        if not stat.S_ISREG(about.st_mode) or not about.st_size:
            return False
        with open(path, "rb") as file:
            return file.read(4) in _MAGICS
    except OSError:
        return False
