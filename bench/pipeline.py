"""The pipeline on one core and on two, beside ``check`` and ``export`` of the same captures; and on
more cores, computed.

    python -m bench.pipeline [--messages 2000000] [--files 1,30,200] [--rounds 1] [--folder DIR] [--simulate] [--singly]

All captures have one connection, cut into so many files of one ring. Every run is a whole process,
bound to one processor or to two; what its processes take is watched in /proc. Where much else runs,
clocks say little: so all tasks are done in this process as well, one after the other, and their
processor times say how long they would take on processors of their own. ``--simulate`` takes the
times of tasks from Spark's event log, and computes how long a terabyte in 10,000 files would take
with more cores: as many tasks as the bytes ask for, each as long as those that were measured.
``--singly`` adds the files to an output one after the other, in this process.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.captures import make
from bench.read import row
from dcpinspect.capture.open import open_capture
from dcpinspect.spark import pipeline
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.task_runner import packed

START = 10.0
"""Processor seconds that Spark may take to start."""
TERABYTE, FILES = 1e12, 10_000
CORES = (1, 2, 4, 16, 64, 256)


@dataclass
class Watched:
    """What the processes of a session took."""

    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    """Processor seconds of all processes of a kind: driver, jvm, worker."""
    memory: dict[str, float] = field(default_factory=dict)
    """Greatest MiB of a process of a kind, without the pages of files."""
    output: bytes = b""

    @property
    def processor(self) -> float:
        """Processor seconds of all."""
        return sum(self.cpu.values())


def ring(folder: Path, messages: int, files: int) -> tuple[list[str], int]:
    """A connection of so many messages in so many files: their names, and how many messages there
    are.
    """
    whole = folder / "whole.pcap"
    count = make(whole, messages)
    ends = [24]
    with open_capture(whole) as capture:
        for batch in capture:
            ends += (batch.file_offset + batch.offset + batch.captured).tolist()
    target = folder / f"ring-{files}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    names = [target / f"ring_{number:05}.pcap" for number in range(files)]
    with whole.open("rb") as source:
        header = source.read(24)
        for number, name in enumerate(names):
            end = ends[(len(ends) - 1) * (number + 1) // files]
            name.write_bytes(header + source.read(end - source.tell()))
    whole.unlink()
    return [str(name) for name in names], count


def watched(command: Sequence[str], cores: int) -> Watched:
    """Runs a command on so many processors, and looks at all its processes until it ends."""
    done = Watched()
    cpu: dict[tuple[int, str], float] = {}
    bound = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores])), *command]
    begin = time.perf_counter()
    with subprocess.Popen(bound, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own commands
        while process.poll() is None:
            for pid, kind, seconds, memory in processes(process.pid):
                cpu[pid, kind] = max(cpu.get((pid, kind), 0.0), seconds)
                done.memory[kind] = max(done.memory.get(kind, 0.0), memory)
            time.sleep(0.25)
        done.seconds = time.perf_counter() - begin
        assert process.stdout is not None
        done.output = process.stdout.read()
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:6])} … ended with {process.returncode}")
    for (_, kind), seconds in cpu.items():
        done.cpu[kind] = done.cpu.get(kind, 0.0) + seconds
    return done


def processes(first: int) -> list[tuple[int, str, float, float]]:
    """Number, kind, processor seconds and resident MiB, without pages of files, of a process and
    its descendants.
    """
    seen: dict[int, tuple[int, str, float, float]] = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            status = (path / "status").read_text()
        except OSError:
            continue  # it has ended meanwhile
        name = status.split("\n", 1)[0].split("\t")[1]
        own = next(
            (
                int(line.split()[1]) / 1024
                for line in status.splitlines()
                if line.startswith("RssAnon")
            ),
            0.0,
        )
        seen[int(path.name)] = (
            int(fields[1]),
            name,
            (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
            own,
        )
    wanted = {first}
    while more := {pid for pid, (parent, *_) in seen.items() if parent in wanted} - wanted:
        wanted |= more
    kinds = {
        pid: "jvm" if seen[pid][1].startswith("java") else "driver" if pid == first else "worker"
        for pid in wanted & seen.keys()
    }
    return [(pid, kind, *seen[pid][2:]) for pid, kind in kinds.items()]


class Measured:
    """Tasks done in this process, with the processor time of each."""

    def __init__(self, processors: int) -> None:
        self.processors = processors
        self.stages: list[list[float]] = []
        """Seconds of each task, by stage."""

    def map(
        self,
        what: str,  # noqa: ARG002
        work: Callable[[Any], Any],
        items: Sequence[Any],
        sizes: Sequence[int],
    ) -> list[Any]:
        """As ``Tasks`` has it."""
        if not items:
            return []
        found: dict[int, Any] = {}
        self.stages.append([])
        for numbers in packed(sizes, 2 * self.processors):
            begin = time.process_time()
            found.update((number, work(items[number])) for number in numbers)
            self.stages[-1].append(time.process_time() - begin)
        return [found[number] for number in range(len(items))]


def computed(captures: Sequence[str], out: Path, cores: int) -> tuple[list[float], float]:
    """Processor seconds of the longest processor in each stage of a run, and of what the driver
    does alone.
    """
    tasks = Measured(cores)
    shutil.rmtree(out, ignore_errors=True)
    begin = time.process_time()
    pipeline.run(pipeline.Options(captures, str(out)), lambda: nullcontext(tasks))
    whole = time.process_time() - begin
    return [scheduled(stage, cores) for stage in tasks.stages], whole - sum(map(sum, tasks.stages))


def singly(captures: Sequence[str], out: Path) -> None:
    """Prints what it takes to add files to an output one after the other."""
    shutil.rmtree(out, ignore_errors=True)
    row("files", "messages followed", "processor time", "of it the driver", "states")
    row(*["---"] * 5)
    followed, seconds = 0, 0.0
    for count in range(1, len(captures) + 1):
        tasks, begin = Measured(2), time.process_time()
        done = pipeline.run(
            pipeline.Options(captures[:count], str(out)), lambda tasks=tasks: nullcontext(tasks)
        )  # type: ignore[misc]
        took = time.process_time() - begin
        states = (
            sum(
                (out / part.state).stat().st_size
                for part in Manifest.newest(out).parts
                if part.state
            )
            / 1e6
        )
        row(
            count,
            f"{done.messages:,}",
            f"{took:.1f} s",
            f"{took - sum(map(sum, tasks.stages)):.1f} s",
            f"{states:.1f} MB",
        )
        followed, seconds = followed + done.messages, seconds + took
    sys.stdout.write(
        f"{followed:,} messages followed in {seconds:.1f} s, of {done.rows['messages']:,}\n"
    )


def tasks_of(log: Path) -> list[list[float]]:
    """Seconds of every task, by stage in their order, out of Spark's event log."""
    stages: dict[int, list[float]] = {}
    for path in sorted(log.rglob("events_*")):
        for line in path.read_text("utf-8").splitlines():
            event: dict[str, Any] = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                about = event["Task Info"]
                stages.setdefault(event["Stage ID"], []).append(
                    (about["Finish Time"] - about["Launch Time"]) / 1000
                )
    return [stages[number] for number in sorted(stages)]


