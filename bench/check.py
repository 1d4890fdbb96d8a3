"""What is wrong with a capture, beside reading alone: whole processes, the same capture, the same
run.

    python -m bench.check [--messages 1000000] [--repeat 3] [--folder DIR]

Reading is every message decoded and none shown. ``check`` follows the streams besides and asks
every rule; a third of the messages are compressed or have xattrs, so that their values have to be
unwrapped.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench.captures import make
from bench.read import row, timed
from bench.streams import DCPINSPECT, READING


def main() -> None:
    """Make the capture, run all, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / f"{arguments.messages}.pcap"
    count = make(path, arguments.messages)

    check = [*DCPINSPECT, "check", str(path)]
    jobs = {
        "reading": [sys.executable, "-c", READING, str(path)],
        "`dcpinspect check`": check,
        "`dcpinspect check`, family wire": [*check, "--family", "wire"],
        "`dcpinspect check -w`": [*check, "-w", str(arguments.folder / "evidence.pcapng")],
    }
    for command in jobs.values():
        timed(command, 1)  # compiles what is not compiled yet
    row("job", "messages", "time", "of reading", "processor time", "of reading", "memory")
    row(*["---"] * 7)
    # in turn, so that other work on the machine meets all of them alike
    runs = [
        {name: timed(command, 1) for name, command in jobs.items()} for _ in range(arguments.repeat)
    ]
    wall = {name: statistics.median(run[name].seconds for run in runs) for name in jobs}
    cpu = {name: statistics.median(run[name].cpu for run in runs) for name in jobs}
    for name in jobs:
        ratios = f"{wall[name] / wall['reading']:.1f} x", f"{cpu[name] / cpu['reading']:.1f} x"
        memory = max(run[name].memory_mib for run in runs)
        row(
            name,
            f"{count:,}",
            f"{wall[name]:.2f} s",
            ratios[0],
            f"{cpu[name]:.2f} s",
            ratios[1],
            f"{memory:.0f} MiB",
        )


if __name__ == "__main__":
    main()
