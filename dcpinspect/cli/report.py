"""``dcpinspect report``: writes what was found in captures as one file to hand over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.choices import Choices
from dcpinspect.cli.output import STDOUT, open_output
from dcpinspect.cli.remarks import remarks
from dcpinspect.errors import UsageError
from dcpinspect.output.export.formats import TEXT

if TYPE_CHECKING:
    from dcpinspect.output.report.written import ReportFormat


class ReportOutput(Choices):
    """Where a report goes, and in which format."""

    title = "The output"
    words = """
    -o --output FILE: Write to this file: .html or .md. Markdown may go to the terminal.
    format_name --format -f: By default, the name of the file chooses it.
    """
    output: str | None = None
    format_name: Annotated[Literal["html", "markdown", "md"] | None, {"show_default": False}] = None

    def format(self) -> ReportFormat:
        """Returns the format that is asked for, by option or file name. Raises UsageError."""
        from dcpinspect.output.report.written import format_of

        if self.format_name == "html" and self.output is None:
            raise UsageError(
                "--format html: name a file with -o, as in -o report.html, or -o - for "
                "standard output"
            )
        if self.format_name is not None:
            return "html" if self.format_name == "html" else "markdown"
        return (
            "markdown" if self.output is None or self.output in STDOUT else format_of(self.output)
        )


def report(
    captures: options.Captures,
    result: ReportOutput,
    redaction: options.Redaction,
    input_: options.Input,
) -> int:
    """Write what was found as one file that needs nothing else: a page for any browser, or Markdown
    for a ticket.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.output.render.verdict import is_answer
    from dcpinspect.output.report.report_contents import of_reading
    from dcpinspect.output.report.written import written
    from dcpinspect.output.statistics import Statistics
    from dcpinspect.reading.reading import Reading
    from dcpinspect.reading.store.store import Store

    report_format = result.format()
    redactor = redaction.redactor()
    with (
        Store() as store,
        Reading(captures, **input_.ports.reading_arguments(), keeper=store) as reading,
    ):
        reading.check(redactor=redactor)
        statistics = Statistics()
        with open_output(result.output, TEXT, captures) as target:
            for batch in interrupts.batches(reading.capture, store.fill(reading)):
                statistics.feed(batch)
            source = of_reading(reading, store, statistics.charts)
            target.write_piece(written(report_format, source))
        is_answered = is_answer(source.findings, reading.messages)
        return remarks(reading, stats=input_.stats, checks=not is_answered, advises_elsewhere=True)
