"""A standalone cluster of Spark on this machine, and what happens to a run of the pipeline when
parts of it die.

``python -m tests.spark.cluster CAPTURE [STORY…]``: cuts the capture into a ring of files, starts a
master and two workers of one core, and runs the pipeline there while it kills processes with
SIGKILL or stops them for good. It compares the tables with those of a run on this machine, prints a
line a story, and ends with 1 if the tables of one differ.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import psutil
import pyspark

from dcpinspect.spark.manifest import Manifest
from tests.spark.cuts import cut, packets_of

FILES = 16
MASTER, WORKER, EXECUTOR = (
    "deploy.master.Master",
    "deploy.worker.Worker",
    "CoarseGrainedExecutorBackend",
)
WAIT_S = 300


class Cluster:
    """A master and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.workers = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        self._run(MASTER, "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        until("a master", lambda: is_open(self.port))
        for _ in range(workers):
            self.add_worker()

    def add_worker(self) -> None:
        """Each is a host of its own: Spark does a slow task again on another one only."""
        self.workers += 1
        self._run(
            WORKER,
            "-c",
            "1",
            "-m",
            "1g",
            "--host",
            f"127.0.0.{self.workers + 1}",
            "--webui-port",
            "0",
            "-d",
            str(self.folder / "work"),
            self.master,
        )

    def _run(self, what: str, *arguments: str) -> None:
        spark = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
        }
        with (self.folder / "cluster.log").open("ab") as log:
            command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.{what}", *arguments]
            self._processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            )

    def processes(self, name: str) -> list[psutil.Process]:
        """Those of the cluster that run this, executors too."""
        ours = {process.pid for process in self._processes}
        found = []
        for one in psutil.process_iter(["cmdline"]):
            try:
                if name in " ".join(one.info["cmdline"] or ()) and (
                    one.pid in ours or ours.intersection(up.pid for up in one.parents())
                ):
                    found.append(one)
            except psutil.Error:  # it has ended meanwhile
                continue
        return found

    def stop(self) -> None:
        for process in self._processes:
            for one in (
                psutil.Process(process.pid).children(recursive=True)
                if process.poll() is None
                else []
            ):
                one.kill()
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def until(what: str, is_so: Callable[[], object]) -> None:
    """Waits for it. Raises TimeoutError."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


def started(
    ring: Path, out: Path, master: str, *settings: str, python: str = sys.executable
) -> subprocess.Popen[bytes]:
    confs = [text for one in ("spark.executor.memory=512m", *settings) for text in ("--conf", one)]
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        str(ring),
        "-o",
        str(out),
        "--master",
        master,
        *confs,
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a run. Raises RuntimeError where it failed."""
    _, said = process.communicate(timeout=WAIT_S)
    if process.returncode:
        msg = f"status {process.returncode}: {said.decode()[-400:]}"
        raise RuntimeError(msg)


def differences(out: Path, expected: Path) -> list[str]:
    """Tables that are not the same."""
    found = []
    one, other = Manifest.newest(out), Manifest.newest(expected)
    for table in other.table_names:
        if table in ("captures", "bad"):
            continue
        sources = [
            f"(from read_parquet({manifest.files(table)!r}, union_by_name = true))"
            for manifest in (one, other)
        ]
        both = (" except all ".join(order) for order in (sources, sources[::-1]))
        if any(duckdb.execute(f"from ({one}) limit 1").fetchall() for one in both):
            found.append(table)
    return found


# -- stories: what happens while the run is under way
# -------------------------------------------------------------------------------------


def nothing(cluster: Cluster, _: subprocess.Popen[bytes]) -> None:
    """Nobody is killed."""


def bare_python(cluster: Cluster, _: subprocess.Popen[bytes]) -> None:
    """The Python of the executors lacks the package."""


def executor_dies(cluster: Cluster, _: subprocess.Popen[bytes]) -> None:
    """An executor is killed."""
    cluster.processes(EXECUTOR)[0].kill()


def worker_dies(cluster: Cluster, _: subprocess.Popen[bytes]) -> None:
    """A worker is killed with its executors; another one comes."""
    worker = cluster.processes(WORKER)[0]
    for one in worker.children(recursive=True):
        one.kill()
    worker.kill()
    cluster.add_worker()


def task_hangs(cluster: Cluster, _: subprocess.Popen[bytes]) -> None:
    """The Python of an executor stops for good; speculation does its task elsewhere."""
    for one in cluster.processes("pyspark.daemon")[:1]:
        one.send_signal(signal.SIGSTOP)
        for child in one.children():
            child.send_signal(signal.SIGSTOP)


def driver_dies(_: Cluster, run: subprocess.Popen[bytes]) -> None:
    """The program itself is killed, with its JVM, and started again."""
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()


STORIES = (nothing, bare_python, executor_dies, worker_dies, task_hangs, driver_dies)


@contextmanager
def cluster_in(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster that is gone in the end."""
    cluster = Cluster(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()


def bare(folder: Path) -> str:
    """A Python that has all libraries and not this package, if that is installed to be edited
    (``pip install -e``).
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    return str(folder / "bin" / "python")


def told(story: Callable[[Cluster, subprocess.Popen[bytes]], None], folder: Path) -> str:
    """What came of a story; empty if all is well."""
    out, here = folder / story.__name__, folder / f"cluster_{story.__name__}"
    here.mkdir()
    with cluster_in(here) as cluster:
        python = bare(here / "bare") if story is bare_python else sys.executable
        run = started(
            folder / "ring",
            out,
            cluster.master,
            "spark.speculation=true",
            "spark.speculation.quantile=0.5",
            python=python,
        )
        until("tasks", lambda: cluster.processes("pyspark.daemon") or run.poll() is not None)
        time.sleep(0.5)
        if run.poll() is not None and story not in (nothing, bare_python):
            return f"the run had ended before: {run.communicate()[1].decode()[-300:]}"
        story(cluster, run)
        try:
            if story is driver_dies:
                run = started(folder / "ring", out, cluster.master)
            ended(run)
            return ", ".join(differences(out, folder / "expected"))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            run.kill()
            return str(error)


def main(capture: str, names: Sequence[str]) -> int:
    """Runs all stories, or those that are named."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packets = packets_of(Path(capture))
        cut(folder / "ring", packets, [len(packets) * part // FILES for part in range(1, FILES)])
        ended(started(folder / "ring", folder / "expected", "local[2]"))
        for story in STORIES:
            if not names or story.__name__ in names:
                begin = time.monotonic()
                wrong = told(story, folder)
                failed += bool(wrong)
                result = f"not the same: {wrong}" if wrong else "the same tables"
                sys.stdout.write(f"{story.__doc__} {result}, {time.monotonic() - begin:.0f} s\n")
                sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
