"""``dcpinspect pipeline``: turns directories of captures into tables, with Spark, and reports."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import typer

from dcpinspect.cli import check as checking
from dcpinspect.cli import interrupts, options
from dcpinspect.cli import report as reporting
from dcpinspect.cli.choosing import FindingConditions
from dcpinspect.cli.output import open_output
from dcpinspect.cli.pipeline_watch import Json, NewTables, Out, complain_of, watch
from dcpinspect.cli.progress import StepProgress
from dcpinspect.cli.remarks import UNCHECKED
from dcpinspect.cli.sql import read_query
from dcpinspect.cli.terminal import complain, put_folded
from dcpinspect.errors import CaptureError, DamagedCapture
from dcpinspect.output.export.formats import TEXT
from dcpinspect.text import escape

if TYPE_CHECKING:
    from dcpinspect.spark.pipeline import Summary

os.environ.setdefault("RUST_LOG", "off")  # deltalake writes its warnings between our lines

__all__ = ["check", "expire", "info", "report", "run", "sql", "watch"]


def run(
    captures: list[str],
    tables: NewTables,
    spark: options.SparkSession,
    on_error: Literal["keep", "fail"] = "keep",
    json: Json = False,
) -> int:
    """Read new captures, and write the tables again.

    Options:
    captures CAPTURE…: Capture files, patterns, or directories with captures.
    --on-error: If a capture cannot be read, go on and list it in the table bad, or fail.
    """
    from dcpinspect.spark.manifest import after_signal
    from dcpinspect.spark.pipeline import run as run_pipeline
    from dcpinspect.spark.task_runner import spark_tasks

    selection = tables.run_options(captures, fails=on_error == "fail")
    settings = spark.settings()
    with (
        interrupts.telling(lambda: f"interrupted; {after_signal(tables.output)}"),
        StepProgress() as steps,
    ):
        summary = run_pipeline(
            selection, partial(spark_tasks, spark.master, settings, steps.show, complain)
        )
    print_summary(summary, as_json=json)
    complain_of(summary)
    return 0 if summary.is_whole else DamagedCapture.exit_status


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Prints what a run did."""
    from dcpinspect.output.render.pipeline_text import summary_lines

    if as_json:
        _put_json(summary.record)
    else:
        put_folded(summary_lines(summary.record))


def _put_json(record: Mapping[str, Any]) -> None:
    from dcpinspect.output.export.json_table import plain_json

    sys.stdout.buffer.write(plain_json(dict(record)) + b"\n")


def check(
    context: typer.Context,
    out: Out,
    conditions: FindingConditions,
    result: checking.CheckOutput,
    decryption: options.Decryption,
    salt_file: options.SaltFile = None,
) -> int:
    """Print what is wrong in all captures of a pipeline, worst first, with the messages that show
    it and what to do.
    """
    from dcpinspect.output.render.verdict import is_answer
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.output_reading import compared
    from dcpinspect.spark.outputs import damage, states

    format_ = result.format(context)
    rules = conditions.rules.ids()
    choice = conditions.choosing(context.obj)
    manifest, secrets = Manifest.newest(out).with_salt(salt_file), decryption.secrets()
    if manifest.options.get("decrypted") and not secrets.keylogs:
        complain(
            f"{escape(out)}: was made with --keylog; without it, streams inside TLS are not "
            "compared with each other"
        )
    comparison = compared(manifest, secrets, few=True).merged
    columns = result.names(with_files=len(comparison.files) > 1)
    assert comparison.checker is not None
    checker = comparison.checker.only(rules)
    choice = choice.on_connections(comparison)
    findings = choice.matching(
        checker.findings(comparison.links, comparison.coverage, is_wanted=choice.wants),
        comparison.files,
    )
    has_messages = any(part_of_plan.rows for part_of_plan in manifest.parts)
    lacking = "" if findings else checking.lacks(choice, comparison, comparison.links)
    is_checked = is_answer(findings, has_messages) and not lacking
    paths = [capture.unit.path for capture in manifest.units]
    with result.target(format_, paths, _files(manifest.out)) as file:
        unchecked = "" if is_checked else UNCHECKED
        checked = checking.CheckedCaptures(findings, rules, comparison, damage(manifest), unchecked)
        verdicts = checker.verdicts(comparison.links) if conditions.rules.lint else None
        result.write(file, format_, columns, checked, choice, verdicts)
    if not is_checked:
        if has_messages:
            reason = f"{lacking}; 'dcpinspect pipeline info' lists the clients"
        elif set(states(manifest)) == {"expired"}:
            reason = f"all captures of {escape(out)} are expired; run the pipeline with newer ones"
        else:
            reason = (
                f"{escape(out)} has captures without messages; run the pipeline into a new "
                "directory with --port auto"
            )
        complain(f"{UNCHECKED}: {reason}")
        return CaptureError.exit_status
    if result.fails(findings):
        return checking.FOUND
    return DamagedCapture.exit_status if {"bad", "damaged"}.intersection(states(manifest)) else 0


