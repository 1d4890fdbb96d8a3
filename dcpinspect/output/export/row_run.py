"""The text of many messages at once, written by the programs of their kinds.

A kernel writes the rows of a batch by their programs; it gets the numbers for the operations as
columns, row by row. Rows that are not plain (damage, problems, framing extras, rare values) are
written in the ordinary way. Private data is replaced here, where the places of keys and values are
known: operations see only places and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import BoolArray, ByteArray, IntArray, unique
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.row_programs import COLUMN, Programs, RowKind
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.datatype import JSON, SNAPPY, XATTR
from dcpinspect.protocol.decode import by_layout
from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.header import HEADER_SIZE, Magic
from dcpinspect.protocol.meanings import are_json, json_error
from dcpinspect.protocol.opcodes import Trait, opcode_traits
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.xattr import decode_xattrs
from dcpinspect.tables.messages import KNOWN_KEYS, MessageBatch
from dcpinspect.tables.short_columns import ShortTexts, short_column
from dcpinspect.text import words_of

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

OUT_BYTES = 16 << 20
"""Size of the text that is made at a time, in bytes; one row may be longer."""
MAX_FRAGMENTS = 256
"""Number of different values of a field with words, in a batch, that get texts of their own."""
_WIDEST = 64
"""Greatest length of an xattr's name; values with longer names are written as usual."""
_SHOWN_NAMES = re.compile(rb"[ -\[\]-~]+")
"""Names of xattrs that are shown as they are."""
_REDACTED_ROOM = 1 << 10
"""Greatest size of the replacements in one row, in bytes."""


def _is_plain(layout: Layout, *, has_value: bool) -> bool:
    """Whether messages of a layout can be written by a program: fixed numbers, perhaps a key, and
    no value, a document or a log.
    """
    fixed = all(spec.kind.size for spec in layout.extras)
    value = not layout.value or (
        len(layout.value) == 1
        and isinstance(layout.value[0], Field)
        and layout.value[0].kind is FieldKind.DOCUMENT
    )
    value |= bool(_log_entry(layout)) if has_value else not layout.value_required
    key = layout.key is None or layout.key.kind in (FieldKind.KEY, FieldKind.TEXT)
    secret = Trait.TOKEN in opcode_traits(layout.opcode, server=layout.server)
    return fixed and value and key and not secret and not layout.legacy and layout.check is None


def _log_entry(layout: Layout) -> int:
    """Returns the size of an entry, for a layout whose value is a log of numbers without looked-up
    texts; 0 for other layouts.
    """
    log = layout.value[0] if len(layout.value) == 1 else None
    if not isinstance(log, RecordList) or len(log.fields) == 1:
        return 0
    is_plain = all(
        spec.kind in (FieldKind.SEQNO, FieldKind.UUID) and spec.values is None and not spec.flags
        for spec in log.fields
    )
    return sum(spec.kind.size for spec in log.fields) if is_plain else 0


_LONGEST_LOG = 1600
"""Greatest size of logs that programs write: each length is a kind of its own. Servers keep 25
entries of 16 bytes.
"""
_PLAIN = np.stack([by_layout(partial(_is_plain, has_value=has)) for has in (False, True)])
"""Whether messages are plain: by whether there is a value, and by layout. Refusals are not: what
they answer is not in their layout.
"""
_LOG_ENTRY = by_layout(_log_entry, without=0)
_HAS_KEY = by_layout(lambda layout: layout.key is not None)
_NEEDS_KEY = by_layout(lambda layout: layout.key is not None and layout.key_required)
_HAS_VALUE = by_layout(lambda layout: bool(layout.value))
_NEEDS_VALUE = by_layout(lambda layout: bool(layout.value) and layout.value_required)
_BODYLESS = by_layout(
    lambda layout: any(isinstance(item, Field) and item.bodyless for item in layout.value)
)


