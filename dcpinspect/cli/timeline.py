"""``dcpinspect timeline``: one vbucket's history, drawn along its seqnos and told by event."""

from __future__ import annotations

import operator
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format
from dcpinspect.cli.remarks import refuse_unless_damaged, remarks
from dcpinspect.cli.terminal import wants_ascii
from dcpinspect.closable import Closable
from dcpinspect.errors import UsageError
from dcpinspect.output.export.formats import JSON, TEXT, Format
from dcpinspect.text import counted, escape, escape_rest, wrap

if TYPE_CHECKING:
    from dcpinspect.output.export.target import Target
    from dcpinspect.output.render.lanes import Painted, Scale, Sign
    from dcpinspect.output.render.message_lines import Lines
    from dcpinspect.output.render.vbucket_history import VbucketHistory
    from dcpinspect.protocol.column_types import RowNumbers
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.story import StreamStory
    from dcpinspect.tables.messages import MessageBatch

IN_MEMORY = 16 << 20
"""Number of bytes of message lines that are kept in memory; more of them go to a temporary file."""
WIDEST = 1000


def timeline(
    context: typer.Context,
    captures: options.Captures,
    times: options.Times,
    result: options.OutputFormat,
    redaction: options.Redaction,
    input_: options.Input,
    vbucket: Annotated[int | None, {"min": 0, "max": 65535}] = None,
    connection: options.Connections = None,
    seqnos: str | None = None,
    filter_: Annotated[
        str | None, options.filter_option("streams", "answer = 'accepted' and gaps > 0")
    ] = None,
    messages: bool = False,
    width: int | None = None,
    ascii_: options.Ascii = False,
) -> int:
    """Show one vbucket: its streams along their seqnos, then every request, snapshot, gap, end and
    finding in order.

    Options:
    --vbucket N: The vbucket. By default, it is the only one that was captured.
    --seqnos A-B: Draw these seqnos only. By default, all are drawn.
    --messages: Below each event, also print the messages of the vbucket, as read does.
    --width COLUMNS: The width of lines. By default, it is the width of the terminal.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.output.render.vbucket_history import VbucketHistory
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.table_columns import STREAMS

    format_ = _format(context, result, width)
    drawn = _seqnos(seqnos) if seqnos is not None else None
    connections = options.connections_in(connection)
    only = options.record_filter(filter_, STREAMS, context.obj)
    span, redactor = times.span_of_whole(), redaction.redactor()
    ports = input_.ports.reading_arguments()
    if vbucket is None:
        with Reading(captures, **ports) as reading:
            vbucket = _only_vbucket(reading)
    with Reading(captures, **ports) as reading:
        reading.check(redactor=redactor, vbucket=vbucket)
        history = VbucketHistory(vbucket, connections)
        with (
            result.target(format_, captures) as target,
            _Messages(width or target.width()) as lines,
        ):
            for batch in interrupts.batches(reading.capture, reading):
                rows = history.feed(batch.redacted(redactor))
                if messages:
                    lines.add_lines(batch.redacted(redactor), rows, reading)
            bounds = (
                span.within(reading.earliest_ns, reading.last_time_ns) if span is not None else None
            )
            findings = reading.findings(
                wanted=lambda case, _: vbucket in (case.vbuckets or (vbucket,))
            )
            history.read(reading, reading.by_name(), only, bounds, findings)
            if not history.streams and reading.messages:
                refuse_unless_damaged(
                    reading, _why_nothing(reading, vbucket, connection, filter_, bounds)
                )
            if format_ is JSON:
                _write_json(history, target)
            elif history.streams:
                messages_at = lines if messages else None
                is_ascii = ascii_ or wants_ascii()
                _Picture(history, messages_at, target, width or target.width(), is_ascii).write(
                    drawn
                )
        return remarks(reading, stats=input_.stats)


def _only_vbucket(reading: Reading) -> int:
    """Returns the vbucket of captures that have one. Raises UsageError, which leads on."""
    capture = reading.named[0]
    leads = "'dcpinspect vbuckets' lists them"
    if reading.capture.size is not None:  # it can be read again
        reading.track()
        for _ in interrupts.batches(reading.capture, reading):
            pass
        vbuckets = sorted(set(reading.tables.streams.values("vbucket")))
        if len(vbuckets) == 1:
            return int(vbuckets[0])
        if vbuckets:
            from dcpinspect.findings.finding import ranges  # deferred: most name a vbucket

            leads = (
                f"there are {ranges(vbuckets)}, as in 'dcpinspect timeline {escape(capture)} "
                f"--vbucket {vbuckets[0]}'; {leads}"
            )
        else:
            leads = "there is no stream at all"
    raise UsageError(f"--vbucket is missing; {leads}")


def _format(context: typer.Context, result: options.OutputFormat, width: int | None) -> Format:
    from dcpinspect.output.render.timeline_text import NARROWEST  # deferred, as above

    format_ = choose_format(result.format_name, result.output)
    if format_ not in (TEXT, JSON):
        raise UsageError(
            f"--format {format_}: a timeline is text or one JSON object; streams, snapshots "
            "and gaps are tables in any format"
        )
    options.refuse_unused(context, format_)
    if width is not None and not NARROWEST <= width <= WIDEST:
        raise UsageError(f"--width {width}: write a number from {NARROWEST} to {WIDEST}")
    return format_


def _write_json(history: VbucketHistory, target: Target) -> None:
    from dcpinspect.output.export.bounded import command_bound, fitted  # deferred, as above
    from dcpinspect.output.export.json_table import plain_json

    record = history.to_dict()
    if command_bound.room is not None:
        record = fitted(record, command_bound.room)
    target.write_piece(plain_json(record) + b"\n")


def _seqnos(text: str) -> range:
    first, dash, last = text.partition("-")
    if (
        dash
        and all(word.isascii() and word.isdecimal() and len(word) <= 20 for word in (first, last))
        and int(first) <= int(last) < 1 << 64
    ):
        return range(int(first), int(last) + 1)
    raise UsageError(f"--seqnos {escape(text)}: write the first and the last seqno, as in 100-2000")


def _why_nothing(
    reading: Reading,
    vbucket: int,
    connection: str | None,
    filter_: str | None,
    bounds: tuple[int, int] | None,
) -> str:
    vbuckets = sorted(set(reading.tables.streams.values("vbucket")))
    if vbucket not in vbuckets:
        from dcpinspect.findings.finding import ranges  # deferred: most captures have the vbucket

        there = f"there are {ranges(vbuckets)}" if vbuckets else "there is no stream at all"
        return f"--vbucket {vbucket}: no stream of this vbucket was captured; {there}"
    option = f"--connection {escape(connection or '')}"
    if bounds is not None:
        from dcpinspect.tables.times import in_words

        reason = f"no stream of vbucket {vbucket} is to be shown {in_words(bounds)}"
    elif filter_ is not None:
        where = "" if connection is None else f" on {option}"
        reason = f"--filter {escape(filter_)}: true for no stream of vbucket {vbucket}{where}"
    else:
        reason = f"{option}: no stream of vbucket {vbucket} is on it"
    return f"{reason}; 'dcpinspect streams --vbucket {vbucket}' lists all"


class _Messages(Closable):
    """The lines of the vbucket's messages, in a temporary file if there are many."""

    def __init__(self, width: int | None) -> None:
        """``width``: of lines."""
        self._rows = array("q")
        self._times = array("q")
        self._width = width
        self._lines: Lines | None = None
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by close

    def close(self) -> None:
        """Removes the file."""
        self._file.close()

    def add_lines(self, batch: MessageBatch, rows: RowNumbers, reading: Reading) -> None:
        """Makes the lines of these rows of a batch."""
        from dcpinspect.output.render.message_lines import Lines

        if self._lines is None:
            self._lines = Lines(width=None if self._width is None else self._width - 4)
            self._lines.start_at(reading.first_time_ns or 0)
        for row in rows.tolist():
            self._file.write(f"{self._lines.line(batch, row)}\n".encode())
            self._rows.append(int(batch.row[row]))
            self._times.append(int(batch.time_ns[row]))

    def lines_at(self, is_wanted: Callable[[int], bool]) -> Iterator[tuple[int, int, str]]:
        """Yields row, time and line of each message whose time is wanted, in order."""
        self._file.seek(0)
        for row, time_ns, line in zip(self._rows, self._times, self._file, strict=True):
            if is_wanted(time_ns):
                yield row, time_ns, "    " + line.decode().rstrip("\n")


