"""How a stream is, in one word: each by its smallest conversation."""

from __future__ import annotations

import pytest

from tests.peers.script import Stream
from tests.streams.told import Record, Seen, Told, opened, packets, tables


def verdict(talk: Told) -> str:
    found: str = tables(talk).streams[-1]["verdict"]
    return found


def started(*kinds: str, **controls: str) -> tuple[Told, Stream]:
    talk = opened(**controls)  # type: ignore[arg-type] # none of them is a port
    stream = talk.stream(7)
    if kinds:
        stream.snapshot(0, 5, *kinds)
    return talk, stream


def test_silent_until_the_first_message() -> None:
    assert verdict(started()[0]) == "silent"


def test_advancing_in_memory_and_backfilling_from_disk() -> None:
    assert verdict(started("memory")[0]) == "advancing"
    assert verdict(started("disk", "checkpoint")[0]) == "backfilling"
    talk, stream = started(enable_out_of_order_snapshots="true")
    stream.oso("start")
    assert verdict(talk) == "backfilling"


def test_caught_up_when_the_last_snapshot_is_complete() -> None:
    talk, stream = started("memory")
    stream.mutation(5, "k")
    assert verdict(talk) == "caught-up"


def test_caught_up_after_an_out_of_order_snapshot() -> None:
    talk, stream = started(enable_out_of_order_snapshots="true")
    stream.oso("start")
    stream.mutation(5, "k")
    stream.oso("end")
    assert verdict(talk) == "caught-up"


@pytest.mark.parametrize(
    "reason",
    [
        "ok",
        "closed",
        "state-changed",
        "disconnected",
        "too-slow",
        "backfill-failed",
        "rollback",
        "filter-empty",
        "lost-privileges",
    ],
)
def test_ended_with_the_reason_of_the_stream_end(reason: str) -> None:
    talk, stream = started()
    stream.end(reason)
    (found,) = tables(talk).streams
    assert (found["verdict"], found["end_reason"], found["end_row"]) == ("ended", reason, 7)


def test_a_reason_without_a_name_is_its_number() -> None:
    """9 too, which among the words is the end of the connection."""
    for reason in (9, 10):
        talk, stream = started()
        stream.send("dcp_stream_end", end_reason=reason)
        talk.close()
        assert tables(talk).streams[0]["end_reason"] == str(reason)


def test_ended_by_the_answer_to_a_close_where_no_stream_end_follows() -> None:
    talk, stream = started("memory")
    stream.close()
    stream.mutation(1, "k")
    (found,) = tables(talk).streams
    assert (found["verdict"], found["end_reason"], found["items"], found["end_row"]) == (
        "ended",
        "closed",
        1,
        9,
    )
    assert tables(talk).anomalies == []


def test_a_close_that_is_refused_ends_nothing() -> None:
    talk, stream = started("memory")
    stream.close(status=1)
    stream.mutation(5, "k")
    (found,) = tables(talk).streams
    assert (found["verdict"], found["end_reason"], found["end_row"]) == ("caught-up", None, None)


def test_with_a_stream_end_on_close_the_answer_alone_ends_nothing() -> None:
    talk, stream = started("memory", send_stream_end_on_client_close_stream="true")
    stream.close()
    assert verdict(talk) == "advancing"
    stream.end("closed")
    assert verdict(talk) == "ended"


def test_ended_with_its_connection() -> None:
    talk, _ = started("memory")
    talk.close("server", abort=True)
    (found,) = tables(talk).streams
    assert (found["verdict"], found["end_reason"], found["end_row"]) == (
        "ended",
        "connection-closed",
        None,
    )


def test_where_the_end_may_have_been_lost_the_reason_is_unknown() -> None:
    talk, stream = started("memory")
    with talk.lost():
        stream.end("too-slow")
    talk.close()
    (found,) = tables(talk).streams
    assert (found["verdict"], found["end_reason"]) == ("ended", "unknown")


def test_refused_and_rolled_back() -> None:
    talk = opened()
    talk.stream(7, status=7)
    assert (verdict(talk), tables(talk).streams[0]["status"]) == ("refused", "not_my_vbucket")
    talk.stream(7, start=9, rollback=3)
    assert (verdict(talk), tables(talk).streams[1]["rollback_seqno"]) == ("rolled-back", 3)


