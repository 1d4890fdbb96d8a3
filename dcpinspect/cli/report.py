"""``dcpinspect report``: writes what was found in captures as one file to hand over."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import STDOUT, opened
from dcpinspect.cli.remarks import remarks
from dcpinspect.errors import UsageError
from dcpinspect.export.formats import TEXT


class ReportFormat(StrEnum):
    """Format of a report."""

    HTML = "html"
    MARKDOWN = "markdown"


ReportFile = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file: .html or .md. Markdown may go to the terminal.")
]
FormatName = Annotated[
    ReportFormat | None, typer.Option("--format", "-f", show_default=False, help="By default, the name of the file chooses it.")
]


def report(
    captures: options.Captures,
    output: ReportFile = None,
    format_name: FormatName = None,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Write what was found as one file that needs nothing else: a page for any browser, or Markdown for a ticket."""
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.reading import Reading
    from dcpinspect.report.contents import of_reading
    from dcpinspect.report.written import written
    from dcpinspect.statistics import Statistics
    from dcpinspect.store.store import Store

    chosen = chosen_format(format_name, output)
    redactor = options.redactor(redact, redact_salt)
    extra_ports, find_ports = options.ports(port)
    with Store() as store, Reading(captures, extra_ports=extra_ports, find_ports=find_ports, keeper=store) as reading:
        reading.check(redactor=redactor)
        statistics = Statistics()
        with opened(output, TEXT, captures) as out:
            for batch in interrupts.batches(reading.capture, store.fill(reading)):
                statistics.feed(batch)
            source = of_reading(reading, store, statistics.charts)
            out.put(written(chosen.value, source))
        return remarks(reading, stats=stats, checks=True)


def chosen_format(asked: ReportFormat | None, output: str | None) -> ReportFormat:
    """Returns the format that is asked for, by option or by the name of the file. Raises UsageError."""
    from dcpinspect.report.written import format_of

    if asked is ReportFormat.HTML and output is None:
        raise UsageError("--format html: name a file with -o, as in -o report.html, or -o - for standard output")
    if asked is not None:
        return asked
    return ReportFormat.MARKDOWN if output is None or output in STDOUT else ReportFormat(format_of(output))
