"""A rule about vbuckets that a client knows of and never asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from dcpinspect.findings.context import ALL, Context
from dcpinspect.findings.finding import Occurrence, ranges
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Finished, RuleSet
from dcpinspect.protocol.columns import Rows
from dcpinspect.streams.links import Link

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
)

LEAST_PATIENCE_NS = 2_000_000_000
SHOWN = 4
"""Greatest number of nodes that are named."""


def findings(finished: Finished) -> Iterator[Occurrence]:
    """Yields all occurrences, one for each client, once all messages were taken."""
    if not finished.is_whole:
        return
    context = finished.context
    asked = _asked(context)
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


def _is_known(context: Context, connection: int) -> bool:
    """Returns whether everything that was asked for on a connection was captured."""
    link = context.by_number[connection]
    return link.has_handshake and context.sight.known_until_ns(link.number, 1 - context.producer(connection)) == ALL


RULE_SET = RuleSet(RULES, findings=findings)
