"""The process that records: it takes packets from the kernel and writes them to files, and does
nothing else.

Another process decodes and prints: it reads the files behind this one, as slowly as it likes. So
nothing that it does loses a packet.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, field
from typing import Any

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.capture import rights
from dcpinspect.capture.interfaces import (
    OpenInterface,
    PacketSource,
    interface_drops,
    interfaces,
    open_interface,
)
from dcpinspect.capture.kernel_filter import expression
from dcpinspect.capture.packet_socket import RETIRE_MS
from dcpinspect.capture.packet_walk import MAX_PACKET
from dcpinspect.capture.recorded_files import EVERYTHING, Limits, NoRoom, RecordedFiles
from dcpinspect.capture.ring import MOST_GROWN
from dcpinspect.errors import CaptureError, DcpInspectError, OutputError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

MIB = 1 << 20
OUT_BYTES = 4 * MIB
"""Number of bytes that are written at once."""
AT_ONCE = 16
"""Number of writes for one interface before it is another interface's turn."""
STATUS_S = 0.5
"""Seconds between two reports to the reader of how many packets there are, and between two looks at
the interfaces.
"""
LONGEST_END_S = 5.0
"""Packets that are still handed over so long after the end, in seconds, are left."""
ASK_S = 0.01
"""Seconds between two looks at a source that cannot be waited for."""
AGAIN_S = 1.0
"""Seconds after which a full disk, or an interface that is gone, is tried again."""
OF_READER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that only the reader handles: it says when to end."""


@dataclass(frozen=True, slots=True)
class RecordingOrder:
    """What is to be recorded, and where."""

    interfaces: tuple[str, ...]
    ports: tuple[int, ...] | None
    """Only packets that may be of these ports; None: all packets."""
    path: str = ""
    """The file, or the name from which the names of a ring's files are made."""
    buffer_bytes: int = 64 * MIB
    snaplen: int = MAX_PACKET
    is_promiscuous: bool = True
    each: Limits = field(default_factory=Limits)
    """How much one file of a ring holds, and how many stay."""
    stop: Limits = field(default_factory=Limits)
    """When the capture ends."""
    is_spool: bool = False
    """Whether the files are only there for the reader: the oldest make room for new ones."""
    pauses_when_full: bool = False
    """Whether the capture goes on with a full disk: packets are counted and left out meanwhile."""
    waits: bool = False
    """Whether an interface that is gone is waited for."""
    ssh: str | None = None
    """The arguments of ssh, with the host, if the interfaces are another machine's; else None."""
    tcpdump: str = "tcpdump"
    """How tcpdump is called on the other machine."""
    user: str | None = None
    """The user that the process becomes once the interfaces are open; None: it stays as it is."""

    @property
    def name(self) -> str:
        """What an error calls the file, as in ``--write x``."""
        if not self.is_spool:
            return f"--write {escape(self.path)}"
        folder = os.path.dirname(os.path.dirname(self.path))
        return f"{escape(folder)}, the folder for temporary files (TMPDIR)"

    def to_json(self) -> str:
        """Returns the wishes as text for the command line of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RecordingOrder:
        """Returns the wishes that ``to_json`` wrote."""
        fields = json.loads(text)
        fields["each"], fields["stop"] = Limits(**fields["each"]), Limits(**fields["stop"])
        fields["interfaces"] = tuple(fields["interfaces"])
        fields["ports"] = None if fields["ports"] is None else tuple(fields["ports"])
        return cls(**fields)


class _ReportPipe:
    """Sends lines of JSON to the reader. A reader that takes none does not stop the recording."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: deque[bytes] = deque()
        os.set_blocking(descriptor, False)

    def send(self, **what: Any) -> None:
        """Sends one line."""
        self._waiting.append(json.dumps(what).encode() + b"\n")
        self.flush()

    def line(self, text: str) -> None:
        """Sends what the user is to read."""
        self.send(line=text)

    def state(self, **what: Any) -> None:
        """Sends a line that the next one makes needless; it is left out while others wait."""
        self.flush()
        if not self._waiting:
            self.send(**what)

    def wake(self) -> None:
        """Tells the reader that there is more in the file."""
        if not self._waiting:
            with suppress(OSError):
                os.write(self._descriptor, b"\n")

    def flush(self) -> None:
        """Hands over what waits, as far as it is taken."""
        with suppress(OSError):
            while self._waiting:
                done = os.write(self._descriptor, self._waiting[0])
                self._waiting[0] = self._waiting[0][done:]
                if not self._waiting[0]:
                    self._waiting.popleft()

    def end(self) -> None:
        """Hands over everything that waits, however long the reader takes."""
        os.set_blocking(self._descriptor, True)
        self.flush()


