"""``dcpinspect timeline``: the history of one vbucket, drawn along its seqnos and told event by event."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.remarks import refuse_unless_damaged, remarks
from dcpinspect.cli.terminal import wants_ascii
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape, escape_rest
from dcpinspect.export.formats import JSON, TEXT

if TYPE_CHECKING:
    from dcpinspect.export.formats import TableFormat
    from dcpinspect.export.target import Target
    from dcpinspect.protocol.columns import Rows
    from dcpinspect.reading import Reading
    from dcpinspect.render.events import Event, Noted
    from dcpinspect.render.lanes import Scale
    from dcpinspect.render.lines import Lines
    from dcpinspect.streams.items import VbucketItems
    from dcpinspect.streams.story import StreamStory
    from dcpinspect.tables.messages import MessageBatch

MOST_NOTED = 10_000
"""Number of system events and changes of state that are listed; further ones are counted."""
IN_MEMORY = 16 << 20
"""Number of bytes of message lines that are kept in memory; more of them go to a temporary file."""
WIDEST = 1000


def timeline(
    context: typer.Context,
    captures: options.Captures,
    vbucket: Annotated[int, typer.Option("--vbucket", metavar="N", min=0, max=0xFFFF, help="The vbucket.", show_default=False)],
    times: options.Times,
    result: options.OutputFormat,
    redaction: options.Redaction,
    input_: options.Input,
    connection: options.Connections = None,
    seqnos: Annotated[
        str | None, typer.Option("--seqnos", metavar="A-B", help="Draw these seqnos only. By default, all are drawn.")
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="SQL",
            help="Only streams for which this is true, as in \"answer = 'accepted' and gaps > 0\"; @name is a saved filter.",
        ),
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Below each event, also print the messages of the vbucket, as read does.")
    ] = False,
    width: Annotated[
        int | None, typer.Option("--width", metavar="COLUMNS", help="The width of lines. By default, it is the width of the terminal.")
    ] = None,
    ascii_: options.Ascii = False,
) -> int:
    """Show one vbucket: its streams along their seqnos, then every request, snapshot, gap and end in order."""
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.reading import Reading
    from dcpinspect.streams.contracts import STREAMS
    from dcpinspect.streams.items import VbucketItems
    from dcpinspect.streams.story import stories
    from dcpinspect.tables.record_rows import parse_record_filter
    from dcpinspect.tables.select import number_ranges

    format_ = _format(context, result, width)
    drawn = _seqnos(seqnos) if seqnos is not None else None
    connections = number_ranges(connection, "--connection", most=(1 << 31) - 1) if connection is not None else ()
    only = parse_record_filter(filter_, STREAMS, saved=options.saved_filters(context.obj)) if filter_ is not None else None
    span, redactor = times.span_of_whole(), redaction.redactor()
    with Reading(captures, **input_.ports.chosen()) as reading:
        reading.track(redactor)
        items = VbucketItems(vbucket, connections)
        with opened(result.output, format_, captures) as out, _Gathered(messages, width or out.width()) as gathered:
            for batch in interrupts.batches(reading.capture, reading):
                gathered.take(batch.redacted(redactor), items.feed(batch), reading)
            bounds = span.within(reading.earliest_ns, reading.last_time_ns) if span is not None else None
            found = stories(reading.tables, vbucket, connections, items, only, bounds)
            if not found and reading.messages:
                refuse_unless_damaged(reading, _why_nothing(reading, vbucket, connection, filter_, bounds))
            told = _Told(reading, vbucket, found, gathered, items, bounds)
            if format_ is JSON:
                told.write_json(out)
            elif found:
                told.write(out, width=width or out.width(), is_ascii=ascii_ or wants_ascii(), span=drawn)
        return remarks(reading, stats=input_.stats)


def _format(context: typer.Context, result: options.OutputFormat, width: int | None) -> TableFormat:
    from dcpinspect.render.timeline import NARROWEST  # deferred, as above

    format_ = choose_format(result.format_name, result.output)
    if format_ not in (TEXT, JSON):
        raise UsageError(f"--format {format_}: a timeline is text or one JSON object; streams, snapshots and gaps are tables in any format")
    options.refuse_unused(context, format_)
    if width is not None and not NARROWEST <= width <= WIDEST:
        raise UsageError(f"--width {width}: write a number from {NARROWEST} to {WIDEST}")
    return format_


def _seqnos(text: str) -> range:
    first, dash, last = text.partition("-")
    if (
        dash
        and all(word.isascii() and word.isdecimal() and len(word) <= 20 for word in (first, last))
        and int(first) <= int(last) < 1 << 64
    ):
        return range(int(first), int(last) + 1)
    raise UsageError(f"--seqnos {escape(text)}: write the first and the last seqno, as in 100-2000")


def _why_nothing(reading: Reading, vbucket: int, connection: str | None, filter_: str | None, bounds: tuple[int, int] | None) -> str:
    known = sorted(set(reading.tables.streams.values("vbucket")))
    if vbucket in known and bounds is not None:
        from dcpinspect.tables.times import in_words

        return f"no stream of vbucket {vbucket} is to be shown {in_words(bounds)}; streams --vbucket {vbucket} lists all"
    if vbucket in known and filter_ is not None:
        where = "" if connection is None else f" on --connection {escape(connection)}"
        return f"--filter {escape(filter_)}: true for no stream of vbucket {vbucket}{where}; streams --vbucket {vbucket} lists all"
    if vbucket in known:
        return f"--connection {escape(connection or '')}: no stream of vbucket {vbucket} is on it; streams --vbucket {vbucket} lists all"
    there = f"there are {_ranges(known)}" if known else "there is no stream at all"
    return f"--vbucket {vbucket}: no stream of this vbucket was captured; {there}"


def _ranges(numbers: Sequence[int], most: int = 20) -> str:
    """Writes sorted numbers in few words: ``1-5, 9``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    told = [f"{low}-{high}" if low < high else str(low) for low, high in spans[:most]]
    return ", ".join([*told, "…"] if len(spans) > most else told)


