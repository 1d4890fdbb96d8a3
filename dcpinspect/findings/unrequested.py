"""Rules about lists of vbuckets: a client never asks for some that it was told of, or begins one from 0 that no list has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from dcpinspect.findings.context import ALL, Context, occurrence
from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import Occurrence, ranges
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams.links import Link
from dcpinspect.streams.rows import LEAST
from dcpinspect.streams.server_reports import LOG, At, Reports

RULES = (
    Rule(
        "vbuckets-not-requested",
        "stream",
        "note",
        "a cluster map or a list of active vbuckets, sent to the client, has vbuckets that the client does not request",
        "clients that request no stream, or may still go on; a hole that may hide requests; captures that begin inside the connection",
        "check that other tasks or members own them, or that their nodes are not in this capture; otherwise their"
        " changes are never delivered",
        reports=("couchbase-kafka-connector#13",),
        whose="consumer",
    ),
    Rule(
        "start-not-listed",
        "stream",
        "warning",
        "a client begins vbuckets at the high seqnos that it was told, and one from 0 because no list has it; and that one delivers items",
        "vbuckets that were listed with 0; clients that begin others from another seqno; fewer than two vbuckets that begin at their high "
        "seqno; clients of which something was not captured",
        "ask for the high seqnos again until the vbucket is listed; a node leaves a vbucket out while it is not active there",
        reports=("JDCP-240",),
        whose="consumer",
        cost=Cost("vbucket", "is read from the beginning", "are read from the beginning"),
    ),
)

LEAST_PATIENCE_NS = 2_000_000_000
SHOWN = 4
"""Greatest number of nodes that are named."""
LISTED = 2
"""Least number of vbuckets that begin at their high seqno, to show that a client means to begin there."""


def findings(finished: Finished) -> Iterator[Occurrence]:
    """Yields all occurrences, one for each client, once all messages were taken."""
    if not finished.is_whole:
        return
    context = finished.context
    asked, reports = _asked(context), context.tracker.conversation.reports
    reports = reports[reports.kind != LOG]
    of_host: dict[str, list[int]] = defaultdict(list)
    for link in context.links:
        of_host[_host(link)].append(link.number)
    connections: dict[str, list[int]] = defaultdict(list)
    for number, client in context.clients.items():
        connections[client].append(number)
    for numbers in connections.values():
        mine = [asked[number] for number in numbers if number in asked]
        if mine:
            yield from _of_client(context, numbers, np.sort(np.concatenate(mine)), of_host)
            near = [one for host in {_host(context.by_number[number]) for number in numbers} for one in of_host[host]]
            buckets = {context.session(number).bucket for number in numbers}
            near = [number for number in near if context.session(number).bucket in buckets]
            told = reports[np.isin(reports.connection, near)]
            yield from _not_listed(context, told, near, np.sort(np.concatenate(mine)))


def _asked(context: Context) -> dict[int, Rows]:
    """Returns the streams that were requested, by connection."""
    streams = context.streams
    asked = np.flatnonzero(streams.request.form > 0)
    asked = asked[np.argsort(streams.connection[asked], kind="stable")]
    numbers, starts = np.unique(streams.connection[asked], return_index=True)
    return dict(zip(numbers.tolist(), np.split(asked, starts[1:]), strict=True)) if len(asked) else {}


def _host(link: Link) -> str:
    return link.client.rpartition(":")[0]


def _of_client(context: Context, connections: list[int], asked: Rows, of_host: Mapping[str, list[int]]) -> Iterator[Occurrence]:
    """Yields the occurrence of one client. ``asked``: streams that it requested. ``of_host``: connections by host of the client."""
    streams = context.streams
    last = int(asked[np.argmax(streams.opened.time[asked])])
    patience = max(LEAST_PATIENCE_NS, 10 * max(int(context.tracker.state.connections.slowest[number]) for number in connections))
    if context.now_ns - int(streams.opened.time[last]) <= patience:
        return
    nodes: dict[int, str] = {}
    listings = [(number, listing) for number in connections for listing in context.session(number).listings]
    for number, listing in sorted(listings, key=lambda one: one[1].at.time_ns):
        server = context.by_number[number].server
        nodes.update({vbucket: (node or server).replace("$HOST", server.rpartition(":")[0]) for vbucket, node in listing.nodes.items()})
    requested = set(streams.vbucket[asked].tolist())
    missing = sorted(set(nodes) - requested)
    # If it is not known whose it is, any connection of the host may have more to say of the client.
    hosts = {_host(context.by_number[number]) for number in connections}
    if not missing or not all(_is_known(context, number) for host in hosts for number in of_host[host]):
        return
    names = sorted({nodes[vbucket] for vbucket in missing})
    where = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    message = f"{len(nodes) - len(missing)} of {len(nodes)} vbuckets requested; missing: {ranges(missing)} on {where}"
    number, listing = max(listings, key=lambda one: one[1].at.time_ns)
    request = context.request(last)
    places = (context.said(number, listing.at), *([request] if request is not None else []))
    yield Occurrence("vbuckets-not-requested", "note", message, number, places, vbuckets=tuple(missing))


def _not_listed(context: Context, listings: Reports, connections: list[int], asked: Rows) -> Iterator[Occurrence]:
    """Yields the vbuckets of a client that begin from 0 because no list of high seqnos had them.

    ``listings``: the high seqnos that its host was told, on ``connections``. ``asked``: streams that the client requested.
    """
    streams = context.streams
    asked = asked[np.argsort(streams.opened.time[asked], kind="stable")]
    first = asked[np.unique(streams.vbucket[asked], return_index=True)[1]]
    first = first[streams.request.flags[first] & FROM_LATEST == 0]
    vbuckets, starts = streams.vbucket[first], streams.request.start[first]
    told = {*zip(listings.vbucket.tolist(), listings.seqno.tolist(), strict=True)}
    is_high = np.array([one in told for one in zip(vbuckets.tolist(), starts.tolist(), strict=True)], dtype=np.bool_)
    is_listed, others = np.isin(vbuckets, listings.vbucket), int(np.count_nonzero(is_high & (starts > LEAST)))
    if others < LISTED or not is_high[is_listed].all() or not all(_is_known(context, number) for number in connections):
        return
    last = listings[int(np.argmax(listings.place.time))]
    is_unlisted = ~is_listed & (starts == LEAST) & (streams.items[first] > 0)
    for number in first[is_unlisted & (streams.opened.time[first] > listings.place.time.min())].tolist():
        message = f"started from 0, because no list of high seqnos had it; {others} others started at theirs"
        places = (context.request(number), context.said(int(last.connection), At.of(last.place)))
        yield occurrence(context, number, "start-not-listed", "warning", message, places, seqnos=(0,))


def _is_known(context: Context, connection: int) -> bool:
    """Returns whether everything that was asked for on a connection was captured."""
    link = context.by_number[connection]
    return link.has_handshake and context.sight.known_until_ns(link.number, 1 - context.producer(connection)) == ALL


RULE_SET = RuleSet(RULES, findings=findings)
