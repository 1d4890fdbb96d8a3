"""Where vbuckets are active, by what servers said, and which of them moved to another node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dcpinspect.findings.lost_streams import LostStream
from dcpinspect.findings.rule import LONG_NS
from dcpinspect.streams import words as w
from dcpinspect.streams.tcp_facts import host_of

if TYPE_CHECKING:
    from dcpinspect.findings.context import Context


class _ActiveNode(NamedTuple):
    """When servers last said where a vbucket is active, and at which node."""

    time_ns: int
    node: str


class Moves:
    """The nodes of the vbuckets of each client."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._listed_nodes = cache(self._listed)
        self._of_client: dict[str, tuple[Mapping[int, _ActiveNode], Mapping[str, str]]] = {}

    def moved_to(self, client: str, loss: LostStream) -> tuple[str, bool] | None:
        """Returns to which node a vbucket moved, by what servers said of it, and whether a client
        has captured connections to that node; None if nothing tells where it moved to.
        """
        stream = self._context.streams[loss.stream]
        active_nodes, server_of_node = self._nodes_for(client)
        time_ns, node = active_nodes.get(stream.vbucket, (0, ""))
        # the refusal itself brings the map
        is_old = time_ns <= loss.time_ns and stream.answer != w.A_REFUSED
        server = self._context.by_number[stream.connection].server
        if not node or is_old or server_of_node.get(node) == server:
            return None  # not told, or told by who did not know yet that it moved
        return node, node in server_of_node

    def stays(self, loss: LostStream) -> bool:
        """Returns whether the server of a stream that ended is still, or again, the one that has the
        vbucket, by what servers said long after the end.
        """
        stream = self._context.streams[loss.stream]
        link = self._context.by_number[stream.connection]
        active_nodes, server_of_node = self._nodes_for(self._context.clients[link.number])
        time_ns, node = active_nodes.get(stream.vbucket, (0, ""))
        is_long_after = time_ns - loss.received_ns > LONG_NS
        is_long_before_end = self._context.until_ns(link) - time_ns > LONG_NS
        return is_long_after and is_long_before_end and server_of_node.get(node) == link.server

    def sees_node_of(self, client: str, vbucket: int) -> bool:
        """Returns whether the capture has a connection of a client to the node that servers named
        last for a vbucket.
        """
        active_nodes, server_of_node = self._nodes_for(client)
        return vbucket in active_nodes and active_nodes[vbucket].node in server_of_node

    def sees_all_nodes(self, client: str) -> bool:
        """Returns whether the capture has a connection of a client to each node that servers named,
        and they named some.
        """
        active_nodes, server_of_node = self._nodes_for(client)
        return bool(active_nodes) and all(
            node in server_of_node for _, node in active_nodes.values()
        )

    def _nodes_for(self, client: str) -> tuple[Mapping[int, _ActiveNode], Mapping[str, str]]:
        """Returns what servers said of the vbuckets in the buckets of a client; and of the nodes
        that they named those to which it has captured connections, each with its address. Both are
        empty if they name no node as the capture does.
        """
        if client not in self._of_client:
            context, links = self._context, self._context.by_number
            numbers = context.consumers.of_name[client]
            buckets = {number: context.session(number).bucket for number in numbers}
            active_nodes = self._listed_nodes(
                frozenset(buckets.values()) - {None},
                frozenset(number for number, bucket in buckets.items() if bucket is None),
            )
            servers = [links[number].server for number in numbers]
            named = {node for _, node in active_nodes.values()}
            if len({host_of(node) for node in named}) == len(named):
                # a map names the port without TLS
                by_host = {host_of(server): server for server in servers}
                server_of_node = {
                    node: by_host[host_of(node)] for node in named if host_of(node) in by_host
                }
            else:
                server_of_node = {server: server for server in servers if server in named}
            self._of_client[client] = (active_nodes, server_of_node) if server_of_node else ({}, {})
        return self._of_client[client]

    def _listed(
        self, buckets: frozenset[str | None], connections: frozenset[int]
    ) -> Mapping[int, _ActiveNode]:
        """Returns what servers said of vbuckets, by vbucket, in these buckets and on these
        connections.
        """
        links, active_nodes = self._context.by_number, dict[int, _ActiveNode]()
        listings = [
            (links[number], listing)
            for number, session in self._context.tracker.conversation.sessions.items()
            if number in links and (session.bucket in buckets or number in connections)
            for listing in session.listings
        ]
        server_of_name = {
            link.node(listing.own): link.server for link, listing in listings if listing.own
        }
        for link, listing in sorted(listings, key=lambda item: item[1].at.time_ns):
            for vbucket, name in listing.nodes.items():
                node = link.node(name)
                active_nodes[vbucket] = _ActiveNode(
                    listing.at.time_ns, server_of_name.get(node, node)
                )
        return active_nodes
