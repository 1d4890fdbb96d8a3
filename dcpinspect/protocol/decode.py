"""Framed messages to columns, in bulk: uses the layouts that ``annotate`` explains, without an
object for each message.

Messages of one command, side, status and lengths share a layout, so ``choose`` is asked once for
each such group. Columns are cut out of the bytes when somebody asks for them: a caller that wants
three columns pays for three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial

import numpy as np

from dcpinspect.arrays import Array, BoolArray, ByteArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import (
    NO_HOLES,
    HoleRanges,
    LazyColumns,
    NumberColumn,
    RowNumbers,
    Slices,
    numbers_at,
)
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.features import COLLECTIONS
from dcpinspect.protocol.fields import Field, FieldKind, Layout, LayoutItem
from dcpinspect.protocol.flags import UNDERLYING_DATATYPE
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table
from dcpinspect.protocol.flex import STREAM_ID, decode_frames
from dcpinspect.protocol.header import HEADER_SIZE, Header
from dcpinspect.protocol.header_columns import HEADER_RULES, UNDECLARED_STREAM_ID, HeaderColumns
from dcpinspect.protocol.layout_choice import VALUE_RULES, LayoutChoice, choose
from dcpinspect.protocol.layouts import LAYOUTS, layouts_of
from dcpinspect.protocol.leb128 import LONGEST_ID, read_collection_ids
from dcpinspect.protocol.meanings import stream_id_in
from dcpinspect.protocol.message import Context
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.secrecy import hides_key
from dcpinspect.protocol.session import (
    ABOVE_ONE,
    LATER,
    UPR,
    CollectionsState,
    SessionFact,
    Sessions,
    context,
    generation_of,
)
from dcpinspect.protocol.snappy import SnappyError, decode_snappy

LAYOUT_NUMBERS = {id(layout): number for number, layout in enumerate(LAYOUTS)}
ERROR_LAYOUT = len(LAYOUTS)
"""The number for the body of a refused request, which is in no layout."""
NO_LAYOUT = -1


def by_layout(value: Callable[[Layout], int], *, without: int = False) -> Array:
    """Returns an array with a value for each layout. ``without``: for what is in no layout."""
    return np.array([*map(value, LAYOUTS), without, without])


PROBLEMS = (
    "",
    "bad-magic",
    "length-mismatch",
    "undefined-datatype",
    "oversized-body",
    "extras-length",
    "refused-payload",
    "value-length",
    "unexpected-section",
    *sorted(set(VALUE_RULES.values())),
    "undeclared-stream-id",
    "bad-collection-prefix",
    "truncated",
)
"""Rules that columns alone show broken; ``problem`` has the first that a message breaks."""
_PROBLEM = {rule: number for number, rule in enumerate(PROBLEMS)}
BAD_PREFIX = _PROBLEM["bad-collection-prefix"]
"""The problem of messages that are whole and well divided all the same: of every document, where a
client negotiates what it does not do.
"""

_PROOF = (Opcode.DCP_SEQNO_ADVANCED, Opcode.DCP_OSO_SNAPSHOT)
"""Messages that only exist with collections on."""

_SIMPLE_STREAM_ID = 3
"""Bytes of framing extras that hold a stream-id and nothing else: 0x22 and the number."""


_Place = tuple[RowNumbers, RowNumbers, Field, Mapping[int, int] | None]
"""Rows of a column, where the section of its number begins in every message, which field it is, and
which numbers stand for others.
"""
_Places = dict[str, list[_Place]]
_Told = tuple[Field, int, int, int]
"""A value that is read by itself: what it is, its row, its place in the buffer and its size."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that have one layout in common."""

    rows: RowNumbers
    choice: LayoutChoice


