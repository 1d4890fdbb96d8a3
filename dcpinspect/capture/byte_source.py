"""The bytes of a capture, wherever they come from: a file, a pipe, a compressed stream.

``Window`` reads them into consecutive buffers. Every buffer is a new one, so what points into an
earlier batch stays valid.
"""

from __future__ import annotations

import math
import os
import select
import sys
import time
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.capture.compressed import PieceStream, Raw, decompressed
from dcpinspect.capture.folders import FolderCapture
from dcpinspect.capture.growing_file import GrowingFileReader
from dcpinspect.capture.mended import (
    HEAD,
    NO_TERMINAL,
    TerminalStream,
    is_from_terminal,
    text_before,
)
from dcpinspect.capture.remote import RemoteFile
from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import CaptureError
from dcpinspect.text import did_you_mean_file, escape

if TYPE_CHECKING:
    from dcpinspect.capture.text_packets import TextPackets

STDIN = "-"
Storage = Literal["plain", "compressed", "stream"]
FIRST_READ = 1 << 16
"""Number of bytes to begin with: most captures that people look at are small, and a pipe holds no
more than this.
"""
LAST_S = 0.5
"""Seconds that a pipe that was stopped is still read."""
_LOOK_S = 0.1
_STEP = 1 << 12
"""Number of bytes of a file that are read at once to find its first line end."""


class _Prefixed(PieceStream):
    """A source whose first bytes were already read, to see what it is."""

    def __init__(self, prefix: bytes, behind_prefix: Raw) -> None:
        super().__init__(behind_prefix)
        self._out = memoryview(prefix)

    def readinto(self, target: memoryview, /) -> int | None:
        return super().readinto(target) if len(self._out) else self._raw.readinto(target)


_met: set[str] = set()
"""Names of the captures that were there when they were first opened: most are read more than once.
"""


class Pipe(FileIO):
    """A pipe that can be stopped: then it has what comes within ``LAST_S``, for what writes it may
    end at the same signal.
    """

    ends_at = math.inf

    def readinto(self, target: memoryview, /) -> int:  # type: ignore[override] # of buffers it gets this one
        """Reads what there is, and waits for it."""
        while not select.select([self], [], [], _LOOK_S)[0]:
            if time.monotonic() >= self.ends_at:
                return 0
        return 0 if time.monotonic() >= self.ends_at else super().readinto(target)


