"""Which node has which vbucket, as a server's cluster map says it."""

from __future__ import annotations

import json
from typing import Any

_MOST = 1 << 10
"""Vbuckets, and nodes: buckets have no more."""
_MOST_TEXT = 255


def active_nodes(text: bytes) -> dict[int, str]:
    """Address of the node that has each vbucket active, by vbucket; those that no node has are left out. Empty for what is no map.

    Source: the bucket configuration in terse form, ``vBucketServerMap``, which names nodes once and lists by vbucket their numbers, the
    active one first, -1 for none.
    """
    try:
        found: Any = json.loads(text)
        servers, vbuckets = found["vBucketServerMap"]["serverList"], found["vBucketServerMap"]["vBucketMap"]
        names = [str(server)[:_MOST_TEXT] for server in servers[:_MOST]]
        chains = [chain[0] for chain in vbuckets[:_MOST]]
        return {vbucket: names[node] for vbucket, node in enumerate(chains) if 0 <= node < len(names)}
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        return {}
