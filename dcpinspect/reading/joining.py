"""Joins readings of disjoint sets of connections into what one reading of all their packets would
have told.

Each reading has all packets of its connections, with their numbers among all packets, so it sees of
each connection what a reading of everything sees. What it knows at the end travels as a ``ReadingPart``.
``merged`` gives everything the numbers that it has in the whole, and asks the same tables and
rules. Limits of memory hold for each part by itself: parts may know more where a reading of
everything would have come to a limit.
"""

from __future__ import annotations

import io
import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, grown
from dcpinspect.coverage import Coverage, DirectionCoverage
from dcpinspect.kernels.structs import StructRows
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.connections import replica_streams
from dcpinspect.streams.disputes import Comparison, in_dispute
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.streams.followers import PerConnection, Portable, table_of
from dcpinspect.streams.gaps import GapName
from dcpinspect.streams.histories import Differ
from dcpinspect.streams.records import Gaps, Streams
from dcpinspect.streams.renumbering import in_order
from dcpinspect.streams.state import NewNumbers as Things
from dcpinspect.streams.tables import Tables
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from dcpinspect.streams.whole_reading import OfWhole
from dcpinspect.streams.words import RESUMED
from dcpinspect.tables.record_tables import Records
from dcpinspect.temporary import LARGE, large_files, mapped
from dcpinspect.transport.headers import within
from dcpinspect.transport.tls.connection import TlsConnection

if TYPE_CHECKING:
    from dcpinspect.findings.checker import Checker

Known = TypeVar("Known")
SET_APART = ("snapshots", "gaps")
"""Tables that parts make themselves; the whole does without most of their rows."""
Judge = Callable[[Sequence[IntArray], Streams, IntArray], BoolArray]
"""Returns a mask of streams that have gaps in dispute, or may tell of one.

Parameters: by part, the place of each of its streams among the given ones, -1 for others; the
streams; the branch of each.
"""
_ALIGNED = 64
"""Each table begins at a multiple of so many bytes."""


@dataclass(frozen=True, slots=True)
class ReadingPart:
    """What a reading of some connections knows at its end. It grows with connections, streams and
    gaps, not with messages.
    """

    tracker: Tracker
    checker: Checker | None
    links: Sequence[TcpConnection]
    directions: Sequence[DirectionCoverage]
    opened_by: IntArray
    """The packet that began each connection: they are numbered by it. ``n`` is at ``n - 1``."""
    packets: Mapping[str, int]
    """Number of packets by class."""
    messages: int
    tls: Mapping[int, TlsConnection]
    """As ``Coverage.tls``, without secrets."""
    has_keys: bool
    unopened: Mapping[str, int]
    """As in ``Coverage``."""
    point: str
    """Capture point of the connections."""

    @staticmethod
    def from_reading(reading: Reading) -> ReadingPart:
        """Returns the part of a reading with ``is_part`` that has come to its end. Raises
        ValueError unless the reading tracks streams.
        """
        engine, coverage = reading.engine, reading.coverage
        return ReadingPart(
            tracker=reading.tracker,
            checker=reading.checker if reading.is_checking else None,
            links=engine.links,
            directions=list(coverage.directions),
            opened_by=engine.transport.opened_by.copy(),
            packets=coverage.packets,
            messages=reading.messages,
            tls={number: replace(about, secrets={}) for number, about in coverage.tls.items()},
            has_keys=coverage.has_keys,
            unopened=dict(coverage.unopened),
            point=reading.capture.files[0].point,
        )

    def rows(self, name: str, of_whole: OfWhole, files: Sequence[str]) -> Records:
        """Returns the part's rows of one of ``SET_APART``, as the whole has them. ``files``: all
        captures of the whole.
        """
        records: Records = getattr(
            self.tracker.tables(self.links, files if len(files) > 1 else (), of_whole=of_whole),
            name,
        )
        connections = records.columns["connection"]
        assert isinstance(connections, NumberColumn)
        records = records.with_column(
            "connection", NumberColumn(of_whole.connections[connections.values])
        )
        if of_whole.is_copy.any():
            return records.take(np.flatnonzero(~of_whole.is_copy[connections.values]))
        return records

    def to_bytes(self) -> bytes:
        """Returns the part as bytes, to travel or be kept, in a tenth of its memory."""
        return to_bytes(self)

    @staticmethod
    def from_bytes(data: bytes) -> ReadingPart:
        """Returns the part in ``data``. Raises ValueError for what ``to_bytes`` did not write."""
        return from_bytes(data, ReadingPart)


