"""Live capture beside tcpdump and dumpcap: how much of a stream at a rate each of them loses.

    python -m bench.live [--rates 50000,100000,200000,0] [--seconds 5] [--rounds 2] [--modes text,csv] [--no-offload]

Two network namespaces with a veth pair (MTU 1500); a server sends mutations of 300 bytes at a rate,
0 stands for as fast as it can. Each program captures alone, in turn, on the server's interface. A
row says what part of the packets was dropped, in per cent; and for dcpinspect what part of the
messages it did not show beyond that, which is to be nothing. Needs root.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.encode import encode
from tests.peers.network import inside, ip, namespaces

PORT = 11_210
MESSAGE = 300
OURS = [sys.executable, "-m", "dcpinspect", "live", "-i", "eth0"]
_SIOCETHTOOL = 0x8946
_OFFLOADS = (0x1F, 0x24, 0x2C)
"""ETHTOOL_STSO, SGSO, SGRO."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one program had of one run."""

    dropped: float
    """Part of the packets that it says it has lost."""
    silent: float
    """Part of the messages that are missing beyond what was said."""
    rate: float
    """Messages a second that were sent."""
    late_s: float
    """Seconds from the end of the traffic to the end of the program."""


def command(mode: str, folder: Path) -> list[str]:
    """What is run for a mode."""
    wanted = f"tcp port {PORT}"
    return {
        "text": OURS,
        "ndjson": [*OURS, "-f", "ndjson", "--no-fields"],
        "csv": [*OURS, "-f", "csv", "--columns", "name,vbucket,by_seqno"],
        "check": [*OURS, "--check"],
        "-w": [*OURS, "-w", str(folder / "ours.pcapng")],
        "tui": [*OURS, "--tui"],
        "tcpdump": ["tcpdump", "-i", "eth0", "-w", str(folder / "tcpdump.pcap"), wanted],
        "dumpcap": [
            "dumpcap",
            "-q",
            "-B",
            "64",
            "-i",
            "eth0",
            "-w",
            str(folder / "dumpcap.pcapng"),
            "-f",
            wanted,
        ],
    }[mode]


def send(rate: int, seconds: float, server: str, client: str) -> tuple[int, float]:
    """Sends mutations at a rate for a time; how many, and in how many seconds."""
    message = encode("dcp_mutation", by_seqno=1, key=b"k" * 16, value=bytes(MESSAGE - 71))
    assert len(message) == MESSAGE
    with inside(server):
        listener = socket.create_server(("10.99.0.1", PORT))
    with inside(client):
        reader = socket.create_connection(("10.99.0.1", PORT))
    peer, _ = listener.accept()

    def read() -> None:
        room = bytearray(1 << 20)
        while reader.recv_into(room):
            pass

    thread = threading.Thread(target=read)
    thread.start()
    with listener, peer:
        begin = time.perf_counter()
        sent = 0
        at_once = message * 200
        while (now := time.perf_counter() - begin) < seconds:
            if rate and sent >= rate * now:
                time.sleep(min(0.002, (sent - rate * now) / rate))
                continue
            peer.sendall(at_once)
            sent += 200
        taken = time.perf_counter() - begin
        peer.shutdown(socket.SHUT_WR)
        thread.join()
    reader.close()
    return sent, taken


