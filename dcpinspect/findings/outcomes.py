"""Whom a finding is about, who has to act, and whether it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Finding, MessagePlace, Over, Whose, who_alone
from dcpinspect.findings.registry import RULES
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.streams import words as w
from dcpinspect.streams.grouping import VBUCKET_BITS
from dcpinspect.streams.records import Streams
from dcpinspect.streams.session import Session
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.text import MOST_NAME, clip, listed, words_of

ENDED_BY_A_STREAM = frozenset(
    words_of(
        "rollback rollback-not-honoured stream-refused bad-stream-range duplicate-stream-request "
        "manifest-ahead noop-required unknown-vbucket-uuid wrong-failover-entry no-common-history "
        "stream-end-reason end-zero-reopen"
    )
)
"""Rules whose trouble is over once the client has a stream of the vbucket again."""
ENDED_BY_A_CONNECTION = frozenset(("connection-closed", "open-refused", "name-clash"))
"""Rules whose trouble is over once the client has all streams again that broke off with a
connection; if none did, any stream on a later connection.
"""
STILL_OPEN = frozenset(("rollback-not-followed", "orphaned-vbucket"))
"""Rules that only speak of what nobody put right until the end of the capture."""
HANDLED = frozenset(
    words_of(
        "stream-refused bad-stream-range duplicate-stream-request manifest-ahead noop-required "
        "open-refused"
    )
)
"""Rules about one request. If the client handled the answer, it costs nothing, and is a note."""

_NEAR = 64
"""Number of granted streams that are looked at first."""
_When = tuple[int, int]
"""Time and row of a message."""


class Outcomes:
    """What the messages around a case tell of it."""

    def __init__(
        self, context: Context, past: Mapping[int, tuple[TcpConnection, Session]] | None = None
    ) -> None:
        """``past``: connections that have left; their cases were judged before they left."""
        self._context = context
        self._past = past or {}

    def judged(self, case: Finding) -> Finding:
        """Returns the case with its client, and whether it is over; milder if it costs nothing."""
        over, over_place = self._over(case)
        is_handled = over == "recovered" and case.rule in HANDLED
        return replace(
            case,
            severity="note" if is_handled else case.severity,
            next=self._advice(case),
            clients=self._clients(case),
            whose=self._whose(case),
            over=over,
            over_place=over_place,
        )

    def _whose(self, case: Finding) -> Whose:
        """Returns who has to act on a case, if it does not say so itself, or was told before its
        connection left.
        """
        if case.whose != "unknown":
            return case.whose
        number = next(iter(case.connections), 0)
        direction = case.places[0].direction if case.places else None
        return RULES[case.rule].whose_is(
            case.cause, direction, *([self._context.producer(number)] if number else [])
        )

    def _advice(self, finding: Finding) -> str:
        """Returns what to do about a finding, by whether its consumers are clients or servers."""
        producers = map(self._context.producer, finding.connections)
        return RULES[finding.rule].worded(finding.next, max(producers, default=1))

    def _client(self, case: Finding) -> str | None:
        """Returns the client of a case, also if its connection has left."""
        return self._context.clients.get(
            next(iter(case.connections), 0), next(iter(case.clients), None)
        )

    def _clients(self, case: Finding) -> tuple[str, ...]:
        """Returns the clients of all connections of a case, also if these have left."""
        clients = self._context.clients
        return tuple(sorted({clients[n] for n in case.connections if n in clients})) or case.clients

    def _over(self, case: Finding) -> tuple[Over, MessagePlace | None]:
        if case.rule in STILL_OPEN:
            return "open", None
        if case.over != "unknown":
            return case.over, case.over_place
        client = self._client(case)
        since = _when(case)
        if client is None or since is None:
            return "unknown", None
        if case.rule in ENDED_BY_A_STREAM and case.vbuckets:
            lost = [(vbucket, -1 if case.sid is None else case.sid) for vbucket in case.vbuckets]
        elif case.rule in ENDED_BY_A_CONNECTION:
            lost = self._broken_off(case)
        else:
            return "unknown", None
        numbers = [self._next_stream(client, *lost_stream, since) for lost_stream in lost] or [
            self._next_connection(client, case.connections[0], since)
        ]
        answers = [
            self._context.producer_place(number, self._context.streams[number].answered)
            for number in numbers
            if number is not None
        ]
        return ("recovered", max(answers)) if len(answers) == len(numbers) else ("unknown", None)

    def _broken_off(self, case: Finding) -> list[tuple[int, int]]:
        """Returns vbucket and stream-id of the streams that were open when the connections that a
        case speaks of were closed.
        """
        streams = self._context.streams
        broken_off: list[tuple[int, int]] = []
        for number in sorted(
            {*case.connections, *(message_place.connection for message_place in case.places)}
        ):
            link = self._context.by_number.get(number)
            if link is not None and link.closed:
                own_streams = self._context.open_on(number)
                broken_off += zip(
                    streams.vbucket[own_streams].tolist(),
                    streams.sid[own_streams].tolist(),
                    strict=True,
                )
        return broken_off

    def _next_stream(self, client: str, vbucket: int, sid: int, since: _When) -> int | None:
        """Returns the first stream of a vbucket that a client was granted after ``since``; ``sid``:
        -1 for none.
        """
        streams = self._context.streams
        key = self._context.names.number(client) << VBUCKET_BITS | vbucket
        return self._granted_by_vbucket.next(
            key, since, lambda numbers: streams.sid[numbers] == sid
        )

    def _next_connection(self, client: str, connection: int, since: _When) -> int | None:
        """Returns a client's first stream granted after ``since``, on a later connection."""
        streams, links = self._context.streams, self._context.by_number
        key = self._context.names.number(client)
        begun_ns = self._link(connection).first_ns
        return self._granted_by_client.next(
            key,
            since,
            lambda numbers: np.array(
                [
                    number != connection and links[number].first_ns >= begun_ns
                    for number in streams.connection[numbers].tolist()
                ]
            ),
        )

    def _link(self, number: int) -> TcpConnection:
        """Returns a connection, also if it has left."""
        link = self._context.by_number.get(number)
        return self._past[number][0] if link is None else link

    @cached_property
    def _granted_by_vbucket(self) -> _Granted:
        """By client and vbucket."""
        streams = self._context.streams
        return _Granted(
            streams, self._context.names.of[streams.connection] << VBUCKET_BITS | streams.vbucket
        )

    @cached_property
    def _granted_by_client(self) -> _Granted:
        streams = self._context.streams
        return _Granted(streams, self._context.names.of[streams.connection])

    def named(self, finding: Finding) -> Finding:
        """Returns the finding with its clients and their server in words."""
        link_of_number = self._context.by_number
        links = [
            self._link(number)
            for number in finding.connections
            if number in link_of_number or number in self._past
        ]
        servers = sorted({link.server for link in links})
        server = (
            f"server {servers[0]}"
            if len(servers) == 1
            else f"{len(servers)} servers"
            if servers
            else ""
        )
        return replace(
            finding,
            next=self._advice(finding),
            who=self._client_names(finding, links) if links else who_alone(finding),
            server=server,
        )

    def _client_names(self, finding: Finding, links: Sequence[TcpConnection]) -> str:
        past = self._past
        sessions = [
            past[link.number][1] if link.number in past else self._context.session(link.number)
            for link in links
        ]
        names = sorted({session.name or session.agent or "" for session in sessions} - {""})
        short = sorted({session.service or session.agent or "" for session in sessions} - {""})
        hosts = _addresses([link.origin for link in links])
        # without a name, what connects from one host is one, as far as anybody can tell
        has_names = len(short) > 1 or any(session.name for session in sessions)
        has_one_host = len({host_of(link.origin) for link in links}) == 1
        if len(finding.clients) > 1 and (has_names or not has_one_host):
            own_names = {client.partition(" ")[2] for client in finding.clients}
            description = (
                _first_clients(finding.clients)
                if len(own_names) > 1
                else ", ".join([hosts, *short])
            )
            return f"{len(finding.clients)} clients ({description})"
        agents = sorted({session.agent or "" for session in sessions} - {"", *names})
        inside = ", ".join([hosts, *(agents if len(agents) < 3 else [f"{len(agents)} agents"])])
        name = names[0] if len(names) == 1 else short[0] if short else ""
        return f"client {clip(name, MOST_NAME)} ({inside})" if name else f"client {inside}"


