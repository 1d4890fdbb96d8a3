"""``dcpinspect read``: the messages of captures, as lines, field tables, byte grids, JSON, CSV,
Parquet or Arrow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer

from dcpinspect.cli import completion, interrupts, options, terminal
from dcpinspect.cli.choices import Choices
from dcpinspect.cli.metrics import Exposition
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.remarks import MAX_LINES, complain_of, remarks
from dcpinspect.cli.subset import Packets, packets_written
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dcpinspect.capture.open import FileDamage
    from dcpinspect.output.export.formats import Format
    from dcpinspect.output.export.json import ValueLimit
    from dcpinspect.output.export.message_writers import WriterOptions
    from dcpinspect.output.export.packet_subset import Subset
    from dcpinspect.protocol.column_types import RowNumbers
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading.engine import ByteKeeper
    from dcpinspect.reading.reading import Reading
    from dcpinspect.tables.select import Selection


TimeFormat = Literal["relative", "absolute", "local", "epoch", "delta"]
_TOGETHER = 1 << 10
"""Number of sorted messages that are read at once from the temporary file."""
WHOLE_OPTIONS = ("verbose", "hex_grid", "time", "fields", "values")
"""Options for showing whole messages."""


class MessageSource(Protocol):
    """Where ``show`` gets its messages from."""

    captures: Sequence[str]
    """Files that must not be overwritten."""
    pauses: bool
    """Whether the next messages may take long to come, so that output must not wait for them."""

    def reading(
        self, extra_ports: Sequence[int], *, find_ports: bool, keeper: ByteKeeper | None
    ) -> AbstractContextManager[Reading]:
        """Returns the reading as a context."""

    def report(
        self, reading: Reading, *, is_whole: bool, stats: bool, shown: int | None, skipped: int
    ) -> int:
        """Prints remarks at the end on standard error. Returns the exit status."""


class MessageForm(Choices):
    """How messages are shown."""

    title = "The output"
    words = """
    --verbose -V: Print the field table of each message, as the specification draws it.
    hex_grid --hex -x: Print the bytes of each message, 16 a line. -xx prints 4 a line, as the
        specification does.
    --time: The times of lines are since the first packet, in UTC, in the local time zone, in
        seconds since 1970, or since the line before.
    --values full|N|none: How much of a value to show. By default, JSON and --row show all of it,
        and text 256 bytes.
    --fields/--no-fields: For JSON, include the field table of each message.
    """
    verbose: bool = False
    hex_grid: Annotated[int, {"count": True}] = 0
    columns: options.Columns = None
    time: TimeFormat = "relative"
    values: str | None = None
    fields: bool = True

    def wishes(self, context: typer.Context, format_: Format) -> WriterOptions:
        """Returns how to write messages. Raises UsageError for options that do not fit together."""
        # deferred: --help and completion do not need it
        from dcpinspect.output.export.message_writers import WriterOptions

        if (
            format_.is_text
            and not (self.verbose or self.hex_grid)
            and options.is_typed(context, "values")
        ):
            raise UsageError("--values: lines show no values; add -V or -x")
        if options.is_typed(context, "columns"):
            reason = "is for whole messages, and --columns shows columns; leave one of them out"
            options.refuse_typed(context, WHOLE_OPTIONS, reason)
        columns = options.column_names(self.columns, context.obj)
        if format_.shows_whole and not options.is_typed(context, "columns"):
            columns = (
                None  # defaults of the config file are only for formats that show columns alone
            )
        colors = (
            options.color_rules(context.obj) if format_.is_text and terminal.wants_color() else None
        )
        is_whole = self.values is None and options.is_typed(context, "row")
        values = _values("full" if is_whole else self.values, is_text=format_.is_text)
        return WriterOptions(
            self.verbose, self.hex_grid, self.fields, values, columns, self.time, colors
        )


class MessageOrder(Choices):
    """How many messages are shown, and in which order."""

    title = "Only some"
    words = """
    -n --limit N: Stop after N messages, counted after the filters.
    --skip N: Leave out the first N messages, counted after the filters.
    --sort COLUMN: Sort messages by this column, as in rtt_ns.
    --reverse: For --sort, put the greatest first.
    """
    limit: Annotated[int | None, {"min": 0}] = None
    skip: Annotated[int, {"min": 0}] = 0
    sort: Annotated[str | None, {"autocompletion": completion.one_column}] = None
    reverse: bool = False

    def is_sorted(self, context: typer.Context, source: MessageSource) -> bool:
        """Whether messages are sorted. Raises UsageError if they cannot be."""
        from dcpinspect.tables.schema import column_name, is_ordered

        if self.sort is None:
            if self.reverse:
                raise UsageError("--reverse: is for --sort; name the column, as in --sort rtt_ns")
            return False
        if not is_ordered(column_name(self.sort, "--sort")):
            raise UsageError(
                f"--sort {self.sort}: lists and bytes have no order; name a column of numbers, "
                "texts or times"
            )
        for parameter, option in (
            ("write", "-w"),
            ("check", "--check"),
            ("metrics_at", "--metrics"),
        ):
            if options.is_typed(context, parameter):
                raise UsageError(f"{option}: --sort does not use it; leave one of them out")
        if source.pauses and options.STDIN not in source.captures:
            raise UsageError(
                "--sort: needs the end of the capture, and a followed or live one has no end; "
                "record it first"
            )
        return True


class MessageChoices(Choices):
    """The options of all commands that print messages."""

    row: str | None = None
    conditions: options.Conditions = options.Conditions()
    order: MessageOrder = MessageOrder()
    look: MessageForm = MessageForm()
    result: options.Output = options.Output()
    redaction: options.Redaction = options.Redaction()
    check: bool = False
    exposition: Exposition = Exposition()
    input_: options.Input = options.Input()
    title = "Only some"
    words = """
    --row LIST: Only these rows, as in 99,100-112.
    --check: Also print findings, as soon as they are found, and all of them at the end. For text
        and NDJSON.
    """


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages that ``show`` prints, and how."""

    source: MessageSource
    choices: MessageChoices
    selection: Selection
    format: Format
    wishes: WriterOptions
    redactor: Redactor | None
    ports: dict[str, Any]
    """The arguments of a reading."""

    def report(self, reading: Reading, *, is_whole: bool, shown: int, skipped: int) -> int:
        """Prints what is to be said at the end. Returns the exit status."""
        stats, hint = self.choices.input_.stats, self.choices.conditions.hint
        status = self.source.report(
            reading, is_whole=is_whole, stats=stats, shown=shown, skipped=skipped
        )
        if hint and is_whole and reading.messages and not (shown or skipped):
            terminal.complain(hint)
        return status


