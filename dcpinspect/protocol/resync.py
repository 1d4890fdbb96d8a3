"""Finding the next message after sync was lost, or at a start in the middle of a stream.

Two states. *Searching*: no bytes so far look like a header; they are given up as they come. *On
trial*: some do, and each such place starts a chain: the header says where the next one must be.
What the chain's bytes show decides, never how they were cut into chunks:

- A chain is confirmed by 4 headers, or by 2 whose (vbucket, opaque) the connection has used before.
  An answer to a request that is not in the capture shows an opaque, and the first vbucket with it
  is taken for its stream's.
- Values can hold whole messages (a document that is itself a capture), and such a chain can even
  run into the true one. So where this direction is known to carry streams, only known headers
  confirm, and strangers, which are headers of unknown streams, are not believed in front of the
  first known one; and a chain that begins inside a message of another chain waits until the other
  one breaks.
- Where every stream that the client asked for is known, strangers are never believed. Elsewhere a
  stranger is, with all behind it, once its stream comes again behind a known header; the trial
  waits for that.
- Where the next header falls into a hole, or after 256 KiB, or at the end, the best chain stands:
  the one with most known headers, then with most headers. Its rows are marked heuristic, except
  those that known headers prove.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from functools import cache
from typing import ClassVar

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.layouts import legal_extras
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, Trait
from dcpinspect.protocol.roles import opcodes_with

LegalExtras = Callable[[int, int], Collection[int] | None]
"""(magic, opcode) -> extras lengths that the command may have; ``None``: no such command."""

HEADER = 24
MIB = 1 << 20
MAX_BODY = 32 * MIB
"""Servers refuse frames above 30 MiB; the rest is room for a server configured otherwise. A longer
body means lost sync.
"""
CHAIN = 4
KNOWN_CHAIN = 2
TRIAL_BYTES = 256 << 10
TRIAL_NS = 500_000_000
"""Nanoseconds of silence after which a trial ends if somebody waits for it, as in a live reading.
"""
MAX_KEY = 251
"""Size of the longest key with a collection's prefix; names and control keys are shorter."""
MAX_VBUCKETS = 1024
MIN_STREAM_REQUEST = 72
"""Fewer bytes than this cannot hold a stream request."""
MAX_STATUS = 0x0200
"""All statuses are below; a response has its status where a request has its vbucket."""

EVENTS = frozenset(np.flatnonzero(opcodes_with(Trait.COUNTED)).tolist())
"""Opcodes of messages that a producer sends on a stream."""
OF_STREAMS = opcodes_with(Trait.COUNTED) | opcodes_with(Trait.OPENS)
"""By opcode: whether its (vbucket, opaque) names a stream."""
ANSWERED = 0xFFFF << 32
"""Takes the place of the vbucket in the key of an answer to a stream request: an answer has an
opaque and no vbucket.
"""

_SCAN = 65_536
"""Number of bytes that are searched for headers at a time."""


