"""Cluster maps: who has which vbucket."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.streams.cluster_map import ClusterMaps, cluster_map


def document(servers: list[str], chains: list[list[int]], **more: object) -> bytes:
    return json.dumps(
        {"rev": 7, "vBucketServerMap": {"serverList": servers, "vBucketMap": chains}, **more}
    ).encode()


def test_the_first_of_a_chain_has_the_vbucket_active() -> None:
    assert cluster_map(
        document(["$HOST:11210", "b:11210"], [[0, 1], [1, 0], [-1, 0], [1]])
    ).nodes == {
        0: "$HOST:11210",
        1: "b:11210",
        3: "b:11210",
    }


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"vBucketServerMap": 3}',
        document(["a"], [[]]),
        b"[" * 100_000,
        b'{"vBucketServerMap": {}}',
    ],
)
def test_what_is_no_map_lists_nothing(text: bytes) -> None:
    assert cluster_map(text).nodes == {}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_stands_there_is_no_exception(value: object) -> None:
    cluster_map(json.dumps({"vBucketServerMap": value}).encode())
    servers = {"serverList": value, "vBucketMap": value}
    cluster_map(json.dumps({"vBucketServerMap": servers, "nodesExt": value}).encode())
    cluster_map(document(["a:1"], [[0]], nodesExt=value))


@pytest.mark.parametrize(
    ("marked", "own"),
    [([0], "a:1"), ([1], "b:1"), ([2], ""), ([], ""), ([0, 1], "")],
)
def test_a_server_says_which_name_is_its_own(marked: list[int], own: str) -> None:
    nodes = [{"services": {"kv": 1}} for _ in range(3)]
    extended = [
        {**node, "thisNode": True} if number in marked else node
        for number, node in enumerate(nodes)
    ]
    assert cluster_map(document(["a:1", "b:1"], [[0], [1]], nodesExt=extended)).own == own


def test_a_map_that_is_longer_than_any_lists_nothing() -> None:
    text = document(["a:1"], [[0]])
    assert cluster_map(text + b" " * (1 << 22)).nodes == {}
    assert ClusterMaps().read(text + b" " * (1 << 22)).nodes == {}


def test_maps_that_come_again_are_the_same_and_few_are_kept() -> None:
    maps = ClusterMaps()
    texts = [document([f"node{number}:1"], [[0]]) for number in range(9)]
    first = maps.read(texts[0])
    assert maps.read(texts[0]) is first
    assert [maps.read(text).nodes[0] for text in texts] == [
        f"node{number}:1" for number in range(9)
    ]
    assert maps.read(texts[0]) == first
    assert maps.read(texts[0]) is not first
