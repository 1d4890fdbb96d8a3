"""Lines of messages, many at a time: a kernel makes them from the columns of a batch. The text is
the same as from ``render.message_lines``.

Messages of one command, status, layout and datatype are of the same kind: what is the same in their
lines is looked up once. Only numbers and keys differ, and the kernel writes them. A message with
anything unusual is left to ``Lines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, ByteArray, IntArray
from dcpinspect.kernels.distinct import distinct
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export.line_programs import (
    ASKED_BEFORE,
    ASKED_HERE,
    COLUMN,
    NO_KEY,
    OWN,
    TIME_FORMS,
    StoryPart,
    line_program,
    number_places,
    story_parts,
)
from dcpinspect.output.export.row_text import RowWriter, alike, completed, write_rows
from dcpinspect.output.render.message_lines import (
    SAID_ONCE,
    Lines,
    WordField,
    body_text,
    key_prefix,
)
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.decode import BAD_PREFIX, by_layout
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.tables.messages import MessageBatch

SLICE = 1 << 15
"""Number of messages that are made into lines at once."""
MAX_REMEMBERED = 1 << 14
"""Number of kinds and words that are kept; only a capture that is made to waste memory has more."""

_SHORT = 1 << 10
"""Stories of longer messages are not looked for among those of earlier messages."""
_LAYOUT_BITS = 12
"""Enough for the number of each layout."""
_LATEST_NS = 253_402_300_800 * 10**9
"""The year 10000, in nanoseconds since 1970."""

_HAS_PREFIX = by_layout(lambda layout: layout.key is not None and layout.key.kind is FieldKind.KEY)
_SAID_ONCE = np.isin(np.arange(256), np.array(SAID_ONCE))


@dataclass(frozen=True, slots=True)
class _LineKind:
    """What messages of one kind have in common."""

    parts: tuple[StoryPart, ...]
    """Their story, if numbers at fixed places tell it."""
    is_in_python: bool
    """Whether Python makes the story."""
    reads_value: bool
    """Whether numbers of their lines stand in the value."""


class LineRows:
    """Makes the lines of a reading as ``Lines`` does; remembers the kinds of messages met."""

    def __init__(
        self,
        lines: Lines,
        style: Callable[[MessageBatch, int], tuple[str, str]],
        groups: Callable[[RowNumbers], RowNumbers] | None = None,
        details: Callable[[MessageBatch, int], str] = lambda *_: "",
    ) -> None:
        """``style``: returns what stands before and after the line of a message, to give it its
        colour.

        It is called for one message of each kind. ``groups``: returns a number below 256 for each
        message of the batch that is being written; messages with different numbers can have
        different styles. ``details``: returns what stands below the line of a message.
        """
        self.lines = lines
        self.groups = groups
        self._style = style
        self._details = details
        self._writer = RowWriter()
        self._writer.texts.fragment(b"")  # the prefix of most keys
        self._kinds: dict[int, _LineKind] = {}
        self._programs: dict[tuple[int, ...], int] = {}

    def pieces(self, batch: MessageBatch, rows: RowNumbers) -> Iterator[bytes | memoryview]:
        """Yields the lines of these messages in order, many in a piece. A piece is only valid until
        the next one is made.
        """
        for slice_rows, times in self.slices(batch, rows, SLICE):
            yield self.written(batch, slice_rows, times)[0].data

    def slices(
        self, batch: MessageBatch, rows: RowNumbers, size: int
    ) -> Iterator[tuple[RowNumbers, RowNumbers]]:
        """Yields at most ``size`` of these messages at a time, with the times that lines show."""
        times = self.lines.shown_times(batch.time_ns[rows])
        for first in range(0, len(rows), size):
            yield rows[first : first + size], times[first : first + size]

    def ordinary(self, batch: MessageBatch, index: int, shown_ns: int) -> bytes:
        """Returns one line, made by ``Lines``."""
        before, behind = self._style(batch, index)
        return f"{before}{self.lines.line_at(batch, index, shown_ns)}{behind}\n".encode()

    def in_full(
        self, batch: MessageBatch, rows: RowNumbers, times: RowNumbers, place: int
    ) -> bytes:
        """Returns the line of one of these messages, and the details below it, made by Python."""
        index = int(rows[place])
        line = self.ordinary(batch, index, int(times[place]))
        return line + self._details(batch, index).encode()

    def written(
        self, batch: MessageBatch, rows: RowNumbers, times: RowNumbers
    ) -> tuple[ByteArray, IntArray]:
        """Returns the lines of at most ``SLICE`` messages, and where each ends. The result is only
        valid until the next call.
        """
        run = _KernelRun(self, batch, rows, times)
        line_sizes = (
            self._writer.sizes(run.program)
            + run.columns[COLUMN["key_size"]].clip(0)
            + run.columns[COLUMN["story_size"]]
        )
        line_sizes += self._writer.texts.longest_fragment
        side = np.frombuffer(bytes(run.side) or b" ", np.uint8)
        text, ends = self._writer.write(
            run.program,
            run.columns,
            (batch.data, side),
            base=batch.start[rows],
            room=int(line_sizes.sum()),
        )
        refused = np.flatnonzero(ends < 0)
        if not len(refused):
            return text, ends
        lines = {
            index: self.ordinary(batch, int(rows[index]), int(times[index]))
            for index in refused.tolist()
        }
        text = np.frombuffer(b"".join(completed(text, ends, lines.__getitem__)), np.uint8)
        more = np.zeros(len(ends), np.int64)
        more[refused] = [len(line) for line in lines.values()]
        return text, np.maximum.accumulate(ends.clip(0)) + np.cumsum(more)

    # -- what is remembered

    @property
    def _is_full(self) -> bool:
        return len(self._kinds) + len(self._programs) + self._writer.texts.count > MAX_REMEMBERED

    def kind(self, key: int, batch: MessageBatch, index: int) -> _LineKind | None:
        """Returns the kind with this key, made from one message; None: Python writes its lines."""
        kind = self._kinds.get(key)
        if kind is None and not self._is_full:
            pieces = story_parts(batch, index)
            positions = [
                *number_places(batch, index).values(),
                *(position for _, position in pieces or ()),
            ]
            reads_value = any(
                position is not None and position.is_in_value for position in positions
            )
            kind = self._kinds[key] = _LineKind(pieces or (), pieces is None, reads_value)
        return kind

    def program(self, kind: int, shape: tuple[int, ...], batch: MessageBatch, index: int) -> int:
        """Returns the number of the program for messages of a kind and a shape, made from one of
        them; -1 if they are left to Python.

        The shape begins with a number for each part that ``line_programs`` has bits for.
        """
        number = self._programs.get((kind, *shape), -1)
        if number < 0 and not self._is_full:
            builder, line_kind = self._writer.builder(), self._kinds[kind]
            line = batch, index, self._style(batch, index), shape[0], line_kind.parts
            number = self._writer.add(line_program(builder, self.lines, *line))
            self._programs[kind, *shape] = number
        return number

    def prefix(self, batch: MessageBatch, index: int) -> int | None:
        """Returns the number of the text before the key of a message.

        None if the memory for texts is full, or Python must measure its width.
        """
        text = key_prefix(batch, index, is_narrow=self.lines.is_narrow)
        if text.isascii() and not self._is_full:
            return self._writer.texts.fragment(text.encode())
        return None


class _KernelRun:
    """Some messages of a batch on their way through the kernel."""

    def __init__(
        self, of: LineRows, batch: MessageBatch, rows: RowNumbers, times: RowNumbers
    ) -> None:
        self._of, self._batch, self._rows = of, batch, rows
        # columns of consecutive messages need no copy
        self._at: Any = (
            slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) == rows[-1] - rows[0] + 1 else rows
        )
        self.side = bytearray()
        """Keys of earlier messages, and stories that Python has made."""
        self._plain = self._plain_rows(times)
        self.columns = np.zeros((len(COLUMN), len(rows)), np.int64)
        self._present = self._fill_numbers(times)
        self._key_of = np.zeros(len(rows), np.int64)
        self._fill_keys()
        self.program = self._choose_programs()
        """Program of each row; -1: its line is left to Python."""

    def _plain_rows(self, times: RowNumbers) -> BoolArray:
        """Returns which messages have nothing unusual, as far as columns tell."""
        batch, indices = self._batch, self._at
        plain: BoolArray = (
            np.isin(batch.decoded.problem[indices], (0, BAD_PREFIX))
            & ~batch.heuristic[indices]
            & (np.abs(times) < _LATEST_NS)
        )
        if self._of.lines.time_format in ("absolute", "epoch"):
            plain &= times >= 0
        plain &= write_rows.is_compiled and self._of.lines.time_format in TIME_FORMS
        if len(batch.missing.row):
            plain &= ~np.isin(self._rows, batch.missing.row)
        return plain

    def _fill_keys(self) -> None:
        batch, decoded, rows, indices = self._batch, self._batch.decoded, self._rows, self._at
        size = np.where(
            (decoded.key.size[indices] > 0) & decoded.hides_key[indices],
            -1,
            decoded.key.size[indices],
        )
        self._set("key_start", decoded.key.start[indices])
        self._set("key_size", size)
        self._key_of[size >= 0] = OWN
        if batch.redactor is not None:
            self._plain &= (size <= 0) | ~batch.has_private_key(rows)
        collection = np.where(
            decoded.collection_id.is_known[indices],
            decoded.collection_id.values[indices].view(np.int64),
            0,
        )
        named = np.flatnonzero((collection > 0) & (size >= 0) & self._plain)
        named = named[_HAS_PREFIX[decoded.layout[rows[named]]]]
        pairs = distinct(batch.connection[rows[named]] << 32 | collection[named])[1]
        # rows from which on names of collections differ
        moments = batch.names.moments(int(batch.row[rows[0]]), int(batch.row[rows[-1]]))
        pairs = pairs * (len(moments) + 1) + np.searchsorted(
            moments, batch.row[rows[named]], side="right"
        )
        self._fill_prefixes(pairs, named)
        asking = np.flatnonzero((size < 0) & self._plain)
        asking = asking[
            ~_SAID_ONCE[decoded.opcode[rows[asking]]] & batch.request_row.is_known[rows[asking]]
        ]
        if len(asking):
            self._fill_asked(asking)
        size = self.columns[COLUMN["key_size"]]
        self._key_of[(size <= 0) & (self.columns[COLUMN["prefix"]] == 0)] = NO_KEY
        np.maximum(size, 0, out=size)

    def _fill_prefixes(self, pairs: RowNumbers, places: RowNumbers) -> None:
        """Fills in the texts before the keys of these rows. Equal ``pairs`` have equal texts."""
        first, inverse = distinct(pairs)
        if len(first) > MAX_REMEMBERED:
            self._plain[places] = False
            return
        prefixes = [
            self._of.prefix(self._batch, int(self._rows[places[index]])) for index in first.tolist()
        ]
        texts = np.array([-1 if prefix is None else prefix for prefix in prefixes], dtype=np.int64)[
            inverse
        ]
        self._plain[places[texts < 0]] = False
        self.columns[COLUMN["prefix"], places] = np.maximum(texts, 0)

    def _fill_asked(self, asking: RowNumbers) -> None:
        """Fills in the keys of the requests that belong to the rows at these places."""
        batch, decoded = self._batch, self._batch.decoded
        start = self.columns[COLUMN["key_start"]]
        size = self.columns[COLUMN["key_size"]]
        whose = self._key_of
        request = batch.request_row.values[self._rows[asking]].astype(np.int64)
        request_index = batch.index_of(request)
        is_here = (request_index >= 0) & (request_index < len(batch))
        is_here[is_here] = batch.row[request_index[is_here]] == request[is_here]
        found_rows, request_index = asking[is_here], request_index[is_here]
        start[found_rows], whose[found_rows] = decoded.key.start[request_index], ASKED_HERE
        size[found_rows] = np.where(
            (decoded.key.size[request_index] > 0) & ~decoded.hides_key[request_index],
            decoded.key.size[request_index],
            -1,
        )
        unusual = (
            np.isin(request_index, batch.missing.row)
            if len(batch.missing.row)
            else np.zeros(len(request_index), dtype=np.bool_)
        )
        if batch.redactor is not None:
            unusual |= batch.has_private_key(request_index)
        self._plain[found_rows[unusual]] = False
        for index, row in zip(asking[~is_here].tolist(), request[~is_here].tolist(), strict=True):
            key = batch.earlier_keys.get(row)
            if key:
                start[index], size[index], whose[index] = len(self.side), len(key), ASKED_BEFORE
                self.side += key

    def _set(self, name: str, values: npt.NDArray[np.generic]) -> None:
        self.columns[COLUMN[name]] = values

    def _fill_numbers(self, times: RowNumbers) -> RowNumbers:
        """Fills in the columns of numbers; returns, as bits, which of those that not all messages
        have are there.
        """
        batch, indices = self._batch, self._at
        rtt, is_answer = batch.rtt_ns.values[indices], batch.rtt_ns.is_known[indices]
        # how a half is rounded depends on the binary form of the number, so such lines are left to
        # Python
        self._plain &= ~is_answer | ((rtt >= 0) & (rtt % 1000 != 500))
        vbucket = batch.vbuckets_of(self._rows)
        self._set("time_ns", times)
        for name in ("row", "connection", "length"):
            self._set(name, getattr(batch, name)[indices])
        present: RowNumbers = np.zeros(len(times), np.int64)
        for bit, (name, numbers, where) in enumerate(
            (
                ("vbucket", vbucket, slice(None)),
                ("sid", batch.decoded.sid, indices),
                ("rtt_ns", batch.rtt_ns, indices),
            )
        ):
            self._set(name, numbers.values[where].view(np.int64))
            present |= numbers.is_known[where].astype(np.int64) << bit
        return present

    def _choose_programs(self) -> RowNumbers:
        """Returns the program of each row: by its kind, by which parts its line has, and by numbers
        of its story.
        """
        batch, key = self._batch, self._keys()
        first, kind = distinct(key)
        has_body = np.zeros(len(key), dtype=np.bool_)
        line_kinds = [
            self._of.kind(int(key[index]), batch, int(self._rows[index]))
            for index in first.tolist()
        ]
        for number, line_kind in enumerate(line_kinds):
            if line_kind is None:
                self._plain[kind == number] = False
            elif line_kind.is_in_python:
                members = np.flatnonzero((kind == number) & self._plain)
                self._add_stories(members)
                has_body[members] = self.columns[COLUMN["story_size"], members] > 0
        self._present |= has_body.astype(np.int64) << 3 | self._key_of << 4
        framing = batch.decoded.framing_size[self._at].astype(np.int64)
        groups, group = distinct((kind << 8 | framing) << 6 | self._present)
        programs: RowNumbers = np.full(len(groups), -1, dtype=np.int64)
        kinds_by_numbers = []
        for number, index in enumerate(groups.tolist()):
            line_kind = line_kinds[kind[index]]
            shape = (int(self._present[index]), int(framing[index]))
            if line_kind is not None and (line_kind.parts or line_kind.reads_value):
                kinds_by_numbers.append((number, int(key[index]), line_kind, shape))
            elif line_kind is not None:
                programs[number] = self._of.program(
                    int(key[index]), shape, batch, int(self._rows[index])
                )
        row_programs: RowNumbers = np.where(self._plain, programs[group], -1)
        for number, of_kind, line_kind, shape in kinds_by_numbers:
            members = np.flatnonzero((group == number) & self._plain)
            for values, rows in alike(members, self._story_numbers(members, line_kind)):
                row_programs[rows] = self._of.program(
                    of_kind, (*shape, *values), batch, int(self._rows[rows[0]])
                )
        return row_programs

    def _keys(self) -> RowNumbers:
        """Returns a number for each row that decides what its line has in common with others."""
        batch, decoded, indices = self._batch, self._batch.decoded, self._at
        status = np.where(decoded.is_response[indices], decoded.specific[indices], 0).astype(
            np.int64
        )
        key: RowNumbers = decoded.opcode[indices].astype(np.int64) << 16 | status
        for bits, values in (
            (1, decoded.is_server[indices]),
            (1, decoded.is_response[indices]),
            (8, decoded.datatype[indices]),
            (1, decoded.extras_fit[indices]),
            (1, decoded.fits[indices]),
            (1, decoded.value.size[indices] > 0),
            (2, decoded.generation[indices]),
            (1, decoded.problem[indices] == BAD_PREFIX),
            (_LAYOUT_BITS, decoded.layout[indices] + 1),
            (1, batch.direction[indices]),
            (8, 0 if self._of.groups is None else self._of.groups(self._rows)),
        ):
            key <<= bits
            key |= values
        return key

    def _story_numbers(self, members: RowNumbers, kind: _LineKind) -> list[RowNumbers]:
        """Returns what the text of a story depends on, besides its numbers: words, which numbers
        are 0, and where the value begins.
        """
        decoded, indices = self._batch.decoded, self._rows[members]
        columns = (
            [decoded.value.start[indices] - self._batch.start[indices]] if kind.reads_value else []
        )
        for piece, position in kind.parts:
            if position is not None and (isinstance(piece, WordField) or not piece.tells_zero):
                section = (
                    decoded.value.start[indices]
                    if position.is_in_value
                    else decoded.extras_at[indices]
                )
                values = numbers_at(
                    self._batch.data, section + position.offset, position.size
                ).astype(np.int64)
                columns.append(
                    values if isinstance(piece, WordField) else (values != 0).astype(np.int64)
                )
        return columns

    def _add_stories(self, members: RowNumbers) -> None:
        """Puts the stories of the rows at these places beside the bytes."""
        batch, text_of = self._batch, dict[bytes, str]()
        is_pure = len(members) > 1 and _says_the_same(batch, int(self._rows[members[0]]))
        for member in members.tolist():
            index = int(self._rows[member])
            content = (
                _without_opaque(batch, index) if is_pure and batch.length[index] <= _SHORT else b""
            )
            if (text := text_of.get(content)) is None:
                text = body_text(batch, index)
                if content:
                    text_of[content] = text
            self.columns[COLUMN["story_start"], member] = len(self.side)
            self.columns[COLUMN["story_size"], member] = len(text)
            self.side += text.encode()
            self._plain[member] = text.isascii()  # for other texts, Python must measure the width


def _says_the_same(batch: MessageBatch, index: int) -> bool:
    """Returns whether messages like this one that have equal bytes have equal stories: those of
    each connection are often the same.

    Not so for keys of documents, compressed values, system events, and values of stream requests:
    these depend on what the connection has settled, and on the names of collections that are known.
    """
    decoded, layout = batch.decoded, batch.layout_of(index)
    if (
        layout is None
        or decoded.opcode[index] == Opcode.DCP_SYSTEM_EVENT
        or decoded.datatype[index]
        or (layout.key is not None and layout.key.kind is FieldKind.KEY)
    ):
        return False
    return (
        decoded.opcode[index] != Opcode.DCP_STREAM_REQ
        or bool(decoded.is_response[index])
        or decoded.value.size[index] <= 0
    )


def _without_opaque(batch: MessageBatch, index: int) -> bytes:
    content = batch.bytes_of(index)
    return content[:12] + content[16:]