class KnownStreams:
    """The (vbucket, opaque) pairs that a direction has used, each with the packet that showed it
    first.

    The object of the server's direction also knows its client's, whose direction is framed first:
    so no trial depends on how packets came in batches.
    """

    __slots__ = ("_begun", "_client", "_doubts", "_is_lasting", "_named", "_released")

    LIMIT: ClassVar = 1 << 14
    """Greatest number of streams that are known: more than any client has at once. If a client
    opens new ones for ever, the latest are known.
    """

    def __init__(self, client: KnownStreams | None = None) -> None:
        """``client``: the streams known from the other direction, for the server's direction."""
        self._released: dict[int, int] | None = None  # vbucket << 32 | opaque -> release packet
        self._named: dict[int, int] | None = (
            None  # opaque -> release packet of the first vbucket with it
        )
        self._client = client
        self._begun: int | None = None
        self._doubts: list[int] | None = (
            None  # begin and end of each, one after the other; the last may go on
        )
        self._is_lasting = False  # whether it does for ever

    def learn(self, keys: list[int], releases: list[int]) -> None:
        """Adds the pairs ``keys``; messages that packets ``releases`` released showed them."""
        if self._released is None or self._named is None:
            self._released, self._named = {}, {}
        for key, release in zip(keys, releases, strict=True):
            self._add(self._released, key, release)
            if key < ANSWERED:
                self._add(self._named, key & 0xFFFF_FFFF, release)

    def _add(self, streams: dict[int, int], key: int, release: int) -> None:
        if key in streams:
            return
        if len(streams) >= self.LIMIT:
            del streams[next(iter(streams))]
        streams[key] = release

    def has(self, key: int, release: int) -> bool:
        """Returns whether packet ``release`` or an earlier one had shown the stream ``key``.

        The answer to a request that is not in the capture shows a stream of any vbucket, until one
        is seen with its opaque.
        """
        opaque = key & 0xFFFF_FFFF
        return self._has(key, release) or (
            self._has(ANSWERED | opaque, release) and not self._names(opaque, release)
        )

    def _has(self, key: int, release: int) -> bool:
        if self._released is not None and self._released.get(key, release + 1) <= release:
            return True
        return self._client is not None and self._client._has(key, release)

    def _names(self, opaque: int, release: int) -> bool:
        if self._named is not None and self._named.get(opaque, release + 1) <= release:
            return True
        return self._client is not None and self._client._names(opaque, release)

    def begin(self, release: int) -> None:
        """Notes that this direction is seen from its first byte on, by packet ``release``."""
        self._begun = release

    def doubt(self, release: int) -> None:
        """Notes that from packet ``release`` on, a stream may have been asked for unseen. Nothing
        to note for the server: it asks for none.
        """
        if self._client is not None:
            return
        doubts = self._doubts = self._doubts or []
        if len(doubts) % 2:
            self._is_lasting = True  # it was not dispelled
        elif doubts and (release < doubts[-1] or len(doubts) >= 2 * self.LIMIT):
            doubts.pop()  # one with the last
        else:
            doubts.append(release)

    def no_doubt(self, release: int) -> None:
        """Ends the last doubt at packet ``release``: it turned out to be about too few bytes to ask
        for a stream.
        """
        if self._doubts and len(self._doubts) % 2 and not self._is_lasting:
            self._doubts.append(release)

    def has_all(self, release: int) -> bool:
        """Returns whether every stream asked for by packet ``release`` is known: the client's
        direction was captured without a gap.
        """
        client = self._client
        if client is None or client._begun is None or release < client._begun:
            return False
        return bisect_right(client._doubts or [], release) % 2 == 0


@dataclass(slots=True)
class Chain:
    """Headers that follow one another."""

    start: int
    """Stream offset of the first header that is believed."""
    cursor: int
    """Stream offset where the next header must be."""
    first: int
    """Stream offset of the first header."""
    count: int = 0
    """Number of headers from ``start`` on."""
    total: int = 0
    known: int = 0
    strangers: dict[int, int] = field(default_factory=dict)
    """Unknown streams among the headers, each with the stream offset of its first header."""
    is_doubted: bool | None = None
    """Whether streams may have been requested unseen when the chain began; ``None`` if that was not
    worked out yet.
    """
    is_confirmed: bool = False
    """Whether known headers prove the chain. They do not prove its strangers."""
    is_first: bool = False
    """Whether nothing is before it: it begins where the search does, or right behind a hole."""
    alive: bool = True
    """Whether it can still go on."""
    blocker: Chain | None = None
    """A chain that has a message around ``start``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a trial ended: where messages begin, and what decided it."""

    start: int
    """Stream offset of the first message."""
    decided: int
    """Stream offset after the byte that decided."""
    proven: int
    """Stream offset up to which messages were taken without full proof."""
    by_end: bool = False
    """Whether only the end of the direction decided."""


