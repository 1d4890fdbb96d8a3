"""Packets of another machine's interface, which tcpdump sends through ssh."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.kernel_filter import expression
from dcpinspect.capture.mended import HEAD, is_from_terminal
from dcpinspect.capture.packet_socket import MOST
from dcpinspect.capture.pcap import FILE_HEADER, Pcap
from dcpinspect.capture.pcapng_writer import packet_blocks
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.text import escape

READ_BYTES = 1 << 20
START_S = 60.0
"""Seconds that ssh may take to log in, and somebody to type a password."""
LINGER_S = 3.0
"""Seconds after the end of ssh for which a process that it left behind may keep its output open."""
_MOST_SAID = 1 << 12
"""Bytes of standard error that are kept, the last ones."""
_MOST_TOLD = 200
"""Letters of them that are told."""


@contextmanager
def _terminal_kept() -> Iterator[None]:
    """Gives the terminal the modes back that ssh changes where it asks for a password."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # there is none, and ssh asks for nothing
        yield
        return
    modes = termios.tcgetattr(terminal)
    try:
        yield
    finally:
        with suppress(OSError, termios.error):  # it is not ours any more
            if os.tcgetpgrp(terminal) == os.getpgrp():  # in the background it would stop us
                termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
        os.close(terminal)


class RemoteInterface:
    """An interface of another machine, being captured there."""

    silence_s = 2.0
    """Seconds that tcpdump and the network may take after the end."""

    def __init__(
        self,
        ssh: str,
        tcpdump: str,
        name: str,
        ports: Sequence[int] | None,
        *,
        buffer_bytes: int,
        snaplen: int,
    ) -> None:
        """Starts tcpdump on the other machine.

        ``ssh``: the arguments of ssh, with the host. ``tcpdump``: how it is called there. Raises
        CaptureError, UsageError.
        """
        self.name = name
        self.number = 0
        self.is_gone = False
        self._place = f"{escape(ssh.split()[-1] if ssh.split() else ssh)}: {escape(name)}"
        capture_filter = "" if ports is None else shlex.quote(f"{expression(ports)} or vlan")
        run = (
            f"{tcpdump} -i {shlex.quote(name)} -U -w - -s {snaplen} -B "
            f"{max(1, buffer_bytes >> 10)} {capture_filter}"
        )
        self._process = self._started(ssh, run)
        self._said = b""
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._heard = time.monotonic()
        self._data = self._head = b""
        self._blocks: ByteArray = np.empty(0, np.uint8)
        self._ends = np.empty(0, np.int64)
        self._given = 0
        self._is_over = False
        self._dropped: int | None = None
        self._received = 0
        with _terminal_kept():
            self._format = self._begun()
        self.link_type = self._format.link_type

    def _started(self, ssh: str, run: str) -> subprocess.Popen[bytes]:
        """Starts ``run`` on the other machine; its output can be read without waiting."""
        # tcpdump ends when our end of its input does. Left alone, it would run until its next
        # packet.
        script = (
            f"exec 3<&0; {{ cat <&3; kill $$; }} > /dev/null 2>&1 & exec {run} < /dev/null 3<&-"
        )
        there = f"exec sh -c {shlex.quote(script)}"  # the user's own shell may be another
        try:
            command = ["ssh", *shlex.split(ssh), there]
        except ValueError as error:
            raise UsageError(f"--ssh {escape(ssh)}: {error}") from error
        try:
            ours = subprocess.PIPE
            process = subprocess.Popen(  # noqa: S603 - as asked for
                command, stdin=ours, stdout=ours, stderr=ours, bufsize=0
            )
        except OSError as error:
            raise CaptureError(
                self._place, f"ssh cannot be started ({error.strerror})", "install it"
            ) from error
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def _listen(self) -> None:
        """Keeps the end of what ssh says. A thread of its own does, because ssh waits, and sends no
        packets, while nobody takes it.
        """
        assert self._process.stderr is not None
        with self._process.stderr as error_output:
            while piece := error_output.read(READ_BYTES):
                self._said = (self._said + piece)[-_MOST_SAID:]

    def _begun(self) -> Pcap:
        """Waits for the header of the capture, and returns its form. Descriptor 0 can be read once
        the capture is to end.
        """
        latest, is_interrupted = time.monotonic() + START_S, False
        while len(self._data) < FILE_HEADER and not self._is_over and time.monotonic() < latest:
            if 0 in select.select([self.fileno(), 0], [], [], 1.0)[0]:
                # it ignores Ctrl-C, so that what was captured still comes; here nothing was
                self._process.kill()
                is_interrupted = True
                break
            self._read()
        if len(self._data) < FILE_HEADER:
            reason = (
                "it was ended before ssh had logged in" if is_interrupted else self._last_words()
            )
            problem = f"cannot be captured there ({reason})"
            advice = "try the same ssh by hand"
        else:
            try:
                return Pcap(self._data[:FILE_HEADER])
            except ValueError as error:
                problem = f"tcpdump sent something else ({error})"
                advice = "see that nothing is printed at login"
        self.close()
        raise CaptureError(self._place, problem, advice)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can come any more."""
        return self._is_over and not self.has_more

    def fileno(self) -> int:
        """Returns the descriptor, for callers that wait for several sources."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def has_more(self) -> bool:
        """Whether ``write_waiting`` had no room for all packets."""
        return self._given < len(self._ends)

    def write_waiting(self, out: ByteArray, limit: int = MOST) -> tuple[int, int]:
        """Writes what waits, as ``PacketSource.write_waiting``. Raises CaptureError."""
        if not self.has_more:
            self._read()
            self._walk()
        start = int(self._ends[self._given - 1]) if self._given else 0
        last = int(np.searchsorted(self._ends, start + len(out), "right"))
        last = max(self._given, min(last, self._given + limit))
        end = int(self._ends[last - 1]) if last else 0
        out[: end - start] = self._blocks[start:end]
        packets, self._given = last - self._given, last
        return end - start, packets

    def _read(self) -> None:
        assert self._process.stdout is not None
        has_ended = self._process.poll() is not None  # asked first: then all that it said is there
        is_ready = select.select([self._process.stdout], [], [], 0)[0]
        got = os.read(self._process.stdout.fileno(), READ_BYTES) if is_ready else None
        if got == b"":
            self._is_over = True
        self._data += got or b""
        self._head += (got or b"")[: HEAD - len(self._head)]
        if is_ready or not has_ended:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > LINGER_S:
            self._hang_up()

    def _hang_up(self) -> None:
        """Ends the output as if nobody had it open any more."""
        read_end, write_end = os.pipe()
        os.close(write_end)
        os.dup2(read_end, self.fileno(), inheritable=False)
        os.close(read_end)

    def _walk(self) -> None:
        """Turns what has come into blocks. Raises CaptureError."""
        if is_from_terminal(self._head):
            raise CaptureError(
                self._place,
                "the packets are damaged, because a terminal there writes CR LF for each LF",
                "call ssh without -t",
            )
        self._given, self._ends = 0, np.empty(0, np.int64)
        data = np.frombuffer(self._data, np.uint8)
        walk = self._format.walk(data, len(data), final=False)
        self._data = self._data[walk.consumed :]
        if count := len(walk):
            batch = PacketBatch(data, walk.columns, 0, 1, 0, 0)
            self._blocks, sizes = packet_blocks(
                batch, np.arange(count), np.full(count, self.number)
            )
            self._ends = np.cumsum(sizes)
            self._received += count

    def error(self) -> OSError | None:
        """Returns why no more comes; None: nothing is wrong."""
        if not self._is_over:
            return None
        self.is_gone = True
        return OSError(0, self._last_words())

    def _last_words(self) -> str:
        """Returns what ssh or tcpdump said last."""
        self._listener.join(LINGER_S)
        lines = [
            line.strip()
            for line in self._said.decode(errors="replace").splitlines()
            if line.strip() and " listening on " not in line  # what it says at its start
        ]
        words = escape(" ".join(lines[-2:])) or "ssh has ended"
        return words if len(words) <= _MOST_TOLD else f"…{words[-_MOST_TOLD:]}"

    def end(self) -> None:
        """Stops receiving; what tcpdump already has is still sent."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def counts(self) -> tuple[int, int] | None:
        """Returns packets that came, and packets that the other kernel dropped, which tcpdump says
        at its end; None before.
        """
        match = re.search(rb"(\d+) packets? dropped by kernel", self._said)
        return None if match is None else (self._received + int(match[1]), int(match[1]))

    def close(self) -> None:
        """Ends the capture."""
        self.end()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
