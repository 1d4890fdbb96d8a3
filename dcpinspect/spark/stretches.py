"""Divides a large capture into stretches, each scanned by a task of its own.

A pcap file has no mark between its records, so the begin of a stretch is guessed: the first place
from which many records follow one another.

The task of the stretch before reads up to the first record behind its own end. If that record is at
the guessed place, the guess was right.

If this holds for all stretches, all guesses were right, because the first stretch begins with the
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.byte_source import Window
from dcpinspect.capture.open import CaptureFile, FileDamage
from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PROBLEMS
from dcpinspect.capture.pcap import AT, DONE, FILE_HEADER, Pcap, find_record
from dcpinspect.capture.remote import open_remote
from dcpinspect.closable import Closable
from dcpinspect.errors import CaptureError

BYTES = 32 << 20
"""Least size of a stretch in bytes."""
SEARCHED = 4 << 20
"""Number of bytes in which the first record of a stretch is searched."""
CHAINED = 16
"""Number of records that must follow one another there."""

Stretch = tuple[int, int]
"""Bytes of the file between which the records of the stretch begin: the first, and behind."""


def stretches(path: str, size: int, count: int) -> list[Stretch]:
    """Divides a capture into ``count`` stretches or fewer; into one if nobody can tell where."""
    count = min(count, size // BYTES)
    if count > 1:
        try:
            with open_remote(path) as file:
                Pcap(file.read(FILE_HEADER))
        except (OSError, ValueError):
            count = 1
    edges = [size * number // max(1, count) for number in range(count)]
    return [*pairwise(edges), (edges[-1] if edges else 0, size)]


def _begun(header: bytes) -> Pcap:
    """Returns the format of a file, in its state after the header."""
    format_ = Pcap(header)
    format_.walk(np.frombuffer(header, np.uint8), FILE_HEADER, final=False)
    return format_


class StretchPackets(Closable):
    """The packets of a stretch of a plain pcap file, in the form of a capture; they are numbered
    from the first one of the stretch.
    """

    def __init__(self, path: str, stretch: Stretch, batch_bytes: int) -> None:
        """Raises OSError, and CaptureError if no record begins near the start of the stretch."""
        self.files = [CaptureFile(path, format=Pcap.name, storage="plain")]
        self.packets = 0
        self._end, self._batch_bytes = stretch[1], batch_bytes
        self._file = open_remote(path)
        header = self._file.read(FILE_HEADER)
        self._format = _begun(header)
        self.files[0].unread = self._format.unread
        self.begin = self.position = (
            FILE_HEADER if stretch[0] < FILE_HEADER else self._next_record(header, stretch[0])
        )
        """``begin``: offset of the first record. ``position``: offset up to which it was read."""

    def _next_record(self, header: bytes, start: int) -> int:
        self._file.seek(start)
        window = Window(self._file, SEARCHED)
        window.advance(0, SEARCHED)
        data = window.data[: window.size]
        state = self._format.state(0, 0, is_final=window.at_end)
        chained = 1 if window.at_end else CHAINED
        while True:
            verdict = find_record(data, len(data), state)
            if verdict != DONE:
                self.close()
                raise CaptureError(self.files[0].name, "no record begins near here", offset=start)
            offset = int(state[AT])
            walk = _begun(header).walk(data[offset:], len(data) - offset, final=False)
            if not walk.problems and len(walk) >= chained:
                return start + offset
            state[AT] += 1

    def __iter__(self) -> Iterator[PacketBatch]:
        file, window = self.files[0], Window(self._file, self._batch_bytes)
        self._file.seek(self.begin)
        consumed = need = 0
        while self.position < self._end and not window.at_end:
            window.advance(consumed, need)
            position = self.begin + window.file_offset
            walk = self._format.walk(window.data, window.size, final=window.at_end)
            consumed, need = walk.consumed, min(walk.need, 2 * MAX_BLOCK)
            record = position + walk.columns[0] - self._format.record_header
            count = int(np.searchsorted(record, self._end))
            self.position = int(record[count]) if count < len(record) else position + consumed
            inside = [
                FileDamage(file.name, position + offset, problem)
                for offset, problem in walk.problems
                if position + offset < self._end
            ]
            file.problems += inside[: MAX_PROBLEMS - len(file.problems)]
            if count:
                yield PacketBatch(
                    data=window.data[: window.size],
                    columns=walk.columns[:, :count],
                    file=0,
                    first_frame=self.packets + 1,
                    first_packet=self.packets,
                    file_offset=position,
                )
                self.packets += count

    @property
    def problems(self) -> list[FileDamage]:
        """Damaged places that were found so far."""
        return self.files[0].all_problems

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
