"""Connections: who they are, what they negotiated, what flow control counted, and how they are."""

from __future__ import annotations

import pytest

from tests.damage import PORT
from tests.encode import encode
from tests.streams.told import Record, Seen, Told, opened, packets, tables

SERVER_PORT = PORT.to_bytes(2)


def connection(talk: Told) -> Record:
    (found,) = tables(talk).connections
    return found


def test_identity_comes_from_hello_open_and_select_bucket() -> None:
    talk = Told("x")
    talk.hello(
        '{"a":"gocbcore/10.3","i":"1/2"}',
        "JSON",
        "Collections",
        "SNAPPY",
        granted=["JSON", "Collections"],
    )
    talk.select_bucket("travel")
    talk.open("kafka:77", "producer")
    found = connection(talk)
    expected = {
        "client": "10.0.0.1:50000",
        "server": "10.0.0.2:11210",
        "name": "kafka:77",
        "agent": "gocbcore/10.3",
        "role": "producer",
        "bucket": "travel",
        "features": ["JSON", "Collections"],
        "starts": "handshake",
        "closed_by": None,
    }
    assert {key: found[key] for key in expected} == expected


def test_without_the_producer_flag_the_server_is_the_consumer() -> None:
    talk = Told("x", producer="client")
    talk.open("replication:a->b")
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(1, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    assert (seen.connections[0]["role"], seen.streams[0]["items"]) == ("consumer", 1)


def test_without_an_open_who_streams_tells_the_role() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    stream.snapshot(0, 5, "memory")
    found = connection(talk)
    assert (
        found["role"],
        found["name"],
        found["features"],
        found["window_bytes"],
        found["starts"],
    ) == (
        "producer",
        None,
        None,
        None,
        "mid-stream",
    )


def test_a_control_has_its_answer() -> None:
    talk = opened(enable_noop="true")
    talk.control("max_marker_version", "2.2", status=4)
    talk.control("set_noop_interval", "1.5")
    found = connection(talk)
    assert found["controls"] == {
        "enable_noop": {"value": "true", "status": "success"},
        "max_marker_version": {"value": "2.2", "status": "einval"},
        "set_noop_interval": {"value": "1.5", "status": "success"},
    }
    assert found["noop_interval_s"] == 1.5


def test_only_success_counts() -> None:
    talk = opened()
    talk.control("connection_buffer_size", "1000", status=4)
    assert connection(talk)["window_bytes"] == 0


def test_flow_control_counts_the_messages_of_streams_from_the_control_on() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    talk.control("connection_buffer_size", "1000")
    talk.noop()
    stream.prepare(1, "k", {})
    stream.commit(1, 2, "k")
    counted = (
        24 + 31 + 2 + 2 + 2 + 24 + 16 + 2
    )  # header, extras, key with collection, value; two more for a prepare
    found = connection(talk)
    assert (
        found["window_bytes"],
        found["counted_bytes"],
        found["acked_bytes"],
        found["outstanding_bytes"],
    ) == (1000, counted, 0, counted)
    talk.counted = 60
    talk.acknowledge()
    found = connection(talk)
    assert (found["acked_bytes"], found["outstanding_bytes"]) == (60, counted - 60)
    talk.counted = 10_000
    talk.acknowledge()
    found = connection(talk)
    assert (found["acked_bytes"], found["outstanding_bytes"]) == (10_060, 0)


def test_flow_control_counts_cached_documents_and_the_end_of_them() -> None:
    talk = opened(connection_buffer_size="1000")
    stream = talk.stream(7, flags=["cache-transfer"])
    stream.cache_transfer([{"by_seqno": 1, "rev_seqno": 1, "key": "k"}])
    transferred = connection(talk)["counted_bytes"]
    assert transferred == talk.counted > 24
    stream.cache_transfer_end()
    assert connection(talk)["counted_bytes"] == talk.counted == transferred + 24


def test_flow_control_counts_the_state_that_a_takeover_sets() -> None:
    talk = opened(connection_buffer_size="1000")
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.set_state("pending")
    assert connection(talk)["counted_bytes"] == 44 + 25
    assert tables(talk).vbuckets[0]["bytes"] == 44 + 25


@pytest.mark.parametrize(
    ("window", "expected"), [("44", "starved-by-flow-control"), ("45", "streaming")]
)
def test_a_window_is_full_when_every_byte_of_it_is_used(window: str, expected: str) -> None:
    talk = opened(connection_buffer_size=window)
    talk.stream(7).snapshot(0, 1, "memory")
    found = connection(talk)
    assert (found["outstanding_bytes"], found["verdict"]) == (44, expected)


def test_a_window_is_not_known_where_the_answer_to_it_may_be_lost() -> None:
    talk = opened()
    talk.send("client", encode("dcp_control", opaque=9, key="connection_buffer_size", value="1000"))
    with talk.lost():
        talk.answer("dcp_control", 9)
    talk.close()
    found = connection(talk)
    assert (found["window_bytes"], found["outstanding_bytes"]) == (None, None)


@pytest.mark.parametrize("is_last", [False, True])
def test_a_window_is_not_known_where_another_may_have_been_asked_for(is_last: bool) -> None:
    talk = opened(connection_buffer_size="1000")
    with talk.lost():
        talk.send(
            "client", encode("dcp_control", opaque=9, key="connection_buffer_size", value="2000")
        )
    if not is_last:
        talk.send("client", encode("noop", opaque=1))
    talk.close()
    found = connection(talk)
    assert (found["window_bytes"], found["outstanding_bytes"]) == (None, None)


def test_another_window_changes_nothing_about_the_balance_and_none_at_all_resets_it() -> None:
    talk = opened(connection_buffer_size="1000")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    talk.control("connection_buffer_size", "2000")
    assert (connection(talk)["window_bytes"], connection(talk)["counted_bytes"]) == (2000, 44)
    talk.control("connection_buffer_size", "0")
    assert (connection(talk)["window_bytes"], connection(talk)["counted_bytes"]) == (0, 0)


def test_after_a_loss_the_balance_is_not_known() -> None:
    talk = opened(connection_buffer_size="1000")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        stream.mutation(1, "k")
    for seqno in range(2, 8):
        stream.mutation(seqno, "k")
    found = connection(talk)
    assert (found["outstanding_bytes"], found["holes"]) == (None, 1)


def test_never_opened_and_refused() -> None:
    talk = Told("x")
    talk.hello("app/1", "JSON")
    assert connection(talk)["verdict"] == "without-dcp"
    talk.open("x", "producer", status=0x24)
    assert connection(talk)["verdict"] == "refused"


def test_never_opened_and_refused_though_it_is_closed() -> None:
    talk = Told("x")
    talk.hello("app/1", "JSON")
    talk.close()
    assert connection(talk)["verdict"] == "without-dcp"
    talk = Told("x")
    talk.open("x", "producer", status=0x24)
    talk.close()
    assert connection(talk)["verdict"] == "refused"


def test_an_open_may_be_lost() -> None:
    talk = Told("x")
    with talk.lost():
        talk.open("x", "producer")
    talk.hello("app/1", "JSON")
    assert connection(talk)["verdict"] == "unknown-capture"


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("abort", [False, True])
def test_closed_by_who_sent_the_first_fin_or_reset(side: str, abort: bool) -> None:
    talk = opened()
    talk.close(side, abort=abort)  # type: ignore[arg-type] # a side
    found = connection(talk)
    assert (found["verdict"], found["closed_by"]) == ("closed", side)


def test_a_connection_whose_place_another_took_is_closed_by_nobody_known() -> None:
    one, other = opened(), opened()
    one.stream(7)
    first, second = tables(one, other).connections
    assert (first["verdict"], first["closed_by"], second["verdict"]) == ("closed", None, "idle")
    assert tables(one, other).streams[0]["end_reason"] == "connection-closed"


def test_a_connection_whose_client_came_again_went_on_unseen() -> None:
    old, new = opened("x"), opened("x", port=50_001)
    for talk in (old, new):
        talk.stream(7).snapshot(0, 5, "memory")
    found = tables(old, new)
    assert [one["verdict"] for one in found.connections] == ["unknown-capture", "streaming"]
    assert [one["verdict"] for one in found.streams] == ["unknown-capture", "advancing"]
    assert [one["state"] for one in found.snapshots] == ["unknown", "open"]
    assert [one["verdict"] for one in tables(old).connections] == ["streaming"]


def test_streaming_while_a_snapshot_is_open_else_idle() -> None:
    talk = opened()
    stream = talk.stream(7)
    assert connection(talk)["verdict"] == "idle"
    stream.snapshot(0, 1, "memory")
    assert connection(talk)["verdict"] == "streaming"
    stream.mutation(1, "k")
    assert connection(talk)["verdict"] == "idle"


def test_a_full_window_starves_the_connection() -> None:
    talk = opened(connection_buffer_size="40")
    talk.stream(7).snapshot(0, 1, "memory")
    assert connection(talk)["verdict"] == "starved-by-flow-control"


def test_a_noop_that_is_never_answered_is_the_end() -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    talk.send("server", encode("dcp_noop", opaque=9))
    talk.wait(2.5)
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "noop-dead"


def test_the_answer_to_a_noop_may_be_lost_or_late_as_others_were() -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    talk.send("server", encode("dcp_noop", opaque=8))
    talk.wait(1)
    talk.answer("dcp_noop", 8, by="client")
    talk.send("server", encode("dcp_noop", opaque=9))
    talk.wait(9)
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "idle"
    with talk.lost():
        talk.answer("dcp_noop", 9, by="client")
    talk.wait(30)
    talk.send("client", encode("noop", opaque=2))
    assert connection(talk)["verdict"] == "idle"


def test_a_noop_that_is_never_answered_is_the_end_though_a_snapshot_is_open() -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    talk.stream(7).snapshot(0, 1, "memory")
    talk.send("server", encode("dcp_noop", opaque=9))
    talk.wait(30)
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "noop-dead"


def test_many_noops_that_are_never_answered_are_the_end() -> None:
    """Each newer one has waited for a short time only."""
    talk = opened(enable_noop="true", set_noop_interval="1")
    for opaque in range(9, 13):
        talk.send("server", encode("dcp_noop", opaque=opaque))
        talk.wait(1)
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "noop-dead"


def test_a_client_of_which_nothing_was_captured_may_have_answered() -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    for opaque in range(9, 13):
        talk.send("server", encode("dcp_noop", opaque=opaque))
        talk.wait(30)
    of_server = [packet for packet in packets(talk) if packet.data[34:36] == SERVER_PORT]
    (found,) = Seen(of_server).connections
    assert found["verdict"] == "idle"


def test_noops_that_are_answered_are_not_the_end() -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    for _ in range(3):
        talk.noop()
        talk.wait(30)
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "idle"


def test_a_full_window_comes_before_a_noop_that_is_never_answered() -> None:
    talk = opened(enable_noop="true", set_noop_interval="1", connection_buffer_size="40")
    talk.stream(7).snapshot(0, 1, "memory")
    talk.send("server", encode("dcp_noop", opaque=9))
    talk.wait(30)
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "starved-by-flow-control"


def test_closed_whatever_was_lost_before() -> None:
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        stream.snapshot(0, 1, "memory")
    talk.close()
    assert connection(talk)["verdict"] == "closed"


def test_a_loss_up_to_the_end_leaves_the_connection_unknown() -> None:
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        stream.snapshot(0, 1, "memory")
    talk.send("client", encode("noop", opaque=1))
    assert connection(talk)["verdict"] == "unknown-capture"
