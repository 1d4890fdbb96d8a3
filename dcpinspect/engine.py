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
from dcpinspect.streams.requests import Pairs, Requests
from dcpinspect.tables.messages import Endpoints, MessageBatch, Missing
from dcpinspect.transport.chunk import C2S, S2C, StreamChunk
from dcpinspect.transport.connections import DEFAULT_PORTS
from dcpinspect.transport.reassembly import Reassembler

_AT_END = np.iinfo(np.int64).max
"""Release of what only the end of the input released: after every packet."""


class Keeper(Protocol):
    """Who wants to come back to the bytes of messages."""

    def keep(self, packets: PacketBatch | None, chunks: Sequence[StreamChunk]) -> None:
        """What ``packets`` (None: the end of the input) added to the streams, before the messages that it completed; with places."""


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
        self._gaps: set[tuple[int, int]] = set()
        self._rows = 0

    def feed(self, packets: PacketBatch) -> MessageBatch | None:
        """The messages that these packets completed, in row order; None when there are none."""
        chunks = self.transport.feed(packets)
        if self._keeper is not None:
            self._keeper.keep(packets, chunks)
        self._meet_connections()
        return self._messages(self._believed([self._framed(chunk) for chunk in chunks]))

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

    @property
    def turned(self) -> frozenset[int]:
        """Connections whose chunks have the other direction than their messages: the server's side was seen first."""
        return self._evidence.reversed if self._evidence.is_needed else frozenset()

    def _framed(self, chunk: StreamChunk) -> Part:
        self._evidence.note(chunk)
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
            self._sessions.begin(connection.number, handshake=has_handshake)
            if connection.server_port not in self._ports:
                self._evidence.doubt(connection.number, is_oriented=has_handshake)

    def _messages(self, parts: Sequence[tuple[int, int, Framed | None]], *, at_end: bool = False) -> MessageBatch | None:
        gaps = [self._after_gap(connection, direction, framed) for connection, direction, framed in parts if framed is not None]
        found = [(connection, direction, framed) for connection, direction, framed in parts if framed is not None and len(framed.start)]
        if not found:
            return None
        framed = _joined([part for _, _, part in found])
        connection = np.concatenate([np.full(len(part.start), number, dtype=np.int64) for number, _, part in found])
        direction = np.concatenate([np.full(len(part.start), side, dtype=np.int64) for _, side, part in found])
        release = np.full(len(connection), _AT_END) if at_end else framed.release
        order = np.lexsort((framed.stream_offset, direction, connection, release))
        connection, direction = connection[order], direction[order]
        start, length, stream_offset, time_ns = (
            np.ascontiguousarray(column[order]) for column in (framed.start, framed.length, framed.stream_offset, framed.time_ns)
        )
        missing = _missing(framed, order)
        incomplete = np.zeros(len(order), dtype=np.bool_)
        incomplete[missing.row] = True
        decoded = Decoded(framed.data, start, connection, incomplete, self._sessions, np.concatenate(gaps)[order])
        row = np.arange(self._rows + 1, self._rows + 1 + len(order), dtype=np.int64)
        self._rows += len(order)
        pairs = self._requests.pair(decoded, connection, direction, row, stream_offset, time_ns)
        vbucket, from_request = _vbuckets(decoded, pairs)
        return MessageBatch(
            files=self._files,
            endpoints=self._endpoints,
            data=framed.data,
            start=start,
            length=length,
            row=row,
            file=framed.file[order],
            frame=framed.frame[order],
            last_file=framed.last_file[order],
            last_frame=framed.last_frame[order],
            time_ns=time_ns,
            connection=connection,
            direction=direction,
            stream_offset=stream_offset,
            heuristic=framed.heuristic[order],
            missing=missing,
            decoded=decoded,
            vbucket=vbucket,
            vbucket_from_request=from_request,
            request_row=pairs.row,
            request_stream_offset=pairs.stream_offset,
            rtt_ns=pairs.rtt_ns,
        )

    def _after_gap(self, connection: int, direction: int, framed: Framed) -> Mask:
        """The messages before which bytes were skipped; what is skipped behind the last one counts for the next that comes."""
        after = np.zeros(len(framed.start), dtype=np.bool_)
        next_one = np.searchsorted(framed.stream_offset, framed.skipped_end)
        if (connection, direction) in self._gaps and len(after):
            after[0] = True
            self._gaps.discard((connection, direction))
        after[next_one[next_one < len(after)]] = True
        if (next_one == len(after)).any():
            self._gaps.add((connection, direction))
        return after


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
