"""Rows as text, many at a time: one kernel runs programs of a few operations over the columns of a
batch.

A program is the text of one kind of row, with its constant parts already encoded. Its operations
copy a constant, or write a number of a column or of the message's bytes, hexadecimal digits, a
time, or text. The kernel writes a row in the time that Python needs for one formatted string.
Lines, dumps, field tables, JSON and CSV are written by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.kernels.distinct import distinct
from dcpinspect.kernels.kernel import copy, inlined, kernel, kernel_function
from dcpinspect.kernels.structs import Struct, T, Tables, number
from dcpinspect.kernels.structs import StructRows as Records
from dcpinspect.output.export.number_text import (
    put_cas_time,
    put_elapsed,
    put_epoch,
    put_hex,
    put_hex64,
    put_integer,
    put_millis,
    put_offsets,
    put_remark,
    put_right,
    put_time,
    put_unsigned,
    put_wire_time,
    wire_number,
)
from dcpinspect.output.export.span_text import (
    clipped,
    put_dump,
    put_pairs,
    put_plain,
    put_shown,
    put_text,
    put_xattrs,
    trimmed,
)
from dcpinspect.protocol.column_types import RowNumbers

# Operations, with the meaning of their arguments. They are plain numbers, because machine code has
# these as constants; a number of an enumeration would not be among the facts that tell it from
# older code. Their order is their family: see ``write_rows``.
CONSTANT, FRAGMENT = 0, 1
"""A constant: its place among the texts, its size. A fragment: the column that has its number."""
UNLESS = 2
"""Leaves out the next operations if a column is 0: the column, and how many."""
LINE_END, RIGHT, CLIP = 3, 4, 5
"""What concerns the text so far. LINE_END ends a line, and removes blanks at its end; 1: only
removes them. RIGHT moves what stands behind the last blank to the right end of a column: its width.
CLIP shortens the row to a width; the second argument has the size of what is no part of it at the
beginning.
"""
COLUMN, UNSIGNED, HEX64 = 10, 11, 12
"""A number of 64 bits: the column that has it. In decimal, with a sign; without one, and right in a
column of so many letters; in hexadecimal digits in quotes.
"""
TIME_NS, DATE_NS, EPOCH, ELAPSED, MILLIS = 13, 14, 15, 16, 17
"""Nanoseconds: the column that has them. As a time of RFC 3339 without its Z, the same with a blank
in the middle, as seconds with nine or with six digits, and as milliseconds with three.
"""
OFFSETS = 18
"""Offsets as in a field table: the column with the place (then the size), and the width."""
NUMBER, HEX = 20, 21
"""Bytes of the message: offset and size. In decimal, right in a column of so many letters (third
argument); in hexadecimal digits.
"""
SECONDS, CAS_TIME, CAS_REMARK = 22, 23, 24
"""A time of four bytes of the message, when a CAS was made, and the same in brackets: offset."""
REMARK = 25
"""A number of the message in brackets behind its digits, unless it has one: offset, size."""
SPAN_HEX = 30
SPAN_TEXT = 31
SPAN_JSON = 32
SPAN_SHOWN = 33
SPAN_PLAIN = 34
SPAN_DUMP = 35
SPAN_COPY = 36
"""Bytes of the batch: in hexadecimal digits, as the inside of a JSON string, as JSON, as ``escape``
shows them on a terminal up to the limit, as a key clipped to so many letters (second argument), as
a dump, and unchanged.

Argument: the column that has their place; the next column has their size.
"""
XATTRS = 37
"""A line below for each xattr: the column that has their place beside the batch, and the width of labels.

