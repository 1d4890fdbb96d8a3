"""What is in a reading, at a first look: how long, who, which buckets and vbuckets, how complete,
and what to run next.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dcpinspect.coverage import Coverage
from dcpinspect.protocol.foreign import TLS
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.session import Session
from dcpinspect.streams.table_columns import INFO
from dcpinspect.streams.tcp_facts import TcpConnection, host_of
from dcpinspect.tables.record_tables import Records
from dcpinspect.text import counted

Overview = dict[str, Any]
"""A record of ``INFO``: values by the names of its columns."""
_MOST_NAMED = 4
"""Number of captures that are named in a command."""


def overview(reading: Reading) -> Overview:
    """Returns what was found by now. The reading must track streams."""
    # no comparison of streams, which would read the captures again: only gaps need it
    every_link = reading.links
    tracker, own_links = reading.tracker.counted(every_link)
    tables, copies = tracker.tables(own_links), reading.tracker.left_out(every_link)
    coverage = reading.coverage.without(
        copies, Counter(link.unopened for link in every_link if link.number in copies)
    )
    foreign = {connection for connection, _ in coverage.ways(lambda all_: ~all_.is_own)}
    http = {connection for connection, _ in coverage.ways(lambda all_: all_.http > 0)}
    spoken = {connection for connection, _ in coverage.ways(lambda all_: all_.captured > 0)}
    links = [link for link in own_links if link.number not in foreign]
    streams = list(tables.streams.rows("connection", "vbucket", "answer", "verdict"))
    answers = [answer for _, _, answer, verdict in streams if verdict != "never-opened"]
    vbuckets: dict[int, set[int]] = {}
    for connection, vbucket, *_ in streams:
        vbuckets.setdefault(connection, set()).add(vbucket)
    sessions = tracker.conversation.sessions
    problems = reading.capture.problems
    left_out = [problem.file for problem in problems if problem.is_left_out]
    files, begun = reading.capture.files, Counter(link.first_file for link in links)
    return {
        "files": [
            {
                "name": file.name,
                "format": file.format,
                "packets": file.packets,
                "connections": begun[number],
            }
            for number, file in enumerate(files)
        ],
        "first_time": reading.earliest_ns,
        "last_time": reading.last_time_ns,
        "packets": reading.coverage.packets_read,
        "packet_classes": {
            name: count for name, count in reading.coverage.packets.items() if count
        },
        "dropped_packets": sum(counts.lost for file in files for counts in file.counts),
        "truncated_packets": reading.truncated - reading.engine.transport.headers.cut_copies,
        "messages": reading.messages - reading.tracker.copies.messages_of(copies),
        "rows": reading.messages,
        "connections": len(links) + reading.engine.unlisted,
        "copies": len(copies),
        "mid_stream": [
            link.number for link in links if not link.has_handshake and link.number in spoken
        ],
        "one_direction": [link.number for link in links if link.unseen >= 0],
        "unopened": _unopened(links),
        "below": [*_below(links, http)],
        "streams": len(answers),
        "answers": dict(Counter(answers)),
        "clients": _clients(links, sessions, vbuckets),
        "servers": _servers(links, sessions),
        "buckets": sorted({session.bucket for session in sessions.values() if session.bucket}),
        "vbuckets": sorted({vbucket for _, vbucket, *_ in streams}),
        **_bytes(coverage),
        "problems": len(problems) - len(left_out),
        "left_out": left_out,
        "next": _next(reading),
    }


def _clients(
    links: Sequence[TcpConnection],
    sessions: Mapping[int, Session],
    vbuckets: Mapping[int, set[int]],
) -> list[dict[str, Any]]:
    """Returns the clients, by host, service and agent, with their whole name if all connections
    have the same; ``vbuckets``: asked for by connection.
    """
    clients: dict[tuple[str, str, str], list[int]] = {}
    for link in links:
        session = sessions.get(link.number) or Session()
        key = host_of(link.origin), session.service, session.agent or ""
        clients.setdefault(key, []).append(link.number)
    return [
        {
            "address": host,
            "name": _whole_name(service, [sessions.get(number) for number in numbers]),
            "is_opened": any(_is_opened(sessions.get(number)) for number in numbers),
            "agent": agent or None,
            "connections": numbers,
            "vbuckets": len(set[int]().union(*(vbuckets.get(number, ()) for number in numbers))),
        }
        for (host, service, agent), numbers in clients.items()
    ]


def _whole_name(service: str, sessions: Sequence[Session | None]) -> str | None:
    """Returns the DCP name if connections of a service have the same, such as ``service:1``."""
    names = {
        session.name if session is not None and session.begins_with_service else None
        for session in sessions
    }
    return (names.pop() if len(names) == 1 else None) or service or None


def _servers(
    links: Sequence[TcpConnection], sessions: Mapping[int, Session]
) -> list[dict[str, Any]]:
    """Returns the servers, each with the version that it told last."""
    servers: dict[str, list[int]] = {}
    for link in links:
        servers.setdefault(link.server, []).append(link.number)
    return [
        {
            "address": address,
            "version": next(
                (
                    version
                    for number in reversed(numbers)
                    if (version := (sessions.get(number) or Session()).server_version)
                ),
                None,
            ),
            "connections": numbers,
        }
        for address, numbers in servers.items()
    ]


def _bytes(coverage: Coverage) -> dict[str, Any]:
    """Returns what became of the bytes of the connections that count."""
    totals = coverage.own_protocol
    unread = coverage.where(lambda all_: all_.is_own & (all_.not_decodable > all_.http))
    tls = [direction for direction in unread if direction.connection and direction.protocol == TLS]
    encrypted = sorted({direction.connection for direction in tls})
    encrypted_bytes = sum(direction.not_decodable for direction in tls)
    decrypted = [about for about in coverage.tls.values() if not about.is_misfit]
    return {
        "captured_bytes": totals["unique"] + totals["late"],
        "decoded_bytes": totals["decoded"],
        "skipped_bytes": totals["skipped"] + totals["unfinished"],
        "foreign_bytes": totals["not_decodable"] - encrypted_bytes,
        "late_bytes": totals["late"],
        "missing_bytes": totals["missing"],
        "holes": totals["holes"],
        "tls_overhead_bytes": totals["tls"],
        "unopened_records": sum(
            records.lost + records.refused for about in decrypted for records in about.records
        ),
        "decrypted_connections": sorted(
            {connection for connection, _ in coverage.ways(lambda all_: all_.tls > 0) if connection}
        ),
        "tls_bytes": encrypted_bytes,
        "tls_connections": encrypted,
        "tls_next": coverage.tls_advice(encrypted) if encrypted else None,
    }


def _unopened(links: Sequence[TcpConnection]) -> list[dict[str, Any]]:
    """Returns the connections not opened or not used, by client, server and what came of them."""
    numbers_by_key: dict[tuple[str, str, str], list[int]] = {}
    for link in links:
        if link.unopened:
            key = host_of(link.client), link.server, link.unopened
            numbers_by_key.setdefault(key, []).append(link.number)
    return [
        {"client": key[0], "server": key[1], "how": key[2], "connections": numbers}
        for key, numbers in numbers_by_key.items()
    ]


def _below(links: Sequence[TcpConnection], http: Collection[int]) -> Iterator[str]:
    """Yields sentences about trouble below DCP that no other field has."""
    proxies: dict[str, list[int]] = {}
    for link in links:
        if link.proxied is not None:
            proxies.setdefault(host_of(link.client), []).append(link.number)
        for side, shut in zip(("client", "server"), link.shut, strict=True):
            if shut is not None:
                yield (
                    f"the {side} of connection {link.number} takes no bytes for "
                    f"{shut.longest.time_ns / 1e9:.1f} s: its TCP window is 0"
                )
    for proxy, numbers in proxies.items():
        yield (f"the proxy {proxy} sends PROXY headers on {counted(len(numbers), 'connection')}")
    if http:
        yield f"HTTP on {counted(len(http), 'connection')}, as health probes send it"


def _is_opened(session: Session | None) -> bool:
    """Returns whether the capture has a DCP open, or its answer where the open itself was cut."""
    return session is not None and (bool(session.open_row) or session.open_status is not None)


def _next(reading: Reading) -> str | None:
    """Returns the command to run next; None if no command of ours finds more."""
    options = [f"--port {port}" for port in reading.options["extra_ports"]] + [
        "--port auto"
    ] * bool(reading.options["find_ports"])
    options += [f"--keylog {shlex.quote(path)}" for path in reading.engine.keys.paths]
    if reading.messages:
        command = "check"
    elif not reading.options["find_ports"] and reading.engine.transport.headers.other_ports.any():
        command, options = "info", [*options, "--port auto"]
    elif any(about.mismatch for about in reading.coverage.tls.values()):
        command = "check"  # one side speaks TLS, and the other does not
    else:
        return None
    names = map(shlex.quote, reading.named) if len(reading.named) <= _MOST_NAMED else ["FILE…"]
    return " ".join(["dcpinspect", command, *names, *options])


def overview_records(facts: Overview) -> Records:
    """Returns the overview as a table of one row."""
    return Records(INFO, {column.name: [facts[column.name]] for column in INFO.columns}, 1)
