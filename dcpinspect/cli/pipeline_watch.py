"""``dcpinspect pipeline watch``: updates tables as captures come, and tells findings."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.choices import Choices, as_option
from dcpinspect.cli.metrics import Exposition
from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.teller import AnnouncedFindings, Teller
from dcpinspect.cli.terminal import complain
from dcpinspect.cli.watch import Telling
from dcpinspect.closable import Closable
from dcpinspect.errors import UsageError
from dcpinspect.text import counted, escape

if TYPE_CHECKING:
    from dcpinspect.cli.metrics_server import Exporter
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.output.exposition import Metrics
    from dcpinspect.reading.joining import MergedReading
    from dcpinspect.spark.arrivals import Arrivals
    from dcpinspect.spark.output_reading import RunResults
    from dcpinspect.spark.pipeline import Options, Summary, TasksOf
    from dcpinspect.spark.task_runner import SparkRunner


Out = Annotated[str, as_option("OUT", "The directory that a pipeline wrote.")]
Json = Annotated[bool, as_option("--json", "Print the summary as JSON.")]


class NewTables(Choices):
    """Where the tables are, and how captures become rows of them."""

    title = "The tables"
    words = """
    --output -o OUT: Directory of the tables. What is in it is updated.
    --capture-point dir|stem|name:NAME: How files belong to one capture point. By default, by their
        directory (dir). stem takes the name without its number, and name:NAME takes all files.
    """
    output: str
    redaction: options.OutputRedaction = options.OutputRedaction()
    ports: options.Ports = options.Ports()
    capture_point: str | None = None

    def run_options(self, captures: Sequence[str], **more: Any) -> Options:
        """Returns a run's options over these captures. ``more``: others. Raises UsageError."""
        from dcpinspect.spark.pipeline import Options  # deferred: only a command that runs needs it

        redaction = self.redaction
        return Options(
            captures,
            self.output,
            point_rule=self.capture_point,
            **self.ports.of_pipeline(),
            secrets=self.ports.decryption.secrets(),
            redacts=redaction.redact,
            salt_file=redaction.salt_file,
            **more,
        )


MAX_LINES = 10
"""Number of damaged captures that are listed."""
TRIES = 3
"""Number of failed runs in a row after which the program ends."""


class Waiting(Choices):
    """How often captures are looked for, and when they are read."""

    title = "The captures"
    words = """
    --every TIME: Look for captures each time this has passed.
    --rested TIME: Read a capture that has not changed for this time.
    --growing TIME: Read a capture that changes all the time each time this has passed.
    """
    every: str = "5s"
    rested: str = "5s"
    growing: str = "60s"

    def every_s(self) -> float:
        """Returns after how many seconds to look for captures again. Raises UsageError."""
        from dcpinspect.tables.times import length  # deferred: only a command that runs needs it

        if not (every_ns := length(self.every, "--every")):
            raise UsageError(f"--every {escape(self.every)}: write a length of time above 0")
        return every_ns / 1e9

    def arrivals(self, captures: Sequence[str], output: str) -> Arrivals:
        """Returns what looks for captures. Raises UsageError."""
        from dcpinspect.spark.arrivals import Arrivals
        from dcpinspect.tables.times import length

        rested_s = length(self.rested, "--rested") / 1e9
        growing_s = length(self.growing, "--growing") / 1e9
        return Arrivals(
            captures, without=output, settle_s=rested_s, growing_s=growing_s, tell=complain
        )