class RowRun:
    """Some messages of a batch on their way through the kernel."""

    shows = rt.NOTHING_SHOWN
    """For shown texts: the characters that stay as they are, and the greatest length."""

    def __init__(self, programs: Programs, batch: MessageBatch, rows: RowNumbers) -> None:
        self._of = programs
        self._batch = batch
        self._rows = rows
        self._side = bytearray()
        self._columns = np.zeros((len(COLUMN), len(rows)), dtype=np.int64)
        self._program: RowNumbers = np.full(len(rows), -1, dtype=np.int64)
        self._xattrs, self._widest = np.zeros((2, len(rows)), dtype=np.int64)
        """Number of xattrs of each row, with a bit for a body; length of the widest name."""
        self._plain = self._plain_rows()
        self.prepare()
        self._fill_columns()
        self._write_values()
        self._choose_programs()
        self._data = batch.data if batch.redactor is None else self._redacted(batch.redactor)

    def prepare(self) -> None:
        """Puts what comes first beside the buffer: for most rows, nothing does."""

    def shape(self, members: RowNumbers) -> list[RowNumbers]:
        """Returns columns that the program of a row depends on besides its kind; all ``members``
        are of one kind.
        """
        rows = self._rows[members]
        is_log = _LOG_ENTRY[self._batch.decoded.layout[rows[0]]] > 0
        return [self._batch.decoded.value.size[rows] if is_log else self._xattrs[members]]

    def pieces(self, ordinary: Callable[[int], bytes]) -> Iterator[bytes]:
        """Yields the text of all rows in order, many in a piece. ``ordinary`` writes a row that the
        kernel left out, by its place.
        """
        for first, text, ends in self._written():
            yield from rt.completed(text, ends, ordinary, first)

    def _written(self) -> Iterator[tuple[int, ByteArray, IntArray]]:
        """Yields consecutive runs of the rows: first row, text, and end of each row."""
        # for each byte: two digits, a key's twice, and at most six letters in a string
        row_size = self._of.writer.sizes(self._program) + 16 * self._columns[COLUMN["length"]]
        row_size += self._of.writer.texts.longest_fragment * (len(self._columns) - len(COLUMN) + 4)
        if self._batch.redactor is not None:
            row_size += _REDACTED_ROOM
        for times, name in ((1, "head"), (9, "body"), (16, "xattrs")):
            row_size += times * self._columns[COLUMN[f"{name}_size"]]
        side = np.frombuffer(bytes(self._side) or b"\0", np.uint8)
        base = self._batch.start[self._rows]
        total = np.cumsum(np.where(self._program >= 0, row_size, 0))
        first = 0
        while first < len(self._rows):
            before = int(total[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(total, before + OUT_BYTES, side="right")))
            text, ends = self._of.writer.write(
                self._program,
                self._columns,
                (self._data, side),
                base=base,
                within=slice(first, last),
                room=int(total[last - 1]) - before,
                shows=self.shows,
            )
            yield first, text, ends
            first = last

    def _plain_rows(self) -> BoolArray:
        """Returns which rows have nothing unusual, as far as columns tell."""
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        layout = decoded.layout[rows]
        has_key, has_value = decoded.key.size[rows] > 0, decoded.value.size[rows] > 0
        plain: BoolArray = (
            _PLAIN[has_value.astype(np.int64), layout]
            & decoded.fits[rows]
            & (decoded.problem[rows] == 0)
            & (decoded.framing_size[rows] == 0)
        )
        plain &= rt.write_rows.is_compiled
        plain &= (decoded.magic[rows] != Magic.FLEX_REQUEST) & (
            decoded.magic[rows] != Magic.FLEX_RESPONSE
        )
        plain &= ~batch.heuristic[rows] & (batch.file[rows] == batch.last_file[rows])
        plain &= np.where(has_key, _HAS_KEY[layout], ~_NEEDS_KEY[layout]) & np.where(
            has_value, _HAS_VALUE[layout], ~_NEEDS_VALUE[layout]
        )
        plain &= ~decoded.underlying_datatype[rows] & (
            batch.length[rows] == HEADER_SIZE + decoded.body_size[rows]
        )
        size, entry = decoded.value.size[rows], _LOG_ENTRY[layout]
        plain &= (
            ~has_value
            | (entry == 0)
            | ((size <= _LONGEST_LOG) & (size % np.maximum(entry, 1) == 0))
        )
        metadata = decoded.numbers.get("nmeta")
        if metadata is not None:
            plain &= metadata.values[rows] == 0
        # of one kind of messages, some keys are shown and some replaced
        if batch.redactor is not None:
            plain &= ~KNOWN_KEYS[layout]
        if len(batch.missing.row):
            plain &= ~np.isin(rows, batch.missing.row)
        if self._of.left_rows:
            plain &= ~np.isin(batch.row[rows], [*self._of.left_rows])
        return plain

    def _set(self, name: str, values: npt.NDArray[np.generic]) -> None:
        self._columns[COLUMN[name]] = values

    def _fill_columns(self) -> None:
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        for name in words_of("row connection frame last_frame time_ns stream_offset length"):
            self._set(name, getattr(batch, name)[rows])
        for name in ("vbucket", "request_row", "request_stream_offset", "rtt_ns"):
            self._set(name, getattr(batch, name).values[rows].astype(np.int64))
        start = batch.start[rows]
        key_at = HEADER_SIZE + decoded.framing_size[rows] + decoded.extras_size[rows]
        name_start, name_size = decoded.key.start[rows], np.maximum(decoded.key.size[rows], 0)
        value_start = decoded.value.start[rows]
        self._set("collection_id", decoded.collection_id.values[rows].astype(np.int64))
        self._set("key_length", value_start - start - key_at)
        self._set("id_start", start + key_at)
        self._set("id_size", name_start - start - key_at)
        self._set("key_at", key_at)
        self._set("id_at", key_at)
        self._set("id_length", name_start - start - key_at)
        self._set("name_at", name_start - start)
        self._set("name_start", name_start)
        self._set("name_size", name_size)
        self._set("name_length", name_size)
        self._set("value_at", value_start - start)
        self._set("value_start", value_start)
        self._set("value_size", decoded.value.size[rows])
        self._set("value_length", decoded.value.size[rows])
        pair = batch.connection[rows] * 2 + batch.direction[rows]
        for number in unique(pair).tolist():
            self._columns[COLUMN["endpoints"], pair == number] = self._of.endpoints(
                number // 2, number % 2, batch
            )
        named = np.flatnonzero(decoded.collection_id.is_known[rows])
        if len(named):
            names = short_column(batch, rows[named], "collection")
            assert isinstance(names, ShortTexts), "collections have names"
            key = names.numbers * 4 + decoded.collections[rows[named]]
            ids = np.zeros(len(names.texts), dtype=np.int64)
            is_there = np.zeros(4 * len(names.texts), dtype=np.bool_)
            ids[names.numbers] = self._columns[COLUMN["collection_id"]][named]
            is_there[key] = True
            numbers = np.flatnonzero(is_there)
            if len(numbers) > MAX_FRAGMENTS or self._of.is_full:
                self._plain[named] = False
                return
            texts = np.zeros((2, len(is_there)), dtype=np.int64)
            for number in numbers.tolist():
                texts[:, number] = self._of.collection(
                    int(ids[number // 4]), number % 4, names.texts[number // 4] or ""
                )
            (
                self._columns[COLUMN["collection"], named],
                self._columns[COLUMN["collection_meaning"], named],
            ) = texts[:, key]

    def _choose_programs(self) -> None:
        batch, decoded, rows = self._batch, self._batch.decoded, self._rows
        flags = (
            batch.vbucket.is_known[rows],
            batch.vbucket_from_request[rows],
            batch.request_row.is_known[rows],
            decoded.collection_id.is_known[rows],
            decoded.key.size[rows] > 0,
            decoded.value.size[rows] > 0,
            np.full(len(rows), batch.redactor is not None),
        )
        key = decoded.layout[rows] << 8 | decoded.datatype[rows]
        key = key << 16 | np.where(decoded.is_response[rows], decoded.specific[rows], 0).astype(
            np.int64
        )
        key = key << 2 | decoded.collections[rows]
        key = key << 2 | decoded.generation[rows]
        for flag in flags:
            key = key << 1 | flag
        key = key << 16 | batch.file[rows]
        plain = np.flatnonzero(self._plain & (batch.file[rows] < 1 << 16))
        kinds, inverse = np.unique(key[plain], return_inverse=True)
        for number in range(len(kinds)):
            members = plain[inverse == number]
            for shape, rows_alike in rt.alike(members, self.shape(members)):
                kind = self._of.kind((int(kinds[number]), *shape), batch, int(rows[rows_alike[0]]))
                if kind is not None and self._look_up(kind, rows_alike):
                    self._program[rows_alike] = kind.number

    def _look_up(self, kind: RowKind, members: RowNumbers) -> bool:
        """Fills in the numbers of the texts for numbers with words; returns False if there are too
        many different ones.
        """
        missing = len(COLUMN) + len(kind.look_ups) - len(self._columns)
        if missing > 0:
            self._columns = np.concatenate(
                (self._columns, np.zeros((missing, len(self._rows)), dtype=np.int64))
            )
        for index, look_up in enumerate(kind.look_ups):
            values = numbers_at(
                self._batch.data,
                self._batch.start[self._rows[members]] + look_up.offset,
                look_up.size,
            )
            numbers, first, inverse = np.unique(values, return_index=True, return_inverse=True)
            if len(numbers) > MAX_FRAGMENTS or self._of.is_full:
                return False
            texts = [
                self._of.fragment(
                    kind, look_up, number, self._batch, int(self._rows[members[first_row]])
                )
                for number, first_row in zip(numbers.tolist(), first.tolist(), strict=True)
            ]
            self._columns[len(COLUMN) + index, members] = np.array(texts, dtype=np.int64)[inverse]
        return True

    def _write_values(self) -> None:
        """Checks JSON, and unpacks values that are compressed or have xattrs: libraries do this
        part of a row.
        """
        batch, decoded = self._batch, self._batch.decoded
        datatype, size = decoded.datatype[self._rows], decoded.value.size[self._rows]
        self._plain &= (
            (size <= 0) | ~_BODYLESS[decoded.layout[self._rows]] | (datatype & XATTR != 0)
        )
        with_value = self._plain & (size > 0) & (_LOG_ENTRY[decoded.layout[self._rows]] == 0)
        starts, sizes = self._columns[COLUMN["value_start"]], self._columns[COLUMN["value_size"]]
        bare = np.flatnonzero(with_value & (datatype == JSON))
        self._plain[bare[~are_json(batch.data.data, starts[bare], sizes[bare])]] = False
        if batch.redactor is not None:
            self._plain &= ~with_value | (datatype & XATTR == 0)
        wrapped = np.flatnonzero(with_value & self._plain & (datatype & (SNAPPY | XATTR) != 0))
        if len(wrapped):
            self._unwrap(wrapped, datatype[wrapped])

    def _unwrap(self, places: RowNumbers, datatype: ByteArray) -> None:
        """Puts the content of these values beside the buffer, and measures its parts."""
        columns, data = self._columns, self._batch.data.data
        value_start = columns[COLUMN["value_start"]][places]
        value_size = columns[COLUMN["value_size"]][places]
        measured, side_start = [], len(self._side)
        for begin, end, bits in zip(
            value_start.tolist(),
            (value_start + value_size).tolist(),
            datatype.tolist(),
            strict=True,
        ):
            content = _content(data[begin:end], bits)
            length, pairs, widest = self._xattrs_of(content) if bits & XATTR else (0, 0, 0)
            is_plain = pairs > 0 if bits & XATTR else bool(content)
            if is_plain and bits & JSON and len(content) > length:
                is_plain = json_error(content[length:]) is None
            measured.append((len(content), length, pairs, widest, is_plain))
            self._side += content
        size, length, pairs, widest, is_plain = np.array(measured, dtype=np.int64).T
        start = side_start + np.cumsum(size) - size
        in_message = np.where(datatype & SNAPPY, 0, columns[COLUMN["value_at"]][places])
        for name, values in (
            *(
                ("xattrs_start", start),
                ("xattrs_size", length),
                ("xattrs_length", length),
                ("xattrs_at", in_message),
            ),
            *(
                ("body_start", start + length),
                ("body_size", size - length),
                ("body_length", size - length),
            ),
            *(("body_at", in_message + length), ("content_length", size)),
        ):
            columns[COLUMN[name], places] = values
        has_body = size > length
        is_bodyless = _BODYLESS[self._batch.decoded.layout[self._rows[places]]]
        self._plain[places] = (is_plain > 0) & (widest <= _WIDEST) & ~(has_body & is_bodyless)
        self._xattrs[places] = np.where(pairs > 0, pairs << 1 | has_body, 0)
        self._widest[places] = widest

    def _xattrs_of(self, content: bytes) -> tuple[int, int, int]:
        """Returns the length of the xattrs that a value begins with, their number, and the length
        of the widest name.

        The number is 0 for xattrs that are written in the ordinary way.
        """
        section = decode_xattrs(content)
        names = b"".join(pair.key for pair in section.pairs)
        is_plain = (
            section.problem is None
            and len(section.pairs) <= rt.MAX_XATTRS
            and bool(_SHOWN_NAMES.fullmatch(names))
        )
        if is_plain and self._of.xattrs_are_json:
            is_plain = all(json_error(pair.value) is None for pair in section.pairs)
        if is_plain:
            return (
                section.body_offset,
                len(section.pairs),
                max(len(pair.key) for pair in section.pairs),
            )
        return (0, 0, 0)

    def _redacted(self, redactor: Redactor) -> ByteArray:
        """Returns the bytes of the batch, followed by the replacements of names and values; the
        columns point to the replacements from now on.

        Bodies are replaced beside the buffer. A body that should be text and is not is written in
        the ordinary way.
        """
        batch, rows = self._batch, self._rows
        plain = self._program >= 0
        bits = batch.decoded.datatype[rows]
        is_text = {
            "name": np.zeros(len(rows), dtype=np.bool_),
            "value": bits & (JSON | SNAPPY) == 0,
            "body": bits & JSON == 0,
        }
        data = batch.data.data.toreadonly()
        behind = bytearray()
        for name in ("name", "value", "body"):
            start = self._columns[COLUMN[f"{name}_start"]]
            size = self._columns[COLUMN[f"{name}_size"]]
            is_private = (
                plain & (size > 0) & (batch.has_private_key(rows) if name == "name" else True)
            )
            for index in np.flatnonzero(is_private).tolist():
                begin, end = int(start[index]), int(start[index] + size[index])
                raw = bytes(self._side[begin:end] if name == "body" else data[begin:end])
                if is_text[name][index] and not _is_text(raw):
                    self._program[index] = -1
                text = redactor.replacement(raw)
                size[index] = len(text)
                if name == "body":
                    start[index] = len(self._side)
                    self._side += text
                else:
                    start[index] = len(data) + len(behind)
                    behind += text
        return np.concatenate((batch.data, np.frombuffer(bytes(behind), np.uint8)))


def _content(value: memoryview, datatype: int) -> bytes:
    """Returns a value without compression; empty if it is not a valid block."""
    if not datatype & SNAPPY:
        return bytes(value)
    try:
        return decode_snappy(value)
    except SnappyError:
        return b""


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