@dataclass(slots=True)
class MergedReading:
    """What a reading of all connections would have told; ``merged`` makes it."""

    tracker: Tracker
    checker: Checker | None
    files: Sequence[str]
    links: list[TcpConnection]
    coverage: Coverage
    """What became of every packet and byte."""
    numbers: Sequence[IntArray]
    """By part: each connection's new number, by its number in the part; element 0 is unused."""
    things: Sequence[Things]
    """By part: the new numbers of its streams, and of what else the whole counts."""
    messages: int
    packets: int = 0
    """Number of packets in the captures."""
    last_time_ns: int | None = None
    """Capture time of the latest packet."""

    def wanting(self, judge: Judge) -> list[BoolArray]:
        """Returns, by part, a mask of its streams that have to be known completely if parts were
        set apart; else the whole would not be right.
        """

        def judged(numbers: IntArray, streams: Streams, branches: IntArray) -> BoolArray:
            index = np.full(len(self.tracker.state.known_tables.streams), -1, dtype=np.int64)
            index[numbers] = np.arange(len(numbers))
            return judge([index[thing.streams] for thing in self.things], streams, branches)

        mask = self.tracker.wanting(judged)
        if self.checker is not None:
            mask |= self.checker.wanting
        return [mask[thing.streams] for thing in self.things]

    def of_parts(self) -> list[OfWhole]:
        """Returns what each part must know of the whole to make tables of what was set apart."""
        counted, own_links = self.tracker.counted(self.links)
        tables, state = counted.tables(own_links), self.tracker.state
        streams, lacks_history = state.known_tables.streams, self.tracker.lacks_history()
        sessions = self.tracker.conversation.sessions
        links = {link.number: link for link in self.links}
        replicas = replica_streams(streams, state.connections, sessions, links)
        kept_streams = np.arange(len(streams)) if counted.kept is None else counted.kept
        unseen = {
            link.number: link
            for link in own_links
            if (link.closed, link.lost_at_end)
            != (links[link.number].closed, links[link.number].lost_at_end)
        }
        is_copy = np.isin(
            np.arange(1 + max(links, default=0)),
            list(links.keys() - {link.number for link in own_links}),
        )
        owner, number_in_part = (np.zeros(len(streams), dtype=np.int64) for _ in range(2))
        for number, thing in enumerate(self.things):
            owner[thing.streams] = number
            number_in_part[thing.streams] = np.arange(len(thing.streams))
        resumed = tables.all_gaps.of_cause(RESUMED)
        owner_of_resumed = owner[kept_streams[resumed.stream]]
        resumed.stream = number_in_part[kept_streams[resumed.stream]]
        comparisons: list[dict[GapName, Comparison]] = [{} for _ in self.things]
        for (stream, row, after), tale in tables.all_gaps.named().items():
            comparisons[owner[kept_streams[stream]]][
                int(number_in_part[kept_streams[stream]]), row, after
            ] = tale
        return [
            OfWhole(
                numbers,
                grown(is_copy, int(numbers.max(initial=0)) + 1)[numbers],
                {
                    number_in_part: replace(unseen[number_of_all], number=number_in_part)
                    for number_in_part, number_of_all in enumerate(numbers.tolist())
                    if number_of_all in unseen
                },
                replicas[thing.streams],
                lacks_history[streams.connection[thing.streams]],
                resumed[owner_of_resumed == number],
                comparisons[number],
            )
            for number, (numbers, thing) in enumerate(zip(self.numbers, self.things, strict=True))
        ]

    @property
    def tables(self) -> Tables:
        """The tables, as a reading has them."""
        return self.tracker.tables(self.links, self.files if len(self.files) > 1 else ())

    def compare(
        self, look: Callable[[EventQuery], FoundEvents], differ: Differ | None = None
    ) -> None:
        """Compares streams by events that are read a second time, before the tables are asked for.

        ``look`` finds the events wanted: each part by ``find_events``, whose results are then
        joined. It is not called if nothing is in dispute. ``differ``: as in ``Histories.compare``.
        """
        self.tracker.compare(look, differ)