def run(mode: str, rate: int, seconds: float, server: str, client: str) -> Result:
    """One program, one rate."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["ip", "netns", "exec", server, *command(mode, Path(folder))]
        if mode == "tui":
            said, sent, taken, late = in_terminal(arguments, rate, seconds, server, client)
        else:
            with Path(os.devnull).open("wb") as nowhere:
                process = subprocess.Popen(  # noqa: S603 - see command
                    arguments, stdout=nowhere, stderr=subprocess.PIPE, text=True
                )
            assert process.stderr is not None
            said = ""
            while not re.search("capturing|listening on|Capturing on", said):
                said += process.stderr.readline()
            time.sleep(0.5 if mode == "dumpcap" else 0.1)
            sent, taken = send(rate, seconds, server, client)
            begin = time.perf_counter()
            process.send_signal(signal.SIGINT)
            said += process.stderr.read()
            process.wait()
            late = time.perf_counter() - begin
    captured, dropped, shown = numbers(mode, said)
    lost = dropped / max(1, captured + dropped)
    silent = 0.0 if shown is None or dropped else max(0, sent - shown) / sent
    return Result(lost, silent, sent / taken, late)


def in_terminal(
    arguments: Sequence[str], rate: int, seconds: float, server: str, client: str
) -> tuple[str, int, float, float]:
    """The terminal UI: ended with q once all is sent."""
    import pexpect

    program = pexpect.spawn(
        arguments[0], list(arguments[1:]), dimensions=(40, 140), encoding="utf-8", timeout=60
    )
    program.expect("eth0")
    time.sleep(1)
    drain = threading.Thread(target=lambda: _drained(program))
    drain.start()
    sent, taken = send(rate, seconds, server, client)
    begin = time.perf_counter()
    time.sleep(2)
    program.send("q")
    time.sleep(0.5)
    program.send("y")
    drain.join()
    return _SAID.pop(), sent, taken, time.perf_counter() - begin


_SAID: list[str] = []


def _drained(program: object) -> None:
    import pexpect

    text = ""
    while True:
        try:
            text = (text + program.read_nonblocking(1 << 16, timeout=1))[-20_000:]  # type: ignore[attr-defined] # pexpect has no types
        except pexpect.TIMEOUT:
            continue
        except pexpect.EOF:
            _SAID.append(text)
            return


def numbers(mode: str, said: str) -> tuple[int, int, int | None]:
    """Packets captured, packets dropped, and messages that were read, as a program says at its
    end.
    """
    said = said.replace(",", "")
    if mode == "tcpdump":
        captured = re.search(r"(\d+) packets? captured", said)
        dropped = re.search(r"(\d+) packets? dropped by kernel", said)
        assert captured, said
        assert dropped, said
        return int(captured[1]), int(dropped[1]), None
    if mode == "dumpcap":
        found = re.search(r"Packets received/dropped on interface '\S+': (\d+)/(\d+)", said)
        assert found, said
        return int(found[1]), int(found[2]), None
    found = re.search(
        (
            r"(\d+) packets captured (?:(\d+) dropped by the kernel|the system does not "
            r"say[^;]*)(?:; (\d+) messages)?"
        ),
        said,
    )
    assert found, said
    lost = re.search(r"(\d+) not read in time", said)
    return (
        int(found[1]),
        int(found[2] or 0) + int(lost[1] if lost else 0),
        None if found[3] is None else int(found[3]),
    )


@contextmanager
def wire(*, has_offload: bool) -> Iterator[tuple[str, str]]:
    """Two namespaces with a veth pair; yields server and client."""
    with namespaces("server", "client") as (server, client):
        ip(
            "link",
            "add",
            "eth0",
            "netns",
            server,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            client,
        )
        for name, address in ((server, "10.99.0.1/24"), (client, "10.99.0.2/24")):
            ip("-n", name, "addr", "add", address, "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "mtu", "1500", "up")
            if not has_offload:
                with inside(name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    for number in _OFFLOADS:
                        value = ctypes.create_string_buffer(struct.pack("II", number, 0))
                        fcntl.ioctl(
                            sock,
                            _SIOCETHTOOL,
                            struct.pack("16sP", b"eth0", ctypes.addressof(value)),
                        )
        yield server, client


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", default="50000,100000,200000,0")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--modes", default="text,ndjson,csv,check,-w,tui,tcpdump,dumpcap")
    parser.add_argument(
        "--no-offload",
        action="store_true",
        help="a packet is a segment of the wire, and not up to 64 KiB",
    )
    asked = parser.parse_args()
    modes = asked.modes.split(",")
    print(f"{'messages/s':>12}  " + "  ".join(f"{mode:>18}" for mode in modes))  # noqa: T201 - a bench prints
    with wire(has_offload=not asked.no_offload) as (server, client):
        for rate in map(int, asked.rates.split(",")):
            for _ in range(asked.rounds):
                cells, rates = [], []
                for mode in modes:
                    result = run(mode, rate, asked.seconds, server, client)
                    rates.append(result.rate)
                    silent = f" !{100 * result.silent:.1f}" if result.silent else ""
                    cells.append(f"{100 * result.dropped:.1f}{silent} ({result.late_s:.1f} s)")
                print(  # noqa: T201
                    f"{sum(rates) / len(rates):>12,.0f}  "
                    + "  ".join(f"{cell:>18}" for cell in cells),
                    flush=True,
                )


if __name__ == "__main__":
    main()
