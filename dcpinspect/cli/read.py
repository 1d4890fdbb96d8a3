"""``dcpinspect read``: the messages of captures, as lines, field tables, byte grids, JSON, CSV, Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from dcpinspect.cli import completion, interrupts, metrics, options, terminal
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.remarks import MAX_LINES, complain_of, remarks
from dcpinspect.cli.subset import packet_wishes, packets_written
from dcpinspect.errors import UsageError

if TYPE_CHECKING:
    from dcpinspect.capture.open import Problem
    from dcpinspect.engine import Keeper
    from dcpinspect.export.formats import TableFormat
    from dcpinspect.export.json import Values
    from dcpinspect.export.message_writers import Wishes
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading import Reading
    from dcpinspect.tables.select import Selection


TimeFormat = Literal["relative", "absolute", "local", "epoch", "delta"]
STDIN = "-"
_TOGETHER = 1 << 10
"""Number of sorted messages that are read at once from the temporary file."""
WHOLE_OPTIONS = ("verbose", "hex_grid", "time", "fields", "values")
"""Options for showing whole messages."""


class Source(Protocol):
    """Where ``show`` gets its messages from."""

    captures: Sequence[str]
    """Files that must not be overwritten."""
    pauses: bool
    """Whether the next messages may take long to come, so that output must not wait for them."""

    def reading(self, extra_ports: Sequence[int], *, find_ports: bool, keeper: Keeper | None) -> AbstractContextManager[Reading]:
        """Returns the reading as a context."""

    def report(self, reading: Reading, *, is_whole: bool, stats: bool, shown: int, skipped: int) -> int:
        """Prints remarks at the end on standard error. Returns the exit status."""


def show(
    context: typer.Context,
    source: Source,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-V", help="Print the field table of each message, as the specification draws it.")
    ] = False,
    hex_grid: Annotated[
        int,
        typer.Option(
            "--hex", "-x", count=True, help="Print the bytes of each message, 16 a line. -xx prints 4 a line, as the specification does."
        ),
    ] = 0,
    limit: options.Limit = None,
    skip: options.Skip = 0,
    format_name: options.OutputFormat = None,
    output: options.OutputFile = None,
    write: options.Write = None,
    with_handshakes: options.WithHandshakes = False,
    with_secrets: options.WithSecrets = False,
    decrypted: options.Decrypted = False,
    fields: Annotated[bool, typer.Option("--fields/--no-fields", help="For JSON, include the field table of each message.")] = True,
    values: Annotated[
        str | None,
        typer.Option(metavar="full|N|none", help="How much of a value to show. By default, JSON has all of it, and text 256 bytes."),
    ] = None,
    columns: options.Columns = None,
    csv_guard: options.CsvGuard = True,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    time: Annotated[
        TimeFormat,
        typer.Option(
            help="The times of lines are since the first packet, in UTC, in the local time zone, in seconds since 1970,"
            " or since the line before."
        ),
    ] = "relative",
    row: options.Rows = None,
    vbucket: options.VBuckets = None,
    opcode: options.Opcodes = None,
    connection: options.Connections = None,
    key: options.Key = None,
    status: options.Statuses = None,
    collection: options.Collections = None,
    filter_: options.Filter = None,
    since: options.Since = None,
    until: options.Until = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN", autocompletion=completion.one_column, help="Sort messages by this column, as in rtt_ns."),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="For --sort, put the greatest first.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Also print findings, as soon as they are found, and all of them at the end. For text and NDJSON."),
    ] = False,
    metrics_at: metrics.Address = None,
    metrics_vbuckets: metrics.WithVbuckets = False,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Prints the messages of ``source``; its signature has the options of all commands that print messages."""
    from dcpinspect.export.message_writers import Wishes  # deferred: --help and completion do not need it

    if check:
        from dcpinspect.cli.announce import Announcer

    format_ = choose_format(format_name, output)
    options.refuse_unused(context, format_)
    if format_.is_text and not (verbose or hex_grid) and options.is_typed(context, "values"):
        raise UsageError("--values: lines show no values; add -V or -x")
    selection = options.selection(
        row=row,
        vbucket=vbucket,
        opcode=opcode,
        connection=connection,
        key=key,
        status=status,
        collection=collection,
        filter_=filter_,
        span=options.span(since, until, None if source.pauses else source.captures),
        config=context.obj,
    )
    if metrics_at is not None and not source.pauses:
        raise UsageError("--metrics: is for what goes on; add --follow")
    if source.pauses:
        selection.prepare()  # loads modules now, while nothing waits for them
    options.refuse_with_columns(context, WHOLE_OPTIONS)
    chosen = options.column_names(columns, context.obj)
    if format_.shows_whole and not options.is_typed(context, "columns"):
        chosen = None  # defaults of the config file are only for formats that show columns alone
    colors = options.color_rules(context.obj) if format_.is_text and terminal.wants_color() else None
    wishes = Wishes(verbose, hex_grid, fields, _values(values, is_text=format_.is_text), chosen, csv_guard, time, colors)
    redactor = options.redactor(redact, redact_salt)
    extra_ports, find_ports = options.ports(port)
    manner = packet_wishes(write, with_handshakes=with_handshakes, with_secrets=with_secrets, decrypted=decrypted, redactor=redactor)
    if sort is not None or reverse:
        _refuse_order(context, sort, source)
        place = partial(source.reading, extra_ports, find_ports=find_ports)
        return _in_order(source, place, selection, wishes, (format_, output, redactor), (sort or "", reverse, skip, limit), stats=stats)
    packets = packets_written(write, source.captures, manner, output)
    exporting = metrics.exporting(metrics_at, with_vbuckets=metrics_vbuckets)
    with exporting as exporter, packets as subset, source.reading(extra_ports, find_ports=find_ports, keeper=subset) as reading:
        reading.redactor = redactor
        if subset is not None:
            subset.follow(reading)
        left, shown, skipped = limit, 0, 0
        capture = reading.capture
        bar = progress("reading", lambda: capture.position, capture.size, wanted=wants_progress(output) and not source.pauses)
        # the next batches are read while one is written, unless they may take long to come
        is_ahead = not format_.shows_whole and not source.pauses and subset is None
        made = closing(reading.ahead() if is_ahead else iter(reading))
        with opened(output, format_, source.captures) as out, bar, made as batches:
            writer = format_.messages(out, wishes, lambda: reading.first_time_ns)
            announcer = Announcer(reading, out, format_, pauses=source.pauses, redactor=redactor) if check else None
            followed = batches if exporter is None else exporter.between(reading, batches)
            try:
                for batch in followed if left != 0 else ():
                    rows = selection.rows(batch)
                    left_out = min(skip - skipped, len(rows))
                    rows, skipped = rows[left_out:], skipped + left_out
                    if left is not None:
                        rows = rows[:left]
                        left -= len(rows)
                    shown += len(rows)
                    if subset is not None:
                        subset.choose(batch, rows)  # first, because a closed pipe can end the writing after some messages
                    writer.write(batch.redacted(redactor), rows)
                    if announcer is not None:
                        announcer.look()
                    out.flush()
                    if left == 0:
                        break
            finally:
                writer.end()
                if announcer is not None:
                    announcer.end(is_whole=left != 0)
        return source.report(reading, is_whole=left != 0, stats=stats, shown=shown, skipped=skipped)