class Recorder:
    """The recording of some interfaces."""

    def __init__(self, wishes: RecordingOrder, reports: _ReportPipe) -> None:
        """Opens the interfaces and the file. Raises UsageError, CaptureError, OutputError."""
        self._wishes = wishes
        self._reports = reports
        self._out: ByteArray = np.empty(OUT_BYTES, np.uint8)
        self._sources: list[PacketSource] = []
        self._gone: list[str] = []
        self._counts: list[tuple[int, int] | None] = []
        self._before: list[tuple[int, int]] = []
        """Counts of each interface before it was opened again."""
        self._unrecorded = 0
        self._is_full = False
        self._is_over = False
        self._again = 0.0
        self._ending: float | None = None
        self._moved = 0.0
        buffer_sizes, self._is_filtered = [], True
        for number, name in enumerate(dict.fromkeys(wishes.interfaces)):
            interface = self._open(name)
            interface.source.number = number
            buffer_sizes.append(interface.buffer_bytes)
            self._is_filtered &= interface.is_filtered
            self._before.append((0, 0))
            self._counts.append(None)
        self._names = [source.name for source in self._sources]
        self._interface_drops = interface_drops(self._names) if wishes.ssh is None else {}
        if wishes.user is not None:
            rights.become(wishes.user)
            rights.see_that_the_program_can_be_read(wishes.user)  # before a file is made
        snaplen = wishes.snaplen if wishes.snaplen == MAX_PACKET else wishes.snaplen + MOST_GROWN
        self._files = RecordedFiles(
            wishes.path,
            [(source.name, source.link_type) for source in self._sources],
            name=wishes.name,
            capture_filter=expression(wishes.ports)
            if wishes.ports is not None and self._is_filtered
            else None,
            snaplen=snaplen,
            each=wishes.each,
            on_file=lambda path, before: reports.send(file=path, before=before),
            on_damage=self._tell_damage,
        )
        reports.send(
            interfaces=self._files.interfaces,
            buffer=min(
                (buffer_size for buffer_size in buffer_sizes if buffer_size is not None),
                default=None,
            ),
            is_filtered=self._is_filtered or wishes.ports is None,
        )
        self._began = time.monotonic()

    def _open(self, name: str) -> OpenInterface:
        wishes = self._wishes
        if wishes.ssh is not None:
            from dcpinspect.capture.ssh import RemoteInterface  # deferred: few need it

            remote = RemoteInterface(
                wishes.ssh,
                wishes.tcpdump,
                name,
                wishes.ports,
                buffer_bytes=wishes.buffer_bytes,
                snaplen=wishes.snaplen,
            )
            self._sources.append(remote)
            return OpenInterface(remote, is_filtered=True, buffer_bytes=None)
        interface = open_interface(
            name,
            wishes.ports,
            wishes.buffer_bytes,
            snaplen=wishes.snaplen,
            is_promiscuous=wishes.is_promiscuous,
        )
        self._sources.append(interface.source)
        return interface

    def run(self) -> None:
        """Records until the reader says so or has gone, a limit is reached, or the last interface
        is gone. Raises OutputError.
        """
        poller = select.poll()
        poller.register(0, select.POLLIN)
        for source in self._sources:
            if source.fileno() is not None:
                poller.register(source.fileno() or 0, select.POLLIN)
        due = again = self._began + STATUS_S
        while True:
            ready = dict(poller.poll(self._patience(due) * 1000))
            if ready.get(0):
                os.read(0, 1)
                poller.unregister(0)
                self._begin_to_end()
            for source in list(self._sources):
                if (
                    ready.get(source.fileno() or -1, 0) & (select.POLLERR | select.POLLHUP)
                    or source.fileno() is None
                ):
                    self._look_at(source, poller)
            now = time.monotonic()
            if self._round():
                now = time.monotonic()
                self._moved = now
                self._reports.wake()
            if now >= due or not self._sources:
                due = now + STATUS_S
                self._reports.state(**self._numbers())
                if now >= again and self._gone and self._ending is None:
                    again = now + AGAIN_S
                    self._reopen(poller)
            if self._files.is_over and not self._files.is_empty:
                self._next_file()
            if (
                self._wishes.stop.seconds is not None
                and now - self._began >= self._wishes.stop.seconds
            ):
                self._begin_to_end()
            if self._is_at_end(now):
                return

    def _patience(self, due: float) -> float:
        """Returns the greatest number of seconds to wait for packets."""
        wait = min(STATUS_S, max(0.0, due - time.monotonic()))
        if self._wishes.stop.seconds is not None:
            wait = min(wait, max(0.0, self._began + self._wishes.stop.seconds - time.monotonic()))
        if any(source.fileno() is None for source in self._sources):
            wait = min(wait, ASK_S)
        return min(wait, RETIRE_MS / 1000) if self._ending is not None or self._is_full else wait

    def _begin_to_end(self) -> None:
        if self._ending is None:
            self._ending = self._moved = time.monotonic()
            for source in self._sources:
                source.end()

    def _is_at_end(self, now: float) -> bool:
        if self._is_over:
            return True
        if not self._sources:
            return not self._gone or self._ending is not None
        if self._ending is None:
            return False
        return (
            now - self._moved >= max(source.silence_s for source in self._sources)
            or now - self._ending > LONGEST_END_S
        )

    def _round(self) -> int:
        """Takes what waits and writes it, source by source; returns how many packets there were."""
        total = 0
        for source in self._sources:
            for _ in range(AT_ONCE):
                packets = self._move(source)
                total += packets
                if not source.has_more or self._is_over:
                    break
        return total

    def _move(self, source: PacketSource) -> int:
        """Writes what waits at a source, as far as the file may take it; if it may take nothing,
        the next file begins.
        """
        files, stop = self._files, self._wishes.stop
        size, packets = files.free_space
        bytes_left = EVERYTHING if stop.size is None else stop.size - files.size
        packets_left = EVERYTHING if stop.packets is None else stop.packets - files.packets
        taken, count = source.write_waiting(
            self._out[: min(len(self._out), max(0, size), max(0, bytes_left))],
            min(packets, packets_left),
        )
        if count:
            self._write_blocks(self._out.data[:taken], count)
        elif source.has_more and (packets_left <= 0 or bytes_left < min(size, len(self._out))):
            self._is_over = True
        elif source.has_more and files.is_empty:
            # a packet may be larger than the file
            taken, count = source.write_waiting(self._out, 1)
            self._write_blocks(self._out.data[:taken], count)
        elif source.has_more:
            self._next_file()
        if stop.packets is not None and files.packets >= stop.packets:
            self._is_over = True
        return count

    def _next_file(self) -> None:
        try:
            self._files.next(self._count())
        except NoRoom as error:
            if not self._wishes.is_spool:  # in a spool, the next packets make room for themselves
                self._no_room(error, 0)

    def _write_blocks(self, blocks: memoryview, packets: int) -> None:
        if self._is_full and not self._has_room():
            self._unrecorded += packets
            return
        try:
            self._files.write_blocks(blocks, packets)
        except NoRoom as error:
            blocks, packets = blocks[error.size :], packets - error.packets
            if self._wishes.is_spool and self._files.drop_oldest():
                self._write_blocks(blocks, packets)
                return
            self._no_room(error, packets)
        else:
            if self._is_full:
                self._is_full = False
                self._reports.line(
                    f"{self._wishes.name}: there is room again; recording goes on "
                    f"({self._unrecorded:,} packets are missing)"
                )

    def _has_room(self) -> bool:
        """Returns whether a full disk has room again; looks once a second.

        There must be room for more than the next few packets: small ones may fit anyway.
        """
        now = time.monotonic()
        if now < self._again:
            return False
        self._again = now + AGAIN_S
        return shutil.disk_usage(os.path.dirname(self._wishes.path) or ".").free >= OUT_BYTES

    def _no_room(self, error: NoRoom, packets: int) -> None:
        if not (self._wishes.pauses_when_full or self._wishes.is_spool):
            raise error
        self._unrecorded += packets
        if not self._is_full:
            self._is_full = True
            self._reports.line(f"{error}; packets are counted and left out until there is room")

    def _look_at(self, source: PacketSource, poller: select.poll) -> None:
        """Handles an error of a source: an interface that is down may come up again; one that is
        gone ends, or is waited for.
        """
        error = source.error()
        if error is None:
            return
        name, reason = escape(source.name), error.strerror
        if not source.is_gone:
            self._reports.line(
                f"{name}: the interface is down ({reason}); capturing goes on once it is up again"
            )
            return
        end = time.monotonic() + source.silence_s
        while time.monotonic() < end and not source.is_empty:  # what still waits
            if self._move(source):
                end = time.monotonic() + source.silence_s
            time.sleep(RETIRE_MS / 1000)
        if source.fileno() is not None:
            poller.unregister(source.fileno() or 0)
        self._counts[source.number] = self._counted(source)
        self._before[source.number] = self._counts[source.number] or (0, 0)
        self._sources.remove(source)
        source.close()
        if self._ending is not None:
            return
        problem = f"the interface is gone ({reason})"
        if self._wishes.waits:
            self._gone.append(source.name)
            self._reports.line(f"{name}: {problem}; capturing goes on once it is back")
            return
        advice = "start again when it is back, or wait for it with --wait"
        self._reports.send(problem=[source.name, f"{problem}; {advice}"])
        if self._sources:  # otherwise the end says so at once
            self._reports.line(f"{name}: {problem}; the other interfaces go on")

    def _reopen(self, poller: select.poll) -> None:
        interfaces()  # an interface that is back has another number
        for name in list(self._gone):
            try:
                source = self._open(name).source
            except DcpInspectError:
                continue
            self._gone.remove(name)
            source.number = self._files.interface(name, source.link_type)
            if source.number == len(self._counts):  # it is of another kind than before
                self._before.append((0, 0))
                self._counts.append(None)
                self._reports.send(interfaces=self._files.interfaces)
            if source.fileno() is not None:
                poller.register(source.fileno() or 0, select.POLLIN)
            self._reports.line(f"{escape(name)}: the interface is back; capturing goes on")

    def _tell_damage(self, path: str, what: str) -> None:
        if not self._wishes.is_spool:  # its files go once they are read
            self._reports.send(problem=[path, what])

    def _counted(self, source: PacketSource) -> tuple[int, int] | None:
        counts = source.counts()
        if counts is None:
            return None
        received, dropped = self._before[source.number]
        return received + counts[0], dropped + counts[1]

    def _count(self) -> list[tuple[int, int] | None]:
        for source in self._sources:
            self._counts[source.number] = self._counted(source)
        return self._counts

    def _numbers(self) -> dict[str, Any]:
        """Returns what the reader is told: how much there is by now."""
        drops = interface_drops(self._names)
        return {
            "at": time.monotonic(),  # the same for all processes
            "counts": list(self._count()),
            "packets": self._files.packets,
            "bytes": self._files.size,
            "unrecorded": self._unrecorded,
            "interface_drops": sum(
                max(0, drops.get(name, before) - before)
                for name, before in self._interface_drops.items()
            ),
        }

    def end(self) -> None:
        """Ends the file. Raises OutputError."""
        try:
            self._files.end(self._count())
        except NoRoom:
            if not self._is_full:
                raise
        finally:
            self._reports.send(**self._numbers())
            for source in self._sources:
                source.close()


def main() -> int:
    """Records what the command line says, in JSON, until standard input has something or ends. What
    happens is told on standard output.
    """
    for number in OF_READER:
        signal.signal(number, signal.SIG_IGN)
    # the reader held the signals back while this process loaded
    signal.pthread_sigmask(signal.SIG_UNBLOCK, OF_READER)
    with suppress(OSError):
        os.nice(-10)  # if allowed, before processes that decode: they can wait
    rights.be_private()
    reports, wishes = _ReportPipe(1), RecordingOrder.from_json(sys.argv[1])
    try:
        recorder = Recorder(wishes, reports)
        try:
            recorder.run()
        finally:
            recorder.end()
    except CaptureError as error:
        reports.send(error="CaptureError", arguments=[error.path, error.what, error.next_step])
    except (OutputError, UsageError) as error:
        reports.send(
            error="UsageError" if isinstance(error, UsageError) else "OutputError",
            arguments=[str(error)],
        )
    reports.send(end=True)  # last: the reader does not wait for more
    reports.end()
    # if the reader is killed before it has read everything, nobody else removes the files
    if wishes.is_spool:
        while os.read(0, 1 << 10):
            pass
        shutil.rmtree(os.path.dirname(wishes.path), ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
