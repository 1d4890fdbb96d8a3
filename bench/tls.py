"""TLS with a key log, beside tshark with the same one: whole processes, the same capture, the same
run; messages, time, memory.

    python -m bench.tls [--messages 1000000] [--lossy 200000] [--repeat 3] [--folder DIR]

The job is name, vbucket and by_seqno of every message as CSV, against ``tshark -T fields``.
Captures are those of ``bench.tls_captures``, made in the folder; that with four times as many
messages shows whether memory grows with the capture. The lossy ones lack one packet in a thousand;
tshark reads them with and without reassembly out of order.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.read import OURS, row, timed
from bench.tls_captures import lose, make
from tests.tls.endpoint import MOST
from tests.tls.peers import PORT, Tls

_FIELDS = [
    "-T",
    "fields",
    "-e",
    "couchbase.opcode",
    "-e",
    "couchbase.vbucket",
    "-e",
    "couchbase.extras.by_seqno",
]
_OUT_OF_ORDER = ["-o", "tcp.reassemble_out_of_order:TRUE"]
WAYS = {
    "TLS 1.3, AES-128-GCM": (Tls("1.3", "TLS_AES_128_GCM_SHA256"), MOST),
    "TLS 1.3, AES-128-GCM, records of 1,400 bytes": (Tls("1.3", "TLS_AES_128_GCM_SHA256"), 1400),
    "TLS 1.3, ChaCha20": (Tls("1.3", "TLS_CHACHA20_POLY1305_SHA256"), MOST),
    "TLS 1.2, AES-128-CBC with SHA-1": (Tls("1.2", "ECDHE-RSA-AES128-SHA"), MOST),
}
"""How both sides speak, and the plain bytes of a record."""


def ours(path: Path, keylog: Path) -> list[str]:
    """The command that reads a capture here."""
    return [
        *OURS,
        str(path),
        "--keylog",
        str(keylog),
        "--format",
        "csv",
        "--columns",
        "name,vbucket,by_seqno",
    ]


def theirs(path: Path, keylog: Path, *options: str) -> list[str]:
    """The same by tshark."""
    decode = (
        "-o",
        f"tls.keylog_file:{keylog}",
        "-d",
        f"tcp.port=={PORT},tls",
        "-d",
        f"tls.port=={PORT},couchbase",
    )
    return ["tshark", "-n", "-r", str(path), *decode, *options, *_FIELDS]


def messages(command: Sequence[str], *, separator: str = "") -> int:
    """How many a command tells: lines behind the first, or, of tshark, what is between
    separators.
    """
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own commands
    if not separator:
        return text.count("\n") - 1
    return sum(
        len(line.partition("\t")[0].split(separator)) for line in text.splitlines() if line.strip()
    )


def compare(name: str, path: Path, keylog: Path, repeat: int, *options: str) -> None:
    """One row."""
    found = messages(ours(path, keylog)), messages(theirs(path, keylog, *options), separator=",")
    here, there = timed(ours(path, keylog), repeat), timed(theirs(path, keylog, *options), 1)
    row(
        name,
        *(f"{one:,}" for one in found),
        f"{here.seconds:.2f} s",
        f"{there.seconds:.2f} s",
        f"{there.seconds / here.seconds:.1f} x",
        f"{there.cpu / here.cpu:.1f} x",
        f"{here.memory_mib:.0f} MiB",
        f"{there.memory_mib:.0f} MiB",
    )


def main() -> None:
    """Make the captures, run both, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument(
        "--lossy",
        type=int,
        default=200_000,
        help="messages of the captures that lack packets; tshark is slow there",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    arguments = parser.parse_args()
    if shutil.which("tshark") is None:
        raise SystemExit("tshark is not installed: there is nothing to compare with")
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    path, keylog, lossy = folder / "tls.pcap", folder / "tls.log", folder / "tls-lossy.pcap"
    row(
        "capture",
        "messages here",
        "tshark",
        "dcpinspect",
        "tshark",
        "ratio",
        "ratio of processor time",
        "memory",
        "tshark",
    )
    row(*["---"] * 9)
    for name, (tls, size) in WAYS.items():
        make(path, keylog, arguments.messages, tls=tls, record=size)
        timed(ours(path, keylog), 1)  # compiles what is not compiled yet
        compare(name, path, keylog, arguments.repeat)
    tls, size = WAYS["TLS 1.3, AES-128-GCM"]
    make(path, keylog, 4 * arguments.messages, tls=tls, record=size)
    here = timed(ours(path, keylog), 1)
    row(
        "TLS 1.3, AES-128-GCM",
        f"{messages(ours(path, keylog)):,}",
        "",
        f"{here.seconds:.2f} s",
        "",
        "",
        "",
        f"{here.memory_mib:.0f} MiB",
        "",
    )
    for name in ("TLS 1.3, AES-128-GCM", "TLS 1.2, AES-128-CBC with SHA-1"):
        tls, size = WAYS[name]
        count = make(path, keylog, arguments.lossy, tls=tls, record=size)
        lost = lose(path, lossy, 0.001)
        compare(
            f"{name}, {lost} packets of {count:,} messages lost", lossy, keylog, arguments.repeat
        )
        compare("the same, tshark out of order", lossy, keylog, 1, *_OUT_OF_ORDER)


if __name__ == "__main__":
    main()
