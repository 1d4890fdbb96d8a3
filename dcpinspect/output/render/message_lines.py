"""One line per message: what happened, when, between which ends, on which vbucket.

The line is made from columns, so that a long list needs no annotation. Only messages whose story is
in their value are annotated (HELLO, control, stream requests and their answers, errors …).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.features import feature_name
from dcpinspect.protocol.fields import FieldKind, Layout, bit_names
from dcpinspect.protocol.flags import END_FLAGS, ENDLESS
from dcpinspect.protocol.header import HEADER_SIZE, Magic
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.layouts.stream_commands import FAILOVER_LOG
from dcpinspect.protocol.message import Message
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, opcode_code
from dcpinspect.protocol.roles import NAMES_VBUCKET
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams.collections import named_collections, named_scope, said_by_event
from dcpinspect.streams.session import json_object
from dcpinspect.tables.collection_names import NamesAt, unnamed, with_id
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import clip, escape

TimeFormat = Literal["relative", "absolute", "local", "epoch", "delta", "day", "request"]
"""``day``: time of day. ``request``: for a response, the time since its request. Both are for lists
that show one message beside others.
"""

ARROWS = ("→", "←")
_TIME_WIDTHS = {"absolute": 29, "local": 34, "epoch": 20, "day": 15}
_TIME_TITLES = {
    "absolute": "Time UTC",
    "local": "Time here",
    "epoch": "Time since 1970",
    "delta": "Delta",
    "day": "Time UTC",
    "request": "Since req.",
}
ENOUGH = 60
"""Number of columns for the summary below which opaque and size are left out, and all columns are
as narrow as what they hold.
"""
SAID_ONCE = (Opcode.HELLO, Opcode.SASL_AUTH, Opcode.SASL_STEP)
"""Commands whose answers need not repeat the key of the request."""
_MOST_ASKED = 8
"""Number of collections of a stream request that its line names."""
_MOST_REASON = 1000
"""Columns of the reason of a refusal, for lines that have as many."""
_LONGEST_LOG, _LONGEST_HELLO = 1600, 200
"""Greatest size in bytes of a failover log, and of a HELLO, that is told without annotation.
Servers keep 25 log entries of 16 bytes.
"""
REQUEST_KEY_WIDTH = 40
"""Number of columns for the key of a request in the line of its response."""
NARROW = 110
"""Width of a terminal, in columns, below which opaque and size are left out, if nobody knows what
the columns hold.
"""
ALL_KNOWN = 5_000
"""Number of messages below which a first batch is taken for all: columns need no room for more."""


def share_of(share: int, total: int) -> str:
    """Returns a share of bytes in words, rounded down: 100 % only if nothing is left out."""
    return f"{share * 1000 // total / 10:g} %" if total else "none"


def short_name(name: str) -> str:
    """Returns a command's name for lists: without ``dcp_`` if it stays unique."""
    short = name.removeprefix("dcp_")
    return short if opcode_code(short) is None else name


class ColumnWidths(NamedTuple):
    """Widths of the columns before the summary."""

    row: int
    connection: int
    title: int
    vbucket: int
    seqno: int


_WIDE, _COMPACT = ColumnWidths(9, 3, 27, 5, 12), ColumnWidths(7, 2, 19, 4, 8)
_WIDEST_NAME = len("dcp_get_failover_log")
"""Width up to which the name of a command before a vbucket is whole also in narrow lines."""