class _Gathered:
    """What is collected from the messages during the reading: system events, changes of state, and lines if they are wanted."""

    def __init__(self, with_lines: bool, width: int | None) -> None:
        """``width``: of lines."""
        self.noted: list[Noted] = []
        self.left_out = 0
        """Number of system events and changes of state that were not kept."""
        self._rows = array("q")
        self._times = array("q")
        self.with_lines = with_lines
        self._width = width
        self._lines: Lines | None = None
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> _Gathered:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, batch: MessageBatch, rows: Rows, reading: Reading) -> None:
        """Collects from a batch. ``rows``: the messages of the batch that are about the vbucket."""
        from dcpinspect.render.events import noted
        from dcpinspect.render.lines import Lines

        for one in noted(batch, rows):
            if len(self.noted) < MOST_NOTED:
                self.noted.append(one)
            else:
                self.left_out += 1
        if self.with_lines:
            if self._lines is None:
                self._lines = Lines(width=None if self._width is None else self._width - 4)
                self._lines.start_at(reading.first_time_ns or 0)
            for row in rows.tolist():
                self._file.write(f"{self._lines.line(batch, row)}\n".encode())
                self._rows.append(int(batch.row[row]))
                self._times.append(int(batch.time_ns[row]))

    def messages(self, is_wanted: Callable[[int], bool]) -> Iterator[tuple[int, str]]:
        """Yields row and line of each message whose time is wanted, in order."""
        self._file.seek(0)
        for row, time_ns, line in zip(self._rows, self._times, self._file, strict=True):
            if is_wanted(time_ns):
                yield row, "    " + line.decode().rstrip("\n")


