"""The table of connections: who they connect, what they negotiated, and the verdict of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams import words as w
from dcpinspect.streams.gaps_between_streams import Client
from dcpinspect.streams.records import ConnectionRow, ConnectionRows, Streams
from dcpinspect.streams.session import Session, consumer_name_of
from dcpinspect.streams.state import KnownTables
from dcpinspect.streams.table_columns import CONNECTIONS
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.streams.verdicts import PATIENCE_NS, are_unopened
from dcpinspect.streams.visibility import Visibility
from dcpinspect.tables.record_tables import Records

NOOP_NS = 5_000_000_000
"""A consumer that has not answered a noop after this time will not answer it."""
_RUNNING = tuple(
    w.STREAM_VERDICTS.index(verdict) for verdict in ("stalled", "backfilling", "advancing")
)
"""Verdicts of streams on which messages come."""


@dataclass(frozen=True, slots=True)
class FlowControl:
    """Flow control of a connection, at the end of what was read."""

    window: int | None
    counted: int
    acked: int
    outstanding: int | None
    """Bytes that wait for an acknowledgement; None where the window is not known, or something was
    lost since it was set.
    """

    @property
    def is_full(self) -> bool:
        """Whether the producer has to wait for an acknowledgement."""
        return (
            self.outstanding is not None
            and bool(self.window)
            and self.outstanding >= (self.window or 0)
        )


def flow_of(
    row: ConnectionRow, link: TcpConnection, session: Session, sight: Visibility
) -> FlowControl:
    """Returns the flow control of a connection; ``row``: the connection in the kernel's table."""
    window, counted, acked = row.window, row.counted, row.acked
    is_read = link.lost_at_end == (None, None)
    consumer = sight.consumer(link.number)
    if session.waits_for("connection_buffer_size") and not sight.is_complete(link.number):
        window = -1  # the answer may have been lost
    if sight.has_lost(link.number, consumer, row.window_losses[consumer]):
        window = -1  # another window may have been asked for
    is_based = window > 0 and is_read and bool(row.is_based)
    return FlowControl(
        window if window >= 0 else None,
        counted,
        acked,
        max(0, counted - acked) if is_based else None,
    )


def clients_of(
    links: Iterable[TcpConnection], sessions: Mapping[int, Session], sight: Visibility
) -> dict[int, Client]:
    """Returns the consumer that each connection belongs to, over all its connections, by number of
    the connection.

    Its name is its address with ``Session.service``, or with the agent if it has no DCP name. A name
    that stands for connections to several buckets is a consumer for each bucket, because vbuckets of
    different buckets have nothing in common.
    """
    clients: dict[int, Client] = {}
    buckets: dict[str, dict[int, str | None]] = {}
    for link in links:
        session = sessions.get(link.number) or Session()
        clients[link.number] = client = _client_of(link, session, sight)
        buckets.setdefault(client.name, {})[link.number] = session.bucket
    for connections in buckets.values():
        if len({*connections.values()} - {None}) > 1:
            for number, bucket in connections.items():
                client = clients[number]
                clients[number] = (
                    replace(client, is_named=False)
                    if bucket is None
                    else replace(client, name=f"{client.name}@{bucket}")
                )
    return clients


def _client_of(link: TcpConnection, session: Session, sight: Visibility) -> Client:
    """Returns the consumer that a connection belongs to, whatever the bucket.

    Where the open may be missing, nobody can tell whose connection it is: its number and a question
    mark stand for the name.
    """
    host = host_of(link.origin)
    if session.name:
        dcp_name = consumer_name_of(session.name)
        return Client(f"{host} {session.service}", host, is_named=True, dcp_name=dcp_name)
    if sight.is_complete_so_far(link.number):
        return Client(f"{host} {session.agent or ''}".rstrip(), host, is_named=True)
    return Client(f"{host} connection {link.number}?", host, is_named=False)


def _is_opened(session: Session, row: ConnectionRow) -> bool:
    return session.open_status == Status.SUCCESS or (
        session.open_status is None and (row.streams > 0 or row.counted > 0)
    )


def verdict_of(
    link: TcpConnection,
    session: Session,
    row: ConnectionRow,
    flow: FlowControl,
    sight: Visibility,
    *,
    is_running: bool,
) -> str:
    """Returns the verdict of a connection: the first one that holds. ``is_running``: messages come
    on one of its streams.
    """
    is_opened = _is_opened(session, row)
    was_seen = sight.is_complete(link.number)
    if link.unopened not in ("", "silent"):
        return "not-connected"
    if (was_seen or link.is_http) and not is_opened and session.open_status is None:
        return "without-dcp"
    if session.open_status not in (None, Status.SUCCESS):
        return "refused"
    if not is_opened and not was_seen:
        return "unknown-capture"  # nobody knows whether it was opened or refused
    if link.closed:
        return "closed"
    if link.lost_at_end[sight.producer(link.number)] is not None:
        return "unknown-capture"
    if flow.is_full:
        return "starved-by-flow-control"
    if is_running and any(link.are_shut):
        return "stalled"
    if _is_dead(link, session, row, sight):
        return "noop-dead"
    return "streaming" if is_running else "idle"