class _Picture:
    """Writes the lanes of a history, then its events."""

    def __init__(
        self,
        history: VbucketHistory,
        messages: _Messages | None,
        output: Target,
        width: int | None,
        is_ascii: bool,
    ) -> None:
        """``messages``: those to print below the events."""
        from dcpinspect.output.render.lanes import style_of
        from dcpinspect.output.render.timeline_text import ascii_only

        self._history = history
        self._own_findings = {
            event.row: event.paint
            for event in history.events[::-1]
            if event.severity and event.cause is None
        }
        """Colours of findings, by row of what they are about."""
        self._messages = messages
        self._width = width
        self._is_ascii = is_ascii
        self._output = output
        self._paint = output.painter()
        self._style_of = style_of
        self._ascii_only = ascii_only

    def _write_pieces(self, pieces: Iterable[tuple[str, str]]) -> None:
        """Writes a line. ``pieces``: texts, and their styles."""
        painted = (
            self._paint(self._ascii_only(text) if self._is_ascii else text, style)
            for text, style in pieces
        )
        self._output.write_piece("".join(painted) + "\n")

    def _write_line(self, text: str, style: str = "") -> None:
        self._write_pieces([(text, style)])

    def _put_painted(self, pieces: Sequence[Painted]) -> None:
        self._write_pieces((text, self._style_of(colour)) for text, colour in pieces)

    def write(self, span: range | None) -> None:
        """Writes everything. ``span``: the seqnos that are drawn; None: all."""
        self._write_lanes(span)
        self._write_events()
        if self._history.left_out:
            self._write_line(
                f"{self._history.left_out} more system events and changes of state are not shown"
            )
        self._write_line(_outcome(self._history), "dim")

    def _write_lanes(self, span: range | None) -> None:
        """Writes the heading, the lanes of each connection, and a legend of what they have."""
        from dcpinspect.output.render import timeline_text as drawing
        from dcpinspect.output.render.lanes import (
            ASCII,
            ITEMS,
            REFUSED,
            UNICODE,
            legend,
            legend_lines,
        )
        from dcpinspect.streams.tcp_facts import client_text

        glyphs, width, history = ASCII if self._is_ascii else UNICODE, self._width, self._history
        seqnos = drawing.seqnos_of(history.streams, span)
        scale = drawing.scale_of(seqnos, width=max(drawing.NARROWEST, width or drawing.WIDTH))
        for heading_line in wrap(self._heading(seqnos, scale), width, "    "):
            self._write_line(heading_line, "bold")
        seen = set[tuple[str, str]]()
        for number, row in history.connections.items():
            name = f"  {escape_rest(row['name'])}" if row["name"] else ""
            client = client_text(row["client"], row["origin"])
            heading = f"connection {number}  {client} → {row['server']}{name}"
            for heading_line in wrap(heading, width, "    "):
                self._write_line(heading_line)
            streams, marks = _streams_of(history, number)
            lines = drawing.picture(
                streams, scale, marks, refusals=self._own_findings, width=width, glyphs=glyphs
            )
            for line in lines:
                self._put_painted(line)
                seen.update((glyph, paint) for text, paint in line for glyph in text)
        self._put_painted([])

        def is_seen(sign: Sign) -> bool:
            return any(
                paint in (sign.paint, *self._own_findings.values())
                if glyph == sign.glyph == REFUSED
                else paint == sign.paint and (glyph in sign.glyph or paint == ITEMS)
                for glyph, paint in seen
            )

        def plain(sign: Sign) -> Sign:
            return sign._replace(paint="") if sign.glyph == REFUSED else sign

        legends = [
            line
            for signs in legend(glyphs)
            if (shown_signs := [plain(sign) for sign in signs if is_seen(sign)])
            for line in legend_lines(shown_signs, width)
        ]
        for line in [*legends, []] if legends else ():
            self._put_painted(line)

    def _heading(self, seqnos: tuple[int, int], scale: Scale) -> str:
        from dcpinspect.output.render.event_lines import seqnos_text
        from dcpinspect.tables.times import in_words

        history = self._history
        opened = sum(story.is_opened for story in history.streams)
        facts = [
            f"vb {history.vbucket}",
            counted(len(history.connections), "connection"),
            counted(opened, "stream"),
            *(
                [seqnos_text(*seqnos), f"a cell is {counted(scale.step, 'seqno')}"]
                if opened
                else []
            ),
            *([in_words(history.bounds)] if history.bounds is not None else []),
        ]
        return " · ".join(facts)

    def _write_events(self) -> None:
        """Writes the events; wanted messages follow the event that they show, or came after."""
        from dcpinspect.output.render.event_lines import WITHOUT_MESSAGE, folded, told_once
        from dcpinspect.output.render.palette import PAINTS

        history = self._history
        events = history.events if self._messages is not None else folded(history.events)
        events = list(told_once(events))
        lines = history.lines(events, self._width)
        self._write_line(lines.heading, "bold")
        messages = (
            iter(()) if self._messages is None else self._messages.lines_at(history.is_within)
        )
        waiting = next(messages, None)
        for event in events:
            # what no message shows has only a time
            until_ns = event.time_ns if event.kind in WITHOUT_MESSAGE else None
            while waiting is not None and (
                waiting[0] < event.row if until_ns is None else waiting[1] <= until_ns
            ):
                self._write_line(waiting[2])
                waiting = next(messages, None)
            is_own = event.severity is not None and event.cause is None
            paint = event.paint
            if event.answer == "refused":  # what findings say counts for more
                paint = self._own_findings.get(event.row, paint)
            # causes have no background in a list: it would be that of a whole line
            style = "dim" if event.cause is not None else PAINTS[paint].text if paint else ""
            for line in lines.lines_of(event):
                self._write_line(line, f"bold {style}" if is_own or event.kind in _BOLD else style)
        while waiting is not None:
            self._write_line(waiting[2])
            waiting = next(messages, None)


