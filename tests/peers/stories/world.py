"""What the stories have in common: a bucket, its cluster, its collections, its documents."""

from __future__ import annotations

from typing import Any

from tests.peers.script import text

BUCKET = "travel"

FRUIT, VEGETABLE, ARCHIVE = 0x08, 0x09, 0x0A
"""Collections of the scope ``market``."""
MARKET = 0x08
"""The scope."""

MANIFEST: dict[str, Any] = {
    "uid": "4",
    "scopes": [
        {"name": "_default", "uid": "0", "collections": [{"name": "_default", "uid": "0"}]},
        {
            "name": "market",
            "uid": "8",
            "collections": [
                {"name": "fruit", "uid": "8"},
                {"name": "vegetable", "uid": "9", "maxTTL": 86400, "history": True},
            ],
        },
    ],
}


def cluster_config(revision: int, *nodes: str) -> str:
    """A cluster map, as small as one with 8 vbuckets can be."""
    return text(
        {
            "rev": revision,
            "revEpoch": 1,
            "name": BUCKET,
            "nodeLocator": "vbucket",
            "nodesExt": [
                {"hostname": node, "services": {"kv": 11210, "mgmt": 8091}} for node in nodes
            ],
            "vBucketServerMap": {
                "hashAlgorithm": "CRC",
                "numReplicas": 1,
                "serverList": [f"{node}:11210" for node in nodes],
                "vBucketMap": [[n % len(nodes), (n + 1) % len(nodes)] for n in range(8)],
            },
        }
    )


ERROR_MAP = text(
    {
        "version": 2,
        "revision": 1,
        "errors": {
            "1": {"name": "KEY_ENOENT", "desc": "Not Found", "attrs": ["item-only"]},
            "7": {
                "name": "NOT_MY_VBUCKET",
                "desc": "Server does not know about this vBucket",
                "attrs": ["fetch-config", "invalid-vbid"],
            },
            "23": {"name": "ROLLBACK", "desc": "Rollback required", "attrs": ["dcp"]},
        },
    }
)


def order(number: int, items: int = 2) -> dict[str, Any]:
    """A document whose size grows by about 60 bytes an item."""
    goods = ("apple", "pear", "plum", "quince", "leek", "carrot", "fennel")
    return {
        "type": "order",
        "number": number,
        "customer": f"customer::{number * 37 % 997:04d}",
        "items": [
            {
                "sku": f"{goods[(number + n) % 7]}-{n:03d}",
                "quantity": (number + n) % 9 + 1,
                "price": (number * 13 + n * 7) % 900 / 100,
            }
            for n in range(items)
        ],
        "paid": number % 3 == 0,
    }


def login(user: str = "app") -> str:
    """The password of a user of the stories."""
    return f"{user}-secret"
