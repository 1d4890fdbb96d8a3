"""Keeping all messages at hand, beside reading alone and CSV: the same capture, in turn; then
looking messages up.

    python -m bench.store [--messages 1000000] [--repeat 3] [--folder DIR]

Filling is every message decoded and kept. Each row of the second table is the median of so many
different messages, pages of 50 consecutive ones, or whole runs of a filter or a scan over all
messages.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.captures import make
from bench.read import row, timed
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows

READING = (
    "import sys; from dcpinspect.reading.reading import Reading\nwith Reading([sys.argv[1]]) "
    "as reading:\n    for _ in reading: pass\n"
)
FILLING = (
    "import sys; from dcpinspect.reading.reading import Reading; from "
    "dcpinspect.reading.store.store import Store\n"
    "store = Store()\n"
    "with Reading([sys.argv[1]], keeper=store) as reading:\n"
    "    for _ in store.fill(reading): pass\n"
)
FILTERS = (
    "vbucket = 417",
    "vbucket = 417 and name <> 'dcp_noop'",
    "key like '%999'",
    "by_seqno > 100 and vbucket in (1, 5)",
)


def measured(job: str, work: Callable[[int], object], items: Iterable[int]) -> None:
    """One row: the median and the 95th percentile of doing it for each item, and the
    processor's.
    """
    wall, cpu = [], []
    for item in items:
        begin, used = time.perf_counter(), time.process_time()
        work(item)
        wall.append(1000 * (time.perf_counter() - begin))
        cpu.append(1000 * (time.process_time() - used))
    wall.sort()
    row(
        job,
        len(wall),
        f"{statistics.median(wall):.2f} ms",
        f"{wall[len(wall) * 95 // 100]:.2f} ms",
        f"{statistics.median(cpu):.2f} ms",
    )


def main() -> None:
    """Make the capture, fill a store with it, look things up."""
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

    columns = ["--columns", "name,vbucket,by_seqno"]
    jobs = {
        "reading": [sys.executable, "-c", READING, str(path)],
        "CSV": [sys.executable, "-m", "dcpinspect", "read", str(path), "--format", "csv", *columns],
        "filling": [sys.executable, "-c", FILLING, str(path)],
    }
    for command in jobs.values():
        timed(command, 1)  # compiles what is not compiled yet
    row("job", "messages", "time", "processor time", "memory")
    row(*["---"] * 5)
    runs = [
        {name: timed(command, 1) for name, command in jobs.items()} for _ in range(arguments.repeat)
    ]
    for name in jobs:
        seconds, cpu = (
            statistics.median(getattr(run[name], what) for run in runs)
            for what in ("seconds", "cpu")
        )
        row(
            name,
            f"{count:,}",
            f"{seconds:.2f} s",
            f"{cpu:.2f} s",
            f"{max(run[name].memory_mib for run in runs):.0f} MiB",
        )

    with tempfile.TemporaryDirectory() as folder, Store(spool=Path(folder)) as store:
        with Reading([str(path)], keeper=store) as reading:
            for _ in store.fill(reading):
                pass
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        sys.stdout.write(
            f"\n{size / count:.1f} bytes a message are kept, {size / path.stat().st_size:.0%} "
            "of the capture\n\n"
        )
        row("job", "times", "median", "95 %", "processor")
        row(*["---"] * 5)
        rows = random.Random(1).sample(range(1, count - 50), 2000)  # noqa: S311 - not a secret
        measured("any message, every field explained", store.annotate, rows)
        measured(
            "any 50 in a row, as reading gave them",
            lambda first: store.messages(range(first, first + 50)),
            rows[:500],
        )
        measured(
            "a scan of three columns",
            lambda _: list(store.batches(["name", "vbucket", "by_seqno"])),
            range(5),
        )
        for text in FILTERS:
            filter_ = FilterRows(parse_filter(text))
            store.matching(filter_, after=count - 10)
            measured(f"`{text}`", lambda _, chosen=filter_: store.matching(chosen), range(5))  # type: ignore[misc] # bound for each


if __name__ == "__main__":
    main()
