"""Where vbuckets moved to, by what servers said of it, and what nobody asked for again there."""

from __future__ import annotations

import json

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.statuses import Status
from tests.findings.checked import findings
from tests.streams.told import Told, opened


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=["orphaned-vbucket"])


NODES = {"node1": "10.0.0.2:11210", "node2": "10.0.0.3:11210", "node3": "10.0.0.4:11210"}


def moved(
    again: str, back: int, left: int, *, node: str = "", as_named: str = "", by: str = "second"
) -> list[Told]:
    """Vbuckets move; the client reopens some of them at the node ``again``.

    ``node``: where the map that it is sent then has the others, if it is sent one.
    """
    first, second = opened("dcp:1"), opened("dcp:1", port=50_001)
    second.server = "node2"
    for stream in [first.stream(number) for number in range(back + left)]:
        stream.end("state-changed")
    nodes = {"node1": first, "node2": second}
    for number in range(back):
        nodes[again].stream(number)
    if node:
        names = [as_named.format(name) if as_named else address for name, address in NODES.items()]
        chains = [
            [[*NODES].index(again if number < back else node)] for number in range(back + left)
        ]
        document = {"vBucketServerMap": {"serverList": names, "vBucketMap": chains}}
        if by == "refused":
            second.stream(
                999,
                status=Status.NOT_MY_VBUCKET,
                reply={"value": json.dumps(document), "datatype": 1},
            )
        else:
            second.ask("get_cluster_config", {"value": json.dumps(document), "datatype": 1})
    second.wait(10)
    second.noop()
    return [first, second]


@pytest.mark.parametrize(
    ("again", "back", "left", "is_told"),
    [
        *[("node1", 1, 3, False), ("node1", 3, 1, True), ("node1", 0, 3, False)],
        *[
            ("node2", 1, 3, False),
            ("node2", 20, 20, False),
            ("node2", 3, 1, False),
            ("node2", 30, 1, True),
            ("node2", 200, 4, True),
        ],
    ],
)
def test_a_few_that_came_back_do_not_show_where_the_others_moved_to(
    again: str, back: int, left: int, is_told: bool
) -> None:
    assert sum(one.count for one in found(*moved(again, back, left))) == left * is_told


@pytest.mark.parametrize(
    ("node", "back", "is_told"),
    [("node2", 1, True), ("node2", 0, False), ("node3", 30, False), ("node1", 30, True)],
)
def test_a_cluster_map_tells_where_they_moved_to(node: str, back: int, is_told: bool) -> None:
    """One that still names the node that they left was made before they moved, so it tells
    nothing.
    """
    assert [one.vbuckets for one in found(*moved("node2", back, 1, node=node))] == [
        (back,)
    ] * is_told


def test_a_node_that_does_not_have_a_vbucket_sends_the_map_too() -> None:
    assert [one.vbuckets for one in found(*moved("node2", 1, 1, node="node2", by="refused"))] == [
        (1,)
    ]
    assert found(*moved("node2", 30, 1, node="node3", by="refused")) == []


def test_a_cluster_map_with_other_names_than_the_capture_tells_nothing() -> None:
    assert found(*moved("node2", 1, 1, node="node2", as_named="{}.example:11210")) == []
    assert len(found(*moved("node2", 30, 1, node="node3", as_named="{}.example:11210"))) == 1


def test_a_node_that_lists_a_vbucket_as_active_has_it() -> None:
    talks = moved("node2", 1, 1)
    talks[1].ask(
        "get_all_vb_seqnos",
        {"seqnos": [{"vbucket": vbucket, "seqno": 0} for vbucket in (0, 1)]},
        state="active",
    )
    talks[1].wait(10)
    talks[1].noop()
    assert [one.vbuckets for one in found(*talks)] == [(1,)]


@pytest.mark.parametrize(("marked", "is_told"), [(True, True), (False, False)])
def test_a_node_that_marks_its_own_name_in_the_map_is_known_by_it(
    marked: bool, is_told: bool
) -> None:
    talks = moved("node2", 1, 1)
    for number, talk in enumerate(talks):
        document = {
            "vBucketServerMap": {
                "serverList": ["a.example:11210", "b.example:11210"],
                "vBucketMap": [[1], [1]],
            },
            "nodesExt": [{"thisNode": True} if marked and at == number else {} for at in (0, 1)],
        }
        talk.ask("get_cluster_config", {"value": json.dumps(document), "datatype": 1})
    talks[1].wait(10)
    talks[1].noop()
    assert [one.vbuckets for one in found(*talks)] == [(1,)] * is_told


@pytest.mark.parametrize(
    ("seconds", "then", "is_told"), [(6, 40, True), (1, 40, False), (6, 3, False)]
)
def test_a_vbucket_that_stays_by_a_later_map_has_to_be_reopened(
    seconds: float, then: float, is_told: bool
) -> None:
    talk = opened("dcp:1")
    lost, other = talk.stream(0), talk.stream(1)
    lost.end("state-changed")
    talk.wait(seconds)
    document = {
        "vBucketServerMap": {"serverList": [NODES["node1"]], "vBucketMap": [[0], [0]]},
    }
    talk.ask("get_cluster_config", {"value": json.dumps(document), "datatype": 1})
    talk.wait(then)
    other.snapshot(0, 5, "memory")
    assert [one.vbuckets for one in found(talk)] == [(0,)] * is_told
