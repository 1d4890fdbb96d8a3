"""``dcpinspect diff``: two readings of the same streams, compared event by event."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.record_tables import (
    Columns,
    Filter,
    Limit,
    Reverse,
    Sort,
    Verbose,
    Width,
    columns_asked_for,
    selection_of,
    sort_of,
    write,
)
from dcpinspect.cli.remarks import no_such_connections, remarks
from dcpinspect.cli.terminal import complain, folded
from dcpinspect.errors import UsageError

if TYPE_CHECKING:
    from dcpinspect.comparison.side import Side

DIFFERENT = 1
"""Exit status if the sides differ."""
STDIN = "-"


def diff(
    context: typer.Context,
    captures: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A B]", help="The two sides: a capture each, or a directory of captures. - is standard input."),
    ] = None,
    a: Annotated[list[str] | None, typer.Option("--a", metavar="FILE", help="A capture of side A, instead of A. May be repeated.")] = None,
    b: Annotated[list[str] | None, typer.Option("--b", metavar="FILE", help="A capture of side B, instead of B. May be repeated.")] = None,
    a_connection: Annotated[
        str | None, typer.Option("--a-connection", metavar="LIST", help="Of side A, only these connections, as in 1,3-4.")
    ] = None,
    b_connection: Annotated[str | None, typer.Option("--b-connection", metavar="LIST", help="The same of side B.")] = None,
    vbucket: options.VBuckets = None,
    filter_: Filter = None,
    columns: Columns = None,
    sort: Sort = None,
    reverse: Reverse = False,
    limit: Limit = None,
    paths: Annotated[
        bool, typer.Option("--paths", help="Print how packets of the same connection went from one capture's place to the other's.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="For text, print the summary only.")] = False,
    verbose: Verbose = False,
    width: Width = None,
    format_name: options.OutputFormat = None,
    output: options.OutputFile = None,
    csv_guard: options.CsvGuard = True,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Compare two readings of the same streams: which events only one side has, why, and which differ. Exit status 1 if they differ."""
    # deferred: DuckDB and the decoder, which --help and completion do not need
    from dcpinspect.comparison import contracts
    from dcpinspect.comparison.contracts import SIDES
    from dcpinspect.comparison.differences import Comparison
    from dcpinspect.comparison.paths import paths as paths_of
    from dcpinspect.comparison.side import Side
    from dcpinspect.reading import Reading
    from dcpinspect.render import differences as render
    from dcpinspect.store.spool import Spool
    from dcpinspect.tables.select import Selection, number_ranges

    sides = _sides(captures, a, b)
    format_ = choose_format(format_name, output)
    options.refuse_unused(context, format_)
    name, table = ("paths", contracts.PATHS) if paths else ("differences", contracts.DIFFERENCES)
    selection = selection_of(table, vbucket, None, filter_, context.obj)
    selection = replace(selection, sort=sort_of(sort, name, table), is_reversed=reverse)
    chosen = columns_asked_for(columns, name, table)
    redactor = options.redactor(redact, redact_salt)
    extra_ports, find_ports = options.ports(port)
    connections = [
        number_ranges(text, option, most=(1 << 31) - 1) if text is not None else ()
        for text, option in ((a_connection, "--a-connection"), (b_connection, "--b-connection"))
    ]
    with (
        closing(Spool()) as spool,
        Comparison(spool) as comparison,
        opened(output, format_, [*sides[0], *sides[1]]) as out,
    ):
        read = []
        for letter, files, wanted in zip(SIDES, sides, connections, strict=True):
            side = Side(letter, Reading(files, extra_ports=extra_ports, find_ports=find_ports), spool)
            side.reading.track(redactor)
            capture = side.reading.capture
            bar = progress(f"reading {letter.upper()}", partial(getattr, capture, "position"), capture.size, wanted=wants_progress(output))
            with bar, interrupts.ending(capture):
                side.read(Selection(vbuckets=tuple(selection.vbuckets), connections=wanted))
            read.append(side)
        _refuse_nothing(read, connections)
        found = comparison.found(read[0], read[1])
        ways = paths_of(read[0], read[1])
        records = selection.of(ways if paths else found.records())
        shown = records if limit is None else records.head(limit)
        if format_.is_text:
            names = [", ".join(map(os.path.basename, side.files)) for side in read]
            told = render.summary(found, ways.records(), names, out.painter())
            out.put("".join(f"{part}\n" for line in told for part in folded(line, width or out.width())))
            if len(shown) and not summary:
                out.put("\n")
                write(out, shown, name, chosen, width=width or out.width(), verbose=verbose)
        else:
            format_.records(out, shown, chosen, guard=csv_guard)
    statuses = [remarks(side.reading, stats=stats, side=side.name.upper()) for side in read]
    if found.is_different:
        return DIFFERENT
    if found.why_nothing and not len(ways):
        if not format_.is_text:  # text has this as its verdict
            complain(f"nothing could be compared: {found.why_nothing}")
        return UsageError.exit_status
    return max(statuses)


def _sides(captures: list[str] | None, a: list[str] | None, b: list[str] | None) -> tuple[list[str], list[str]]:
    """Returns the captures of each side. Raises UsageError."""
    named = list(captures or ())
    if named and (a or b):
        raise UsageError("--a, --b: name all captures by them, or two captures without them")
    if named and len(named) != 2:
        many = "only one capture" if len(named) == 1 else f"{len(named)} captures"
        raise UsageError(f"{many}: name two, as in dcpinspect diff A.pcap B.pcap; a side of several is --a FILE --a FILE --b FILE")
    if not named and not (a and b):
        raise UsageError("the captures are missing: name two, as in dcpinspect diff A.pcap B.pcap, or the sides by --a FILE --b FILE")
    sides = ([named[0]], [named[1]]) if named else (a or [], b or [])
    if sum(side.count(STDIN) for side in sides) > 1:
        raise UsageError("-: standard input can be one side only")
    return options.with_folders(sides[0]), options.with_folders(sides[1])


def _refuse_nothing(sides: list[Side], connections: list[tuple[range, ...]]) -> None:
    """Raises UsageError for a side without streams, or without the connections that are asked for."""
    from dcpinspect.render.coverage import nothing_found  # deferred, as above

    for side, wanted in zip(sides, connections, strict=True):
        if why := no_such_connections(side.reading, wanted):
            raise UsageError(f"nothing is compared, because of side {side.name.upper()}: {why}")
        if not len(side.streams):
            what = "no stream of DCP is in it" if side.reading.messages else nothing_found(side.reading)
            raise UsageError(f"nothing is compared, because of side {side.name.upper()}: {what}")