def scheduled(tasks: Sequence[float], cores: int) -> float:
    """Seconds until all tasks are done, each begun in its turn on the first processor that is
    free.
    """
    free = [0.0] * cores
    for seconds in tasks:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


def simulate(log: Path, summary: dict[str, Any]) -> None:
    """Prints what a terabyte would take, measured by the tasks and the driver of one run.

    Putting together counts as serial, since one task does it.
    """
    times = int(TERABYTE / summary["bytes"])
    seconds = summary["seconds"]
    stages = [[one for one in stage for _ in range(times)] for stage in tasks_of(log)]
    driver = (seconds["stitch"] + seconds["merge"] + seconds["write"]) * times
    row(
        "cores",
        "whole",
        "scan",
        "analysis",
        "tables",
        "serial: driver, stitching, putting together",
        "of one core",
        "serial part",
    )
    row(*["---"] * 8)
    first = 0.0
    for cores in CORES:
        scan, analysis, *_, tables = [scheduled(stage, cores) for stage in stages]
        took = scan, analysis, tables
        whole = seconds["start"] + sum(took) + driver
        first = first or whole
        row(
            cores,
            *(f"{one / 60:,.1f} min" for one in (whole, *took, driver)),
            f"{first / whole:.1f} x",
            f"{driver / whole:.0%}",
        )
    sys.stdout.write(
        f"{TERABYTE / 1e12:.0f} TB is {times:,} times what was measured ({summary['captures']} "
        f"captures), here as {FILES:,} files of "
        f"{TERABYTE / FILES / 1e6:.0f} MB; each connection is one of {times:,}, with "
        f"{len(stages[1]) // times} tasks of its own.\n"
    )


