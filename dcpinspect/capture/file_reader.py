"""Reads one capture file, packed or plain, buffer by buffer."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from dcpinspect.capture.batch import TIME_NS, PacketBatch
from dcpinspect.capture.byte_source import ByteSource, Window
from dcpinspect.capture.mended import CERTAIN, NO_TERMINAL
from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PROBLEMS, Format, Walk
from dcpinspect.capture.pcap import FILE_HEADER, Pcap
from dcpinspect.capture.pcapng import PcapNg
from dcpinspect.errors import CaptureError

TEXT = 8
"""So many letters, digits and signs are a text; as many are where a block is damaged."""
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1
"""Times before and after all others."""
PEEK = 1 << 16
"""Number of bytes read to see what a file is, and when it begins."""
_TAIL = 1 << 20
"""Number of bytes in which the last packets of a file are looked for."""


class FileReader:
    """One file, walked buffer by buffer."""

    def __init__(self, path: str, batch_bytes: int, *, follow: bool = False) -> None:
        self.source = ByteSource(path, follow=follow)
        self.window = Window(self.source, batch_bytes)
        self._first: Walk | None = None
        self._before_first: list[tuple[int, str]] = []  # damaged places, by offset in the file
        try:
            while self.window.size < FILE_HEADER and not self.window.at_end:
                self.window.advance(0, FILE_HEADER)
            self.format = self._recognised()
        except BaseException:
            self.close()
            raise

    def _recognised(self) -> Format:
        header = self.window.data[: min(self.window.size, FILE_HEADER)].tobytes()
        if not header or (self.source.problem and len(header) < FILE_HEADER):
            raise CaptureError(
                self.source.name,
                self.source.problem or "is empty",
                "record again, or name another file",
            )
        for kind in (Pcap, PcapNg):
            try:
                return kind(header)
            except ValueError:
                continue
        from dcpinspect.capture.no_capture import (  # deferred: for what is no capture
            HEAD,
            what_it_is,
        )

        self.window.advance(0, HEAD)
        if answer := what_it_is(self.window.data[: min(self.window.size, HEAD)].tobytes()):
            raise CaptureError(self.source.name, *answer)
        start = header[:4].hex(" ")
        raise CaptureError(
            self.source.name,
            f"is not a capture (begins with {start})",
            "give a pcap or pcapng file, plain or packed by gzip, zstd, xz or bzip2",
        )

    def __iter__(self) -> Iterator[tuple[Walk, Window]]:
        window = self.window
        # then a record that is being written is no damage
        while not (window.at_end and self.source.was_stopped):
            walk = self._walk() if self._first is None else self._first
            self._first = None
            if window.at_end and self.source.problem:
                walk.problems.append((window.size, self.source.problem))
            yield walk, window
            if window.at_end:
                return
            window.advance(walk.consumed, min(walk.need, 2 * MAX_BLOCK))

    def _seen(self, at: int) -> str:
        """Returns what the bytes of a damaged place look like, as a part of a sentence; empty for
        nothing in particular.
        """
        data = self.window.data[: self.window.size]
        damaged_bytes = data[at : at + TEXT].tobytes()
        if (
            len(damaged_bytes) == TEXT
            and damaged_bytes.isascii()
            and damaged_bytes.decode().isprintable()
        ):
            return f"; text is there: {damaged_bytes.decode()}…"
        if len(damaged_bytes) == TEXT and not damaged_bytes.strip(b"\0"):
            return "; zeros are there, which were never written, or are lost"
        lines = np.count_nonzero(data == ord("\n"))
        if lines >= CERTAIN and lines == np.count_nonzero(
            (data[1:] == ord("\n")) & (data[:-1] == ord("\r"))
        ):
            return f"; {NO_TERMINAL}"
        return ""

    def _walk(self) -> Walk:
        walk = self.format.walk(self.window.data, self.window.size, final=self.window.at_end)
        walk.problems[:] = [
            *((at - self.window.file_offset, damage) for at, damage in self._before_first),
            *((at, f"{damage}{self._seen(at)}") for at, damage in walk.problems),
        ]
        self._before_first = []
        return walk

    def first_time(self) -> int:
        """Returns the time of the first packet in nanoseconds; ``LATEST`` if there is none. A pipe
        keeps what was read for this.
        """
        while True:
            walk = self._walk()
            if len(walk):
                self._first = walk
                return int(walk.columns[TIME_NS, 0])
            if self.window.at_end:
                self._first = walk
                return LATEST
            self._before_first = [
                (self.window.file_offset + at, damage) for at, damage in walk.problems
            ][:MAX_PROBLEMS]
            self.window.advance(walk.consumed, min(walk.need, 2 * MAX_BLOCK))

    @property
    def has_snaplens(self) -> bool:
        """Whether the first packets are of interfaces with different snapshot lengths."""
        self.first_time()
        return self._first is not None and self._first.snaplen is not None

    def close(self) -> None:
        """Frees the file."""
        self.source.close()


def last_packets(path: str) -> PacketBatch | None:
    """Returns packets up to the end of a file, which is not read for this; None if it is packed, or
    no record is found. Raises CaptureError and OSError.
    """
    reader = FileReader(path, PEEK)
    try:
        if reader.source.storage != "plain" or reader.first_time() == LATEST:
            return None
        with open(path, "rb") as file:
            file.seek(max(FILE_HEADER, os.fstat(file.fileno()).st_size - _TAIL))
            # what begins no record: the next one is looked for
            data = np.frombuffer(bytes((255,)) * FILE_HEADER + file.read(_TAIL), np.uint8)
        walk = reader.format.walk(data, len(data), final=True)
        return PacketBatch(data, walk.columns, 0, 1, 0, 0) if len(walk) else None
    finally:
        reader.close()
