"""Packets to a pcapng file while they are captured: what is in it can be read at any moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.pcapng_writer import PcapNgWriter
from dcpinspect.errors import OutputError
from dcpinspect.escape import escape


class Recorder:
    """Writes batch by batch, each at once. What the disk did not take whole is taken back, so that the file stays readable.

    Raises OutputError.
    """

    def __init__(self, path: str, interface: str, link_types: Iterable[int], *, capture_filter: str | None) -> None:
        self._path = path
        self._size = 0
        try:
            self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise OutputError(f"--write {escape(path)}: cannot be written to ({error.strerror})") from error
        try:
            self._writer = PcapNgWriter(self)
            for link_type in link_types:
                self._writer.interface(link_type, name=interface, capture_filter=capture_filter)
        except BaseException:
            self._file.close()
            raise
        self._size = self._file.tell()

    def batch(self, packets: PacketBatch) -> None:
        """These packets come next."""
        self._writer.write(packets)
        self._size = self._file.tell()

    def write(self, data: bytes | memoryview, /) -> int:
        """What the writer wants of a file."""
        view = memoryview(data)
        done = 0
        try:
            while done < len(view):
                done += self._file.write(view[done:])
        except OSError as error:
            with suppress(OSError):  # a device has no size
                os.ftruncate(self._file.fileno(), self._size)
            raise OutputError(f"--write {escape(self._path)}: {error.strerror}; the packets before are in it") from error
        return done

    def close(self, *, received: int, dropped: int | None) -> None:
        """Ends the file with the kernel's counts, where they are known."""
        try:
            if dropped is not None:
                self._writer.statistics(0, received=received, dropped=dropped, time_ns=time.time_ns())
        finally:
            self._file.close()
