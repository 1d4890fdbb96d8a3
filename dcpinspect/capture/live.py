"""Packets of network interfaces as they come: a process of its own records them, and this one reads
the recorder's files.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, BinaryIO, NoReturn

from dcpinspect import errors
from dcpinspect.capture import rights
from dcpinspect.capture.batch import PacketBatch, pause
from dcpinspect.capture.byte_source import Window
from dcpinspect.capture.clock import EVERY_S, CaptureClock
from dcpinspect.capture.open import CaptureFile, FileDamage
from dcpinspect.capture.packet_walk import MAX_BLOCK, MAX_PROBLEMS
from dcpinspect.capture.packing import Packer
from dcpinspect.capture.pcapng import PcapNg
from dcpinspect.capture.recorder import MIB, OF_READER, RecordingOrder
from dcpinspect.closable import Closable
from dcpinspect.errors import CaptureError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.temporary import at_end, new_folder, not_at_end, remove
from dcpinspect.text import escape

BATCH_BYTES = 4 * MIB
"""Number of bytes read at once: few, so that Ctrl-C need not wait long."""
SPOOL_BYTES = 4096 * MIB
SPOOL_FILES = 16
BEHIND_S = (2, 20, 200, 2000)
"""A reader that lags this many seconds behind the recorder is told so."""
MOST_STATES = 1 << 13
"""Number of states of the recorder that are remembered: of an hour."""
_HEADER = 12
_END_S = 10.0
"""Seconds within which the recorder has to end once nobody reads, and has to answer once it is to
end.
"""
_SOON_S = 0.8
"""Seconds that a program that a signal ends waits for that; the recorder ends without it, too."""


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Holds signals to end back, also in processes that begin here: one that is still loading would
    answer them with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_READER)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(slots=True)
class RecorderCounts:
    """What the recorder has counted so far."""

    packets: int = 0
    """Number of packets recorded."""
    bytes: int = 0
    counts: list[Sequence[int] | None] = field(default_factory=list)
    """For each interface: packets that it had for us, and how many of them the kernel dropped; None
    where the system does not say.
    """
    unrecorded: int = 0
    """Number of packets for which there was no room on the disk."""
    interface_drops: int = 0
    """Number of packets that interfaces dropped themselves, of whatever kind."""


class LiveCapture(Closable):
    """The packets of interfaces, until ``stop``, a limit, or the end of the last interface. Iterate
    once; use as a context manager.

    All interfaces are one file of the reading, so that frames count as they do in the file that is
    written meanwhile. Raises UsageError for a name that is no interface, CaptureError for an
    interface that may not or cannot be captured, OutputError.
    """

    def __init__(
        self,
        order: RecordingOrder,
        *,
        tell: Callable[[str], None],
        spool_bytes: int = SPOOL_BYTES,
        packing: str | None = None,
    ) -> None:
        """Starts the recorder.

        ``order``: without a path, packets are kept in up to ``spool_bytes`` of temporary files until
        they are read. ``tell`` takes a line for the user. ``packing``: how the files of a ring are
        compressed once they were read, as in ``zstd``.
        """
        self.files = [CaptureFile(", ".join(order.interfaces), "live")]
        self.numbers = RecorderCounts()
        self.lost = 0
        """Number of packets that were recorded but gone before they were read, because the ring or
        the spool was full.
        """
        self._tell = tell
        self.is_enough: Callable[[], bool] = lambda: False
        """Asked after each batch: whether the capture is to end."""
        self.on_error: Callable[[errors.DcpInspectError], object] = _raise
        """Called at the end of the iteration if the recorder could not go on; by default raises
        that.
        """
        self._error: errors.DcpInspectError | None = None
        self._clock = CaptureClock()
        self._recorded: deque[tuple[float, int]] = deque(maxlen=MOST_STATES)
        """Monotonic times, and how many packets were recorded by then; of packets that were not
        delivered.
        """
        self._bytes = 0
        self._spool = None if order.path else new_folder()
        if self._spool is not None:
            # a file is freed once it was read, so all of them have to be small beside the room
            spool_bytes = min(spool_bytes, shutil.disk_usage(self._spool).free)
            order = replace(
                order,
                path=os.path.join(self._spool, "packets"),
                each=replace(
                    order.each, size=max(MIB, spool_bytes // SPOOL_FILES), files=SPOOL_FILES
                ),
                is_spool=True,
            )
        self._is_told = dict.fromkeys(("dropped", "lost"), False)
        self._behind = 0
        self._is_ended = False
        self._stopped_at: float | None = None
        self._heard_at = time.monotonic()
        self.interfaces: list[tuple[str, int]] = []
        """Name and LINKTYPE_ number of each interface, by the number that its packets have."""
        self.buffer_bytes: int | None = None
        """Size of the kernel's buffer for packets that wait; None where the system does not say."""
        self._chain = _Chain(self._hear, self._wait, self._done_with)
        self._packer = None if packing is None else Packer(packing)
        if self._spool is not None and order.user is not None:
            rights.give(self._spool, order.user)
        self._heard = b""
        self._start(order)
        try:
            self._wait_for_interfaces()
            if order.user is not None:
                rights.become(order.user)
        except BaseException:
            self.close()
            raise

    def _start(self, order: RecordingOrder) -> None:
        """Starts the recorder, whose output can be read without waiting."""
        command = [sys.executable, "-P", "-m", "dcpinspect.capture.recorder", order.to_json()]
        with _held_back():
            self._recorder = subprocess.Popen(  # noqa: S603 - this program
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            at_end(self._let_recorder_end)
        assert self._recorder.stdout is not None
        os.set_blocking(self._recorder.stdout.fileno(), False)

    def _wait_for_interfaces(self) -> None:
        """Waits until the recorder has opened the interfaces. Raises what it could not do."""
        while not self.interfaces and not self._is_ended:
            self._wait(1.0)
            self._hear()
        if not self.interfaces:
            self._raise()

    @property
    def position(self) -> int:
        """Number of bytes delivered so far."""
        return self._bytes

    @property
    def size(self) -> None:
        """None: nobody knows how much will come."""

    @property
    def packets(self) -> int:
        """Number of packets delivered so far, with the packets between them that were lost."""
        return self.files[0].packets

    @property
    def problems(self) -> list[FileDamage]:
        """Interfaces that are gone, and files that ended."""
        return self.files[0].problems

    @property
    def unread(self) -> int:
        """Number of packets that were captured and not read."""
        self._hear()
        return max(0, self.numbers.packets - self.packets)

    @property
    def lag_s(self) -> float:
        """How long the packets wait that come next, in seconds, to within ``STATUS_S``; 0 while
        none wait. Another thread may ask.
        """
        delivered = self.packets
        if self._chain.is_behind:
            for recorded_at, packets in tuple(self._recorded):
                if packets > delivered:
                    return max(0.0, time.monotonic() - recorded_at)
        return 0.0

    @property
    def dropped(self) -> int | None:
        """Number of packets that the kernel dropped because nobody took them in time; None where no
        system says.
        """
        drop_counts = [
            interface_counts[1]
            for interface_counts in self.numbers.counts
            if interface_counts is not None
        ]
        return sum(drop_counts) if drop_counts else None

    @property
    def drops_in_words(self) -> str:
        """What is known of packets that the kernel dropped, in words."""
        unknown = [
            name
            for (name, _), interface_counts in zip(
                self.interfaces, self.numbers.counts, strict=False
            )
            if interface_counts is None
        ]
        if self.dropped is None:
            return "the system does not say how many were dropped"
        but = (
            f" (of {', '.join(map(escape, dict.fromkeys(unknown)))} it is not known)"
            if unknown
            else ""
        )
        return f"{self.dropped:,} dropped by the kernel{but}"

    can_stop = True

    def stop(self) -> None:
        """Ends the recording; the iteration ends once what was recorded is delivered. A signal
        handler or a thread may call this.
        """
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
        pipe = self._recorder.stdin
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None:
                os.write(pipe.fileno(), b"x")

    def __iter__(self) -> Iterator[PacketBatch]:
        window = Window(self._chain, BATCH_BYTES)
        while window.size < _HEADER and not window.at_end:
            window.advance(0, _HEADER)
        if window.size < _HEADER:
            return
        format_ = PcapNg(window.data[:_HEADER].tobytes())
        file = self.files[0]
        due = time.monotonic() + EVERY_S
        while True:
            walk = format_.walk(window.data, window.size, final=window.at_end)
            damages = [FileDamage(file.name, None, damage) for _, damage in walk.problems]
            file.problems.extend(damages[: MAX_PROBLEMS - len(file.problems)])
            if len(walk):
                data = window.data[: window.size]
                file_position = (0, file.packets + 1, file.packets, window.file_offset)
                batch = PacketBatch(data, walk.columns, *file_position, options=walk.options)
                file.packets += len(batch)
                self._bytes += int(batch.captured.sum())
                self._clock.note(batch)
                yield batch
            if self._chain.skipped:
                self._skip()
            self._hear()
            self._say_how_far_behind()
            if window.at_end:
                break
            if self.is_enough():
                self.stop()
            if window.is_quiet and time.monotonic() >= due:
                due = time.monotonic() + EVERY_S
                yield pause(
                    self._clock.now_ns(),
                    file=0,
                    first_frame=file.packets + 1,
                    first_packet=file.packets,
                )
            window.advance(walk.consumed, min(walk.need, 2 * MAX_BLOCK))
        if self._error is not None:
            self.on_error(self._error)

    def _skip(self) -> None:
        """Counts packets that are gone: they count as frames, but not as read."""
        count, self._chain.skipped = self._chain.skipped, 0
        self.lost += count
        self.files[0].packets += count
        if not self._is_told["lost"]:
            self._is_told["lost"] = True
            reason = (
                "the temporary files were full (--spool)"
                if self._spool is not None
                else "the ring of files has gone on"
            )
            self._tell(
                f"{escape(self.files[0].name)}: {reason}, so {count:,} packets were not read; "
                "messages may be missing"
            )

    def _say_how_far_behind(self) -> None:
        """Tells the user that the reader lags, once for each step of ``BEHIND_S``."""
        if self._behind >= len(BEHIND_S) or not self._chain.is_behind:
            return
        seconds = self.lag_s
        if seconds < BEHIND_S[self._behind]:
            return
        while self._behind < len(BEHIND_S) and seconds >= BEHIND_S[self._behind]:
            self._behind += 1
        if self._stopped_at is None:
            self._tell(
                f"{escape(self.files[0].name)}: what is shown is {seconds:.0f} s behind, "
                f"{self.unread:,} packets wait; they are recorded, and will be read"
            )

    def _wait(self, seconds: float) -> None:
        """Waits until the recorder says something, ``seconds`` at most."""
        assert self._recorder.stdout is not None
        select.select([self._recorder.stdout], [], [], seconds)

    def _hear(self) -> None:
        """Takes what the recorder has said meanwhile."""
        assert self._recorder.stdout is not None
        if self._recorder.stdout.closed:
            return
        while (output := self._recorder.stdout.read(1 << 16)) is not None:
            if not output:
                self._hear_the_end("was killed")
                return
            self._heard_at = time.monotonic()
            *lines, self._heard = (self._heard + output).split(b"\n")
            for line in filter(None, lines):
                self._follow_report(json.loads(line))
        if (
            not self._chain.is_complete
            and self._stopped_at is not None
            and time.monotonic() - max(self._stopped_at, self._heard_at) > _END_S
        ):
            # its disk does not answer, or somebody stopped it
            self._recorder.kill()
            self._hear_the_end(f"did not answer for {_END_S:.0f} s and was killed")

    def _hear_the_end(self, what_happened: str) -> None:
        if not self._is_ended and not self._chain.is_complete:
            file = self.files[0]
            remainder = "; the file has what it wrote" if self._spool is None else ""
            problem = f"the process that records {what_happened}{remainder}"
            file.problems.append(FileDamage(file.name, None, problem))
        self._is_ended = self._chain.is_complete = True

    def _follow_report(self, report: dict[str, Any]) -> None:
        if "file" in report:
            self._chain.files.append((report["file"], report["before"]))
        if "interfaces" in report:
            self.interfaces = [(name, link_type) for name, link_type in report["interfaces"]]
        if "buffer" in report:
            self.buffer_bytes = report["buffer"]
            if not report["is_filtered"]:
                self._tell(
                    "libpcap is not installed, so packets of all ports are recorded, which is "
                    "more; install libpcap"
                )
        if "line" in report:
            self._tell(report["line"])
        if "problem" in report and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(FileDamage(report["problem"][0], None, report["problem"][1]))
        if "counts" in report:
            recorded_at = report.pop("at")
            self.numbers = RecorderCounts(**report)
            self._chain.total = self.numbers.packets
            while self._recorded and self._recorded[0][1] <= self.packets:
                self._recorded.popleft()
            self._recorded.append((recorded_at, self.numbers.packets))
            self._say_what_was_dropped()
        if "end" in report:
            self._chain.is_complete = True
        if "error" in report:
            self._is_ended = self._chain.is_complete = True
            self._error = getattr(errors, report["error"])(*report["arguments"])

    def _done_with(self, path: str) -> None:
        """Frees a file that was read to its end, or is left behind."""
        if self._spool is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
        elif self._packer is not None:
            self._packer.pack(path)

    def _raise(self) -> NoReturn:
        raise self._error or CaptureError(
            self.files[0].name, "cannot be captured: the process that records has ended"
        )

    def _say_what_was_dropped(self) -> None:
        if self.dropped and not self._is_told["dropped"]:
            self._is_told["dropped"] = True
            buffer_size = "" if self.buffer_bytes is None else f" of {self.buffer_bytes // MIB} MiB"
            self._tell(
                f"{escape(self.files[0].name)}: the kernel's buffer{buffer_size} was full and "
                "packets were dropped; messages may be missing; give --buffer more MiB"
            )

    def _let_recorder_end(self, most_s: float = _SOON_S) -> None:
        """Ends the recording, which completes its files, and waits for that; takes what the
        recorder says meanwhile. One that says nothing is killed.
        """
        if self._recorder.stdin is not None:
            self._recorder.stdin.close()
        began = time.monotonic()
        while self._recorder.poll() is None and time.monotonic() < began + most_s:
            self._wait(0.1)
            self._hear()
        self._hear()
        if self._recorder.poll() is None and self._heard_at < began:
            self._recorder.kill()

    def close(self) -> None:
        """Ends the recording, and frees what is open."""
        self.stop()
        self._let_recorder_end(_END_S)
        if self._recorder.poll() is None:
            self._recorder.kill()
            self._recorder.wait()
        if self._recorder.stdout is not None:
            self._hear()
            self._recorder.stdout.close()
        not_at_end(self._let_recorder_end)
        self._chain.close()
        if self._packer is not None:
            self._packer.end()
        if self._spool is not None:
            remove(self._spool)


def _raise(error: errors.DcpInspectError) -> NoReturn:
    raise error


class _Chain:
    """The files of a recorder, one behind the other, as one stream of bytes that grows."""

    is_stream = True
    was_stopped = False
    problem: str | None = None

    def __init__(
        self,
        hear: Callable[[], None],
        wait: Callable[[float], None],
        done_with: Callable[[str], None],
    ) -> None:
        self.files: deque[tuple[str, int]] = deque()
        """Path of each file that is to come, and number of packets before it."""
        self.is_complete = False
        """Whether no more is written."""
        self.is_behind = False
        """Whether there is more than was read."""
        self.skipped = 0
        """Number of packets in files that were gone before they were read."""
        self.total = 0
        """Number of packets in all files so far."""
        self._hear = hear
        self._wait = wait
        self._done_with = done_with
        self._file: BinaryIO | None = None
        self._path = ""
        self._skipping_from: int | None = None

    def readinto(self, target: memoryview, /) -> int | None:
        """Reads the next bytes to the start of ``target``. Returns their number: 0 at the end, None
        if nothing came for a while, or files were left out.
        """
        end = time.monotonic() + EVERY_S
        while True:
            was_complete, has_next = self.is_complete, bool(self.files)
            if self._file is not None and (got := self._file.readinto(target)):  # type: ignore[attr-defined] # a FileIO
                self.is_behind = got == len(target)
                return int(got)
            if has_next:
                if self._open_next():
                    return None
                continue
            if was_complete and self._skipping_from is not None:
                self.skipped += self.total - self._skipping_from
                self._skipping_from = None
                return None
            if was_complete:
                return 0
            self.is_behind = False
            seconds_left = end - time.monotonic()
            if seconds_left <= 0:
                return None
            self._wait(seconds_left)
            self._hear()

    def _open_next(self) -> bool:
        """Opens the next file that is still there; returns True if some were not."""
        self.close()
        path, before = self.files.popleft()
        if self._skipping_from is not None:
            self.skipped += before - self._skipping_from
            self._skipping_from = None
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError:
            self._skipping_from = before
            return False
        self._path = path
        return bool(self.skipped)

    def close(self) -> None:
        """Frees the file that is read."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._done_with(self._path)