def merged(
    parts: Sequence[ReadingPart], files: Sequence[str], *, left_out: Mapping[str, int] | None = None
) -> MergedReading:
    """Joins the parts of a reading of captures with these names, in any order of the parts.

    ``left_out``: packets by class that no part was given. Raises ValueError for parts that were not
    checked by the same rules.
    """
    checkers = _checkers(parts)
    numbers = [
        np.concatenate(([0], 1 + opened_by))
        for opened_by in in_order([reading_part.opened_by for reading_part in parts])
    ]
    tracker, things = Tracker.joined([reading_part.tracker for reading_part in parts], numbers)
    packets = Counter(left_out or {})
    for reading_part in parts:
        packets.update(reading_part.packets)
    points = {reading_part.point: number for number, reading_part in enumerate(parts)}
    links = [
        replace(
            link,
            number=int(new_numbers[link.number]),
            points=(reading_part.point, reading_part.point),
            networks=tuple(
                within(network, points[reading_part.point]) for network in link.networks
            ),
        )
        for reading_part, new_numbers in zip(parts, numbers, strict=True)
        for link in reading_part.links
    ]
    directions = [
        replace(direction, connection=int(new_numbers[direction.connection]))
        for reading_part, new_numbers in zip(parts, numbers, strict=True)
        for direction in reading_part.directions
    ]
    return MergedReading(
        tracker,
        type(checkers[0]).joined(checkers, numbers, tracker) if checkers else None,
        files=files,
        links=sorted(links, key=lambda link: link.number),
        coverage=Coverage(
            packets,
            sorted(directions, key=lambda direction: (direction.connection, direction.direction)),
            tls={
                int(new_numbers[number]): about
                for reading_part, new_numbers in zip(parts, numbers, strict=True)
                for number, about in reading_part.tls.items()
            },
            has_keys=any(reading_part.has_keys for reading_part in parts),
            unopened=sum((Counter(reading_part.unopened) for reading_part in parts), Counter()),
        ),
        numbers=numbers,
        things=things,
        messages=sum(reading_part.messages for reading_part in parts),
    )


def merged_apart(
    having: Callable[[int, BoolArray | None], ReadingPart],
    parts: int,
    judge: Judge,
    files: Sequence[str],
    *,
    left_out: Mapping[str, int] | None = None,
) -> tuple[MergedReading, list[IntArray]]:
    """Joins parts that are set apart; what was set apart is only in the rows of the parts. Also
    returns ``opened_by`` of each part.

    ``parts``: their number. ``having``: returns a part by number; the mask, if given, has the
    streams of the part of which everything stays.
    """
    loaded = [having(number, None) for number in range(parts)]
    joined = merged(loaded, files, left_out=left_out)
    begun = [number.opened_by for number in loaded]
    wanting = joined.wanting(judge)
    if any(mask.any() for mask in wanting):
        del loaded, joined  # otherwise they would be in memory twice
        loaded = [
            having(number, mask if mask.any() else None) for number, mask in enumerate(wanting)
        ]
        joined = merged(loaded, files, left_out=left_out)
    return joined, begun


def judged(
    bounds: Iterable[IntArray], places: Sequence[IntArray], streams: Streams, branches: IntArray
) -> BoolArray:
    """Returns a mask of streams that have gaps in dispute, or may tell of one. ``bounds``:
    ``gap_bounds`` of each part; ``places``: as in ``Judge``.
    """
    rows = []
    for part_bounds, new_numbers in zip(bounds, places, strict=True):
        stream = new_numbers[part_bounds[:, 0]]
        rows.append(np.column_stack((stream, part_bounds[:, 1:]))[stream >= 0])
    gaps = Gaps.zeros(sum(map(len, rows)))
    if not len(gaps):
        return np.zeros(len(streams), dtype=np.bool_)
    gaps.stream, gaps.after, gaps.before, cause = np.concatenate(rows).T
    return in_dispute(gaps, cause, streams, branches)


