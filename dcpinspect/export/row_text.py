"""Rows as text, many at a time: one kernel runs programs of a few operations over the columns of a batch.

A program is the text of one kind of row, with its constant parts already encoded. Its operations copy a constant, or write a number of a
column or of the message's bytes, hexadecimal digits, a time, or a JSON string. The kernel writes a row in the time that Python needs for
one formatted string.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
import numpy.typing as npt

from dcpinspect.export.number_text import (
    hex_digit,
    put_cas_time,
    put_hex,
    put_integer,
    put_offsets,
    put_remark,
    put_time,
    put_wire_number,
    put_wire_time,
)
from dcpinspect.kernels.kernel import Ints, Octets, be32, copy, inline, kernel, octet, put
from dcpinspect.protocol.utf8 import character_size, sequence_size
from dcpinspect.records import dataclass

# Operations, with the meaning of their two arguments. They are plain numbers, because machine code has these as constants; a number of an
# enumeration would not be among the facts that tell it from older code.
CONSTANT = 0
"""A constant: its place among the texts, its size."""
COLUMN = 1
"""A number, in decimal: the column that has it."""
NUMBER = 2
"""A number of the message, in decimal: offset and size."""
HEX = 3
"""Bytes of the message, in hexadecimal digits: offset and size."""
SPAN_HEX, SPAN_TEXT, SPAN_JSON = 4, 5, 6
"""Bytes of the batch: in hexadecimal digits, as the inside of a JSON string, or as JSON.

Argument: the column that has their place; the next column has their size.
"""
SIDE = 7
"""Bytes that were made beside the batch, unchanged: columns as for a span."""
FRAGMENT = 8
"""A fragment: the column that has its number."""
TIME_NS = 9
"""A capture time: the column that has its nanoseconds."""
SECONDS = 10
"""A time of four bytes of the message: offset."""
CAS_TIME = 11
"""When a CAS of the message was made: offset."""
SIDE_HEX, SIDE_TEXT, SIDE_JSON = 12, 13, 14
"""The same as for a span, with bytes beside the batch."""
SPAN_SHOWN, SIDE_SHOWN = 15, 16
"""Text as ``escape`` shows it on a terminal, up to the limit: columns as for a span."""
OFFSETS = 17
"""Offsets as in a field table: the column that has the place (the next one has the size), and the least width."""
REMARK = 18
"""A number of the message in brackets, behind its digits, unless it has only one digit: offset and size."""
CAS_REMARK = 19
"""When a CAS of the message was made, in brackets: offset."""
XATTRS = 20
"""A line for each xattr: the column that has their place beside the batch, and the width of labels.

