"""The second half of the engine: what was framed becomes rows of messages, with what earlier
messages of their connection tell of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, grown
from dcpinspect.protocol.column_types import HoleRanges, NumberColumn, RowNumbers
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.first_bytes import BriefMessages
from dcpinspect.protocol.framed import Framed, joined
from dcpinspect.protocol.framing_evidence import DirectionMessages
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.session import Sessions
from dcpinspect.reading.numbering import Numbering
from dcpinspect.streams.collection_naming import NameTeller
from dcpinspect.streams.requests import SILENT, WAITING, Origins, RequestOfMessage, Requests
from dcpinspect.tables.losses import NO_LOSSES, Losses
from dcpinspect.tables.messages import Endpoints, MessageBatch, MissingBytes
from dcpinspect.transport.chunk import C2S

_AT_END = np.iinfo(np.int64).max
"""The release of messages that only the end of the input released: after every packet."""
_IDLE = np.isin(np.arange(256), (Opcode.NOOP, Opcode.DCP_NOOP))


class Frames(NamedTuple):
    """What was framed, and has not been decoded yet."""

    parts: list[DirectionMessages]
    briefs: list[BriefMessages]
    begun: RowNumbers
    """Connections on which a direction has begun to say something."""
    has_handshake: BoolArray
    """Whether the handshake of each of these connections was captured."""
    is_last: bool


def frames_joined(held: Sequence[Frames]) -> Frames:
    """Returns what was framed of packets that followed each other, none of them the last."""
    if len(held) == 1:
        return held[0]
    # a connection may begin once in each direction
    begun, first = np.unique(np.concatenate([frames.begun for frames in held]), return_index=True)
    return Frames(
        [part for frames in held for part in frames.parts],
        [brief for frames in held for brief in frames.briefs],
        begun,
        np.concatenate([frames.has_handshake for frames in held])[first],
        is_last=False,
    )


class Decoding:
    """What messages mean that depends on earlier ones: features, requests that wait for an answer,
    names. It carries this from batch to batch.
    """

    def __init__(self, files: Sequence[str], endpoints: Endpoints, numbering: Numbering) -> None:
        self._files, self._endpoints, self._numbering = files, endpoints, numbering
        self._sessions = Sessions()
        self._requests = Requests()
        self._namer = NameTeller()
        self._waiting_keys: dict[int, bytes] = {}
        # connections with other messages than noops, by number
        self._speaks = np.zeros(64, dtype=np.bool_)

    def decode(self, frames: Frames, origin_ns: int) -> MessageBatch | None:
        """Returns the messages of what was framed, in row order; None if there are none. Call this
        once for everything that was framed, in order.

        ``origin_ns``: capture time of the first packet of the reading.
        """
        self._sessions.begin(frames.begun, frames.has_handshake)
        self._requests.begin(frames.begun, frames.has_handshake)
        if frames.parts or frames.briefs:
            return self._messages(frames.parts, frames.briefs, origin_ns, at_end=frames.is_last)
        return None

    def leave(self, connections: Collection[int]) -> None:
        """Drops what waits of connections on which nothing comes any more."""
        self._requests.leave(connections)

    def speak(self, connections: RowNumbers) -> BoolArray:
        """Returns whether other messages than noops have come of these connections, which rise."""
        return grown(self._speaks, int(connections[-1]) + 1)[connections]

    def _messages(
        self,
        framed_parts: Sequence[DirectionMessages],
        briefs: Sequence[BriefMessages],
        origin_ns: int,
        *,
        at_end: bool,
    ) -> MessageBatch:
        framed = joined(
            [*(messages.framed for messages in framed_parts), *(brief.framed for brief in briefs)]
        )
        connections, directions = _ways(framed_parts, briefs)
        release = np.full(len(connections), _AT_END) if at_end else framed.release
        order = np.lexsort((framed.stream_offset, directions, connections, release))
        _take_turns(order, _losses(framed_parts, order), release, connections, directions, framed)
        connections, directions = connections[order], directions[order]
        start, length, stream_offset, time_ns = (
            np.ascontiguousarray(column[order])
            for column in (framed.start, framed.length, framed.stream_offset, framed.time_ns)
        )
        missing = _missing(framed, order)
        incomplete = np.zeros(len(order), dtype=np.bool_)
        incomplete[missing.row] = True
        losses = _losses(framed_parts, order)
        after_loss = np.zeros(len(order), dtype=np.bool_)
        after_loss[losses.before] = True
        holes = HoleRanges.from_ranges(
            start[missing.row] + missing.start, start[missing.row] + missing.end
        )
        decoded = Decoded(
            framed.data, start, connections, incomplete, self._sessions, after_loss, holes
        )
        row = self._numbering.rows(release[order], connections, at_end=at_end)
        pairs = self._requests.pair(
            decoded, Origins(connections, directions, stream_offset, time_ns), row, after_loss
        )
        vbucket, from_request = _vbuckets(decoded, pairs)
        batch = MessageBatch(
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
            connection=connections,
            direction=directions,
            stream_offset=stream_offset,
            heuristic=framed.heuristic[order],
            missing=missing,
            decoded=decoded,
            vbucket=vbucket,
            vbucket_from_request=from_request,
            request_row=pairs.row,
            request_stream_offset=pairs.stream_offset,
            rtt_ns=pairs.rtt_ns,
            losses=losses,
            origin_ns=origin_ns,
            names=self._namer.names,
        )
        self._remember_keys(batch)
        self._namer.feed(batch)
        self._note_speaking(decoded, connections, incomplete | after_loss)
        return batch

    def _note_speaking(
        self, decoded: Decoded, connections: RowNumbers, has_doubt: BoolArray
    ) -> None:
        """Notes which connections carry more than noops. ``has_doubt``: a mask of messages that may
        be none.
        """
        is_idle = _IDLE[decoded.opcode] & decoded.fits & (decoded.problem == 0) & ~decoded.is_server
        speaks = connections[~is_idle | has_doubt]
        if len(speaks) and (most := int(speaks.max())) >= len(self._speaks):
            self._speaks = grown(self._speaks, most + 1)
        self._speaks[speaks] = True

    def _remember_keys(self, batch: MessageBatch) -> None:
        """Gives the batch the keys of earlier requests that it answers, and keeps the keys of
        requests that still wait at its end.
        """
        request_rows = batch.request_row
        answered = request_rows.values[request_rows.is_known].astype(np.int64)
        earlier = answered[answered < batch.row[0]].tolist()
        batch.earlier_keys = {
            row: self._waiting_keys[row]
            for row in dict.fromkeys(earlier)
            if row in self._waiting_keys
        }
        may_wait = (
            batch.decoded.is_request & (batch.decoded.key.size > 0) & ~SILENT[batch.decoded.opcode]
        )
        waiting = np.flatnonzero(may_wait)
        if not len(waiting):
            return
        is_done = np.isin(batch.row[waiting], answered) & (
            batch.decoded.opcode[waiting] != Opcode.STAT
        )  # which has several answers
        waiting = waiting[~is_done][-WAITING:]
        for index in waiting.tolist():
            key = batch.key_of(index)
            if key is not None:
                self._waiting_keys[int(batch.row[index])] = key
        for row in list(self._waiting_keys)[: max(0, len(self._waiting_keys) - WAITING)]:
            del self._waiting_keys[row]


def _ways(
    framed_parts: Sequence[DirectionMessages], briefs: Sequence[BriefMessages]
) -> tuple[RowNumbers, RowNumbers]:
    """Returns the connection and the direction of each message."""
    counts = [len(framed_part.framed.start) for framed_part in framed_parts]
    ways = np.array(
        [(framed_part.connection, framed_part.direction) for framed_part in framed_parts],
        dtype=np.int64,
    ).reshape(-1, 2)
    connections, directions = np.repeat(ways, counts, axis=0).T
    return np.concatenate([connections, *(brief.connection for brief in briefs)]), np.concatenate(
        [directions, *(brief.direction for brief in briefs)]
    )


def _take_turns(
    order: RowNumbers,
    losses: Losses,
    release: IntArray,
    connections: RowNumbers,
    directions: RowNumbers,
    framed: Framed,
) -> None:
    """Puts messages of both directions of a connection in order of time, in ``order``, where one
    packet released them behind a loss, or the end did: then they waited for nothing that came, and
    whole requests and answers are among them.
    """
    if not len(losses.before):
        return
    owner = np.stack((release[order], connections[order]))
    begins = np.append(np.flatnonzero((np.diff(owner, prepend=-1) != 0).any(axis=0)), len(order))
    for index in np.unique(np.searchsorted(begins, losses.before, "right") - 1).tolist():
        rows = order[begins[index] : begins[index + 1]]
        both = np.split(framed.time_ns[rows], [np.count_nonzero(directions[rows] == C2S)])
        times = np.concatenate([np.maximum.accumulate(times_ns) for times_ns in both])
        rows[:] = rows[np.argsort(times, kind="stable")]


def _losses(framed_parts: Sequence[DirectionMessages], order: RowNumbers) -> Losses:
    """Returns the losses before rows; ``order``: the rows' places before they were sorted."""
    lost: list[tuple[int, int, int, int, int]] = []
    begin = 0
    for framed_part in framed_parts:
        lost += [
            (begin + row, framed_part.connection, framed_part.direction, *span)
            for row, span in framed_part.lost
        ]
        begin += len(framed_part.framed.start)
    if not lost:
        return NO_LOSSES
    table = np.array(lost, dtype=np.int64)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    table[:, 0] = position[table[:, 0]]
    return Losses(*np.ascontiguousarray(table[np.argsort(table[:, 0])].T))


def _vbuckets(decoded: Decoded, pairs: RequestOfMessage) -> tuple[NumberColumn, BoolArray]:
    """Returns the vbucket of each message: a request has its own, a response that of its request,
    messages of the server's own table none.
    """
    has_own = ~decoded.is_response & ~decoded.is_server
    answered = decoded.is_response & ~decoded.is_server & (pairs.vbucket.values >= 0)
    values = np.where(
        has_own, decoded.specific, np.where(answered, pairs.vbucket.values, 0).astype(np.uint64)
    )
    return NumberColumn(values, has_own | answered), answered


def _missing(framed: Framed, order: RowNumbers) -> MissingBytes:
    """Returns the missing ranges by row of the sorted messages."""
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    row = position[framed.missing_row]
    by_row = np.lexsort((framed.missing_start, row))
    return MissingBytes(row[by_row], framed.missing_start[by_row], framed.missing_end[by_row])
