"""Samples have the tables that their stories tell; looking on the way changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.streams.records import Streams
from dcpinspect.streams.tables import Tables
from dcpinspect.streams.verdicts import number_streams
from tests.findings.checked import findings
from tests.peers import truth
from tests.peers.script import Stream
from tests.streams.told import ANOMALIES, Seen, Told, opened, packets, tables

SAMPLES = Path(__file__).parents[2] / "sample_captures"
EVENTS = {
    "dcp_mutation",
    "dcp_deletion",
    "dcp_expiration",
    "dcp_system_event",
    "dcp_prepare",
    "dcp_commit",
    "dcp_abort",
}


def read(name: str) -> tuple[Tables, list[str]]:
    with Reading([str(SAMPLES / name)], track=True) as reading:
        state = reading.tracker.state
        anomalies = [code for _ in reading for code in state.used(state.anomalies).code.tolist()]
        return reading.tables, [ANOMALIES[code] for code in anomalies]


def records(tables: Tables, name: str) -> list[dict[str, Any]]:
    return tables.by_name[name].records()


@pytest.mark.parametrize(
    "name",
    [
        "tour.pcapng",
        "rollback.pcap",
        "snapshots.pcap",
        "lossy.pcap",
        "any.pcap",
        "capture-loss.pcap",
        "midstream.pcap",
    ],
)
def test_nothing_in_a_legal_sample_is_out_of_order(name: str) -> None:
    tables, anomalies = read(name)
    assert anomalies == []
    assert not [gap for gap in records(tables, "gaps") if gap["cause"] == "unexplained"]


@pytest.mark.parametrize(
    "name", ["tour.pcapng", "rollback.pcap", "snapshots.pcap", "lossy.pcap", "any.pcap"]
)
def test_items_are_as_many_as_were_sent(name: str) -> None:
    tables, _ = read(name)
    messages = [
        message
        for connection in truth.load(name.partition(".")[0])
        for message in (*connection.c2s, *connection.s2c)
    ]
    sent = Counter(
        int.from_bytes(one.data[6:8], "big")
        for one in messages
        if one.name in EVENTS and one.data is not None
    )
    found = Counter[int]()
    for stream in records(tables, "streams"):
        found[stream["vbucket"]] += stream["items"]
    assert +found == sent


def test_every_lost_frame_is_a_capture_loss_and_nothing_else_is() -> None:
    tables, _ = read("capture-loss.pcap")
    assert {gap["cause"] for gap in records(tables, "gaps")} == {"capture-loss"}
    tables, _ = read("lossy.pcap")
    assert "capture-loss" not in {gap["cause"] for gap in records(tables, "gaps")}


def test_the_client_of_the_rollback_gives_back_what_the_new_branch_does_not_have() -> None:
    tables, _ = read("rollback.pcap")
    found = [
        (gap["vbucket"], gap["after_seqno"], gap["before_seqno"])
        for gap in records(tables, "gaps")
        if gap["cause"] == "rollback"
    ]
    assert found == [(7, 50, 61), (9, 0, 26), (10, 0, 13)]
    vbuckets = {
        one["vbucket"]: (one["streams"], one["rollbacks"], one["connections"])
        for one in records(tables, "vbuckets")
    }
    assert vbuckets == {7: (3, 1, [1, 2]), 8: (2, 0, [1, 2]), 9: (3, 1, [1, 2]), 10: (3, 1, [1, 2])}


def test_looking_at_the_tables_on_the_way_changes_nothing() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")], track=True) as reading:
        for _ in reading:
            reading.tables  # noqa: B018 - looked at
        looked = {name: table.records() for name, table in reading.tables.by_name.items()}
    assert looked == {
        name: table.records() for name, table in read("tour.pcapng")[0].by_name.items()
    }


def test_tables_are_made_only_where_they_are_wanted() -> None:
    with (
        Reading([str(SAMPLES / "any.pcap")]) as reading,
        pytest.raises(ValueError, match="does not track"),
    ):
        reading.tables  # noqa: B018 - raises


def test_a_reading_without_messages_has_tables_all_the_same(tmp_path: Path) -> None:
    from tests import builders

    path = builders.capture(tmp_path / "a.pcap")
    with Reading([str(path)], track=True) as reading:
        list(reading)
        assert [len(table) for table in reading.tables.by_name.values()] == [1, 0, 0, 0, 0, 0]
        assert records(reading.tables, "connections")[0]["verdict"] == "without-dcp"


@pytest.mark.slow
def test_anomalies_nobody_asks_for_do_not_pile_up() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for _ in range(2000):
        stream.mutation(5, "k")
    seen = Seen(packets(talk), [8] * 1000)
    assert len(seen.anomalies) >= 1999
    assert len(seen.tracker.state.anomalies) == 64


def overlapping(talk: Told) -> tuple[str, list[str]]:
    """State of a snapshot that is merged with the next one, as replicas do, and what is said of
    it.
    """
    stream = talk.stream(7)
    stream.snapshot(0, 10, "memory")
    stream.mutation(8, "a")
    stream.snapshot(9, 12, "memory")
    stream.mutation(12, "b")
    return tables(talk).snapshots[0]["state"], [
        one.rule for one in findings(talk) if one.severity != "note"
    ]


def clustered(*servers: str) -> Told:
    talk = opened()
    nodes = {"serverList": list(servers), "vBucketMap": [[0, 1]] * 7 + [[1, 0]]}
    talk.ask(
        "get_cluster_config", {"value": json.dumps({"vBucketServerMap": nodes}), "datatype": 1}
    )
    return talk


def test_replicas_are_known_from_what_servers_say_and_from_maps() -> None:
    assert overlapping(opened()) == ("incomplete", ["snapshot-incomplete", "marker-overlap"])
    assert overlapping(clustered("10.0.0.2:11210", "10.0.0.3:11210")) == ("continued", [])
    assert (
        overlapping(clustered("10.0.0.3:11210", "10.0.0.2:11210"))[0] == "incomplete"
    )  # it is the active one
    assert (
        overlapping(clustered("a.example:11210", "b.example:11210"))[0] == "incomplete"
    )  # nobody knows which of them this is
    talk = opened()
    Stream(talk, 7, 99).set_state("replica")
    assert overlapping(talk)[0] == "continued"


def test_gaps_of_a_filter_point_at_the_request_wherever_they_are() -> None:
    talk = opened()
    stream = talk.stream(7, value={"collections": ["8"]})
    stream.snapshot(0, 9, "memory")
    stream.mutation(3, "a", collection=8)
    stream.mutation(9, "b", collection=8)
    seen = tables(talk)
    (record,) = seen.streams
    assert [(gap["cause"], gap["rows"][0]) for gap in seen.gaps] == [
        ("filtered", record["open_row"])
    ] * 2


def test_vbuckets_are_in_order_of_their_first_streams() -> None:
    first, second = opened("z:1"), opened("a:1", port=50_001)
    first.stream(9)
    first.stream(7)
    second.stream(8)
    first.stream(9)
    assert [record["vbucket"] for record in tables(first, second).vbuckets] == [9, 7, 8]


def test_streams_and_their_ordinals_are_in_order_of_requests_that_were_read_late() -> None:
    talk = opened()
    talk.begin()
    talk.stream(3, start=8, opaque=5, rollback=2)
    stream = talk.stream(3, start=2, opaque=6)
    stream.snapshot(2, 5, "memory")
    stream.mutation(5, "a")
    stream.end("too-slow")
    again = talk.stream(3, start=5, opaque=7)
    again.snapshot(5, 9, "memory")
    again.mutation(7, "b")
    talk.noop()
    seen = tables(talk)
    assert [(one["stream"], one["requested_start"], one["answer"]) for one in seen.streams] == [
        (1, 8, "rollback"),
        (2, 2, "accepted"),
        (3, 5, "accepted"),
    ]
    assert [one["open_row"] for one in seen.streams] == sorted(
        one["open_row"] for one in seen.streams
    )
    assert [(one["stream"], one["end_seqno"]) for one in seen.snapshots] == [(2, 5), (3, 9)]
    assert [one["verdict"] for one in seen.vbuckets] == ["advancing"]


def test_an_answer_that_was_recorded_just_before_its_request_is_its_answer() -> None:
    for rollback in (None, 4):
        talk = opened()
        stream = talk.stream(7, start=9, rollback=rollback)
        if rollback is None:
            stream.snapshot(9, 12, "memory")
            stream.mutation(12, "a")
        captured = packets(talk)
        place = next(
            place for place, packet in enumerate(captured) if packet.data[55:56] == b"\x53"
        )
        asked, answer = (
            place,
            next(
                at
                for at in range(place + 1, len(captured))
                if captured[at].data[54:56] == b"\x81\x53"
            ),
        )
        captured[asked], captured[answer] = (
            replace(captured[answer], time_ns=captured[asked].time_ns),
            replace(captured[asked], time_ns=captured[answer].time_ns),
        )
        seen = Seen(captured)
        (record,) = seen.streams
        assert (record["answer"], record["requested_start"]) == (
            "accepted" if rollback is None else "rollback",
            9,
        )
        assert [gap["cause"] for gap in seen.gaps] == (
            ["deduplicated"] if rollback is None else ["rollback"]
        )


def test_a_seqno_advanced_inside_an_out_of_order_snapshot_is_what_shows_its_gap() -> None:
    talk = opened(enable_out_of_order_snapshots="true_with_seqno_advanced")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(1, "a")
    stream.seqno_advanced(5)
    stream.oso("end")
    (gap,) = tables(talk).gaps
    (snapshot,) = tables(talk).snapshots
    assert gap["rows"] == [snapshot["row"] + 2]
    assert gap["evidence"].startswith(f"SeqnoAdvanced in row {snapshot['row'] + 2}, and")


def test_between_an_event_without_its_marker_and_one_in_a_marker_that_has_the_gap_nothing_was_lost() -> (
    None
):
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        stream.snapshot(0, 10, "memory")
    stream.mutation(10, "a")
    stream.snapshot(8, 15, "memory")
    stream.mutation(12, "b")
    assert [(gap["after_seqno"], gap["cause"]) for gap in tables(talk).gaps][-1] == (
        10,
        "deduplicated",
    )


def test_the_greatest_seqno_leaves_no_gap_of_nothing() -> None:
    talk = opened()
    stream = talk.stream(7, start=2**64 - 3)
    stream.snapshot(2**64 - 3, 2**64 - 1, "memory")
    stream.send("dcp_mutation", key="k", collection=0, by_seqno=2**64 - 2, rev_seqno=1)
    stream.seqno_advanced(2**64 - 1)
    assert tables(talk).gaps == []


def test_a_table_is_made_when_somebody_asks_for_it() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        reading.check()
        for _ in reading:
            pass
        tables = reading.tables
        assert not {"gaps", "snapshots", "rollbacks", "vbuckets"} & vars(tables).keys()
        assert len(tables.gaps) == len(tables.all_gaps)
        assert tables.gaps is tables.by_name["gaps"]


def test_what_only_the_next_messages_need_goes_with_the_last_one() -> None:
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        reading.check()
        for _ in reading:
            pass
        assert reading.tracker.contents is None
        assert len(reading.tracker.state.messages) == 0
        assert reading.findings() == reading.findings()


def test_ordinals_do_not_depend_on_requests_of_other_connections_that_were_read_late() -> None:
    streams = Streams.zeros(4)
    streams.connection[:] = (1, 1, 2, 2)
    streams.vbucket[:] = 7
    streams.ordinal[:] = (1, 2, 1, 2)
    streams.opened.row[:], streams.opened.time[:] = (
        (1, 2, 4, 3),
        (9, 8, 6, 5),
    )  # times of connection 1 go back, too
    alone = streams[:2]
    assert number_streams(alone) is None
    order = number_streams(streams)
    assert order is not None
    assert order.tolist() == [0, 1, 3, 2]
    assert streams.ordinal.tolist() == [*alone.ordinal.tolist(), 2, 1] == [1, 2, 2, 1]
