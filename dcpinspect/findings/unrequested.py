"""Rules about lists of vbuckets: a client never asks for some that it was told of, or begins one
from 0 that no list has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

from dcpinspect.findings.context import ALL, Context, occurrence
from dcpinspect.findings.finding import MessagePlace, Occurrence, ranges
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams.records import GREATEST, LEAST
from dcpinspect.streams.server_reports import LOG, Reports
from dcpinspect.streams.tcp_facts import host_of
from dcpinspect.streams.transitions import ACCEPTED, STREAMING
from dcpinspect.streams.verdicts import PATIENCE_NS
from dcpinspect.text import listed

RULES = rules(
    """
    vbuckets-not-requested stream note consumer
        fires: a cluster map or a list of active vbuckets, sent to the client, has vbuckets that the
            client does not request; a warning if it had streams of them on connections that the
            producer closed, and asked again for as many others
        unless: clients that request no stream, or may still go on; a hole that may hide requests;
            captures that begin inside the connection; vbuckets that another member of the client's
            group has; a warning, if members that are not in the capture may have some
        next: check that other tasks or members own them, or that their nodes are not in this
            capture; else the consumer has to request them, because their changes reach nobody
        reports: couchbase-kafka-connector#13
    start-not-listed stream warning consumer
        fires: a client begins vbuckets at the high seqnos that it was told, and one from 0 because
            no list has it; and that one delivers items
        unless: vbuckets that were listed with 0; clients that begin others from another seqno;
            fewer than two vbuckets that begin at their high seqno within 2 s of it; clients of
            which something was not captured
        next: expect old items of this vbucket again; a consumer has to ask for the high seqnos until
            the vbucket is listed, because a node leaves it out while it is not active there
        reports: JDCP-240
        cost: vbucket, is read from the beginning, are read from the beginning
        fields: start_seqno
    """
)

SHOWN = 4
"""Greatest number of nodes that are named."""
LISTED = 2
"""Least number of vbuckets that begin at their high seqno, to show that the client means it."""


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences, one for each client, once all messages were taken."""
    if not finished.is_whole:
        return
    context = finished.context
    of_host: dict[str, list[int]] = defaultdict(list)
    for link in context.links:
        of_host[host_of(link.client)].append(link.number)
    connections: dict[str, list[int]] = defaultdict(list)
    for number, client in context.clients.items():
        connections[client].append(number)
    # Thousands of clients may be on one host. What they share is worked out once.
    is_known = cache(lambda host: all(_is_known(context, number) for number in of_host[host]))
    reports = context.tracker.conversation.reports
    listings = reports[reports.kind != LOG]
    told_of_node = cache(
        partial(
            _reported_seqnos,
            context,
            of_host,
            listings[np.argsort(listings.connection, kind="stable")],
        )
    )
    for numbers in connections.values():
        stream_numbers = np.sort(np.concatenate([context.streams_of(number) for number in numbers]))
        stream_numbers = stream_numbers[context.streams.request.is_captured[stream_numbers] != 0]
        if len(stream_numbers):
            hosts = frozenset(host_of(context.by_number[number].client) for number in numbers)
            yield from _of_client(context, numbers, stream_numbers, map(is_known, hosts))
            listed = told_of_node(
                hosts, frozenset(context.session(number).bucket for number in numbers)
            )
            if listed is not None:
                yield from _not_listed(context, listed, stream_numbers)


@dataclass(frozen=True)
class _ReportedSeqnos:
    """The high seqnos that clients of some hosts and buckets were told, at least one."""

    context: Context
    connections: list[int]
    listings: Reports

    @cached_property
    def pairs(self) -> set[tuple[int, int]]:
        """Each vbucket with a seqno that was told of it."""
        return {*zip(self.listings.vbucket.tolist(), self.listings.value.tolist(), strict=True)}

    @cached_property
    def is_all(self) -> bool:
        """Whether everything that was asked for was captured."""
        return all(_is_known(self.context, number) for number in self.connections)

    @cached_property
    def last(self) -> MessagePlace:
        """The message that told the last of them."""
        last = self.listings[int(np.argmax(self.listings.place.time))]
        return self.context.report_place(last.connection, last.place)

    @cached_property
    def since_ns(self) -> dict[str, int]:
        """When each server told the first of them."""
        since_ns: dict[str, int] = {}
        answers = zip(
            self.listings.connection.tolist(), self.listings.place.time.tolist(), strict=True
        )
        for connection, time_ns in answers:
            server = self.context.by_number[connection].server
            since_ns[server] = min(since_ns.get(server, time_ns), time_ns)
        return since_ns


