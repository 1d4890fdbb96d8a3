"""Finds or starts Spark's session without configuration, watches its jobs, and stops them on
request.

This is the only module that uses ``sparkContext``, which a session over Spark Connect does not
have.
"""

from __future__ import annotations

import errno
import importlib.util
import logging
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from dcpinspect.errors import DcpInspectError, UsageError
from dcpinspect.spark import daemon
from dcpinspect.spark.classes import SharedClasses
from dcpinspect.temporary import at_end, new_folder
from dcpinspect.text import clip, escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Returned = TypeVar("Returned")

OLDEST_JAVA = 17
"""Oldest release of Java that PySpark 4 runs on."""
POLL = 0.5
"""Seconds between two checks of a job's progress."""
ENDING_S = 0.5
"""Seconds that Java gets to end after a request."""
ENDED_S = 0.2
"""Seconds until Java is known to have ended that was killed."""
IDLE_S = 20.0
"""Seconds without a running task after which a remark says that the cluster may lack resources."""
IDLE = (
    "no executor has taken a task yet: the cluster may have no free cores, or less memory than "
    "Spark asks for; the page of its master says which"
)
ANSWER_S = 10
"""Seconds within which a server must accept a connection."""
_PORTS = {"sc": 15_002, "spark": 7077}
"""Default ports of servers of Spark Connect, and of masters of a cluster."""
_SHOWN = 200
_NO_REASON = re.compile(r"WARNING:|Using Spark's|Picked up |\d\d/\d\d/\d\d \S+ (?:INFO|WARN) ")
_RAISED = re.compile(
    r'(?:Caused by: |Exception in thread "main" |: )(?:[\w$]+\.)+([\w$]+(?:Exception|Error): .*)'
)
"""Matches an exception of Java: the last part of its name, and its text."""
_INSTALL = (
    "install a headless JRE (on Debian and Ubuntu the package openjdk-17-jre-headless) or "
    "set JAVA_HOME"
)
_LOOPBACK = "127.0.0.1"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SETTINGS = {"spark.sql.session.timeZone": "UTC"}
"""Settings for any session, which can also be changed while it runs."""
SAFE_PATH = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
"""Setting by which workers import nothing from the current directory, though Spark starts them as
``python -m``.
"""
LOCAL = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.driver.memory": "2g",
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Further settings for a session on this machine."""


class SparkFailedError(DcpInspectError):
    """Spark could not start, or a job of it failed."""


def check_installed() -> str:
    """Returns the text in which Java says its version; empty if Java runs on another machine.

    Raises UsageError, which says what to install, if PySpark, its requirements or a suitable Java
    is missing.
    """
    missing = [name for name in ("pyspark", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the pipeline needs {' and '.join(missing)}; install dcpinspect[spark]")
    if "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        return ""
    for variable, program in (("JAVA_HOME", "bin/java"), ("SPARK_HOME", "bin/spark-submit")):
        home = os.environ.get(variable)
        if home and not os.access(os.path.join(home, program), os.X_OK):
            raise UsageError(
                f"{variable} is {escape(home)}, which has no {program}; correct it, or unset it"
            )
    java = java_program()
    if java is None:
        raise UsageError(f"Spark needs Java {OLDEST_JAVA} or newer, and there is none; {_INSTALL}")
    version, version_text = java_version(java)
    if version is None:
        raise UsageError(
            f"{escape(java)}: does not say its version ({clip(escape(version_text), _SHOWN)}); "
            f"{_INSTALL}"
        )
    if version < OLDEST_JAVA:
        raise UsageError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {escape(java)} is Java {version}; "
            f"{_INSTALL}"
        )
    return version_text


def java_program() -> str | None:
    """Returns the Java that Spark would start: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        return path if os.access(path, os.X_OK) else None
    return shutil.which("java")