def test_refused_and_rolled_back_though_the_connection_ended() -> None:
    talk = opened()
    talk.stream(7, status=7)
    talk.stream(8, start=9, rollback=3)
    talk.close()
    assert [found["verdict"] for found in tables(talk).streams] == ["refused", "rolled-back"]


def asked(*, wait: float = 0, answer_lost: bool = False, closed: bool = False) -> Record:
    talk = opened()
    request = talk.stream_request(7, 50)
    if answer_lost:
        with talk.lost():
            talk.stream_answer(request)
    talk.wait(wait)
    for _ in range(4):
        talk.noop()
    if closed:
        talk.close()
    return tables(talk).streams[0]


def test_never_answered_when_patience_is_over_or_the_connection_was_closed_first() -> None:
    for found in (asked(wait=2.1), asked(closed=True)):
        assert (found["answer"], found["verdict"]) == ("unanswered", "never-answered")


def test_nothing_is_absent_merely_because_the_capture_ended() -> None:
    found = asked(wait=1.5)
    assert (found["answer"], found["verdict"]) == ("unanswered", "unknown-capture")


def test_an_answer_that_may_have_been_lost_is_unknown() -> None:
    for found in (asked(wait=5, answer_lost=True), asked(answer_lost=True, closed=True)):
        assert (found["answer"], found["verdict"]) == ("unknown", "unknown-capture")


def test_patience_is_ten_times_the_slowest_answer_before() -> None:
    talk = opened()
    first = talk.stream_request(6, 49)
    talk.wait(1)
    talk.stream_answer(first)
    talk.stream_request(7, 50)
    talk.wait(9)
    talk.noop()
    assert verdict(talk) == "unknown-capture"
    talk.wait(2)
    talk.noop()
    assert verdict(talk) == "never-answered"


def test_a_full_window_starves_the_stream() -> None:
    talk, stream = started("memory", connection_buffer_size="100")
    assert verdict(talk) == "advancing"
    stream.mutation(1, "k")
    assert verdict(talk) == "starved-by-flow-control"
    talk.acknowledge()
    assert verdict(talk) == "advancing"


def test_a_full_window_starves_who_is_behind_or_caught_up_by_now() -> None:
    talk, stream = started("memory", connection_buffer_size="40")
    stream.mutation(5, "k")
    assert verdict(talk) == "starved-by-flow-control"
    talk.high_seqnos({7: 9})
    talk.wait(30)
    talk.noop()
    assert verdict(talk) == "starved-by-flow-control"


def test_a_full_window_starves_a_backfill_too() -> None:
    talk, _ = started("disk", "checkpoint", connection_buffer_size="40")
    assert verdict(talk) == "starved-by-flow-control"


def test_a_stream_without_request_and_marker_is_unknown_however_full_the_window() -> None:
    talk = opened()
    with talk.lost():
        stream = talk.stream(7)
        stream.snapshot(0, 5, "memory")
    for window in ("0", "40"):
        talk.control("connection_buffer_size", window)
    stream.mutation(1, "k")
    seen = tables(talk)
    assert (seen.streams[0]["verdict"], seen.connections[0]["verdict"]) == (
        "unknown-capture",
        "starved-by-flow-control",
    )


def test_behind_what_the_server_told() -> None:
    talk, stream = started("memory")
    stream.mutation(5, "k")
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 9}]})
    assert verdict(talk) == "caught-up"
    talk.wait(3)
    talk.noop()
    assert verdict(talk) == "behind"
    stream.snapshot(6, 9, "memory", "checkpoint")
    stream.mutation(9, "k")
    assert verdict(talk) == "caught-up"


def test_behind_only_after_ten_times_the_slowest_answer() -> None:
    talk = opened()
    request = talk.stream_request(7, 50)
    talk.wait(1)
    talk.stream_answer(request)
    request.snapshot(0, 5, "memory")
    request.mutation(5, "k")
    talk.high_seqnos({7: 9})
    talk.wait(9)
    talk.noop()
    assert verdict(talk) == "caught-up"
    talk.wait(2)
    talk.noop()
    assert verdict(talk) == "behind"