def _checkers(parts: Sequence[ReadingPart]) -> list[Checker]:
    """Returns the checkers of all parts, or none."""
    checkers = [reading_part.checker for reading_part in parts if reading_part.checker is not None]
    if len(checkers) not in (0, len(parts)):
        raise ValueError("some of these readings checked, and some did not")
    if any(not checker.asks_as(checkers[0]) for checker in checkers):
        raise ValueError("these readings were not checked by the same rules")
    return checkers


_ALLOWED = {
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
    "_codecs": ("encode",),
}
"""What makes arrays and bytes."""
_KEPT = ("coverage", "findings", "reading", "streams", "transport")
"""Modules and packages that have what parts are made of."""


def _is_kept(module: str) -> bool:
    """Returns whether a module has what parts are made of, or has rules plugged in."""
    from dcpinspect.findings.registry import RULE_SETS  # deferred: as above

    first, _, below = module.partition(".")
    is_ours = first == "dcpinspect" and below.partition(".")[0] in _KEPT
    return is_ours or any(
        rule_set.watcher is not None and rule_set.watcher.__module__ == module
        for rule_set in RULE_SETS
    )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns only what makes tables, records and followers: other bytes can run nothing."""
        if name in _ALLOWED.get(module, ()):
            return super().find_class(module, name)
        kind = super().find_class(module, name) if _is_kept(module) else None
        if isinstance(kind, type) and kind.__module__ == module:
            if issubclass(kind, StructRows):
                return partial(table_of, kind)
            if (
                issubclass(kind, Portable | PerConnection)
                or is_dataclass(kind)
                or hasattr(kind, "_make")
            ):
                return kind
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a part")


def packed(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Returns a part as it is kept: number of pieces, their sizes, and the pieces, first the one
    that holds the tables.
    """
    from dcpinspect.capture.zstd import zstd  # deferred: most readings are whole

    sizes = np.array([len(pieces), *map(len, pieces)], "<i8")
    padded = [
        octets
        for piece in (sizes.tobytes(), *pieces)
        for octets in (piece, bytes(-len(piece) % _ALIGNED))
    ]
    packing = zstd.ZstdCompressor(level=1)
    packing.set_pledged_input_size(sum(map(len, padded)))
    # to join the pieces first would take as much memory as they do
    return b"".join([*map(packing.compress, padded), packing.flush()])


def unpacked(data: bytes) -> list[memoryview]:
    """Returns the pieces that were ``packed``, writable. Large tables stay in a temporary file."""
    view = _content(data)
    count = int.from_bytes(view[:8], "little")
    sizes = np.frombuffer(view, "<i8", count, 8).tolist()
    offset, pieces = 8 * (1 + count), []
    for size in sizes:
        offset += -offset % _ALIGNED
        pieces.append(view[offset : offset + size])
        offset += size
    return pieces


def to_bytes(known: object) -> bytes:
    """Returns a part, or an object that belongs to one, as bytes, to travel or to be kept."""
    tables: list[pickle.PickleBuffer] = []
    plain = pickle.dumps(known, protocol=5, buffer_callback=tables.append)
    return packed([plain, *(table.raw() for table in tables)])


def from_bytes(data: bytes, kind: type[Known]) -> Known:
    """Returns the object of this kind in ``data``. Raises ValueError for what ``to_bytes`` did not
    write of this kind.
    """
    try:
        plain, *tables = unpacked(data)
        loaded = _Unpickler(io.BytesIO(plain), buffers=tables).load()
    except Exception as error:  # bytes may make unpickling fail in any way
        raise ValueError(f"this is no part: {error}") from error
    if not isinstance(loaded, kind):
        raise ValueError("this is no part: it holds something else")
    return loaded


def _content(data: bytes) -> memoryview:
    from dcpinspect.capture.zstd import zstd  # deferred: as above

    size = zstd.get_frame_info(data).decompressed_size or 0
    if size < LARGE:
        return memoryview(bytearray(zstd.ZstdDecompressor().decompress(data, size)))
    with tempfile.TemporaryFile(dir=large_files()) as file:
        shutil.copyfileobj(zstd.ZstdFile(io.BytesIO(data)), file)
        file.flush()
        return mapped(file)
