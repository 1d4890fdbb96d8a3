"""Cluster maps: who has which vbucket."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.streams.cluster_map import ClusterMaps, active_nodes


def cluster_map(servers: list[str], chains: list[list[int]]) -> bytes:
    return json.dumps(
        {"rev": 7, "vBucketServerMap": {"serverList": servers, "vBucketMap": chains}}
    ).encode()


def test_the_first_of_a_chain_has_the_vbucket_active() -> None:
    assert active_nodes(
        cluster_map(["$HOST:11210", "b:11210"], [[0, 1], [1, 0], [-1, 0], [1]])
    ) == {
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
        cluster_map(["a"], [[]]),
        b"[" * 100_000,
        b'{"vBucketServerMap": {}}',
    ],
)
def test_what_is_no_map_lists_nothing(text: bytes) -> None:
    assert active_nodes(text) == {}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_stands_there_is_no_exception(value: object) -> None:
    active_nodes(json.dumps({"vBucketServerMap": value}).encode())
    active_nodes(
        json.dumps({"vBucketServerMap": {"serverList": value, "vBucketMap": value}}).encode()
    )


def test_a_map_that_is_longer_than_any_lists_nothing() -> None:
    text = cluster_map(["a:1"], [[0]])
    assert active_nodes(text + b" " * (1 << 22)) == {}
    assert ClusterMaps().nodes(text + b" " * (1 << 22)) == {}


def test_maps_that_come_again_are_the_same_and_few_are_kept() -> None:
    maps = ClusterMaps()
    texts = [cluster_map([f"node{number}:1"], [[0]]) for number in range(9)]
    first = maps.nodes(texts[0])
    assert maps.nodes(texts[0]) is first
    assert [maps.nodes(text)[0] for text in texts] == [f"node{number}:1" for number in range(9)]
    assert maps.nodes(texts[0]) == first
    assert maps.nodes(texts[0]) is not first