def _reported_seqnos(
    context: Context,
    of_host: Mapping[str, Sequence[int]],
    listings: Reports,
    hosts: Collection[str],
    buckets: Collection[str | None],
) -> _ReportedSeqnos | None:
    """Returns what clients of these hosts and buckets were told; None if that is nothing.

    ``of_host``: connections by host. ``listings``: what all were told, by connection.
    """
    near = [
        number
        for host in hosts
        for number in of_host[host]
        if context.session(number).bucket in buckets
    ]
    bounds = listings.connection.searchsorted(np.add.outer(near, (0, 1))).tolist()
    rows = np.concatenate([np.empty(0, np.int64), *(np.arange(low, high) for low, high in bounds)])
    return _ReportedSeqnos(context, near, listings[rows]) if len(rows) else None


def _of_client(
    context: Context, connections: list[int], requests: RowNumbers, is_known: Iterable[bool]
) -> Iterator[Occurrence]:
    """Yields the occurrence of one client. ``requests``: streams that it requested.

    ``is_known``: for each of its hosts, whether everything was captured. Where nobody knows whose a
    connection is, it may have more to say of the client.
    """
    streams = context.streams
    last = int(requests[np.argmax(streams.opened.time[requests])])
    patience = max(
        PATIENCE_NS,
        10 * max(context.tracker.state.connections[number].slowest for number in connections),
    )
    last_ns = streams[last].opened.time
    shown_until_ns = [
        until_ns for until_ns in map(context.captured_until_ns, connections) if until_ns >= last_ns
    ]
    if min(shown_until_ns, default=last_ns) - last_ns <= patience:
        return
    nodes: dict[int, str] = {}
    listed_ns: dict[int, int] = {}
    listings = [
        (number, listing) for number in connections for listing in context.session(number).listings
    ]
    for number, listing in sorted(listings, key=lambda item: item[1].at.time_ns):
        link = context.by_number[number]
        nodes |= {vbucket: link.node(named) for vbucket, named in listing.nodes.items()}
        listed_ns |= dict.fromkeys(listing.nodes, listing.at.time_ns)
    if not nodes:
        return
    requested = set(streams.vbucket[requests].tolist())
    elsewhere = context.members.vbuckets_of_others(connections[0], min(listed_ns.values()))
    abandoned, reopened_count = _abandoned(context, requests, listed_ns, elsewhere)
    missing = sorted((nodes.keys() - requested - elsewhere) | abandoned)
    if not missing or not all(is_known):
        return
    where = listed(sorted({nodes[vbucket] for vbucket in missing}), SHOWN)
    requested_part = f"{len(nodes) - len(missing):,} of {len(nodes):,}"
    message = f"{requested_part} vbuckets requested; missing: {ranges(missing)} on {where}" + (
        f"; it had streams of {ranges(sorted(abandoned))} before" if abandoned else ""
    )
    is_sole = context.members.has_only_some(context.clients[connections[0]]) is False
    number, listing = max(listings, key=lambda item: item[1].at.time_ns)
    request = context.request(last)
    evidence = (
        context.report_place(number, listing.at),
        *([request] if request is not None else []),
    )
    yield Occurrence(
        "vbuckets-not-requested",
        message,
        number,
        evidence,
        vbuckets=tuple(missing),
        shared="not all vbuckets requested that were listed",
        facts={"requested": requested_part, "on": where},
        severity="warning" if is_sole and 0 < len(abandoned) <= reopened_count else "note",
    )


