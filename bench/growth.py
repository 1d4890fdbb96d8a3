"""How the work grows with the number of things of a kind, by processor time: tests count lines of
Python, and miss work over columns.

    python -m bench.growth [KIND…] [--seconds 1] [--jobs check,read] [--from N]

The kinds are those of ``tests/scenarios/test_work.py``. Each begins with ``--from`` times the
number of the test, and doubles until a job takes ``--seconds`` of the processor; the program's
start is not counted. Printed is how many times as long the last doubling took: 2 is as it should
be, 4 is the square.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.read import row, timed
from tests.scenarios.test_work import KINDS

JOBS = {"check": ["check"], "read": ["read", "--format", "ndjson"]}
MOST = 1 << 17


def seconds(job: Sequence[str], capture: Path) -> float:
    """Processor time of a job on a capture."""
    command, *options = job
    return timed(
        [sys.executable, "-m", "dcpinspect", command, str(capture), *options], 1, ends=range(4)
    ).cpu


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="all if none is named")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--from", type=int, default=16, dest="first")
    arguments = parser.parse_args()
    unknown = [kind for kind in arguments.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    row("kind", "job", "number", "processor time", "times that of half")
    row(*["---"] * 5)
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "x.pcap"
        for kind in arguments.kinds or KINDS:
            few, make = KINDS[kind]
            for job in arguments.jobs.split(","):
                count, took = arguments.first * few, [0.0, 0.0]
                capture.write_bytes(make(1))
                start = min(seconds(JOBS[job], capture) for _ in range(2))
                while took[-1] < arguments.seconds and count <= MOST:
                    try:
                        capture.write_bytes(make(count))
                    except (ValueError, struct.error):
                        break  # no more fit into what holds them
                    took.append(seconds(JOBS[job], capture) - start)
                    count *= 2
                row(
                    kind,
                    f"`{job}`",
                    f"{count // 2:,}",
                    f"{took[-1]:.2f} s",
                    f"{took[-1] / max(took[-2], 0.05):.1f}",
                )


if __name__ == "__main__":
    main()