def default_legal_extras(magic: int, opcode: int) -> Collection[int] | None:
    """Returns legal extras lengths from the table of layouts; commands without a layout may have
    any short extras.
    """
    server = magic in (0x82, 0x83)
    commands: type[Opcode] | type[ServerOpcode] = ServerOpcode if server else Opcode
    if opcode not in commands._value2member_map_:
        return None
    response = magic in (0x81, 0x18, 0x83)
    legal = legal_extras(opcode, "response" if response else "request", server=server)
    if legal is None:
        return range(33)
    return legal | {0} if response else legal


_NOWHERE = np.empty(0, np.int64)
_HEADER = np.dtype(
    {
        "names": ["magic", "opcode", "key", "extras", "datatype", "specific", "body", "opaque"],
        "formats": ["u1", "u1", ">u2", "u1", "u1", ">u2", ">u4", ">u4"],
    }
)
_PLACES = np.arange(_HEADER.itemsize)


_NEEDS_KEY, _OF_STREAM, _NEEDS_FRAMES, _IS_FLEXIBLE = 1, 2, 4, 8
"""Bits: what a magic and an opcode say of the rest of a header."""
_MOST_SPECIFIC = np.full(256, MAX_STATUS)
_MOST_SPECIFIC[[0x80, 0x08, 0x82]] = MAX_VBUCKETS


@cache
def _table(legal: LegalExtras) -> tuple[ByteArray, ByteArray]:
    """Returns two tables: [magic, opcode, extras length] -> legal; [magic, opcode] -> bits of what
    they say.

    The cache usually has one entry in a program.
    """
    table = np.zeros((256, 256, 256), np.uint8)
    commands = [
        (magic, opcode) for magic in (0x80, 0x81, 0x08, 0x18, 0x82, 0x83) for opcode in range(256)
    ]
    # In one assignment: one for each command takes twenty times as long.
    table.reshape(-1)[
        [
            (magic << 8 | opcode) << 8 | length
            for magic, opcode in commands
            for length in legal(magic, opcode) or ()
            if length < 256
        ]
    ] = 1
    traits = np.zeros((256, 256), np.uint8)
    traits[[0x80, 0x08]] = _NEEDS_KEY * opcodes_with(Trait.KEY) + _OF_STREAM * OF_STREAMS
    traits[[0x08, 0x18]] |= _NEEDS_FRAMES | _IS_FLEXIBLE
    traits[0x08, [0x58, 0x59]] &= 0xFF ^ _NEEDS_FRAMES  # the stream-id that is only in the body
    return table, traits


def plausible_headers(
    data: ByteArray, legal: LegalExtras, *, of_any_vbucket: bool = False
) -> tuple[IntArray, IntArray, IntArray]:
    """Returns places in ``data`` where a header may begin: position, message length and stream key
    (-1: of no stream) of each. ``of_any_vbucket``: vbuckets that no bucket has are plausible, too.
    """
    table, traits = _table(legal)
    last = len(data) - HEADER + 1
    if last <= 0:
        return _NOWHERE, _NOWHERE, _NOWHERE
    magic = data[:last]
    header_start = np.flatnonzero(((magic & 0xFC) == 0x80) | ((magic & 0xEF) == 0x08))
    header_start = header_start[
        (data[header_start + 5] <= 7)
        & (table[data[header_start], data[header_start + 1], data[header_start + 4]] == 1)
    ]
    if not len(header_start):  # so it is nearly everywhere
        return header_start, header_start, header_start
    header = data[header_start[:, None] + _PLACES].view(_HEADER)[:, 0]
    header_traits = traits[header["magic"], header["opcode"]]
    specific, body, key_length = (
        header[name].astype(np.int64) for name in ("specific", "body", "key")
    )
    # then the low byte is the length of the key, and the high byte that of the frames
    flexible = header_traits >= _IS_FLEXIBLE
    frames = np.where(flexible, key_length >> 8, 0)
    key_length = np.where(flexible, key_length & 0xFF, key_length)
    fits = (
        (body <= MAX_BODY)
        & (key_length <= MAX_KEY)
        & (frames + header["extras"] + key_length <= body)
    )
    fits &= (specific < _MOST_SPECIFIC[header["magic"]]) | (
        of_any_vbucket & (_MOST_SPECIFIC[header["magic"]] == MAX_VBUCKETS)
    )
    fits &= (frames > 0) | (header_traits & _NEEDS_FRAMES == 0)
    fits &= (key_length > 0) | (header_traits & _NEEDS_KEY == 0)
    key = np.where(header_traits & _OF_STREAM, (specific << 32) | header["opaque"], -1)
    return header_start[fits], (HEADER + body)[fits], key[fits]


