"""``dcpinspect info``: what is in captures, at a first look."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.remarks import remarks
from dcpinspect.output.export.formats import Painter, ReportFormat


def info(
    context: typer.Context,
    captures: options.Captures,
    result: options.Output,
    redaction: options.Redaction,
    input_: options.Input,
) -> int:
    """Print what is in captures: times, clients and servers, buckets, vbuckets, how complete, and
    what to run next.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.output.overview import overview, overview_records
    from dcpinspect.output.render.info_text import info_lines
    from dcpinspect.reading.reading import Reading

    format_ = result.format(context)
    redactor = redaction.redactor()
    with Reading(captures, **input_.ports.reading_arguments()) as reading:
        reading.track(redactor)
        with result.target(format_, captures) as target:
            for _ in interrupts.batches(reading.capture, reading):
                pass
            facts = overview(reading)

            def lines(paint: Painter) -> Iterator[str]:
                return (
                    paint(line[:10], "bold") + line[10:]
                    for line in info_lines(facts, target.width())
                )

            format_.report(target, ReportFormat(lines, lambda: overview_records(facts)))
        return remarks(reading, stats=input_.stats, advises_elsewhere=True)
