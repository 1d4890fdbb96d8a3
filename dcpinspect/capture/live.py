"""Packets of network interfaces as they come: small batches, soon, in one numbering; and time, when none come."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np

from dcpinspect.capture.batch import Bytes, PacketBatch, pause
from dcpinspect.capture.clock import EVERY_S, CaptureClock
from dcpinspect.capture.interfaces import PacketSource, open_interface
from dcpinspect.capture.kernel_filter import expression
from dcpinspect.capture.open import CaptureFile, Problem
from dcpinspect.capture.packet_socket import ROOM, Frame
from dcpinspect.escape import escape

MIB = 1 << 20
BUFFER_BYTES = 64 * MIB
"""What the kernel may hold while messages are printed: 10 s of 50 Mbit/s. It takes memory only while packets wait."""
GATHER_S = 0.02
"""How long packets are gathered: a batch costs a millisecond, however few it has, and a line may take 100 ms."""
BATCH_PACKETS = 10_000
BATCH_BYTES = 4 * MIB

Keep = Callable[[PacketBatch], PacketBatch]
"""Leaves out what is not asked for, where the kernel does not."""


@dataclass(slots=True)
class _Pending:
    """A batch in the making: a buffer and a number for each packet."""

    room: Bytes = field(default_factory=lambda: np.empty(BATCH_BYTES + ROOM, np.uint8))
    used: int = 0
    begin: int = 0
    rows: list[Frame] = field(default_factory=list)
    interfaces: list[int] = field(default_factory=list)
    given: int = 0
    """Bytes of the batches before."""

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= BATCH_PACKETS or self.used + ROOM > len(self.room)

    def take(self, source: PacketSource) -> bool:
        """The next frame of a source; False when none waits there."""
        frame = source.receive(self.room.data, self.used)
        if frame is None:
            return False
        self.rows.append(frame)
        self.interfaces.append(source.number)
        self.used = frame[0] + frame[1]
        return True

    def batch(self, first_packet: int) -> PacketBatch:
        """What has been taken, in a buffer of its own."""
        columns = np.array(self.rows, np.int64).reshape(-1, 5).T
        offset, captured, wire, time_ns, link_type = (np.ascontiguousarray(column) for column in columns)
        offset -= self.begin
        data = self.room[self.begin : self.used]
        interface = np.array(self.interfaces, np.int64)
        self.begin, self.rows, self.interfaces = self.used, [], []
        if self.used + ROOM > len(self.room):
            self.room, self.used, self.begin = np.empty(BATCH_BYTES + ROOM, np.uint8), 0, 0
        before, self.given = self.given, self.given + len(data)
        place = (0, first_packet + 1, first_packet, before)
        return PacketBatch(data, offset, captured, wire, time_ns, link_type, *place, interface=interface)


class LiveCapture:
    """The packets of interfaces, until ``stop``, ``duration_s`` or the last interface goes. Iterate once; use as a context manager.

    All interfaces are one file of the reading, so that frames count as they do in a file that is written meanwhile.
    Raises UsageError for an interface that is none, and CaptureError for one that may not or cannot be captured.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        ports: Sequence[int] | None,
        *,
        keep: Keep,
        tell: Callable[[str], None],
        duration_s: float | None = None,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """``ports``: only packets that may be of these are captured, None: all. ``tell`` takes a line for the person who waits."""
        self.files = [CaptureFile(", ".join(interfaces), "live")]
        self.on_batch: Callable[[PacketBatch], None] = lambda _: None
        """Sees every batch before the engine does."""
        self._tell = tell
        self._keep: Keep = lambda batch: batch
        self._duration_s = duration_s
        self._sources: list[PacketSource] = []
        self._counts: dict[str, tuple[int, int] | None] = {}
        self._errors: dict[str, OSError] = {}
        self._clock = CaptureClock()
        self.filter = None if ports is None else expression(ports)
        """What the packets of the capture are, as libpcap has it; None when they are all there were."""
        self._bytes = 0
        self._taken = 0
        self._stopped = False
        self._wake_read, self._wake_write = os.pipe()
        try:
            for number, name in enumerate(dict.fromkeys(interfaces)):
                opened = open_interface(name, ports, buffer_bytes)
                opened.source.number = number
                self._counts[name] = None
                self._sources.append(opened.source)
                self._buffer_bytes = opened.buffer_bytes
                if ports is not None and not opened.is_filtered:
                    self._keep = keep
        except BaseException:
            self.close()
            raise
        if self._keep is keep:
            tell("libpcap is not installed, so dcpinspect filters packets instead of the kernel, which is slower; install libpcap")

    @property
    def position(self) -> int:
        """Bytes delivered so far."""
        return self._bytes

    @property
    def size(self) -> None:
        """Nobody knows how much will come."""

    @property
    def packets(self) -> int:
        """Packets delivered so far."""
        return self.files[0].packets

    @property
    def problems(self) -> list[Problem]:
        """Interfaces that are gone."""
        return self.files[0].problems

    @property
    def interfaces(self) -> list[tuple[str, int]]:
        """Name and LINKTYPE_ number of each interface, by the numbers that the packets have."""
        return [(source.name, source.link_type) for source in self._sources]

    @property
    def counts(self) -> list[tuple[int, int] | None]:
        """Packets that each interface had for us, and those of them that the kernel dropped; None where the system does not say."""
        return list(self._counts.values())

    @property
    def unread(self) -> int:
        """Packets that still wait in the kernel; as far as the system says."""
        self._count()
        return max(0, self.received - (self.dropped or 0) - self._taken) if self.dropped is not None else 0

    @property
    def received(self) -> int:
        """Packets that the kernel had for us so far, those it dropped among them; as far as the system says."""
        return sum(one[0] for one in self._counts.values() if one is not None)

    @property
    def dropped(self) -> int | None:
        """Packets that the kernel dropped because nobody took them in time; None where no system says."""
        known = [one[1] for one in self._counts.values() if one is not None]
        return sum(known) if known else None

    def stop(self) -> None:
        """Ends the iteration once what has come is delivered. May be called from a signal handler or another thread."""
        self._stopped = True
        os.write(self._wake_write, b"x")

    def __iter__(self) -> Iterator[PacketBatch]:
        pending = _Pending()
        end = None if self._duration_s is None else time.monotonic() + self._duration_s
        told = time.monotonic()
        is_behind = False
        while self._sources:
            if not is_behind:
                self._wait(min(told + EVERY_S, end if end is not None else told + EVERY_S) - time.monotonic())
            is_last = self._stopped or (end is not None and time.monotonic() >= end)
            until_ns = time.time_ns() if is_last else None
            is_behind = True
            while is_behind and self._fill(pending, until_ns):
                is_behind = pending.is_full
                self._taken += len(pending.rows)
                batch = self._keep(pending.batch(self.packets))
                if len(batch):
                    self.files[0].packets += len(batch)
                    self._bytes += int(batch.captured.sum())
                    self._clock.note(batch)
                    self.on_batch(batch)
                    yield batch
                if not is_last and (self._stopped or time.monotonic() >= (end or math.inf) or time.monotonic() - told >= EVERY_S):
                    break
            else:
                is_behind = False
            if is_last:
                break
            if time.monotonic() - told >= EVERY_S:
                told = time.monotonic()
                self._count()
                now = self._clock.now_ns()
                if now is not None and not is_behind:
                    yield pause(now, file=0, first_frame=self.packets + 1, first_packet=self.packets)
        self._count()

    def _wait(self, seconds: float) -> None:
        """Until packets have come, and some more may have, or the time is over."""
        files = [file for source in self._sources if (file := source.fileno()) is not None]
        if len(files) == len(self._sources) and (seconds <= 0 or not select.select([*files, self._wake_read], [], [], seconds)[0]):
            return
        if not self._stopped:
            time.sleep(GATHER_S)

    def _fill(self, pending: _Pending, until_ns: int | None) -> bool:
        """Takes what waits, interface by interface in turn, at the end only what came before then; False when nothing did."""
        waiting = list(self._sources)
        while waiting and not pending.is_full:
            for source in list(waiting):
                try:
                    is_more = pending.take(source)
                except OSError as error:
                    is_more = source.name not in self._errors  # it is told before what still waits
                    self._errors[source.name] = error
                if is_more and until_ns is not None and pending.rows and pending.rows[-1][3] > until_ns:
                    is_more = False
                if not is_more:
                    waiting.remove(source)
                    if source.name in self._errors:
                        self._lose(source, self._errors.pop(source.name))
                if pending.is_full:
                    break
        return bool(pending.rows)

    def _lose(self, source: PacketSource, error: OSError) -> None:
        """An interface that is down may come up again; one that is gone ends."""
        if not source.is_gone:
            self._tell(f"{escape(source.name)}: the interface is down ({error.strerror}); capturing goes on once it is up again")
            return
        self._sources.remove(source)
        self._counts[source.name] = source.counts() if source.fileno() is not None else None
        source.close()
        self.problems.append(Problem(source.name, None, f"the interface is gone ({error.strerror}); start again when it is back"))
        if self._sources:  # otherwise the end says so at once
            self._tell(f"{escape(source.name)}: the interface is gone ({error.strerror}); the other interfaces go on")

    def _count(self) -> None:
        before = self.dropped
        for source in self._sources:
            self._counts[source.name] = source.counts()
        if self.dropped and not before:
            room = "" if self._buffer_bytes is None else f" of {self._buffer_bytes // MIB} MiB"
            self._tell(
                f"{escape(self.files[0].name)}: the kernel's buffer{room} was full and packets were dropped; messages may be missing;"
                " give --buffer more MiB, or print less"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees the interfaces."""
        for source in self._sources:
            source.close()
        self._sources.clear()
        for end in (self._wake_read, self._wake_write):
            if end >= 0:
                os.close(end)
        self._wake_read = self._wake_write = -1