class Decoded(HeaderColumns):
    """Columns of a run of messages, with one entry for each message: of its header, and others."""

    def __init__(
        self,
        data: ByteArray,
        start: RowNumbers,
        connection: RowNumbers,
        incomplete: BoolArray,
        sessions: Sessions,
        after_gap: BoolArray | None = None,
        holes: HoleRanges = NO_HOLES,
    ) -> None:
        """Decodes the messages that begin at ``start``, in row order.

        ``data`` holds all of each message, with zeros for what the capture lacks (``incomplete``
        rows). ``after_gap`` are rows before which bytes of their direction could not be read.
        Numbers that reach into one of the ``holes`` of the buffer are not known.
        """
        self._data = data
        self._start = start
        self._incomplete = incomplete
        self.holes = holes
        """What the capture lacks of ``data``."""
        super().__init__(data, start)
        self._problem = np.zeros(len(start), dtype=np.uint8)
        for bit, rule in () if self.is_sound else reversed(HEADER_RULES.items()):
            self._problem[(self.header_faults & bit) != 0] = _PROBLEM[rule]
        self.layout: RowNumbers = np.full(len(start), NO_LAYOUT, dtype=np.int64)
        """Number in LAYOUTS, ERROR_LAYOUT or NO_LAYOUT."""
        self.extras_fit: BoolArray = np.zeros(len(start), dtype=np.bool_)
        """Whether the extras fit; if not, the layout is only the nearest one, and they are raw."""
        self.fits: BoolArray = np.zeros(len(start), dtype=np.bool_)
        """Whether extras and value fit; if not, some of them are raw bytes."""
        self.hides_key: BoolArray = np.zeros(len(start), dtype=np.bool_)
        """Whether the key of the message is never shown."""
        self._has_document_key: BoolArray = np.zeros(len(start), dtype=np.bool_)
        self.groups = list(self._grouped())
        self.collections, self.underlying_datatype, self.generation = sessions.apply(
            connection, self._facts(connection, sessions, after_gap)
        )
        """For each row: the CollectionsState that it is read with, whether the datatype is that of
        the stored document, generation of the connection.
        """
        self.numbers = LazyColumns(self._columns())
        """Message-specific columns that have a value somewhere in the batch.

        If the first generation gave a number the meaning of another one, that other number stands
        in the column for its connections. So a column of words has one word for one thing.
        """

    def __len__(self) -> int:
        return len(self.magic)

    def context_of(self, row: int) -> Context:
        """Returns what the connection had negotiated when the message was sent."""
        return context(
            int(self.collections[row]),
            bool(self.underlying_datatype[row]),
            int(self.generation[row]),
        )

    # -- columns that are made when they are asked for

    @cached_property
    def is_request(self) -> BoolArray:
        """Whether it is a request by a command of ``Opcode``."""
        return self.has_magic & ~self.is_server & ~self.is_response

    @cached_property
    def is_answer(self) -> BoolArray:
        """Whether it is an answer to such a request."""
        return self.has_magic & ~self.is_server & self.is_response

    @cached_property
    def cas(self) -> Array:
        """The CAS."""
        return numbers_at(self._data, self._start + 16, 8)

    @property
    def key(self) -> Slices:
        """The key without its collection id, as a place in the buffer."""
        return self._split_keys[0]

    @property
    def collection_id(self) -> NumberColumn:
        """Collection of the key, or the collection that the message speaks of."""
        return self._split_keys[1]

    @property
    def problem(self) -> ByteArray:
        """Number in PROBLEMS of the first rule that the message breaks."""
        return self._split_keys[2]

    @property
    def has_undeclared_sid(self) -> BoolArray:
        """Whether it has a stream-id of three bytes that the header does not count."""
        return np.asarray((self.header_faults & UNDECLARED_STREAM_ID) != 0)

    @property
    def has_bad_prefix(self) -> BoolArray:
        """Whether collections are on, but the key begins with no collection id."""
        return self._split_keys[3]

    @cached_property
    def sid(self) -> NumberColumn:
        """DCP stream-id of requests that have one in their framing extras or in their JSON."""
        values = np.zeros(len(self), dtype=np.uint64)
        valid = np.zeros(len(self), dtype=np.bool_)
        is_whole = (self.framing_size <= self.body_size) & (
            self._start + HEADER_SIZE + self.framing_size <= len(self._data)
        )
        rows = np.flatnonzero((self.framing_size > 0) & ~self.is_response & is_whole)
        rows = rows[~self.holes.hit(self._start[rows] + HEADER_SIZE, self.framing_size[rows])]
        frame_start = self._start[rows] + HEADER_SIZE
        simple = (self.framing_size[rows] == _SIMPLE_STREAM_ID) & (
            self._data[frame_start] == STREAM_ID << 4 | 2
        )
        values[rows[simple]] = numbers_at(self._data, frame_start[simple] + 1, 2)
        valid[rows[simple]] = True
        for row in rows[~simple].tolist():
            stream_id = self._stream_id_among_frames(row)
            if stream_id is not None:
                values[row], valid[row] = stream_id, True
        for group in self.groups:
            for spec, row, value_start, size in self._read_one_by_one(group):
                stream_id = (
                    self._stream_id_in_json(spec, row, value_start, size)
                    if spec.stream_id
                    else None
                )
                if stream_id is not None:
                    values[row], valid[row] = stream_id, True
        return NumberColumn(values, valid)

    def _stream_id_among_frames(self, row: int) -> int | None:
        start = int(self._start[row]) + HEADER_SIZE
        frames, _ = decode_frames(self._data[start : start + int(self.framing_size[row])].tobytes())
        return next(
            (
                int.from_bytes(frame.data, "big")
                for frame in frames
                if frame.id == STREAM_ID and len(frame.data) == 2
            ),
            None,
        )

    def _stream_id_in_json(self, spec: Field, row: int, at: int, size: int) -> int | None:
        value = self._data[at : at + size].tobytes()
        with suppress(SnappyError):
            value = decode_snappy(value) if self.datatype[row] & SNAPPY else value
        return stream_id_in(value, spec.stream_id)

    # -- sections and layouts

    def _grouped(self) -> Iterator[Group]:
        """Yields groups of rows of one layout."""
        for rows in _split(np.flatnonzero(self.is_divided), self.kind):
            first = int(rows[0])
            magic, extras_size = int(self.magic[first]), int(self.extras_size[first])
            status = int(self.specific[first]) if self.is_response[first] else 0
            header = Header(magic, int(self.opcode[first]), 0, 0, extras_size, 0, status, 0, 0, 0)
            is_cut = self.holes.hit(self.extras_at[rows], extras_size)
            distinctions = self._distinctions(header, rows)
            if is_cut.any():
                distinctions = (
                    2 * (np.zeros(len(rows), np.int64) if distinctions is None else distinctions)
                    + is_cut
                )
            for split in (
                [np.arange(len(rows))]
                if distinctions is None
                else _split(np.arange(len(rows)), distinctions)
            ):
                group_rows, first_row = rows[split], int(rows[split[0]])
                extras = self._data[
                    self.extras_at[first_row] : self.extras_at[first_row] + extras_size
                ].tobytes()
                choice = choose(
                    header, None if is_cut[split[0]] else extras, int(self.value.size[first_row])
                )
                self.hides_key[group_rows] = hides_key(
                    choice, header.opcode, header.side, server=header.is_server
                )
                yield self._noted(Group(group_rows, choice))

    def _distinctions(self, header: Header, rows: RowNumbers) -> RowNumbers | None:
        """Returns a number for each row of one command, status and extras length: rows with equal
        numbers have the same layout.

        Layouts differ by value lengths that they fix, by whether there is a value, and by numbers
        in the extras. None if they cannot differ.
        """
        layouts = layouts_of(header.opcode, header.side, server=header.is_server)
        sizes = np.array(
            sorted({size for layout in layouts if (size := layout.value_size)}), dtype=np.int64
        )
        number_ranges = {
            (offset, size)
            for layout in layouts
            for offset, size, _ in layout.when
            if offset + size <= header.extras_size
        }
        if not number_ranges and all(layout.value_size is None for layout in layouts):
            return None
        value_size = self.value.size[rows]
        size_index = np.searchsorted(sizes, value_size)
        is_fixed = np.append(sizes, -1)[size_index] == value_size
        distinction = np.where(is_fixed, size_index + 2, np.where(value_size > 0, 1, 0)).astype(
            np.int64
        )
        for offset, size in sorted(number_ranges):
            _, inverse = np.unique(
                numbers_at(self._data, self.extras_at[rows] + offset, size), return_inverse=True
            )
            _, distinction = np.unique(
                distinction * (len(inverse) + 1) + inverse, return_inverse=True
            )
        return distinction

    def _noted(self, group: Group) -> Group:
        """Writes down what a choice says about its rows, and returns the group."""
        rows, choice = group.rows, group.choice
        if choice.rule:
            self._problem[rows[self._problem[rows] == 0]] = _PROBLEM[choice.rule]
        layout = choice.layout
        if layout is not None:
            self.layout[rows] = LAYOUT_NUMBERS.get(id(layout), ERROR_LAYOUT)
            self.extras_fit[rows] = choice.extras_fit
            self.fits[rows] = choice.extras_fit and choice.value_fits
            self._has_document_key[rows] = (
                layout.key is not None and layout.key.kind is FieldKind.KEY
            )
        return group

    def _columns(self) -> dict[str, Callable[[], NumberColumn]]:
        """Returns, for each message-specific column, a function that makes it from the groups whose
        layout has it.
        """
        column_places: _Places = {}
        for group in self.groups:
            layout, rows = group.choice.layout, group.rows
            if layout is not None and group.choice.extras_fit:
                self._add_places(column_places, layout.extras, rows, self.extras_at)
            if layout is not None and group.choice.value_fits and layout.value_size:
                self._add_places(
                    column_places,
                    layout.value,
                    rows[self.value.size[rows] == layout.value_size],
                    self.value.start,
                )
        flatbuffers = [
            flatbuffer
            for group in self.groups
            for flatbuffer in self._read_one_by_one(group)
            if flatbuffer[0].slots
        ]
        for spec in {id(spec): spec for spec, *_ in flatbuffers}.values():
            for slot in spec.slots:
                column_places.setdefault(slot.name, [])
        # Nothing here may refer to self: a cycle would keep the bytes of the batch in memory until
        # the garbage collector runs.
        flatbuffer_numbers = _FlatBuffers(self._data, flatbuffers)
        return {
            name: partial(
                _column, self._data, len(self), name, name_places, flatbuffer_numbers, self.holes
            )
            for name, name_places in column_places.items()
        }

    def _read_one_by_one(self, group: Group) -> Iterator[_Told]:
        """The values of a group that are FlatBuffers, or JSON that may have a stream-id."""
        layout = group.choice.layout
        spec = (
            layout.value[0]
            if layout is not None and layout.value and group.choice.value_fits
            else None
        )
        if not isinstance(spec, Field) or not (spec.slots or spec.stream_id):
            return
        rows = group.rows[self.value.size[group.rows] > 0]
        for row in rows[~self.holes.hit(self.value.start[rows], self.value.size[rows])].tolist():
            yield spec, row, int(self.value.start[row]), int(self.value.size[row])

    def _add_places(
        self,
        column_places: _Places,
        items: tuple[LayoutItem, ...],
        rows: RowNumbers,
        section: RowNumbers,
    ) -> None:
        for spec in items:
            if isinstance(spec, Field) and not spec.reserved and spec.kind.size and len(rows):
                for name in filter(None, (spec.name, spec.alias)):
                    column_places.setdefault(name, []).append((rows, section, spec, None))
                if spec.first_generation is not None and len(
                    first := rows[self.generation[rows] == UPR]
                ):
                    column_places[spec.name].append((first, section, spec, spec.first_generation))

    # -- what connections negotiate

    def _facts(
        self, connection: RowNumbers, sessions: Sessions, after_gap: BoolArray | None
    ) -> list[SessionFact]:
        """Returns what HELLO, open, gaps and proofs of collections say, in row order."""
        client = ~self.is_server
        hello = client & (self.opcode == Opcode.HELLO) & self.fits
        is_hello = hello & self.is_response & (self.specific == 0)
        # until its answer is read, nobody knows what it grants
        gap = hello & ~self.is_response | is_hello & self._incomplete
        if after_gap is not None:
            gap |= after_gap
        facts = [
            SessionFact(row, int(connection[row]), is_gap=True)
            for row in np.flatnonzero(gap).tolist()
        ]
        for row in np.flatnonzero(is_hello & ~self._incomplete).tolist():
            value_start, size = int(self.value.start[row]), int(self.value.size[row])
            granted = self._data[value_start : value_start + size // 2 * 2].view(">u2")
            state = (
                CollectionsState.ON
                if bool((granted == COLLECTIONS).any())
                else CollectionsState.OFF
            )
            facts.append(SessionFact(row, int(connection[row]), state))
        open_rows = np.flatnonzero(
            client & ~self.is_response & (self.opcode == Opcode.DCP_OPEN) & self.fits
        )
        flags = numbers_at(self._data, self.extras_at[open_rows] + 4, 4).tolist()
        facts += [
            SessionFact(
                row, int(connection[row]), underlying_datatype=bool(flag & UNDERLYING_DATATYPE)
            )
            for row, flag in zip(open_rows.tolist(), flags, strict=True)
        ]
        facts += self._evidence(connection, sessions.unknown(connection), gap)
        facts += self._generations(connection, sessions.may_be_first(connection))
        return sorted(facts, key=lambda fact: fact.row)

    def _evidence(
        self, connection: RowNumbers, unknown: BoolArray, gap: BoolArray
    ) -> Iterator[SessionFact]:
        """Yields the first row of each connection that proves collections: from the start if they
        are unknown, or from a gap on.
        """
        gap_rows = np.flatnonzero(gap)
        if not unknown.any() and not len(gap_rows):
            return
        gapped, first_gap = np.unique(connection[gap_rows], return_index=True)
        is_proof = ~self.is_server & ~self.is_response & self._proves_collections()
        proof = np.flatnonzero(is_proof & unknown)
        _, first = np.unique(connection[proof], return_index=True)
        proof_rows = set(proof[first].tolist())
        proof = np.flatnonzero(is_proof & np.isin(connection, gapped))
        if len(proof):
            late = proof[proof >= gap_rows[first_gap][np.searchsorted(gapped, connection[proof])]]
            _, first = np.unique(connection[late], return_index=True)
            proof_rows |= set(late[first].tolist())
        for row in proof_rows:
            yield SessionFact(row, int(connection[row]), CollectionsState.INFERRED, evidence=True)

    def _generations(
        self, connection: RowNumbers, may_be_first: BoolArray
    ) -> Iterator[SessionFact]:
        """Yields the first rows of each connection with something that only the first generation
        has, and with something that it does not have.
        """
        if not may_be_first.any():
            return
        rows_by_generation: dict[int, list[RowNumbers]] = {UPR: [], LATER: []}
        for group in self.groups:
            layout = group.choice.layout
            rows = group.rows[may_be_first[group.rows]]
            if layout is None or not len(rows):
                continue
            generation = generation_of(layout)
            above = (
                ABOVE_ONE.get(layout.opcode)
                if layout.side == "request" and not layout.server
                else None
            )
            if generation == UPR:
                rows = rows[self.fits[rows] & ~self._incomplete[rows]]
            elif not generation and above is not None and group.choice.extras_fit:
                generation, number_start = LATER, self.extras_at[rows] + above[0]
                rows = rows[
                    (numbers_at(self._data, number_start, above[1]) > 1)
                    & ~self.holes.hit(number_start, above[1])
                ]
            if generation:
                rows_by_generation[generation].append(rows)
        for generation, group_rows in rows_by_generation.items():
            rows = (
                np.sort(np.concatenate(group_rows)) if group_rows else np.zeros(0, dtype=np.int64)
            )
            _, first = np.unique(connection[rows], return_index=True)
            yield from (
                SessionFact(row, int(connection[row]), generation=generation)
                for row in rows[first].tolist()
            )

    def _proves_collections(self) -> BoolArray:
        """Returns a mask of rows that could not exist with collections off."""
        proof = np.isin(self.opcode, np.array(_PROOF, dtype=np.uint8)) & self.fits
        proof |= (self.opcode == Opcode.DCP_SYSTEM_EVENT) & (self.extras_size == 13) & self.fits
        proof |= (self.opcode == Opcode.DCP_STREAM_REQ) & (self.value.size > 0) & self.fits
        # A bare key begins with a letter, a digit or a sign. Ids of collections begin with 0x00 or,
        # from 8 up, a control character.
        keyed = np.flatnonzero(self._has_document_key & (self.prefixed_key.size > 1))
        keyed = keyed[~self.holes.hit(self.prefixed_key.start[keyed], 1)]
        first = self._data[self.prefixed_key.start[keyed]]
        proof[keyed] |= (first == 0) | ((first >= 8) & (first < 0x20))
        return np.asarray(proof, dtype=np.bool_)

    @cached_property
    def _split_keys(self) -> tuple[Slices, NumberColumn, ByteArray, BoolArray]:
        """(key, collection id, problem, has a bad prefix): on connections with collections, the id
        is split off every document key.
        """
        start, size = self.prefixed_key.start, self.prefixed_key.size
        problem = self._problem.copy()
        on = (self.collections == CollectionsState.ON) | (
            self.collections == CollectionsState.INFERRED
        )
        number, used = np.zeros((2, len(self)), dtype=np.int64)
        read_collection_ids(
            self._data, (self._has_document_key & on).view(np.uint8), start, size, number, used
        )
        if len(self.holes.start):
            read = np.where(used < 0, np.minimum(size, LONGEST_ID), used)
            used[self.holes.hit(start, read)] = 0
        is_good, taken = used > 0, np.maximum(used, 0)
        spoken_of = self.numbers.get("collection_id")
        values, valid = np.where(is_good, number, 0).view(np.uint64), is_good
        if spoken_of is not None and spoken_of.valid is not None:
            values, valid = np.where(is_good, values, spoken_of.values), is_good | spoken_of.valid
        # a key without an id contradicts what was only concluded from other keys
        has_bad_prefix = (used < 0) & (self.collections == CollectionsState.ON)
        problem[has_bad_prefix & (problem == 0)] = _PROBLEM["bad-collection-prefix"]
        problem[self._incomplete & (problem == 0)] = _PROBLEM["truncated"]
        return (
            Slices(start + taken, size - taken),
            NumberColumn(values, valid),
            problem,
            has_bad_prefix,
        )


def _split(rows: RowNumbers, group: RowNumbers) -> list[RowNumbers]:
    """Returns runs of rows with equal numbers in ``group``, each run in row order."""
    of_rows = group[rows]
    order = rows[np.argsort(of_rows, kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []


class _FlatBuffers:
    """Numbers of the FlatBuffers among the values, by row. Only few messages have one: collections
    come and go rarely.
    """

    def __init__(self, data: ByteArray, tables: list[_Told]) -> None:
        self._data = data
        self._tables = tables

    @cached_property
    def numbers(self) -> dict[int, dict[str, int]]:
        """Numbers by name, for each row that has such a table."""
        numbers_by_row: dict[int, dict[str, int]] = {}
        for spec, row, value_start, size in self._tables:
            try:
                table = decode_table(
                    self._data[value_start : value_start + size].tobytes(), spec.slots
                )
            except FlatBufferError:
                continue
            numbers_by_row[row] = {
                slot.name: value
                for slot, value, _, _ in table
                if isinstance(value, int) and not isinstance(value, bool)
            }
        return numbers_by_row


def _column(
    data: ByteArray,
    total: int,
    name: str,
    column_places: list[_Place],
    flatbuffers: _FlatBuffers,
    holes: HoleRanges,
) -> NumberColumn:
    """Returns a column of the numbers at these places of these rows, or in a FlatBuffer."""
    values = np.zeros(total, dtype=np.uint64)
    valid = np.zeros(total, dtype=np.bool_)
    for rows, section, spec, renumbered in column_places:
        number_start, size = section[rows] + spec.offset, spec.kind.size
        is_lost = holes.hit(number_start, size)
        read = numbers_at(data, number_start, size)
        if renumbered is not None:
            read = np.array(
                [renumbered.get(number, number) for number in read.tolist()], dtype=np.uint64
            )
        values[rows] = np.where(is_lost, 0, read)
        valid[rows] = ~is_lost
    for row, numbers in flatbuffers.numbers.items():
        if name in numbers:
            values[row], valid[row] = numbers[name], True
    return NumberColumn(values, valid)
