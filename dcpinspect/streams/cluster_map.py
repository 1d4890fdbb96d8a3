"""Which node has which vbucket, as a server's cluster map says it: in answers to who asks for it, and to who asked the wrong node."""

from __future__ import annotations

import json
from typing import Any

_MOST = 1 << 10
"""Vbuckets, and nodes: buckets have no more."""
_MOST_TEXT = 255
_LONGEST = 1 << 22
"""Bytes of a map that is read; those of the largest buckets have some tens of thousands."""
_KEPT = 4
"""Maps that are kept: many answers have the same."""


def active_nodes(text: bytes) -> dict[int, str]:
    """Address of the node that has each vbucket active, by vbucket; those that no node has are left out. Empty for what is no map.

    Source: the bucket configuration in terse form, ``vBucketServerMap``, which names nodes once and lists by vbucket their numbers, the
    active one first, -1 for none.
    """
    if len(text) > _LONGEST:
        return {}
    try:
        found: Any = json.loads(text)
        servers, vbuckets = found["vBucketServerMap"]["serverList"], found["vBucketServerMap"]["vBucketMap"]
        names = [str(server)[:_MOST_TEXT] for server in servers[:_MOST]]
        chains = [chain[0] for chain in vbuckets[:_MOST]]
        return {vbucket: names[node] for vbucket, node in enumerate(chains) if 0 <= node < len(names)}
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        return {}


class ClusterMaps:
    """The maps that were read last, by what they are made of."""

    def __init__(self) -> None:
        self._kept: dict[bytes, dict[int, str]] = {}

    def nodes(self, text: bytes) -> dict[int, str]:
        """As ``active_nodes``; not to be changed."""
        found = self._kept.pop(text, None)
        if found is None:
            found = active_nodes(text)
        if len(text) <= _LONGEST:
            self._kept[text] = found
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return found