def show(
    context: typer.Context,
    source: MessageSource,
    choices: MessageChoices,
    packets: Packets = Packets(),  # noqa: B008 - no packets
) -> int:
    """Prints the messages of ``source``. Returns the exit status."""
    format_ = choices.result.format(context)
    selection = choices.conditions.selection(
        None if source.pauses else source.captures, context.obj, choices.row
    )
    if choices.exposition.metrics_at is not None and not source.pauses:
        raise UsageError("--metrics: is for what goes on; add --follow")
    if source.pauses:
        selection.prepare()  # loads modules now, while nothing waits for them
    look = choices.look.wishes(context, format_)
    wishes = replace(look, is_growing=source.pauses, limit=choices.order.limit)
    redactor = choices.redaction.redactor()
    ports = choices.input_.ports.reading_arguments()
    messages = _Messages(source, choices, selection, format_, wishes, redactor, ports)
    manner = packets.wishes(redactor)
    if choices.order.is_sorted(context, source):
        return _sorted(messages)
    output = choices.result.output
    return _as_they_come(messages, packets_written(packets.write, source.captures, manner, output))


def _as_they_come(messages: _Messages, packets: AbstractContextManager[Subset | None]) -> int:
    """Prints messages in the order of reading. Returns the exit status."""
    source, choices = messages.source, messages.choices
    if choices.check:  # loads modules now, as above
        from dcpinspect.cli.teller import Announcer

    format_ = messages.format
    redactor = messages.redactor
    output = choices.result.output
    with (
        choices.exposition.exporting() as exporter,
        packets as subset,
        source.reading(**messages.ports, keeper=subset) as reading,
    ):
        reading.redactor = redactor
        if subset is not None:
            subset.follow(reading)
        window = _Window(choices.order)
        capture = reading.capture
        bar = progress(
            "reading",
            lambda: capture.position,
            capture.size,
            wanted=wants_progress(output) and not source.pauses,
        )
        # the next batches are read while one is written, unless they may take long to come
        is_ahead = not format_.shows_whole and not source.pauses and subset is None
        made = closing(reading.ahead() if is_ahead else iter(reading))
        with choices.result.target(format_, source.captures) as target, bar, made as batches:
            writer = format_.messages(target, messages.wishes, lambda: reading.first_time_ns)
            announcer = (
                Announcer(reading, target, format_, pauses=source.pauses, redactor=redactor)
                if choices.check
                else None
            )
            followed = batches if exporter is None else exporter.between(reading, batches)
            try:
                for batch in followed if not window.is_full else ():
                    rows = window.shown_rows(messages.selection.rows(batch))
                    if subset is not None:
                        # first, because a closed pipe can end the writing after some messages
                        subset.choose(batch, rows)
                    writer.write(batch.redacted(redactor), rows)
                    if announcer is not None:
                        announcer.check_when_due()
                    target.flush()
                    if window.is_full:
                        break
            finally:
                writer.end()
                if announcer is not None:
                    announcer.end(is_whole=not window.is_full)
        return messages.report(
            reading, is_whole=not window.is_full, shown=window.shown, skipped=window.skipped
        )


