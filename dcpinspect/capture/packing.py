"""Compresses finished files of a ring, in a thread, after they were read."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from dcpinspect.temporary import forget, remember

SUFFIX = {"gzip": ".gz", "zstd": ".zst"}
_PART = ".part"
_CHUNK = 1 << 20


class Packer:
    """Replaces files by compressed ones of the same name and another suffix, one after the other. A
    file that cannot be packed stays.
    """

    def __init__(self, kind: str) -> None:
        """``kind``: a key of ``SUFFIX``."""
        self._kind = kind
        self._waiting: SimpleQueue[str | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def pack(self, path: str) -> None:
        """Takes a file that is complete, and read."""
        self._waiting.put(path)

    def end(self) -> None:
        """Returns once all files are packed."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (path := self._waiting.get()) is not None:
            packed = path + SUFFIX[self._kind]
            remember(packed + _PART)
            try:
                self._pack(path, packed + _PART)
                os.replace(packed + _PART, packed)
                os.unlink(path)
            except FileNotFoundError:  # the ring has gone on
                with contextlib.suppress(OSError):
                    os.unlink(packed)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(packed + _PART)
            forget(packed + _PART)

    def _pack(self, path: str, target: str) -> None:
        with open(path, "rb") as source, Path(target).open("wb") as file:
            shutil.copymode(path, target)
            with self._sink(file) as sink:
                shutil.copyfileobj(source, sink, _CHUNK)

    def _sink(self, file: BinaryIO) -> Any:
        """Returns a file that writes packed to ``file``."""
        if self._kind == "gzip":
            import gzip  # deferred, as zstd: few ask for it

            return gzip.GzipFile("", "wb", 6, file)
        from dcpinspect.capture.zstd import zstd

        return zstd.ZstdFile(file, "wb")


def remove(path: str) -> None:
    """Removes a file of a ring, packed or not, if it is there."""
    for suffix in ("", *SUFFIX.values()):
        with contextlib.suppress(OSError):
            os.unlink(path + suffix)
