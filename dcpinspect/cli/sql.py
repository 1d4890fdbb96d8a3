"""``dcpinspect sql``: runs a query in DuckDB's SQL over the tables of captures."""

from __future__ import annotations

import os
import sys

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.remarks import remarks
from dcpinspect.errors import UsageError
from dcpinspect.text import clip, escape

MAX_QUERY = 1 << 20
"""Greatest size of a query from standard input, in bytes."""
_SHOWN = 60
"""Number of columns of an argument that an error repeats."""


def sql(
    context: typer.Context,
    arguments: list[str],
    times: options.Times,
    result: options.Output,
    redaction: options.Redaction,
    input_: options.Input,
    log: list[str] | None = None,
) -> int:
    """Run a query in DuckDB's SQL over captures. "show tables" lists the tables of messages,
    streams, findings and more.

    Options:
    arguments CAPTURE… "QUERY": Capture files, read as one in order of time, and last the query.
        - is standard input, for a capture or for the query.
    --log FILE: Also have what 'dcpinspect log' reads of this file, as table log_events. May be
        repeated.
    """
    paths, text = _split(arguments)
    format_, port_choice = result.format(context), input_.ports.reading_arguments()
    redactor = redaction.redactor()
    paths = options.with_folders(paths)
    span = times.span(paths)

    # deferred: DuckDB and the decoder, which --help and completion do not need
    from dcpinspect.reading.query import QueriedCaptures, ScannedQuery

    with (
        QueriedCaptures(paths, **port_choice, redactor=redactor, span=span) as captures,
        ScannedQuery(text, captures) as query,
        interrupts.ending(captures.source),
        result.target(format_, paths, log or ()) as target,
        progress(
            "reading",
            lambda: captures.source.position,
            captures.source.size,
            wanted=wants_progress(result.output),
        ),
    ):
        if log:
            query.register_events(log)
        rows = query.result()
        format_.write(target, rows.schema, rows)
    if captures.scans:
        return remarks(captures.readings[0], is_whole=captures.is_whole, stats=input_.stats)
    return 0


def _split(arguments: list[str]) -> tuple[list[str], str]:
    """Splits arguments into captures and query. Raises UsageError if the last is no query."""
    *paths, last = arguments
    example = 'as in dcpinspect sql CAPTURE… "select name, count(*) from messages group by name"'
    if not paths:
        missing = (
            "the query is missing: write it last"
            if _may_be_file(last)
            else "the capture is missing: write it before the query"
        )
        raise UsageError(f"{missing}, {example}")
    if last == options.STDIN:
        if options.STDIN in paths:
            raise UsageError(
                "-: standard input is either a capture or the query; put one of them in a file"
            )
        return paths, read_query()
    if _may_be_file(last):
        problem = "is a file" if os.path.exists(last) else "is no query"
        raise UsageError(
            f"{clip(escape(last), _SHOWN)}: {problem}; the query comes last and in quotes, "
            f"{example}"
        )
    return paths, last


def _may_be_file(argument: str) -> bool:
    """Whether an argument may be a file: no query is a single word."""
    return argument == options.STDIN or os.path.exists(argument) or len(argument.split()) == 1


def read_query() -> str:
    """Reads a query from standard input. Raises UsageError for one too long, or not text."""
    raw = sys.stdin.buffer.read(MAX_QUERY + 1)
    if len(raw) > MAX_QUERY:
        raise UsageError(f"-: the query is longer than {MAX_QUERY >> 20} MiB")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"-: the query is not UTF-8 at offset {error.start}") from error
