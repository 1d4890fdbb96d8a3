"""Lines of messages, many at a time: a kernel makes them from the columns of a batch. The text is the same as from ``render.lines``.

Messages of one command, status, layout and datatype are of the same kind: what is the same in their lines is looked up once. Only numbers
and keys differ, and the kernel writes them. A message with anything unusual is left to ``Lines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dcpinspect.distinct import distinct
from dcpinspect.export.line_text import (
    ASKED_BEFORE,
    ASKED_HERE,
    TIME_FORMS,
    LineKind,
    LineKinds,
    LineTables,
    WireNumber,
    write_lines,
)
from dcpinspect.export.row_text import Texts
from dcpinspect.kernels.kernel import Ints, Octets
from dcpinspect.protocol.columns import Mask, Numbers, Rows, numbers_at
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.records import dataclass
from dcpinspect.render.lines import SAID_ONCE, STORIES, Lines, Story, Word, datatypes, key_prefix, told
from dcpinspect.tables.messages import MessageBatch

SLICE = 1 << 15
"""Number of messages that are made into lines at once."""
MAX_REMEMBERED = 1 << 14
"""Number of kinds and words that are kept; only a capture that is made to waste memory has more."""

_SHORT = 1 << 10
"""Stories of longer messages are not looked for among those of earlier messages."""
_LINE_ROOM, _LINE_TEXTS = 400, 12
"""Greatest size of all numbers and blanks of a line in bytes, and number of texts in a line."""
_LATEST_NS = 253_402_300_800 * 10**9
"""The year 10000, in nanoseconds since 1970."""

_UNSIGNED = frozenset({Kind.U8, Kind.U16, Kind.U32, Kind.U64, Kind.SEQNO})
_HAS_PREFIX = np.array([*(layout.key is not None and layout.key.kind is Kind.KEY for layout in LAYOUTS), False, False], dtype=np.bool_)
_SAID_ONCE = np.isin(np.arange(256), np.array(SAID_ONCE))


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
        return self.lines.time_format in TIME_FORMS

    def pieces(self, batch: MessageBatch, rows: Rows) -> Iterator[bytes | memoryview]:
        """Yields the lines of these messages in order, many in a piece. A piece is only valid until the next one is made."""
        times = self.lines.shown_times(batch.time_ns[rows])
        if not self.is_for_kernel or not write_lines.is_compiled:
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
        write_lines(batch.data, run.side, texts, LineTables(self._kinds, places, self.lines, run.columns), out, ends)
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
