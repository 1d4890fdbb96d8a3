"""What became of every packet and of every byte of TCP payload: nothing is lost without being
counted.

For each direction of each connection: ``captured == unique + duplicate + late`` and ``unique ==
decoded + skipped + unfinished + not decodable``. Missing bytes, which the capture does not hold,
are in none of these sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any, NamedTuple, overload

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.foreign import HTTP, NAMES, TLS
from dcpinspect.protocol.framed import BAD_MAGIC, FramingAccount, FramingSizes
from dcpinspect.protocol.framing_evidence import ConnectionEvidence
from dcpinspect.tables.messages import DIRECTIONS, Endpoints
from dcpinspect.text import counted
from dcpinspect.transport.chunk import C2S
from dcpinspect.transport.connections import PLAIN_PORT, TLS_PORT
from dcpinspect.transport.reassembly import COUNTED, DirectionAccount, Reassembler
from dcpinspect.transport.tls.connection import IN_MESH, MISFIT, MISMATCHES, TlsConnection
from dcpinspect.transport.tls.stage import TlsStage

DCP = "dcp"
OTHER = "other"
AT_ONCE = 1 << 15
"""Number of directions whose columns are made at once, so that millions of them take little memory.
"""
UNPLACED = "without a place in the stream"
"""What bytes are that came late, but fill no hole."""
LEFT = "connections that have left memory"
"""Sender and receiver of what these connections said together."""


@dataclass(frozen=True, slots=True)
class DirectionCoverage:
    """The payload bytes of one direction of one connection."""

    connection: int
    direction: int
    """``C2S`` or ``S2C``."""
    sender: str
    receiver: str
    protocol: str
    """``dcp`` if messages were decoded; ``tls``, ``memcached-text`` or ``http``; ``other`` on a
    port that was not requested and did not prove to carry DCP; empty if nothing told.
    """
    packets: int
    captured: int
    duplicate: int
    late: int
    """Bytes that came after they were given up, or before the first byte of the reading, or that
    belonged to no connection.
    """
    filled: int
    """Those of them that are in ``missing``."""
    decoded: int
    """Bytes in messages, and in a PROXY header before them."""
    skipped: Mapping[str, int]
    """Bytes by reason for skipping them, as in ``Framed.skipped_reason``."""
    unfinished: int
    """Bytes of messages that never ended."""
    not_decodable: int
    """Bytes of another protocol."""
    tls: int
    """Bytes of TLS that are no plain text: headers, tags, handshakes, records that were not opened.
    0 if nothing was decrypted.
    """
    missing: int
    """Bytes in holes; part of no sum."""
    cut: int
    """Bytes of ``missing`` that snaplen cut off."""
    holes: int
    first_hole: int | None
    """Stream offset of the first hole; ``None`` if there is no hole."""
    first_skipped: int | None
    first_fault: tuple[int, bytes] | None
    """The first fault: stream offset and header of what stood where a message should begin; None
    behind a hole and before any message.
    """

    def __repr__(self) -> str:
        ends = f"{self.sender} > {self.receiver}"
        return (
            f"<connection {self.connection} {DIRECTIONS[self.direction]}, {ends}: {self.decoded:,} "
            f"of {self.captured:,} bytes decoded, {self.missing:,} missing>"
        )

    @property
    def unique(self) -> int:
        """Number of bytes that were not captured before."""
        return self.captured - self.duplicate - self.late

    @property
    def lost(self) -> int:
        """Number of bytes in holes that did not come later either."""
        return max(0, self.missing - self.filled)

    @property
    def is_whole(self) -> bool:
        """Whether every byte that is known of is in a message."""
        return not (self.missing or self.skipped or self.unfinished or self.not_decodable)


class Sizes(NamedTuple):
    """The bytes of directions, as columns with the fields of ``DirectionCoverage``: there may be
    very many, of which few are looked at.
    """

    connection: RowNumbers
    direction: RowNumbers
    is_own: BoolArray
    """False for another protocol on a port that was not requested."""
    captured: RowNumbers
    unique: RowNumbers
    duplicate: RowNumbers
    late: RowNumbers
    filled: RowNumbers
    decoded: RowNumbers
    skipped: RowNumbers
    unfinished: RowNumbers
    not_decodable: RowNumbers
    http: RowNumbers
    """Those of ``not_decodable`` that are HTTP."""
    tls: RowNumbers
    missing: RowNumbers
    cut: RowNumbers
    holes: RowNumbers
    has_fault: BoolArray
    """Whether there is a ``first_fault``."""

    @property
    def is_whole(self) -> BoolArray:
        """Whether every byte that is known of is in a message, for each direction."""
        return np.asarray(
            self.missing + self.skipped + self.unfinished + self.not_decodable == 0, dtype=np.bool_
        )

    @staticmethod
    def from_directions(directions: Sequence[DirectionCoverage]) -> Sizes:
        """Returns the columns of directions that are at hand."""
        derived = {
            "is_own": [direction.protocol != OTHER for direction in directions],
            "skipped": [sum(direction.skipped.values()) for direction in directions],
            "http": [
                direction.not_decodable if direction.protocol == HTTP else 0
                for direction in directions
            ],
            "has_fault": [direction.first_fault is not None for direction in directions],
        }
        columns: dict[str, Any] = {
            name: np.array(
                derived[name]
                if name in derived
                else [getattr(direction, name) for direction in directions],
                np.bool_ if name in ("is_own", "has_fault") else np.int64,
            )
            for name in Sizes._fields
        }
        return Sizes(**columns)


Wanted = Callable[[Sizes], BoolArray]
"""Returns a mask of the directions that are wanted."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every packet and every byte of a reading so far."""

    packets: Mapping[str, int]
    """Number of packets by class (``headers.CLASS_NAMES``), for all classes."""
    directions: Sequence[DirectionCoverage]
    """By connection, client to server first, for connections that carried a byte or are known to
    lack one.

    There may be very many, so each is made when it is looked at, and tells of the reading as far as
    it has come by then.
    """
    left: Sequence[DirectionCoverage] = ()
    """The sums of all connections that left memory, as directions of connection 0, or empty."""
    tls: Mapping[int, TlsConnection] = field(default_factory=dict)
    """Connections that look like TLS, by number; their directions are those of chunks."""
    has_keys: bool = False
    """Whether there are secrets of TLS connections."""
    unopened: Mapping[str, int] = field(default_factory=dict)
    """Number of connections that were not opened, or on which nobody said a byte, by what came of
    them (``Link.unopened``). ``links`` may have fewer of them.
    """

    def __repr__(self) -> str:
        sums = self.own_protocol
        plain, missing = self.plain_bytes(sums), sums["missing"]
        return (
            f"<coverage: {self.packets_read} packets, {sums['decoded']} of {plain} bytes "
            f"decoded, {missing} missing>"
        )

    @property
    def everything(self) -> Iterator[DirectionCoverage]:
        """All bytes: ``directions`` and ``left``."""
        return chain(self.directions, self.left)

    @property
    def sizes(self) -> Iterator[tuple[Sequence[DirectionCoverage], Sizes]]:
        """Parts of ``everything``, one after the other, each with its columns."""
        for directions in (self.directions, self.left):
            for start in range(0, len(directions), AT_ONCE):
                block = directions[start : start + AT_ONCE]
                yield (
                    block,
                    block.sizes if isinstance(block, Directions) else Sizes.from_directions(block),
                )

    def where(self, condition: Wanted) -> Iterator[DirectionCoverage]:
        """Yields those of ``everything`` that are wanted."""
        for directions, sizes in self.sizes:
            yield from (directions[row] for row in np.flatnonzero(condition(sizes)).tolist())

    def ways(self, condition: Wanted) -> set[tuple[int, int]]:
        """Returns connection and direction of those that are wanted."""
        ways: set[tuple[int, int]] = set()
        for _, sizes in self.sizes:
            meets = condition(sizes)
            ways.update(
                zip(sizes.connection[meets].tolist(), sizes.direction[meets].tolist(), strict=True)
            )
        return ways

    def sums(self, condition: Wanted) -> Counter[str]:
        """Returns the sums over those that are wanted, by field of ``Sizes``."""
        totals: Counter[str] = Counter()
        for _, sizes in self.sizes:
            meets = condition(sizes)
            rows = slice(None) if meets.all() else meets
            totals.update(
                {name: int(column[rows].sum()) for name, column in sizes._asdict().items()}
            )
        return totals

    def without(self, connections: Collection[int], unopened: Mapping[str, int]) -> Coverage:
        """Returns the coverage without some connections; ``unopened``: how many of these were not
        opened, by why.
        """
        remaining = self.directions
        tls = {number: about for number, about in self.tls.items() if number not in connections}
        directions = (
            remaining.without(connections)
            if isinstance(remaining, Directions)
            else [direction for direction in remaining if direction.connection not in connections]
        )
        still_unopened = {
            reason: count - unopened.get(reason, 0) for reason, count in self.unopened.items()
        }
        return replace(self, directions=directions, tls=tls, unopened=still_unopened)

    @property
    def own_protocol(self) -> Counter[str]:
        """The sums over everything but other protocols."""
        return self.sums(lambda all_: all_.is_own)

    @staticmethod
    def plain_bytes(sums: Mapping[str, int]) -> int:
        """Returns how many bytes were captured, without copies and without TLS itself. ``sums``: by
        field of ``Sizes``.
        """
        return sums["unique"] + sums["late"] - sums["tls"]

    @property
    def packets_read(self) -> int:
        """Number of packets of all classes."""
        return sum(self.packets.values())

    def tls_advice(self, connections: Collection[int]) -> str:
        """Returns what to do to read these connections, which were not decrypted."""
        tls_states = [
            about for number in connections if (about := self.tls.get(number)) is not None
        ]
        kinds = {(about.mismatch, bool(about.mesh)) for about in tls_states}
        if len(kinds) > 1:
            return "the reasons differ; the findings say what to do for each"
        if tls_states and len(tls_states) == len(connections):
            if advice := MISMATCHES.get(kinds.pop()[0]):
                return advice
            if all(about.cannot_be_read for about in tls_states):
                return (
                    "TLS 1.2 cannot be read without the handshake; capture it whole: before the client "
                    "connects, both directions, with -s 0"
                )
            if all(about.is_misfit for about in tls_states):
                return MISFIT
            if all(about.mesh for about in tls_states):
                return IN_MESH
        if self.has_keys:
            return "the key log does not open it; 'dcpinspect connections' says why"
        numbers = np.array([*connections], np.int64)
        client_directions = self.where(
            lambda all_: (all_.direction == 0) & np.isin(all_.connection, numbers)
        )
        if all(
            direction.receiver.rpartition(":")[2] == str(TLS_PORT)
            for direction in client_directions
        ):
            return (
                f"give the client's key log with --keylog, or record the plain port ({PLAIN_PORT})"
            )
        return (
            "give the client's key log with --keylog, or capture between the server and what "
            "ends TLS, where it is plain"
        )