class _Window:
    """Which of the messages that met the conditions are shown, by ``--skip`` and ``--limit``."""

    def __init__(self, order: MessageOrder) -> None:
        self._order = order
        self.shown = self.skipped = 0

    @property
    def is_full(self) -> bool:
        """Whether no more messages are shown."""
        return self.shown == self._order.limit

    def shown_rows(self, rows: RowNumbers) -> RowNumbers:
        """Returns the rows that are shown of the next ones."""
        left_out = min(self._order.skip - self.skipped, len(rows))
        self.skipped += left_out
        rows = rows[left_out:]
        if self._order.limit is not None:
            rows = rows[: self._order.limit - self.shown]
        self.shown += len(rows)
        return rows


def _sorted(messages: _Messages) -> int:
    """Prints messages sorted by a column; those without a value come last. The messages are kept in
    a temporary folder meanwhile.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from dcpinspect.reading.store.store import Store
    from dcpinspect.tables.arrow import record_batch, type_of

    source, redactor, order = messages.source, messages.redactor, messages.choices.order
    column = order.sort or ""
    with (
        Store() as store,
        source.reading(**messages.ports, keeper=store) as reading,
        messages.choices.result.target(messages.format, source.captures) as target,
    ):
        writer = messages.format.messages(target, messages.wishes, lambda: reading.first_time_ns)
        values, rows = [pa.array([], type_of(column))], [np.empty(0, np.int64)]
        try:
            for batch in store.fill(reading):
                batch_rows = messages.selection.rows(batch)
                values.append(
                    record_batch(batch.redacted(redactor), batch_rows, [column]).column(0)
                )
                rows.append(batch.row[batch_rows])
            keys = pa.table({column: pa.chunked_array(values)})
            direction = "descending" if order.reverse else "ascending"
            row_order = pc.sort_indices(keys, sort_keys=[(column, direction, "at_end")]).to_numpy()
            sorted_rows = np.concatenate(rows)[row_order][order.skip :][: order.limit]
            for start in range(0, len(sorted_rows), _TOGETHER):
                batch = store.messages(sorted_rows[start : start + _TOGETHER]).redacted(redactor)
                writer.write(batch, np.arange(len(batch)))
        finally:
            writer.end()
        skipped = min(order.skip, sum(map(len, rows)))
        return messages.report(reading, is_whole=True, shown=len(sorted_rows), skipped=skipped)


class CaptureSource:
    """Captures as a ``MessageSource``."""

    def __init__(self, captures: Sequence[str], *, follow: bool = False) -> None:
        self.captures = captures
        if options.STDIN in captures and sys.stdin is not None and sys.stdin.isatty():
            terminal.complain(
                "reads a capture from this terminal, and waits for it; Ctrl-C ends it"
            )
        self.pauses = follow or options.STDIN in captures
        self._follow = follow
        self._damage_shown = 0
        """Number of damaged places that were told when they were met."""

    @contextmanager
    def reading(
        self, extra_ports: Sequence[int], *, find_ports: bool, keeper: ByteKeeper | None
    ) -> Iterator[Reading]:
        """Yields a reading that lasts until the end of the captures, or until a first signal, if
        they come from a pipe or are followed.
        """
        from dcpinspect.capture.open import open_capture
        from dcpinspect.reading.reading import Reading

        capture = open_capture(self.captures, follow=self._follow)
        if self._follow:
            capture.on_problem = self._report_damage
        with (
            Reading(
                capture, extra_ports=extra_ports, find_ports=find_ports, keeper=keeper
            ) as reading,
            interrupts.stopping(capture.stop) if self._follow else interrupts.ending(capture),
        ):
            yield reading

    def _report_damage(self, problem: FileDamage) -> None:
        """Tells damage of a followed capture when it is met: its end may be days away."""
        if self._damage_shown < MAX_LINES:
            complain_of([problem])
            self._damage_shown += 1

    def report(
        self, reading: Reading, *, is_whole: bool, stats: bool, shown: int | None, skipped: int
    ) -> int:
        """Prints remarks on damage, losses, and captures without any wanted message."""
        return remarks(
            reading,
            is_whole=is_whole,
            stats=stats,
            shown=shown,
            skipped=skipped,
            damage_shown=self._damage_shown,
        )


def read(
    context: typer.Context,
    captures: options.Captures,
    choices: MessageChoices,
    packets: Packets,
    follow: bool = False,
) -> int:
    """Print the messages of captures (pcap or pcapng), one line for each.

    Options:
    --follow: Also read what another program still writes to the capture, until Ctrl-C.
    """
    if follow and len(captures) > 1:
        raise UsageError(
            "--follow: one capture at a time; leave out all but the one that is being written"
        )
    # metrics are served even while nothing comes from the pipe
    is_asked = choices.exposition.metrics_at is not None and list(captures) == [options.STDIN]
    return show(context, CaptureSource(captures, follow=follow or is_asked), choices, packets)


def _values(text: str | None, *, is_text: bool) -> ValueLimit:
    from dcpinspect.output.render.field_table import DEFAULT_LIMIT
    from dcpinspect.text import escape

    if text is None:
        return DEFAULT_LIMIT if is_text else "full"
    if text == "full":
        return "full"
    if text == "none":
        return "none"
    if text.isdecimal() and text.isascii() and len(text) < 12:
        return int(text)
    raise UsageError(f"--values {escape(text)}: write full, none or a number of bytes")
