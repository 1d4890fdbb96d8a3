"""What clients do about connections and nodes: cases 12, 15 and 26."""

from __future__ import annotations

from pathlib import Path

from dcpinspect.protocol.statuses import Status
from tests.cases.told import Case
from tests.encode import encode
from tests.peers.script import text
from tests.streams.told import Told, opened


def test_12_noops_have_to_be_on_before_the_first_stream(tmp_path: Path) -> None:
    """couchbaselabs/dcp-documentation#26: a stream request with collections is not supported while
    noops are off.
    """
    talk = opened()
    talk.stream(7, status=Status.NOT_SUPPORTED)
    case = Case(tmp_path, talk)
    assert case.accusations == ["noop-required"]
    assert case.shows("noop-required") == ["stream_req", "stream_req answer"]
    assert case.finding("noop-required").next == (
        "turn noops on in the client's settings; a client has to set enable_noop to true before"
        " the first stream request"
    )


def test_12_a_noop_answered_with_another_opaque(tmp_path: Path) -> None:
    """gocbcore 5518977: the server disconnects after every interval, although each noop is
    answered.
    """
    talk = nooped()
    talk.send("server", encode("dcp_noop", opaque=0x11))
    talk.answer("dcp_noop", 0x11000000, by="client")
    talk.wait(20)
    talk.close("server")
    case = Case(tmp_path, talk)
    found = case.finding("noop-opaque")
    assert case.accusations == ["noop-opaque"]
    assert found.message == "noop 0x00000011 answered with opaque 0x11000000"
    assert case.shows("noop-opaque") == ["noop answer", "noop"]
    assert found.next == (
        "report the client's version to its author; it has to repeat the four bytes of the "
        "opaque, because a server closes the connection when it gets another"
    )
    (told,) = case.tables.connections.records()
    assert told["closed_by"] == "server"


def test_12_a_noop_that_is_not_answered(tmp_path: Path) -> None:
    """couchbaselabs/dcp-documentation#35: a client that is busy with data has no time for noops."""
    talk = nooped()
    talk.noop()
    talk.wait(20)
    talk.send("server", encode("dcp_noop", opaque=0x11))
    talk.wait(20)
    talk.close("server")
    case = Case(tmp_path, talk)
    found = case.finding("noop-unanswered")
    assert case.accusations == ["noop-unanswered"]
    assert found.severity == "error"
    assert (
        found.message
        == "noop with opaque 0x00000011 unanswered for 20.0 s, then the server closed the connection"
    )
    assert case.shows("noop-unanswered") == ["noop"]
    assert found.next == (
        "look for what stops the client, and restart it if it does not go on; a client has to answer noops at once, "
        "and not after data that it processes"
    )


def nooped() -> Told:
    """A client that reads a vbucket and is about to be asked whether it is there."""
    talk = opened(enable_noop="true", set_noop_interval="20")
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "k")
    talk.wait(20)
    return talk


def test_15_two_connections_with_one_name(tmp_path: Path) -> None:
    """couchbase/sync_gateway#2514: the end of the connection right after the start, again and
    again.
    """
    first, second = opened("importer:1", port=41_212), Told("importer:1", port=50_110)
    first.wait(1.003)
    first.close("server")
    second.wait(1)
    second.hello("importer/1", "Collections")
    second.open("importer:1", "producer")
    second.stream(7)
    case = Case(tmp_path, first, second, at_once=True)
    found = case.finding("name-clash")
    assert case.accusations == ["name-clash"]
    assert found.connections == (1, 2)
    assert found.message.startswith(
        "name importer:1 opened by connection 2 while connection 1 held it; server closed "
        "connection 1 after 3.0 ms"
    )
    assert case.shows("name-clash")[:2] == ["open", "open"]
    assert found.next == (
        "look for a second instance of this client with the same name; a client should make its"
        " names unique, for instance with a uuid"
    )


def test_26_streams_on_one_node_only(tmp_path: Path) -> None:
    """couchbase/couchbase-kafka-connector#13: mutations are missing with several nodes."""
    servers, chains = (
        ["$HOST:11210", "10.0.0.8:11210", "10.0.0.9:11210"],
        [[vbucket % 3, -1] for vbucket in range(1024)],
    )
    nodes = {"serverList": servers, "vBucketMap": chains}
    talk = opened()
    talk.ask(
        "get_cluster_config", {"value": text({"rev": 1, "vBucketServerMap": nodes}), "datatype": 1}
    )
    for vbucket in range(0, 1024, 3):
        talk.stream(vbucket)
    talk.wait(10)
    talk.noop()
    case = Case(tmp_path, talk)
    found = case.finding("vbuckets-not-requested")
    assert case.accusations == []
    assert found.message.startswith("342 of 1,024 vbuckets requested; missing: 1–2, 4–5, ")
    assert case.shows("vbuckets-not-requested") == ["get_cluster_config answer", "stream_req"]