def _streams_of(
    history: VbucketHistory, connection: int
) -> tuple[list[StreamStory], list[list[tuple[int, str]]]]:
    """Returns the streams of a connection, and the marks of each: seqnos and letters."""
    ends = (event for event in history.events if event.kind == "connection-closed")
    closed = {(event.connection, event.sid, event.stream) for event in ends}
    streams, marks = [], list[list[tuple[int, str]]]()
    for number, story in enumerate(history.streams):
        stream = story.stream
        if stream["connection"] == connection:
            streams.append(story)
            notes = [(event.seqno, event.letter) for event in history.noted.get(number, ())]
            # without an answer the connection alone ends, and no stream
            key = connection, stream["sid"], stream["stream"]
            if stream["end_reason"] is None and key in closed:
                last = stream["last_seqno"]
                notes.append((stream["requested_start"] if last is None else last, "C"))
            marks.append([(seqno, letter) for seqno, letter in notes if seqno is not None])
    return streams, marks


def _outcome(history: VbucketHistory) -> str:
    """Returns how many findings stand among the events, those of the vbucket as the table of
    vbuckets counts them, and which command says more of them.
    """
    causes = {event.finding for event in history.events if event.severity and event.cause is None}
    counts = Counter(
        ("" if finding.vbuckets else " about its connection", finding.severity)
        for finding in history.findings
        if finding.id in causes
    )
    explained = sum(event.cause is not None for event in history.events)
    in_order = sorted(counts.items())  # of vbuckets first, and errors before warnings
    of_vbucket, of_connections = (
        [f"{counted(number, level)}{where}" for (where, level), number in in_order if test(where)]
        for test in (operator.not_, bool)
    )
    facts = [
        " and ".join(of_vbucket),
        *of_connections,
        "" if counts else "no errors or warnings",
        f"{explained} explained by others" if explained else "",
    ]
    is_own = not of_connections and any(finding.vbuckets for finding in history.findings)
    only = f" --vbucket {history.vbucket}" if is_own else ""
    says = "says what to do" if counts else "says more"
    return f"{', '.join(filter(None, facts))}; check{only} {says}"


_BOLD = ("request", "first-seen")
