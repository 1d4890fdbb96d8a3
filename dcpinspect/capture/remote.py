"""Captures by URI: in S3, Google and Azure storage, and HDFS. PyArrow's file systems read them, a
range at a time.
"""

from __future__ import annotations

import errno
import io
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dcpinspect.capture.stores import file_system_of, is_uri, one_line_errors

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

FIRST, MOST = 1 << 16, 1 << 23
"""Size in bytes of the first range of a file that is read in small pieces, and of the longest."""


def info(name: str) -> FileInfo:
    """Returns what there is at a URI. Raises OSError, FileNotFoundError if there is nothing."""
    filesystem, path = file_system_of(name)
    with one_line_errors():
        file_info = filesystem.get_file_info(path)
    if file_info.type.name == "NotFound":
        raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
    return file_info


def files_below(name: str) -> dict[str, FileInfo]:
    """Returns all files below a URI by their own URIs, in order, but hidden files and folders."""
    from pyarrow.fs import FileSelector

    filesystem, path = file_system_of(name)
    with one_line_errors():
        file_infos = filesystem.get_file_info(
            FileSelector(path, allow_not_found=True, recursive=True)
        )
    base = name.rstrip("/")
    below: dict[str, FileInfo] = {}
    for file_info in sorted(
        (file_info for file_info in file_infos if file_info.is_file),
        key=lambda file_info: str(file_info.path),
    ):
        inside = file_info.path.removeprefix(path).lstrip("/")
        if not any(folder.startswith(".") for folder in inside.split("/")):
            below[f"{base}/{inside}"] = file_info
    return below


class Ranged(io.RawIOBase):
    """A file that is read by ranges: it knows its length and its place."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._at = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Goes to a place, and returns it."""
        self._at = max(
            0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.length}[whence]
        )
        return self._at


class RemoteFile(Ranged):
    """A file by URI, unbuffered; if it is read in small pieces, ranges are read ahead."""

    def __init__(self, name: str) -> None:
        """Opens the file. Raises OSError, FileNotFoundError if there is none."""
        filesystem, path = file_system_of(name)
        with one_line_errors():
            self._file: Any = filesystem.open_input_file(path)
            super().__init__(int(self._file.size()))
        self._ahead: Any = memoryview(b"")
        self._ahead_at = 0
        self._range = FIRST

    def readinto(self, target: Any, /) -> int:
        """Reads bytes as a file does. Raises OSError if storage never answers."""
        view = memoryview(target).cast("B")
        offset = self._at - self._ahead_at
        if not 0 <= offset < len(self._ahead):
            range_bytes = max(len(view), self._range)
            with one_line_errors():
                self._ahead = memoryview(
                    self._file.read_at(range_bytes, self._at) if self._at < self.length else b""
                )
            self._ahead_at, offset, self._range = self._at, 0, min(4 * self._range, MOST)
        piece = self._ahead[offset : offset + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        """Frees the file."""
        if not self.closed:
            self._ahead = memoryview(b"")
            with suppress(OSError):
                self._file.close()
        super().close()


def open_remote(name: str) -> io.BufferedReader | io.FileIO:
    """Returns a file by path or URI, for reading at any place. Raises OSError."""
    return io.BufferedReader(RemoteFile(name), 1) if is_uri(name) else open(name, "rb", buffering=0)
