"""Batches of messages made to order, the way the engine makes them, without packets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dcpinspect.protocol.column_types import HoleRanges, NumberColumn
from dcpinspect.protocol.decode import Decoded
from dcpinspect.protocol.session import Sessions
from dcpinspect.streams.requests import Origins, Requests
from dcpinspect.tables.messages import Endpoints, MessageBatch, MissingBytes

START_NS = 1_712_381_677_411_000_123
STEP_NS = 1_000_000
CLIENT, SERVER = "10.0.0.9:50312", "10.0.0.7:11210"


def batch(
    *messages: bytes,
    handshake: bool = True,
    connections: Sequence[int] = (),
    missing: dict[int, Sequence[tuple[int, int]]] | None = None,
    heuristic: Sequence[int] = (),
    time_ns: Sequence[int] = (),
    files: Sequence[str] = ("rebalance.pcapng",),
) -> MessageBatch:
    """Messages a millisecond apart; requests go from client to server and responses back.

    ``missing`` and ``heuristic`` count messages from 0.
    """
    count = len(messages)
    index = np.arange(count, dtype=np.int64)
    length = np.array([len(message) for message in messages], dtype=np.int64)
    start = np.cumsum(length) - length
    connection = np.array(connections or [1] * count, dtype=np.int64)
    holes = sorted(
        (row, low, high) for row, spans in (missing or {}).items() for low, high in spans
    )
    columns = np.array(holes, dtype=np.int64).reshape(-1, 3)
    incomplete = np.zeros(count, dtype=np.bool_)
    incomplete[columns[:, 0]] = True
    data = np.frombuffer(bytearray(b"".join(messages)), np.uint8)
    ranges = HoleRanges.from_ranges(
        start[columns[:, 0]] + columns[:, 1], start[columns[:, 0]] + columns[:, 2]
    )
    for low, high in zip(ranges.start.tolist(), ranges.end.tolist(), strict=True):
        data[low:high] = 0
    sessions = Sessions()
    sessions.begin(connection, np.full(len(connection), handshake))
    decoded = Decoded(data, start, connection, incomplete, sessions, holes=ranges)
    direction = decoded.is_response.astype(np.int64)
    times = np.array(time_ns, dtype=np.int64) if len(time_ns) else START_NS + STEP_NS * index
    pairs = Requests().pair(
        decoded,
        Origins(connection, direction, start, times),
        index + 1,
        np.zeros(count, dtype=np.bool_),
    )
    own = ~decoded.is_response & ~decoded.is_server
    from_request = decoded.is_response & (pairs.vbucket.values >= 0)
    tried = np.zeros(count, dtype=np.bool_)
    tried[list(heuristic)] = True
    return MessageBatch(
        files=files,
        endpoints=Endpoints(
            [CLIENT] * int(connection.max(initial=1)), [SERVER] * int(connection.max(initial=1))
        ),
        data=data,
        start=start,
        length=length,
        row=index + 1,
        file=np.zeros(count, dtype=np.int64),
        frame=index + 10,
        last_file=np.zeros(count, dtype=np.int64),
        last_frame=index + 10,
        time_ns=times,
        connection=connection,
        direction=direction,
        stream_offset=start,
        heuristic=tried,
        missing=MissingBytes(columns[:, 0], columns[:, 1], columns[:, 2]),
        decoded=decoded,
        vbucket=NumberColumn(
            np.where(own, decoded.specific, np.maximum(pairs.vbucket.values, 0).astype(np.uint64)),
            own | from_request,
        ),
        vbucket_from_request=from_request,
        request_row=pairs.row,
        request_stream_offset=pairs.stream_offset,
        rtt_ns=pairs.rtt_ns,
    )