def java_version(java: str) -> tuple[int | None, str]:
    """Returns a Java's feature release, None if it did not tell, and all that it printed."""
    try:
        done = subprocess.run(  # noqa: S603
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return feature_release(done.stderr + done.stdout), " ".join((done.stderr + done.stdout).split())


def feature_release(text: str) -> int | None:
    """Returns the feature release in Java's output: ``8`` for Java 1.8, ``17`` for Java 17.0.15."""
    version = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if version is None:
        return None
    return int(version[2] or 0) if version[1] == "1" else int(version[1])


@contextmanager
def session(
    master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yields the running session, or else a new one, which is stopped at the end. A new one runs on
    this machine, unless ``master`` or the platform says otherwise.

    Raises UsageError if Spark cannot run, SparkFailedError if it does not start.
    """
    java_says = check_installed()
    from pyspark import SparkContext  # deferred: takes half a second
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        for name, value in SETTINGS.items():
            running.conf.set(name, value)
        yield running
        return
    conf = dict(conf or {})
    builder = SparkSession.builder.appName("dcpinspect").config(
        map={**SETTINGS, **({} if is_remote(master or "") else SAFE_PATH)}
    )
    is_ours = master is None and "spark.master" not in conf and not _is_submitted()
    is_local = is_ours or (master or conf.get("spark.master", "")).startswith("local")
    if is_local:
        builder = builder.config(map={**_local_settings(conf)})
    _check_answers(master or conf.get("spark.master", ""))
    if master is not None and is_remote(master):
        builder = builder.remote(master)
    elif is_ours or master is not None:
        builder = builder.master(master or "local[*]")
    starts_java = (
        SparkContext._gateway is None and not _is_submitted() and not is_remote(master or "")
    )
    classes = SharedClasses(java_says if starts_java else "", conf.get(_JAVA_OPTIONS, ""))
    if classes.options:
        conf[_JAVA_OPTIONS] = classes.options
    folder = new_folder()  # stays as long as this process: so does Java
    if is_local:
        if starts_java:
            conf[_JAVA_OPTIONS] = f'-Djava.io.tmpdir="{folder}" {conf.get(_JAVA_OPTIONS, "")}'
        # otherwise Spark makes this folder in the current directory
        builder = builder.config("spark.sql.warehouse.dir", folder)
    with classes.session_context(_end_java):
        with _Java(folder) as java:
            try:
                spark_session = aside(builder.config(map={**conf}).getOrCreate, java.end)
            except Exception as error:
                raise _failure(
                    java.reason(error), master or conf.get("spark.master", "")
                ) from error
        try:
            if is_local:
                aside(lambda: spark_session.sparkContext.setLogLevel("ERROR"), lambda: None)
            if starts_java:
                _quiet(spark_session)
            yield spark_session
        finally:
            with suppress(Exception):  # an interrupted gateway may be gone
                aside(lambda: _stop(spark_session), lambda: None)


def _local_settings(conf: dict[str, str]) -> dict[str, str]:
    """Returns the settings of a session on this machine, and sets its environment. ``conf``: those
    of the user, of which the path of Python becomes a part of ours.
    """
    for name, value in (("PYSPARK_PYTHON", sys.executable), ("SPARK_LOCAL_IP", _LOOPBACK)):
        os.environ.setdefault(name, value)
    settings = {**LOCAL, "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
    if os.environ["PYSPARK_PYTHON"] == sys.executable and "spark.pyspark.python" not in conf:
        python_path = conf.pop(daemon.PYTHON_PATH, os.environ.get("PYTHONPATH", ""))
        settings.update(daemon.settings(python_path))
    return settings


def is_remote(master: str) -> bool:
    """Whether this is a server of Spark Connect, which accepts only settings of SQL from us."""
    return master.startswith("sc://")


def _check_answers(master: str) -> None:
    """Raises SparkFailedError if no server accepts connections: Spark itself tries for a minute,
    and its client for ten. ``master``: if empty, the server that SPARK_REMOTE names.

    Raises UsageError if the client of Spark Connect is not installed, or if the two contradict each
    other.
    """
    variable = os.environ.get("SPARK_REMOTE", "")
    if master and variable and master != variable:
        raise UsageError(
            f"--master {escape(master)}: SPARK_REMOTE is {escape(variable)}; unset it, or leave "
            "out --master"
        )
    master = master or variable
    scheme, _, addresses = master.partition("://")
    if scheme not in _PORTS:
        return
    refused: Exception | None = None
    # a cluster can have several masters, and only one need work
    for address in addresses.split(","):
        try:
            where = urlsplit(f"//{address}")
            socket.create_connection(
                (where.hostname or "", where.port or _PORTS[scheme]), ANSWER_S
            ).close()
            break
        except (OSError, ValueError) as error:
            refused = error
    else:
        raise SparkFailedError(
            f"Spark does not start: {escape(master)} does not answer ({escape(str(refused))})"
        ) from refused
    if is_remote(master) and importlib.util.find_spec("grpc") is None:
        raise UsageError(
            f"--master {escape(master)}: takes the client of Spark Connect; install "
            "pyspark[connect] beside dcpinspect"
        )


def _end_java() -> subprocess.Popen[bytes]:
    """Tells Java to end, after its last session has ended."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None  # so that the next session starts another Java
    gateway.shutdown()
    gateway.proc.stdin.close()
    java: subprocess.Popen[bytes] = gateway.proc
    return java


def _stop(spark: SparkSession) -> None:
    """Stops a session, and does not wait for PySpark's server of accumulators: it sees only once a
    second that it is to end.
    """
    if (
        not _is_remote(spark)
        and (server := getattr(spark.sparkContext, "_accumulatorServer", None)) is not None
    ):
        server.shutdown = threading.Thread(target=server.shutdown, daemon=True).start
    spark.stop()


def _is_submitted() -> bool:
    """Whether spark-submit or a platform has said where to run."""
    return any(
        name in os.environ
        for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "MASTER", "DATABRICKS_RUNTIME_VERSION")
    )


class _Java:
    """The Java process that PySpark starts within this context. Its output is kept from the
    terminal, and it can be ended at any time.

    PySpark itself does not show the process before it accepts connections, seconds later. What it
    has in files until then is in ``folder``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def __enter__(self) -> _Java:
        from pyspark import java_gateway

        self._names = vars(java_gateway)
        self._said = None if os.environ.get("DCPINSPECT_SPARK_LOG") else tempfile.TemporaryFile()
        self._names["Popen"] = self._start
        self._before, tempfile.tempdir = tempfile.tempdir, self._folder
        return self

    def __exit__(self, *_: object) -> None:
        self._names["Popen"] = subprocess.Popen
        tempfile.tempdir = self._before
        if self._said is not None:
            self._said.close()

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        at_end(self.end)
        self._process = subprocess.Popen(command, stderr=self._said, **options)  # noqa: S603 - PySpark's own
        if self._is_ended:
            self.end()
        return self._process

    def end(self) -> None:
        """Ends the process, and does not wait for long."""
        from pyspark import SparkContext

        self._is_ended = True
        if (java := self._process) is not None:
            java.terminate()  # Java removes its temporary files when it ends
            with suppress(subprocess.TimeoutExpired):
                java.wait(ENDING_S)
            java.kill()
            java.wait()
            SparkContext._gateway = SparkContext._jvm = (
                None  # so that the next session starts another Java
            )

    def reason(self, error: BaseException) -> str:
        """Returns why Spark did not start, on one line. Java tells it, unless it ended before."""
        text, java_output = str(error), ""
        if self._said is not None:
            self._said.seek(0)
            java_output = self._said.read(1 << 20).decode(errors="replace")
        if matched := re.search(r"Failed to connect to master (\S+)", java_output):
            return f"its master {escape(matched[1])} does not answer"
        if "JAVA_GATEWAY_EXITED" in text:
            text = java_output
        lines = [
            line.strip()
            for line in text.splitlines()
            if line.strip() and not _NO_REASON.match(line)
        ]
        raised = [matched[1] for line in lines if (matched := _RAISED.match(line))]
        return clip(escape((raised[-1:] or lines or [type(error).__name__])[0].rstrip(".")), _SHOWN)


def _failure(reason: str, master: str) -> DcpInspectError:
    if re.search("Master must|Master URL", reason):
        forms = "local[*], spark://HOST:7077, yarn, k8s://https://HOST:PORT or sc://HOST:15002"
        return UsageError(f"--master {escape(master)}: Spark knows no such master; write {forms}")
    return SparkFailedError(
        f"Spark does not start: {reason}; DCPINSPECT_SPARK_LOG=1 in the environment shows all "
        "that Java says"
    )


def processors(spark: SparkSession) -> int:
    """Returns how many tasks can run at the same time, as far as the session tells."""
    try:
        return max(1, aside(lambda: int(spark.sparkContext.defaultParallelism), lambda: None))
    except Exception:  # a session over Spark Connect does not tell
        return os.cpu_count() or 1


def watched(
    spark: SparkSession,
    job: Callable[[], Returned],
    show: Callable[[int, int], None],
    remark: Callable[[str], None] = lambda _: None,
) -> Returned:
    """Runs a job, and meanwhile calls ``show`` from another thread with the number of finished
    tasks and of all tasks.

    ``remark``: called once with a line if no task starts for long.

    An exception cancels the job, also Ctrl-C. Raises SparkFailedError if the job fails.
    """
    ended = threading.Event()
    poller = threading.Thread(target=_poll, args=(spark, show, remark, ended), daemon=True)
    poller.start()
    try:
        return aside(job, lambda: cancel(spark))
    except Exception as error:
        if _has_java_ended(spark):
            raise SparkFailedError(
                "Java ended while Spark ran; something killed it, as Linux does if memory is short"
            ) from error
        if type(error).__module__.startswith(("pyspark", "py4j")):
            cause = _cause(error)
            raise SparkFailedError(f"a job of Spark failed: {cause}{_advice(cause)}") from error
        raise
    finally:
        ended.set()
        poller.join()


def _has_java_ended(spark: SparkSession) -> bool:
    """Whether the Java that this process started has ended, or does so now."""
    from pyspark import SparkContext

    java = None if _is_remote(spark) else getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        java.wait(ENDED_S)
    return java.poll() is not None


def _quiet(spark: SparkSession) -> None:
    """Keeps tracebacks of PySpark's own threads from the terminal: they lose their connection when
    Java is killed.
    """
    if (server := getattr(spark.sparkContext, "_accumulatorServer", None)) is not None:
        server.handle_error = lambda *_: None
    # py4j logs errors that it raises too, and Python prints what nobody handles
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())


def aside(job: Callable[[], Returned], stop: Callable[[], None]) -> Returned:
    """Runs ``job``, which talks to the JVM, in a thread, so that Ctrl-C cannot come between a
    request and its answer; Ctrl-C calls ``stop``.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(job)
        try:
            return coming.result()
        except BaseException:
            if not coming.done():
                stop()
            raise


def cancel(spark: SparkSession) -> None:
    """Stops all jobs of a session."""
    with suppress(Exception):
        spark.interruptAll() if _is_remote(spark) else spark.sparkContext.cancelAllJobs()


def _is_remote(spark: SparkSession) -> bool:
    return not hasattr(spark, "_jsc")


def _poll(
    spark: SparkSession,
    show: Callable[[int, int], None],
    remark: Callable[[str], None],
    ended: threading.Event,
) -> None:
    if _is_remote(spark):
        return
    context = spark.sparkContext
    tracker = context.statusTracker()
    idle_since = math.inf if str(context.master).startswith("local") else time.monotonic()
    while not ended.wait(POLL):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # Java has ended, and the job says so
            return
        done, count = (
            sum(getattr(stage, name) for stage in stages if stage)
            for name in ("numCompletedTasks", "numTasks")
        )
        if count:
            show(done, count)
        if any(stage.numActiveTasks or stage.numCompletedTasks for stage in stages if stage):
            idle_since = math.inf
        elif count and time.monotonic() - idle_since >= IDLE_S:
            remark(IDLE)
            idle_since = math.inf


def _advice(cause: str) -> str:
    if os.strerror(errno.ENOSPC) in cause:
        return "; free some where the output is, and in the temporary folder"
    if re.search("Stream closed|EOFException|exited unexpectedly", cause):
        return (
            "; something killed a Python of Spark, as Linux does if memory is short; give it more, "
            "and run again"
        )
    return ""


def _cause(error: BaseException) -> str:
    """Returns the line of a traceback that says what was wrong in a task; else the last that a
    Python said which did not start, or the deepest cause that Java names.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [
        line
        for line in lines
        if re.match(r"[A-Za-z_.]+(Error|Exception|Exit)\b:? ", line)
        and not line.startswith("org.apache")
    ]
    deepest = [
        line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")
    ][-1:]
    python_errors = re.findall(r"(\S.*)\s*\nPYTHONPATH was:", str(error))
    causes = raised or python_errors or deepest or lines or [type(error).__name__]
    return clip(escape(causes[0]), _SHOWN)
