"""The kernel that writes the lines of messages, and the tables that it reads. ``line_rows`` fills these."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dcpinspect.export.csv_rows import put_unsigned
from dcpinspect.export.number_text import TENTHS_TO, hex_digit, put_fraction, put_integer, put_seconds, tenth
from dcpinspect.kernels.kernel import Ints, Octets, copy, inline, kernel, octet, put
from dcpinspect.kernels.structs import Rows as Records
from dcpinspect.kernels.structs import Struct, T, Tables, nested, number
from dcpinspect.protocol.columns import Rows
from dcpinspect.render.lines import ASKED, Lines

PLAIN_SECONDS, DATE, EPOCH = 0, 1, 2
"""Forms of times."""
OWN, ASKED_HERE, ASKED_BEFORE = 0, 1, 2
"""Whose key a line has: the message's, that of a request in the batch, or that of an earlier request, which stands beside the bytes of
the batch.
"""
_REFUSED = -1
TIME_FORMS = {"relative": PLAIN_SECONDS, "delta": PLAIN_SECONDS, "absolute": DATE, "epoch": EPOCH}


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
        self.time_form, self.time_width = TIME_FORMS[form.time_format], form.time_width
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


@kernel("void(octets, octets, octets, LineTables, uint8[::1], int64[::1])")
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
