"""What a rollback took back, and what a client left out when it resumed."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from dcpinspect.protocol.statuses import Status
from tests.peers.script import Stream
from tests.streams.told import Seen, Told, opened, packets, tables

Gap = tuple[int, int, int, str]


def gaps(*talks: Told) -> list[Gap]:
    return [
        (gap["connection"], gap["after_seqno"], gap["before_seqno"], gap["cause"])
        for gap in tables(*talks).gaps
    ]


def received(talk: Told, seqno: int, **request: object) -> Stream:
    """A stream that has received everything up to a seqno."""
    stream = talk.stream(7, **request)  # type: ignore[arg-type] # passed on
    stream.snapshot(0, seqno, "memory")
    for number in range(1, seqno + 1):
        stream.mutation(number, "k")
    return stream


def test_a_rollback_is_a_gap_of_the_request() -> None:
    talk = opened()
    talk.stream(7, start=50, uuid=1, rollback=20)
    talk.stream(7, start=20, uuid=1)
    assert gaps(talk) == [(1, 20, 51, "rollback")]


@pytest.mark.parametrize(
    ("start", "uuid", "is_kept"), [(50, 1, True), (50, 2, False), (30, 1, False)]
)
def test_what_the_producer_grants_after_a_rollback_need_not_be_discarded(
    start: int, uuid: int, is_kept: bool
) -> None:
    talk = opened()
    talk.stream(7, start=50, uuid=1, rollback=20)
    talk.stream(7, start=start, uuid=uuid, flags=["ignore-purged-tombstones"])
    assert gaps(talk) == ([] if is_kept else [(1, 20, 51, "rollback")])


def test_a_rollback_upwards_is_a_fault_and_no_gap() -> None:
    talk = opened()
    talk.stream(7, start=50, uuid=1, rollback=60)
    seen = tables(talk)
    assert seen.gaps == []
    assert seen.anomalies == ["rollback-above-start"]


def test_resuming_above_what_was_received_is_a_gap_of_the_new_stream() -> None:
    talk = opened()
    received(talk, 3).end("state-changed")
    talk.stream(7, start=9)
    assert gaps(talk) == [(1, 3, 10, "resumed")]
    assert tables(talk).gaps[0]["stream"] == 2


def test_the_same_client_resumes_on_another_connection() -> None:
    one, other = opened(), opened(port=50_001)
    received(one, 3)
    one.close()
    other.stream(7, start=9)
    assert gaps(one, other) == [(2, 3, 10, "resumed")]


def test_what_a_connection_brought_before_it_vanished_nobody_knows() -> None:
    """Its addresses serve another one: what came last may be missing without a trace."""
    one, other = opened(), opened()
    received(one, 3)
    other.stream(7, start=9)
    assert gaps(one, other) == []


def test_a_name_goes_on_where_it_was_itself_whatever_others_of_the_program_received() -> None:
    """Names that are never beside each other may be one consumer, or several."""
    own, other, again = (
        opened(name, port=port)
        for name, port in (("kafka:a", 50_001), ("kafka:b", 50_002), ("kafka:a", 50_003))
    )
    for talk, seqno in ((own, 9), (other, 3)):
        received(talk, seqno).end("state-changed")
        talk.close()
    again.stream(7, start=9)
    assert gaps(own, other, again) == []
    again = opened("kafka:c", port=50_003)
    again.stream(7, start=9)
    assert gaps(own, other, again) == [(3, 3, 10, "resumed")]


def test_another_client_resumes_where_it_likes() -> None:
    one, other = opened("kafka:1"), opened("spark:1", port=50_001)
    received(one, 3)
    one.close()
    other.stream(7, start=9)
    assert gaps(one, other) == []


def test_while_the_other_stream_still_runs_nothing_is_resumed() -> None:
    one, other = opened(), opened(port=50_001)
    received(one, 3)
    other.stream(7, start=9)
    assert gaps(one, other) == []


def test_a_client_that_did_not_say_who_it_is_may_have_received_more_on_another_connection() -> None:
    talk = opened()
    talk.begin()
    received(talk, 3).end("state-changed")
    talk.wait(10)
    talk.stream(7, start=9)
    assert gaps(talk) == [(1, 3, 10, "resumed")]
    other = opened("kafka:1", port=50_001)
    other.wait(5)
    received(other, 9).end("state-changed")
    meanwhile = sorted([*packets(talk), *packets(other)], key=lambda packet: packet.time_ns)
    assert Seen(meanwhile).gaps == []


@pytest.mark.parametrize(("is_lost", "found"), [(True, []), (False, [(3, 3, 10, "resumed")])])
def test_a_client_whose_open_was_lost_may_be_any_of_its_host(
    is_lost: bool, found: list[Gap]
) -> None:
    one, unknown, again = opened(), Told("kafka:1", port=50_001), opened(port=50_002)
    received(one, 3).end("state-changed")
    one.close()
    with unknown.lost() if is_lost else nullcontext():
        unknown.open("kafka:1", "producer")
    received(unknown, 9).end("state-changed")
    unknown.close()
    again.stream(7, start=9)
    assert gaps(one, unknown, again) == found


@pytest.mark.parametrize(("seconds", "found"), [(0, [(2, 3, 10, "resumed")]), (5, [])])
def test_what_another_node_sent_at_the_same_time_is_not_left_out(
    seconds: float, found: list[Gap]
) -> None:
    beside = opened()
    stream = beside.stream(7)
    stream.snapshot(0, 12, "memory")
    beside.wait(seconds)
    stream.mutation(9, "k")
    talk = opened(port=50_001)
    talk.wait(1)
    received(talk, 3).end("state-changed")
    talk.wait(9)
    talk.stream(7, start=9)
    seen = Seen(sorted([*packets(beside), *packets(talk)], key=lambda packet: packet.time_ns))
    assert [
        (gap["connection"], gap["after_seqno"], gap["before_seqno"], gap["cause"])
        for gap in seen.gaps
        if gap["stream"] == 2
    ] == found


def test_resuming_at_or_below_what_was_received_leaves_nothing_out() -> None:
    for start in (3, 1, 0):
        talk = opened()
        received(talk, 3).end("state-changed")
        talk.stream(7, start=start)
        assert gaps(talk) == []


def test_what_may_have_been_received_in_a_hole_is_not_left_out() -> None:
    one, other = opened(), opened(port=50_001)
    stream = received(one, 3)
    with one.lost():
        stream.snapshot(4, 9, "memory")
        stream.mutation(4, "k")
    one.noop()
    one.close()
    other.stream(7, start=9)
    assert gaps(one, other) == []


@pytest.mark.parametrize(("end", "has_room"), [(3, False), (9, True)])
def test_a_hole_without_room_for_a_marker_brings_nothing_behind_a_complete_snapshot(
    end: int, has_room: bool
) -> None:
    """One event, in a snapshot that goes on, may stand for any number of seqnos; behind the end of
    one it needs a marker.
    """
    one, other = opened(), opened(port=50_001)
    stream, beside = one.stream(7), one.stream(8)
    stream.snapshot(0, end, "memory")
    beside.snapshot(0, 9, "memory")
    for seqno in range(1, 4):
        stream.mutation(seqno, "k")
    with one.lost():
        beside.mutation(1, "k")
    beside.mutation(2, "k")
    one.close()
    other.stream(7, start=9)
    assert [gap for gap in gaps(one, other) if gap[-1] == "resumed"] == (
        [] if has_room else [(2, 3, 10, "resumed")]
    )


def test_what_a_client_asks_for_in_a_hole_comes_only_if_the_producer_has_one_too() -> None:
    talk = opened()
    received(talk, 3).end("state-changed")
    with talk.lost():
        talk.control("enable_noop", "true")
    talk.noop()
    talk.stream(7, start=9)
    assert gaps(talk) == [(1, 3, 10, "resumed")]


def test_from_latest_asks_for_nothing_old() -> None:
    talk = opened()
    received(talk, 3).end("state-changed")
    talk.stream(7, start=9, flags=["from-latest"])
    assert gaps(talk) == []


def test_out_of_a_broken_out_of_order_snapshot_another_rule_speaks() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(5, "k")
    stream.end("state-changed")
    talk.stream(7, start=5)
    assert gaps(talk) == []


def test_streams_of_other_ids_resume_where_they_like() -> None:
    talk = opened(enable_stream_id="true")
    received(talk, 3, value={"sid": 1}).end("state-changed")
    talk.stream(7, start=9, value={"sid": 2})
    assert gaps(talk) == []
    talk.stream(7, start=9, value={"sid": 1})
    assert gaps(talk) == [(1, 3, 10, "resumed")]


def test_a_request_that_was_not_granted_is_no_stream_to_resume_from() -> None:
    talk = opened()
    received(talk, 3).end("state-changed")
    talk.stream(7, start=12, status=Status.ETMPFAIL)
    talk.stream(7, start=12, uuid=1, rollback=9)
    talk.stream(7, start=9, uuid=1)
    assert [gap for gap in gaps(talk) if gap[-1] == "resumed"] == [(1, 3, 10, "resumed")]


def test_a_rollback_to_where_the_request_starts_takes_nothing_back() -> None:
    talk = opened()
    talk.stream(7, start=50, uuid=1, rollback=50)
    assert gaps(talk) == []


def test_a_request_between_the_two_of_which_nobody_knows_the_stream_id_may_have_brought_more() -> (
    None
):
    talk = opened(enable_stream_id="true")
    received(talk, 3, value={"sid": 1}).end("state-changed")
    talk.stream(7, start=3, value={"sid": 2, "collections": ["0", "8", "9", "a"]})
    talk.stream(7, start=9, value={"sid": 1})
    captured = packets(talk)
    assert [gap["cause"] for gap in Seen(captured).gaps] == ["resumed"]
    assert Seen([packet.cut(140) for packet in captured]).gaps == []


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_request_that_was_lost_may_have_brought_more_or_begun_at_the_latest_seqno(
    is_answered: bool,
) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "a")
    stream.end("too-slow")
    with talk.lost():
        if is_answered:
            received(talk, 9, start=5)
        else:
            talk.stream_request(7, 77, start=5)
    talk.noop()
    talk.noop()
    talk.stream(7, start=9)
    assert "resumed" not in [gap["cause"] for gap in tables(talk).gaps]


def test_a_hole_without_room_for_a_request_hides_none() -> None:
    talk = opened()
    received(talk, 5).end("state-changed")
    with talk.lost():
        talk.ask("noop")
    talk.stream(7, start=9)
    assert gaps(talk) == [(1, 5, 10, "resumed")]
