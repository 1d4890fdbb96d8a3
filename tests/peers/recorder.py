"""tcpdump, from before the first packet to after the last, and what it recorded."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.peers import capture_file
from tests.peers.endpoint import Address

TIMEOUT = 60.0

PORT = 11210


class RecorderError(RuntimeError):
    """tcpdump did not record all of it."""


class Recorder:
    """Records the story's port on one interface while entered."""

    def __init__(
        self,
        path: Path,
        interface: str,
        namespace: str = "",
        *,
        port: int = PORT,
        options: tuple[str, ...] = (),
    ) -> None:
        enter = ("ip", "netns", "exec", namespace) if namespace else ()
        self.path = path
        # -U and immediate mode: each packet is in the file as soon as it was on the wire.
        self._command = (
            *enter,
            *(
                "tcpdump",
                "-i",
                interface,
                "-w",
                str(path),
                "-U",
                "--immediate-mode",
                "-s",
                "0",
                "-B",
                "65536",
                "-Z",
                "root",
            ),
            *("--time-stamp-precision=nano", *options, f"tcp port {port}"),
        )
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.stop(check=kind is None)

    def start(self) -> None:
        """Returns once tcpdump listens."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        heard = ""
        for line in _lines(self._process.stderr):
            heard += line
            if "listening on" in line:
                return
        raise RecorderError(f"tcpdump did not start: {heard.strip()}")

    def stop(self, *, check: bool = True) -> None:
        """End of the recording; no packet may have been dropped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=TIMEOUT)
        self._process = None
        counts = {
            what: int(number)
            for number, what in re.findall(
                r"(\d+) packets? (captured|received|dropped by kernel)", said
            )
        }
        if check and (counts.get("dropped by kernel") != 0 or not counts.get("captured")):
            raise RecorderError(f"not everything was recorded: {said.strip()}")

    def wait_until_closed(self, connections: int) -> None:
        """Returns once the file has both FINs of so many connections and their acknowledgements, or
        a reset.
        """
        self._wait(lambda: self._closed() >= connections, f"the end of {connections} connections")

    def wait_payload(self, server: Address, payload: int) -> None:
        """Returns once the file has so many bytes that the server sent, repeated ones included."""
        self._wait(
            lambda: sum(len(s.payload) for s in self._segments() if s.source == server) >= payload,
            f"{payload} bytes from {server}",
        )

    def _segments(self) -> Iterator[capture_file.Segment]:
        return capture_file.segments(*capture_file.read(self.path))

    def _closed(self) -> int:
        fins: dict[tuple[Address, Address], int] = {}
        acked: set[tuple[Address, Address]] = set()
        reset: set[frozenset[Address]] = set()
        for s in self._segments():
            way, back = (s.source, s.target), (s.target, s.source)
            if s.reset:
                reset.add(frozenset(way))
            if s.fin:
                fins[way] = (s.seq + len(s.payload) + 1) & 0xFFFF_FFFF
            if back in fins and s.ack == fins[back]:
                acked.add(back)
        closed = {frozenset(way) for way in acked if (way[1], way[0]) in acked}
        return len(closed | reset)

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not ready():
            if time.monotonic() > deadline:
                raise RecorderError(f"tcpdump never wrote {what}")
            # The file itself is the only news there is.
            time.sleep(0.005)


def _lines(stream: IO[str] | None) -> Iterator[str]:
    assert stream is not None
    return iter(stream.readline, "")