The next columns have their size, and their place in the message, or 0 if they were compressed.
"""
XATTR_FIELDS, XATTR_MEMBERS = 38, 39
"""For each xattr, its object among the fields, or the member of the JSON object with its value:
columns as for lines.
"""
BESIDE = 64
"""Added to the number of an operation for bytes: they stand beside the batch."""

MAX_XATTRS = 16
"""Greatest number of xattrs of a value that are written here."""
_ROOM = {
    COLUMN: 20,
    UNSIGNED: 20,
    HEX64: 20,
    NUMBER: 20,
    TIME_NS: 30,
    DATE_NS: 30,
    EPOCH: 30,
    ELAPSED: 20,
    MILLIS: 25,
}
_ROOM |= {SECONDS: 40, CAS_TIME: 40, CAS_REMARK: 40, RIGHT: 40, CLIP: 3}
_ROOM |= {XATTR_FIELDS: MAX_XATTRS * 160, XATTR_MEMBERS: MAX_XATTRS * 10}
_ROOM |= {SPAN_SHOWN: 40, OFFSETS: 44, REMARK: 24, LINE_END: 1, SPAN_DUMP: 84}
"""Greatest number of bytes that operations write; who writes rows adds the room for spans,
fragments and bytes beside the batch.
"""

MAX_SHAPES = 256
"""Number of shapes of one kind of row, in a batch, that get programs of their own."""
REFUSED = -1
UNLIMITED = 1 << 62
"""The limit for texts that are shown whole."""
NOTHING_SHOWN = (b"\0", 0)
"""For rows without text as ``escape`` shows it."""


class Operation(Struct[T]):
    """One step of a program."""

    what: T = number("CONSTANT and the others.")
    first: T = number("Its arguments.")
    second: T = number("")
    third: T = number("")


class Operations(Operation[IntArray], Records[Operation]):
    """The steps of all programs."""


class TextSpan(Struct[T]):
    """A part of a table."""

    start: T = number("Its first place.")
    end: T = number("One past its last place.")


class Spans(TextSpan[IntArray], Records[TextSpan]):
    """Parts of a table."""


class RowTables(Tables):
    """What ``write_rows`` reads besides bytes."""

    operations: Operations
    programs: Spans
    fragments: Spans
    program: IntArray
    """Program of each row; -1: it is refused."""
    base: IntArray
    """Where the message of each row begins in the batch."""
    columns: IntArray
    """All numbers of one column, then those of the next one."""
    height: int
    """Length of a column."""
    first: int
    """The first row that is written."""
    limit: int
    """Letters of a text that is shown on a terminal."""


class RowTexts:
    """Constants and fragments of all programs, in one buffer each."""

    def __init__(self) -> None:
        self._bytes = bytearray(b"\0")
        self._places: dict[bytes, int] = {}
        self._fragments: dict[bytes, int] = {}
        self._fragment_places: list[tuple[int, int]] = []
        self.longest_fragment = 0

    def constant_start(self, text: bytes) -> int:
        """Returns where a constant stands; equal constants stand there once."""
        if text not in self._places:
            self._places[text] = len(self._bytes)
            self._bytes += text
        return self._places[text]

    def fragment(self, text: bytes) -> int:
        """Returns the number of a text, which a column can name."""
        if text not in self._fragments:
            self._fragments[text] = len(self._fragment_places)
            start = self.constant_start(text)
            self._fragment_places.append((start, start + len(text)))
            self.longest_fragment = max(self.longest_fragment, len(text))
        return self._fragments[text]

    @property
    def count(self) -> int:
        """Number of texts that columns can name."""
        return len(self._fragment_places)

    def arrays(self) -> tuple[ByteArray, Spans]:
        """Returns the bytes of all texts, and where each fragment stands."""
        return np.frombuffer(bytes(self._bytes), np.uint8), Spans.of_integers(
            np.array(self._fragment_places, np.int64).reshape(-1, 2)
        )


ProgramPart = bytes | tuple[int, ...]
"""A constant, or an operation with its arguments."""
_NONCE = f"\ue000{os.urandom(16).hex()}"
_MARKED = re.compile(rf'(")?{_NONCE}(\d{{8}})(?(1)"(?::null)?)'.encode())
"""Matches a mark, and in JSON the string that it is, or the member that it names. What is captured
cannot have the nonce. A mark is wider than any column, so nothing pads it.
"""


class ProgramBuilder:
    """Builds one program, and joins adjacent texts to one constant.

    It may be made by example: a message is written as usual, but with marks in place of what
    differs between messages.
    """

    def __init__(self, texts: RowTexts) -> None:
        self._texts = texts
        self._marks: list[tuple[ProgramPart, ...]] = []
        self._pending = bytearray()
        self.operations: list[tuple[int, int, int, int]] = []
        self.size = 0
        """Number of bytes of constants, and room for every number."""

    def text(self, text: bytes) -> None:
        """Adds a constant."""
        self._pending += text

    def mark(self, *parts: ProgramPart) -> str:
        """Returns the mark that stands for these parts in an example."""
        self._marks.append(parts)
        return f"{_NONCE}{len(self._marks) - 1:08}"

    def example(self, text: str | bytes) -> None:
        """Adds the text of a message with marks."""
        constants = _MARKED.split(text.encode() if isinstance(text, str) else text)
        for constant, mark_number in zip(constants[::3], [*constants[2::3], None], strict=True):
            self.text(constant)
            for step in () if mark_number is None else self._marks[int(mark_number)]:
                if isinstance(step, bytes):
                    self.text(step)
                else:
                    self.add(*step)

    def add(self, operation: int, first: int, second: int = 0, third: int = 0) -> None:
        """Adds an operation with its arguments."""
        self.flush()
        self.operations.append((operation, first, second, third))
        self.size += _ROOM.get(operation & ~BESIDE, 0)
        if operation == HEX:
            self.size += 2 * second
        elif operation & ~BESIDE == XATTRS:
            self.size += MAX_XATTRS * (second + 100)
        self.size += second if operation in (UNSIGNED, ELAPSED) else third

    def flush(self) -> None:
        """Makes an operation of the constant so far."""
        if self._pending:
            text = bytes(self._pending)
            self.operations.append((CONSTANT, self._texts.constant_start(text), len(text), 0))
            self.size += len(text)
            self._pending.clear()


def alike(
    members: RowNumbers, shape: Sequence[RowNumbers]
) -> Iterator[tuple[tuple[int, ...], RowNumbers]]:
    """Yields rows in groups that are equal in all these columns, with their numbers; yields none if
    there are too many groups.
    """
    if not len(members):
        return
    groups = np.zeros(len(members), dtype=np.int64)
    for numbers in shape:
        if (numbers != numbers[0]).any():  # in most shapes all are equal, and comparing costs less
            first, inverse = distinct(numbers)
            groups = distinct(groups * len(first) + inverse)[1]
    first = distinct(groups)[0]
    for group, first_row in enumerate(first.tolist() if len(first) <= MAX_SHAPES else ()):
        yield tuple(int(numbers[first_row]) for numbers in shape), members[groups == group]


def completed(
    text: ByteArray, ends: IntArray, ordinary: Callable[[int], bytes], first: int = 0
) -> Iterator[bytes]:
    """Yields the text of rows with those that the kernel left out: if ``ends[n]`` is -1, the text
    of row n is ``ordinary(first + n)``.
    """
    begin, next_index = 0, 0
    for index in np.flatnonzero(ends < 0).tolist():
        before = int(ends[next_index:index].max(initial=begin))
        if before > begin:
            yield text[begin:before].tobytes()
        begin, next_index = before, index + 1
        yield ordinary(first + index)
    if len(text) > begin:
        yield text[begin:].tobytes()


class RowWriter:
    """Programs, the texts that they look up, and the rows that they write."""

    def __init__(self) -> None:
        self.texts = RowTexts()
        self._operations: list[tuple[int, int, int, int]] = []
        self._programs: list[tuple[int, int]] = []
        self._sizes: list[int] = []
        self._tables: tuple[Operations, Spans] | None = None
        self._room = np.empty(0, np.uint8)

    def builder(self) -> ProgramBuilder:
        """Returns the builder for one more program."""
        return ProgramBuilder(self.texts)

    def add(self, builder: ProgramBuilder) -> int:
        """Adds the program that was built, and returns its number."""
        builder.flush()
        self._programs.append(
            (len(self._operations), len(self._operations) + len(builder.operations))
        )
        self._operations += builder.operations
        self._sizes.append(builder.size)
        self._tables = None
        return len(self._programs) - 1

    def sizes(self, program: RowNumbers) -> RowNumbers:
        """Returns the room that rows of these programs take without spans and fragments."""
        return np.append(np.array(self._sizes, np.int64), 0)[program]

    def write(
        self,
        program: RowNumbers,
        columns: IntArray,
        sources: tuple[ByteArray, ByteArray],
        *,
        base: RowNumbers | None = None,
        within: slice = slice(None),
        room: int,
        shows: tuple[bytes, int] = NOTHING_SHOWN,
    ) -> tuple[ByteArray, IntArray]:
        """Returns the text of rows, and where each ends: -1 for one that is refused. It is only
        valid until the next call.

        ``columns`` [column, row] are for all rows, ``within`` are the rows that are written.
        ``sources``: the bytes of the batch, and those beside it. ``base``: where each message
        begins. ``room``: bytes that are enough. ``shows``: for texts that are shown, the characters
        that stay as they are, and the greatest length of a text.
        """
        if self._tables is None:
            operations = Operations.of_integers(np.array(self._operations, np.int64).reshape(-1, 4))
            self._tables = (
                operations,
                Spans.of_integers(np.array(self._programs, np.int64).reshape(-1, 2)),
            )
        if room > len(self._room):
            self._room = np.empty(room, np.uint8)
        tables = RowTables()
        tables.operations, tables.programs = self._tables
        texts, tables.fragments = self.texts.arrays()
        tables.program = np.require(program, np.int64, ("C", "W"))
        tables.base = (
            np.zeros(len(program), np.int64)
            if base is None
            else np.require(base, np.int64, ("C", "W"))
        )
        tables.columns = np.require(columns, np.int64, ("C", "W")).reshape(-1)
        tables.height = len(program)
        tables.first, stop, _ = within.indices(len(program))
        tables.limit = shows[1]
        ends = np.empty(stop - tables.first, np.int64)
        write_rows(*sources, texts, np.frombuffer(shows[0], np.uint8), tables, self._room, ends)
        return self._room[: ends.max(initial=0)], ends


@inlined
def put_value(out: ByteArray, at: int, what: int, value: int, width: int) -> int:
    """Writes a number of a column, as ``what`` says; returns the place behind it."""
    if what == UNSIGNED:
        return put_unsigned(out, at, value, width)
    if what == COLUMN:
        return put_integer(out, at, value)
    if what == HEX64:
        return put_hex64(out, at, value)
    if what == MILLIS:
        return put_millis(out, at, value)
    if what == ELAPSED:
        return put_elapsed(out, at, value, width)
    if what == EPOCH:
        return put_epoch(out, at, value)
    return put_time(out, at, value, 84 if what == TIME_NS else 32)


@inlined
def put_of_message(
    out: ByteArray, at: int, what: int, data: ByteArray, start: int, size: int, width: int
) -> int:
    """Writes a number at a place of the message, as ``what`` says; returns the place behind it."""
    if what == NUMBER:
        return put_unsigned(out, at, wire_number(data, start, size), width)
    if what == HEX:
        return put_hex(out, at, data, start, size)
    if what == SECONDS:
        return put_wire_time(out, at, data, start)
    if what == REMARK:
        return put_remark(out, at, data, start, size)
    return put_cas_time(out, at, data, start, 1 if what == CAS_REMARK else 0)


@inlined
def put_span(
    out: ByteArray, at: int, what: int, text: ByteArray, longest: int, shown: ByteArray, limit: int
) -> int:
    """Writes bytes as ``what`` says; returns the place behind them, or -1 if it cannot."""
    if what == SPAN_COPY:
        copy(out, at, text, 0, len(text))
        return at + len(text)
    if what == SPAN_HEX:
        return put_hex(out, at, text, 0, len(text))
    if what == SPAN_PLAIN:
        return put_plain(out, at, text, longest)
    if what == SPAN_SHOWN:
        return put_shown(out, at, text, shown, limit)
    if what == SPAN_DUMP:
        return put_dump(out, at, text)
    return put_text(out, at, text, 1 if what == SPAN_TEXT else 0)


@inlined
def put_section(
    out: ByteArray,
    at: int,
    what: int,
    section: ByteArray,
    place: int,
    width: int,
    shown: ByteArray,
    limit: int,
) -> int:
    """Writes xattrs as ``what`` says; returns the place behind them, or -1 if it cannot."""
    if what == XATTRS:
        return put_xattrs(out, at, section, place, width, shown, limit)
    return put_pairs(out, at, section, place, 1 if what == XATTR_FIELDS else 0)


@kernel_function
def settled(out: ByteArray, offset: int, operation: int, first: int, start: int) -> int:
    """Changes the text from ``start`` on, as ``operation`` says; returns the place behind it."""
    if operation == RIGHT:
        return put_right(out, offset, first)
    if operation == CLIP:
        return clipped(out, start, offset, first)
    offset = trimmed(out, offset)
    if first == 0:
        out[offset] = 10
        offset += 1
    return offset


@kernel("void(octets, octets, octets, octets, RowTables, uint8[::1], int64[::1])")
def write_rows(
    data: ByteArray,
    side: ByteArray,
    texts: ByteArray,
    shown: ByteArray,
    tables: RowTables,
    out: ByteArray,
    ends: IntArray,
) -> None:
    """Writes each row by its program; ``ends`` becomes the place behind each row, or -1 for one
    that is refused.

    ``data`` has the bytes of the batch, ``side`` what was made beside it. The caller has left room
    in ``out``. Time: number of bytes that are written.
    """
    offset = 0
    for index in range(len(ends)):
        row, begin = tables.first + index, offset
        ends[index] = REFUSED
        if tables.program[row] < 0:
            continue
        program, base = tables.programs[tables.program[row]], tables.base[row]
        number = program.start
        while number < program.end and offset >= 0:
            operation = tables.operations[number]
            action, first, second = operation.what, operation.first, operation.second
            number += 1
            if action == CONSTANT:
                copy(out, offset, texts, first, second)
                offset += second
                continue
            if NUMBER <= action <= REMARK:
                offset = put_of_message(
                    out, offset, action, data, base + first, second, operation.third
                )
                continue
            if LINE_END <= action <= CLIP:
                offset = settled(out, offset, action, first, begin + second)
                continue
            cell = first * tables.height + row
            value = tables.columns[cell]
            if action == FRAGMENT:
                fragment = tables.fragments[value]
                copy(out, offset, texts, fragment.start, fragment.end - fragment.start)
                offset += fragment.end - fragment.start
            elif action == UNLESS:
                number += second if value == 0 else 0
            elif action == OFFSETS:
                offset = put_offsets(
                    out, offset, value, tables.columns[cell + tables.height], second
                )
            elif action < NUMBER:
                offset = put_value(out, offset, action, value, second)
            else:
                source, kind = side if action >= BESIDE else data, action & ~BESIDE
                text = source[value : value + tables.columns[cell + tables.height]]
                if kind < XATTRS:
                    offset = put_span(out, offset, kind, text, second, shown, tables.limit)
                else:
                    offset = put_section(
                        out,
                        offset,
                        kind,
                        text,
                        tables.columns[cell + 2 * tables.height],
                        second,
                        shown,
                        tables.limit,
                    )
        if offset < 0:
            offset = begin
        else:
            ends[index] = offset