class Headers:
    """Where headers may begin in the bytes from stream offset ``offset`` on. What was searched once
    serves all trials in these bytes.
    """

    __slots__ = ("_data", "_found", "_from", "_legal", "_until", "end", "holes", "offset")

    def __init__(self, data: ByteArray, offset: int, holes: IntArray, legal: LegalExtras) -> None:
        self._data = data
        self._legal = legal
        self.offset = offset
        self.end = offset + len(data)
        self.holes = holes
        self._from = self._until = offset  # what was searched last
        self._found: list[tuple[int, int, int, bool]] = []

    def since(self, start: int) -> tuple[Sequence[tuple[int, int, int, bool]], int]:
        """Returns the headers from stream offset ``start`` on, and the offset up to which these are
        all.

        Each has its offset, its message's length, its stream key (-1: of no stream), and whether it
        begins right behind a hole.
        """
        if not self._from <= start < self._until:
            self._search(start)
        return self._found[bisect_left(self._found, (start,)) :], self._until

    def _search(self, start: int) -> None:
        stop = min(self.end, start + HEADER - 1 + _SCAN)
        header, length, key = plausible_headers(
            self._data[start - self.offset : stop - self.offset], self._legal
        )
        header, holes = header + start, self.holes
        first = np.zeros(len(header), np.bool_)
        if len(holes) and len(header):
            after = holes[:, 1].searchsorted(header, "right")
            open_ = (after == len(holes)) | (
                holes[np.minimum(after, len(holes) - 1), 0] >= header + HEADER
            )
            first = (holes[after - 1, 1] == header)[open_]
            header, length, key = header[open_], length[open_], key[open_]
        self._found = list(
            zip(header.tolist(), length.tolist(), key.tolist(), first.tolist(), strict=True)
        )
        self._from, self._until = start, stop - HEADER + 1


# Shared by all trials without chains; never changed.
_NO_CHAINS: dict[int, Chain] = {}
_NONE_WAITING: dict[int, list[Chain]] = {}
_NO_CURSORS: list[int] = []


def _no_release(_: int) -> int:
    return 0


