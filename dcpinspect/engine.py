"""The one path of every byte: packets in, messages out.

A file, a pipe, a live interface and a Spark task all call ``feed`` with batches of packets of any size
and ``finish`` once. What a connection needs from batch to batch stays here; rows do not depend on how
the packets were divided into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.coverage import Coverage, coverage
from dcpinspect.protocol.columns import Mask, Numbers, Rows
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.evidence import Evidence, Part
from dcpinspect.protocol.framing import Framed, Framer
from dcpinspect.protocol.resync import KnownStreams
from dcpinspect.protocol.session import Sessions
from dcpinspect.streams.links import Link
from dcpinspect.streams.requests import Pairs, Requests
from dcpinspect.tables.losses import NO_LOSSES, Losses
from dcpinspect.tables.messages import Endpoints, MessageBatch, Missing
from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.connections import DEFAULT_PORTS
from dcpinspect.transport.reassembly import Reassembler

_AT_END = np.iinfo(np.int64).max
"""Release of what only the end of the input released: after every packet."""


class Keeper(Protocol):
    """Who wants to come back to the bytes of messages."""

    def keep(self, packets: PacketBatch | None, chunks: Sequence[StreamChunk]) -> None:
        """What ``packets`` added to the streams, before the messages that it completed; with places.

        None: nothing but time that passed, or the end of the input.
        """


class Engine:
    """State of one reading."""

    def __init__(
        self, files: Sequence[str], *, ports: tuple[int, ...] = DEFAULT_PORTS, find_ports: bool = False, keeper: Keeper | None = None
    ) -> None:
        """``find_ports``: look at connections of all other ports too, and believe those that prove to carry the protocol."""
        self.transport = Reassembler(ports, every_port=find_ports, with_places=keeper is not None)
        self._keeper = keeper
        self._ports = ports
        self._evidence = Evidence()
        self._files = files
        self._framers: dict[tuple[int, int], Framer] = {}
        self._endpoints = Endpoints([], [])
        self._sessions = Sessions()
        self._requests = Requests()
        self._lost: dict[tuple[int, int], tuple[int, int]] = {}
        self._rows = 0

    def feed(self, packets: PacketBatch) -> MessageBatch | None:
        """The messages that these packets completed, in row order; None when there are none."""
        chunks = self.transport.feed(packets)
        if self._keeper is not None:
            self._keeper.keep(packets, chunks)
        self._meet_connections()
        return self._messages(self._believed([self._framed(chunk) for chunk in chunks]))

    def pass_time(self, time_ns: int) -> MessageBatch | None:
        """What is waited for no longer, now that capture time is ``time_ns``: live, where no packet may say so for a long time.

        What comes out depends on when this is called, so readings of files do without.
        """
        chunks = self.transport.pass_time(time_ns)
        if self._keeper is not None and chunks:
            self._keeper.keep(None, chunks)
        parts = [self._framed(chunk) for chunk in chunks]
        waiting = sorted(key for key, framer in self._framers.items() if framer.is_on_trial)
        parts += [(*key, self._framers[key].pass_time(time_ns)) for key in waiting]
        return self._messages(self._believed(parts))

    def finish(self) -> MessageBatch | None:
        """What the end of the input releases."""
        chunks = self.transport.finish()
        if self._keeper is not None:
            self._keeper.keep(None, chunks)
        self._meet_connections()
        parts = [self._framed(chunk) for chunk in chunks]
        parts += [(connection, direction, framer.finish()) for (connection, direction), framer in sorted(self._framers.items())]
        return self._messages(self._believed(parts, final=True), at_end=True)

    @property
    def coverage(self) -> Coverage:
        """What became of the packets and bytes so far; the sums hold once the reading has finished."""
        endpoints = list(zip(self._endpoints.client, self._endpoints.server, strict=True))
        return coverage(self.transport, endpoints, {key: framer.account for key, framer in self._framers.items()}, self._evidence)

    def is_told(self, connection: int, direction: int, end: int) -> bool:
        """Whether no message that comes has any of the bytes before stream offset ``end`` of those fed; directions are those of chunks."""
        framer = self._framers.get((connection, direction))
        held = (self._evidence.held_from(connection, direction), framer.held_from if framer is not None else None)
        return all(start is None or end <= start for start in held)

    @property
    def turned(self) -> frozenset[int]:
        """Connections whose chunks have the other direction than their messages: the server's side was seen first."""
        return self._evidence.reversed if self._evidence.is_needed else frozenset()

    @property
    def links(self) -> list[Link]:
        """The connections that carry the protocol, or may: how they began and ended, and what is missing of them; by number."""
        others, turned = self._evidence.others, self._evidence.reversed
        of_direction = {(one.connection, one.direction): one for one in self.coverage.directions}
        found = []
        for connection, life in zip(self.transport.connections, self.transport.lifetimes, strict=True):
            number = connection.number
            if number in others:
                continue
            c2s, s2c = of_direction[number, C2S], of_direction[number, S2C]
            found.append(
                Link(
                    number=number,
                    client=self._endpoints.client[number - 1],
                    server=self._endpoints.server[number - 1],
                    has_handshake=connection.starts == "handshake",
                    first_file=life.first_file,
                    first_ns=life.first_ns,
                    last_ns=life.last_ns,
                    closed=life.closed,
                    closed_by=life.closed_by ^ (number in turned) if life.closed_by >= 0 else -1,
                    closed_ns=life.closed_ns,
                    closed_packet=life.closed_packet,
                    closed_frame=life.closed_frame,
                    closed_file=life.closed_file,
                    holes=(c2s.holes, s2c.holes),
                    missing=(c2s.missing, s2c.missing),
                    skipped=(sum(c2s.skipped.values()) + c2s.not_decodable, sum(s2c.skipped.values()) + s2c.not_decodable),
                    lost_at_end=(self._lost.get((number, C2S)), self._lost.get((number, S2C))),
                )
            )
        return found

    def _framed(self, chunk: StreamChunk) -> Part:
        self._evidence.note(chunk)
        if chunk.offset == 0 and not chunk.is_start and self._endpoints.has_handshake[chunk.connection - 1]:
            self._lost[chunk.connection, chunk.direction] = (0, 0)  # how much came before nobody knows
        return chunk.connection, chunk.direction, self._framer(chunk).feed(chunk)

    def _believed(self, parts: Sequence[Part], *, final: bool = False) -> Sequence[Part]:
        if not self._evidence.is_needed:
            return parts
        before = self._evidence.reversed
        parts = self._evidence.believed(parts, final=final)
        ends = self._endpoints
        for index in (number - 1 for number in self._evidence.reversed - before):
            ends.client[index], ends.server[index] = ends.server[index], ends.client[index]
        return parts

    def _framer(self, chunk: StreamChunk) -> Framer:
        key = (chunk.connection, chunk.direction)
        if key not in self._framers:
            client = KnownStreams()  # what it asks for helps the server's direction to find its way back after a hole
            is_doubted = self._evidence.is_doubted(chunk.connection)
            for direction, known in ((C2S, client), (S2C, KnownStreams(client=client))):
                self._framers[chunk.connection, direction] = Framer(known=known, is_doubted=is_doubted)
        return self._framers[key]

    def _meet_connections(self) -> None:
        for connection in self.transport.connections[len(self._endpoints.client) :]:
            self._endpoints.client.append(connection.client)
            self._endpoints.server.append(connection.server)
            has_handshake = connection.starts == "handshake"
            self._endpoints.has_handshake.append(has_handshake)
            self._sessions.begin(connection.number, handshake=has_handshake)
            if connection.server_port not in self._ports:
                self._evidence.doubt(connection.number, is_oriented=has_handshake)

    def _messages(self, parts: Sequence[tuple[int, int, Framed | None]], *, at_end: bool = False) -> MessageBatch | None:
        found: list[tuple[int, int, Framed]] = []
        lost: list[tuple[int, int, int, int, int]] = []
        rows = 0
        for connection, direction, framed in parts:
            if framed is not None:
                lost += [(rows + row, connection, direction, *span) for row, span in self._lost_before(connection, direction, framed)]
                if len(framed.start):
                    found.append((connection, direction, framed))
                    rows += len(framed.start)
        if not found:
            return None
        joined = _joined([part for _, _, part in found])
        connections = np.concatenate([np.full(len(part.start), number, dtype=np.int64) for number, _, part in found])
        directions = np.concatenate([np.full(len(part.start), side, dtype=np.int64) for _, side, part in found])
        release = np.full(len(connections), _AT_END) if at_end else joined.release
        order = np.lexsort((joined.stream_offset, directions, connections, release))
        connections, directions = connections[order], directions[order]
        start, length, stream_offset, time_ns = (
            np.ascontiguousarray(column[order]) for column in (joined.start, joined.length, joined.stream_offset, joined.time_ns)
        )
        missing = _missing(joined, order)
        incomplete = np.zeros(len(order), dtype=np.bool_)
        incomplete[missing.row] = True
        losses = _losses(lost, order)
        after_loss = np.zeros(len(order), dtype=np.bool_)
        after_loss[losses.before] = True
        decoded = Decoded(joined.data, start, connections, incomplete, self._sessions, after_loss)
        row = np.arange(self._rows + 1, self._rows + 1 + len(order), dtype=np.int64)
        self._rows += len(order)
        pairs = self._requests.pair(decoded, connections, directions, row, stream_offset, time_ns, after_loss)
        vbucket, from_request = _vbuckets(decoded, pairs)
        return MessageBatch(
            files=self._files,
            endpoints=self._endpoints,
            data=joined.data,
            start=start,
            length=length,
            row=row,
            file=joined.file[order],
            frame=joined.frame[order],
            last_file=joined.last_file[order],
            last_frame=joined.last_frame[order],
            time_ns=time_ns,
            connection=connections,
            direction=directions,
            stream_offset=stream_offset,
            heuristic=joined.heuristic[order],
            missing=missing,
            decoded=decoded,
            vbucket=vbucket,
            vbucket_from_request=from_request,
            request_row=pairs.row,
            request_stream_offset=pairs.stream_offset,
            rtt_ns=pairs.rtt_ns,
            losses=losses,
        )

    def _lost_before(self, connection: int, direction: int, framed: Framed) -> list[tuple[int, tuple[int, int]]]:
        """(message, bytes) where bytes before a message could not be read; those behind the last one wait for the next that comes."""
        spans: dict[int, tuple[int, int]] = {}
        if (connection, direction) in self._lost:
            spans[0] = self._lost.pop((connection, direction))
        next_one = np.searchsorted(framed.stream_offset, framed.skipped_end).tolist()
        for row, start, end in zip(next_one, framed.skipped_start.tolist(), framed.skipped_end.tolist(), strict=True):
            spans[row] = (spans[row][0] if row in spans else start, end)
        if len(framed.start) in spans:
            self._lost[connection, direction] = spans.pop(len(framed.start))
        return sorted(spans.items())