class Lines:
    """Makes the lines of a reading; remembers the first and the last time."""

    def __init__(
        self,
        time_format: TimeFormat = "relative",
        *,
        width: int | None = None,
        narrow: int = NARROW,
    ) -> None:
        """``width``: columns of a line; None: no limit. ``narrow``: width below which opaque and
        size are left out.
        """
        self.time_format = time_format
        self.width = width
        self.is_narrow = width is not None and width < narrow
        self.columns = _COMPACT if self.is_narrow else _WIDE
        self.time_width = _TIME_WIDTHS.get(time_format, 10 if self.is_narrow else 13)
        self._has_start, self._first, self._last = False, 0, 0

    def fit(self, batch: MessageBatch, rows: RowNumbers, limit: int | None = None) -> None:
        """Makes the columns as narrow as their content, if lines have a width or these messages are
        all. ``rows``: the first messages, or all if they are few. ``limit``: number of messages that
        are shown at most.
        """
        decoded = batch.decoded
        is_all = len(batch) < ALL_KNOWN or (limit is not None and len(rows) >= limit)
        if not len(rows) or (self.width is None and not is_all):
            return
        kinds = [
            *(
                decoded.opcode,
                decoded.is_response,
                np.where(decoded.is_response, decoded.specific, 0),
            ),
            *(decoded.is_server, decoded.generation, decoded.layout),
        ]
        _, first = np.unique(
            np.stack([np.asarray(kind)[rows].astype(np.int64) for kind in kinds]),
            axis=1,
            return_index=True,
        )
        titles = [title(batch, index) for index in rows[first].tolist()]
        before_vbuckets = batch.vbucket.is_known[rows[first]].tolist()
        seqnos = decoded.numbers.get("by_seqno")
        seqnos = None if seqnos is None else seqnos.take(rows)
        greatest = 0 if seqnos is None else int(seqnos.values[seqnos.is_known].max(initial=0))
        fitting = ColumnWidths(
            max(3 if is_all else 7, len(str(int(batch.row[rows].max())))),
            max(2, len(str(int(batch.connection[rows].max())))),
            max(map(len, ("Message", *titles))),
            max(2, len(str(int(batch.vbucket.values[rows].max())))),
            max(5 if is_all else 8, len(str(greatest))),
        )
        if self.time_format in ("relative", "delta"):
            self.start_at(int(batch.time_ns[rows[0]]))
            self.time_width = max(
                8 if is_all else 10,
                min(13, len(seconds_text(int(batch.time_ns[rows].max()) - self._first))),
            )
        self.columns, self.is_narrow = fitting, False
        if self.width is not None and self.width - self.summary_at < ENOUGH:
            self.is_narrow = True
            room = fitting.title + self.width - self.summary_at - ENOUGH
            names = (name.partition(" ")[0] for name in compress(titles, before_vbuckets))
            named = min(max(map(len, names), default=0), _WIDEST_NAME)
            title_width = min(fitting.title, max(_COMPACT.title, named, room))
            self.columns = fitting._replace(title=title_width)

    def heading(self) -> str:
        """Returns the heading above the columns."""
        row, connection, title, vbucket, seqno = self.columns
        time = f"{_TIME_TITLES.get(self.time_format, 'Time'):>{self.time_width}}"[: self.time_width]
        more, gap = ("", "") if self.is_narrow else (f" {'Opaque':>10}", f" {'Bytes':>8} ")
        return self._clipped(
            f"{'Row':>{row}} {time} {'Con':<{connection + 1}} {'Message':<{title}} "
            f"{'vb':>{vbucket}}{more} {'Seqno':>{seqno}}{gap} Summary"
        )

    @property
    def summary_at(self) -> int:
        """Column where the summary begins in a line."""
        return sum(self.columns) + self.time_width + (7 if self.is_narrow else 28)

    def _clipped(self, text: str) -> str:
        return (text if self.width is None else clip(text, self.width)).rstrip()

    def line(self, batch: MessageBatch, index: int) -> str:
        """Returns the line of the next message; safe for a terminal."""
        return self.line_at(
            batch, index, int(self.shown_times(batch.time_ns[index : index + 1])[0])
        )

    def line_at(self, batch: MessageBatch, index: int, shown_ns: int | None) -> str:
        """Returns the line of a message with its time from ``shown_times``; None: no time."""
        cell = self.cells(batch, index, shown_ns)
        return self._clipped(self.line_of(cell))

    def line_of(self, cell: Mapping[str, str]) -> str:
        """Returns the line with these cells, before it is clipped."""
        row, connection, _, vbucket_width, seqno = self.columns
        more, gap = ("", "") if self.is_narrow else (f" {cell['Opaque']}", f" {cell['Bytes']:>8} ")
        numbers = f" {cell['vb']:>{vbucket_width}}{more} {cell['Seqno']:>{seqno}}{gap}"
        free = len(numbers) if self.is_narrow and numbers.isspace() else 0
        title, status = self._title_and_status(cell["Message"], free)
        summary = "  ".join(filter(None, (status, cell["Summary"])))
        return (
            f"{cell['Row']:>{row}} {cell['Time']:>{self.time_width}}"
            f" {cell['Con']:>{connection + 1}} {title}{numbers if not free else ''} {summary}"
        )

    def cells(self, batch: MessageBatch, index: int, shown_ns: int | None) -> dict[str, str]:
        """Returns what the columns of a line say, by their heading."""
        vbucket = batch.vbucket_of(index)
        return {
            "Row": f"{int(batch.row[index])}",
            "Time": self.time_text(shown_ns),
            "Con": f"{int(batch.connection[index])}{ARROWS[int(batch.direction[index])]}",
            "Message": title(batch, index),
            "vb": "" if vbucket is None else f"{vbucket}",
            "Opaque": f"0x{int(batch.decoded.opaque[index]):08x}",
            "Seqno": seqno_text(batch, index),
            "Bytes": f"{int(batch.length[index])}",
            "Summary": summary(batch, index, is_narrow=self.is_narrow),
        }

    def _title_and_status(self, title: str, free: int) -> tuple[str, str]:
        """Returns the command of a title, as wide as its column, with its status or generation where
        both fit; else this is the second text, which the summary begins with. Of a command that is
        too long the end stays, as several begin alike. ``free``: columns behind it that are empty.
        """
        width, status = self.columns.title + free, ""
        if self.is_narrow and len(title) > width:
            command, space, status = title.rpartition(" ")
            title = command if space else status
            status = status if space else ""
            if len(title) > width:
                title = f"…{title[1 - width :]}"
        return f"{title:<{width}}", status

    def shown_times(self, times_ns: RowNumbers) -> RowNumbers:
        """Returns the times, in nanoseconds, that the lines of messages with these times show;
        ``time_text`` writes them as text.
        """
        if not len(times_ns):
            return times_ns
        self.start_at(int(times_ns[0]))
        before = np.append(self._last, times_ns[:-1])
        self._last = int(times_ns[-1])
        if self.time_format == "relative":
            return times_ns - self._first
        return times_ns - before if self.time_format == "delta" else times_ns

    def time_text(self, shown_ns: int | None) -> str:
        """Returns a time as the lines show it."""
        if shown_ns is None or not self.time_width:
            return ""
        if self.time_format == "day":
            return f"{datetime.fromtimestamp(shown_ns // 10**9, UTC):%H:%M:%S}.{shown_ns % 10**9 // 1000:06}"
        if self.time_format == "absolute":
            return f"{datetime.fromtimestamp(shown_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}.{shown_ns % 10**9:09}"
        if self.time_format == "local":
            local_time = datetime.fromtimestamp(shown_ns // 10**9, UTC).astimezone()
            return f"{local_time:%Y-%m-%d %H:%M:%S}.{shown_ns % 10**9:09}{local_time:%z}"
        if self.time_format == "epoch":
            return f"{shown_ns // 10**9}.{shown_ns % 10**9:09}"
        return seconds_text(shown_ns)

    def start_at(self, time_ns: int) -> None:
        """Sets the first packet's time, from which relative times count; later calls do nothing."""
        if not self._has_start:
            self._first, self._last, self._has_start = time_ns, time_ns, True


def seconds_text(nanoseconds: int) -> str:
    """Writes nanoseconds as seconds with six digits."""
    sign = "-" if nanoseconds < 0 else ""
    seconds, fraction_ns = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{sign}{seconds}.{fraction_ns // 1000:06}"


def title(batch: MessageBatch, index: int) -> str:
    """Names a message in a word or two: command, and status or generation."""
    decoded = batch.decoded
    name = short_name(batch.name_of(index))
    if decoded.is_response[index]:
        status = int(decoded.specific[index])
        return f"{name} {'ok' if status == Status.SUCCESS else status_name(status)}"
    is_server = bool(decoded.is_server[index])
    generation = batch.generation_of(index)
    suffix = _generation_text(int(decoded.opcode[index]), generation, name, is_server=is_server)
    return " ".join(filter(None, (name, suffix)))


def _generation_text(opcode: int, generation: str | None, name: str, *, is_server: bool) -> str:
    """Returns the generation of a request, if its command has several; else an empty text."""
    layouts = layouts_of(opcode, "request", server=is_server)
    is_told = len({layout.generation for layout in layouts}) > 1
    is_usual = generation == "v1" and name == "mutation"
    return generation if generation is not None and is_told and not is_usual else ""


def seqno_text(batch: MessageBatch, index: int) -> str:
    """Returns the seqno of a message, or the range of a marker; empty if it has none."""
    start, end = batch.shown_number("start_seqno", index), batch.shown_number("end_seqno", index)
    if (
        batch.decoded.opcode[index] == Opcode.DCP_SNAPSHOT_MARKER
        and start is not None
        and end is not None
    ):
        return f"{start}–{end}"
    seqno = batch.shown_number("by_seqno", index)
    return "" if seqno is None else str(seqno)


def summary(batch: MessageBatch, index: int, *, is_narrow: bool = False) -> str:
    """Returns what the line of a message says besides its columns; safe for a terminal.
    ``is_narrow``: names of collections without ids.
    """
    decoded = batch.decoded
    key, shown_key = batch.key_of(index), ""
    if key is not None:
        shown_key = key_prefix(batch, index, is_narrow=is_narrow) + escape(key)
    elif int(decoded.opcode[index]) not in SAID_ONCE and (
        request_key := batch.request_key_of(index)
    ):
        shown_key = clip(escape(request_key), REQUEST_KEY_WIDTH)
    rtt, problem = batch.rtt_ns.value_at(index), batch.problem_of(index)
    missing = batch.missing.ranges_of(index) if len(batch.missing.row) else ()
    return summary_of(
        {
            "sid": decoded.sid.value_at(index),
            "key": shown_key,
            "datatypes": datatypes(int(decoded.datatype[index])),
            "prepared": batch.shown_number("prepared_seqno", index),
            "story": body_text(batch, index),
            "rtt": None if rtt is None else f"{rtt / 1e6:.3f}",
            "lost": sum(end - start for start, end in missing) or None,
            "problem": None if problem == "truncated" else problem,
            "sync": "its beginning is not proven" if batch.heuristic[index] else None,
        }
    )


def record_cells(record: Mapping[str, Any], connection: int, time: str) -> dict[str, str]:
    """Returns what the columns of a line say of a row of the table of messages, by their heading,
    without its number; what only bytes of the message tell is left out, but for its value as
    ``body``, where that is known. ``time``: as it is shown.
    """
    opcode, is_response = int(record["opcode"]), record["side"] == "response"
    is_server = record["magic"] in (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)
    name, seqnos = short_name(record["name"]), (record["start_seqno"], record["end_seqno"])
    is_range = opcode == Opcode.DCP_SNAPSHOT_MARKER and None not in seqnos
    story = STORIES.get((is_server, is_response, opcode))
    is_refusal = is_response and record["status"] not in (Status.SUCCESS, Status.ROLLBACK)
    collection = record["collection_id"]
    key = record["key"] if not is_response or opcode not in SAID_ONCE else None
    rtt = record["rtt_ns"]
    summary_values = {
        "sid": record["sid"],
        "key": f"{f'{unnamed(collection)}:' if collection and key else ''}{escape(key or '')}",
        "datatypes": "  ".join(record["datatype"] or ()),
        "prepared": record["prepared_seqno"],
        "story": "" if story is None or is_refusal else _record_story(story, record),
        "rtt": None if rtt is None else f"{rtt / 1e6:.3f}",
        "lost": record["missing_bytes"] or None,
        "problem": None if record["problem"] == "truncated" else record["problem"],
    }
    status = "ok" if record["status"] == Status.SUCCESS else record["status_name"]
    generation = _generation_text(opcode, record["layout"], name, is_server=is_server)
    has_vbucket = not is_server and NAMES_VBUCKET[opcode] and record["vbucket"] is not None
    return {
        "Time": time,
        "Con": f"{connection or ''}{ARROWS[record['direction'] == 's2c']}",
        "Message": " ".join(filter(None, (name, status if is_response else generation))),
        "vb": f"{record['vbucket']}" if has_vbucket else "",
        "Opaque": f"0x{record['opaque']:08x}",
        "Seqno": "{}–{}".format(*seqnos) if is_range else _text(record["by_seqno"]),
        "Bytes": f"{record['length']}",
        "Summary": summary_of(summary_values),
    }


def _text(value: object) -> str:
    return "" if value is None else ", ".join(value) if isinstance(value, list) else str(value)


def _record_story(story: Callable[[Message], str], record: Mapping[str, Any]) -> str:
    """Returns what the body of a message says, from its row in the table of messages."""
    if story is _stream_request:
        numbers = {name: value for name, value in record.items() if value is not None}
        return _request_text(numbers, _text(record["flags"]), record.get("body") or "")
    if story is _control:
        return f"= {record['body']}" if record.get("body") else ""
    if story is _failover_log:
        rollback, log = record["rollback_seqno"], record["failover_log"]
        if log:
            return _log_text(len(log), log[0]["uuid"], log[0]["seqno"])
        return "" if rollback is None else f"to {rollback}"
    if story is _event:
        return _event_text(_text(record["event"]), record, {})
    if story is _stream_opaque:
        return f"opaque 0x{record['stream_opaque']:08x}" if record["stream_opaque"] else ""
    fields = story.parts if isinstance(story, Story) else ()
    texts = [field.of_value(record.get(field.field)) for field in fields]
    return ", ".join(filter(None, texts))


_SUMMARY = {
    "sid": "sid {}",
    "prepared": "prepared {}",
    "rtt": "after {} ms",
    "lost": "{} bytes not captured",
    "problem": "! {}",
    "sync": "? {}",
}
"""Words around parts of a summary."""


def summary_of(parts: Mapping[str, object]) -> str:
    """Returns the summary with these parts, in order; None and empty ones are left out."""
    return "  ".join(
        _SUMMARY.get(name, "{}").format(content)
        for name, content in parts.items()
        if content is not None and content != ""
    )


def body_text(batch: MessageBatch, index: int) -> str:
    """Returns what the body of a message says: its story, or the text of a refusal."""
    decoded = batch.decoded
    is_response = bool(decoded.is_response[index])
    if is_response and int(decoded.specific[index]) not in (Status.SUCCESS, Status.ROLLBACK):
        return _text_value(batch.annotate(index)) if decoded.value.size[index] > 0 else ""
    story = STORIES.get((bool(decoded.is_server[index]), is_response, int(decoded.opcode[index])))
    if story is None:
        return ""
    of_columns, layout = _OF_COLUMNS.get(story), batch.layout_of(index)
    if of_columns is not None and layout is not None and _is_plain(batch, index, layout):
        story_text = of_columns(batch, index, layout)
        if story_text is not None:
            return story_text
    message = batch.annotate(index)
    return "  ".join(
        text
        for text in (story(message), _requested_collections(message, batch.names_at(index)))
        if text
    )


@dataclass(frozen=True, slots=True)
class WordField:
    """Part of a story: a field with flags or an enumeration, in words."""

    field: str
    otherwise: str = ""
    """Text if there are no words."""

    def text_of(self, message: Message) -> str:
        """Returns the words of a message."""
        return _words(message, self.field) or self.otherwise

    def of_value(self, words: object) -> str:
        """Returns the words of a column's value."""
        return _text(words) or self.otherwise


@dataclass(frozen=True, slots=True)
class NumberField:
    """Part of a story: a number of the message, and its label."""

    field: str
    label: str
    tells_zero: bool = True

    def text_of(self, message: Message) -> str:
        """Returns label and number; empty if the message has no such number."""
        return self.of_value(_field_values(message).get(self.field))

    def of_value(self, number: object) -> str:
        """Returns label and number, from a column's value."""
        return "" if number is None or not (number or self.tells_zero) else f"{self.label} {number}"


@dataclass(frozen=True, slots=True)
class Story:
    """A story from fields at fixed places: its parts, separated by commas."""

    parts: tuple[WordField | NumberField, ...]

    def __call__(self, message: Message) -> str:
        """Returns the story of one message."""
        return ", ".join(text for field in self.parts if (text := field.text_of(message)))


def key_prefix(batch: MessageBatch, index: int, *, is_narrow: bool = False) -> str:
    """Returns the collection that stands before a document's key, without its id if ``is_narrow``;
    empty for the default collection.
    """
    layout = batch.layout_of(index)
    # only keys of documents have a prefix, and names of collections do not
    has_prefix = layout is not None and layout.key is not None and layout.key.kind is FieldKind.KEY
    number = batch.decoded.collection_id.value_at(index) if has_prefix else None
    if not number:
        return ""
    name = batch.names.known_collection(int(batch.connection[index]), number, int(batch.row[index]))
    if name is None:
        return f"{unnamed(number)}:"
    return f"{escape(name if is_narrow else with_id(name, number))}:"


def datatypes(bits: int) -> str:
    """Returns how the value is encoded, in words."""
    return "  ".join(DATATYPE_NAMES[bits])


def _requested_collections(message: Message, names: NamesAt) -> str:
    """Returns names and ids of the collections, or of the scope, in a stream request, if one of the
    names is known.
    """
    if (
        message.name != "dcp_stream_req"
        or message.header is None
        or message.header.side != "request"
        or message.value is None
    ):
        return ""
    stream_filter = json_object(message.value.body) or {}
    numbers, scope = sorted(named_collections(stream_filter) or ()), named_scope(stream_filter)
    named_ids = (
        [(names.collection(number), number) for number in numbers]
        if scope is None
        else [(names.scope(scope), scope)]
    )
    if all(name is None for name, _ in named_ids):
        return ""
    names_shown = [name or unnamed(number) for name, number in named_ids[:_MOST_ASKED]] + ["…"] * (
        len(named_ids) > _MOST_ASKED
    )
    return escape(("for " if scope is None else "for scope ") + ", ".join(names_shown))


def _field_values(message: Message) -> dict[str, int | str]:
    """Returns the values of the outermost fields that are numbers or text, and complete."""
    return {
        field.name: field.value for field in message.fields if isinstance(field.value, int | str)
    }


def _words(message: Message, name: str) -> str:
    """Returns a field with flags or an enumeration in words."""
    field = message.field(name)
    if field is None or field.spec is None or not isinstance(field.value, int):
        return ""
    if field.spec.flags:
        return ", ".join(bit_names(field.spec.flags, field.value))
    return field.word or ""


def _text_value(message: Message, limit: int = 80) -> str:
    value = message.value
    if value is None or value.encoding in ("fields", "missing"):
        return ""
    if value.encoding == "hidden":
        return f"{value.size} bytes hidden"
    limit = _MOST_REASON if value.body.startswith(b'{"error":') else limit
    text = escape(value.body[: limit * 4])
    return clip(text, limit)


def _is_plain(batch: MessageBatch, index: int, layout: Layout) -> bool:
    """Whether a message has no problem, and all of it was captured."""
    decoded = batch.decoded
    is_whole = (
        not batch.missing.ranges_of(index)
        and batch.length[index] == HEADER_SIZE + decoded.body_size[index]
    )
    return bool(
        is_whole and not layout.legacy and not decoded.problem[index] and decoded.fits[index]
    )


def _bytes_of_value(batch: MessageBatch, index: int) -> ByteArray:
    start = int(batch.decoded.value.start[index])
    return batch.data[start : start + max(0, int(batch.decoded.value.size[index]))]


def _uuid(number: int) -> str:
    return f"0x{number:016x}"


def _stream_request(message: Message) -> str:
    return _request_text(_field_values(message), _words(message, "flags"), _text_value(message))


def _control(message: Message) -> str:
    return f"= {_text_value(message)}"


def _request_at(batch: MessageBatch, index: int, layout: Layout) -> str | None:
    if batch.decoded.value.size[index] > 0:
        return None
    extras_start = int(batch.decoded.extras_at[index])
    fields = [field for field in layout.extras if not field.reserved]
    numbers = {
        field.name: int.from_bytes(
            batch.data[extras_start + field.offset : extras_start + field.offset + field.kind.size]
        )
        for field in fields
    }
    uuid = {"vbucket_uuid": _uuid(numbers["vbucket_uuid"])}
    return _request_text(
        {**numbers, **uuid}, ", ".join(bit_names(fields[0].flags, numbers["flags"])), ""
    )


def _request_text(numbers: Mapping[str, int | str], flags: str, value: str) -> str:
    texts = []
    if "start_seqno" in numbers and "end_seqno" in numbers:
        end = numbers["end_seqno"]
        texts.append(f"from {numbers['start_seqno']}")
        if not {*flags.split(", ")} & {*END_FLAGS}:
            texts.append("no end" if end == ENDLESS else f"to {end}")
    if numbers.get("vbucket_uuid", "0x0000000000000000") != "0x0000000000000000":
        texts.append(f"uuid {numbers['vbucket_uuid']}")
    if numbers.get("snapshot_start_seqno") or numbers.get("snapshot_end_seqno"):
        texts.append(
            f"snapshot {numbers.get('snapshot_start_seqno')}–{numbers.get('snapshot_end_seqno')}"
        )
    texts += [flags, value]
    return ", ".join(text for text in texts if text)


def _failover_log(message: Message) -> str:
    entries = [field for field in message.fields if field.group == "failover_log"]
    if entries:
        newest = {entry_field.name: entry_field.value for entry_field in entries[0].fields}
        if None in (newest.get("uuid"), newest.get("seqno")):
            return "failover log"  # the capture lacks the newest entry
        return _log_text(len(entries), newest.get("uuid"), newest.get("seqno"))
    rollback = _field_values(message).get("rollback_seqno")
    return "" if rollback is None else f"to {rollback}"


def _failover_log_at(batch: MessageBatch, index: int, layout: Layout) -> str | None:
    value = _bytes_of_value(batch, index)
    if layout.value != (FAILOVER_LOG,) or not 0 < len(value) <= _LONGEST_LOG or len(value) % 16:
        return None
    return _log_text(
        len(value) // 16, _uuid(int.from_bytes(value[:8])), int.from_bytes(value[8:16])
    )


def _log_text(count: int, uuid: object, seqno: object) -> str:
    return (
        f"failover log: {'1 entry' if count == 1 else f'{count} entries, newest'} {uuid!s} at "
        f"{seqno!s}"
    )


def _features(message: Message) -> str:
    return ", ".join(field.meaning or "" for field in message.fields if field.group == "features")


def _features_at(batch: MessageBatch, index: int, _: Layout) -> str | None:
    value = _bytes_of_value(batch, index)
    if not 0 < len(value) <= _LONGEST_HELLO or len(value) % 2 or batch.decoded.datatype[index]:
        return None
    return ", ".join(map(feature_name, value.view(">u2").tolist()))


def _event(message: Message) -> str:
    fields = {field.name: field for top in message.fields for field in (top, *top.fields)}
    numbers = {name: field.value for name, field in fields.items() if isinstance(field.value, int)}
    return _event_text(
        _words(message, "event"), numbers, {name: field.meaning for name, field in fields.items()}
    )


def _event_at(batch: MessageBatch, index: int, layout: Layout) -> str | None:
    system_event = None if batch.decoded.datatype[index] else said_by_event(batch, index)
    if system_event is None:
        return None
    names, word = batch.names_at(index), layout.extras[1].word(system_event.event)
    ids = {
        "scope_id": system_event.scope,
        "collection_id": system_event.collection,
        "manifest_uid": system_event.uid,
    }
    return _event_text(
        word or "",
        ids,
        {
            "scope_id": names.scope(system_event.scope),
            "collection_id": names.collection(system_event.collection or 0),
        },
    )


def _event_text(
    event: str, numbers: Mapping[str, int | None], names: Mapping[str, str | None]
) -> str:
    """``names``: of scope and collection, by the fields that have their ids."""
    texts = [event]
    for name, label in (
        ("scope_id", "scope"),
        ("collection_id", "collection"),
        ("manifest_uid", "manifest"),
    ):
        number = numbers.get(name)
        if number is not None:
            known_name = names.get(name) if number and name != "manifest_uid" else None
            texts.append(f"{label} {escape(known_name) if known_name else f'0x{number:x}'}")
    return ", ".join(text for text in texts if text)


def _id(name: str) -> Callable[[Message], str]:
    def text_of_field(message: Message) -> str:
        field = message.field(name)
        return escape(field.meaning or "") if field is not None else ""

    return text_of_field


def _records(group: str, label: str) -> Callable[[Message], str]:
    def text_of_records(message: Message) -> str:
        count = sum(field.group == group for field in message.fields)
        return f"{count} {label}{'' if count == 1 else 's'}"

    return text_of_records


def _stream_opaque(message: Message) -> str:
    opaque = _field_values(message).get("stream_opaque")
    return "" if opaque is None else f"opaque 0x{opaque:08x}"


_MARKER = Story(
    (
        WordField("snapshot_type"),
        NumberField("max_visible_seqno", "visible", tells_zero=False),
        NumberField("high_completed_seqno", "completed", tells_zero=False),
        NumberField("high_prepared_seqno", "prepared", tells_zero=False),
        NumberField("purge_seqno", "purge", tells_zero=False),
    )
)
STORIES: dict[tuple[bool, bool, int], Callable[[Message], str]] = {
    (False, False, Opcode.DCP_OPEN): Story((WordField("flags", otherwise="consumer"),)),
    (False, False, Opcode.DCP_ADD_STREAM): Story((WordField("flags"),)),
    (False, True, Opcode.DCP_ADD_STREAM): _stream_opaque,
    (False, False, Opcode.DCP_STREAM_REQ): _stream_request,
    (False, True, Opcode.DCP_STREAM_REQ): _failover_log,
    (False, True, Opcode.DCP_GET_FAILOVER_LOG): _failover_log,
    (False, True, Opcode.GET_FAILOVER_LOG): _failover_log,
    (False, False, Opcode.DCP_STREAM_END): Story((WordField("end_reason"),)),
    (False, False, Opcode.DCP_SNAPSHOT_MARKER): _MARKER,
    (False, False, Opcode.DCP_SET_VBUCKET_STATE): Story((WordField("state"),)),
    (False, False, Opcode.DCP_BUFFER_ACKNOWLEDGEMENT): Story((NumberField("ack_bytes", "bytes"),)),
    (False, False, Opcode.DCP_CONTROL): _control,
    (False, False, Opcode.DCP_SYSTEM_EVENT): _event,
    (False, False, Opcode.DCP_PREPARE): Story((WordField("durability_level"),)),
    (False, False, Opcode.DCP_OSO_SNAPSHOT): Story((WordField("flags"),)),
    (False, False, Opcode.DCP_CACHE_TRANSFER): _records("items", "item"),
    (False, False, Opcode.HELLO): _features,
    (False, True, Opcode.HELLO): _features,
    (False, True, Opcode.SASL_LIST_MECHS): _text_value,
    (False, False, Opcode.SASL_AUTH): _text_value,
    (False, False, Opcode.SASL_STEP): _text_value,
    (False, True, Opcode.STAT): _text_value,
    (False, True, Opcode.GET_CLUSTER_CONFIG): _text_value,
    (False, True, Opcode.GET_ERROR_MAP): _text_value,
    (False, True, Opcode.COLLECTIONS_GET_MANIFEST): _text_value,
    (False, False, Opcode.COLLECTIONS_GET_ID): _text_value,
    (False, True, Opcode.COLLECTIONS_GET_ID): _id("collection_id"),
    (False, False, Opcode.COLLECTIONS_GET_SCOPE_ID): _text_value,
    (False, True, Opcode.COLLECTIONS_GET_SCOPE_ID): _id("scope_id"),
    (False, True, Opcode.GET_ALL_VB_SEQNOS): _records("seqnos", "vbucket"),
    (False, True, Opcode.OBSERVE_SEQNO): Story((NumberField("current_seqno", "current"),)),
    (True, False, ServerOpcode.CLUSTERMAP_CHANGE_NOTIFICATION): Story(
        (NumberField("revision", "revision"),)
    ),
}
"""Functions that tell what the body of a message says, by server table, response, and opcode."""
_OF_COLUMNS: dict[Callable[[Message], str], Callable[[MessageBatch, int, Layout], str | None]] = {
    _stream_request: _request_at,
    _failover_log: _failover_log_at,
    _features: _features_at,
    _event: _event_at,
}
"""The same stories from columns, for messages without any problem; None where only the annotation
tells. Annotating takes 0.1 ms, and these are told often: each stream has a request and a log, each
connection a HELLO, and each vbucket the events of every collection.
"""
