"""Lines of messages, many at a time: a kernel makes them from the columns of a batch. The text is the same as from ``render.lines``.

Messages of one command, status, layout and datatype are of the same kind: what is the same in their lines is looked up once. Only numbers
and keys differ, and the kernel writes them. A message with anything unusual is left to ``Lines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcpinspect.distinct import distinct
from dcpinspect.export.csv_rows import put_unsigned
from dcpinspect.export.row_text import TENTHS_TO, Texts, hex_digit, put_fraction, put_integer, put_seconds, tenth
from dcpinspect.kernel import Ints, Octets, copy, inline, kernel, octet, put
from dcpinspect.protocol.columns import Mask, Numbers, Rows, numbers_at
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.render.lines import ASKED, SAID_ONCE, STORIES, Lines, Story, Word, datatypes, key_prefix, told
from dcpinspect.structs import Rows as Records
from dcpinspect.structs import Struct, T, Tables, nested, number
from dcpinspect.tables.messages import MessageBatch

SLICE = 1 << 15
"""Number of messages that are made into lines at once."""
MAX_REMEMBERED = 1 << 14
"""Number of kinds and words that are kept; only a capture that is made to waste memory has more."""

PLAIN_SECONDS, DATE, EPOCH = 0, 1, 2
"""Forms of times."""
OWN, ASKED_HERE, ASKED_BEFORE = 0, 1, 2
"""Whose key a line has: the message's, that of a request in the batch, or that of an earlier request, which stands beside the bytes of
the batch.
"""
_SHORT = 1 << 10
"""Stories of longer messages are not looked for among those of earlier messages."""
_REFUSED = -1
_LINE_ROOM, _LINE_TEXTS = 400, 12
"""Greatest size of all numbers and blanks of a line in bytes, and number of texts in a line."""
_TIME_FORMS = {"relative": PLAIN_SECONDS, "delta": PLAIN_SECONDS, "absolute": DATE, "epoch": EPOCH}
_LATEST_NS = 253_402_300_800 * 10**9
"""The year 10000, in nanoseconds since 1970."""

_UNSIGNED = frozenset({Kind.U8, Kind.U16, Kind.U32, Kind.U64, Kind.SEQNO})
_HAS_PREFIX = np.array([*(layout.key is not None and layout.key.kind is Kind.KEY for layout in LAYOUTS), False, False], dtype=np.bool_)
_SAID_ONCE = np.isin(np.arange(256), np.array(SAID_ONCE))


class WireNumber(Struct[T]):
    """Where messages of a kind have a number."""

    size: T = number("Its bytes; 0: they have none.")
    offset: T = number("Where it stands in its section.")
    is_in_value: T = number("Whether that section is the value, and not the extras.")


class Labelled(Struct[T]):
    """A number that the story of a message includes."""

    label: T = number("Text before it.")
    tells_zero: T = number("Whether 0 is told.")
    place: WireNumber[T] = nested(WireNumber, "The number.")


class LineKind(Struct[T]):
    """What the lines of one kind of message have in common. Texts are given by their number in ``Texts``; text 0 is empty."""

    style: T = number("Text that begins their colour.")
    style_end: T = number("Text that ends it.")
    title: T = number("Text of command and status, as wide as its column.")
    datatypes: T = number("Text.")
    start_seqno: WireNumber[T] = nested(WireNumber, "First of a range of seqnos.")
    seqno: WireNumber[T] = nested(WireNumber, "Seqno, or last of the range.")
    prepared: WireNumber[T] = nested(WireNumber, "The prepared seqno.")
    first: Labelled[T] = nested(Labelled, "First number of their story.")
    second: Labelled[T] = nested(Labelled, "Second number of their story.")
    third: Labelled[T] = nested(Labelled, "Third number of their story.")
    fourth: Labelled[T] = nested(Labelled, "Fourth number of their story.")


class LineKinds(LineKind[Ints], Records[LineKind]):
    """The kinds of messages so far."""


class LineTables(Tables):
    """What ``write_lines`` reads besides bytes."""

    kinds: LineKinds
    kind: Ints
    """Kind of each message; -1: its line is left to Python."""
    row: Ints
    time_ns: Ints
    """Time that is shown."""
    connection: Ints
    direction: Ints
    length: Ints
    opaque: Ints
    vbucket: Ints
    """-1: the message has none; the same for ``sid`` and ``rtt_ns``."""
    sid: Ints
    rtt_ns: Ints
    extras_at: Ints
    """Where the extras begin among the bytes of the batch."""
    value_at: Ints
    key_start: Ints
    key_size: Ints
    """-1: there is no key to show."""
    key_of: Ints
    """Whose key it is (``OWN`` …); the key of a request is clipped."""
    prefix: Ints
    """Text before the key."""
    word: Ints
    """Text that the story begins with."""
    told_start: Ints
    """Where the story stands beside the bytes of the batch, if Python has made it."""
    told_size: Ints
    text_start: Ints
    """Where each text begins."""
    text_size: Ints
    time_form: int
    time_width: int
    row_width: int
    connection_width: int
    vbucket_width: int
    seqno_width: int
    is_narrow: int
    """Whether lines lack opaque and size."""
    width: int
    """Columns to clip a line to; 0: no limit."""
    asked: int
    """Columns for the key of a request."""

    def __init__(self, kinds: LineKinds, texts: Ints, form: Lines, columns: Mapping[str, Rows]) -> None:
        self.kinds = kinds
        for name, values in columns.items():
            setattr(self, name, np.require(values, np.int64, ("C", "W")))
        self.text_start, self.text_size = np.ascontiguousarray(texts[:, 0]), np.ascontiguousarray(texts[:, 1])
        self.time_form, self.time_width = _TIME_FORMS[form.time_format], form.time_width
        self.row_width, self.connection_width, self.vbucket_width, self.seqno_width = (7, 2, 4, 8) if form.is_narrow else (9, 3, 5, 12)
        self.is_narrow, self.width, self.asked = int(form.is_narrow), form.width or 0, ASKED


@inline
def put_right(out: Octets, start: int, at: int, width: int, wide: int) -> int:
    """Moves the text between ``start`` and ``at`` to the right end of a column; returns the place behind it.

    ``wide``: number of bytes that it has more than columns.
    """
    missing = width - (at - start - wide)
    if missing <= 0:
        return at
    for i in range(at - start):
        out[at + missing - 1 - i] = out[at - 1 - i]
    for i in range(missing):
        out[start + i] = 32
    return at + missing


@inline
def put_number_right(out: Octets, at: int, width: int, value: int) -> int:
    """Writes a number at the right end of a column, which grows if needed; returns the place behind it."""
    column, place, rest = out[at : at + width], width, value
    while place > 0 and rest >= 0:
        place -= 1
        left = tenth(rest) if rest < TENTHS_TO else rest // 10
        put(column, place, 48 + rest - 10 * left)
        rest = left
        if rest == 0:
            for i in range(place):
                column[i] = 32
            return at + width
    return put_unsigned(out, at, value)


@inline
def put_blanks(out: Octets, at: int, count: int) -> int:
    """Writes blanks; returns the place behind them."""
    for i in range(count):
        out[at + i] = 32
    return at + count


@inline
def put_sign(out: Octets, at: int, last: int) -> int:
    """Writes one of our signs of three bytes, which begin with the same two bytes as a dash; returns the place behind it."""
    out[at], out[at + 1], out[at + 2] = 0xE2, 0x80, last
    return at + 3


@inline
def put_piece(out: Octets, at: int, texts: Octets, tables: LineTables, which: int) -> int:
    """Writes a text; returns the place behind it."""
    size = tables.text_size[which]
    copy(out, at, texts, tables.text_start[which], size)
    return int(at + size)


@inline
def put_time_column(out: Octets, at: int, time_ns: int, form: int, width: int) -> int:
    """Writes the time of a line; returns the place behind it."""
    if form == PLAIN_SECONDS and time_ns >= 0:
        microseconds = time_ns // 1000
        at = put_number_right(out, at, width - 7, microseconds // 1_000_000)
        out[at] = 46
        return put_fraction(out, at + 1, microseconds % 1_000_000, 6)
    stop, digits, rest = at, 9, time_ns % 1_000_000_000
    if form == PLAIN_SECONDS:
        out[at] = 45
        stop, digits, rest = put_integer(out, at + 1, -time_ns // 1_000_000_000), 6, -time_ns // 1000 % 1_000_000
    elif form == DATE:
        stop = put_seconds(out, at, time_ns // 1_000_000_000, 32)
    else:
        stop = put_integer(out, at, time_ns // 1_000_000_000)
    out[stop] = 46
    return put_right(out, at, put_fraction(out, stop + 1, rest, digits), width, 0)


@inline
def put_key(out: Octets, at: int, data: Octets, start: int, size: int, longest: int) -> int:
    """Writes a key, clipped to ``longest`` columns; returns the place behind it, or -1 if the key is not plain text."""
    source = data[start : start + size]
    for i in range(size):
        byte = source[i]
        if byte < 0x20 or byte > 0x7E or byte == 92:
            return -1
    if size > longest:
        copy(out, at, data, start, longest - 1)
        return put_sign(out, at + longest - 1, 0xA6)
    copy(out, at, data, start, size)
    return int(at + size)


@inline
def wire_number(data: Octets, extras_at: int, value_at: int, place: WireNumber) -> int:
    """Returns the 64 bits of an unsigned number of a message."""
    at = place.offset + (value_at if place.is_in_value else extras_at)
    value = 0
    for i in range(place.size):
        value = value << 8 | octet(data, at + i)
    return value


@inline
def put_labelled(out: Octets, at: int, texts: Octets, tables: LineTables, labelled: Labelled, value: int, has_more: int) -> int:
    """Adds a number to the story of a message; returns the place behind it."""
    if labelled.place.size == 0 or (value == 0 and labelled.tells_zero == 0):
        return at
    if has_more:
        out[at] = 44
        at = put_blanks(out, at + 1, 1)
    else:
        at = put_blanks(out, at, 2)
    at = put_piece(out, at, texts, tables, labelled.label)
    return put_unsigned(out, at, value)


@inline
def clipped(out: Octets, start: int, at: int, width: int) -> int:
    """Shortens a line to ``width`` columns, with an ellipsis; returns the place behind it.

    Continuation bytes of a character do not count.
    """
    cells, cut = 0, at
    for i in range(start, at):
        if out[i] < 0x80 or out[i] >= 0xC0:
            if cells == width - 1:
                cut = i
            cells += 1
    return at if cells <= width else put_sign(out, cut, 0xA6)


@kernel("void(octets, octets, octets, LineTables, uint8[::1], int64[::1])", cost=4)
def write_lines(data: Octets, side: Octets, texts: Octets, tables: LineTables, out: Octets, ends: Ints) -> None:
    """Writes each line; ``ends`` becomes the place behind each, or -1 for a line whose key is not plain text.

    The caller has left room in ``out``. Time: number of written bytes.
    """
    at = 0
    for i in range(len(tables.kind)):
        number = tables.kind[i]
        if number < 0:
            ends[i] = _REFUSED
            continue
        kind = tables.kinds[number]
        extras_at, value_at = tables.extras_at[i], tables.value_at[i]
        begin = at
        at = put_piece(out, at, texts, tables, kind.style)
        start = at
        at = put_number_right(out, at, tables.row_width, tables.row[i])
        at = put_blanks(out, at, 1)
        at = put_time_column(out, at, tables.time_ns[i], tables.time_form, tables.time_width)
        at = put_blanks(out, at, 1)
        at = put_number_right(out, at, tables.connection_width, tables.connection[i])
        out[at], out[at + 1], out[at + 2] = 0xE2, 0x86, 0x92 - 2 * tables.direction[i]
        at = put_blanks(out, at + 3, 1)
        at = put_blanks(out, put_piece(out, at, texts, tables, kind.title), 1)
        if tables.vbucket[i] >= 0:
            at = put_number_right(out, at, tables.vbucket_width, tables.vbucket[i])
        else:
            at = put_blanks(out, at, tables.vbucket_width)
        at = put_blanks(out, at, 1)
        if tables.is_narrow == 0:
            opaque, column = tables.opaque[i], out[at : at + 11]
            column[0], column[1], column[10] = 48, 120, 32
            for digit in range(8):
                column[2 + digit] = hex_digit(opaque >> (28 - 4 * digit) & 15)
            at += 11
        if kind.start_seqno.size > 0:
            stop = put_sign(out, put_unsigned(out, at, wire_number(data, extras_at, value_at, kind.start_seqno)), 0x93)
            stop = put_unsigned(out, stop, wire_number(data, extras_at, value_at, kind.seqno))
            at = put_right(out, at, stop, tables.seqno_width, 2)
        elif kind.seqno.size > 0:
            at = put_number_right(out, at, tables.seqno_width, wire_number(data, extras_at, value_at, kind.seqno))
        else:
            at = put_blanks(out, at, tables.seqno_width)
        if tables.is_narrow == 0:
            at = put_blanks(out, at, 1)
            at = put_number_right(out, at, 8, tables.length[i])
        summary = at
        if tables.sid[i] >= 0:
            at = put_blanks(out, at, 2)
            out[at], out[at + 1], out[at + 2], out[at + 3] = 115, 105, 100, 32
            at = put_integer(out, at + 4, tables.sid[i])
        key_size, prefix = tables.key_size[i], tables.prefix[i]
        if key_size > 0 or prefix > 0:
            at = put_blanks(out, at, 2)
            at = put_piece(out, at, texts, tables, prefix)
            source, longest = side if tables.key_of[i] == ASKED_BEFORE else data, key_size if tables.key_of[i] == OWN else tables.asked
            at = put_key(out, at, source, tables.key_start[i], key_size, longest)
            if at < 0:
                at = begin
                ends[i] = _REFUSED
                continue
        if kind.datatypes > 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, kind.datatypes)
        if kind.prepared.size > 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, 1)
            at = put_unsigned(out, at, wire_number(data, extras_at, value_at, kind.prepared))
        story = at
        if tables.word[i] > 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, tables.word[i])
        if tables.told_size[i] > 0:
            at = put_blanks(out, at, 2)
            copy(out, at, side, tables.told_start[i], tables.told_size[i])
            at += tables.told_size[i]
        if kind.first.place.size > 0:
            at = put_labelled(out, at, texts, tables, kind.first, wire_number(data, extras_at, value_at, kind.first.place), at - story)
            at = put_labelled(out, at, texts, tables, kind.second, wire_number(data, extras_at, value_at, kind.second.place), at - story)
            at = put_labelled(out, at, texts, tables, kind.third, wire_number(data, extras_at, value_at, kind.third.place), at - story)
            at = put_labelled(out, at, texts, tables, kind.fourth, wire_number(data, extras_at, value_at, kind.fourth.place), at - story)
        rtt_us = (tables.rtt_ns[i] + 500) // 1000
        if tables.rtt_ns[i] >= 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, 2)
            at = put_integer(out, at, rtt_us // 1000)
            out[at] = 46
            at = put_fraction(out, at + 1, rtt_us % 1000, 3)
            out[at], out[at + 1], out[at + 2] = 32, 109, 115
            at += 3
        if at == summary:
            at = put_blanks(out, at, 2)
        if tables.is_narrow:  # leaves one blank before the summary, not two
            for place in range(summary + 1, at):
                out[place - 1] = out[place]
            at -= 1
        if tables.width > 0:
            at = clipped(out, start, at, tables.width)
        while at > start and out[at - 1] == 32:
            at -= 1
        at = put_piece(out, at, texts, tables, kind.style_end)
        out[at] = 10
        at += 1
        ends[i] = at


@dataclass(frozen=True, slots=True)
class _Worded:
    """A part of a story whose text is looked up by a number, and where that number stands."""

    part: Word
    is_in_value: bool
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Story:
    """How the story of a kind begins, or the whole story."""

    word: int = 0
    """Text that the story begins with."""
    looked_up: _Worded | None = None
    """Looked-up part that the story begins with."""
    is_told: bool = False
    """Whether Python makes the story."""


_NO_STORY = _Story()


class LineRows:
    """Makes the lines of a reading as ``Lines`` does; remembers the kinds of messages that it has met."""

    def __init__(
        self, lines: Lines, style: Callable[[MessageBatch, int], tuple[str, str]], groups: Callable[[Rows], Rows] | None = None
    ) -> None:
        """``style``: returns what stands before and after the line of a message, to give it its colour.

        It is called for one message of each kind. ``groups``: returns a number below 256 for each message of the batch that is being
        written; messages with different numbers can have different styles.
        """
        self.lines = lines
        self.groups = groups
        self._style = style
        self.texts = Texts()
        for text in ("", "prepared ", "after "):
            self._text(text)
        self._kinds = LineKinds.zeros(64)
        self._numbers: dict[int, int] = {}  # numbers of kinds, by their keys
        self._stories: list[_Story] = []  # story of each kind
        self._words: dict[tuple[int, int, str, int], int] = {}
        self._room = np.empty(0, np.uint8)

    @property
    def is_for_kernel(self) -> bool:
        """Whether a kernel can write times of this form."""
        return self.lines.time_format in _TIME_FORMS

    def pieces(self, batch: MessageBatch, rows: Rows) -> Iterator[bytes | memoryview]:
        """Yields the lines of these messages in order, many in a piece. A piece is only valid until the next one is made."""
        times = self.lines.shown_times(batch.time_ns[rows])
        if not self.is_for_kernel or not write_lines.runs_compiled(len(rows)):
            yield from (self.ordinary(batch, index, shown) for index, shown in zip(rows.tolist(), times.tolist(), strict=True))
            return
        for first in range(0, len(rows), SLICE):
            part, shown_ns = rows[first : first + SLICE], times[first : first + SLICE]
            yield self.written(batch, part, shown_ns)[0].data

    def ordinary(self, batch: MessageBatch, index: int, shown_ns: int) -> bytes:
        """Returns one line, made by ``Lines``."""
        before, behind = self._style(batch, index)
        return f"{before}{self.lines.line_at(batch, index, shown_ns)}{behind}\n".encode()

    def written(self, batch: MessageBatch, rows: Rows, times: Rows) -> tuple[Octets, Ints]:
        """Returns the lines of at most ``SLICE`` messages, and where each ends. The result is only valid until the next call."""
        text, ends = self._written(batch, rows, times)
        left = np.flatnonzero(ends < 0)
        if not len(left):
            return text, ends
        lines = {place: self.ordinary(batch, int(rows[place]), int(times[place])) for place in left.tolist()}
        text = np.frombuffer(b"".join(completed(text, ends, lines.__getitem__)), np.uint8)
        more = np.zeros(len(ends), np.int64)
        more[left] = [len(line) for line in lines.values()]
        return text, np.maximum.accumulate(ends.clip(0)) + np.cumsum(more)

    def _written(self, batch: MessageBatch, rows: Rows, times: Rows) -> tuple[Octets, Ints]:
        """Returns the same as ``written``, but with -1 for a line that is left to Python."""
        run = _Run(self, batch, rows, times)
        texts, places = self.texts.arrays()
        keys = int(np.maximum(run.columns["key_size"], 0).sum())
        room = keys + len(run.side) + len(rows) * (_LINE_ROOM + _LINE_TEXTS * self.texts.longest_fragment)
        if room > len(self._room):
            self._room = np.empty(room, np.uint8)
        out, ends = self._room, np.empty(len(rows), np.int64)
        write_lines(len(rows), batch.data, run.side, texts, LineTables(self._kinds, places, self.lines, run.columns), out, ends)
        return out[: ends.max(initial=0)], ends

    def _text(self, text: str) -> int:
        return self.texts.fragment(text.encode())

    # -- what is looked up ----------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        return len(self._stories) + self.texts.count > MAX_REMEMBERED

    def kind(self, key: int, batch: MessageBatch, index: int) -> int:
        """Returns the number of the kind with this key, made from one of its messages; -1: its lines are left to Python."""
        number = self._numbers.get(key, -1)
        if number < 0 and not self._is_full:
            number = self._numbers[key] = self._made_kind(batch, index)
        return number

    def story(self, kind: int) -> _Story:
        """Returns how the story of a kind begins."""
        return self._stories[kind]

    def word(self, part: Word, batch: MessageBatch, index: int, value: int) -> int | None:
        """Returns the number of the text of a story's part if its field has this value; None if the memory for texts is full."""
        decoded = batch.decoded
        key = (int(decoded.layout[index]), int(decoded.generation[index]), part.field, value)
        known = self._words.get(key)
        if known is None and not self._is_full:
            known = self._words[key] = self._text(part.of(batch.annotate(index)))
        return known

    def prefix(self, batch: MessageBatch, index: int) -> int | None:
        """Returns the number of the text before the key of a message.

        None if the memory for texts is full, or Python must measure its width.
        """
        text = key_prefix(batch, index, is_narrow=self.lines.is_narrow)
        return self._text(text) if text.isascii() and not self._is_full else None

    def _made_kind(self, batch: MessageBatch, index: int) -> int:
        decoded, number = batch.decoded, len(self._stories)
        if number == len(self._kinds):
            self._kinds = LineKinds.joined([self._kinds, LineKinds.zeros(number)])
        kind = self._kinds[number]
        before, behind = self._style(batch, index)
        kind.style, kind.style_end = self._text(before), self._text(behind)
        kind.title = self._text(self.lines.title_column(batch, index))
        kind.datatypes = self._text(datatypes(int(decoded.datatype[index])))
        places = _number_places(batch, index)
        start, end = places.get("start_seqno"), places.get("end_seqno")
        is_range = decoded.opcode[index] == Opcode.DCP_SNAPSHOT_MARKER and start is not None and end is not None
        if is_range:
            _fill_place(kind.start_seqno, start)
        _fill_place(kind.seqno, end if is_range else places.get("by_seqno"))
        _fill_place(kind.prepared, places.get("prepared_seqno"))
        self._stories.append(self._tell(kind, batch, index) or _Story(is_told=True))
        return number

    def _tell(self, kind: LineKind, batch: MessageBatch, index: int) -> _Story | None:
        """Sets the parts of the story that messages of a kind have; returns None if Python must make it."""
        decoded = batch.decoded
        is_response, layout = bool(decoded.is_response[index]), batch.layout_of(index)
        if is_response and int(decoded.specific[index]) not in (Status.SUCCESS, Status.ROLLBACK):
            return None if decoded.value.size[index] > 0 else _Story()
        story = STORIES.get((bool(decoded.is_server[index]), is_response, int(decoded.opcode[index])))
        if story is None:
            return _Story()
        if layout is None or not isinstance(story, Story):
            return None
        word, looked_up, numbers = 0, None, []
        items = {item.name: (item, False) for item in layout.extras} | {item.name: (item, True) for item in layout.value}
        for part in story.parts:
            item, is_in_value = items.get(part.field, (None, False))
            if item is None:
                word = self._text(part.otherwise) if isinstance(part, Word) else word
                continue
            is_there = decoded.fits[index] and (not is_in_value or (layout.value_size is not None and decoded.value.size[index] > 0))
            if not is_there or not isinstance(item, Field) or not item.kind.size:
                return None
            place = is_in_value, item.offset, item.kind.size
            if isinstance(part, Word):
                looked_up = _Worded(part, *place)
            else:
                numbers.append((part, item.kind, place))
        labelled = kind.first, kind.second, kind.third, kind.fourth
        if len(numbers) > len(labelled) or any(of not in _UNSIGNED for _, of, _ in numbers):
            return None
        for label, (part, _, place) in zip(labelled, numbers, strict=False):
            label.label, label.tells_zero = self._text(f"{part.label} "), int(part.tells_zero)
            _fill_place(label.place, place)
        return _Story(word, looked_up)