def _losses(lost: list[tuple[int, int, int, int, int]], order: Rows) -> Losses:
    """Losses before rows that have not been sorted yet."""
    if not lost:
        return NO_LOSSES
    table = np.array(lost, dtype=np.int64)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    table[:, 0] = place[table[:, 0]]
    return Losses(*np.ascontiguousarray(table[np.argsort(table[:, 0])].T))


def _joined(parts: Sequence[Framed]) -> Framed:
    """Messages of several directions over one buffer."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.array([len(part.data) for part in parts], dtype=np.int64)
    counts = np.array([len(part.start) for part in parts], dtype=np.int64)
    bases, rows = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts

    return Framed(
        data=np.concatenate([part.data for part in parts]),
        start=np.concatenate([part.start + base for part, base in zip(parts, bases, strict=True)]),
        length=np.concatenate([part.length for part in parts]),
        stream_offset=np.concatenate([part.stream_offset for part in parts]),
        frame=np.concatenate([part.frame for part in parts]),
        last_frame=np.concatenate([part.last_frame for part in parts]),
        file=np.concatenate([part.file for part in parts]),
        last_file=np.concatenate([part.last_file for part in parts]),
        time_ns=np.concatenate([part.time_ns for part in parts]),
        release=np.concatenate([part.release for part in parts]),
        heuristic=np.concatenate([part.heuristic for part in parts]),
        missing_row=np.concatenate([part.missing_row + first for part, first in zip(parts, rows, strict=True)]),
        missing_start=np.concatenate([part.missing_start for part in parts]),
        missing_end=np.concatenate([part.missing_end for part in parts]),
    )


def _vbuckets(decoded: Decoded, pairs: Pairs) -> tuple[Numbers, Mask]:
    """The vbucket of each message: a request's own, a response's from its request, none of the server's own table."""
    own = ~decoded.is_response & ~decoded.is_server
    answered = decoded.is_response & ~decoded.is_server & (pairs.vbucket.values >= 0)
    values = np.where(own, decoded.specific, np.where(answered, pairs.vbucket.values, 0).astype(np.uint64))
    return Numbers(values, own | answered), answered


def _missing(framed: Framed, order: Rows) -> Missing:
    """The missing ranges by row of the sorted messages."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    row = place[framed.missing_row]
    by_row = np.lexsort((framed.missing_start, row))
    return Missing(row[by_row], framed.missing_start[by_row], framed.missing_end[by_row])