class _Granted:
    """Streams that were accepted, in order of when and of a key, which is negative for none."""

    def __init__(self, streams: Streams, keys: RowNumbers) -> None:
        taken = np.flatnonzero((streams.answer == w.A_ACCEPTED) & (keys >= 0))
        when = streams.answered
        self._streams = taken[np.lexsort((when.row[taken], when.time[taken], keys[taken]))]
        self._asked = streams.opened
        self._keys = keys[self._streams]
        self._times = when.time[self._streams]
        self._rows = when.row[self._streams]

    def next(
        self, key: int, since: _When, is_wanted: Callable[[RowNumbers], BoolArray]
    ) -> int | None:
        """Returns the number of a key's first wanted stream that was accepted later."""
        begin, end = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        index = begin + int(np.searchsorted(self._times[begin:end], since[0], "left"))
        while index < end and (int(self._times[index]), int(self._rows[index])) <= since:
            index += 1
        step = _NEAR
        while index < end:  # it is near, nearly always
            numbers = self._streams[index : min(index + step, end)]
            time, row = self._asked.time[numbers], self._asked.row[numbers]
            is_later = (time > since[0]) | ((time == since[0]) & (row > since[1]))
            granted_indices = np.flatnonzero(is_wanted(numbers) & is_later)
            if len(granted_indices):
                return int(numbers[granted_indices[0]])
            index, step = index + step, 2 * step
        return None


def _when(case: Finding) -> _When | None:
    """Returns the time of the latest offender, or of the close of its connection, and the row of
    the offender; None without one.
    """
    if case.latest is None:
        return None
    is_close = case.rule in ENDED_BY_A_CONNECTION
    return (
        case.last_time_ns if is_close else case.latest.time_ns or case.last_time_ns
    ), case.latest.row


def _first_clients(clients: Sequence[str]) -> str:
    """Returns the first two clients, each by its address and name, and how many more there are."""
    return listed([clip(client, MOST_NAME) for client in clients], 2)


def _addresses(clients: Sequence[str]) -> str:
    """Returns the address of one connection's client, or the hosts of several: ``10.11.0.1–64``."""
    if len(clients) == 1:
        return clients[0]
    hosts = list(dict.fromkeys(host_of(client) for client in clients))
    if len(hosts) == 1:
        return hosts[0]
    heads = {host.rpartition(".")[0] for host in hosts}
    lasts = [host.rpartition(".")[2] for host in hosts]
    if len(heads) == 1 and all(last.isdecimal() for last in lasts):
        numbers = sorted(map(int, lasts))
        if numbers[-1] - numbers[0] == len(numbers) - 1:
            return f"{heads.pop()}.{numbers[0]}–{numbers[-1]}"
    return _first_clients(hosts)