def test_who_was_told_of_more_only_now_is_not_behind_yet() -> None:
    talk, stream = started("memory")
    stream.mutation(5, "k")
    talk.wait(30)
    talk.high_seqnos({7: 9})
    assert verdict(talk) == "caught-up"
    talk.wait(3)
    talk.noop()
    assert verdict(talk) == "behind"


def test_who_has_all_that_there_is_is_not_behind() -> None:
    talk, stream = started("memory")
    stream.mutation(5, "k")
    talk.high_seqnos({7: 5})
    talk.wait(30)
    talk.noop()
    assert verdict(talk) == "caught-up"


def test_who_received_something_just_now_is_not_behind_yet() -> None:
    talk, stream = started("memory")
    talk.high_seqnos({7: 9})
    talk.wait(30)
    stream.mutation(5, "k")
    assert verdict(talk) == "caught-up"


@pytest.mark.parametrize("kinds", [("memory",), ("disk", "checkpoint")])
def test_a_snapshot_under_way_is_behind_as_soon_as_nothing_of_it_has_come_for_long(
    kinds: tuple[str, ...],
) -> None:
    talk, stream = started(*kinds)
    stream.mutation(1, "k")
    talk.wait(30)
    talk.high_seqnos({7: 9})
    assert verdict(talk) == ("advancing" if kinds == ("memory",) else "backfilling")
    talk.wait(30)
    talk.acknowledge()
    assert verdict(talk) == "behind"


def test_an_out_of_order_snapshot_under_way_is_not_behind() -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = talk.stream(7)
    stream.oso("start")
    stream.mutation(3, "c")
    talk.high_seqnos({7: 9})
    talk.wait(30)
    talk.noop()
    assert verdict(talk) == "backfilling"


def polled(every: float, times: int, *highs: int) -> Told:
    """The stream is at 5, and its client asks again and again."""
    talk, stream = started("memory")
    stream.mutation(5, "k")
    for number in range(times):
        talk.high_seqnos({7: highs[min(number, len(highs) - 1)]})
        talk.wait(every)
    return talk


@pytest.mark.parametrize("highs", [(9,), tuple(range(6, 50))], ids=["the same", "ever higher"])
def test_who_asks_again_and_again_is_behind_since_the_first_answer(highs: tuple[int, ...]) -> None:
    assert verdict(polled(0.5, 4, *highs)) == "caught-up"
    assert verdict(polled(0.5, 40, *highs)) == "behind"


def test_an_answer_that_is_not_above_ends_the_wait() -> None:
    talk = polled(0.5, 10, 9)
    talk.high_seqnos({7: 5})
    talk.high_seqnos({7: 9})
    talk.noop()
    assert verdict(talk) == "caught-up"


def test_a_rollback_and_a_new_history_take_back_what_was_told() -> None:
    talk = opened()
    talk.high_seqnos({7: 9})
    talk.stream(7, start=9, uuid=0xA, rollback=5)
    stream = talk.stream(7, start=5, uuid=0xA, log=[(0xB, 5), (0xA, 0)])
    for waited in (False, True):
        talk.wait(30 if waited else 0)
        talk.noop()
        assert verdict(talk) == "silent"
    stream.end("state-changed")
    talk.high_seqnos({7: 9})
    talk.stream(7, log=[(0xC, 0)])
    talk.wait(30)
    talk.noop()
    assert verdict(talk) == "silent"


def test_who_has_all_it_asked_for_is_not_behind() -> None:
    talk = opened()
    stream = talk.stream(7, end=5)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "k")
    talk.high_seqnos({7: 9})
    talk.wait(30)
    talk.noop()
    assert verdict(talk) == "caught-up"


def test_who_asked_for_the_end_is_owed_nothing() -> None:
    talk = polled(1, 2, 9)
    talk.ask("dcp_close_stream", vbucket=7)
    talk.wait(30)
    talk.noop()
    assert verdict(talk) != "behind"


def test_who_asks_for_the_latest_only_is_not_behind_what_there_was() -> None:
    talk = opened()
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 9}]})
    talk.stream(7, flags=("from-latest",))
    talk.wait(3)
    talk.noop()
    assert verdict(talk) == "silent"


