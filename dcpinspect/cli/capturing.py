"""The options of commands that capture, and interfaces as a ``Source`` of messages."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dcpinspect.cli import interrupts
from dcpinspect.cli.choices import Choices
from dcpinspect.cli.output import refuse_to_overwrite
from dcpinspect.cli.remarks import remarks
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import CaptureError, DcpInspectError, OutputError, UsageError
from dcpinspect.text import counted, did_you_mean, escape, one_of

if TYPE_CHECKING:
    from dcpinspect.capture.live import LiveCapture
    from dcpinspect.capture.recorded_files import Limits
    from dcpinspect.capture.recorder import RecordingOrder
    from dcpinspect.reading.engine import ByteKeeper
    from dcpinspect.reading.reading import Reading

MIB = 1 << 20
_UNITS = {
    "": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
"""Bytes of each unit of size; a bare number is in kB, as in dumpcap."""
_LEAST_SPOOL = 16 * MIB


class Capturing(Choices):
    """What is captured, for how long, and where it is kept."""

    title = "The capture"
    words = """
    --interface -i NAME: Capture on this interface. any means all. May be repeated.
    --write -w FILE: Also write the packets to this pcapng file.
    --duration SECONDS: Stop after this time, instead of at Ctrl-C.
    ring --ring-buffer -b WHAT:N: For -w, begin a new file after duration:SECONDS, filesize:SIZE or
        packets:N. files:N keeps the newest N files. May be repeated.
    --compress: Compress the files of -b, each once it is complete and was read.
    --autostop -a WHAT:N: Stop after duration:SECONDS, filesize:SIZE, packets:N or messages:N. May
        be repeated.
    --buffer -B MIB: Kernel memory for packets that wait to be recorded.
    --spool SIZE: Without -w, how much of the packets that wait to be decoded is kept in temporary
        files.
    --snaplen -s BYTES: Bytes of a packet to capture. 0 means all.
    --promiscuous/--no-promiscuous /-p: Also capture what is not sent to this machine.
    --full-disk: When the disk of -w is full, end, or pause: count packets and leave them out until
        4 MiB are free.
    --wait: Wait for an interface that goes away until it is back.
    --ssh HOST: Capture on this host, with tcpdump through ssh. Options of ssh may stand before it,
        as in '-p 2222 me@host'.
    --tcpdump COMMAND: How --ssh starts tcpdump, as in 'sudo tcpdump'.
    --user NAME: Become this user once the interfaces are open.
    """
    interface: list[str] | None = None
    write: str | None = None
    duration: Annotated[float | None, {"min": 0}] = None
    ring: list[str] | None = None
    compress: Literal["gzip", "zstd"] | None = None
    autostop: list[str] | None = None
    buffer: Annotated[int, {"min": 4, "max": 2047}] = 64
    spool: str = "4GiB"
    snaplen: Annotated[int, {"min": 0}] = 0
    promiscuous: bool = True
    full_disk: Literal["end", "pause"] = "end"
    wait: bool = False
    ssh: str | None = None
    tcpdump: str = "tcpdump"
    user: str | None = None

    def interfaces(self) -> Interfaces:
        """Returns the interfaces that are named. Raises UsageError."""
        self._refuse()
        each, _ = _limits("-b", self.ring, ("filesize", "duration", "packets", "files"))
        if self.ring and self.write is None:
            raise UsageError("-b: is for the files of -w; name one, as in -w night.pcapng")
        if self.compress is not None and not each.is_set:
            raise UsageError(
                "--compress: is for the files of -b; say when a new one begins, as in -b "
                "filesize:100MB"
            )
        if each.files is not None and not each.is_set:
            raise UsageError("-b files: say when a new file begins, as in -b filesize:100MB")
        stop, messages = _limits(
            "-a", self.autostop, ("filesize", "duration", "packets", "messages")
        )
        if self.duration is not None:
            stop = replace(
                stop,
                seconds=self.duration if stop.seconds is None else min(stop.seconds, self.duration),
            )
        option_text = f"--spool {escape(self.spool)}"
        spool_bytes = _size(option_text, self.spool)
        if spool_bytes < _LEAST_SPOOL:
            raise UsageError(f"{option_text}: write 16MiB or more")
        return Interfaces(self, each, stop, spool_bytes=spool_bytes, messages=messages)

    def _refuse(self) -> None:
        """Raises UsageError for options that do not fit together."""
        if not self.interface:
            raise UsageError("-i: name an interface, or any for all of them; -D lists them")
        if self.write == "-":
            raise UsageError("--write -: standard output already has the messages; name a file")
        if self.write is not None and os.path.exists(self.write) and not os.path.isfile(self.write):
            raise UsageError(
                f"--write {escape(self.write)}: is not a file; packets are read back from "
                "where they are recorded"
            )
        if self.write is not None:
            refuse_to_overwrite(self.write, ())
        if self.duration is not None and not math.isfinite(self.duration):
            raise UsageError(f"--duration {self.duration}: write a number of seconds")
        if self.wait and self.user is not None:
            raise UsageError(
                "--wait: an interface that is back cannot be opened by --user; leave out one "
                "of the two"
            )
        if self.ssh is not None and not self.ssh.strip():
            raise UsageError("--ssh: is empty; name a host")
        if self.tcpdump != "tcpdump" and self.ssh is None:
            raise UsageError("--tcpdump: is for --ssh; name a host")


def _limits(
    option: str, texts: Sequence[str] | None, kinds: Sequence[str]
) -> tuple[Limits, int | None]:
    """Returns the limits in texts such as ``filesize:100MB``, which are of these kinds, and the
    number of messages. Raises UsageError.
    """
    from dcpinspect.capture.recorded_files import Limits

    found: dict[str, Any] = {}
    for text in texts or ():
        kind, colon, number = text.partition(":")
        option_text = f"{option} {escape(text)}"
        if kind not in kinds or not colon:
            names = one_of([f"{name}:N" for name in kinds])
            raise UsageError(f"{option_text}: write {names}{did_you_mean(kind, kinds)}")
        number_of = {"filesize": _size, "duration": _seconds}.get(kind, _count)
        found[kind] = number_of(option_text, number)
    limits = map(found.get, ("filesize", "duration", "packets", "files"))
    return Limits(*limits), found.get("messages")


def _size(option_text: str, text: str) -> int:
    size_match = re.fullmatch(
        r"(\d{1,12}(?:\.\d{1,3})?)\s*([KMGT]i?B|[KMGT])?", text.strip(), re.IGNORECASE | re.ASCII
    )
    size = 0
    if size_match is not None:
        unit = (size_match[2] or "").upper()
        size = int(
            float(size_match[1]) * _UNITS[unit if unit == "" or unit.endswith("B") else f"{unit}B"]
        )
    if not size:
        raise UsageError(f"{option_text}: write a size such as 100MB, 2GiB, or a number of kB")
    return size


def _seconds(option_text: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text, re.ASCII) or not float(text):
        raise UsageError(f"{option_text}: write a number of seconds")
    return float(text)


def _count(option_text: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text, re.ASCII) or not int(text):
        raise UsageError(f"{option_text}: write a whole number, 1 or more")
    return int(text)


class Interfaces:
    """Interfaces as a ``Source`` of messages."""

    pauses = True

    def __init__(
        self,
        settings: Capturing,
        each: Limits,
        stop: Limits,
        *,
        spool_bytes: int,
        messages: int | None,
    ) -> None:
        """``each``: how long a file gets, and how many are kept. ``stop``: when the capture ends,
        also after ``messages``. ``spool_bytes``: of temporary files.
        """
        self.captures: Sequence[str] = () if settings.write is None else (settings.write,)
        self._chosen = settings
        self._names = settings.interface or []
        self._each, self._stop = each, stop
        self._spool_bytes = spool_bytes
        self._messages = messages
        self._capture: LiveCapture
        self._is_begun = False
        self.errors: list[DcpInspectError] = []
        """What the recorder could not do: outputs have what was captured before that."""

    def order(self, ports: Sequence[int] | None) -> RecordingOrder:
        """Returns what is to be recorded: packets that may be of these ports, or all."""
        from dcpinspect.capture.packet_walk import MAX_PACKET
        from dcpinspect.capture.recorder import RecordingOrder

        settings = self._chosen
        return RecordingOrder(
            tuple(self._names),
            None if ports is None else tuple(ports),
            settings.write or "",
            buffer_bytes=settings.buffer * MIB,
            snaplen=min(settings.snaplen or MAX_PACKET, MAX_PACKET),
            is_promiscuous=settings.promiscuous,
            each=self._each,
            stop=self._stop,
            pauses_when_full=settings.full_disk == "pause",
            waits=settings.wait,
            ssh=settings.ssh,
            tcpdump=settings.tcpdump,
            user=settings.user,
        )

    def capture(
        self, extra_ports: Sequence[int], *, find_ports: bool, tell: Callable[[str], None]
    ) -> LiveCapture:
        """Opens the interfaces. ``tell`` takes a line for the user. This process then loses the
        right to open more.
        """
        from dcpinspect.capture import rights
        from dcpinspect.capture.live import LiveCapture

        rights.be_private()
        self._capture = LiveCapture(
            self.order(None if find_ports else all_ports(extra_ports)),
            tell=tell,
            spool_bytes=self._spool_bytes,
            packing=self._chosen.compress,
        )
        self._is_begun = True
        rights.stop_being_able_to_capture()
        return self._capture

    @contextmanager
    def reading(
        self, extra_ports: Sequence[int], *, find_ports: bool, keeper: ByteKeeper | None
    ) -> Iterator[Reading]:
        """Yields a reading that lasts until Ctrl-C, a limit, or the end of the interfaces."""
        from dcpinspect.reading.reading import Reading

        with interrupts.telling(self.last_line):
            capture = self.capture(extra_ports, find_ports=find_ports, tell=complain)
            capture.on_error = self.errors.append
            with (
                Reading(
                    capture, extra_ports=extra_ports, find_ports=find_ports, keeper=keeper
                ) as reading,
                interrupts.stopping(capture.stop),
            ):
                self.bound(reading)
                where = ", ".join(map(escape, self._names))
                ports = (
                    "all ports"
                    if find_ports
                    else f"ports {', '.join(map(str, all_ports(extra_ports)))}"
                )
                complain(f"{where}: capturing {ports}; Ctrl-C stops it")
                try:
                    yield reading
                except (CaptureError, OutputError):  # an output could not go on
                    complain(self.captured())
                    raise

    def bound(self, reading: Reading) -> None:
        """Ends the capture once the reading has as many messages as are wanted."""
        if self._messages is not None:
            most = self._messages
            self._capture.is_enough = lambda: reading.messages >= most

    def report(
        self, reading: Reading, *, is_whole: bool, stats: bool, shown: int | None, skipped: int
    ) -> int:
        """Says what was captured and what was not, then the same remarks as for files. ``shown``:
        None where another line counts packets, and says what the kernel dropped.
        """
        if shown is not None:
            complain(f"{self.captured()}; {reading.messages:,} messages, {shown:,} shown")
        elif self._other_losses():
            complain(self.captured())
        status = remarks(reading, is_whole=is_whole, stats=stats, shown=shown, skipped=skipped)
        return self.report_errors(status)

    def report_errors(self, status: int) -> int:
        """Says what the recorder could not do, and returns the exit status."""
        for error in self.errors:
            complain(error)
            status = error.exit_status
        return status

    def last_line(self) -> str:
        """Says at the end that a signal makes what was captured, and what was not read of it."""
        if self._is_begun:
            return f"{self.captured()}, {self._capture.unread:,} left unread"
        where = self._where()
        return "interrupted before a packet was read" + (
            where and f"; what was captured meanwhile, if anything, is{where}"
        )

    def _where(self) -> str:
        named = "files named after " if self._each.is_set else ""
        return "" if self._chosen.write is None else f" in {named}{escape(self._chosen.write)}"

    def captured(self) -> str:
        """Says how many packets came, and how many were lost."""
        capture = self._capture
        numbers = capture.numbers
        losses = ", ".join([capture.drops_in_words, *self._other_losses()])
        return (
            f"{escape(capture.files[0].name)}: "
            f"{counted(max(numbers.packets, capture.packets), 'packet')} captured{self._where()}, "
            f"{losses}"
        )

    def _other_losses(self) -> list[str]:
        """Returns what was lost elsewhere than in the kernel."""
        numbers = self._capture.numbers
        fates = (
            (numbers.interface_drops, "dropped by the interface"),
            (numbers.unrecorded, "not recorded (full disk)"),
            (self._capture.lost, "not read in time"),
        )
        return [f"{count:,} {fate}" for count, fate in fates if count]


def all_ports(extra: Sequence[int]) -> list[int]:
    """Returns the default ports and further ones."""
    from dcpinspect.transport.connections import DEFAULT_PORTS

    return sorted({*DEFAULT_PORTS, *extra})