class ByteSource:
    """The bytes of one capture, decompressed. A source knows its name, and whether to wait for more
    bytes than there are.
    """

    def __init__(self, path: str, *, follow: bool = False) -> None:
        """``follow``: wait for what is still to be written."""
        if follow and is_uri(path):
            raise CaptureError(
                path, "is in storage where nothing grows, and cannot be followed", "follow a file"
            )
        self.name = path
        self.is_stream = False
        file = self._open_source()
        self._growing = GrowingFileReader(path, file, is_pipe=self.is_stream) if follow else None
        raw: Raw = self._growing or file
        try:
            magic = _read_up_to(raw, 4)
        except OSError as error:
            raw.close()
            raise CaptureError(path, f"cannot be read ({error.strerror})") from error
        self.problem: str | None = None
        """Why the decompressor stopped early, once it did."""
        self._file = file
        self._given = 0
        self._remarks: list[str] = []
        self._raw: Raw = _Prefixed(magic, raw)
        self._mended = None if follow else self._without_terminal(magic, raw)
        self._inflate = decompressed(
            magic, self._raw, None if self.is_stream or follow or self._mended else file
        )
        if self._inflate is not None:
            if follow:
                raw.close()
                raise CaptureError(
                    path,
                    "is compressed, and a compressed file cannot be followed",
                    "unpack it first",
                )
            self._raw = self._inflate
        is_binary = self._inflate is None and self._mended is None and _is_capture(magic)
        self._text = None if follow or is_binary else self._read_as_text()

    def _without_terminal(self, magic: bytes, raw: Raw) -> TerminalStream | None:
        """Returns the bytes as they were before a terminal changed them; None if none did."""
        head = magic
        while (
            (b"\n" not in head or b"\r\n" in head)
            and len(head) < HEAD
            and (not self.is_stream or _is_ready(raw))
        ):
            got = _read_some(raw, HEAD - len(head) if self.is_stream else _STEP)
            head += got
            if not got:
                break
        self._raw = _Prefixed(head, raw)
        if not is_from_terminal(head):
            return None
        self._raw = mended = TerminalStream(self._raw)
        self._remarks.append(f"CR LF was made LF again, and nothing is lost; {NO_TERMINAL}")
        return mended

    def _read_as_text(self) -> TextPackets | None:
        """Returns the packets that a text stands for; None if it is no such text."""
        # deferred: captures do without
        from dcpinspect.capture.text_packets import HEAD, text_packets

        head = _read_up_to(self._raw, HEAD)
        if size := text_before(head):
            self._remarks.append(
                "text before the capture was left out: "
                f"{escape(head[:size].decode(errors='backslashreplace').strip())}"
            )
            head = head[size:]
        self._raw = _Prefixed(head, self._raw)
        text = text_packets(head, self._raw)
        if text is not None:
            self._raw = text
        return text

    @property
    def is_text(self) -> bool:
        """Whether the packets are made of a text."""
        return self._text is not None

    @property
    def remark(self) -> str | None:
        """What a text stands for, and which part of it is made up, or how a capture was mended;
        None for a capture as it is.
        """
        return (
            "; ".join(self._remarks + ([] if self._text is None else [self._text.remark])) or None
        )

    @property
    def position(self) -> int:
        """Number of bytes read of the file as stored; of a pipe, bytes out of it, unpacked."""
        return self._given if self.is_stream else self._file.tell()

    @property
    def storage(self) -> Storage:
        """Whether the bytes can be read again: at any place, unpacked from the start, or not."""
        if self.is_stream or self._growing is not None or isinstance(self._file, RemoteFile):
            return "stream"
        if self._inflate is None and self._text is None and not self._remarks:
            return "plain"
        return "compressed"

    def _open_source(self) -> FileIO | RemoteFile:
        if is_uri(self.name):
            return self._remote()
        if self.name == STDIN:
            self.is_stream = True
            # descriptor 0 itself: sys.stdin.buffer would wait for whole blocks
            return Pipe(0, closefd=False)
        try:
            raw = Path(self.name).open("rb", buffering=0)  # noqa: SIM115 - closed by close()
        except FileNotFoundError:
            if self.name in _met or isinstance(self.name, FolderCapture):
                problem, advice = (
                    "was removed while it was read",
                    "keep captures until the command has ended",
                )
                if os.path.islink(self.name):
                    problem, advice = "is a link to a file that is not there", "remove the link"
                raise CaptureError(self.name, problem, advice) from None
            raise missing(self.name) from None
        except (OSError, ValueError) as error:  # a name may have a NUL
            raise CaptureError(
                self.name,
                f"cannot be opened ({getattr(error, 'strerror', error)})",
                "check the name and its permissions",
            ) from error
        _met.add(self.name)
        self.is_stream = not raw.seekable()
        if not self.is_stream:
            return raw
        with raw:
            return Pipe(os.dup(raw.fileno()))

    def _remote(self) -> RemoteFile:
        try:
            return RemoteFile(self.name)
        except FileNotFoundError:
            raise CaptureError(self.name, "there is no such file", "check the name") from None
        except OSError as error:
            failure = f"cannot be opened ({error.strerror})"
            raise CaptureError(
                self.name,
                failure,
                "check the name, and the credentials in the environment or a profile",
            ) from error

    def stop(self) -> None:
        """Ends a source that is followed, or a pipe."""
        if self._growing is not None:
            self._growing.stopped = True
        elif isinstance(self._file, Pipe):
            self._file.ends_at = time.monotonic() + LAST_S

    @property
    def was_stopped(self) -> bool:
        """Whether the source ended because somebody wanted so, perhaps inside a record."""
        if self._growing is not None:
            return self._growing.stopped
        return isinstance(self._file, Pipe) and self._file.ends_at < math.inf

    @property
    def can_stop(self) -> bool:
        """Whether ``stop`` ends it."""
        return self._growing is not None or isinstance(self._file, Pipe)

    def readinto(self, target: memoryview, /) -> int | None:
        """Reads bytes to the start of ``target``; returns their number: 0 at the end, None if a
        followed source has nothing now.

        A stream gives what it has, a file fills the target.
        """
        size = 0
        while size < len(target):
            if size and (self.is_stream or self._growing) and not self._has_more():
                break
            try:
                got = self._raw.readinto(target[size:])
            except OSError as error:
                self.problem = f"cannot be read further ({error.strerror})"
                break
            if got is None and not size:
                return None
            if not got:
                break
            size += got
        for inner in (self._growing, self._inflate, self._mended, self._text):
            if inner is not None and inner.problem:
                self.problem = inner.problem
        self._given += size
        return size

    def _has_more(self) -> bool:
        if self._growing is not None:
            return self._growing.has_more()
        if self._text is not None or self._mended is not None:
            return False
        if self._inflate is not None:
            return self._inflate.has_more(lambda: _is_ready(self._file))
        return _is_ready(self._file)

    def close(self) -> None:
        """Frees the file."""
        self._raw.close()