def report(
    out: Out,
    result: reporting.ReportOutput,
    salt_file: options.SaltFile = None,
) -> int:
    """Write what was found in all captures of a pipeline as one file: a page for any browser, or
    Markdown for a ticket.
    """
    from dcpinspect.output.report.written import written
    from dcpinspect.spark.files import reading_known_file
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.output_reading import compared
    from dcpinspect.spark.pipeline_report import of_pipeline

    report_format = result.format()
    manifest = Manifest.newest(out).with_salt(salt_file)
    paths = [capture.unit.path for capture in manifest.units]
    with open_output(result.output, TEXT, paths, _files(manifest.out)) as file:
        with reading_known_file(out):
            source = of_pipeline(compared(manifest, options.Decryption().secrets()))
            text = written(report_format, source)
        file.write_piece(text)
    return 0


def _files(out: str) -> list[str]:
    """Returns the folders and files of an output: what is made of them is as private as they."""
    return [
        os.path.join(folder, name)
        for folder, _, names in os.walk(out)
        for name in (os.curdir, *names)
    ]


def info(out: Out, json: Json = False) -> int:
    """Print what a pipeline has read, and which tables it has."""
    from dcpinspect.output.render.pipeline_text import info_lines
    from dcpinspect.spark.files import reading_known_file
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.pipeline_info import pipeline_info

    with reading_known_file(out):
        description = pipeline_info(Manifest.newest(out))
    if json:
        _put_json(description)
    else:
        put_folded(info_lines(description))
    return 0


def sql(
    context: typer.Context,
    out: Out,
    query: str,
    result: options.Output,
    filter_: str | None = None,
) -> int:
    """Run a query over the tables of a pipeline, as in "show tables" or "describe streams".

    Options:
    --filter SQL: Only messages for which this is true are in the table messages, as with read
        --filter.
    query "QUERY": The query. - reads it from standard input.
    """
    format_ = result.format(context)
    text = read_query() if query == options.STDIN else query

    # deferred: --help and completion do not need them
    from dcpinspect.spark.duckdb_sql import TableQuery
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.spark_filter import duck_sql

    manifest, condition = Manifest.newest(out), None
    if filter_ is not None:
        condition = duck_sql(filter_, saved=options.saved_filters(context.obj))
    with (
        TableQuery(text, manifest, condition=condition) as query_of_tables,
        result.target(format_, (), _files(manifest.out)) as file,
    ):
        rows = query_of_tables.result()
        format_.write(file, rows.schema, rows)
    return 0


def expire(
    out: Out,
    older: str,
    spark: options.SparkSession,
    decryption: options.Decryption,
    salt_file: options.SaltFile = None,
    json: Json = False,
) -> int:
    """Take old captures out of the tables, with all that only they told. It needs Spark only if
    --master or --conf is given.

    Options:
    --older AGE: Takes out captures whose last packet is older than this, as in 30d or 12h.
    """
    from dcpinspect.spark.manifest import after_signal
    from dcpinspect.spark.pipeline import Options
    from dcpinspect.spark.pipeline import expire as expire_captures
    from dcpinspect.spark.task_runner import TaskRunner, spark_tasks
    from dcpinspect.tables.times import length

    # without a unit, 30 would mean seconds and remove everything
    before_ns = time.time_ns() - length(older, "--older", "30d or 12h", with_unit=True)
    settings = spark.settings()
    run_options = Options((), out, secrets=decryption.secrets(), redacts=None, salt_file=salt_file)
    with interrupts.telling(lambda: f"interrupted; {after_signal(out)}"), StepProgress() as steps:
        is_here = spark.master is None and not settings
        summary = expire_captures(
            run_options,
            before_ns,
            (lambda: nullcontext(TaskRunner(steps.show)))
            if is_here
            else partial(spark_tasks, spark.master, settings, steps.show, complain),
        )
    print_summary(summary, as_json=json)
    return 0
