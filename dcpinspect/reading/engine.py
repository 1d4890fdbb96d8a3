"""The one path of every byte: packets in, messages out.

A file, a pipe, a live interface and a Spark task all call ``feed`` with batches of packets of any
size, and ``finish`` once. What a connection needs from batch to batch stays here; rows do not
depend on how the packets were divided into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import Protocol

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, grown
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.coverage import Coverage, Directions, DirectionSources, left_directions
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.first_bytes import FEW, MAGICS, BriefDirections, BriefMessages
from dcpinspect.protocol.framed import NO_NUMBERS, Accounts, Framed, FramingAccount, FramingSizes
from dcpinspect.protocol.framing import Framer
from dcpinspect.protocol.framing_evidence import ConnectionEvidence, DirectionMessages
from dcpinspect.protocol.resync import HEADER, KnownStreams, default_legal_extras, plausible_headers
from dcpinspect.reading.decoding import Decoding, Frames
from dcpinspect.reading.numbering import ByPacket, Numbering
from dcpinspect.streams.tcp_facts import LateAck, TcpConnection, ZeroWindow, ZeroWindows
from dcpinspect.tables.messages import Endpoints, MessageBatch
from dcpinspect.transport.chunk import C2S, S2C, FirstBytes, StreamChunk
from dcpinspect.transport.clock_steps import ClockSteps
from dcpinspect.transport.connections import DEFAULT_PORTS, TLS_PORT
from dcpinspect.transport.flows import acked_of, next_of
from dcpinspect.transport.headers import CLASS_NAMES
from dcpinspect.transport.packet_owners import MASK
from dcpinspect.transport.proxy import ProxyHeaders
from dcpinspect.transport.reassembly import Lifetime, Reassembler
from dcpinspect.transport.tcp_openings import NEVER, Opening, counted, openings
from dcpinspect.transport.tls.connection import PLAIN_TO_TLS, TLS_TO_PLAIN
from dcpinspect.transport.tls.keylog import KeyLog, command_secrets
from dcpinspect.transport.tls.stage import TlsStage


class ByteKeeper(Protocol):
    """An object that will come back to the bytes of messages."""

    def keep(
        self,
        packets: PacketBatch | None,
        chunks: Sequence[StreamChunk],
        briefs: Sequence[BriefMessages],
    ) -> None:
        """Takes what ``packets`` added to the streams, with places, before the messages that it
        completed.

        ``packets``: None if only time passed, or the input ended. ``briefs``: messages that are in no
        chunk.
        """


MOST_SILENT = 10_000
"""Number of silent connections that tables have. A connection is silent if it said nothing, or only
noops, in at most ``FEW`` bytes of payload in each direction.
"""
_AT_ONCE = 1 << 14
"""Number of connections whose columns are made at once."""


MOST_NAMES = 4096
"""Number of requested addresses that are kept at hand: as many as most captures have."""


class Addresses:
    """Addresses by number, made when they are asked for: a scan or a flood has millions."""

    def __init__(self, find: Callable[[int], str]) -> None:
        self._find = lru_cache(MOST_NAMES)(find)
        self._kept: dict[int, str] = {}

    def __getitem__(self, index: int, /) -> str:
        name = self._kept.get(index)
        return self._find(index) if name is None else name

    def __setitem__(self, index: int, text: str) -> None:
        """Sets an address, whatever could be found."""
        self._kept[index] = text

    def keep(self, index: int, *, wanted: bool) -> None:
        """Keeps an address that cannot be found any more, if it is wanted."""
        if wanted:
            self._kept[index] = self[index]
        else:
            self._kept.pop(index, None)

    @property
    def count(self) -> int:
        """Number of addresses that are kept."""
        return len(self._kept)


class Engine:
    """The state of one reading.

    It has two halves, which two threads may run: framing finds messages in packets, decoding makes
    rows of them. Decoding changes nothing that framing looks at, so it may come later, in the same
    order.
    """

    def __init__(
        self,
        files: Sequence[str],
        *,
        ports: tuple[int, ...] = DEFAULT_PORTS,
        find_ports: bool = False,
        keeper: ByteKeeper | None = None,
        is_part: bool = False,
        keys: KeyLog | None = None,
    ) -> None:
        """``find_ports``: look at connections on all other ports too, and believe those that prove
        to carry the protocol.

        ``is_part``: the packets are those of some connections of a larger reading; rows are then
        numbered by the packets of that reading. ``keys``: secrets of TLS connections; None: the
        secrets of the key logs that the command line names.
        """
        self.transport = Reassembler(ports, every_port=find_ports, with_places=keeper is not None)
        self.keys = command_secrets.open() if keys is None else keys
        self.tls = TlsStage(self.keys, _first_header)
        """What is known of TLS connections."""
        self._proxies = ProxyHeaders(self._read_header)
        self._is_part, self.clock = is_part, ClockSteps()
        self._accounts = Accounts()
        self._brief = BriefDirections(self._accounts)
        self._brief_messages: list[BriefMessages] = []
        self._for_keeper: list[BriefMessages] = []  # since the keeper was last called
        self.transport.take_first = self._take_first
        self._keeper = keeper
        self._ports = ports
        self._evidence = ConnectionEvidence(self._begins)
        # Directions are numbered 2 * (connection - 1) + direction of the chunks. Little is kept of
        # a direction that has ended.
        self._framers: dict[int, Framer] = {}
        self._known_streams: dict[int, KnownStreams] = {}  # by connection: what its client shows
        self._gone = np.zeros(64, dtype=np.bool_)  # connections that have left, by number
        self._lost: dict[int, tuple[int, int]] = {}  # what _lost_behind returns
        self._clients, self._servers = (Addresses(partial(self._address, side)) for side in (0, 1))
        self._endpoints = Endpoints(self._clients, self._servers)
        self._begun: list[RowNumbers] = []
        self._origin_ns: int | None = None
        numbering: Numbering = (
            ByPacket(lambda: self.transport.opened_by) if is_part else Numbering()
        )
        self._decoding = Decoding(files, self._endpoints, numbering)

    def feed(self, packets: PacketBatch) -> MessageBatch | None:
        """Returns the messages that these packets completed, in row order; None for none."""
        return self.decode(self.frame(self.steady(packets)))

    def steady(self, packets: PacketBatch) -> PacketBatch:
        """Returns the packets with times of a clock that was not set while it captured; once for
        each batch, in order.
        """
        return packets if self._is_part else self.clock.steady(packets)  # parts have them already

    def finish(self) -> MessageBatch | None:
        """Returns the messages that the end of the input releases."""
        return self.decode(self.frame_rest())

    def frame(self, packets: PacketBatch) -> Frames:
        """Does the first half of ``feed``, with packets whose times are ``steady``."""
        if self._origin_ns is None and len(packets):
            self._origin_ns = int(packets.time_ns[0])
        chunks = self._chunks_for_framing(packets, self.transport.feed(packets))
        self._meet_connections()
        return self._frames(self._framed(chunks))

    def frame_overdue(self, time_ns: int) -> Frames:
        """Returns what no longer waits, now that capture time is ``time_ns``. Live, no packet may
        say so for a long time.

        The result depends on when this is called, so readings of files do without it.
        """
        time_ns -= self.clock.ahead_ns
        waited = chain.from_iterable(
            self._left_to_framers(connection) for connection in self._brief.due(time_ns)
        )
        return self._frames(
            self._settled(
                self._chunks_for_framing(None, chain(waited, self.transport.pass_time(time_ns))),
                time_ns,
            )
        )

    def frame_rest(self) -> Frames:
        """Does the first half of ``finish``."""
        return self._frames(
            self._framed(self._chunks_for_framing(None, self.transport.finish(), is_last=True)),
            is_last=True,
        )

    def frame_reset(self, before_ns: int) -> Frames:
        """Returns what connections that were reset before a time still had: the side that was reset
        says nothing more, not even its end.
        """
        before_ns -= self.clock.ahead_ns
        return self._frames(
            self._framed(self._chunks_for_framing(None, self.transport.end_reset(before_ns)))
        )

    def decode(self, frames: Frames) -> MessageBatch | None:
        """Does the second half of ``feed`` and ``finish``; call this once for everything that was
        found, in order.
        """
        return self._decoding.decode(frames, self._origin_ns or 0)

    @property
    def coverage(self) -> Coverage:
        """What became of packets and bytes so far; sums hold once the reading has finished."""
        packets = dict(zip(CLASS_NAMES, self.transport.headers.counts.tolist(), strict=True))
        there = self.there
        left_behind = (
            left_directions(self.transport.left_accounts(there), self._accounts.left, self.tls.left)
            if len(there) < self.transport.count
            else ()
        )
        self._find_mismatches()
        unopened = counted(self.transport.tables, self._own_connections, self.transport.time_ns)
        directions = self._directions(self.transport.with_bytes(there))
        return Coverage(
            packets, directions, left_behind, self.tls.connections, self.tls.has_keys, unopened
        )

    def _find_mismatches(self) -> None:
        """Finds connections of which one side speaks TLS and the other does not."""
        about = {
            number: tls
            for number, tls in self.tls.connections.items()
            if tls.server is None and not self._has_left(number)
        }
        numbers = np.array(list(about), np.int64)
        for (number, tls), life in zip(
            about.items(), self.transport.lifetimes_of(numbers), strict=True
        ):
            client, server = tls.sides
            if tls.client is not None:
                is_silent = (
                    not self.transport.account(number, server).captured
                    and not self.transport.account(number, server).missing
                )
                is_plain = (
                    life.closed in ("fin", "rst")
                    and life.closed_by == server
                    and int(self.transport.ports(number - 1, 1)[0]) != TLS_PORT
                )
                tls.mismatch = TLS_TO_PLAIN if is_silent and is_plain else ""
            elif self._account(number, client).messages and any(
                side == "server" for side, _, _ in tls.alerts
            ):
                tls.mismatch = PLAIN_TO_TLS

    def _directions(self, connections: RowNumbers) -> Directions:
        transport, account, sizes = self.transport, self._account, self._sizes
        return Directions(
            connections,
            DirectionSources(transport, self._endpoints, account, sizes, self._evidence, self.tls),
        )

    def held_from(self, connection: int, direction: int) -> int | None:
        """Returns the stream offset of the first fed byte that a coming message may need; None: no
        byte is needed. Directions are those of chunks.
        """
        framer = self._framers.get(_number(connection, direction))
        held = (
            self._evidence.held_from(connection, direction),
            framer.held_from if framer is not None else None,
        )
        return min((start for start in held if start is not None), default=None)

    @property
    def turned(self) -> frozenset[int]:
        """Connections whose chunks have another direction than their messages: the server's side
        was seen first.
        """
        return frozenset(self._evidence.reversed)

    @property
    def there(self) -> RowNumbers:
        """Numbers of the connections that have not left, whether they still run or not."""
        count = self.transport.count
        if count >= len(self._gone):
            self._gone = grown(self._gone, count + 1)
        return 1 + np.flatnonzero(~self._gone[1 : count + 1])

    def over(self, before_ns: int) -> tuple[RowNumbers, int]:
        """Returns connections that were closed and on which no byte comes any more, in the order in
        which they were closed.

        Also returns how many of them were closed before ``before_ns``.
        """
        there = self.there
        closed, is_over = self.transport.closed_at(there)
        over = there[is_over]
        order = np.argsort(closed[is_over], kind="stable")
        order = order[~self._evidence.are_unproven(over[order])]
        return over[order], int(np.searchsorted(closed[is_over][order], before_ns))

    def let_go(self, connections: Collection[int]) -> None:
        """Lets connections leave: nothing else of them is looked at. Their bytes still count."""
        numbers = [_number(connection, side) for connection in connections for side in (C2S, S2C)]
        for connection in connections:
            for names in (self._clients, self._servers):
                # a keeper of messages needs the names of their connections
                names.keep(connection - 1, wanted=self._keeper is not None)
            self._gone[connection] = True
            self._known_streams.pop(connection, None)
        for number in numbers:
            self._lost.pop(number, None)
            framer = self._framers.pop(number, None)
            if framer is not None:
                self._accounts.keep(number, framer.account)
        self._brief.forget(np.array(numbers, dtype=np.int64))
        self._accounts.leave(numbers)
        self._decoding.leave(connections)
        self.tls.leave(connections)
        self._proxies.leave(connections)
        self.transport.keep(self.there)

    def _listed(self, connections: RowNumbers) -> RowNumbers:
        """Returns these connections without those that said next to nothing, but the first."""
        if len(connections) <= MOST_SILENT:
            return connections
        says = np.isin(connections, list(self.tls.connections)) | self._decoding.speak(connections)
        for start in range(0, len(connections), _AT_ONCE):
            sizes = self._directions(connections[start : start + _AT_ONCE]).sizes
            is_more = (sizes.missing > 0) | (sizes.captured > FEW)
            says[start : start + _AT_ONCE] |= is_more.reshape(-1, 2).any(axis=1)
        silent = np.flatnonzero(~says)
        says[silent[:MOST_SILENT]] = True
        return connections[says]

    @property
    def _own_connections(self) -> RowNumbers:
        """Connections that have not left and carry the protocol, or may carry it."""
        there = self.there
        return there[~self._evidence.are_unproven(there)] if self._evidence.is_needed else there

    @property
    def unlisted(self) -> int:
        """Number of connections that carried no messages but noops, and little else, and are not
        among ``links``.
        """
        numbers = self._own_connections
        return len(numbers) - len(self._listed(numbers))

    @property
    def links(self) -> list[TcpConnection]:
        """The connections that have not left and carry the protocol, or may carry it: how they
        began and ended, and what is missing; by number.

        Of connections that said next to nothing the first ``MOST_SILENT`` are included: a scan or a
        flood has millions.
        """
        self._find_mismatches()
        listed = self._listed(self._own_connections)
        slices = (listed[start : start + _AT_ONCE] for start in range(0, len(listed), _AT_ONCE))
        return [link for numbers in slices for link in self._links_of(numbers)]

    def _links_of(self, numbers: RowNumbers) -> Iterator[TcpConnection]:
        turned, sizes = self._evidence.reversed, self._directions(numbers).sizes
        pairs = (
            column.reshape(-1, 2).tolist()
            for column in (
                *(sizes.holes, sizes.missing, sizes.skipped, sizes.not_decodable),
                *(sizes.unfinished, sizes.http),
            )
        )
        handshakes = self.transport.have_handshake(numbers).tolist()
        lives = self.transport.lifetimes_of(numbers)
        openings_seen = openings(self.transport.tables, numbers, self.transport.time_ns)
        for number, life, opening, has_handshake, *counts in zip(
            numbers.tolist(), lives, openings_seen, handshakes, *pairs, strict=True
        ):
            holes, missing, skipped, foreign, unfinished, http = counts
            is_turned = number in turned
            tls, header = self.tls.text(number), self._proxies.of.get(number)
            if tls is not None and life.closed == "fin":
                life = self._closed_in_tls(number, life)
            if is_turned and life.closed_by >= 0:
                life = replace(life, closed_by=life.closed_by ^ 1)
            size = header.size if header is not None else 0  # stream offsets count from behind it
            client_seq, server_seq = self.transport.first_seq(number)
            first_seq = (client_seq + size) & MASK if size else client_seq, server_seq
            acked, late_acks = self._acked(number, opening, size, is_tls=tls is not None)
            yield TcpConnection(
                number=number,
                client=self._endpoints.client[number - 1],
                server=self._endpoints.server[number - 1],
                networks=self.transport.networks_of(number),
                has_handshake=has_handshake,
                first_seq=(first_seq[C2S ^ is_turned], first_seq[S2C ^ is_turned]),
                last_file=life.closed_file,
                **{name: getattr(life, name) for name in Lifetime.__match_args__},
                holes=(holes[C2S], holes[S2C]),
                missing=(missing[C2S], missing[S2C]),
                skipped=(skipped[C2S] + foreign[C2S], skipped[S2C] + foreign[S2C]),
                not_decodable=sum(foreign),
                unfinished=(unfinished[C2S], unfinished[S2C]),
                is_http=any(http),
                lost_at_end=(
                    self._lost_behind(_number(number, C2S ^ is_turned)),
                    self._lost_behind(_number(number, S2C ^ is_turned)),
                ),
                tls=tls,
                is_decrypted=tls is not None and self.tls.connections[number].is_open,
                acked=(acked[C2S ^ is_turned], acked[S2C ^ is_turned]),
                proxied=None if header is None else header.client,
                unopened=opening.unopened,
                unreached=opening.unreached[:: -1 if is_turned else 1],
                syns=opening.syns,
                unproven=opening.unproven[:: -1 if is_turned else 1],
                unseen=opening.unseen ^ is_turned if opening.unseen >= 0 else -1,
                late_acks=late_acks[:: -1 if is_turned else 1],
                ends_unacked=opening.ends_unacked,
                shut=tuple(
                    None
                    if shut is None
                    else ZeroWindows(tuple(ZeroWindow(*spell) for spell in shut[0]), *shut[1:])
                    for shut in opening.shut[:: -1 if is_turned else 1]
                ),
            )

    def _acked(
        self, number: int, opening: Opening, before: int, *, is_tls: bool
    ) -> tuple[tuple[int, int], tuple[tuple[LateAck, ...], ...]]:
        """Returns up to where each direction was acknowledged, and what was acknowledged late.
        ``before``: size of what stands before the client's first byte.
        """
        client_acked, server_acked = acked_of(self.transport.tables, number)
        if not is_tls:
            late_acks = tuple(
                tuple(LateAck(start - shift, end - shift, *times) for start, end, *times in acks)
                for acks, shift in zip(opening.late_acks, (before, 0), strict=True)
            )
            return (max(0, client_acked - before), server_acked), late_acks
        # which record an offset is in is not remembered
        acked = client_acked - before, server_acked
        is_whole = [
            0 < acked[side] >= next_of(self.transport.tables, _number(number, side))
            for side in (C2S, S2C)
        ]
        late_acks = tuple(
            tuple(LateAck(0, NEVER, *times) for _, _, *times in acks) for acks in opening.late_acks
        )
        return (NEVER * is_whole[C2S], NEVER * is_whole[S2C]), late_acks

    def _closed_in_tls(self, number: int, life: Lifetime) -> Lifetime:
        """Returns how a connection ended, by the close_notify before its FIN if there is one."""
        closed = self.tls.connections[number].closed(life.closed_packet)
        if closed is None:
            return life
        direction, (packet, frame, file, time_ns) = closed
        return replace(
            life,
            closed_by=direction,
            closed_packet=packet,
            closed_frame=frame,
            closed_file=file,
            closed_ns=time_ns,
        )

    def _chunks_for_framing(
        self, packets: PacketBatch | None, chunks: Iterable[StreamChunk], *, is_last: bool = False
    ) -> Iterable[StreamChunk]:
        """Returns the chunks that framing sees; without a keeper there is only one at a time."""
        there = (
            chunk
            for chunk in self._after_first_bytes(chunks)
            if not self._has_left(chunk.connection)
        )
        chunks = self.tls.plain(self._proxies.strip(there), is_last=is_last)
        if self._keeper is not None:
            chunks = list(chunks)
            first_messages, self._for_keeper = self._for_keeper, []
            if packets is not None or chunks or first_messages:
                self._keeper.keep(packets, chunks, first_messages)
        return chunks

    def _take_first(self, first: FirstBytes) -> BoolArray | None:
        """Returns a mask of directions that say their first bytes and need no framer."""
        self._meet_connections()
        directions = first.directions
        connection = (directions.number >> 1) + 1
        has_handshake = self.transport.have_handshake(connection)
        framed = self._brief.feed(first, self._evidence.doubted(connection), has_handshake)
        if framed is None:
            return None
        is_taken, messages = framed
        lacking = directions.number[
            is_taken & (directions.length > 0) & (directions.is_start == 0) & has_handshake
        ]
        self._lost.update(dict.fromkeys(lacking.tolist(), (0, 0)))
        if self._keeper is not None:
            self._for_keeper.append(messages)
        if len(messages.connection):
            self._brief_messages.append(messages)
            self._begin(messages.connection)
        return is_taken

    def _after_first_bytes(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yields the chunks, each after what its connection said before it was left to framers."""
        for chunk in chunks:
            yield from self._left_to_framers(chunk.connection)
            yield chunk

    def _left_to_framers(self, connection: int) -> Iterator[StreamChunk]:
        for before in self._brief.leave(connection):
            if before.chunk is not None:
                yield before.chunk
                continue
            self.tls.plain_ones.add(connection)
            if before.messages:
                self._evidence.believe(connection)
            if before.may_ask:
                self._evidence.meet(connection, before.direction, before.release)
            known_streams = self._streams_of(connection, before.direction)
            if before.is_started:
                known_streams.begin(before.release)
            if before.may_ask:
                known_streams.doubt(before.release)
            known_streams.learn(before.shown.keys, before.shown.releases)
            if not before.is_ended:
                framer = Framer.resumed(
                    known_streams,
                    before.messages,
                    before.release,
                    is_producing=before.shown.has_events,
                )
                self._framers[_number(connection, before.direction)] = framer

    def _framed(self, chunks: Iterable[StreamChunk]) -> Iterator[DirectionMessages]:
        """Yields the messages that chunks complete."""
        for chunk in chunks:
            self._evidence.note(chunk)
            number = _number(chunk.connection, chunk.direction)
            framer = self._framer(chunk.connection, chunk.direction)
            if (
                chunk.offset == 0
                and not chunk.is_start
                and self._endpoints.has_handshake[chunk.connection - 1]
            ):
                self._lost[number] = 0, 0  # nobody knows how much came before
            yield from self._direction_messages(number, framer.feed(chunk))
            if chunk.is_end:
                self._accounts.keep(number, framer.account)
                del self._framers[number]
                if chunk.direction == S2C:
                    self._known_streams.pop(chunk.connection, None)

    def _read_header(self, connection: int, size: int) -> None:
        """Counts the bytes of a PROXY header as read."""
        self._framer(connection, C2S).account.messages += size
        self._endpoints.proxied[connection] = self._proxies.of[connection].client

    def _has_left(self, connection: int) -> bool:
        return connection < len(self._gone) and bool(self._gone[connection])

    def _settled(self, chunks: Iterable[StreamChunk], time_ns: int) -> Iterator[DirectionMessages]:
        """Yields the messages that chunks complete, then those of trials that waited enough."""
        yield from self._framed(chunks)
        for number in sorted(
            number for number, framer in self._framers.items() if framer.is_on_trial
        ):
            yield from self._direction_messages(number, self._framers[number].pass_time(time_ns))

    def _direction_messages(
        self, number: int, framed: Framed | None
    ) -> Iterator[DirectionMessages]:
        """Yields the messages of a direction, if there are any, with what was lost before them."""
        if framed is not None:
            lost = self._lost_before(number, framed)
            if len(framed.start):
                yield DirectionMessages(number // 2 + 1, number % 2, framed, lost)

    def _frames(self, parts: Iterable[DirectionMessages], *, is_last: bool = False) -> Frames:
        messages = list(self._believed(parts, final=is_last))
        begun = np.concatenate(self._begun) if self._begun else NO_NUMBERS
        first_messages, self._brief_messages, self._begun = self._brief_messages, [], []
        return Frames(
            messages, first_messages, begun, self.transport.have_handshake(begun), is_last
        )

    def _believed(
        self, messages: Iterable[DirectionMessages], *, final: bool
    ) -> Iterable[DirectionMessages]:
        messages = self._evidence.believed(messages, final=final)
        for index in (number - 1 for number in self._evidence.just_reversed):
            self._clients[index], self._servers[index] = self._servers[index], self._clients[index]
        return messages

    def _framer(self, connection: int, direction: int) -> Framer:
        framer = self._framers.get(_number(connection, direction))
        if framer is None:
            self._begin(np.array([connection]))
            streams = self._streams_of(connection, direction)
            framer = Framer(known_streams=streams, is_doubted=self._evidence.is_doubted(connection))
            self._framers[_number(connection, direction)] = framer
        return framer

    def _streams_of(self, connection: int, direction: int) -> KnownStreams:
        """Returns what helps a direction to find its way back after a hole."""
        client_streams = self._known_streams.get(connection)
        if client_streams is None:
            client_streams = self._known_streams[connection] = KnownStreams()
        return client_streams if direction == C2S else KnownStreams(client_streams)

    def _account(self, connection: int, direction: int) -> FramingAccount:
        """Returns what became of the bytes of a direction so far."""
        number = _number(connection, direction)
        framer = self._framers.get(number)
        return framer.account if framer is not None else self._accounts.get(number)

    def _begins(self, connection: int, direction: int) -> bool:
        """Returns whether the first byte of a direction was captured."""
        return (
            self.transport.has_start(connection, direction)
            and self._account(connection, direction).first_hole != 0
        )

    def _sizes(self, numbers: RowNumbers) -> FramingSizes:
        """Returns what became of the bytes of these directions so far."""
        for number, framer in self._framers.items():
            self._accounts.keep(number, framer.account)
        return self._accounts.sizes(numbers)

    def _meet_connections(self) -> None:
        handshakes = self._endpoints.has_handshake
        if len(handshakes) == self.transport.count:
            return
        clients, servers = (
            np.isin(self.transport.ports(len(handshakes), side), self._ports) for side in (0, 1)
        )
        is_begun = self.transport.handshakes(len(handshakes))
        # where both ports are a server's, and no SYN tells, what they say tells who is the client
        is_doubted = ~servers | (clients & ~is_begun)
        self._evidence.doubt(len(handshakes) + 1 + np.flatnonzero(is_doubted))
        handshakes += is_begun.tobytes()

    def _address(self, side: int, index: int) -> str:
        """Returns the address of a connection's client, side 0, or server, side 1; empty if the
        connection has left.
        """
        return "" if self._has_left(index + 1) else self.transport.end(index + 1, side)

    def _begin(self, connections: RowNumbers) -> None:
        """Notes that bytes of connections have come: from now on it is certain whether their
        handshakes were captured.
        """
        has_handshake = self.transport.have_handshake(connections)
        np.frombuffer(self._endpoints.has_handshake, np.bool_)[connections - 1] = has_handshake
        self._begun.append(connections)
        self._evidence.orient(connections[has_handshake])

    def _lost_before(self, number: int, framed: Framed) -> list[tuple[int, tuple[int, int]]]:
        """Returns ``lost`` of the messages of a framed run; bytes lost behind the last wait for the next one."""
        spans: dict[int, tuple[int, int]] = {}
        before = self._lost_behind(number)
        if before is not None:
            spans[0] = before
        next_one = np.searchsorted(framed.stream_offset, framed.skipped_end).tolist()
        for row, start, end in zip(
            next_one, framed.skipped_start.tolist(), framed.skipped_end.tolist(), strict=True
        ):
            spans[row] = (spans[row][0] if row in spans else start, end)
        self._lost.pop(number, None)
        if (behind := spans.pop(len(framed.start), None)) is not None:
            self._lost[number] = behind
        return sorted(spans.items())

    def _lost_behind(self, number: int) -> tuple[int, int] | None:
        """Returns the stream offsets between which bytes behind the latest message of a direction
        could not be read; None for none.
        """
        strange = self._accounts.strange(number) or self.tls.unread(number // 2 + 1, number % 2)
        return (0, strange) if strange else self._lost.get(number)


def _first_header(data: ByteArray, is_start: bool) -> int:
    """Returns the number of bytes that show that one of them may begin a message; 0: none may."""
    if is_start and len(data) and MAGICS[data[0]]:
        return 1
    starts, _, _ = plausible_headers(data, default_legal_extras)
    return int(starts[0]) + HEADER if len(starts) else 0


def _number(connection: int, direction: int) -> int:
    return 2 * (connection - 1) + direction
