"""The pipeline beside the engine in one process: the same files, the same run; growth, memory.

    python -m bench.pipeline [--messages 1000000,8000000] [--folder DIR]

Captures are of four connections, in files of 100,000 messages. The engine reads them in one process and one thread, as ``read`` decodes
(nothing shown) and as ``check`` follows streams and asks every rule; the scan alone does the same in one process. The pipeline is a whole
process with Spark on two processors, seconds by stage as its summary has them; what its processes take is watched in /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.captures import CLIENT_PORT, make
from bench.read import row
from dcpinspect.capture.open import open_capture

CONNECTIONS = 4
MESSAGES_A_FILE = 100_000
PROCESSORS = 2
ENGINE = """
import sys
from dcpinspect.reading import Reading
with Reading(sys.argv[2:]) as reading:
    if sys.argv[1] == "check":
        reading.check()
    for _ in reading:
        pass
    if sys.argv[1] == "check":
        reading.findings()
"""
SCAN = """
import sys
from dcpinspect.spark.scan import scan
for path in sys.argv[2:]:
    scan(path, sys.argv[1])
"""


@dataclass
class Watched:
    """What the processes of a session took."""

    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    """Processor seconds of all processes of a kind: driver, jvm, worker."""
    memory: dict[str, float] = field(default_factory=dict)
    """Greatest resident MiB of a process of a kind."""
    output: bytes = b""


def ring(folder: Path, messages: int) -> tuple[list[str], int, int]:
    """Files of so many messages together: their names, how many messages there are, and how many bytes."""
    target = folder / f"ring-{messages}"
    count, parts = 0, []
    for number in range(CONNECTIONS):
        path = folder / f"connection-{number}.pcap"
        count += make(path, messages // CONNECTIONS, port=CLIENT_PORT + number)
        parts.append(path)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    files = max(1, messages // MESSAGES_A_FILE)
    header = parts[0].read_bytes()[:24]
    names = [target / f"ring_{number:05}.pcap" for number in range(files)]
    for name in names:
        name.write_bytes(header)
    for path in parts:
        ends = [24]
        with open_capture(path) as capture:
            for batch in capture:
                ends += (batch.file_offset + batch.offset + batch.captured).tolist()
        with path.open("rb") as source:
            for number, name in enumerate(names):
                start, end = ends[(len(ends) - 1) * number // files], ends[(len(ends) - 1) * (number + 1) // files]
                source.seek(start)
                with name.open("ab") as file:
                    file.write(source.read(end - start))
        path.unlink()
    return [str(name) for name in names], count, sum(name.stat().st_size for name in names)


def watched(command: list[str]) -> Watched:
    """Runs a command and looks at all its processes until it ends."""
    done = Watched()
    cpu: dict[tuple[int, str], float] = {}
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own commands
        while process.poll() is None:
            for pid, kind, seconds, memory in processes(process.pid):
                cpu[pid, kind] = max(cpu.get((pid, kind), 0.0), seconds)
                done.memory[kind] = max(done.memory.get(kind, 0.0), memory)
            time.sleep(0.1)
        done.seconds = time.perf_counter() - begin
        assert process.stdout is not None
        done.output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:6])} … ended with {process.returncode}")
    for (_, kind), seconds in cpu.items():
        done.cpu[kind] = done.cpu.get(kind, 0.0) + seconds
    return done


def processes(first: int) -> list[tuple[int, str, float, float]]:
    """Number, kind, processor seconds and greatest resident MiB of a process and its descendants."""
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
        peak = next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)
        seen[int(path.name)] = int(fields[1]), name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak
    wanted = {first}
    while more := {pid for pid, (parent, *_) in seen.items() if parent in wanted} - wanted:
        wanted |= more
    kinds = {pid: "jvm" if seen[pid][1].startswith("java") else "driver" if pid == first else "worker" for pid in wanted & seen.keys()}
    return [(pid, kind, *seen[pid][2:]) for pid, kind in kinds.items()]


def main() -> None:
    """Make the captures, run all, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", default="1000000,8000000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    python = [sys.executable, "-c"]
    row("messages", "job", "time", "processor time", "messages/s a core", "of decoding", "of checking", "memory")
    row(*["---"] * 8)
    stages = []
    for messages in map(int, arguments.messages.split(",")):
        files, count, size = ring(arguments.folder, messages)
        out = arguments.folder / "tables"
        master = ["--master", f"local[{PROCESSORS}]"]
        jobs = {
            "engine, decoding": [*python, ENGINE, "read", *files],
            "engine, checking": [*python, ENGINE, "check", *files],
            "scan": [*python, SCAN, str(arguments.folder / "bundles"), *files],
            "pipeline": [sys.executable, "-m", "dcpinspect", "pipeline", "run", *files, "-o", str(out), "--json", *master],
        }
        rates: dict[str, float] = {}
        for name, command in jobs.items():
            shutil.rmtree(out, ignore_errors=True)
            if messages <= 1_000_000:
                watched(command)  # compiles what is not compiled yet, and fills the page cache
                shutil.rmtree(out, ignore_errors=True)
            done = watched(command)
            cpu = sum(done.cpu.values())
            rates[name] = count / cpu
            shares = [f"{rates[name] / rates[other]:.0%}" if other in rates else "" for other in ("engine, decoding", "engine, checking")]
            memory = ", ".join(f"{kind} {done.memory[kind]:.0f} MiB ({done.cpu[kind]:.1f} s)" for kind in sorted(done.memory))
            row(f"{count:,}", name, f"{done.seconds:.1f} s", f"{cpu:.1f} s", f"{rates[name]:,.0f}", *shares, memory)
            if name == "pipeline":
                summary = json.loads(done.output)
                assert summary["messages"] == count, summary
                stages.append((count, size, summary["seconds"], sum(path.stat().st_size for path in out.rglob("*") if path.is_file())))
        shutil.rmtree(Path(files[0]).parent)
        shutil.rmtree(out)
    row("messages", "captures", "start", "scan", "stitch", "analysis", "merge", "whole", "written", "without start")
    row(*["---"] * 10)
    for count, size, seconds, written in stages:
        names = ("start", "scan", "stitch", "analysis", "merge", "whole")
        rest = seconds["whole"] - seconds["start"]
        took = [f"{seconds[name]:.1f} s" for name in names]
        row(f"{count:,}", f"{size >> 20} MiB", *took, f"{written / count:.0f} bytes a message", f"{rest / count * 1e6:.2f} s a million")


if __name__ == "__main__":
    main()