class _Told:
    """The history, ready to be written."""

    def __init__(
        self,
        reading: Reading,
        vbucket: int,
        streams: Sequence[StreamStory],
        gathered: _Gathered,
        items: VbucketItems,
        bounds: tuple[int, int] | None,
    ) -> None:
        """``bounds``: of the span of time whose events are told."""
        from dcpinspect.render.events import by_stream, events

        self._vbucket = vbucket
        self._streams = streams
        self._gathered = gathered
        self._first_ns = reading.first_time_ns
        table = reading.tables.connections
        of_streams = {story.key[0] for story in streams}
        names = [column.name for column in table.table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*(table.values(name) for name in names), strict=True)]
        self._connections = {row["connection"]: row for row in rows if row["connection"] in of_streams}
        closed = {number: row["closed_by"] or "" for number, row in self._connections.items()}
        self._noted = by_stream(streams, gathered.noted)
        self._bounds = bounds
        told = events(streams, self._noted, closed, items.last_rows)
        self._events = told if bounds is None else [one for one, at in zip(told, self._times(told), strict=True) if self._is_within(at)]

    def _is_within(self, time_ns: int) -> bool:
        return self._bounds is None or self._bounds[0] <= time_ns < self._bounds[1]

    def _times(self, told: Sequence[Event]) -> Iterator[int]:
        """Yields the times of events. An event without a time has that of the event before, or of the end of its connection."""
        latest = 0
        for one in told:
            latest = latest if one.time_ns is None else one.time_ns
            yield self._connections[one.connection]["last_time"] if one.kind == "connection-closed" else latest

    def write_json(self, output: Target) -> None:
        """Writes the history as one JSON object."""
        from dcpinspect.export.json_table import plain_json

        shown = ("connection", "client", "server", "name", "verdict", "closed_by")
        told = {
            "schema": "dcpinspect.timeline/1",
            "vbucket": self._vbucket,
            "connections": [{name: row[name] for name in shown} for row in self._connections.values()],
            "streams": [record for story in self._streams for record in story.row.records()],
            "snapshots": [record for story in self._streams for record in story.snapshots.records()],
            "gaps": [record for story in self._streams for record in story.gaps.records()],
            "events": [event.record() for event in self._events],
        }
        output.put(plain_json(told) + b"\n")

    def write(self, output: Target, *, width: int | None, is_ascii: bool, span: range | None) -> None:
        """Writes the picture, then the events."""
        from dcpinspect.render import timeline as drawing
        from dcpinspect.render.lane_paint import Painted, legend, legend_lines, style_of
        from dcpinspect.render.lanes import ASCII, UNICODE

        glyphs = ASCII if is_ascii else UNICODE
        paint = output.painter()

        def put(text: str, style: str = "") -> None:
            output.put(paint(drawing.ascii_only(text) if is_ascii else text, style) + "\n")

        def put_painted(pieces: Sequence[Painted]) -> None:
            shown = [(drawing.ascii_only(text) if is_ascii else text, style_of(colour)) for text, colour in pieces]
            output.put("".join(paint(text, style) for text, style in shown) + "\n")

        scale = drawing.scale_of(self._streams, width=max(drawing.NARROWEST, width or drawing.WIDTH), seqnos=span)
        put(self._heading(scale), "bold")
        for number, row in self._connections.items():
            name = f"  {escape_rest(row['name'])}" if row["name"] else ""
            put(f"connection {number}  {row['client']} → {row['server']}{name}")
            own = [place for place, story in enumerate(self._streams) if story.key[0] == number]
            marks = [[(one.seqno, one.letter) for one in self._noted.get(place, ()) if one.seqno is not None] for place in own]
            for line in drawing.picture([self._streams[place] for place in own], scale, marks, width=width, glyphs=glyphs):
                put_painted(line)
        for line in ([], *(line for signs in legend(glyphs) for line in legend_lines(signs, width)), []):
            put_painted(line)
        self._write_events(put, width)
        if self._gathered.left_out:
            put(f"{self._gathered.left_out} more system events and changes of state are not shown")

    def _heading(self, scale: Scale) -> str:
        from dcpinspect.tables.times import in_words

        parts = [
            f"vb {self._vbucket}",
            _counted(len(self._connections), "connection"),
            _counted(len(self._streams), "stream"),
            f"seqnos {scale.first}–{scale.last}",
            f"a cell is {_counted(scale.step, 'seqno')}",
            *([in_words(self._bounds)] if self._bounds is not None else []),
        ]
        return " · ".join(parts)

    def _write_events(self, put: Callable[[str, str], None], width: int | None) -> None:
        """Writes one event per line; wanted messages follow the event that they show, or that they came after."""
        from dcpinspect.render.events import HEADING, event_line, folded
        from dcpinspect.render.lane_paint import style_of

        put(HEADING, "bold")
        messages = self._gathered.messages(self._is_within)
        waiting = next(messages, None)
        for event in self._events if self._gathered.with_lines else folded(self._events):
            while waiting is not None and waiting[0] < event.row:
                put(waiting[1], "")
                waiting = next(messages, None)
            style = style_of(_PAINTS.get(event.kind, ""))
            put(event_line(event, self._first_ns, width=width), f"bold {style}" if event.kind in _BOLD else style)
        while waiting is not None:
            put(waiting[1], "")
            waiting = next(messages, None)


_PAINTS = {
    **{"request": "kind-request", "first-seen": "kind-request", "snapshot": "kind-marker"},
    **{"system-event": "kind-system-event", "vbucket-state": "kind-system-event"},
    **{"stream-end": "kind-end", "connection-closed": "kind-end"},
}
"""Colours of events, by kind."""
_BOLD = ("request", "first-seen", "stream-end", "connection-closed")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
