from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.program import program
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests.peers.truth import SAMPLES
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import ran, stored, told
from tests.spark.test_pipeline import equal
from tests.tls.forged import Forged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["pipeline", *map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "Spark does not start: sc://127.0.0.1:1 does not answer ("),
        (
            ["--master", "local[1]"],
            "--master local[1]: SPARK_REMOTE is sc://127.0.0.1:1; unset it, or leave out --master\n",
        ),
    ],
)
def test_a_server_that_the_environment_names_has_to_answer(
    options: list[str], says: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        str(SAMPLES / "rollback.pcap"),
    ]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out"), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_REMOTE": "sc://127.0.0.1:1"},
        timeout=50,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"dcpinspect: {says}")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.spark
def test_runs_on_spark_make_the_tables_of_a_reading(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    packets = packets_of(SAMPLES / "tour.pcapng")
    *first, last = cut(tmp_path / "ring", packets, [100, 101, 220, 330])
    status, out, err = output(capsys, "run", *first, "-o", tmp_path / "out")
    assert (status, err) == (0, "")
    assert out.startswith("read 4 captures, ")
    status, out, err = output(capsys, "run", tmp_path / "ring", "-o", tmp_path / "out", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["schema"], found["captures"], found["known"], found["batch"]) == (
        "dcpinspect.pipeline_run/1",
        1,
        4,
        2,
    )
    assert sum(found["findings"].values()) == found["rows"]["findings"] > 0
    assert set(found["findings"]) <= {"error", "warning", "note"}
    assert last.exists()
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )


