"""Windows that fill and are not emptied, or emptied by consumers that count otherwise: cases 10 and
11.
"""

from __future__ import annotations

from pathlib import Path

from tests.cases.told import Case
from tests.encode import encode
from tests.streams.told import Told, opened


def acknowledge(talk: Told, size: int) -> None:
    """The consumer acknowledges so many bytes, be they right or not."""
    talk.send("client", encode("dcp_buffer_acknowledgement", ack_bytes=size))
    talk.counted -= size


def test_10_a_consumer_that_stops_to_acknowledge(tmp_path: Path) -> None:
    """couchbase/couchbase-kafka-connector#8: the stream hangs after so many items, and nobody says
    why.
    """
    talk = opened(enable_noop="true", connection_buffer_size="64000")
    stream = talk.stream(7)
    stream.snapshot(0, 100, "disk")
    for seqno in range(1, 10):
        stream.mutation(seqno, f"k{seqno}", b"x" * 8000)
        if seqno == 1:
            acknowledge(talk, talk.counted)
    talk.wait(63)
    talk.noop()
    case = Case(tmp_path, talk)
    found = case.finding("flow-control-stall")
    assert case.accusations == ["flow-control-stall"]
    used = 8 * (24 + 31 + 3 + 8000)
    assert found.message == (
        f"flow-control window full for 63.0 s, {used:,} of 64,000 bytes not acknowledged, last "
        "acknowledgement 63.0 s before"
    )
    assert case.shows("flow-control-stall") == ["mutation", "buffer_acknowledgement", "control"]
    assert found.vbuckets == (7,)
    assert found.next == (
        "look for what stops the client from processing its messages, and restart it if it does not go on; a client "
        "has to count all its bytes, because servers from 7.2.7, 7.6.6 and 8.0 on disconnect it"
        " after dcp_disconnect_when_stuck_timeout_seconds (720 by default) if"
        " dcp_disconnect_when_stuck_name_regex matches its name"
    )
    (told,) = case.tables.connections.records()
    assert (told["verdict"], told["outstanding_bytes"]) == ("starved-by-flow-control", used)


def test_10_framing_extras_that_a_consumer_does_not_count(tmp_path: Path) -> None:
    """GOCBC-774: each message with a stream-id takes three bytes of the window for ever, until it
    is full.
    """
    talk = opened(enable_noop="true", connection_buffer_size="1000", enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 9})
    stream.snapshot(0, 1000, "disk")
    acknowledge(talk, talk.counted - 3)
    seqno = 0
    while talk.counted < 1000:
        seqno += 1
        before = talk.counted
        stream.mutation(seqno, f"k{seqno}", b"x" * 100)
        acknowledge(talk, talk.counted - before - 3)
    talk.wait(63)
    talk.noop()
    case = Case(tmp_path, talk)
    assert case.accusations == ["flow-control-stall", "under-acknowledged"]
    found = case.finding("under-acknowledged")
    assert found.cause == "without-flex-frames"
    assert (
        found.message
        == f"under-acknowledged by {talk.counted:,} bytes: {seqno + 1} x framing extras"
    )
    assert case.shows("under-acknowledged") == ["buffer_acknowledgement"] * 2
    assert found.next == (
        "restart the client when its window is full; it has to count all bytes of every message"
        " of a stream: header, framing extras, extras, key and value; servers before 7.0 left "
        "the stream-id out of most messages themselves (MB-40277)"
    )
    assert case.finding("flow-control-stall").message.startswith(
        f"flow-control window full for 63.0 s, {talk.counted:,} of 1,000 bytes"
    )
    assert case.shows("flow-control-stall") == ["mutation", "buffer_acknowledgement", "control"]
    assert case.finding("flow-control-stall").vbuckets == (7,)


def test_11_answers_that_a_consumer_acknowledges(tmp_path: Path) -> None:
    """JDCP-78: answers to stream requests are no part of the window."""
    talk = opened(enable_noop="true", connection_buffer_size="65536")
    for vbucket in range(4):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        acknowledge(talk, 24 + 16 + 44)
    talk.wait(1)
    talk.noop()
    case = Case(tmp_path, talk)
    found = case.finding("over-acknowledged")
    assert case.accusations == ["over-acknowledged"]
    assert (found.cause, found.message) == (
        "stream-answers-counted",
        f"{4 * (40 + 44)} bytes were acknowledged, but only {4 * 44} sent",
    )
    assert case.shows("over-acknowledged") == ["buffer_acknowledgement"] * 2
    assert found.next == (
        "report the client's version to its author; it has to count the bytes on the wire, and "
        "only those of the server's requests that belong to streams"
    )