def report(
    files: int, engine: Sequence[float], found: Sequence[tuple[Watched, dict[str, float]]]
) -> None:
    """A line of the table; ``found``: runs on one core and on two, in turn."""
    one, two = found[::2], found[1::2]
    took = [
        statistics.median(of)
        for of in (engine, [done.processor for done, _ in one], [done.processor for done, _ in two])
    ]
    clock = [statistics.median(done.seconds for done, _ in runs) for runs in (one, two)]
    rest = [
        statistics.median(seconds["whole"] - seconds["start"] for _, seconds in runs)
        for runs in (one, two)
    ]
    row(
        f"{files}",
        *(f"{seconds:.1f} s" for seconds in took),
        f"{took[2] / took[0]:.2f} x",
        f"{(took[2] - START) / took[0]:.2f} x",
        *(f"{seconds:.1f} s" for seconds in clock),
        f"{clock[0] / clock[1]:.2f} x",
        f"{rest[0] / rest[1]:.2f} x",
        *(f"{max(done.memory[kind] for done, _ in two):.0f} MiB" for kind in ("driver", "worker")),
    )


def main() -> None:
    """Make the captures, run all, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--files", default="1,30,200")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--singly", action="store_true", help="nothing else")
    parser.add_argument("--compute-only", action="store_true", help="no processes of Spark")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    out, log = arguments.folder / "tables", arguments.folder / "events"
    if arguments.singly:
        for files in map(int, arguments.files.split(",")):
            captures, _ = ring(arguments.folder, arguments.messages, files)
            singly(captures, out)
            shutil.rmtree(Path(captures[0]).parent)
        shutil.rmtree(out)
        return
    program = [sys.executable, "-m", "dcpinspect"]
    names = (
        "check and export",
        "one core",
        "two cores",
        "of check and export",
        "beyond the start",
        "one core",
        "two cores",
        "times as fast",
    )
    row("files", *names, "without start", "driver", "worker")
    row(*["---"] * 11)
    summary: dict[str, Any] = {}
    for files in map(int, arguments.files.split(",")):
        captures, count = ring(arguments.folder, arguments.messages, files)
        engine, found = [], []
        for _ in range(0 if arguments.compute_only else arguments.rounds):
            export = [
                *program,
                "export",
                *captures,
                "-o",
                str(arguments.folder / "messages.parquet"),
            ]
            engine.append(
                sum(
                    watched(command, 2).processor
                    for command in ([*program, "check", *captures], export)
                )
            )
            for cores in (1, 2):
                for folder in (out, log):
                    shutil.rmtree(folder, ignore_errors=True)
                log.mkdir()
                options = ["--json", "--master", f"local[{cores}]"]
                if arguments.simulate:
                    options += [
                        "--conf",
                        "spark.eventLog.enabled=true",
                        "--conf",
                        f"spark.eventLog.dir=file://{log.absolute()}",
                    ]
                    options += ["--conf", "spark.eventLog.compress=false"]
                done = watched(
                    [*program, "pipeline", "run", *captures, "-o", str(out), *options], cores
                )
                summary = json.loads(done.output)
                assert summary["messages"] == count, summary
                found.append((done, summary["seconds"]))
        if found:
            report(files, engine, found)
        computed(captures, out, 1)  # loads what it needs
        stages, serial = zip(*(computed(captures, out, cores) for cores in (1, 2)), strict=True)
        alone = [sum(each) + rest for each, rest in zip(stages, serial, strict=True)]
        parts = [
            f"{' + '.join(f'{one:.1f}' for one in each)} + {rest:.1f} s"
            for each, rest in zip(stages, serial, strict=True)
        ]
        sys.stdout.write(
            f"on processors of their own: {' and '.join(parts)}, {alone[0] / alone[1]:.2f} "
            "times as fast\n"
        )
        shutil.rmtree(Path(captures[0]).parent)
        if arguments.simulate and found:
            simulate(log, summary)
    for folder in (out, log):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