The next columns have their size, and their place in the message, or 0 if they were compressed.
"""
XATTR_FIELDS, XATTR_MEMBERS = 22, 23
"""For each xattr, its object among the fields, or the member of the JSON object with its value: columns as for lines."""
LINE_END = 21
"""Ends a line, and removes blanks at its end."""

MAX_XATTRS = 16
"""Greatest number of xattrs of a value that are written here."""
_ROOM = {COLUMN: 20, NUMBER: 20, TIME_NS: 40, SECONDS: 40, CAS_TIME: 40, CAS_REMARK: 40}
_ROOM |= {XATTR_FIELDS: MAX_XATTRS * 160, XATTR_MEMBERS: MAX_XATTRS * 10}
_ROOM |= {SPAN_SHOWN: 40, SIDE_SHOWN: 40, OFFSETS: 44, REMARK: 24, LINE_END: 1}
"""Greatest number of bytes that operations write; ``row_run`` adds the room for spans, fragments and bytes beside the batch."""

REFUSED = -1
UNLIMITED = 1 << 62
"""The limit for texts that are shown whole."""
_NAME, _OFFSET, _SIZE, _HEX, _VALUE, _END, _INFLATED = (
    np.frombuffer(text, np.uint8)
    for text in (
        *(b'{"name":', b',"label":"xattr","offset":', b',"size":', b',"hex":"', b'","value":"', b'","meaning":null}'),
        b'","meaning":null,"inflated":true}',
    )
)
"""Texts around the numbers and texts of an xattr among the fields."""
_BYTES = np.frombuffer(b" bytes)", np.uint8)


@dataclass(slots=True)
class Program:
    """The operations of one kind of row, and the room that they need without spans."""

    operations: list[tuple[int, int, int]] = field(default_factory=list)
    size: int = 0
    """Number of bytes of constants, and room for every number."""


class Texts:
    """Constants and fragments of all programs, in one buffer each."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._places: dict[bytes, int] = {}
        self._fragments: dict[bytes, int] = {}
        self._fragment_places: list[tuple[int, int]] = []
        self.longest_fragment = 0

    def place(self, text: bytes) -> int:
        """Returns where a constant stands; equal constants stand there once."""
        if text not in self._places:
            self._places[text] = len(self._bytes)
            self._bytes += text
        return self._places[text]

    def fragment(self, text: bytes) -> int:
        """Returns the number of a text, which a column can name."""
        if text not in self._fragments:
            self._fragments[text] = len(self._fragment_places)
            self._fragment_places.append((self.place(text), len(text)))
            self.longest_fragment = max(self.longest_fragment, len(text))
        return self._fragments[text]

    @property
    def count(self) -> int:
        """Number of texts that columns can name."""
        return len(self._fragment_places)

    def arrays(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Returns the bytes of all texts, and the place and size of each fragment, [fragments, 2]."""
        places = np.array(self._fragment_places, dtype=np.int64).reshape(-1, 2)
        return np.frombuffer(bytes(self._bytes), np.uint8), np.ascontiguousarray(places)


class ProgramBuilder:
    """Builds one program, and joins adjacent texts to one constant."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._pending = bytearray()
        self.program = Program()

    def text(self, text: bytes) -> None:
        """Adds a constant."""
        self._pending += text

    def add(self, operation: int, first: int, second: int = 0) -> None:
        """Adds an operation with its arguments."""
        self._flush()
        self.program.operations.append((operation, first, second))
        self.program.size += (
            2 * second if operation == HEX else MAX_XATTRS * (second + 100) if operation == XATTRS else _ROOM.get(operation, 0)
        )

    def finish(self) -> Program:
        """Returns the finished program."""
        self._flush()
        return self.program

    def _flush(self) -> None:
        if self._pending:
            text = bytes(self._pending)
            self.program.operations.append((CONSTANT, self._texts.place(text), len(text)))
            self.program.size += len(text)
            self._pending.clear()


@inline
def put_constant(out: Octets, at: int, text: Octets) -> int:
    """Writes all of a text; returns the place behind it."""
    copy(out, at, text, 0, len(text))
    return at + len(text)


@inline
def put_escape(out: Octets, at: int, letter: int, value: int, digits: int) -> int:
    """Writes a backslash, a letter and so many hexadecimal digits; returns the place behind them."""
    out[at], out[at + 1] = 92, letter
    for i in range(digits):
        out[at + 2 + i] = hex_digit(value >> (4 * (digits - 1 - i)) & 15)
    return at + 2 + digits


@inline
def put_text(out: Octets, at: int, data: Octets, start: int, size: int, is_string: int) -> int:
    """Writes UTF-8 text: as the inside of a JSON string, or JSON unchanged, but with blanks for line breaks.

    Returns the place behind it, or -1 if the text cannot be written here.
    """
    i, end = start, start + size
    while i < end:
        byte = octet(data, i)
        if 0x20 <= byte < 0x7F:
            if is_string and (byte == 34 or byte == 92):
                put(out, at, 92)
                at += 1
            put(out, at, byte)
            at += 1
            i += 1
            continue
        if byte >= 0x80:
            wide = sequence_size(data, i, end)
            if wide == 0:
                return -1
            for k in range(wide):
                put(out, at + k, octet(data, i + k))
            at += wide
            i += wide
            continue
        if byte == 0x7F:
            return -1
        if is_string == 0:
            out[at] = 32 if byte == 10 or byte == 13 else byte
            at += 1
        elif byte == 8 or byte == 9 or byte == 10 or byte == 12 or byte == 13:
            out[at] = 92
            out[at + 1] = 98 if byte == 8 else 116 if byte == 9 else 110 if byte == 10 else 102 if byte == 12 else 114
            at += 2
        else:
            at = put_escape(out, at, 117, byte, 4)
        i += 1
    return at


@inline
def put_shown(out: Octets, at: int, data: Octets, start: int, size: int, shown: Octets, limit: int) -> int:
    """Writes UTF-8 text as ``escape`` does, cut after ``limit`` letters; a cut text is followed by its length. ``shown``: whether
    characters stay.

    Returns the place behind it, or -1 if the text is not UTF-8, or has characters that ``shown`` does not cover.
    """
    i, end, letters = start, start + size, 0
    while i < end:
        byte = octet(data, i)
        if letters < limit and 0x20 <= byte < 0x7F and byte != 92:  # most letters
            put(out, at, byte)
            at += 1
            letters += 1
            i += 1
            continue
        wide = 1
        if byte >= 0x80:
            wide = character_size(data, i, end)
            if wide == 0:
                return -1
        if letters > limit:
            i += wide
            continue
        before = at
        if byte < 0x80:
            if letters == limit:
                letters += 1
            elif byte == 92:
                out[at], out[at + 1] = 92, 92
                at += 2
                letters += 2
            else:
                at = put_escape(out, at, 120, byte, 2)
                letters += 4
        else:
            code = byte & (0x7F >> wide)
            for k in range(1, wide):
                code = code << 6 | octet(data, i + k) & 0x3F
            if code >= len(shown):
                return -1
            if shown[code] == 0:
                digits = 4 if code < 0x10000 else 8
                at = put_escape(out, at, 117 if digits == 4 else 85, code, digits)
                letters += 2 + digits
            elif letters == limit:
                letters += 1
            else:
                for k in range(wide):
                    put(out, at + k, octet(data, i + k))
                at += wide
                letters += 1
        if letters > limit and at > before:  # the cut is in the middle of an escape
            at -= letters - limit
        i += wide
    if letters > limit:
        out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = 0xE2, 0x80, 0xA6, 32, 40
        at = put_constant(out, put_integer(out, at + 5, size), _BYTES)
    return at


@inline
def put_line_end(out: Octets, at: int) -> int:
    """Ends a line after its last letter that is not a blank; returns the place behind it."""
    while out[at - 1] == 32:
        at -= 1
    out[at] = 10
    return at + 1


@inline
def put_xattrs(out: Octets, at: int, side: Octets, start: int, place: int, size: int, width: int, shown: Octets, limit: int) -> int:
    """Writes a line for each pair of a valid section; ``place``: where the section stands in the message, or 0 if it was compressed.

    Returns the place behind the lines, or -1 if a value is not text.
    """
    pair = 4
    while pair < size:
        long = 4 + be32(side, start + pair)
        begin = at
        for i in range(8):
            out[at + i] = 32
        at += 8
        name = start + pair + 4
        while side[name] != 0:
            out[at] = side[name]
            at += 1
            name += 1
        while at < begin + 5 + width:
            out[at] = 32
            at += 1
        out[at] = 32
        if place == 0:
            out[at] = 126
            at = put_offsets(out, at + 1, pair, long, 6)
        else:
            at = put_offsets(out, at, place + pair, long, 7)
        out[at], out[at + 1] = 58, 32
        at = put_shown(out, at + 2, side, name + 1, start + pair + long - 1 - (name + 1), shown, limit)
        if at < 0:
            return -1
        at = put_line_end(out, at)
        pair += long
    return at


@inline
def put_pairs(out: Octets, at: int, side: Octets, start: int, place: int, size: int, is_field: int) -> int:
    """Writes the pairs of a section as ``put_xattrs`` does, but as JSON with commas: objects of fields, or names with values, which are
    JSON.
    """
    pair = 4
    while pair < size:
        long = 4 + be32(side, start + pair)
        name = start + pair + 4
        value = name
        while side[value] != 0:
            value += 1
        if pair > 4:
            out[at] = 44
            at += 1
        if is_field:
            at = put_constant(out, at, _NAME)
        out[at] = 34
        at = put_text(out, at + 1, side, name, value - name, 1)
        if at < 0:
            return -1
        out[at] = 34
        at += 1
        value_size = start + pair + long - 1 - (value + 1)
        if is_field:
            at = put_integer(out, put_constant(out, at, _OFFSET), place + pair)
            at = put_integer(out, put_constant(out, at, _SIZE), long)
            at = put_hex(out, put_constant(out, at, _HEX), side, start + pair, long)
            at = put_text(out, put_constant(out, at, _VALUE), side, value + 1, value_size, 1)
            if at < 0:
                return -1
            at = put_constant(out, at, _INFLATED if place == 0 else _END)
        else:
            out[at] = 58
            at = put_text(out, at + 1, side, value + 1, value_size, 0)
            if at < 0:
                return -1
        pair += long
    return at


@kernel(
    "void(int64[::1], int64[:,::1], int64[:,::1], int64[:,::1], octets, octets, octets, int64[:,::1], int64[::1], octets, int64,"
    "uint8[::1], int64[::1])",
)
def write_rows(
    program_of: Ints,
    programs: Ints,
    operations: Ints,
    columns: Ints,
    data: Octets,
    side: Octets,
    texts: Octets,
    fragments: Ints,
    start: Ints,
    shown: Octets,
    limit: int,
    out: Octets,
    ends: Ints,
) -> None:
    """Writes each row by its program; ``ends`` becomes the place behind each row, or -1 for one that is refused.

    ``programs`` has [first, end) in ``operations``; ``columns`` is [column, row]; ``start`` is where each message begins in ``data``;
    ``shown`` and ``limit`` are for texts on a terminal. The caller has left room in ``out``. Time: number of written bytes.
    """
    at = 0
    for row in range(len(program_of)):
        begin = at
        base = start[row]
        for step in range(programs[program_of[row], 0], programs[program_of[row], 1]):
            what, first, second = operations[step, 0], operations[step, 1], operations[step, 2]
            if what == CONSTANT:
                copy(out, at, texts, first, second)
                at += second
            elif what == COLUMN:
                at = put_integer(out, at, columns[first, row])
            elif what == NUMBER:
                at = put_wire_number(out, at, data, base + first, second)
            elif what == HEX:
                at = put_hex(out, at, data, base + first, second)
            elif what == SPAN_HEX:
                at = put_hex(out, at, data, columns[first, row], columns[first + 1, row])
            elif what in (SPAN_TEXT, SPAN_JSON):
                at = put_text(out, at, data, columns[first, row], columns[first + 1, row], 1 if what == SPAN_TEXT else 0)
                if at < 0:
                    break
            elif what == SIDE:
                copy(out, at, side, columns[first, row], columns[first + 1, row])
                at += columns[first + 1, row]
            elif what == FRAGMENT:
                fragment = columns[first, row]
                copy(out, at, texts, fragments[fragment, 0], fragments[fragment, 1])
                at += fragments[fragment, 1]
            elif what == TIME_NS:
                at = put_time(out, at, columns[first, row])
            elif what == SECONDS:
                at = put_wire_time(out, at, data, base + first)
            elif what == CAS_TIME:
                at = put_cas_time(out, at, data, base + first, 0)
            elif what == CAS_REMARK:
                at = put_cas_time(out, at, data, base + first, 1)
            elif what == REMARK:
                at = put_remark(out, at, data, base + first, second)
            elif what == LINE_END:
                at = put_line_end(out, at)
            elif what == OFFSETS:
                at = put_offsets(out, at, columns[first, row], columns[first + 1, row], second)
            elif what == SIDE_HEX:
                at = put_hex(out, at, side, columns[first, row], columns[first + 1, row])
            elif what in (SIDE_TEXT, SIDE_JSON):
                at = put_text(out, at, side, columns[first, row], columns[first + 1, row], 1 if what == SIDE_TEXT else 0)
                if at < 0:
                    break
            elif what == SPAN_SHOWN:
                at = put_shown(out, at, data, columns[first, row], columns[first + 1, row], shown, limit)
                if at < 0:
                    break
            elif what == SIDE_SHOWN:
                at = put_shown(out, at, side, columns[first, row], columns[first + 1, row], shown, limit)
                if at < 0:
                    break
            elif what in (XATTR_FIELDS, XATTR_MEMBERS):
                is_field = 1 if what == XATTR_FIELDS else 0
                at = put_pairs(out, at, side, columns[first, row], columns[first + 2, row], columns[first + 1, row], is_field)
                if at < 0:
                    break
            elif what == XATTRS:
                at = put_xattrs(out, at, side, columns[first, row], columns[first + 2, row], columns[first + 1, row], second, shown, limit)
                if at < 0:
                    break
        if at < 0:
            at = begin
            ends[row] = -1
        else:
            ends[row] = at