def missing(path: str) -> CaptureError:
    """Returns the error about a file that is not there, with the names beside it like its own."""
    folder, name = os.path.split(path)
    try:
        close = did_you_mean_file(name, sorted(os.listdir(folder or ".")))
    except OSError:
        close = ""
    return CaptureError(path, "there is no such file", close.removeprefix("; ") or "check the name")


def _is_capture(magic: bytes) -> bool:
    """Returns whether the first bytes are of no text: texts have letters, digits and spaces. pcapng
    begins with line ends.
    """
    return magic == b"\n\r\r\n" or not all(
        byte in b"\t\r\n" or 0x20 <= byte < 0x7F for byte in magic
    )


def _is_ready(raw: Raw) -> bool:
    """Returns whether a pipe has something, or has ended."""
    if sys.platform == "win32":
        return False
    return bool(select.select([raw.fileno()], [], [], 0)[0])  # type: ignore[attr-defined] # only a FileIO gets here


def _read_some(raw: Raw, size: int) -> bytes:
    got = bytearray(size)
    return bytes(got[: raw.readinto(memoryview(got)) or 0])


def _read_up_to(raw: Raw, size: int) -> bytes:
    got = bytearray(size)
    size_read = 0
    while size_read < size:
        count = raw.readinto(memoryview(got)[size_read:])
        if count == 0:
            break
        size_read += count or 0
    return bytes(got[:size_read])


class Window:
    """The part of a source that is in memory: ``data[:size]``, which begins at ``file_offset``."""

    def __init__(self, source: Raw, batch_bytes: int) -> None:
        self.source = source
        self.file_offset = 0
        self.at_end = False
        self.is_quiet = False
        """Whether the source is followed, and has had nothing for a while."""
        self.size = 0
        self._batch_bytes = batch_bytes
        self.data: ByteArray = np.empty(0, np.uint8)

    def advance(self, consumed: int, need: int = 0) -> None:
        """Drops the first ``consumed`` bytes and reads on, into a new buffer, until ``need`` bytes
        are there or the source ends or pauses.

        Memory grows with what was read, not with ``need``: a wrong length costs nothing.
        """
        unread = self.data[consumed : self.size]
        self.file_offset += consumed
        capacity = (
            self._batch_bytes
            if self.file_offset + len(unread)
            else min(self._batch_bytes, FIRST_READ)
        )
        self.data = np.empty(max(capacity, 2 * len(unread)), np.uint8)
        self.data[: len(unread)] = unread
        self.size = len(unread)
        while not self.at_end:
            got = self.source.readinto(memoryview(self.data.data)[self.size :])
            self.is_quiet = got is None
            self.at_end = got == 0
            self.size += got or 0
            if self.is_quiet or self.size >= max(need, 1):
                break
            if self.size == len(self.data):
                self.data = np.concatenate((self.data, np.empty(self.size, np.uint8)))
