"""A message belongs to the stream that its connection, vbucket and stream-id name; what was not
captured may have begun one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dcpinspect.streams.lookup import find_key, refill_slots
from dcpinspect.streams.records import Keys
from dcpinspect.streams.state import ReadingState
from tests.encode import encode
from tests.peers.script import Stream
from tests.streams.told import Seen, Told, opened, packets, tables


def test_streams_of_different_vbuckets_and_ids_are_apart() -> None:
    talk = opened(enable_stream_id="true")
    for vbucket, sid in ((7, 1), (7, 2), (8, 1)):
        stream = talk.stream(vbucket, value={"sid": sid})
        stream.snapshot(0, 5, "memory")
        stream.mutation(sid + vbucket - 7, "k")
    found = [
        (stream["vbucket"], stream["sid"], stream["last_seqno"]) for stream in tables(talk).streams
    ]
    assert found == [(7, 1, 1), (7, 2, 2), (8, 1, 2)]


def test_each_request_opens_the_next_ordinal() -> None:
    talk = opened()
    for _ in range(3):
        talk.stream(7).end()
    assert [stream["stream"] for stream in tables(talk).streams] == [1, 2, 3]


def test_messages_without_a_stream_are_a_stream_that_was_never_opened() -> None:
    talk = opened()
    Stream(talk, 7, 99).mutation(1, "k")
    Stream(talk, 7, 99).mutation(2, "k")
    seen = tables(talk)
    assert seen.anomalies == ["message-without-stream", "message-without-stream"]
    (found,) = seen.streams
    names = ("vbucket", "verdict", "end_reason", "items", "last_seqno")
    assert [found[name] for name in names] == [7, "never-opened", None, 0, None]


def test_a_stream_that_is_opened_later_is_the_vbuckets_newest() -> None:
    talk = opened()
    Stream(talk, 7, 99).mutation(1, "k")
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "k")
    seen = tables(talk)
    assert seen.anomalies == ["message-without-stream"]
    assert [row["verdict"] for row in seen.streams] == ["never-opened", "caught-up"]


def test_a_stream_begins_implicitly_where_the_capture_begins_in_the_middle() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    stream.snapshot(0, 5, "memory")
    stream.mutation(4, "k")
    seen = tables(talk)
    assert not seen.anomalies
    assert not seen.gaps
    (found,) = seen.streams
    assert (found["answer"], found["requested_start"], found["items"], found["first_seqno"]) == (
        "unknown",
        None,
        1,
        4,
    )


def test_a_message_after_the_end_of_a_stream_is_reported() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.end()
    stream.mutation(1, "k")
    seen = tables(talk)
    assert seen.anomalies == ["message-after-stream-end"]
    assert seen.streams[0]["items"] == 0


def test_after_an_end_an_answer_to_a_request_that_is_not_there_begins_a_stream() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.end()
    with talk.lost():
        again = talk.stream_request(7, 50, start=3)
    talk.stream_answer(again)
    again.snapshot(3, 9, "memory")
    again.mutation(4, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(one["answer"], one["items"]) for one in seen.streams] == [
        ("accepted", 0),
        ("unknown", 1),
    ]


def test_a_reopening_that_was_lost_whole_is_no_fault() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "k")
    with talk.lost():
        stream.end("state-changed")
        again = talk.stream(7, start=2, snapshot=(2, 2))
    again.snapshot(2, 9, "memory")
    for seqno in range(3, 9):  # messages enough to find the way back
        again.mutation(seqno, f"k{seqno}")
    seen = tables(talk)
    assert seen.anomalies == []
    first, second = seen.streams
    assert (first["verdict"], first["last_seqno"], second["first_seqno"], second["answer"]) == (
        "unknown-capture",
        5,
        3,
        "unknown",
    )


def test_a_request_whose_answer_was_lost_takes_the_messages_with_its_opaque() -> None:
    talk = opened()
    talk.stream(7).end()
    request = talk.stream_request(7, 50, start=3)
    with talk.lost():
        talk.stream_answer(request)
    request.snapshot(3, 9, "memory")
    request.mutation(5, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(one["answer"], one["items"], one["requested_start"]) for one in seen.streams] == [
        ("accepted", 0, 0),
        ("unknown", 1, 3),
    ]
    assert [gap["cause"] for gap in seen.gaps] == ["capture-loss"]


def test_another_opaque_is_a_fault_unless_the_messages_are_of_the_stream_that_was_closed() -> None:
    talk = opened()
    old = talk.stream(7)
    old.close()
    new = talk.stream(7, start=0)
    old.mutation(1, "k")
    assert tables(talk).anomalies == []
    Stream(talk, 7, new.opaque + 70).snapshot(0, 5, "memory")
    assert tables(talk).anomalies == ["opaque-mismatch"]


def test_two_streams_under_one_opaque_are_both_followed() -> None:
    talk = opened()
    one, other = talk.stream(7, opaque=5), talk.stream(8, opaque=5)
    for stream in (one, other):
        stream.snapshot(0, 5, "memory")
        stream.mutation(5, "k")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(stream["vbucket"], stream["items"]) for stream in seen.streams] == [(7, 1), (8, 1)]


def test_a_second_acceptance_without_an_end_is_a_fault() -> None:
    talk = opened()
    talk.stream(7)
    talk.stream(7)
    assert tables(talk).anomalies == ["stream-already-open"]


def test_a_second_acceptance_is_none_where_the_close_of_the_first_may_be_lost() -> None:
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=stream.opaque))
    talk.answer("dcp_close_stream", stream.opaque)
    talk.stream(7)
    assert tables(talk).anomalies == []


def test_a_second_acceptance_is_none_behind_what_was_under_way_when_the_first_was_closed() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k")
    talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=77))
    with talk.lost():
        stream.mutation(2, "k")
    talk.answer("dcp_close_stream", 77)
    stream.snapshot(3, 9, "memory")
    stream.mutation(3, "k")
    talk.stream(7, start=3, snapshot=(0, 9))
    assert tables(talk).anomalies == []


def test_an_answer_without_a_request_is_no_stream() -> None:
    talk = Told("test:1")
    talk.answer("dcp_stream_req", 9, failover_log=[{"uuid": 1, "seqno": 0}])
    talk.send("server", encode("dcp_stream_end", vbucket=3, opaque=9, end_reason=0))
    seen = tables(talk)
    (stream,) = seen.streams
    assert (stream["answer"], stream["verdict"], stream["end_reason"]) == ("unknown", "ended", "ok")


def test_keys_are_found_again_when_there_are_many_more() -> None:
    count = 5000
    state = ReadingState()
    state.keys = keys = Keys.zeros(count)
    keys.connection[:] = np.arange(count) % 3
    keys.vbucket[:] = np.arange(count) // 3
    keys.sid[:] = -1
    state.counts.keys = count
    state.slots = np.full(16384, -1, np.int64)
    refill_slots.interpreted(state)
    for row in range(0, count, 7):
        assert find_key(state, row % 3, row // 3, -1) == row
    assert find_key(state, 1, 9999, -1) < 0


def test_what_was_sent_before_a_request_is_not_of_its_stream_although_it_was_read_after_it() -> (
    None
):
    talk = opened()
    first = talk.stream(7, opaque=9)
    first.snapshot(0, 1, "memory")
    with talk.lost():
        first.mutation(1, "a")
    # What follows a hole waits for what may still fill it; the next request does not.
    first.snapshot(2, 2, "memory")
    first.mutation(2, "b")
    first.end("too-slow")
    talk.stream(7, opaque=9, start=2)
    seen = tables(talk)
    assert [
        (record["stream"], record["items"], record["snapshots"], record["end_reason"])
        for record in seen.streams
    ] == [
        (1, 1, 2, "too-slow"),
        (2, 0, 0, None),
    ]
    assert seen.anomalies == []


def test_an_accepted_request_that_was_not_captured_ends_the_stream_with_its_opaque() -> None:
    talk = opened()
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 6, "memory")
    talk.begin()
    for seqno in (1, 2, 3, 4):
        stream.mutation(seqno, "k")
    with talk.lost():
        stream.close()
        again = talk.stream_request(7, 9, start=4)
    talk.stream_answer(again)
    again.snapshot(4, 8, "memory")
    again.mutation(8, "k")
    found = [(one["stream"], one["items"], one["last_seqno"]) for one in tables(talk).streams]
    assert found == [(1, 4, 4), (2, 1, 8)]


def test_a_close_that_is_read_before_the_answer_to_the_request_is_a_close() -> None:
    talk = opened()
    other = talk.stream(6)
    other.snapshot(0, 9, "memory")
    with talk.lost():
        other.mutation(1, "k")
    # What follows the hole waits for what may still fill it; what the client says does not.
    stream = talk.stream(7)
    stream.close()
    found = tables(talk).streams[1]
    assert (found["answer"], found["verdict"], found["end_reason"]) == (
        "accepted",
        "ended",
        "closed",
    )


def test_an_answer_for_another_stream_id_leaves_a_stream_of_the_same_opaque_as_it_is() -> None:
    talk = opened(enable_stream_id="true")
    first = talk.stream(7, opaque=9, value={"sid": 1})
    first.snapshot(0, 2, "memory")
    talk.begin()
    first.mutation(1, "a")
    # Nobody knows of which stream-id this is, for the request before it is understood only at the
    # end.
    talk.stream(7, opaque=9, value={"sid": 2})
    first.mutation(2, "b")
    first.snapshot(3, 3, "memory")
    first.mutation(3, "c")
    talk.close("client")
    seen = [(record["sid"], record["items"]) for record in tables(talk).streams]
    assert sorted(seen) == [(1, 3), (2, 0)]


def test_of_two_answers_to_one_request_the_second_is_to_another_that_was_lost() -> None:
    talk = opened()
    talk.stream(7, opaque=9).end("too-slow")
    with talk.lost():
        talk.ask("get_all_vb_seqnos", {"seqnos": []})
    asked = talk.stream_request(7, 9, start=19)
    talk.stream_answer(asked, rollback=0)
    with talk.lost():
        again = talk.stream_request(7, 9)
    talk.stream_answer(again)
    again.snapshot(0, 5, "memory")
    again.mutation(3, "k")
    talk.noop()
    found = [(one["requested_start"], one["items"]) for one in tables(talk).streams]
    assert found == [(0, 0), (19, 0), (None, 1)]


def test_streams_whose_ids_a_snaplen_cut_off_accuse_nobody() -> None:
    talk = opened(enable_stream_id="true")
    for sid in (1, 2):
        stream = talk.stream(7, value={"collections": ["0"], "sid": sid})
        stream.snapshot(0, 1, "memory")
        stream.mutation(1, "a")
    seen = Seen([packet.cut(130) for packet in packets(talk)])
    assert seen.anomalies == []
    assert sorted((record["sid"] or 0, record["items"]) for record in seen.streams)[-2:] == [
        (1, 1),
        (2, 1),
    ]


def test_a_marker_that_ends_where_the_stream_begins_is_of_another_one_if_something_was_lost() -> (
    None
):
    talk = opened()
    stream = talk.stream(7, start=48, opaque=9)
    with talk.lost():
        stream.close()
        stream = talk.stream(7, start=24, opaque=9)
    stream.snapshot(24, 48, "disk", "checkpoint")
    stream.mutation(36, "a")
    seen = tables(talk)
    assert seen.anomalies == []
    assert [(record["requested_start"], record["items"]) for record in seen.streams] == [
        (48, 0),
        (None, 1),
    ]


def reopened(vbucket: int, opaque: int, *, others: int) -> list[tuple[int | None, int]]:
    """A stream that goes on, and after a hole in which its request was lost, another one from
    further on, under the same opaque.
    """
    talk = opened()
    for other in range(others):
        talk.stream(100 + other, opaque=opaque)
    stream = talk.stream(vbucket, opaque=opaque)
    stream.snapshot(0, 4, "memory", "checkpoint")
    stream.mutation(4, "a")
    with talk.lost():
        stream.close()
        again = talk.stream_request(vbucket, opaque, start=9)
    talk.stream_answer(again)
    again.snapshot(9, 12, "memory", "checkpoint")
    again.mutation(12, "b")
    return [
        (one["requested_start"], one["items"])
        for one in tables(talk).streams
        if one["vbucket"] == vbucket
    ]


def test_an_accepted_request_that_was_lost_begins_another_stream_wherever_it_starts() -> None:
    assert reopened(7, 70, others=0) == [(0, 1), (None, 1)]


def test_where_streams_share_an_opaque_it_may_have_been_for_any_of_them() -> None:
    assert reopened(7, 70, others=2) == [(0, 2)]


def test_a_refusal_that_may_be_its_own_gives_a_request_no_stream() -> None:
    talk = opened()
    asked = talk.stream_request(7, 9, start=3)
    with talk.lost():
        talk.stream_answer(asked)
        talk.ask("get_all_vb_seqnos", {"seqnos": []})
    again = talk.stream_request(7, 9, start=11)
    talk.stream_answer(again, rollback=0)
    with talk.lost():
        stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 8, "memory")
    stream.mutation(4, "k")
    assert tables(talk).anomalies == []


HEADER = 54 + 24
"""Bytes of a packet with only the header of its message."""


def test_a_request_of_which_only_the_header_was_captured_is_a_stream() -> None:
    talk = opened()
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 5, "memory")
    stream.mutation(5, "a")
    stream.end("ok")
    again = talk.stream(7, start=5, opaque=9, value={"collections": ["0"]})
    again.snapshot(5, 8, "memory")
    again.mutation(8, "b")
    captured = packets(talk)
    place = next(
        place
        for place in range(len(captured) - 1, 0, -1)
        if captured[place].data[HEADER - 23 : HEADER - 22] == b"\x53"
    )
    whole = Seen(captured).streams
    captured[place - 2] = captured[place - 2].cut(HEADER)
    first, second = Seen(captured).streams
    assert first == whole[0]
    assert (
        second["requested_start"],
        second["snapshot_start"],
        second["request_flags"],
        second["filter"],
    ) == (None,) * 4
    assert (second["answer"], second["items"], second["last_seqno"]) == ("accepted", 1, 8)
    assert second["open_row"] == whole[1]["open_row"]


def test_such_a_request_may_be_unanswered_or_refused() -> None:
    for status, answer in ((None, "unanswered"), (7, "refused")):
        talk = opened()
        stream = talk.stream_request(7, 9)
        if status is not None:
            talk.stream_answer(stream, status=status)
        captured = packets(talk)
        place = next(
            place for place, packet in enumerate(captured) if packet.data[55:56] == b"\x53"
        )
        captured[place] = captured[place].cut(HEADER)
        (record,) = Seen(captured).streams
        assert (record["answer"], record["requested_end"], record["items"]) == (answer, None, 0)


def closed_around(where: str) -> list[tuple[int, int | None]]:
    """A stream that is closed, and asked for again in a hole, under the same opaque: how many items
    the two have.
    """
    talk = opened()
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    if where == "answered":
        stream.close()
    elif where == "asked":
        talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=9))
    with talk.lost():
        if where == "asked":
            talk.answer("dcp_close_stream", 9)
        elif where == "lost":
            stream.close()
        again = talk.stream(7, start=1, opaque=9)
        again.snapshot(1, 9, "memory")
    again.mutation(3, "b")
    again.mutation(4, "c")
    return [(record["items"], record["first_seqno"]) for record in tables(talk).streams]


def test_what_follows_a_close_and_a_hole_may_be_of_the_next_stream() -> None:
    assert closed_around("asked") == [(1, 1), (2, 3)]
    assert closed_around("answered") == [(1, 1), (2, 3)]
    assert closed_around("lost") == [(3, 1)]  # nothing tells


@pytest.mark.parametrize("time_ns", [0, 1])
def test_a_hole_closes_no_stream_where_all_times_are_equal(time_ns: int) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    with talk.lost():
        stream.mutation(2, "b")
    stream.mutation(3, "c")
    (found,) = Seen([replace(packet, time_ns=time_ns) for packet in packets(talk)]).streams
    assert (found["items"], found["last_seqno"], found["verdict"]) == (2, 3, "advancing")


def test_the_close_of_a_stream_is_not_that_of_the_second_request_for_it() -> None:
    talk = opened(send_stream_end_on_client_close_stream="true")
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    second = talk.stream_request(7, 77)
    with talk.lost():
        talk.stream_answer(second, status=2)
    stream.close()
    stream.end("closed")
    first, refused = tables(talk).streams
    assert (first["end_reason"], first["verdict"], first["items"]) == ("closed", "ended", 1)
    assert (refused["answer"], refused["verdict"]) == ("unknown", "unknown-capture")


def test_a_stream_that_is_closed_was_open_although_its_answer_was_lost() -> None:
    talk = opened()
    stream = talk.stream_request(7, 9)
    with talk.lost():
        talk.stream_answer(stream)
    stream.close()
    again = talk.stream(7, opaque=9)
    again.snapshot(0, 1, "memory")
    again.mutation(1, "a")
    assert [(record["items"], record["end_reason"]) for record in tables(talk).streams] == [
        (0, "closed"),
        (1, None),
    ]


def test_a_second_request_that_is_refused_leaves_the_first_one_waiting() -> None:
    talk = opened()
    stream = talk.stream_request(7, 9)
    with talk.lost():
        talk.stream_answer(stream)
    talk.stream(7, opaque=77, status=2)
    stream.snapshot(0, 1, "memory")
    stream.mutation(1, "a")
    assert [(record["items"], record["answer"]) for record in tables(talk).streams] == [
        (1, "unknown"),
        (0, "refused"),
    ]


def test_a_request_whose_stream_id_was_cut_off_may_have_begun_another_stream_of_its_opaque() -> (
    None
):
    talk = opened(enable_stream_id="true")
    stream = talk.stream(7, opaque=9, value={"sid": 1})
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "a")
    with talk.lost():
        stream.end("too-slow")
    again = talk.stream_request(7, 9, start=1, value={"sid": 1})
    with talk.lost():
        talk.stream_answer(again)
        again.snapshot(1, 9, "memory")
    again.mutation(3, "b")
    captured = packets(talk)
    place = max(place for place, packet in enumerate(captured) if packet.data[55:56] == b"\x53")
    captured[place] = captured[place].cut(HEADER + 48)
    assert [(record["sid"], record["items"]) for record in Seen(captured).streams] == [
        (1, 1),
        (None, 0),
        (1, 1),
    ]


def test_the_answer_to_a_close_is_not_of_a_stream_that_has_ended() -> None:
    talk = opened(send_stream_end_on_client_close_stream="true")
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 1, "memory")
    talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=9))
    stream.mutation(1, "a")
    stream.end("ok")
    with talk.lost():
        talk.answer("dcp_close_stream", 9, status=1)
        again = talk.stream(7, start=1, opaque=9)
    again.close()
    again.end("closed")
    assert tables(talk).anomalies == []