def noop_limit_ns(session: Session) -> int:
    """Returns how long an answer to a noop may take before its absence is reported: the interval, 5
    s at most and 2 s at least.
    """
    interval = session.noop_interval
    return max(PATIENCE_NS, min(int(interval * 1e9), NOOP_NS) if interval is not None else NOOP_NS)


def _is_dead(link: TcpConnection, session: Session, row: ConnectionRow, sight: Visibility) -> bool:
    """Returns whether a noop was not answered while the connection went on."""
    limit = max(noop_limit_ns(session), 10 * row.noop_slowest)
    is_overdue = row.noop_row >= 0 and link.last_ns - row.noop_time > limit
    consumer = sight.consumer(link.number)
    return is_overdue and sight.between(link.number, consumer, int(row.noop_time)) == "complete"


def connection_records(
    links: Sequence[TcpConnection],
    sessions: Mapping[int, Session],
    tables: KnownTables,
    flows: Mapping[int, FlowControl],
    verdicts: IntArray,
    sight: Visibility,
) -> Records:
    """Returns the table of connections; ``verdicts``: number of each stream's verdict."""
    streams, table = tables.streams, tables.connections
    runs = set(streams.connection[np.isin(verdicts, _RUNNING)].tolist())
    unopened = Counter(streams.connection[are_unopened(streams)].tolist())
    rows = []
    for link in links:
        session = sessions.get(link.number) or Session()
        row, flow = table[link.number], flows[link.number]
        producer = row.producer
        is_whole = sight.is_complete_so_far(link.number)
        features = session.features if session.features is not None or not is_whole else ()
        rows.append(
            (
                link.number,
                link.client,
                link.proxied or None,
                link.server,
                session.name,
                session.agent,
                None if producer < 0 else w.ROLES[1 - producer],
                session.bucket,
                None if features is None else list(features),
                {
                    key: {"value": control.value, "status": control.status}
                    for key, control in session.controls.items()
                },
                flow.window,
                flow.outstanding,
                flow.counted,
                flow.acked,
                session.noop_interval,
                verdict_of(link, session, row, flow, sight, is_running=link.number in runs),
                None if link.closed_by < 0 else ("client", "server")[link.closed_by],
                "handshake" if link.has_handshake else "mid-stream",
                link.tls,
                sum(link.holes),
                sum(link.skipped) - link.not_decodable,
                row.streams - unopened[link.number],
                link.first_ns,
                link.last_ns,
                None,
                None,  # this layer knows no findings
            )
        )
    names = [column.name for column in CONNECTIONS.columns]
    columns = (
        dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        if rows
        else {name: [] for name in names}
    )
    return Records(
        CONNECTIONS,
        columns,
        len(rows),
        file=np.array([link.first_file for link in links], dtype=np.int64),
    )


def replica_streams(
    streams: Streams,
    connections: ConnectionRows,
    sessions: dict[int, Session],
    links: Mapping[int, TcpConnection],
) -> BoolArray:
    """Returns a mask of streams whose vbucket is a replica on their server: the server told some
    client so, or the cluster map shows it.

    A cluster map counts if it names the server by the address used here. It does not count for what
    one node streams to another: that comes from the active vbucket.
    """
    is_replica = np.zeros(len(streams), dtype=np.bool_)
    listed = {
        (links[number].server, vbucket)
        for number, session in sessions.items()
        if number in links
        for vbucket in session.replicas
    }
    elsewhere: dict[int, Mapping[int, str]] = {}
    for number, session in sessions.items():
        nodes = session.cluster_map.nodes if session.cluster_map is not None else {}
        if (
            number in links
            and connections.producer[number] == 1
            and links[number].server in nodes.values()
        ):
            elsewhere[number] = nodes
    if listed or elsewhere:
        for row, (connection, vbucket) in enumerate(
            zip(streams.connection.tolist(), streams.vbucket.tolist(), strict=True)
        ):
            if connection in links:
                server = links[connection].server
                node = elsewhere.get(connection, {}).get(vbucket, server)
                is_replica[row] = (server, vbucket) in listed or node != server
    return is_replica
