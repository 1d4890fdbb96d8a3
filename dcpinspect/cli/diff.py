"""``dcpinspect diff``: two readings of the same streams, compared event by event."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.choices import Choices, as_option
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.record_tables import TableChoices
from dcpinspect.cli.remarks import no_such_connections, remarks
from dcpinspect.cli.terminal import complain, folded
from dcpinspect.errors import UsageError
from dcpinspect.text import short_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.diff.difference_columns import Differences
    from dcpinspect.diff.reading_side import ComparisonSide
    from dcpinspect.output.export.target import Target
    from dcpinspect.reading.reading import Reading
    from dcpinspect.reading.store.spool import Spool
    from dcpinspect.tables.record_tables import Records
    from dcpinspect.tables.select import Selection

DIFFERENT = 1
"""Exit status if the sides differ."""


class ComparedSides(Choices):
    """The two sides that are compared."""

    title = "The sides"
    words = """
    --a FILE: A capture of side A, instead of A. May be repeated.
    --b FILE: A capture of side B, instead of B. May be repeated.
    --a-connection LIST: Of side A, only these connections, as in 1,3-4.
    --b-connection LIST: The same of side B.
    """
    captures: Annotated[
        list[str] | None,
        as_option(
            "[A B]",
            "The two sides: a capture each, or a directory of captures. - is standard input.",
        ),
    ] = None
    a: list[str] | None = None
    b: list[str] | None = None
    a_connection: str | None = None
    b_connection: str | None = None

    def files(self) -> tuple[list[str], list[str]]:
        """Returns the captures of each side. Raises UsageError."""
        named, a, b = list(self.captures or ()), self.a or [], self.b or []
        if named and (a or b):
            raise UsageError("--a, --b: name all captures by them, or two captures without them")
        if named and len(named) != 2:
            many = "only one capture" if len(named) == 1 else f"{len(named)} captures"
            raise UsageError(
                f"{many}: name two, as in dcpinspect diff A.pcap B.pcap; a side of several is "
                "--a FILE --a FILE --b FILE"
            )
        if not named and not (a and b):
            raise UsageError(
                "the captures are missing: name two, as in dcpinspect diff A.pcap B.pcap, or "
                "the sides by --a FILE --b FILE"
            )
        sides = ([named[0]], [named[1]]) if named else (a, b)
        if sum(side.count(options.STDIN) for side in sides) > 1:
            raise UsageError("-: standard input can be one side only")
        return options.with_folders(sides[0]), options.with_folders(sides[1])

    def connections(self) -> list[Sequence[range]]:
        """Returns the wanted connections of each side; empty for all. Raises UsageError."""
        return [
            options.connections_in(self.a_connection, "--a-connection"),
            options.connections_in(self.b_connection, "--b-connection"),
        ]


def diff(
    context: typer.Context,
    sides: ComparedSides,
    table: TableChoices,
    result: options.Output,
    redaction: options.Redaction,
    input_: options.Input,
    vbucket: options.VBuckets = None,
    paths: bool = False,
    summary: bool = False,
) -> int:
    """Compare two readings of the same streams: which events only one side has, why, and which
    differ. Exit status 1 if they differ.

    Options:
    --paths: Print how packets of the same connection went from one capture's place to the
        other's.
    --summary: For text, print the summary only.
    """
    # deferred: DuckDB and the decoder, which --help and completion do not need
    from dcpinspect.diff import difference_columns
    from dcpinspect.diff.differences import SideComparison
    from dcpinspect.diff.network_paths import paths as paths_of
    from dcpinspect.reading.reading import Reading
    from dcpinspect.reading.store.spool import Spool
    from dcpinspect.tables.select import Selection

    files, connections, format_ = sides.files(), sides.connections(), result.format(context)
    name, records = (
        ("paths", difference_columns.PATHS)
        if paths
        else ("differences", difference_columns.DIFFERENCES)
    )
    view = table.view(records, name, context.obj, vbucket=vbucket)
    redactor, ports = redaction.redactor(), input_.ports.reading_arguments()
    with (
        closing(Spool()) as spool,
        SideComparison(spool) as comparison,
        result.target(format_, [*files[0], *files[1]]) as target,
    ):
        read = []
        for letter, names, numbers in zip(
            difference_columns.SIDES, files, connections, strict=True
        ):
            reading = Reading(names, **ports)
            reading.track(redactor)
            selection = Selection(
                vbuckets=tuple(view.selection.vbuckets), connections=tuple(numbers)
            )
            has_bar = wants_progress(result.output)
            read.append(_side(letter, reading, spool, selection, wants_bar=has_bar))
        _refuse_nothing(read, connections)
        comparison_result = comparison.compare(read[0], read[1])
        ways = paths_of(read[0].tap, read[1].tap)
        if format_.is_text:
            _summarize(comparison_result, ways, read, target, table.width)
        selected = view.selection.matching(ways if paths else comparison_result.records())
        if not format_.is_text:
            view.write_rows(target, selected, format_)
        elif len(selected) and table.limit != 0 and not summary:
            target.write_piece("\n")
            view.write_rows(target, selected, format_)
    statuses = [remarks(side.reading, stats=input_.stats, side=side.name.upper()) for side in read]
    if comparison_result.is_different:
        return DIFFERENT
    if comparison_result.why_nothing and not len(ways):
        if not format_.is_text:  # text has this as its verdict
            complain(f"nothing could be compared: {comparison_result.why_nothing}")
        return UsageError.exit_status
    return max(statuses)


def _summarize(
    comparison_result: Differences,
    ways: Records,
    read: Sequence[ComparisonSide],
    target: Target,
    width: int | None,
) -> None:
    """Writes the summary for people."""
    from dcpinspect.output.render import difference_text as render  # deferred, as above

    named = iter(short_names([file for side in read for file in side.files]))
    sources = [", ".join(islice(named, len(side.files))) for side in read]
    lines = render.summary(comparison_result, ways.records(), sources, target.painter())
    pieces = (piece for line in lines for piece in folded(line, width or target.width()))
    target.write_piece("".join(f"{piece}\n" for piece in pieces))


def _side(
    letter: str, reading: Reading, spool: Spool, selection: Selection, *, wants_bar: bool
) -> ComparisonSide:
    """Returns a side that is read to its end."""
    from dcpinspect.diff.reading_side import ComparisonSide

    side, capture = ComparisonSide(letter, reading, spool), reading.capture
    bar = progress(
        f"reading {letter.upper()}", lambda: capture.position, capture.size, wanted=wants_bar
    )
    with bar, interrupts.ending(capture):
        side.read(selection)
    return side


def _refuse_nothing(sides: list[ComparisonSide], connections: Sequence[Sequence[range]]) -> None:
    """Raises UsageError for a side without streams, or without the connections asked for."""
    from dcpinspect.output.render.coverage_text import nothing_found  # deferred, as above

    for side, numbers in zip(sides, connections, strict=True):
        if reason := no_such_connections(side.reading, numbers):
            raise UsageError(f"nothing is compared, because of side {side.name.upper()}: {reason}")
        if not len(side.streams):
            reason = (
                "no stream of DCP is in it"
                if side.reading.messages
                else nothing_found(side.reading)
            )
            raise UsageError(f"nothing is compared, because of side {side.name.upper()}: {reason}")
