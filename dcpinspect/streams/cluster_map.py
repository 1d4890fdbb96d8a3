"""Which node has which vbucket, by a server's cluster map. Servers send the map to clients that ask
for it, or that asked the wrong node.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

_MOST = 1 << 10
"""Greatest number of vbuckets, and of nodes, that are read: buckets have no more."""
_MOST_TEXT = 255
_LONGEST = 1 << 22
"""Greatest size of a map that is read, in bytes; the largest buckets' have tens of thousands."""
_KEPT = 4
"""Number of maps that are kept: many answers have the same map."""
_SAME_HOST = "$HOST"
"""Stands for the host that was asked."""


class ClusterMap(NamedTuple):
    """Where vbuckets are active."""

    nodes: Mapping[int, str]
    """The address of the node that has each vbucket, by vbucket."""
    own: str = ""
    """The address by which the server that sent the map calls itself; empty if it does not say."""


def cluster_map(text: bytes) -> ClusterMap:
    """Returns the map that a text is; one without vbuckets if it is none.

    Vbuckets that no node has are left out. Source: the bucket configuration in terse form,
    ``vBucketServerMap``. It names nodes once, and lists by vbucket their numbers, the active one
    first, -1 for none. ``nodesExt`` has the same nodes first, and marks the one that answers.
    """
    if len(text) > _LONGEST:
        return ClusterMap({})
    try:
        document: Any = orjson.loads(text)
        servers = document["vBucketServerMap"]["serverList"]
        vbuckets = document["vBucketServerMap"]["vBucketMap"]
        names = [str(server)[:_MOST_TEXT] for server in servers[:_MOST]]
        chains = [chain[0] for chain in vbuckets[:_MOST]]
        own = [
            name
            for name, node in zip(names, document.get("nodesExt", ()), strict=False)
            if node.get("thisNode") is True
        ]
        nodes = {
            vbucket: names[node] for vbucket, node in enumerate(chains) if 0 <= node < len(names)
        }
        return ClusterMap(nodes, own[0] if len(own) == 1 else "")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return ClusterMap({})


class ClusterMaps:
    """The maps that were read last, by their texts."""

    def __init__(self) -> None:
        self._kept: dict[bytes, ClusterMap] = {}

    def read(self, text: bytes, redactor: Redactor | None = None) -> ClusterMap:
        """Returns the map as ``cluster_map`` does; callers must not change it. ``redactor``:
        replaces names of hosts; always the same redactor.
        """
        read_map = self._kept.pop(text, None)
        if read_map is None:
            read_map = cluster_map(text)
            if redactor is not None:
                names = {*read_map.nodes.values(), read_map.own}
                shown_node = {node: _shown_node(node, redactor) for node in names if node}
                nodes = {vbucket: shown_node[node] for vbucket, node in read_map.nodes.items()}
                read_map = ClusterMap(nodes, shown_node.get(read_map.own, ""))
        if len(text) <= _LONGEST:
            self._kept[text] = read_map
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return read_map


def _shown_node(node: str, redactor: Redactor) -> str:
    """Returns a node with its host's name replaced; addresses are no names, so they stay."""
    host, colon, port = node.rpartition(":")
    host, port = (host, port) if port.isdecimal() else (node, "")
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return node if host == _SAME_HOST else f"{redactor.text(host)}{colon if port else ''}{port}"
    return node
