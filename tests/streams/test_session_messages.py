"""What each message of a session says, and that peers cannot fill the memory with it."""

from __future__ import annotations

import pytest

from dcpinspect.streams.conversation import Conversation
from tests.encode import encode
from tests.streams.told import Told, opened, tables
from tests.tables.build import batch


def test_controls_without_end_are_bounded() -> None:
    conversation = Conversation()
    messages = [
        encode("dcp_control", opaque=number, key=f"key-{number}", value="1")
        for number in range(6000)
    ]
    conversation.feed(batch(*messages))
    session = conversation.session_of(1)
    assert len(session.controls) == len(session.waiting) == 4096


def test_an_accepted_setting_is_not_undone_by_a_refused_one() -> None:
    talk = opened(connection_buffer_size="1000")
    talk.control("connection_buffer_size", "x", status=4)
    (found,) = tables(talk).connections
    assert found["controls"]["connection_buffer_size"] == {"value": "1000", "status": "success"}
    assert found["window_bytes"] == 1000


@pytest.mark.parametrize(
    ("value", "known"),
    [("true", [(0, 3)]), ("true_with_seqno_advanced", [(0, 3)]), ("false", [(0, 3), (3, 7)])],
)
def test_out_of_order_snapshots_are_on_with_or_without_a_seqno_advanced(
    value: str, known: list[tuple[int, int]]
) -> None:
    """Where one may have begun in what is lost, nobody knows what should have come between two
    events.
    """
    talk = opened(enable_out_of_order_snapshots=value)
    stream = talk.stream(7)
    with talk.lost():
        stream.oso("start")
    stream.mutation(3, "c")
    stream.mutation(7, "g")
    assert [(gap["after_seqno"], gap["before_seqno"]) for gap in tables(talk).gaps] == known


def test_half_a_feature_is_none() -> None:
    talk = Told("x")
    talk.ask("hello", {"value": b"\x00\x12\x00"}, key=b"app")
    assert tables(talk).connections[0]["features"] == ["Collections"]


def test_failover_logs_asked_for_are_kept() -> None:
    talk = opened()
    talk.failover_log(7, [(0xA, 5), (0xB, 0)])
    (log,) = tables(talk).tracker.conversation.session_of(1).reports[7].logs
    assert (len(log.raw), log.at.row) == (32, 6)


def test_an_open_is_known_also_where_it_is_read_after_its_answer() -> None:
    conversation = Conversation()
    conversation.feed(
        batch(
            encode("dcp_open", "response", opaque=3),
            encode("dcp_open", opaque=3, key="c:1", flags=["producer"]),
            encode("dcp_open", opaque=4, key="c:2", flags=[]),
        )
    )
    session = conversation.session_of(1)
    assert (session.name, session.open_flags, session.open_status) == ("c:1", 1, 0)
