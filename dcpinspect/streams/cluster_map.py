"""Which node has which vbucket, by a server's cluster map. Servers send the map to clients that ask
for it, or that asked the wrong node.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

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


def active_nodes(text: bytes) -> dict[int, str]:
    """Returns the address of the node that has each vbucket active, by vbucket; empty if ``text``
    is no map.

    Vbuckets that no node has are left out. Source: the bucket configuration in terse form,
    ``vBucketServerMap``. It names nodes once, and lists by vbucket their numbers, the active one
    first, -1 for none.
    """
    if len(text) > _LONGEST:
        return {}
    try:
        cluster_map: Any = orjson.loads(text)
        servers = cluster_map["vBucketServerMap"]["serverList"]
        vbuckets = cluster_map["vBucketServerMap"]["vBucketMap"]
        names = [str(server)[:_MOST_TEXT] for server in servers[:_MOST]]
        chains = [chain[0] for chain in vbuckets[:_MOST]]
        return {
            vbucket: names[node] for vbucket, node in enumerate(chains) if 0 <= node < len(names)
        }
    except (ValueError, KeyError, TypeError, IndexError):
        return {}


class ClusterMaps:
    """The maps that were read last, by their texts."""

    def __init__(self) -> None:
        self._kept: dict[bytes, dict[int, str]] = {}

    def nodes(self, text: bytes, redactor: Redactor | None = None) -> dict[int, str]:
        """Returns the map as ``active_nodes`` does; callers must not change it. ``redactor``:
        replaces names of hosts; always the same redactor.
        """
        node_of = self._kept.pop(text, None)
        if node_of is None:
            node_of = active_nodes(text)
            if redactor is not None:
                shown_node = {node: _shown_node(node, redactor) for node in set(node_of.values())}
                node_of = {vbucket: shown_node[node] for vbucket, node in node_of.items()}
        if len(text) <= _LONGEST:
            self._kept[text] = node_of
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return node_of


def _shown_node(node: str, redactor: Redactor) -> str:
    """Returns a node with its host's name replaced; addresses are no names, so they stay."""
    host, colon, port = node.rpartition(":")
    host, port = (host, port) if port.isdecimal() else (node, "")
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return node if host == _SAME_HOST else f"{redactor.text(host)}{colon if port else ''}{port}"
    return node