@pytest.mark.slow
@pytest.mark.spark
def test_every_sample_at_a_point_of_its_own(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts of many points in one run of Spark; the messages of each are those of a reading of it
    alone.
    """
    assert spark.version
    forged = Forged(tmp_path / "tls")
    forged.send(1, builders.mutation(1))
    captures = {path.name: path for path in SAMPLES.iterdir() if ".pcap" in path.name} | {
        "encrypted": (recorded := forged.finish()).path
    }
    for name, path in captures.items():
        (tmp_path / name).mkdir()
        shutil.copy(path, tmp_path / name / "x.pcap")
    names = list(captures)
    status, _, err = output(
        capsys,
        "run",
        *(tmp_path / name for name in names),
        "-o",
        tmp_path / "out",
        "--keylog",
        recorded.keylog,
    )
    assert (status, err) == (0, "")
    manifest = Manifest.newest(tmp_path / "out")
    rows = {name: sum(part.rows for part in manifest.parts if part.point == name) for name in names}
    counts = {}
    for name, path in captures.items():
        with Reading([str(path)], keys=KeyLog([str(recorded.keylog)])) as reading:
            counts[name] = sum(len(batch) for batch in reading)
    assert rows == counts
    assert rows["encrypted"] == 1


@pytest.mark.slow
def test_check_says_what_check_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = SAMPLES / "tour.pcapng"
    ran(tmp_path / "out", sample)
    for options in (
        [],
        ["--rule", "bad-stream-range"],
        ["--lint", "--family", "lint"],
        ["--no-rule", "rollback", "--fail-on", "never"],
    ):
        expected = (
            main(["check", str(sample), "-f", "json", *options]),
            json.loads(capsys.readouterr().out),
        )
        status, out, err = output(capsys, "check", tmp_path / "out", "-f", "json", *options)
        assert err == ""
        found = json.loads(out)
        for one in (*found, *expected[1]):  # a pipeline numbers rows in its own way
            for case in (one, *one["cases"]):
                case["message"] = re.sub(r"\brow \d+", "row", case["message"])
                case["over_row"] = case["over_row"] is not None
                del case["rows"]
        assert (status, found) == expected
    main(["check", str(sample)])
    heading = capsys.readouterr().out.splitlines()[0]
    status, out, _ = output(capsys, "check", tmp_path / "out")
    assert (status, out.splitlines()[0]) == (1, heading)


def test_check_of_captures_without_a_message_has_nothing_to_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(tmp_path / "out", builders.capture(tmp_path / "silent.pcap"))
    status, out, err = output(capsys, "check", tmp_path / "out", "--fail-on", "never")
    assert (status, out.splitlines()[0]) == (2, "nothing was checked")
    (line,) = err.splitlines()
    assert line.startswith(f"dcpinspect: nothing was checked: {tmp_path}/out has captures")
    assert "--port" in line


def test_check_of_tables_of_another_build_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(out := tmp_path / "out", SAMPLES / "rollback.pcap")
    replace(Manifest.newest(out), program="0.0 other").commit()
    status, printed, err = output(capsys, "check", out)
    assert (status, printed, err.count("\n")) == (2, "", 1)
    assert err.startswith(
        f"dcpinspect: {out}: was written by another build of dcpinspect (0.0 other; this is "
        f"{program()}); write 'dcp"
    )
    found = re.search(r"'dcpinspect pipeline (sql .*) \"(.*)\"' shows what was found then$", err)
    assert found is not None
    status, printed, err = output(capsys, *found[1].split(), found[2], "-f", "ndjson")
    assert (status, err) == (0, "")
    assert "rollback" in {json.loads(line)["rule"] for line in printed.splitlines()}
    assert ran(out, SAMPLES / "rollback.pcap").captures == 0
    assert output(capsys, "check", out, "--fail-on", "never")[0] == 0


def test_info_says_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(tmp_path / "out", SAMPLES / "tour.pcapng")
    status, out, err = output(capsys, "info", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "captures: 1 ok" in out
    assert re.search(r"rows of tables: connections \d+, .*\bcaptures 1, bad 0, ", out)
    assert not re.search(r"\d\.\d{9}Z|\d{2}T\d{2}:", out), "times as people read them"
    status, out, err = output(capsys, "info", tmp_path / "out", "--json")
    assert json.loads(out)["schema"] == "dcpinspect.pipeline_info/1"


@pytest.mark.slow
@pytest.mark.spark
def test_what_could_not_be_read_makes_the_status_3(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    shutil.copy(SAMPLES / "rollback.pcap", tmp_path / "a.pcap")
    (tmp_path / "b\x1b.pcap").write_bytes(b"garbage")
    status, out, err = output(capsys, "run", tmp_path, "-o", tmp_path / "out")
    assert status == 3
    advice = "it is left out: take it away, or put a pcap or pcapng file in its place"
    assert err == (
        f"dcpinspect: {tmp_path}/b\\x1b.pcap: is not a capture (begins with 67 61 72 62); "
        f"{advice}\n"
    )
    assert "1 capture could not be read\n" in out
    status, out, _ = output(capsys, "check", tmp_path / "out", "--fail-on", "never")
    assert (status, "1 file could not be read" in " ".join(out.split("\n\n")[0].split())) == (
        3,
        True,
    )
    assert re.search(r"row \d{8}", out) is None, "rows by packets mean nothing to people"
    status, out, err = output(
        capsys, "run", tmp_path, "-o", tmp_path / "other", "--on-error", "fail"
    )
    assert (status, out) == (2, "")
    assert (
        "is not a capture (begins with 67 61 72 62); take it away, or leave out --on-error fail"
        in err
    )
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "gone", "-o", "out"], "gone: is missing"),
        (["run", ".", "-o", "out"], ".: has no captures in it"),
        (["run", "a.pcap", "-o", "out", "--conf", "x"], "--conf x: write KEY=VALUE"),
        (
            ["run", "a.pcap", "-o", "out", "--capture-point", "interface"],
            "--capture-point interface: files belong together",
        ),
        (["run", "a.pcap", "-o", "a.pcap"], "a.pcap: is a file; name a directory"),
        (
            ["run", "a.pcap", "-o", "ftp://node/x"],
            "ftp://node/x: tables are written at paths, and by URIs of s3, ",
        ),
        (
            ["run", "ftp://node/a.pcap", "-o", "out"],
            "ftp://node/a.pcap: captures are read at paths, and by URIs of s3, ",
        ),
        (
            ["sql", "ftp://node/x", "select 1"],
            "ftp://node/x: tables are read at paths, and by URIs of s3, ",
        ),
        (["check", "."], ".: no pipeline has written here"),
        (["info", "gone"], "gone: no pipeline has written here"),
        (["check", ".", "--rule", "nothing"], "--rule nothing: no rule has this name"),
        (
            ["run", "a.pcap", "-o", "out", "--redact", "--salt-file", "out/salt"],
            "/out/salt: who reads ",
        ),
        (
            ["run", "a.pcap", "-o", "out", "--redact", "--salt-file", "a.pcap"],
            "/a.pcap: has less than 16 bytes",
        ),
        (["run", "a.pcap", "-o", "out", "--salt-file", "salt"], "--salt-file salt: "),
        (["run", "a.pcap", "-o", ""], "-o: names nothing"),
        (
            ["run", "a.pcap", "-o", "/a%20b/out"],
            "/a%20b/out: no table can be in a directory with %XX, a backslash",
        ),
        (
            ["run", "a.pcap", "-o", "out\x1b[31m\n"],
            "out\\x1b[31m\\x0a: no table can be in a directory with such characters",
        ),
        ([], "a command is missing"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if "a.pcap" in arguments:
        (tmp_path / "a.pcap").write_bytes(b"")
    status, out, err = output(capsys, *arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"a.pcap"}


def test_hdfs_without_hadoop_is_one_line_that_says_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    status, out, err = output(capsys, "run", "hdfs://node/a", "-o", tmp_path / "out")
    what = r"HDFS takes Java and Hadoop on this machine, and lib(jvm|hdfs) cannot be loaded"
    to_do = "set JAVA_HOME, HADOOP_HOME, and CLASSPATH to what 'hadoop classpath --glob' prints"
    assert (status, out) == (2, "")
    assert re.fullmatch(f"dcpinspect: hdfs://node/a: {what}; {to_do}\n", err)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def in_storage(server: socket.socket, tmp_path: Path) -> subprocess.Popen[str]:
    host, port = server.getsockname()
    found = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        "s3a://nothing/a",
        "-o",
        str(tmp_path / "out"),
    ]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, process_group=0, env={**os.environ, **found}
    )


@pytest.mark.slow
def test_storage_that_does_not_answer_is_one_line_soon(
    silent: socket.socket, tmp_path: Path
) -> None:
    with in_storage(silent, tmp_path) as process:
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("\n")) == (2, 1)
    assert err.startswith(
        f"dcpinspect: s3a://nothing/a: storage at http://127.0.0.1:{silent.getsockname()[1]} "
        "does not answer ("
    )
    assert err.endswith("); check the name, the network, and AWS_ENDPOINT_URL\n")
    assert asked(silent) == 2, "it is asked once more, and not ten times"
    assert not (tmp_path / "out").exists()


def test_ctrl_c_does_not_wait_for_storage(silent: socket.socket, tmp_path: Path) -> None:
    with in_storage(silent, tmp_path) as process, silent.accept()[0]:  # it has asked
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130
    assert asked(silent) == 0, "nor asks again"


def asked(server: socket.socket) -> int:
    """How often a server was asked that nobody has seen."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count


def test_no_java_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dcpinspect",
            "pipeline",
            "run",
            str(SAMPLES / "tour.pcapng"),
            "-o",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"dcpinspect: JAVA_HOME is {tmp_path}, which has no bin/java; correct it, or unset it\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--master", "foo"],
            (
                "--master foo: Spark knows no such master; write local[*], spark://HOST:7077, "
                "yarn, k8s://https://HOST:PORT or sc://HOST:15002"
            ),
        ),
        (
            ["--master", "local[x]"],
            "--master local[x]: Spark knows no such master; write local[*], ",
        ),
        (
            ["--master", "sc://127.0.0.1:1"],
            (
                "Spark does not start: sc://127.0.0.1:1 does not answer ([Errno 111] Connection "
                "refused)\n"
            ),
        ),
        (
            ["--master", "sc://127.0.0.1:x"],
            "Spark does not start: sc://127.0.0.1:x does not answer (",
        ),
        (
            ["--master", "spark://127.0.0.1:1,127.0.0.1:2"],
            (
                "Spark does not start: spark://127.0.0.1:1,127.0.0.1:2 does not answer ([Errno "
                "111] Connection refused)\n"
            ),
        ),
        (
            ["--conf", "spark.driver.memory=foo"],
            "Spark does not start: Invalid maximum heap size: -Xmxfoo; DCPINSPECT_SPARK_LOG=1 ",
        ),
    ],
)
def test_settings_with_which_spark_does_not_start_are_one_line(
    options: list[str], says: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        str(SAMPLES / "rollback.pcap"),
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"dcpinspect: {says}")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_start_of_spark_at_once_and_no_folder_of_pyspark_stays(
    number: int, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        str(SAMPLES / "rollback.pcap"),
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, process_group=0, env=environment
    ) as process:
        started: list[psutil.Process] = []
        deadline = time.monotonic() + 120
        while (
            not any("org.apache.spark.deploy.SparkSubmit" in command_of(one) for one in started)
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)
            started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (
        128 + number,
        f"dcpinspect: interrupted; {tmp_path / 'out'} is as it was before this run\n",
    )
    assert started
    assert not [one for one in psutil.wait_procs(started, timeout=2)[1] if is_running(one)]
    assert list(tmp_path.rglob("*")) == [tmp_path / "tmp"]


