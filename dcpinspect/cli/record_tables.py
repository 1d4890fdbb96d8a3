"""The common part of ``streams``, ``vbuckets``, ``snapshots``, ``gaps``, ``rollbacks`` and
``connections``: reads captures, prints a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import completion, interrupts, options
from dcpinspect.cli.choices import Choices
from dcpinspect.cli.remarks import no_such_connections, remarks
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.text import counted, did_you_mean, escape

if TYPE_CHECKING:
    from dcpinspect.cli.config import Config
    from dcpinspect.findings.finding import Finding
    from dcpinspect.output.export.formats import Format
    from dcpinspect.output.export.target import Target
    from dcpinspect.tables.record_rows import RecordSelection
    from dcpinspect.tables.record_tables import Records, RecordTable


class TableChoices(Choices):
    """Which rows and columns of a table are shown, in which order, and how wide."""

    title = "The table"
    words = """
    --sort LIST: Sort rows by these columns, as in findings.error,last_seqno.
    --reverse: Put the greatest first, or without --sort the last row.
    -n --limit N: Stop after N rows, counted after the filters.
    --verbose -v: For text, print what does not fit the width of the terminal below each row.
    --width COLUMNS: For text, the width of lines. By default, it is the width of the terminal.
    """
    filter_: Annotated[
        str | None, options.filter_option("rows", "connection = 2 and vbucket < 64")
    ] = None
    columns: Annotated[str | None, options.columns_option("vbucket,verdict")] = None
    sort: Annotated[str | None, {"autocompletion": completion.sort_columns}] = None
    reverse: bool = False
    limit: Annotated[int | None, {"min": 0}] = None
    verbose: bool = False
    width: Annotated[int | None, {"min": 20, "max": 1000}] = None

    def view(
        self,
        table: RecordTable,
        name: str,
        config: Config | None,
        *,
        vbucket: str | None = None,
        connection: str | None = None,
    ) -> TableView:
        """Returns the part of a table that is asked for. ``name``: of its texts. Raises
        UsageError.
        """
        from dcpinspect.tables.record_rows import RecordSelection, sort_columns

        if vbucket is not None and "vbucket" not in {column.name for column in table.columns}:
            raise UsageError(f"--vbucket: a {table.name} has no vbucket")
        selection = RecordSelection(
            vbuckets=options.vbuckets_in(vbucket),
            connections=options.connections_in(connection),
            filter=options.record_filter(self.filter_, table, config),
            sort=[]
            if self.sort is None
            else _names(self.sort, "--sort", name, sort_columns(table)),
            is_reversed=self.reverse,
        )
        return TableView(name, selection, columns_asked_for(self.columns, name, table), self)


@dataclass
class TableView:
    """The part of a table that is asked for."""

    name: str
    selection: RecordSelection
    columns: list[str] | None
    choices: TableChoices
    is_of_one_file: bool = False
    """Whether there is one file, which nobody needs to be told."""

    def columns_read(self, *, is_text: bool) -> list[str]:
        """Returns the columns that the view has, and those that it chooses rows by."""
        from dcpinspect.output.render.record_lines import READABLE
        from dcpinspect.streams.table_columns import BY_TABLE

        columns = self.columns or (
            READABLE[self.name]
            if is_text
            else [column.name for column in BY_TABLE[self.name].columns]
        )
        filter_ = self.selection.filter
        return [*columns, *self.selection.sort, *(filter_.columns if filter_ else ())]

    def write(self, out: Target, records: Records, format_: Format) -> int:
        """Writes the rows that are asked for, and returns how many met the conditions."""
        selected = self.selection.matching(records)
        self.write_rows(out, selected, format_)
        return len(selected)

    def write_rows(self, out: Target, chosen: Records, format_: Format) -> None:
        """Writes the first of the rows that met the conditions."""
        first_rows = chosen if self.choices.limit is None else chosen.head(self.choices.limit)
        if not format_.is_text:
            format_.records(out, first_rows, self.columns)
            return
        from dcpinspect.output.render.record_lines import (
            BELOW,
            FIRST,
            read_columns,
            record_lines,
        )

        columns, first = self.columns, tuple(self.columns or ())
        if columns is None:
            columns = read_columns(first_rows, self.name, is_of_one_file=self.is_of_one_file)
            first = FIRST[self.name]
        paint, width = out.painter(), self.choices.width or out.width()
        cell = paint if paint("x", "bold") != "x" else None
        lines = record_lines(
            first_rows.arrow(columns),
            first,
            width=width,
            below=BELOW.get(self.name, ()),
            # what is asked for is not left out
            is_folded=self.choices.verbose or self.columns is not None,
            paint=cell,
        )
        out.write_piece("".join(paint(line, style) + "\n" for line, style in lines))


def command(name: str, doc: str) -> Callable[..., int]:
    """Returns the function of the command that prints the table ``name``. ``doc``: its help."""

    def run(
        context: typer.Context,
        captures: options.Captures,
        table: TableChoices,
        times: options.Times,
        result: options.Output,
        redaction: options.Redaction,
        input_: options.Input,
        vbucket: options.VBuckets = None,
        connection: options.Connections = None,
    ) -> int:
        # deferred: NumPy and the decoder, which --help and completion do not need
        from dcpinspect.findings.finding_records import needs_rules
        from dcpinspect.reading.reading import Reading
        from dcpinspect.streams.table_columns import BY_TABLE

        of_table = BY_TABLE[name] if len(captures) == 1 else BY_TABLE[name].with_file
        format_ = result.format(context)
        view = table.view(of_table, name, context.obj, vbucket=vbucket, connection=connection)
        span, redactor = times.span_of_whole(), redaction.redactor()
        with Reading(captures, **input_.ports.reading_arguments()) as reading:
            columns = view.columns_read(is_text=format_.is_text)
            is_checked = needs_rules(name, columns)
            if is_checked:
                reading.check(redactor=redactor)
            else:
                reading.track(redactor)
            with result.target(format_, captures) as target:
                for _ in interrupts.batches(reading.capture, reading):
                    pass
                if span is not None:
                    bounds = span.within(reading.earliest_ns, reading.last_time_ns)
                    view.selection = replace(view.selection, bounds=bounds)
                if name == "vbuckets" and format_.is_text and not view.selection.sort:
                    # a person looks for a number; in other formats rows are in order of requests
                    view.selection = replace(view.selection, sort=["vbucket"])
                findings: list[Finding] = []
                if is_checked:
                    _, findings, tables = reading.worked_out()
                else:
                    tables = reading.by_name()
                count = view.write(target, tables[name], format_)
            if reading.messages and not count:
                complain(
                    no_such_connections(reading, view.selection.connections)
                    or _none_of(tables[name], name, view.selection.vbuckets)
                )
            is_counted = name == "vbuckets" and format_.is_text and "findings" in columns
            if is_counted and (besides := _about_connections(findings, tables, view.selection)):
                complain(besides)
            return remarks(reading, stats=input_.stats)

    run.__name__, run.__doc__ = name, doc
    return run


def _about_connections(
    findings: Sequence[Finding], tables: Mapping[str, Records], selection: RecordSelection
) -> str:
    """Returns how many errors and warnings of whole connections lie on vbuckets that are shown, which
    count only their own; empty for none.
    """
    from dcpinspect.output.finding_marks import bearers_of, bearing, lives

    findings = [
        finding
        for finding in findings
        if not finding.vbuckets and finding.severity != "note" and finding.effect_of is None
    ]
    if not findings:
        return ""
    vbuckets = {*selection.matching(tables["vbuckets"]).values("vbucket")}
    bear = bearing(partial(lives, tables["streams"]))
    borne = [vbuckets.intersection(bearers) for bearers in bearers_of(findings, bear)]
    counts = Counter(
        finding.severity for finding, bearers in zip(findings, borne, strict=True) if bearers
    )
    if not counts:
        return ""
    amounts = " and ".join(counted(number, level) for level, number in sorted(counts.items()))
    whose = counted(len(set().union(*borne)), "vbucket")
    return f"not counted here: {amounts} about connections of {whose}; check says what to do"


def _none_of(everything: Records, name: str, vbuckets: Sequence[range]) -> str:
    """Returns why a table is empty. ``vbuckets``: those that were asked for, empty for all."""
    from dcpinspect.findings.finding import ranges

    count = len(everything)
    if not count:
        return f"the capture shows no {name}"
    numbers = sorted(set(everything.values("vbucket"))) if vbuckets else []
    if numbers and not any(
        number in numbers_wanted for number in numbers for numbers_wanted in vbuckets
    ):
        return (
            f"none of {count:,} {name} met the conditions: they are of vbuckets {ranges(numbers)}"
        )
    return f"none of {count:,} {name} met the conditions"


def columns_asked_for(text: str | None, name: str, table: RecordTable) -> list[str] | None:
    """Returns the columns that are asked for."""
    if text is None:
        return None
    return _names(text, "--columns", name, [column.name for column in table.columns])


def _names(text: str, option: str, name: str, known_columns: Sequence[str]) -> list[str]:
    names = [word.strip() for word in text.split(",") if word.strip()]
    for word in names:
        if word not in known_columns:
            close = did_you_mean(word, known_columns) or f"; there are {', '.join(known_columns)}"
            raise UsageError(
                f"{option} {escape(word)}: {name} have no such "
                f"column{'' if option == '--columns' else ' to sort by'}{close}"
            )
    if not names:
        raise UsageError(
            f"{option}: name at least one column; there are {', '.join(known_columns)}"
        )
    return list(dict.fromkeys(names))


connections = command(
    "connections", "Print every connection: its client, what it negotiated and its state."
)
vbuckets = command(
    "vbuckets", "Print the state of every vbucket, over all connections of a client."
)
streams = command(
    "streams", "Print every stream: its request, its answer, what was delivered and how it ended."
)
snapshots = command(
    "snapshots", "Print every snapshot: its range and type, and whether it is complete."
)
gaps = command(
    "gaps",
    "Print every run of seqnos that a stream did not deliver or a rollback takes back, and why.",
)
rollbacks = command(
    "rollbacks",
    "Print every rollback: the request, the server's history, the cause, and a request that "
    "would work.",
)
