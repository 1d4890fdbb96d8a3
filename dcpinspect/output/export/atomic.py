"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import stat
from typing import Self

from dcpinspect.capture import rights
from dcpinspect.errors import OutputError, UsageError
from dcpinspect.output.export.target import ARROW_STREAM, Target
from dcpinspect.temporary import forget, new_part, remember
from dcpinspect.text import escape

_DESCRIPTORS = ("/dev/", "/proc/")
"""Folders whose names stand for files that a process has open."""
BUFFER = 1 << 20
"""Number of bytes that are written at once."""


class AtomicFile(Target):
    """A file being written: under a temporary name in the folder of ``path``, renamed by
    ``commit``, or at the end of a context.

    A device, a pipe or a terminal under that name is written to directly, and so is a name in
    ``/dev/fd``. Opening raises UsageError, writing and committing raise OutputError; ``discard``
    leaves nothing.
    """

    def __init__(self, path: str, *, is_private: bool = False) -> None:
        """Opens the file. ``is_private``: only its owner may read it, even if others could read an
        earlier file of that name.
        """
        if not path:
            raise UsageError("the name of an output is empty; name a file")
        self.path = path
        self._is_private = is_private
        self.closed = False
        self._target = os.path.realpath(path)
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._written = 0
        self._temporary: str | None = None
        self._descriptor = self._open_temporary()
        self.is_stream = path.endswith(ARROW_STREAM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.discard()

    def _open_temporary(self) -> int:
        try:
            # not of the target: in a folder as /tmp the system may refuse a link of another user
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            mode = None
        except OSError as error:
            raise self._refused(error) from error
        if self.path.endswith("/") or (mode is not None and stat.S_ISDIR(mode)):
            raise UsageError(f"{escape(self.path)}: is a directory; name a file in it")
        try:
            if mode is not None and (not stat.S_ISREG(mode) or self.path.startswith(_DESCRIPTORS)):
                return os.open(self.path, os.O_WRONLY)
            if mode is not None and not os.access(
                self._target, os.W_OK, effective_ids=os.access in os.supports_effective_ids
            ):
                raise UsageError(f"{escape(self.path)}: is write-protected; name another file")
            self._temporary, descriptor = new_part(
                os.path.dirname(self._target), 0o600 if self._is_private else 0o666
            )
        except OSError as error:
            raise self._refused(error) from error
        remember(self._temporary, self.path)
        if not self._is_private:
            rights.limit(descriptor, mode)
        return descriptor

    def _refused(self, error: OSError) -> UsageError:
        return UsageError(
            f"{escape(self.path)}: cannot be written ({error.strerror}); name a file in a "
            "folder that can be"
        )

    def write(self, data: bytes | memoryview, /) -> int:
        """Takes all of ``data``, and returns its size."""
        self._pending.append(bytes(data))
        self._pending_size += len(data)
        if self._pending_size >= BUFFER:
            self._write_pending()
        return len(data)

    def tell(self) -> int:
        """Returns the number of bytes taken so far."""
        return self._written + self._pending_size

    def _write_pending(self) -> None:
        try:
            remaining = memoryview(b"".join(self._pending))
            while len(remaining):
                remaining = remaining[os.write(self._descriptor, remaining) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(
                f"{escape(self.path)}: {error.strerror}; the file was not kept"
            ) from error
        self._written += self._pending_size
        self._pending, self._pending_size = [], 0

    def commit(self) -> None:
        """Gives the file its name, and replaces an earlier file of that name."""
        if self.closed:
            return
        try:
            self._write_pending()
            # what is not locked may be removed until it has its name
            lock = os.dup(self._descriptor)
            try:
                self._close()
                if self._temporary is not None:
                    os.replace(self._temporary, self._target)
                    forget(self._temporary, is_written=True)
            finally:
                os.close(lock)
        except OSError as error:
            self.discard()
            raise OutputError(
                f"{escape(self.path)}: {error.strerror}; the file was not kept"
            ) from error
        except OutputError:
            self.discard()
            raise

    def discard(self) -> None:
        """Removes the unfinished file, and leaves an earlier file of that name as it was. Does
        nothing after ``commit``.
        """
        if not self.closed:
            self._close()
        if self._temporary is not None and os.path.exists(self._temporary):
            os.unlink(self._temporary)
            forget(self._temporary)

    def _close(self) -> None:
        self.closed = True
        os.close(self._descriptor)