class Trial:
    """One search, from stream offset ``start`` on. Call ``continue_with`` with more bytes until it
    returns a verdict.
    """

    __slots__ = (
        "_chains",
        "_cursors",
        "_known",
        "_producing",
        "_release_at",
        "_scanned",
        "_start",
        "_waiting",
        "keep",
    )

    def __init__(self, start: int, known_streams: KnownStreams, *, producing: bool) -> None:
        self.keep = start
        """Bytes before this stream offset are no longer needed."""
        self._start = start
        self._known = known_streams
        self._producing = (
            producing  # whether this direction carries streams: see the top of the file
        )
        self._scanned = start  # headers that begin before this offset are dealt with
        self._chains = _NO_CHAINS  # by offset of their first header, in that order
        self._waiting = _NONE_WAITING  # by cursor
        self._cursors = _NO_CURSORS  # heap of the keys of _waiting
        self._release_at: Callable[[int], int] = _no_release

    def continue_with(
        self,
        headers: Headers,
        release_at: Callable[[int], int],
        *,
        final: bool,
        settle: bool = False,
    ) -> Verdict | None:
        """Continues with the headers of more bytes. Returns a verdict, or None if yet more are
        needed.

        ``release_at``: returns the packet that made a byte readable. ``final``: no more bytes come.
        ``settle``: decide without waiting for more bytes; the trial goes on if the bytes do not
        suffice.
        """
        self._release_at = release_at
        verdict = self._verdict_after(headers, final=final, settle=settle)
        self._release_at = _no_release  # it would keep the data alive
        if not self._chains:
            self._chains, self._waiting, self._cursors = _NO_CHAINS, _NONE_WAITING, _NO_CURSORS
        return verdict

    def _verdict_after(self, headers: Headers, *, final: bool, settle: bool) -> Verdict | None:
        end, holes = headers.end, headers.holes
        while self._scanned + HEADER <= end:
            plausible, stop = headers.since(self._scanned)
            for header_start, size, stream, is_first in plausible:
                is_first |= header_start == self._start
                verdict = (
                    self._pass(header_start, holes)
                    or self._overdue(header_start + HEADER)
                    or self._header(header_start, size, stream, is_first=is_first)
                )
                if verdict:
                    return verdict
            self._scanned = stop
            verdict = self._pass(stop, holes) or self._overdue(stop + HEADER - 1)
            if verdict:
                return verdict
        if final or settle:
            verdict = self._best(end, final=True)
            if verdict or final:
                return verdict
        hole = int(holes[:, 1].searchsorted(self._scanned))
        if hole < len(holes) and holes[hole, 1] == self._scanned:
            # the hole may be forgotten before the header behind it is complete
            self._start = self._scanned
        self.keep = min(self._scanned, next(iter(self._chains), self._scanned))
        return None

    @property
    def reach(self) -> int:
        """Stream offset after the farthest header that a chain waits for; 0 without chains."""
        return max((chain.cursor + HEADER for chain in self._chains.values()), default=0)

    def _header(
        self, header_start: int, size: int, stream: int, *, is_first: bool
    ) -> Verdict | None:
        """Takes a plausible header at ``header_start``: extends chains that wait, or starts one."""
        if self._chains is _NO_CHAINS:
            self._chains, self._waiting, self._cursors = {}, {}, []
        chains = self._waiting.pop(header_start, None)
        if not chains:
            chain = Chain(header_start, header_start, header_start, is_first=is_first)
            self._chains[header_start] = chain
        else:
            # one chain that leads here is enough
            chain = min(chains, key=lambda chain: (chain.known == 0, chain.first))
            for other_chain in chains:
                if other_chain is not chain:
                    self._drop(other_chain)
        is_known = stream >= 0 and self._known.has(
            stream, self._release_at(header_start + HEADER - 1)
        )
        is_strange = self._producing and stream >= 0 and not is_known
        chain.total += 1
        chain.cursor = header_start + size
        if is_strange and not chain.known:
            chain.strangers.setdefault(stream, header_start)
            chain.start, chain.count = chain.cursor, 0
        else:
            chain.count += 1
            chain.known += is_known
            chain.start = min(chain.start, chain.strangers.get(stream, header_start))
        self._wait(chain)
        if chain.known < KNOWN_CHAIN and (self._producing or chain.count < CHAIN):
            return None
        chain.is_confirmed = chain.is_confirmed or not self._is_blocked(chain)
        is_settled = chain.start == chain.first or not self._is_doubted(chain)
        if chain.is_confirmed and is_settled:
            return self._verdict(chain, header_start + HEADER)
        return None

    def _wait(self, chain: Chain) -> None:
        if chain.cursor not in self._waiting:
            self._waiting[chain.cursor] = []
            heapq.heappush(self._cursors, chain.cursor)
        self._waiting[chain.cursor].append(chain)

    def _drop(self, chain: Chain) -> None:
        chain.alive = False
        self._chains.pop(chain.first, None)

    def _pass(self, offset: int, holes: IntArray) -> Verdict | None:
        """Breaks chains whose next header should have begun before ``offset``; if a hole is there,
        they end instead.
        """
        while self._cursors and self._cursors[0] < offset:
            cursor = self._cursors[0]
            verdict = self._overdue(cursor + HEADER)
            if verdict:
                return verdict
            heapq.heappop(self._cursors)
            chains = self._waiting.pop(cursor, None)
            if not chains:
                continue
            hole = int(np.searchsorted(holes[:, 1], cursor, "right"))
            if hole < len(holes) and holes[hole, 0] < cursor + HEADER:
                best_chain = max(chains, key=self._rank)
                exact = cursor == holes[hole, 0]
                if not self._is_blocked(best_chain) and self._is_acceptable(
                    best_chain, best_chain.count, exact=exact
                ):
                    return self._verdict(best_chain, cursor + HEADER)
            for chain in chains:
                if chain.is_confirmed:
                    return self._verdict(chain, cursor + HEADER)
                self._drop(chain)
        return None

    def _overdue(self, prefix: int) -> Verdict | None:
        """Returns the best chain, once the first one has been held for ``TRIAL_BYTES`` before
        stream offset ``prefix``.
        """
        while self._chains:
            chain = next(iter(self._chains.values()))
            decided = chain.first + TRIAL_BYTES
            if decided > prefix:
                return None
            verdict = self._best(decided, final=False)
            if verdict:
                return verdict
            self._waiting[chain.cursor].remove(chain)
            self._drop(chain)
        return None

    def _best(self, end: int, *, final: bool) -> Verdict | None:
        """Returns the best acceptable chain if the bytes before offset ``end`` must suffice."""
        for chain in sorted(self._chains.values(), key=self._rank, reverse=True):
            complete = self._strength(chain) - (chain.cursor > end)
            if not final:
                complete = max(complete, 1)  # a message longer than a trial
            if complete > 0 and self._is_acceptable(chain, complete, exact=chain.cursor == end):
                return self._verdict(chain, end, by_end=final)
        return None

    def _verdict(self, chain: Chain, decided: int, *, by_end: bool = False) -> Verdict:
        """Returns where a chain's messages begin.

        Unknown headers in front are left out if something better follows them; a chain with nothing
        better begins with them.
        """
        start = chain.first if self._are_streams(chain) and not chain.known else chain.start
        return Verdict(
            start, decided, proven=start if chain.is_confirmed else decided, by_end=by_end
        )

    def _rank(self, chain: Chain) -> tuple[int, int, int]:
        return chain.known, self._strength(chain), -chain.first

    def _strength(self, chain: Chain) -> int:
        """Headers that count."""
        return chain.total if self._are_streams(chain) else chain.count

    def _are_streams(self, chain: Chain) -> bool:
        """Returns whether headers of unknown streams may be real: of streams opened in a hole."""
        return chain.total >= CHAIN and self._is_doubted(chain)

    def _is_doubted(self, chain: Chain) -> bool:
        if chain.is_doubted is None:
            chain.is_doubted = not (
                self._producing and self._known.has_all(self._release_at(chain.first + HEADER - 1))
            )
        return chain.is_doubted

    def _is_acceptable(self, chain: Chain, complete: int, *, exact: bool) -> bool:
        """Returns whether a chain that is not confirmed may count if there is no better one."""
        if chain.known or self._are_streams(chain):
            return True
        if chain.count == 0:  # only unknown headers: more likely a value
            return False
        return complete >= KNOWN_CHAIN or (
            complete == 1 and (exact or chain.is_first or not self._producing)
        )

    def _is_blocked(self, chain: Chain) -> bool:
        blocker = chain.blocker
        if blocker is not None and blocker.alive and blocker.cursor > chain.start:
            return True
        for other_chain in self._chains.values():
            if other_chain.first >= chain.start:
                break
            if (
                other_chain is not chain
                and other_chain.cursor > chain.start
                and self._blocks(other_chain)
            ):
                chain.blocker = other_chain
                return True
        return False

    def _blocks(self, chain: Chain) -> bool:
        """Whether a message of it may be real. Of what a producer sends, those outside of streams
        are too short to hold others.
        """
        if not self._producing:
            return chain.count > 0
        return chain.known > 0 or (len(chain.strangers) > 0 and self._is_doubted(chain))