def _refuse_order(context: typer.Context, sort: str | None, source: Source) -> None:
    """Raises UsageError if messages cannot be sorted."""
    from dcpinspect.tables.schema import column_name, is_ordered

    if sort is None:
        raise UsageError("--reverse: is for --sort; name the column, as in --sort rtt_ns")
    if not is_ordered(column_name(sort, "--sort")):
        raise UsageError(f"--sort {sort}: lists and bytes have no order; name a column of numbers, texts or times")
    for parameter, option in (("write", "-w"), ("check", "--check"), ("metrics_at", "--metrics")):
        if options.is_typed(context, parameter):
            raise UsageError(f"{option}: --sort does not use it; leave one of them out")
    if source.pauses and STDIN not in source.captures:
        raise UsageError("--sort: needs the end of the capture, and a followed or live one has no end; record it first")


def _in_order(
    source: Source,
    place: Callable[..., AbstractContextManager[Reading]],
    selection: Selection,
    wishes: Wishes,
    result: tuple[TableFormat, str | None, Redactor | None],
    order: tuple[str, bool, int, int | None],
    *,
    stats: bool,
) -> int:
    """Prints messages sorted by a column; those without a value come last. The messages are kept in a temporary folder meanwhile."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from dcpinspect.store.store import Store
    from dcpinspect.tables.arrow import record_batch, type_of

    (format_, output, redactor), (column, is_reversed, skip, limit) = result, order
    with Store() as store, place(keeper=store) as reading, opened(output, format_, source.captures) as out:
        writer = format_.messages(out, wishes, lambda: reading.first_time_ns)
        values, rows = [pa.array([], type_of(column))], [np.empty(0, np.int64)]
        try:
            for batch in store.fill(reading):
                chosen = selection.rows(batch)
                values.append(record_batch(batch.redacted(redactor), chosen, [column]).column(0))
                rows.append(batch.row[chosen])
            keys = pa.table({column: pa.chunked_array(values)})
            direction = "descending" if is_reversed else "ascending"
            places = pc.sort_indices(keys, sort_keys=[(column, direction, "at_end")]).to_numpy()
            found = np.concatenate(rows)[places][skip:][:limit]
            for at in range(0, len(found), _TOGETHER):
                batch = store.messages(found[at : at + _TOGETHER]).redacted(redactor)
                writer.write(batch, np.arange(len(batch)))
        finally:
            writer.end()
        return source.report(reading, is_whole=True, stats=stats, shown=len(found), skipped=min(skip, sum(map(len, rows))))


class Files:
    """Captures as a ``Source`` of messages."""

    def __init__(self, captures: Sequence[str], *, follow: bool = False, only_text: bool = False) -> None:
        self.captures = captures
        self.pauses = follow or "-" in captures
        self._follow = follow
        self._only_text = only_text
        self._told = 0
        """Number of damaged places that were told when they were met."""

    @contextmanager
    def reading(self, extra_ports: Sequence[int], *, find_ports: bool, keeper: Keeper | None) -> Iterator[Reading]:
        """Yields a reading that lasts until the end of the captures, or until a first signal, if they come from a pipe or are followed."""
        from dcpinspect.capture.open import open_capture
        from dcpinspect.reading import Reading

        capture = open_capture(self.captures, follow=self._follow, only_text=self._only_text)
        if self._follow:
            capture.on_problem = self._tell
        with (
            Reading(capture, extra_ports=extra_ports, find_ports=find_ports, keeper=keeper) as reading,
            interrupts.stopping(capture.stop) if self._follow else interrupts.ending(capture),
        ):
            yield reading

    def _tell(self, problem: Problem) -> None:
        """Tells damage of a followed capture when it is met: its end may be days away."""
        if self._told < MAX_LINES:
            complain_of([problem])
            self._told += 1

    def report(self, reading: Reading, *, is_whole: bool, stats: bool, shown: int, skipped: int) -> int:
        """Prints remarks on damage, losses, and captures without any wanted message."""
        return remarks(reading, is_whole=is_whole, stats=stats, shown=shown, skipped=skipped, told=self._told)


@options.shared(show)
def read(
    context: typer.Context,
    captures: options.Captures,
    from_: Annotated[
        Literal["hex"] | None,
        typer.Option("--from", show_default=False, help="Refuse captures that are no pasted hex. All commands read it without this."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Also read what another program still writes to the capture, until Ctrl-C.")
    ] = False,
    **choices: Any,  # options of show
) -> int:
    """Print the messages of captures (pcap or pcapng), one line for each."""
    if follow and len(captures) > 1:
        raise UsageError("--follow: one capture at a time; leave out all but the one that is being written")
    is_asked = choices["metrics_at"] is not None and list(captures) == [STDIN]  # metrics are served even while nothing comes from the pipe
    return show(context, Files(captures, follow=follow or is_asked, only_text=from_ is not None), **choices)


def _values(text: str | None, *, is_text: bool) -> Values:
    from dcpinspect.escape import escape
    from dcpinspect.render.field_table import DEFAULT_LIMIT

    if text is None:
        return DEFAULT_LIMIT if is_text else "full"
    if text == "full":
        return "full"
    if text == "none":
        return "none"
    if text.isdecimal() and text.isascii() and len(text) < 12:
        return int(text)
    raise UsageError(f"--values {escape(text)}: write full, none or a number of bytes")
