"""Reading beside tshark: whole processes, the same capture, the same run; ratios and memory.

    python -m bench.read [--messages 50000,1000000,10000000] [--repeat 3] [--folder DIR]

Six jobs: (a) a table of name, vbucket and by_seqno of every message as CSV, against ``tshark -T
fields``; (b) NDJSON, without and with the field tables, against ``tshark -T ek``, per message; (c)
a capture of 50 messages as text lines, against ``tshark`` doing the same; (d) all messages as text
lines, against tshark's line a packet; (e) each message with its field table, against ``tshark -V``;
(f) each with its bytes, against ``tshark -x``. tshark's JSON is measured on at most 200,000
messages, as it is linear and slow; so are its field tables and bytes in captures of over two
million. Captures are made by ``bench/captures.py`` and kept in the folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.captures import make

BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Modules are compiled once, as those of an installed program are, also where the environment says
otherwise.
"""
OURS = [sys.executable, "-m", "dcpinspect", "read"]
TSHARK_FIELDS = [
    "-T",
    "fields",
    "-e",
    "couchbase.opcode",
    "-e",
    "couchbase.vbucket",
    "-e",
    "couchbase.extras.by_seqno",
]
EK_MESSAGES = 200_000
"""Most messages that tshark turns into JSON here."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One command, several runs."""

    seconds: float
    """Median wall time."""
    cpu: float
    """Median of the processor time, of all threads: what other work on the machine changes least.
    """
    memory_mib: float
    """Greatest resident memory of any run."""


def timed(command: Sequence[str], repeat: int, *, ends: Sequence[int] = (0,)) -> Timing:
    """Run a command to the end, its output read and thrown away by /dev/null. ``ends``: exit
    statuses that it may have.
    """
    walls, cpu, memory = [], [], 0.0
    for _ in range(repeat):
        begin = time.perf_counter()
        with Path(os.devnull).open("wb") as nowhere:
            variables = {**os.environ, **BYTECODE}
            process = subprocess.Popen(  # noqa: S603 - our own commands
                command, stdout=nowhere, stderr=subprocess.DEVNULL, env=variables
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        walls.append(time.perf_counter() - begin)
        cpu.append(usage.ru_utime + usage.ru_stime)
        if process.returncode not in ends:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        memory = max(memory, usage.ru_maxrss / 1024)
    return Timing(statistics.median(walls), statistics.median(cpu), memory)


def row(*cells: object) -> None:
    """A line of the report, also a row of a Markdown table."""
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def compare(
    job: str, messages: int, ours: Timing, theirs: Timing, *, our_messages: int | None = None
) -> None:
    """One row: seconds, ratios of the time per message, memory."""
    more = (our_messages or messages) / messages
    row(
        job,
        f"{our_messages or messages:,}",
        f"{ours.seconds:.2f} s",
        f"{theirs.seconds:.2f} s",
        f"{theirs.seconds / ours.seconds * more:.1f} x",
        f"{theirs.cpu / ours.cpu * more:.1f} x",
        f"{ours.memory_mib:.0f} MiB",
    )


def main() -> None:
    """Make the captures, run both, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", default="50000,1000000,10000000")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    arguments = parser.parse_args()
    tshark = shutil.which("tshark")
    if tshark is None:
        raise SystemExit("tshark is not installed: there is nothing to compare with")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    row("job", "messages", "dcpinspect", "tshark", "ratio", "ratio of processor time", "memory")
    row(*["---"] * 7)

    small = arguments.folder / "50.pcap"
    count = make(small, 52, vbuckets=4)
    timed([*OURS, str(small)], 1)  # writes what Python makes of the modules
    compare(
        "(c) lines of a small capture",
        count,
        timed([*OURS, str(small)], 10),
        timed([tshark, "-r", str(small)], 10),
    )

    for size in [int(text) for text in arguments.messages.split(",")]:
        path = arguments.folder / f"{size}.pcap"
        count = make(path, size)
        fields = timed(
            [tshark, "-r", str(path), *TSHARK_FIELDS], 1 if size > 2_000_000 else arguments.repeat
        )
        csv = [*OURS, str(path), "--format", "csv", "--columns", "name,vbucket,by_seqno"]
        compare("(a) CSV", count, timed(csv, arguments.repeat), fields)
        lines = timed([tshark, "-r", str(path)], 1 if size > 2_000_000 else arguments.repeat)
        compare(
            "(d) lines of all messages", count, timed([*OURS, str(path)], arguments.repeat), lines
        )
        part = arguments.folder / f"{min(size, EK_MESSAGES)}.pcap"
        ek_count = count if part == path else make(part, EK_MESSAGES)
        shown, shown_count = (part, ek_count) if size > 2_000_000 else (path, count)
        for name, letter in (("(e) field tables", "-V"), ("(f) bytes", "-x")):
            theirs = timed([tshark, "-r", str(shown), letter], 1)
            ours = timed([*OURS, str(path), letter], 1 if size > 2_000_000 else arguments.repeat)
            compare(name, shown_count, ours, theirs, our_messages=count)
        ek = timed([tshark, "-r", str(part), "-T", "ek"], 1)
        for name, options in (
            ("(b) NDJSON without fields", ["--no-fields"]),
            ("(b) NDJSON with all fields", []),
        ):
            ours = timed(
                [*OURS, str(path), "--format", "ndjson", *options],
                1 if size > 2_000_000 else arguments.repeat,
            )
            compare(name, ek_count, ours, ek, our_messages=count)


if __name__ == "__main__":
    main()
