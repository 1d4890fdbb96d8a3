from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, cast

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark import spark_session as sessions
from dcpinspect.spark.spark_session import check_installed, feature_release, java_program
from dcpinspect.spark.task_runner import SparkRunner
from tests.spark.cluster import cluster_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023', 21),
        ("Unable to locate a Java Runtime", None),
        ("", None),
    ],
)
def test_the_version_of_java_is_found_in_what_it_prints(text: str, release: int | None) -> None:
    assert feature_release(text) == release


def java(folder: Path, prints: str) -> None:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    path.chmod(0o755)


def test_a_java_that_is_too_old_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        UsageError,
        match=r"Spark needs Java 17 or newer, and .*/bin/java is Java 11; install a headless JRE",
    ):
        check_installed()


def test_a_java_that_says_nothing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "what \x1b do you want")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"does not say its version \(what \\x1b do you want\)"):
        check_installed()


def test_no_java_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_program() is None
    with pytest.raises(
        UsageError, match="Spark needs Java 17 or newer, and there is none; install"
    ):
        check_installed()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # which has none
    with pytest.raises(
        UsageError, match=r"JAVA_HOME is .* which has no bin.java; correct it, or unset it"
    ):
        check_installed()


def test_a_folder_of_spark_without_spark_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(
        UsageError, match=r"SPARK_HOME is .* which has no bin.spark-submit; correct it, or unset it"
    ):
        check_installed()


def test_no_pyspark_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyspark" else name
    )
    with pytest.raises(
        UsageError, match=r"the pipeline needs pyspark; install dcpinspect\[spark\]"
    ):
        check_installed()


@pytest.mark.spark
def test_a_session_that_runs_is_used_and_stays(spark: SparkSession) -> None:
    with sessions.session() as found:
        assert found is spark
        assert sessions.processors(found) == 2
    assert found.range(3).count() == 3


@pytest.mark.spark
def test_what_a_task_raises_is_one_line(spark: SparkSession) -> None:
    def fail(item: int) -> int:
        raise OSError(28, "No space left on device", f"/out/{item}")

    with pytest.raises(
        sessions.SparkFailedError,
        match=r"a job of Spark failed: .*No space left on device.*; free some where the output is",
    ) as raised:
        SparkRunner(spark, lambda *_: None).map("failing", fail, [1], [1])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("said", ["IOException: Stream closed", "EOFException"])
def test_of_a_process_that_was_killed_it_is_said_what_to_do(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Py4JError(Exception):
        __module__ = "py4j.protocol"

    def job() -> None:
        raise Py4JError(f"An error occurred\nCaused by: java.io.{said}")

    monkeypatch.setattr(sessions, "_poll", lambda *_: None)
    monkeypatch.setattr(sessions, "cancel", lambda _: None)
    monkeypatch.setattr(sessions, "_has_java_ended", lambda _: False)
    with pytest.raises(
        sessions.SparkFailedError, match=rf"{said}; something killed a Python of Spark, .*run again"
    ):
        sessions.watched(cast("SparkSession", None), job, lambda *_: None)


def test_a_failure_to_start_python_names_what_that_python_said() -> None:
    said = (
        "An error occurred while calling o84.getResult.\n"
        ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
        "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Lost "
        "task 0.0: org.apache.spark.SparkException: \n"
        "Error from python worker:\n  /venv/bin/python: No module named pyspark.daemon; "
        "'pyspark' is not a package\n"
        "PYTHONPATH was:\n  /mine\n"
        "Caused by: org.apache.spark.SparkException: \n"
    )
    assert (
        sessions._cause(RuntimeError(said))
        == "/venv/bin/python: No module named pyspark.daemon; 'pyspark' is not a package"
    )


@pytest.mark.slow
@pytest.mark.spark
def test_java_that_is_killed_is_one_line() -> None:
    """A process of its own, whose Java is killed while a task runs."""
    script = """
        import os, signal, sys, time
        from dcpinspect.errors import DcpInspectError
        from dcpinspect.spark.task_runner import spark_tasks
        def kill(java):
            os.kill(java, signal.SIGKILL)
            time.sleep(60)
        try:
            with spark_tasks("local[1]", {}) as tasks:
                from pyspark import SparkContext
                tasks.map("waiting", kill, [SparkContext._gateway.proc.pid], [1])
        except DcpInspectError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = "Java ended while Spark ran; something killed it, as Linux does if memory is short\n"
    assert (done.stdout, done.stderr) == (told, "")


@pytest.mark.slow
@pytest.mark.spark
def test_a_cluster_without_a_free_core_is_told(tmp_path: Path) -> None:
    script = """
        import os, sys
        from dcpinspect.spark import spark_session
        from dcpinspect.spark.task_runner import spark_tasks
        spark_session.IDLE_S = 1
        def tell(line):
            print(line, flush=True)
            os._exit(0)
        with spark_tasks(sys.argv[1], {}, remark=tell) as tasks:
            tasks.map("waiting", abs, [1], [1])
    """
    with cluster_in(tmp_path, workers=0) as cluster:
        command = [sys.executable, "-c", dedent(script), cluster.master]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("no executor has taken a task yet: ")