def is_running(process: psutil.Process) -> bool:
    """Whether it does anything; one that has ended may wait for the system to take note of it."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def command_of(process: psutil.Process) -> str:
    """Its command line; empty where it is over."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.slow
@pytest.mark.spark
def test_executors_of_their_own_get_the_package_shipped(tmp_path: Path) -> None:
    """Their Python has the libraries, and no dcpinspect but that of the archive. What Spark tells
    of the run has no secret of TLS.
    """
    (tls := Forged(tmp_path / "tls")).send(1, builders.mutation(1))
    keys = (recorded := tls.finish()).keylog.rename(tmp_path / "keys.log")
    (events := tmp_path / "events").mkdir()
    package = Path(shutil.make_archive(str(tmp_path / "dcpinspect"), "zip", ROOT, "dcpinspect"))
    libraries = Path(pyspark_folder()).parent
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )  # -S: nor what is installed for editing
    python.chmod(0o755)
    lacks = subprocess.run(
        [python, "-c", "import dcpinspect"],
        capture_output=True,
        cwd=tmp_path,
        check=False,
        text=True,
    )
    assert "No module named 'dcpinspect'" in lacks.stderr
    settings = {
        "spark.files": package,
        "spark.submit.pyFiles": package,
        "spark.executor.cores": 1,
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": events,
    }
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        str(SAMPLES / "tour.pcapng"),
        "-o",
        str(tmp_path / "out"),
    ]
    command += [str(recorded.path), "--keylog", f"tls={keys}"]
    command += [
        "--master",
        "local-cluster[2,1,1024]",
        "--json",
        *(f"--conf={name}={value}" for name, value in settings.items()),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYSPARK_PYTHON": str(python),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),  # where it is the first session of Spark
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    captures = SAMPLES / "tour.pcapng", recorded.path
    equal(stored(tmp_path / "out", cut=False), told(*captures, cut=False, keys=KeyLog([str(keys)])))
    told_by_spark = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
    assert b"SparkListenerJobEnd" in told_by_spark
    assert not [
        line
        for line in keys.read_text().splitlines()
        if line[0] != "#" and line.split()[-1].encode() in told_by_spark
    ]


def pyspark_folder() -> str:
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return os.path.dirname(found.origin)


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_ends_a_run_and_leaves_what_was_there(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "rollback.pcap")
    before = stored(tmp_path / "out", cut=True)
    files = [
        shutil.copy(SAMPLES / "tour.pcapng", tmp_path / f"{number}.pcapng") for number in range(3)
    ]
    for number, file in enumerate(files):
        Path(file).write_bytes(Path(file).read_bytes()[: -number - 1])  # none is a copy of another
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "pipeline",
        "run",
        str(tmp_path),
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        deadline = time.monotonic() + 120
        while (
            not list((tmp_path / "out" / "raw").glob("batch=2*"))
            and time.monotonic() < deadline
            and process.poll() is None
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    done_again = "is as it was before this run"
    assert (process.returncode, err) == (
        130,
        f"dcpinspect: interrupted; {tmp_path / 'out'} {done_again}\n",
    )
    equal(stored(tmp_path / "out", cut=True), before)
    assert ran(tmp_path / "out", tmp_path).captures == 3


COUNTS = (
    "select name, count(*) n, max(by_seqno) top from messages where vbucket = 417 and "
    "connection = 2 group by name order by n desc, name"
)
Sql = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pipeline") / "out"
    ran(folder, SAMPLES / "tour.pcapng")
    return str(folder)


@pytest.fixture
def sql(capsysbinary: pytest.CaptureFixture[bytes], out: str) -> Sql:
    """Exit status, what is printed and what is complained of."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["pipeline", "sql", out, *arguments])
        printed = capsysbinary.readouterr()
        return status, printed.out.decode(), printed.err.decode()

    return run


def test_the_answer_is_that_of_sql(
    sql: Sql, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    status, printed, complaint = sql(COUNTS)
    assert (status, complaint) == (0, "")
    assert main(["sql", str(SAMPLES / "tour.pcapng"), COUNTS]) == 0
    assert printed == capsysbinary.readouterr().out.decode()
    assert sql(COUNTS, "-o", str(tmp_path / "x.parquet")) == (0, "", "")
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist()[0] == {
        "name": "dcp_mutation",
        "n": 14,
        "top": 28,
    }


def test_a_filter_narrows_the_messages(sql: Sql) -> None:
    status, printed, _ = sql(
        "select distinct name from messages",
        "--filter",
        "@rollbacks",
        "-f",
        "ndjson",
    )
    assert (status, [json.loads(line) for line in printed.splitlines()]) == (
        0,
        [{"name": "dcp_stream_req"}],
    )
    status, _, complaint = sql("select 1", "--filter", "vbuket = 1")
    assert (status, complaint.splitlines()[0]) == (
        2,
        (
            "dcpinspect: --filter: no column is called vbuket; did you mean vbucket or "
            "vbucket_uuid or vbucket_from?"
        ),
    )
    status, _, complaint = sql("select 1", "--filter", "relative_ns > 5")
    assert (status, complaint[:90]) == (
        2,
        (
            "dcpinspect: filter: the tables of Spark and of pipelines have no column relative_ns; "
            "a cap"
        ),
    )


def test_a_plan_is_lines(sql: Sql) -> None:
    status, printed, complaint = sql("explain select name from messages")
    assert (status, complaint) == (0, "")
    assert len(printed.splitlines()) > 5
    assert "\\x0a" not in printed


def test_a_mistake_is_a_line_and_a_place(sql: Sql) -> None:
    status, printed, complaint = sql("select nam from messages")
    assert (status, printed) == (2, "")
    first, *place = complaint.splitlines()
    assert first.startswith('dcpinspect: query: Referenced column "nam" not found')
    assert place == ["  select nam from messages", "         ^"]


def test_two_columns_of_one_name(sql: Sql) -> None:
    assert sql("select 1 a, 2 a", "-f", "csv") == (0, '"a","a"\n1,2\n', "")
    assert (
        sql("select 1 a, 2 a", "-f", "json")[2]
        == "dcpinspect: --format json: two columns are called a; give one of them another name\n"
    )


def test_neither_spark_nor_java_is_needed(out: str) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from dcpinspect.cli.main import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "pipeline",
        "sql",
        out,
        "select count(*) n from messages",
        "-f",
        "csv",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": "/nosuch"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, '"n"\n450\n', "")


def test_what_no_pipeline_wrote(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    assert main(["pipeline", "sql", str(tmp_path), "select 1"]) == 2
    assert b"no pipeline has written here" in capsysbinary.readouterr().err


SAMPLE = Path(__file__).parents[2] / "sample_captures" / "rollback.pcap"


def test_captures_of_years_ago_leave_without_spark(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    ran(tmp_path / "out", SAMPLE)
    assert main(["pipeline", "expire", out, "--older", "30000d"]) == 0
    assert capfd.readouterr().out.startswith("nothing has changed\n")
    assert main(["pipeline", "expire", out, "--older", "1d"]) == 0
    printed = capfd.readouterr().out
    assert printed.startswith(
        "1 capture taken out because of their age\nrows of tables: connections 0, "
    )
    assert printed.endswith(f"tables in {out}, run 2\n")
    assert main(["pipeline", "expire", out, "--older", "1d", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["expired"] == 0
    assert Manifest.newest(out).number == 2
    assert main(["pipeline", "check", out]) == 2
    complaint = (
        f"dcpinspect: nothing was checked: all captures of {out} are expired; run the "
        "pipeline with newer ones\n"
    )
    assert capfd.readouterr() == ("nothing was checked\n", complaint)


def test_an_age_that_is_none_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for age in ("soon", "30"):  # 30 seconds would be all captures
        assert main(["pipeline", "expire", str(tmp_path), "--older", age]) == 2
        assert (
            capfd.readouterr().err
            == f"dcpinspect: --older {age}: write a length of time, as in 30d or 12h\n"
        )
    assert main(["pipeline", "expire", str(tmp_path), "--older", "1d"]) == 2
    assert "no pipeline has written here" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["info", "report"])
def test_a_damaged_table_is_named_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["pipeline", "run", str(SAMPLES / "rollback.pcap"), "-o", str(out)]) == 0
    for path in (out / "vbuckets").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    capsys.readouterr()
    result = [] if command == "info" else ["-o", str(tmp_path / "r.md")]
    assert main(["pipeline", command, str(out), *result]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"dcpinspect: {out}: cannot be read (")
    assert not (tmp_path / "r.md").exists()