AccountOf = Callable[[int, int], FramingAccount]
"""Returns the account of framing for a connection and direction, numbered as those of chunks."""
SizesOf = Callable[[RowNumbers], FramingSizes]
"""Returns the accounts of many directions; the number of each is 2 * (connection - 1) + direction.
"""


class DirectionSources(NamedTuple):
    """What knows something of the directions of a reading."""

    transport: Reassembler
    endpoints: Endpoints
    account_of: AccountOf
    sizes_of: SizesOf
    evidence: ConnectionEvidence
    tls: TlsStage


class Directions(Sequence[DirectionCoverage]):
    """The directions of some connections of a reading, by number."""

    def __init__(self, numbers: RowNumbers, sources: DirectionSources) -> None:
        self._numbers, self._sources = numbers, sources

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self[:2]))
        more = f", and {len(self) - 2:,} more" if len(self) > 2 else ""
        return f"<{counted(len(self), 'direction')}: {first}{more}>" if self else "<0 directions>"

    def without(self, connections: Collection[int]) -> Directions:
        """Returns the directions without those of some connections."""
        return Directions(self._numbers[~np.isin(self._numbers, list(connections))], self._sources)

    def __len__(self) -> int:
        return 2 * len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> DirectionCoverage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DirectionCoverage]: ...
    def __getitem__(self, index: int | slice) -> DirectionCoverage | Sequence[DirectionCoverage]:
        positions = range(len(self))[index]
        if isinstance(positions, int):
            return self._direction_at(positions)
        if positions.start % 2 or positions.step != 1 or (len(positions) % 2):
            return [self._direction_at(position) for position in positions]
        numbers = self._numbers[positions.start // 2 : positions.stop // 2]
        return Directions(numbers, self._sources)

    def __iter__(self) -> Iterator[DirectionCoverage]:
        return map(self._direction_at, range(len(self)))

    @property
    def sizes(self) -> Sizes:
        """The columns of all these directions, by now."""
        connection = np.repeat(self._numbers, 2)
        direction = np.tile(np.arange(2), len(self._numbers))
        seen = 2 * (connection - 1) + (
            direction ^ np.isin(connection, list(self._sources.evidence.reversed))
        )
        counted = dict(zip(COUNTED, self._sources.transport.counted(seen), strict=True))
        framing, is_other = (
            self._sources.sizes_of(seen),
            self._sources.evidence.are_unproven(connection),
        )
        is_suspected = self._sources.evidence.suspected(connection)
        tls, unread = np.zeros((2, len(seen)), np.int64)
        for position in np.flatnonzero(
            np.isin(connection, list(self._sources.tls.connections))
        ).tolist():
            number, side = int(connection[position]), int(seen[position]) % 2
            tls[position] = self._sources.tls.overhead(number, side)
            unread[position] = self._sources.tls.unread(number, side)
        return Sizes(
            connection,
            direction,
            ~is_other,
            captured=counted["payload"],
            unique=counted["payload"] - counted["duplicate"] - counted["late"],
            duplicate=counted["duplicate"],
            late=counted["late"],
            filled=counted["filled"],
            decoded=np.where(is_other | is_suspected, 0, framing.messages),
            skipped=np.where(
                is_other, 0, framing.skipped + np.where(is_suspected, framing.messages, 0)
            ),
            unfinished=np.where(is_other, 0, framing.unfinished),
            not_decodable=np.where(is_other, counted["unique"], framing.foreign + unread),
            http=np.where(is_other, 0, framing.http),
            tls=tls,
            missing=counted["missing"],
            cut=counted["cut_off"],
            holes=counted["holes"],
            has_fault=framing.has_fault & ~is_other,
        )

    def _direction_at(self, position: int) -> DirectionCoverage:
        connection, direction = int(self._numbers[position // 2]), position % 2
        seen_as = direction ^ (connection in self._sources.evidence.reversed)
        client = self._sources.endpoints.client[connection - 1]
        server = self._sources.endpoints.server[connection - 1]
        framing = self._sources.account_of(connection, seen_as)
        if self._sources.evidence.is_suspected(connection) and framing.messages:
            bad = framing.reasons.get(BAD_MAGIC, 0) + framing.messages
            framing = replace(framing, messages=0, reasons=framing.reasons | {BAD_MAGIC: bad})
        return _covered(
            self._sources.transport.account(connection, seen_as),
            direction,
            framing,
            (client, server) if direction == C2S else (server, client),
            is_other=self._sources.evidence.is_other(connection),
            tls=self._sources.tls.overhead(connection, seen_as),
            unread=self._sources.tls.unread(connection, seen_as),
        )


def left_directions(
    accounts: Sequence[DirectionAccount], framing: Sequence[FramingAccount], tls: Sequence[int]
) -> list[DirectionCoverage]:
    """Returns the bytes of connections that have left memory, by direction."""
    ways = zip(accounts, framing, tls, strict=True)
    return [
        _covered(account, account.direction, framed, (LEFT, LEFT), is_other=False, tls=overhead)
        for account, framed, overhead in ways
    ]


def _covered(
    account: DirectionAccount,
    direction: int,
    framing: FramingAccount,
    ends: tuple[str, str],
    *,
    is_other: bool,
    tls: int,
    unread: int = 0,
) -> DirectionCoverage:
    """Returns the bytes of a direction. ``ends``: its sender and its receiver."""
    foreign = ({TLS: unread} if unread else {}) | {
        name: size for name, size in framing.reasons.items() if name in NAMES
    }
    skipped = (
        {}
        if is_other
        else {reason: size for reason, size in framing.reasons.items() if reason not in NAMES}
    )
    named = next(iter(foreign), "")
    return DirectionCoverage(
        connection=account.connection,
        direction=direction,
        sender=ends[0],
        receiver=ends[1],
        protocol=OTHER if is_other else named or (DCP if framing.messages else ""),
        packets=account.packets,
        captured=account.captured,
        duplicate=account.duplicate,
        late=account.late,
        filled=account.filled,
        decoded=0 if is_other else framing.messages,
        skipped=skipped,
        unfinished=0 if is_other else framing.unfinished,
        tls=tls,
        not_decodable=account.unique if is_other else sum(foreign.values()),
        missing=account.missing,
        cut=account.cut,
        holes=account.holes,
        first_hole=framing.first_hole,
        first_skipped=framing.first_skipped,
        first_fault=None if is_other else framing.first_fault,
    )
