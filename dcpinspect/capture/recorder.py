"""Packets to a pcapng file while they are captured: what is in it can be read at any moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
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

    def __init__(self, path: str, interfaces: Iterable[tuple[str, int]], *, capture_filter: str | None) -> None:
        """``interfaces``: name and link type of each, by the numbers that packets have."""
        self._path = path
        self._size = 0
        try:
            self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise OutputError(f"--write {escape(path)}: cannot be written to ({error.strerror})") from error
        try:
            self._writer = PcapNgWriter(self)
            for number, (name, link_type) in enumerate(interfaces):
                self._writer.interface(link_type, name=name, capture_filter=capture_filter, number=number)
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
                self._file.seek(self._size)  # what is still written belongs here, and not behind a hole
            raise OutputError(f"--write {escape(self._path)}: {error.strerror}; it has the packets before that") from error
        return done

    def close(self, counts: Sequence[tuple[int, int] | None]) -> None:
        """Ends the file with (received, dropped) of each interface, as the kernel counts them; None where it does not say."""
        try:
            for interface, known in enumerate(counts):
                if known is not None:
                    self._writer.statistics(interface, received=known[0], dropped=known[1], time_ns=time.time_ns())
                    self._size = self._file.tell()
        finally:
            self._file.close()
