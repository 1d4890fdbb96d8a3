"""Files that appear under their name when they are complete, and not before."""

from __future__ import annotations

import os
import secrets
import stat

from dcpinspect.errors import OutputError, UsageError
from dcpinspect.escape import escape
from dcpinspect.temporary import forget, remember

_DESCRIPTORS = ("/dev/", "/proc/")
"""Where names stand for files that somebody has open."""
BUFFER = 1 << 20
"""Bytes that are written at once."""


class AtomicFile:
    """A file being written: under a temporary name in the folder of ``path``, renamed by ``commit``.

    A device, a pipe or a terminal under that name is written to as it is, and so is what ``/dev/fd`` names. Opening raises
    UsageError, writing and committing raise OutputError; ``discard`` leaves nothing.
    """

    def __init__(self, path: str, *, is_private: bool = False) -> None:
        """``is_private``: only its owner may read it, whatever had the name before."""
        self.path = path
        self._is_private = is_private
        self.closed = False
        self._target = os.path.realpath(path)
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._written = 0
        self._temporary: str | None = None
        self._descriptor = self._opened()

    def _opened(self) -> int:
        try:
            mode = os.stat(self._target).st_mode
        except FileNotFoundError:
            mode = None
        except OSError as error:
            raise self._refused(error) from error
        if mode is not None and stat.S_ISDIR(mode):
            raise UsageError(f"{escape(self.path)}: is a directory; name a file in it")
        try:
            if mode is not None and (not stat.S_ISREG(mode) or self.path.startswith(_DESCRIPTORS)):
                return os.open(self.path, os.O_WRONLY)
            if mode is not None and not os.access(self._target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
                raise UsageError(f"{escape(self.path)}: is write-protected; name another file")
            temporary = os.path.join(os.path.dirname(self._target), f".dcpinspect-{secrets.token_hex(8)}.part")
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600 if self._is_private else 0o666
            )
        except OSError as error:
            raise self._refused(error) from error
        self._temporary = temporary
        remember(temporary)
        if mode is not None and not self._is_private:
            os.chmod(temporary, stat.S_IMODE(mode))
        return descriptor

    def _refused(self, error: OSError) -> UsageError:
        return UsageError(f"{escape(self.path)}: cannot be written ({error.strerror}); name a file in a folder that can be")

    def write(self, data: bytes | memoryview, /) -> int:
        """Take all of it."""
        self._pending.append(bytes(data))
        self._pending_size += len(data)
        if self._pending_size >= BUFFER:
            self.flush()
        return len(data)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._written + self._pending_size

    def flush(self) -> None:
        """Hand what was taken to the system."""
        try:
            rest = memoryview(b"".join(self._pending))
            while len(rest):
                rest = rest[os.write(self._descriptor, rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"{escape(self.path)}: {error.strerror}; the file was not kept") from error
        self._written += self._pending_size
        self._pending, self._pending_size = [], 0

    def commit(self) -> None:
        """Give the file its name; what had it before is gone."""
        if self.closed:
            return
        try:
            self.flush()
            self._close()
            if self._temporary is not None:
                os.replace(self._temporary, self._target)
                forget(self._temporary)
        except OSError as error:
            self.discard()
            raise OutputError(f"{escape(self.path)}: {error.strerror}; the file was not kept") from error
        except OutputError:
            self.discard()
            raise

    def discard(self) -> None:
        """Leave what had the name before as it was; after ``commit`` there is nothing to do."""
        if not self.closed:
            self._close()
        if self._temporary is not None and os.path.exists(self._temporary):
            os.unlink(self._temporary)
            forget(self._temporary)

    def _close(self) -> None:
        self.closed = True
        os.close(self._descriptor)