def watch(
    context: typer.Context,
    captures: list[str],
    tables: NewTables,
    waiting: Waiting,
    telling: Telling,
    spark: options.SparkSession,
    exposition: Exposition,
) -> int:
    """Read captures as they come, update the tables, and tell findings, until Ctrl-C or SIGTERM.

    Options:
    captures DIR…: Directories that captures come to. Files and patterns are possible, too.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.spark.files import local_path
    from dcpinspect.spark.spark_session import check_installed

    rules, manner, every_s = telling.rules.ids(), telling.manner(), waiting.every_s()
    tables.output = output = local_path(tables.output, "tables of 'pipeline watch' are written")
    arrivals, run_options = waiting.arrivals(captures, output), tables.run_options(())
    notifier, told_before = telling.notifier(context), kept_told(output)
    teller = Teller(StandardOutput(), manner, notifier=notifier, announced=told_before)
    alarms = Alarms(output, teller, told_before, rules)
    check_installed()  # now, and not with the first capture
    complain(
        f"watching {escape(', '.join(captures))} until Ctrl-C; Spark starts with the first "
        "capture that has rested"
    )
    with exposition.exporting() as exporter, _Session(spark.master, spark.settings()) as session:
        runs = _Runs(run_options, alarms, session)
        _watch(runs, arrivals, exporter, notifier, every_s)
    did = f"read {counted(runs.captures, 'capture')} in {counted(runs.count, 'run')}"
    complain(", ".join([f"watched {escape(', '.join(captures))}", did, *teller.summary]))
    return 0


def _watch(
    runs: _Runs,
    arrivals: Arrivals,
    exporter: Exporter | None,
    notifier: Notifier | None,
    every_s: float,
) -> None:
    """Reads captures as they come, and tells findings, until a signal."""
    stopped, alarms = threading.Event(), runs.alarms

    def stop() -> None:
        if runs.is_running and not stopped.is_set():
            notice = "ending once this run is over; Ctrl-C again ends at once"
            # in a thread, because a signal may come while a line is written
            threading.Thread(target=complain, args=(notice,), daemon=True).start()
        stopped.set()

    with interrupts.stopping(stop):
        try:
            while not stopped.is_set():
                if ready := arrivals.ready():
                    # a ring may have removed its oldest file meanwhile
                    there = [path for path in ready if os.path.lexists(path)]
                    if runs.run(there):
                        arrivals.note(ready)
                alarms.announce_when_due()
                if exporter is not None:
                    alarms.serve(exporter)
                if notifier is not None:
                    notifier.pass_time()
                stopped.wait(every_s)
        finally:
            if notifier is not None:
                notifier.close()


class _Runs:
    """The runs of a watch, one after the other."""

    def __init__(self, wanted: Options, alarms: Alarms, session: _Session) -> None:
        """``wanted``: what each run is asked to do, without its captures."""
        self.alarms = alarms
        self._wanted, self._session = wanted, session
        self.is_running = False
        self.count = self.captures = 0
        """How many runs read captures, and how many."""
        self._failed = 0

    def run(self, captures: Sequence[str]) -> bool:
        """Reads captures. Returns whether they were read; if not, they are tried again. Raises
        SparkFailedError if that does not help.
        """
        from dcpinspect.output.render.pipeline_text import watched_line
        from dcpinspect.spark.manifest import after_signal
        from dcpinspect.spark.spark_session import SparkFailedError

        self.is_running = True
        try:
            with interrupts.telling(lambda: f"interrupted; {after_signal(self._wanted.out)}"):
                summary = self.alarms.run(
                    replace(self._wanted, captures=captures), self._session.tasks
                )
        except SparkFailedError as error:
            self._failed += 1
            if self._failed == TRIES:
                raise
            complain(f"{error}; it is tried again in a new session")
            self._session.close()
            return False
        finally:
            self.is_running = False
        self._failed = 0
        if summary.captures:
            self.count, self.captures = self.count + 1, self.captures + summary.captures
            complain(watched_line(summary.record))
        complain_of(summary)
        return True


def complain_of(summary: Summary) -> None:
    """Prints what is wrong with the captures that were read."""
    from dcpinspect.output.render.pipeline_text import of_severity, problem_text

    problems = of_severity(summary.problems, "error", "warning")
    for problem in problems[:MAX_LINES]:
        complain(problem_text(problem))
    if len(problems) > MAX_LINES:
        complain(f"{len(problems) - MAX_LINES} more; the table bad has all")


class _Session(Closable):
    """A session of Spark that starts with the first captures, and again after a failure."""

    def __init__(self, master: str | None, settings: Mapping[str, str]) -> None:
        self._master = master
        self._settings = settings
        self._stack = ExitStack()
        self._tasks: SparkRunner | None = None

    def tasks(self) -> AbstractContextManager[SparkRunner]:
        """Returns the tasks of the session, which stays open."""
        from dcpinspect.spark.task_runner import spark_tasks

        if self._tasks is None:
            complain("starting Spark, which takes some seconds")
            self._tasks = self._stack.enter_context(
                spark_tasks(self._master, self._settings, remark=complain)
            )
        return nullcontext(self._tasks)

    def close(self) -> None:
        """Closes the session."""
        self._tasks = None
        self._stack.close()


class Alarms:
    """Runs the pipeline, and tells findings in all captures so far."""

    def __init__(
        self, out: str, teller: Teller, announced: AnnouncedFindings, rules: Sequence[str]
    ) -> None:
        self._out = out
        self._teller = teller
        self._known = announced
        self._rules = rules
        self._latest: MergedReading | None = None
        """The newest run, with the rules that are asked for."""
        self._metrics: Metrics | None = None
        self._came_ns = 0

    def run(self, wanted: Options, tasks_of: TasksOf) -> Summary:
        """Brings the tables up to date."""
        from dcpinspect.spark.manifest import Manifest
        from dcpinspect.spark.output_reading import compared
        from dcpinspect.spark.pipeline import run

        summary = run(wanted, tasks_of, self._add_results)
        if (
            self._latest is None
        ):  # the tables are up to date, but an earlier program may have ended before it told all findings
            self._add_results(
                compared(
                    Manifest.newest(self._out).with_salt(wanted.salt_file), wanted.secrets, few=True
                )
            )
        return summary

    def _add_results(self, found_in: RunResults) -> None:
        """Takes the results of all captures so far."""
        together = found_in.merged
        assert together.checker is not None
        self._known.names = {
            link.number: f"{link.client} {link.server} {link.first_ns}" for link in together.links
        }
        self._latest = replace(together, checker=together.checker.only(self._rules))
        if self._metrics is not None:
            self._metrics.reading = self._latest
        self._came_ns = time.monotonic_ns()

    def serve(self, exporter: Exporter) -> None:
        """Makes metrics of the results so far, if somebody wants them."""
        if self._metrics is not None:
            exporter.renew_when_due()
        elif self._latest is not None:
            self._metrics = exporter.serve(self._latest)

    def announce_when_due(self) -> None:
        """Tells findings that have been true for long enough.

        Time is that of the captures; while none comes, it continues with the clock.
        """
        if self._latest is None:
            return
        now_ns = (self._latest.last_time_ns or 0) + time.monotonic_ns() - self._came_ns
        before = sum(self._teller.counts.values())
        self._teller.check_when_due(self._latest, now_ns)
        if sum(self._teller.counts.values()) != before:
            keep_told(self._out, self._known)


def kept_told(out: str) -> AnnouncedFindings:
    """Reads which findings earlier programs have told about an output."""

    try:
        return AnnouncedFindings.from_rows(json.loads(_announced_path(out).read_bytes()))
    except FileNotFoundError:
        return AnnouncedFindings()
    except (OSError, ValueError, TypeError) as error:
        complain(
            f"{escape(str(_announced_path(out)))}: cannot be read ({escape(str(error))}); what was told "
            "before may be told again"
        )
        return AnnouncedFindings()


def keep_told(out: str, told_findings: AnnouncedFindings) -> None:
    """Stores which findings were told, beside the manifests of an output."""
    from dcpinspect.output.export.atomic import AtomicFile

    with AtomicFile(str(_announced_path(out))) as file:
        file.write(json.dumps(told_findings.rows()).encode())


def _announced_path(out: str) -> Path:
    from dcpinspect.spark.manifest import FOLDER

    return Path(out) / FOLDER / "told.json"
