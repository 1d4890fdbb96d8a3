"""Lines of messages, many at a time: the columns of a batch are put together by a kernel, which gives the same text as ``render.lines``.

Messages of one command, status, layout and datatype are alike: what is said of all of them is looked up once. What differs are numbers
and keys, which the kernel writes. A message that has anything unusual is left to ``Lines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dcpinspect.export.csv_rows import put_unsigned
from dcpinspect.export.row_text import Texts, put_fraction, put_integer, put_seconds
from dcpinspect.kernel import Ints, Octets, copy, inline, kernel
from dcpinspect.protocol.columns import Mask, Numbers, Rows, numbers_at
from dcpinspect.protocol.decode import ERROR_LAYOUT
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.render.lines import ASKED, SAID_ONCE, STORIES, Lines, Number, Story, Word, datatypes, key_prefix
from dcpinspect.structs import Rows as Records
from dcpinspect.structs import Struct, T, Tables, nested, number
from dcpinspect.tables.messages import MessageBatch

SLICE = 1 << 15
"""Messages that are put together at once."""
MAX_REMEMBERED = 1 << 14
"""Kinds and words that are kept; a capture with more is made to waste memory."""
_NUMBERS = ("first", "second", "third", "fourth")
"""Fields of a line for the numbers of a story."""

PLAIN_SECONDS, DATE, EPOCH = 0, 1, 2
"""How times are written."""
NO_SEQNO, ONE_SEQNO, RANGE = 0, 1, 2
_REFUSED = -1
_LINE_ROOM, _LINE_TEXTS = 400, 12
"""Bytes that all numbers and blanks of a line take at most, and how many texts it has."""
_TIME_FORMS = {"relative": PLAIN_SECONDS, "delta": PLAIN_SECONDS, "absolute": DATE, "epoch": EPOCH}
_LATEST_NS = 253_402_300_800 * 10**9
"""The year 10000."""

_UNSIGNED = frozenset({Kind.U8, Kind.U16, Kind.U32, Kind.U64, Kind.SEQNO})
_HAS_PREFIX = np.array([*(layout.key is not None and layout.key.kind is Kind.KEY for layout in LAYOUTS), False, False], dtype=np.bool_)
_SAID_ONCE = np.isin(np.arange(256), np.array(SAID_ONCE))


class Labelled(Struct[T]):
    """A number that a story tells."""

    label: T = number("Text before it, or the empty one, which is 0: nothing is told.")
    value: T = number("Its 64 bits.")


class Line(Struct[T]):
    """One line, as numbers. Texts are numbers of ``Texts``, of which 0 is the empty one."""

    is_plain: T = number("Whether it is written: 0 for what is left to Python.")
    row: T = number("Number of the message.")
    time_ns: T = number("Time that is shown.")
    connection: T = number("Number of the connection.")
    direction: T = number("Whose arrow it has.")
    style: T = number("Text that begins its colour.")
    style_end: T = number("Text that ends it.")
    title: T = number("Text of command and status, as wide as its column.")
    vbucket: T = number("-1: it has none.")
    opaque: T = number("Opaque.")
    seqnos: T = number("Whether it has a seqno, or a range.")
    start_seqno: T = number("First of the range.")
    seqno: T = number("Seqno, or last of the range.")
    length: T = number("Bytes of the message.")
    sid: T = number("-1: it has none.")
    prefix: T = number("Text before the key.")
    key_start: T = number("Where the key is among the bytes of the batch.")
    key_size: T = number("-1: there is none to show.")
    is_asked: T = number("The key is that of the request, which is clipped.")
    datatypes: T = number("Text.")
    has_prepared: T = number("Whether there is a prepared seqno.")
    prepared: T = number("The prepared seqno.")
    word: T = number("Text that its story begins with.")
    first: Labelled[T] = nested(Labelled, "First number of its story.")
    second: Labelled[T] = nested(Labelled, "Second number of its story.")
    third: Labelled[T] = nested(Labelled, "Third number of its story.")
    fourth: Labelled[T] = nested(Labelled, "Fourth number of its story.")
    rtt_us: T = number("Microseconds after its request; -1: it answers none.")


class LineTable(Line[Ints], Records[Line]):
    """Lines that are put together at once."""


class LineTables(Tables):
    """What ``write_lines`` reads besides bytes."""

    lines: LineTable
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
    """Lines have neither opaque nor size."""
    width: int
    """Columns to clip a line to; 0: as many as it takes."""
    asked: int
    """Columns of the key of a request."""

    def __init__(self, lines: LineTable, texts: Ints, form: Lines) -> None:
        self.lines = lines
        self.text_start, self.text_size = np.ascontiguousarray(texts[:, 0]), np.ascontiguousarray(texts[:, 1])
        self.time_form, self.time_width = _TIME_FORMS[form.time_format], form.time_width
        self.row_width, self.connection_width, self.vbucket_width, self.seqno_width = (7, 2, 4, 8) if form.is_narrow else (9, 3, 5, 12)
        self.is_narrow, self.width, self.asked = int(form.is_narrow), form.width or 0, ASKED


@inline
def put_right(out: Octets, start: int, at: int, width: int, wide: int) -> int:
    """Moves what was written from ``start`` to ``at`` to the right end of a column; ``wide``: bytes that it has more than columns."""
    missing = width - (at - start - wide)
    if missing <= 0:
        return at
    for i in range(at - start):
        out[at + missing - 1 - i] = out[at - 1 - i]
    for i in range(missing):
        out[start + i] = 32
    return at + missing


@inline
def put_blanks(out: Octets, at: int, count: int) -> int:
    """Writes blanks; returns the place behind them."""
    for i in range(count):
        out[at + i] = 32
    return at + count


@inline
def put_sign(out: Octets, at: int, last: int) -> int:
    """Writes one of our signs of three bytes, the first two of which are those of a dash."""
    out[at], out[at + 1], out[at + 2] = 0xE2, 0x80, last
    return at + 3


@inline
def put_piece(out: Octets, at: int, texts: Octets, tables: LineTables, which: int) -> int:
    """Writes a text; returns the place behind it."""
    size = tables.text_size[which]
    copy(out, at, texts, tables.text_start[which], size)
    return int(at + size)


@inline
def put_time_column(out: Octets, at: int, time_ns: int, form: int) -> int:
    """Writes the time of a line; returns the place behind it."""
    if form == DATE:
        at = put_seconds(out, at, time_ns // 1_000_000_000, 32)
    elif form == EPOCH:
        at = put_integer(out, at, time_ns // 1_000_000_000)
    else:
        if time_ns < 0:
            out[at] = 45
            at += 1
            time_ns = -time_ns
        at = put_integer(out, at, time_ns // 1_000_000_000)
        out[at] = 46
        return put_fraction(out, at + 1, time_ns // 1000 % 1_000_000, 6)
    out[at] = 46
    return put_fraction(out, at + 1, time_ns % 1_000_000_000, 9)


@inline
def put_key(out: Octets, at: int, data: Octets, line: Line, longest: int) -> int:
    """Writes the key, clipped if it is the request's; returns the place behind it, or -1 where it is not plain text."""
    size = line.key_size
    source = data[line.key_start : line.key_start + size]
    for i in range(size):
        byte = source[i]
        if byte < 0x20 or byte > 0x7E or byte == 92:
            return -1
    if line.is_asked and size > longest:
        copy(out, at, data, line.key_start, longest - 1)
        return put_sign(out, at + longest - 1, 0xA6)
    copy(out, at, data, line.key_start, size)
    return int(at + size)