def _abandoned(
    context: Context, requests: RowNumbers, listed_ns: Mapping[int, int], elsewhere: Set[int]
) -> tuple[set[int], int]:
    """Returns the vbuckets whose last streams ran without an end until a producer closed their
    connections, and that were listed after that; and how many others it asked for again since.
    What is on a node that the client cannot reach, or that is not in the capture, is not among
    them.

    ``listed_ns``: when each vbucket was listed last. ``elsewhere``: vbuckets of other members.
    """
    streams = context.streams
    in_order = requests[np.argsort(streams.opened.time[requests], kind="stable")]
    newest = {streams.vbucket[number]: number for number in in_order.tolist()}
    abandoned, since_ns = set[int](), GREATEST
    for vbucket, number in newest.items():
        stream = streams[number]
        link = context.by_number[stream.connection]
        runs = ACCEPTED <= stream.state <= STREAMING and stream.request.end == GREATEST
        is_lost = link.closed and link.closed_by == context.producer(link.number)
        latest = context.conduct.latest_attempts[host_of(link.client), link.server]
        if (
            vbucket in elsewhere
            or not runs
            or not is_lost
            or link.closed_ns >= listed_ns.get(vbucket, 0)
            or (latest.unopened and latest.first_ns > link.closed_ns)
            or not context.moves.sees_node_of(context.clients[link.number], int(vbucket))
        ):
            continue
        abandoned.add(int(vbucket))
        since_ns = min(since_ns, link.closed_ns)
    counts = Counter(streams.vbucket[requests].tolist())
    return abandoned, sum(
        counts[vbucket] > 1 and streams.opened.time[number] > since_ns
        for vbucket, number in newest.items()
    )


def _not_listed(
    context: Context, told_state: _ReportedSeqnos, requests: RowNumbers
) -> Iterator[Occurrence]:
    """Yields the vbuckets of a client that begin from 0 because no list of high seqnos had them.

    ``told_state``: the high seqnos that its host was told. ``requests``: streams that the client
    requested.
    """
    streams = context.streams
    requests = requests[np.argsort(streams.opened.time[requests], kind="stable")]
    first = requests[np.unique(streams.vbucket[requests], return_index=True)[1]]
    first = first[streams.request.flags[first] & FROM_LATEST == 0]
    vbuckets, starts = streams.vbucket[first], streams.request.start[first]
    pairs = zip(vbuckets.tolist(), starts.tolist(), strict=True)
    is_high = np.array([pair in told_state.pairs for pair in pairs], dtype=np.bool_)
    is_listed = np.isin(vbuckets, told_state.listings.vbucket)
    # a client that had come so far resumes there, too
    is_checkpoint = streams.request.snapshot_start[first] < starts
    if not (is_high & ~is_checkpoint)[is_listed].all() or not told_state.is_all:
        return
    times = streams.opened.time[first]
    resumed_ns = np.sort(times[is_high & (starts > LEAST)])
    is_unlisted = ~is_listed & (starts == LEAST) & (streams.items[first] > 0)
    for number, time_ns in zip(first[is_unlisted].tolist(), times[is_unlisted], strict=True):
        server = context.by_number[streams.connection[number]].server
        if time_ns <= told_state.since_ns.get(server, GREATEST):
            continue
        # one that begins later may have come to the node since, and is read from its beginning
        bounds = resumed_ns.searchsorted((time_ns - PATIENCE_NS, time_ns + PATIENCE_NS))
        other_count = int(bounds[1] - bounds[0])
        if other_count < LISTED:
            continue
        message = (
            f"started from 0, because no list of high seqnos had it; {other_count} other vbuckets "
            "started at their high seqnos"
        )
        evidence = (context.request(number), told_state.last)
        yield occurrence(context, number, "start-not-listed", message, evidence, seqnos=(0,))


def _is_known(context: Context, connection: int) -> bool:
    """Returns whether everything that was asked for on a connection was captured."""
    link = context.by_number[connection]
    return (
        link.has_handshake
        and context.sight.known_until_ns(link.number, 1 - context.producer(connection)) == ALL
    )


RULE_SET = RuleSet(RULES, findings=findings)
