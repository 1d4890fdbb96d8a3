"""``dcpinspect pipeline``: turns directories of captures into tables, with Spark, and reports on them."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcpinspect.cli import check as checking
from dcpinspect.cli import interrupts, options
from dcpinspect.cli import report as reporting
from dcpinspect.cli.choosing import choosing
from dcpinspect.cli.output import opened
from dcpinspect.cli.pipeline_expire import expire
from dcpinspect.cli.pipeline_sql import sql
from dcpinspect.cli.pipeline_watch import complain_of, watch
from dcpinspect.cli.progress import Steps
from dcpinspect.cli.remarks import UNCHECKED
from dcpinspect.cli.terminal import columns_asked, complain, put_folded
from dcpinspect.errors import CaptureError, DamagedCapture
from dcpinspect.escape import escape
from dcpinspect.export.formats import TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dcpinspect.spark.pipeline import Summary

os.environ.setdefault("RUST_LOG", "off")  # deltalake writes its warnings between our lines

__all__ = ["check", "expire", "info", "report", "run", "sql", "watch"]

Out = Annotated[str, typer.Argument(metavar="OUT", help="The directory that a pipeline wrote.")]


class OnError(StrEnum):
    """What happens to the run when a capture cannot be read."""

    KEEP = "keep"
    FAIL = "fail"


def run(
    captures: Annotated[list[str], typer.Argument(metavar="CAPTURE…", help="Capture files, patterns, or directories with captures.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="Directory of the tables. What is in it is updated.")],
    master: options.SparkMaster = None,
    conf: options.SparkConf = None,
    port: options.Port = None,
    capture_point: options.CapturePoint = None,
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="If a capture cannot be read, go on and list it in the table bad, or fail.")
    ] = OnError.KEEP,
    redact: options.RedactOutput = False,
    salt_file: options.SaltFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> int:
    """Read new captures, and write the tables again."""
    from dcpinspect.spark.manifest import after_signal
    from dcpinspect.spark.pipeline import Options
    from dcpinspect.spark.pipeline import run as run_pipeline
    from dcpinspect.spark.tasks import spark_tasks

    extra_ports, find_ports = (None, None) if port is None else options.ports(port)
    wanted = Options(
        captures,
        output,
        point_rule=capture_point,
        extra_ports=None if extra_ports is None else tuple(extra_ports),
        find_ports=find_ports,
        secrets=options.secrets(),
        fails=on_error is OnError.FAIL,
        redacts=redact,
        salt_file=salt_file,
    )
    settings = options.spark_settings(conf)
    with interrupts.telling(lambda: f"interrupted; {after_signal(output)}"), Steps() as steps:
        summary = run_pipeline(wanted, partial(spark_tasks, master, settings, steps.show, complain))
    print_summary(summary, as_json=json)
    complain_of(summary)
    return 0 if summary.is_whole else DamagedCapture.exit_status


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Prints what a run did."""
    from dcpinspect.render.pipeline import summary_lines

    if as_json:
        _put_json(summary.record)
    else:
        put_folded(summary_lines(summary.record))


def _put_json(record: Mapping[str, Any]) -> None:
    from dcpinspect.export.json_table import plain_json

    sys.stdout.buffer.write(plain_json(dict(record)) + b"\n")


_OF_PACKETS = ("write", "around", "with_secrets", "decrypted")
"""Options of ``check`` that are about packets, which an output does not hand out."""


@options.shared(checking.check, without=("captures", "since", "until", "output", *_OF_PACKETS, "port", "stats", "redact", "redact_salt"))
def check(context: typer.Context, out: Out, output: options.OutputFile = None, salt_file: options.SaltFile = None, **choices: Any) -> int:
    """Print what is wrong in all captures of a pipeline, worst first, with the messages that show it and what to do."""
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.outputs import damage, states
    from dcpinspect.spark.whole import compared

    format_ = checking.chosen_format(context, choices["format_name"], output)
    lint = choices["lint"]
    rules = options.rules_of(choices["rule"], choices["family"], choices["no_rule"], lint=lint)
    choice = choosing(
        choices["vbucket"],
        choices["connection"],
        choices["client"],
        choices["severity"],
        choices["filter_"],
        choices["limit"],
        choices["baseline"],
        context.obj,
    )
    manifest, secrets = Manifest.newest(out).with_salt(salt_file), options.secrets()
    if manifest.options.get("decrypted") and not secrets.keylogs:
        complain(f"{escape(out)}: was made with --keylog; without it, streams inside TLS are not compared with each other")
    found_in = compared(manifest, secrets, few=True).merged
    shown = checking.columns_of(choices["columns"], format_, several=len(found_in.files) > 1)
    assert found_in.checker is not None
    checker = found_in.checker.only(rules)
    found = choice.of(checker.findings(found_in.links, found_in.coverage, wanted=choice.wants), found_in.files)
    has_messages = any(part.rows for part in manifest.parts)
    lacking = "" if found else checking.lacks(choice, found_in, found_in.links)
    is_checked = has_messages and not lacking
    with opened(output, format_, [one.unit.path for one in manifest.units]) as file:
        verdicts = checker.verdicts(found_in.links) if lint else None
        told = checking.report_of(
            found,
            rules,
            found_in.files,
            found_in.links,
            verdicts,
            effects=choices["effects"],
            is_checked=is_checked,
            width=file.width() or columns_asked(),
            reading=found_in,
            nothing=choice.nothing,
            damage=damage(manifest),
        )
        checking.write_report(file, format_, told, shown, guard=choices["csv_guard"])
    if not is_checked:
        if has_messages:
            why = f"{lacking}; 'dcpinspect pipeline info' lists the clients"
        elif set(states(manifest)) == {"expired"}:
            why = f"all captures of {escape(out)} are expired; run the pipeline with newer ones"
        else:
            why = f"{escape(out)} has captures without messages; run the pipeline into a new directory with --port auto"
        complain(f"{UNCHECKED}: {why}")
        return CaptureError.exit_status
    if checking.fails(found, choices["fail_on"]):
        return checking.FOUND
    return DamagedCapture.exit_status if {"bad", "damaged"}.intersection(states(manifest)) else 0


def report(
    out: Out,
    output: reporting.ReportFile = None,
    format_name: reporting.FormatName = None,
    salt_file: options.SaltFile = None,
) -> int:
    """Write what was found in all captures of a pipeline as one file: a page for any browser, or Markdown for a ticket."""
    from dcpinspect.report.written import written
    from dcpinspect.spark.manifest import Manifest
    from dcpinspect.spark.report import of_pipeline
    from dcpinspect.spark.whole import compared

    chosen = reporting.chosen_format(format_name, output)
    manifest = Manifest.newest(out).with_salt(salt_file)
    source = of_pipeline(compared(manifest, options.secrets()))
    with opened(output, TEXT, [one.unit.path for one in manifest.units]) as file:
        file.put(written(chosen.value, source))
    return 0


def info(out: Out, json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> int:
    """Print what a pipeline has read, and which tables it has."""
    from dcpinspect.render.pipeline import info_lines
    from dcpinspect.spark.info import pipeline_info
    from dcpinspect.spark.manifest import Manifest

    found = pipeline_info(Manifest.newest(out))
    if json:
        _put_json(found)
    else:
        put_folded(info_lines(found))
    return 0
