"""Captures by URI: in S3, Google and Azure storage, and HDFS. PyArrow's file systems read them, a range at a time.

They find credentials where others look, too: in the environment, in profiles, and in what a machine is given. None is ever part of a name.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dcpinspect.escape import clip, one_line

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfss", "hdfs": "hdfs", "viewfs": "viewfs"}
"""Schemes of URIs, and what PyArrow calls them."""
_URI = re.compile(rf"({'|'.join(SCHEMES)})://([^/]*)(/.*)?", re.DOTALL)
FIRST, MOST = 1 << 16, 1 << 23
"""Bytes of the first range of a file that is read in small pieces, and of the longest."""
ATTEMPTS = 10
"""Of a request that fails or is told to slow down; each waits longer than the one before, 20 s at most."""
TIMEOUT_S = 60.0
"""Seconds in which something has to come of a request."""


def is_uri(name: str) -> bool:
    """Whether a name is a URI of storage that is read here."""
    return _URI.fullmatch(name) is not None


def place(name: str) -> tuple[FileSystem, str]:
    """The file system of a URI, and the path in it. Raises OSError where it cannot be had here."""
    found = _URI.fullmatch(name)
    assert found is not None
    scheme, authority, path = SCHEMES[found[1]], found[2], (found[3] or "")
    with told():
        filesystem = _filesystem(scheme, authority)
    if scheme in ("hdfs", "viewfs"):
        return filesystem, path or "/"
    return filesystem, (authority.partition("@")[0] + path).rstrip("/")


def info(name: str) -> FileInfo:
    """What there is at a URI. Raises OSError, FileNotFoundError where there is nothing."""
    filesystem, path = place(name)
    with told():
        found = filesystem.get_file_info(path)
    if found.type.name == "NotFound":
        raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
    return found


def files_below(name: str) -> dict[str, FileInfo]:
    """All files below a URI by theirs, in their order; none of hidden folders, and no hidden ones."""
    from pyarrow.fs import FileSelector

    filesystem, path = place(name)
    with told():
        found = filesystem.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    base = name.rstrip("/")
    below: dict[str, FileInfo] = {}
    for one in sorted((one for one in found if one.is_file), key=lambda one: str(one.path)):
        inside = one.path.removeprefix(path).lstrip("/")
        if not any(part.startswith(".") for part in inside.split("/")):
            below[f"{base}/{inside}"] = one
    return below


class Ranged(io.RawIOBase):
    """A file whose ranges are read: it knows its length and its place."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Bytes before the next one."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Goes to a place."""
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.length}[whence])
        return self._at


class RemoteFile(Ranged):
    """A file by URI, as an unbuffered one: of what is read in small pieces, ranges are read ahead."""

    def __init__(self, name: str) -> None:
        """Raises OSError, FileNotFoundError where there is none."""
        filesystem, path = place(name)
        with told():
            self._file: Any = filesystem.open_input_file(path)
            super().__init__(int(self._file.size()))
        self._ahead: Any = memoryview(b"")
        self._ahead_at = 0
        self._range = FIRST

    def readinto(self, target: Any, /) -> int:
        """As a file has it. Raises OSError where storage does not answer, however often it is asked."""
        view = memoryview(target).cast("B")
        place = self._at - self._ahead_at
        if not 0 <= place < len(self._ahead):
            wanted = max(len(view), self._range)
            with told():
                self._ahead = memoryview(self._file.read_at(wanted, self._at) if self._at < self.length else b"")
            self._ahead_at, place, self._range = self._at, 0, min(4 * self._range, MOST)
        piece = self._ahead[place : place + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        """Frees it."""
        if not self.closed:
            self._ahead = memoryview(b"")
            with suppress(OSError):
                self._file.close()
        super().close()


def opened(name: str) -> io.BufferedReader | io.FileIO:
    """A file by path or URI, for reading at any place. Raises OSError."""
    return io.BufferedReader(RemoteFile(name), 1) if is_uri(name) else open(name, "rb", buffering=0)


@contextmanager
def told() -> Iterator[None]:
    """What a file system raises, as an OSError with one short line."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file") from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise OSError(errno.EIO, _line(error)) from error


def _line(error: BaseException) -> str:
    text = re.sub(r"\(?(Request ID|RequestId|Host ID|HostId):? .*", "", str(error), flags=re.DOTALL)
    return clip(one_line(text.strip() or type(error).__name__), 200)


@lru_cache(maxsize=64)
def _filesystem(scheme: str, authority: str) -> FileSystem:
    from pyarrow import fs

    if scheme != "s3":
        found, _ = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
        return found
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not (region or endpoint):
        with suppress(OSError):
            region = fs.resolve_s3_region(authority)
    where = urlsplit(endpoint or "")
    return fs.S3FileSystem(
        region=region,
        scheme=where.scheme or None,
        endpoint_override=where.netloc or None,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        connect_timeout=TIMEOUT_S,
        request_timeout=TIMEOUT_S,
    )