def test_unknown_without_request_and_marker_and_after_a_loss_up_to_the_end() -> None:
    talk, stream = started("memory")
    talk.begin()
    stream.mutation(1, "k")
    assert verdict(talk) == "unknown-capture"
    talk, stream = started("memory")
    with talk.lost():
        stream.mutation(1, "k")
    for _ in range(4):
        talk.noop()
    assert verdict(talk) == "unknown-capture"


def test_what_was_asked_is_in_the_table() -> None:
    talk = opened()
    value = {"collections": ["8"], "uid": "5"}
    talk.stream(
        7,
        start=5,
        end=9,
        uuid=0xABC,
        snapshot=(3, 6),
        flags=["active-only"],
        value=value,
        log=[(0xABC, 4), (0xDEF, 0)],
    )
    (found,) = tables(talk).streams
    expected = {
        "requested_start": 5,
        "requested_end": 9,
        "vbucket_uuid": "0x0000000000000abc",
        "snapshot_start": 3,
        "snapshot_end": 6,
        "request_flags": ["active-only"],
        "filter": value,
        "answer": "accepted",
        "status": "success",
        "failover_log": [
            {"uuid": "0x0000000000000abc", "seqno": 4},
            {"uuid": "0x0000000000000def", "seqno": 0},
        ],
        "open_row": 5,
        "opaque": 3,
    }
    assert {key: found[key] for key in expected} == expected


def test_a_request_that_was_read_after_its_answer_is_not_unanswered() -> None:
    talk = opened()
    talk.begin()
    # A side that says nothing else is understood only at the end of the capture, when its answer
    # has long been read.
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory")
    for seqno in (1, 2, 3):
        stream.mutation(seqno, f"k{seqno}")
    talk.close("client")
    (found,) = tables(talk).streams
    assert (found["answer"], found["verdict"], found["requested_start"], found["items"]) == (
        "accepted",
        "ended",
        0,
        3,
    )
    assert found["open_row"] > 5


def test_a_stream_is_not_silent_that_sent_something_after_a_marker_that_was_lost() -> None:
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        stream.snapshot(0, 3, "memory")
        stream.mutation(1, "a")
    stream.mutation(3, "c")
    assert verdict(talk) == "unknown-capture"


def test_a_message_that_nobody_can_read_may_have_been_the_last_of_its_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 2, "memory")
    stream.mutation(1, "a")
    stream.mutation(2, "b")
    captured = packets(talk)
    assert Seen(captured).streams[0]["verdict"] == "caught-up"
    captured[-2] = captured[-2].cut(54 + 24 + 4)
    (record,) = Seen(captured).streams
    assert (record["items"], record["verdict"]) == (2, "unknown-capture")


@pytest.mark.parametrize(
    ("lost", "expected"), [(None, "behind"), ("marker", "unknown-capture"), ("seqno", "caught-up")]
)
def test_a_stream_is_not_behind_where_a_marker_or_a_newer_seqno_may_be_lost(
    lost: str | None, expected: str
) -> None:
    talk, stream = started("memory")
    stream.mutation(5, "e")
    talk.high_seqnos({7: 9})
    if lost == "marker":
        with talk.lost():
            stream.snapshot(6, 9, "disk")
        stream.mutation(6, "f")
    talk.wait(30)
    talk.noop()
    other = opened("test:2", port=50_001)
    if lost == "seqno":
        with other.lost():
            other.high_seqnos({7: 5})
    other.noop()
    assert tables(talk, other).streams[-1]["verdict"] == expected


def test_an_event_whose_seqno_was_captured_counts_whatever_of_it_was_cut() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 4, "memory")
    stream.mutation(1, "a")
    stream.deletion(2, "a")
    stream.mutation(4, "b")
    whole = tables(talk)
    seen = Seen(
        [
            packet.cut(54 + 24 + 8) if packet.data[55:56] in (b"\x57", b"\x58") else packet
            for packet in packets(talk)
        ]
    )
    (record,), (snapshot,) = seen.streams, seen.snapshots
    assert (record["verdict"], record["items"], record["last_seqno"]) == ("caught-up", 3, 4)
    assert (snapshot["state"], snapshot["items"]) == ("complete", 3)
    assert [(gap["after_seqno"], gap["before_seqno"], gap["cause"]) for gap in seen.gaps] == [
        (2, 4, "deduplicated")
    ]
    assert seen.gaps == whole.gaps
    assert seen.anomalies == []
