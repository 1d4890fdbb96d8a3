"""Each consumer over all its connections: its streams in order, and what it had received before it
asked for the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import combinations

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.streams.gaps_between_streams import Client
from dcpinspect.streams.grouping import Groups, NameNumbers
from dcpinspect.streams.records import GREATEST
from dcpinspect.streams.session import Session
from dcpinspect.streams.state import KnownTables
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.verdicts import PATIENCE_NS, are_granted, failover_entries
from dcpinspect.streams.visibility import Visibility

MOST_EARLIER = 64
"""Number of earlier streams of a vbucket that are asked what the client received on them, or whether
they went on beside a later one.
"""


def networks_apart(
    links: Sequence[TcpConnection],
    sessions: Mapping[int, Session],
    tables: KnownTables,
    logs: Sequence[bytes],
) -> Sequence[TcpConnection]:
    """Returns connections; the addresses of those in a further network have its number, so that
    nobody takes its clients and servers for those of the first one.

    Networks, or captures beside each other, are one if a connection was in both. Else they may
    still show one server, as where switches or mirrors divide its connections. So they are apart
    only if an address stands for two servers. Then two connections have the same ends at one time,
    a name goes on with a vbucket beside itself, which no server allows, or failover logs of the
    same vbuckets share no uuid. ``logs``: the failover logs of the reading.
    """
    networks = _joined_networks(links, len(tables.connections))
    if len(networks.words) < 2:
        return links
    in_networks: dict[str, set[int]] = defaultdict(set)
    for link in links:
        in_networks[link.server].add(int(networks.of[link.number]))
    server_links = {
        link.number: link
        for link in links
        if len(in_networks[link.server]) > 1
        and link.number < len(tables.connections)
        and link.number in sessions
        and sessions[link.number].bucket is not None
    }
    if not server_links:
        return links
    servers = {
        number: (link.server, sessions[number].bucket) for number, link in server_links.items()
    }
    strangers = _told_apart(servers, networks, tables, logs)
    names = NameNumbers(
        {
            number: ((*server, sessions[number].name), int(networks.of[number]))
            for number, server in servers.items()
            if sessions[number].name
        },
        len(tables.connections),
    )
    for name, namesakes in _beside_each_other(names, server_links, tables).items():
        strangers[names.words[name][1]].update(names.words[number][1] for number in namesakes)
    for pair in _with_same_ends(server_links.values(), networks):
        for network in pair:
            strangers[network] |= pair - {network}
    number_of = {
        network: number
        for of_number in _members(networks, strangers).values()
        for number, members in enumerate(of_number, 1)
        for network in members
    }
    return [
        link.in_network(number)
        if (number := number_of.get(int(networks.of[link.number]), 1)) > 1
        else link
        for link in links
    ]


def _with_same_ends(links: Iterable[TcpConnection], networks: NameNumbers) -> Iterator[set[int]]:
    """Yields pairs of networks that each have a connection with the same ends at one time."""
    same_ends: dict[tuple[str, str], list[TcpConnection]] = defaultdict(list)
    for link in links:
        before = same_ends[link.client, link.server]
        for namesake in before[-MOST_EARLIER:]:
            pair = {int(networks.of[number]) for number in (link.number, namesake.number)}
            if (
                len(pair) > 1
                and namesake.first_ns <= link.last_ns
                and link.first_ns <= namesake.last_ns
            ):
                yield pair
        before.append(link)


def _joined_networks(links: Sequence[TcpConnection], connections: int) -> NameNumbers:
    """Returns the networks of connections; those that a connection was in are one.
    ``connections``: as many have numbers at least.
    """
    parents: dict[int, int] = {}

    def root(network: int) -> int:
        while (parent := parents.setdefault(network, network)) != network:
            parents[network] = network = parents[parent]
        return network

    for link in links:
        for network in link.networks[1:]:
            parents[root(network)] = root(link.networks[0])
    networks = {link.number: ("", root(link.networks[0])) for link in links if link.networks}
    return NameNumbers(networks, max([connections, *(1 + number for number in networks)]))


def _told_apart(
    servers: Mapping[int, tuple[str, str | None]],
    networks: NameNumbers,
    tables: KnownTables,
    logs: Sequence[bytes],
) -> defaultdict[int, set[int]]:
    """Returns, by number of the network, others in which failover logs of the same vbuckets of a
    server share no uuid. ``servers``: server and bucket, by number of the connection.
    """
    server_numbers = NameNumbers(servers, len(networks.of))
    connection = tables.streams.connection
    rows = np.stack(
        [
            server_numbers.of[connection],
            networks.of[connection],
            tables.streams.vbucket,
            tables.streams.log,
        ],
        axis=1,
    )
    branches: dict[int, dict[int, dict[int, set[int]]]] = defaultdict(dict)
    for server, network, vbucket, log in np.unique(rows[(rows >= 0).all(axis=1)], axis=0).tolist():
        if uuids := {uuid for uuid, _ in failover_entries(logs[log])}:
            network_branches = branches[server].setdefault(network, {})
            network_branches[vbucket] = network_branches.get(vbucket, set()) | uuids
    strangers: defaultdict[int, set[int]] = defaultdict(set)
    for server_branches in branches.values():
        for network, stranger in combinations(list(server_branches)[:MOST_EARLIER], 2):
            common_vbuckets = server_branches[network].keys() & server_branches[stranger].keys()
            if common_vbuckets and all(
                server_branches[network][vbucket].isdisjoint(server_branches[stranger][vbucket])
                for vbucket in common_vbuckets
            ):
                strangers[network].add(stranger)
                strangers[stranger].add(network)
    return strangers


def consumers_apart(
    clients: Mapping[int, Client],
    links: Mapping[int, TcpConnection],
    sessions: Mapping[int, Session],
    tables: KnownTables,
    logs: Sequence[bytes],
) -> Mapping[int, Client]:
    """Returns clients, by number of the connection; those that prove to be several consumers of one
    program are known by the whole DCP name of their first connection.

    A consumer has a vbucket on one connection to a node. So names that go on with one beside each
    other are two consumers. A name belongs to the first consumer of which it is beside no name; one
    that is beside no other at all may be anybody's. ``logs``: the failover logs of the reading.
    """
    clients = _of_each_cluster(clients, links, tables, logs)
    programs_and_names = {
        number: (
            client.name,
            f"{client.host} {client.dcp_name}"
            + client.name.removeprefix(f"{client.host} {session.service}"),
        )
        for number, client in clients.items()
        if (session := sessions.get(number)) and session.name
    }
    names = NameNumbers(programs_and_names, len(tables.connections))
    beside = _beside_each_other(names, links, tables)
    if not beside:
        return clients
    consumers = _members(names, beside)
    consumer_of: dict[int, str] = {}
    relatives: dict[str, frozenset[str]] = {}
    for program, of_program in consumers.items():
        known_by = [names.words[min(consumer)][1] for consumer in of_program]
        relatives[program] = frozenset(known_by)
        for consumer, own_name in zip(of_program, known_by, strict=True):
            consumer_of |= dict.fromkeys(consumer, own_name)
            relatives[own_name] = frozenset(
                (
                    program,
                    *(
                        other_name
                        for namesake, other_name in zip(of_program, known_by, strict=True)
                        if namesake is not consumer
                        and not all(namesake <= beside[name] for name in consumer)
                    ),
                )
            )
    renamed: dict[int, Client] = {}
    for number, client in clients.items():
        own_name = consumer_of.get(int(names.of[number]), client.name)
        renamed[number] = replace(
            client, name=own_name, relatives=relatives.get(own_name, frozenset())
        )
    return renamed


def _of_each_cluster(
    clients: Mapping[int, Client],
    links: Mapping[int, TcpConnection],
    tables: KnownTables,
    logs: Sequence[bytes],
) -> Mapping[int, Client]:
    """Returns clients; a name that stands for connections to several clusters is a consumer for
    each cluster, as it is for each bucket.

    Nodes that stream the same vbucket, while a client is on both, and whose failover logs share no
    uuid at all, are of two clusters. Another node is of the one with which it shares a uuid.
    """
    nodes = NameNumbers(
        {number: (client.name, links[number].server) for number, client in clients.items()},
        len(tables.connections),
    )
    is_read = np.array([*map(bool, map(failover_entries, logs)), False])
    beside = _beside_each_other(nodes, links, tables, of_nodes=is_read[tables.streams.log])
    if not beside:
        return clients
    node_uuids: dict[int, set[int]] = defaultdict(set)
    node_logs = np.stack([nodes.of[tables.streams.connection], tables.streams.log], axis=1)
    for node, log in np.unique(node_logs[node_logs[:, 1] >= 0], axis=0).tolist():
        node_uuids[node].update(uuid for uuid, _ in failover_entries(logs[log]))
    beside = {
        node: strangers
        for node, nodes_beside in beside.items()
        if (
            strangers := {
                stranger
                for stranger in nodes_beside
                if node_uuids[node].isdisjoint(node_uuids[stranger])
            }
        )
    }
    cluster_of: dict[int, str] = {}
    for program, clusters in _members(nodes, beside).items():
        for cluster in clusters:
            cluster_of |= dict.fromkeys(cluster, f"{program}@{nodes.words[min(cluster)][1]}")
    programs = {nodes.words[node][0] for node in beside}
    renamed: dict[int, Client] = {}
    for number, client in clients.items():
        node = int(nodes.of[number])
        relatives = [
            relative
            for relative in beside
            if nodes.words[relative][0] == client.name and node_uuids[relative] & node_uuids[node]
        ]
        name = cluster_of.get(node) or (cluster_of[relatives[0]] if relatives else "")
        renamed[number] = (
            replace(client, name=name)
            if name
            else replace(client, is_named=client.is_named and client.name not in programs)
        )
    return renamed


def _members(names: NameNumbers, beside: Mapping[int, Set[int]]) -> Mapping[str, list[set[int]]]:
    """Returns the consumers of each program, as sets of names. ``names``: of pairs of a program and
    a name. ``beside``: names that are not of one consumer.
    """
    consumers: dict[str, list[set[int]]] = defaultdict(list)
    for name in sorted(beside):
        of_program = consumers[names.words[name][0]]
        for consumer in of_program:
            if beside[name].isdisjoint(consumer):
                consumer.add(name)
                break
        else:
            of_program.append({name})
    return consumers


def _beside_each_other(
    names: NameNumbers,
    links: Mapping[int, TcpConnection],
    tables: KnownTables,
    *,
    of_nodes: BoolArray | None = None,
) -> Mapping[int, set[int]]:
    """Returns, by number of the name, other names of the program that go on with a stream of the
    same vbucket on the same node beside it. The parameters are those of ``vbuckets_beside``.
    """
    beside: dict[int, set[int]] = defaultdict(set)
    pairs = vbuckets_beside(names, links, tables, of_nodes=of_nodes)[:, :2]
    for first_name, second_name in _distinct(pairs).tolist():
        beside[first_name].add(second_name)
        beside[second_name].add(first_name)
    return beside


def vbuckets_beside(
    names: NameNumbers,
    links: Mapping[int, TcpConnection],
    tables: KnownTables,
    *,
    of_nodes: BoolArray | None = None,
) -> IntArray:
    """Returns rows of two names of a program, by number, and a vbucket that both go on with a stream
    of on the same node, one beside the other; each row once.

    ``names``: of pairs of a program and a name. ``of_nodes``: a mask of streams; the names are those
    of nodes, and connections that had such a stream go on beside each other.
    """
    streams, connections = tables.streams, tables.connections
    programs = NameNumbers(
        {name: program for name, (program, _) in enumerate(names.words)}, len(names.words)
    )
    beside = [np.zeros((0, 3), np.int64)]
    if len(programs.words) == len(names.words):
        return beside[0]
    servers = NameNumbers({number: link.server for number, link in links.items()}, len(connections))
    name, producer = names.of[streams.connection], connections.producer[streams.connection]
    is_granted = are_granted(streams) & (name >= 0) & (True if of_nodes is None else of_nodes)
    in_order = np.argsort(streams.opened.time, kind="stable")
    server = servers.of[streams.connection] if of_nodes is None else np.zeros_like(name)
    groups = Groups(
        [programs.of[name], server, producer, streams.vbucket], in_order[is_granted[in_order]]
    )
    # a client that is gone says nothing more on its connection
    until = connections.time.array[streams.connection, 1 - producer]
    if of_nodes is None:
        is_finished, is_closed = streams.finished.row > 0, streams.closed_row >= 0
        until = np.where(is_finished, np.minimum(until, streams.finished.time), until)
        until = np.where(is_closed, np.minimum(until, streams.closed_time), until)
    rows, group = groups.rows, groups.of[groups.rows]
    has_come_to_end = (streams.finished.row > 0) & (streams.reason == 0)
    later_until = np.where(has_come_to_end, GREATEST, until)
    for distance in range(1, min(int(groups.counts.max(initial=0)), MOST_EARLIER)):
        earlier, later = rows[:-distance], rows[distance:]
        both_until = np.minimum(until[earlier], later_until[later])
        is_pair = (
            (group[:-distance] == group[distance:])
            & (both_until > streams.opened.time[later] + PATIENCE_NS)
            & (name[earlier] != name[later])
        )
        pairs = np.stack([name[earlier[is_pair]], name[later[is_pair]]], axis=1, dtype=np.int64)
        vbucket = streams.vbucket[earlier[is_pair], np.newaxis]
        beside.append(_distinct(np.hstack([np.sort(pairs, axis=1), vbucket])))
    return _distinct(np.concatenate(beside))


def _distinct(rows: IntArray) -> IntArray:
    """Returns each row once, in order. NumPy loads more modules for that, if there are any."""
    return np.unique(rows, axis=0) if len(rows) else rows


class Consumers:
    """The consumers of a reading."""

    def __init__(
        self,
        tables: KnownTables,
        owners: Mapping[int, Client],
        unread: UnreadRequests,
        sight: Visibility,
    ) -> None:
        """``owners``: the consumer that each connection belongs to, by number of the connection."""
        self._tables, self.owners, self._unread, self._sight = tables, owners, unread, sight
        self.of_host: dict[str, list[int]] = defaultdict(list)
        self.of_name: dict[str, list[int]] = defaultdict(list)
        self._nameless: dict[str, list[int]] = defaultdict(list)
        self._may_be: dict[tuple[str | None, str], frozenset[int]] = {}
        for number, owner in owners.items():
            self.of_host[owner.host].append(number)
            self.of_name[owner.name].append(number)
            if not owner.is_named:
                self._nameless[owner.host].append(number)

    @cached_property
    def names(self) -> NameNumbers:
        """The consumers of the connections, as numbers."""
        names = {number: owner.name for number, owner in self.owners.items()}
        return NameNumbers(names, len(self._tables.connections))

    @cached_property
    def streams(self) -> Groups:
        """Streams by client, vbucket and stream-id, in the order in which they were opened; a hole
        may have held requests back.

        A stream whose stream-id nobody knows is alone. A proxy opens two connections of one name,
        from the producer and to the consumer, and passes on what each says: what it says on one of
        them was not asked again.
        """
        streams = self._tables.streams
        client = self.names.of[streams.connection]
        in_order = np.argsort(streams.opened.time, kind="stable")
        sid = np.where(self._unread.streams, -2 - np.arange(len(streams)), streams.sid)
        producer = self._tables.connections.producer[streams.connection]
        return Groups([client, producer, streams.vbucket, sid], in_order[client[in_order] >= 0])

    def may_be(self, connection: int) -> frozenset[int]:
        """Returns the connections of the client of a connection, and those that may be its own
        because their beginning was not captured.
        """
        owner = self.owners[connection]
        key = owner.name if owner.is_named else None, owner.host
        if key not in self._may_be:
            named = {*self.of_name[owner.name], *self._nameless[owner.host]}
            for relative in owner.relatives:
                named.update(self.of_name[relative])
            self._may_be[key] = frozenset(named if owner.is_named else self.of_host[owner.host])
        return self._may_be[key]

    def received_before(self, stream: int) -> int | None:
        """Returns the seqno, biased, up to which the client of a stream had come in the vbucket
        when it asked for the stream, on earlier ones; None where there is none, or where nobody can
        tell.
        """
        streams, sight = self._tables.streams, self._sight
        before = self.streams.before(stream, MOST_EARLIER)
        earlier = np.asarray(before, dtype=np.int64)[streams.has_position[before] != 0]
        if not 0 < len(earlier) < MOST_EARLIER:
            return None
        since_ns, until_ns = int(streams.at.time[earlier].max()), streams[stream].opened.time
        for number in earlier[
            np.isin(streams.connection[earlier], list(sight.incomplete))
        ].tolist():
            stream_record = streams[number]
            connection = int(stream_record.connection)
            if sight.ends_before(connection, until_ns) or sight.may_move(
                connection, stream_record, self._tables.snapshots
            ):
                return None
        other_connections = self.may_be(streams[stream].connection) - {
            *streams.connection[earlier].tolist()
        }
        if any(
            sight.may_stream(incomplete, since_ns, until_ns)
            for incomplete in sight.incomplete & other_connections
        ):
            return None
        return int(streams.position[earlier].max())