_NumberPlace = tuple[bool, int, int]
"""Whether a number stands in the value, its offset and its size."""


def _number_places(batch: MessageBatch, index: int) -> dict[str, _NumberPlace]:
    """Returns where the numbers that are columns stand in messages of this one's kind."""
    found: dict[str, _NumberPlace] = {}
    layout, decoded = batch.layout_of(index), batch.decoded
    if layout is not None and decoded.extras_fit[index]:
        has_value = decoded.fits[index] and layout.value_size is not None and decoded.value.size[index] > 0
        for is_in_value, items in ((False, layout.extras), (True, layout.value if has_value else ())):
            for item in items:
                if isinstance(item, Field) and not item.reserved and item.kind.size:
                    found |= dict.fromkeys((item.name, item.alias), (is_in_value, item.offset, item.kind.size))
    return found


def _fill_place(place: WireNumber, found: _NumberPlace | None) -> None:
    if found is not None:
        place.is_in_value, place.offset, place.size = int(found[0]), found[1], found[2]


def completed(text: Octets, ends: Ints, ordinary: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yields the text of a kernel with the lines that it left to Python: if ``ends[n]`` is -1, the text of row n is ``ordinary(n)``."""
    begin = 0
    for place in np.flatnonzero(ends < 0).tolist():
        before = int(ends[place - 1]) if place and ends[place - 1] >= 0 else begin
        yield text[begin:before].tobytes()
        begin = before
        yield ordinary(place)
    yield text[begin:].tobytes()


class _Run:
    """Some messages of a batch on their way through the kernel."""

    def __init__(self, of: LineRows, batch: MessageBatch, rows: Rows, times: Rows) -> None:
        self._of, self._batch, self._rows = of, batch, rows
        # columns of consecutive messages need no copy
        self._at: Any = slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) == rows[-1] - rows[0] + 1 else rows
        self._side = bytearray()
        self._plain = self._plain_rows(times)
        self.columns = self._number_columns(times)
        """Columns for ``LineTables``."""
        self._fill_keys()
        self._fill_kinds()
        self.columns["kind"][~self._plain] = -1
        self.side = np.frombuffer(bytes(self._side) or b" ", np.uint8)
        """Keys of earlier messages, and stories that Python has made."""

    def _plain_rows(self, times: Rows) -> Mask:
        """Returns which messages have nothing unusual, as far as columns tell."""
        batch, at = self._batch, self._at
        plain: Mask = (batch.decoded.problem[at] == 0) & ~batch.heuristic[at] & (np.abs(times) < _LATEST_NS)
        if self._of.lines.time_format in ("absolute", "epoch"):
            plain &= times >= 0
        if len(batch.missing.row):
            plain &= ~np.isin(self._rows, batch.missing.row)
        return plain

    def _number_columns(self, times: Rows) -> dict[str, Rows]:
        batch, decoded, at = self._batch, self._batch.decoded, self._at
        rtt, is_answer = batch.rtt_ns.values[at], _given(batch.rtt_ns, at)
        # how a half is rounded depends on the binary form of the number, so such lines are left to Python
        self._plain &= ~is_answer | ((rtt >= 0) & (rtt % 1000 != 500))
        zeros = (np.zeros(len(times), np.int64) for _ in range(6))
        return {
            **{name: getattr(batch, name)[at] for name in ("row", "connection", "direction", "length")},
            "time_ns": times,
            "opaque": decoded.opaque[at].view(np.int64),
            "vbucket": _or_minus_one(batch.vbuckets_of(self._rows), slice(None)),
            "sid": _or_minus_one(decoded.sid, at),
            "rtt_ns": _or_minus_one(batch.rtt_ns, at),
            "extras_at": decoded.extras_at[at],
            "value_at": decoded.value.start[at],
            **dict(zip(("kind", "word", "told_start", "told_size", "prefix", "key_of"), zeros, strict=True)),
        }

    def _fill_keys(self) -> None:
        batch, decoded, rows, at = self._batch, self._batch.decoded, self._rows, self._at
        size = np.where((decoded.key.size[at] > 0) & decoded.hides_key[at], -1, decoded.key.size[at])
        self.columns |= {"key_start": decoded.key.start[at].copy(), "key_size": size}
        if batch.redactor is not None:
            self._plain &= (size <= 0) | ~batch.has_private_key(rows)
        collection = _or_minus_one(decoded.collection_id, at)
        named = np.flatnonzero((collection > 0) & (size >= 0) & self._plain)
        named = named[_HAS_PREFIX[decoded.layout[rows[named]]]]
        pairs = distinct(batch.connection[rows[named]] << 32 | collection[named])[1]
        moments = batch.names.moments(int(batch.row[rows[0]]), int(batch.row[rows[-1]]))  # rows from which on names of collections differ
        pairs = pairs * (len(moments) + 1) + np.searchsorted(moments, batch.row[rows[named]], side="right")
        self._look_up(pairs, named, "prefix", lambda index, _: self._of.prefix(batch, index))
        asking = np.flatnonzero((size < 0) & self._plain)
        asking = asking[~_SAID_ONCE[decoded.opcode[rows[asking]]] & _given(batch.request_row, rows[asking])]
        if len(asking):
            self._fill_asked(asking)

    def _fill_asked(self, asking: Rows) -> None:
        """Fills in the keys of the requests that belong to the rows at these places."""
        batch, decoded, columns = self._batch, self._batch.decoded, self.columns
        start, size, whose = columns["key_start"], columns["key_size"], columns["key_of"]
        request = batch.request_row.values[self._rows[asking]].astype(np.int64)
        place = batch.index_of(request)
        is_here = (place >= 0) & (place < len(batch))
        is_here[is_here] = batch.row[place[is_here]] == request[is_here]
        here, place = asking[is_here], place[is_here]
        start[here], whose[here] = decoded.key.start[place], ASKED_HERE
        size[here] = np.where((decoded.key.size[place] > 0) & ~decoded.hides_key[place], decoded.key.size[place], -1)
        unusual = np.isin(place, batch.missing.row) if len(batch.missing.row) else np.zeros(len(place), dtype=np.bool_)
        if batch.redactor is not None:
            unusual |= batch.has_private_key(place)
        self._plain[here[unusual]] = False
        for at, row in zip(asking[~is_here].tolist(), request[~is_here].tolist(), strict=True):
            key = batch.earlier_keys.get(row)
            if key:
                start[at], size[at], whose[at] = len(self._side), len(key), ASKED_BEFORE
                self._side += key

    def _fill_kinds(self) -> None:
        decoded, at, columns = self._batch.decoded, self._at, self.columns
        key = decoded.opcode[at].astype(np.int64) << 16 | np.where(decoded.is_response[at], decoded.specific[at], 0).astype(np.int64)
        for bits, values in (
            (1, decoded.is_server[at]),
            (1, decoded.is_response[at]),
            (8, decoded.datatype[at]),
            (1, decoded.extras_fit[at]),
            (1, decoded.fits[at]),
            (1, decoded.value.size[at] > 0),
            (2, decoded.generation[at]),
            (16, decoded.layout[at] + 1),
        ):
            key <<= bits
            key |= values
        if self._of.groups is not None:  # with the group, the key has 63 bits
            key = key << 8 | self._of.groups(self._rows)
        first, inverse = distinct(key)
        kinds = [self._of.kind(int(key[one]), self._batch, int(self._rows[one])) for one in first.tolist()]
        columns["kind"] = np.array(kinds, dtype=np.int64)[inverse]
        for place, kind in enumerate(kinds):
            if kind < 0:
                self._plain[inverse == place] = False
                continue
            story = self._of.story(kind)
            if story == _NO_STORY:
                continue
            members = np.flatnonzero((inverse == place) & self._plain)
            columns["word"][members] = story.word
            if story.looked_up is not None:
                self._look_up_word(story.looked_up, members)
            if story.is_told:
                self._tell(members)

    def _tell(self, members: Rows) -> None:
        """Puts the stories of the rows at these places beside the bytes."""
        batch, known = self._batch, dict[bytes, str]()
        is_pure = len(members) > 1 and _says_the_same(batch, int(self._rows[members[0]]))
        for place in members.tolist():
            index = int(self._rows[place])
            said = _without_opaque(batch, index) if is_pure and batch.length[index] <= _SHORT else b""
            if (text := known.get(said)) is None:
                text = told(batch, index)
                if said:
                    known[said] = text
            self.columns["told_start"][place], self.columns["told_size"][place] = len(self._side), len(text)
            self._side += text.encode()
            self._plain[place] = text.isascii()  # for other texts, Python must measure the width

    def _look_up_word(self, worded: _Worded, members: Rows) -> None:
        """Fills in the texts that the stories of the rows at these places begin with."""
        batch, at = self._batch, self._rows[members]
        section = batch.decoded.value.start if worded.is_in_value else batch.decoded.extras_at
        values = numbers_at(batch.data, section[at] + worded.offset, worded.size).astype(np.int64)
        self._look_up(values, members, "word", partial(self._of.word, worded.part, batch))

    def _look_up(self, keys: Rows, places: Rows, column: str, text: Callable[[int, int], int | None]) -> None:
        """Fills in a column of texts at these places. Equal ``keys`` have equal texts; ``text`` makes one from a message and its key."""
        first, inverse = distinct(keys)
        if len(first) > MAX_REMEMBERED:
            self._plain[places] = False
            return
        found = [text(int(self._rows[places[one]]), int(keys[one])) for one in first.tolist()]
        texts = np.array([-1 if one is None else one for one in found], dtype=np.int64)[inverse]
        self._plain[places[texts < 0]] = False
        self.columns[column][places] = np.maximum(texts, 0)


def _says_the_same(batch: MessageBatch, index: int) -> bool:
    """Returns whether messages like this one that have equal bytes have equal stories: those of each connection are often the same.

    Not so for keys of documents, compressed values, system events, and values of stream requests: these depend on what the connection has
    settled, and on the names of collections that are known.
    """
    decoded, layout = batch.decoded, batch.layout_of(index)
    if (
        layout is None
        or decoded.opcode[index] == Opcode.DCP_SYSTEM_EVENT
        or decoded.datatype[index]
        or (layout.key is not None and layout.key.kind is Kind.KEY)
    ):
        return False
    return decoded.opcode[index] != Opcode.DCP_STREAM_REQ or bool(decoded.is_response[index]) or decoded.value.size[index] <= 0


def _without_opaque(batch: MessageBatch, index: int) -> bytes:
    said = batch.bytes_of(index)
    return said[:12] + said[16:]


def _given(numbers: Numbers, at: Any) -> Mask:
    given: Mask = np.ones(len(numbers.values), dtype=np.bool_)[at] if numbers.valid is None else numbers.valid[at]
    return given


def _or_minus_one(numbers: Numbers, at: Any) -> Rows:
    return np.where(_given(numbers, at), numbers.values[at].view(np.int64), -1)