@inline
def put_labelled(out: Octets, at: int, texts: Octets, tables: LineTables, labelled: Labelled, has_more: int) -> int:
    """Writes a number of a story behind what it has so far; returns the place behind it."""
    if tables.text_size[labelled.label] == 0:
        return at
    if has_more:
        out[at] = 44
        at = put_blanks(out, at + 1, 1)
    else:
        at = put_blanks(out, at, 2)
    at = put_piece(out, at, texts, tables, labelled.label)
    return put_unsigned(out, at, labelled.value)


@inline
def clipped(out: Octets, start: int, at: int, width: int) -> int:
    """Shortens a line to so many columns, with an ellipsis; of bytes that go on a character none counts. Returns the place behind it."""
    cells, cut = 0, at
    for i in range(start, at):
        if out[i] < 0x80 or out[i] >= 0xC0:
            if cells == width - 1:
                cut = i
            cells += 1
    return at if cells <= width else put_sign(out, cut, 0xA6)


@kernel("void(octets, octets, LineTables, uint8[::1], int64[::1])", cost=4)
def write_lines(data: Octets, texts: Octets, tables: LineTables, out: Octets, ends: Ints) -> None:
    """Write each line; ``ends`` becomes the place behind each, or -1 for one whose key is no plain text.

    The caller has left room in ``out``. Time: bytes written.
    """
    at = 0
    for i in range(len(tables.lines)):
        line = tables.lines[i]
        if line.is_plain == 0:
            ends[i] = _REFUSED
            continue
        begin = at
        at = put_piece(out, at, texts, tables, line.style)
        start = at
        at = put_right(out, at, put_integer(out, at, line.row), tables.row_width, 0)
        at = put_blanks(out, at, 1)
        at = put_right(out, at, put_time_column(out, at, line.time_ns, tables.time_form), tables.time_width, 0)
        at = put_blanks(out, at, 1)
        at = put_right(out, at, put_integer(out, at, line.connection), tables.connection_width, 0)
        out[at], out[at + 1], out[at + 2] = 0xE2, 0x86, 0x92 - 2 * line.direction
        at = put_blanks(out, at + 3, 1)
        at = put_blanks(out, put_piece(out, at, texts, tables, line.title), 1)
        stop = put_integer(out, at, line.vbucket) if line.vbucket >= 0 else at
        at = put_blanks(out, put_right(out, at, stop, tables.vbucket_width, 0), 1)
        if tables.is_narrow == 0:
            out[at], out[at + 1] = 48, 120
            for digit in range(8):
                value = line.opaque >> (28 - 4 * digit) & 15
                out[at + 2 + digit] = 48 + value if value < 10 else 87 + value
            at = put_blanks(out, at + 10, 1)
        stop = at
        if line.seqnos == RANGE:
            stop = put_sign(out, put_unsigned(out, at, line.start_seqno), 0x93)
        if line.seqnos != NO_SEQNO:
            stop = put_unsigned(out, stop, line.seqno)
        at = put_right(out, at, stop, tables.seqno_width, 2 if line.seqnos == RANGE else 0)
        if tables.is_narrow == 0:
            at = put_blanks(out, at, 1)
            at = put_right(out, at, put_integer(out, at, line.length), 8, 0)
        summary = at
        if line.sid >= 0:
            at = put_blanks(out, at, 2)
            out[at], out[at + 1], out[at + 2], out[at + 3] = 115, 105, 100, 32
            at = put_integer(out, at + 4, line.sid)
        if line.key_size > 0 or tables.text_size[line.prefix] > 0:
            at = put_blanks(out, at, 2)
            at = put_piece(out, at, texts, tables, line.prefix)
            at = put_key(out, at, data, line, tables.asked)
            if at < 0:
                at = begin
                ends[i] = _REFUSED
                continue
        if tables.text_size[line.datatypes] > 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, line.datatypes)
        if line.has_prepared:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, 1)
            at = put_unsigned(out, at, line.prepared)
        story = at
        if tables.text_size[line.word] > 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, line.word)
        at = put_labelled(out, at, texts, tables, line.first, at - story)
        at = put_labelled(out, at, texts, tables, line.second, at - story)
        at = put_labelled(out, at, texts, tables, line.third, at - story)
        at = put_labelled(out, at, texts, tables, line.fourth, at - story)
        if line.rtt_us >= 0:
            at = put_piece(out, put_blanks(out, at, 2), texts, tables, 2)
            at = put_integer(out, at, line.rtt_us // 1000)
            out[at] = 46
            at = put_fraction(out, at + 1, line.rtt_us % 1000, 3)
            out[at], out[at + 1], out[at + 2] = 32, 109, 115
            at += 3
        if at == summary:
            at = put_blanks(out, at, 2)
        if tables.is_narrow:  # one blank before the summary, not two
            for place in range(summary + 1, at):
                out[place - 1] = out[place]
            at -= 1
        if tables.width > 0:
            at = clipped(out, start, at, tables.width)
        while at > start and out[at - 1] == 32:
            at -= 1
        at = put_piece(out, at, texts, tables, line.style_end)
        out[at] = 10
        at += 1
        ends[i] = at


@dataclass(frozen=True, slots=True)
class _Told:
    """A part of a story: where its number stands, and as what."""

    part: Word | Number
    in_value: bool
    offset: int
    size: int
    label: int


@dataclass(frozen=True, slots=True)
class _LineKind:
    """What lines of messages of one kind have in common; texts by their numbers."""

    style: int
    style_end: int
    title: int
    datatypes: int
    story: tuple[_Told, ...]
    word: int
    """What the story says where the message has no field for it."""
    is_plain: bool
    """False: these lines are not for the kernel."""


class LineRows:
    """Lines of a reading, as ``Lines`` makes them; remembers the kinds of messages that it has met."""

    def __init__(self, lines: Lines, style: Callable[[MessageBatch, int], tuple[str, str]]) -> None:
        """``style``: what stands before and behind the line of a message, to give it its colour."""
        self.lines = lines
        self._style = style
        self.texts = Texts()
        for text in ("", "prepared ", "after "):
            self._text(text)
        self._kinds: dict[int, _LineKind] = {}
        self._words: dict[tuple[int, int, str, int], int] = {}

    @property
    def is_for_kernel(self) -> bool:
        """Whether a kernel can write these times."""
        return self.lines.time_format in _TIME_FORMS

    def pieces(self, batch: MessageBatch, rows: Rows) -> Iterator[bytes]:
        """The lines of these messages in order, many in a piece."""
        times = self.lines.shown_times(batch.time_ns[rows])
        if not self.is_for_kernel or not write_lines.runs_compiled(len(rows)):
            yield from (self.ordinary(batch, index, shown) for index, shown in zip(rows.tolist(), times.tolist(), strict=True))
            return
        for first in range(0, len(rows), SLICE):
            part, shown_ns = rows[first : first + SLICE], times[first : first + SLICE]
            yield self.written(batch, part, shown_ns)[0].tobytes()

    def ordinary(self, batch: MessageBatch, index: int, shown_ns: int) -> bytes:
        """One line as ``Lines`` makes it."""
        before, behind = self._style(batch, index)
        return f"{before}{self.lines.line_at(batch, index, shown_ns)}{behind}\n".encode()

    def written(self, batch: MessageBatch, rows: Rows, times: Rows) -> tuple[Octets, Ints]:
        """The lines of at most ``SLICE`` messages, and where each ends."""
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
        """As ``written``, but -1 for a line that is left to Python."""
        run = _Run(self, batch, rows, times)
        texts, places = self.texts.arrays()
        keys = int(np.maximum(run.lines.key_size, 0).sum())
        out = np.empty(keys + len(rows) * (_LINE_ROOM + _LINE_TEXTS * self.texts.longest_fragment), np.uint8)
        ends = np.empty(len(rows), np.int64)
        write_lines(len(rows), run.data, texts, LineTables(run.lines, places, self.lines), out, ends)
        return out[: ends.max(initial=0)], ends

    def _text(self, text: str) -> int:
        return self.texts.fragment(text.encode())

    # -- what is looked up ----------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        return len(self._kinds) + self.texts.count > MAX_REMEMBERED

    def kind(self, key: int, batch: MessageBatch, index: int) -> _LineKind | None:
        """The kind with this key, made from one of its messages; None: no more are remembered."""
        known = self._kinds.get(key)
        if known is None and not self._is_full:
            known = self._kinds[key] = self._made_kind(batch, index)
        return known

    def word(self, part: Word, batch: MessageBatch, index: int, value: int) -> int | None:
        """What a part of a story says of a message where its field has this value; None: no more are remembered."""
        decoded = batch.decoded
        key = (int(decoded.layout[index]), int(decoded.generation[index]), part.field, value)
        known = self._words.get(key)
        if known is None and not self._is_full:
            known = self._words[key] = self._text(part.of(batch.annotate(index)))
        return known

    def prefix(self, batch: MessageBatch, index: int) -> int | None:
        """What stands before the key of a message; None: no more are remembered, or how wide it is is for Python."""
        text = key_prefix(batch, index, is_narrow=self.lines.is_narrow)
        return self._text(text) if text.isascii() and not self._is_full else None

    def _made_kind(self, batch: MessageBatch, index: int) -> _LineKind:
        decoded = batch.decoded
        before, behind = self._style(batch, index)
        status = int(decoded.specific[index])
        is_response = bool(decoded.is_response[index])
        has_failed = is_response and status not in (Status.SUCCESS, Status.ROLLBACK)
        story = STORIES.get((bool(decoded.is_server[index]), is_response, int(decoded.opcode[index])))
        told: tuple[_Told, ...] = ()
        word, is_plain = 0, True
        if story is not None and not has_failed:
            found = self._told(story, int(decoded.layout[index]))
            is_plain = found is not None
            told, word = found or ((), 0)
        return _LineKind(
            self._text(before),
            self._text(behind),
            self._text(self.lines.title_column(batch, index)),
            self._text(datatypes(int(decoded.datatype[index]))),
            told,
            word,
            is_plain and not (has_failed and bool(decoded.value.size[index] > 0)),
        )

    def _told(self, story: Callable[..., str], layout_number: int) -> tuple[tuple[_Told, ...], int] | None:
        """(the parts of a story that messages of this layout have, text that they all have); None where a kernel can not tell them."""
        if not isinstance(story, Story) or not 0 <= layout_number < ERROR_LAYOUT:
            return None
        layout, told, word, numbers = LAYOUTS[layout_number], [], 0, 0
        places = {item.name: (item, False) for item in layout.extras} | {item.name: (item, True) for item in layout.value}
        for part in story.parts:
            item, in_value = places.get(part.field, (None, False))
            if item is None:
                word = self._text(part.otherwise) if isinstance(part, Word) else word
                continue
            if not isinstance(item, Field) or not item.kind.size or (in_value and layout.value_size is None):
                return None
            label = 0
            if isinstance(part, Number):
                if item.kind not in _UNSIGNED or numbers == len(_NUMBERS):
                    return None
                label, numbers = self._text(f"{part.label} "), numbers + 1
            told.append(_Told(part, in_value, item.offset, item.kind.size, label))
        return tuple(told), word


def completed(text: Octets, ends: Ints, ordinary: Callable[[int], bytes]) -> Iterator[bytes]:
    """What a kernel wrote, with what it left to Python in its place: of row n ``ends[n]`` is -1, and the text ``ordinary(n)``."""
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
        self._side = bytearray()
        self.lines = LineTable.zeros(len(rows))
        self.plain = self._plain_rows(times)
        """Messages whose lines the kernel writes."""
        self._fill_columns(times)
        self._fill_keys()
        self._fill_kinds()
        self.lines.is_plain = self.plain.astype(np.int64)
        self.data = batch.data if not self._side else np.concatenate((batch.data, np.frombuffer(bytes(self._side), np.uint8)))
        """The bytes of the batch, and behind them keys of earlier ones."""

    def _plain_rows(self, times: Rows) -> Mask:
        """Messages that nothing is unusual about, as far as columns tell."""
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        plain: Mask = (decoded.problem[rows] == 0) & ~batch.heuristic[rows] & (np.abs(times) < _LATEST_NS)
        if self._of.lines.time_format in ("absolute", "epoch"):
            plain &= times >= 0
        if len(batch.missing.row):
            plain &= ~np.isin(rows, batch.missing.row)
        return plain

    def _fill_columns(self, times: Rows) -> None:
        batch, decoded, rows, lines = self._batch, self._batch.decoded, self._rows, self.lines
        lines.row, lines.time_ns = batch.row[rows], times
        lines.connection, lines.direction = batch.connection[rows], batch.direction[rows]
        lines.length, lines.opaque = batch.length[rows], decoded.opaque[rows].view(np.int64)
        lines.vbucket, lines.sid = _or_minus_one(batch.vbucket, rows), _or_minus_one(decoded.sid, rows)
        rtt, is_answer = batch.rtt_ns.values[rows].astype(np.int64), _given(batch.rtt_ns, rows)
        # Where a half is rounded to depends on how the number is written in binary, so that such lines are for Python.
        self.plain &= ~is_answer | ((rtt >= 0) & (rtt % 1000 != 500))
        lines.rtt_us = np.where(is_answer, (rtt + 500) // 1000, -1)
        seqno, prepared = decoded.numbers.get("by_seqno"), decoded.numbers.get("prepared_seqno")
        if seqno is not None:
            lines.seqno, lines.seqnos = seqno.values[rows].astype(np.int64), np.where(_given(seqno, rows), ONE_SEQNO, NO_SEQNO)
        if prepared is not None:
            lines.prepared, lines.has_prepared = prepared.values[rows].astype(np.int64), _given(prepared, rows).astype(np.int64)
        start, end = decoded.numbers.get("start_seqno"), decoded.numbers.get("end_seqno")
        if start is not None and end is not None:
            markers = np.flatnonzero((decoded.opcode[rows] == Opcode.DCP_SNAPSHOT_MARKER) & _given(start, rows) & _given(end, rows))
            lines.start_seqno[markers], lines.seqno[markers] = start.values[rows[markers]], end.values[rows[markers]]
            lines.seqnos[markers] = RANGE

    def _fill_keys(self) -> None:
        batch, decoded, rows, lines = self._batch, self._batch.decoded, self._rows, self.lines
        lines.key_start, size = decoded.key.start[rows], decoded.key.size[rows]
        size = np.where((size > 0) & decoded.hides_key[rows], -1, size)
        lines.key_size = size
        if batch.redactor is not None:
            self.plain &= (size <= 0) | ~batch.has_private_key(rows)
        collection = _or_minus_one(decoded.collection_id, rows)
        named = np.flatnonzero((size >= 0) & _HAS_PREFIX[decoded.layout[rows]] & (collection > 0) & self.plain)
        _, pairs = np.unique(batch.connection[rows[named]] << 32 | collection[named], return_inverse=True)
        moments = batch.names.moments(int(batch.row[rows[0]]), int(batch.row[rows[-1]]))  # from which on names differ
        pairs = pairs * (len(moments) + 1) + np.searchsorted(moments, batch.row[rows[named]], side="right")
        self._look_up(pairs, named, "prefix", lambda index, _: self._of.prefix(batch, index))
        asking = np.flatnonzero((size < 0) & ~_SAID_ONCE[decoded.opcode[rows]] & _given(batch.request_row, rows) & self.plain)
        if len(asking):
            self._fill_asked(asking)

    def _fill_asked(self, asking: Rows) -> None:
        """Keys of the requests of these places among the rows."""
        batch, decoded, lines = self._batch, self._batch.decoded, self.lines
        request = batch.request_row.values[self._rows[asking]].astype(np.int64)
        place = batch.index_of(request)
        is_here = (place >= 0) & (place < len(batch))
        is_here[is_here] = batch.row[place[is_here]] == request[is_here]
        here, place = asking[is_here], place[is_here]
        size = np.where((decoded.key.size[place] > 0) & ~decoded.hides_key[place], decoded.key.size[place], -1)
        lines.key_start[here], lines.key_size[here], lines.is_asked[here] = decoded.key.start[place], size, 1
        unusual = np.isin(place, batch.missing.row) if len(batch.missing.row) else np.zeros(len(place), dtype=np.bool_)
        if batch.redactor is not None:
            unusual |= batch.has_private_key(place)
        self.plain[here[unusual]] = False
        for at, row in zip(asking[~is_here].tolist(), request[~is_here].tolist(), strict=True):
            key = batch.earlier_keys.get(row)
            if key:
                lines.key_start[at], lines.key_size[at], lines.is_asked[at] = len(batch.data) + len(self._side), len(key), 1
                self._side += key

    def _fill_kinds(self) -> None:
        decoded, rows = self._batch.decoded, self._rows
        status = np.where(decoded.is_response[rows], decoded.specific[rows], 0).astype(np.int64)
        key = decoded.opcode[rows].astype(np.int64) << 16 | status
        for bits, values in (
            (1, decoded.is_server[rows]),
            (1, decoded.is_response[rows]),
            (8, decoded.datatype[rows]),
            (1, decoded.extras_fit[rows]),
            (1, decoded.fits[rows]),
            (1, decoded.value.size[rows] > 0),
            (2, decoded.generation[rows]),
            (16, decoded.layout[rows] + 1),
        ):
            key = key << bits | values
        plain = np.flatnonzero(self.plain)
        kinds, first, inverse = np.unique(key[plain], return_index=True, return_inverse=True)
        known = [self._of.kind(kind, self._batch, int(rows[plain[one]])) for kind, one in zip(kinds.tolist(), first.tolist(), strict=True)]
        self.plain[plain] = np.array([kind is not None and kind.is_plain for kind in known], dtype=np.bool_)[inverse]
        for name in ("style", "style_end", "title", "datatypes", "word"):
            texts = np.array([0 if kind is None else getattr(kind, name) for kind in known], dtype=np.int64)
            getattr(self.lines, name)[plain] = texts[inverse]
        for place, kind in enumerate(known):
            if kind is not None and kind.story and kind.is_plain:
                self._tell(kind.story, plain[inverse == place])

    def _tell(self, story: tuple[_Told, ...], members: Rows) -> None:
        """Fill in the parts of a story that these places among the rows have."""
        batch, decoded, names = self._batch, self._batch.decoded, iter(_NUMBERS)
        at = self._rows[members]
        fits = decoded.fits[at]
        self.plain[members[~fits]] = False
        members, at = members[fits], at[fits]
        for told in story:
            section = decoded.value.start if told.in_value else decoded.extras_at
            values = numbers_at(batch.data, section[at] + told.offset, told.size).astype(np.int64)
            part = told.part
            if isinstance(part, Number):
                labelled = getattr(self.lines, next(names))
                labelled.value[members] = values
                labelled.label[members] = told.label if part.tells_zero else np.where(values != 0, told.label, 0)
                continue
            self._look_up(values, members, "word", partial(self._of.word, part, batch))

    def _look_up(self, keys: Rows, places: Rows, column: str, text: Callable[[int, int], int | None]) -> None:
        """Fill in a column of texts at these places: equal ``keys`` have equal texts, which ``text`` makes of a message and its key."""
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if len(distinct) > MAX_REMEMBERED:
            self.plain[places] = False
            return
        found = [text(int(self._rows[places[one]]), key) for key, one in zip(distinct.tolist(), first.tolist(), strict=True)]
        texts = np.array([-1 if one is None else one for one in found], dtype=np.int64)[inverse]
        self.plain[places[texts < 0]] = False
        getattr(self.lines, column)[places] = np.maximum(texts, 0)


def _given(numbers: Numbers, rows: Rows) -> Mask:
    return np.ones(len(rows), dtype=np.bool_) if numbers.valid is None else numbers.valid[rows]


def _or_minus_one(numbers: Numbers, rows: Rows) -> Rows:
    return np.where(_given(numbers, rows), numbers.values[rows].astype(np.int64), -1)
