"""Streams that stop, do not end, or are refused: cases 9, 13, 14, 16 and 17, and what looks like
trouble and is none: 22, 23.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.protocol.statuses import Status
from tests.cases.told import Case
from tests.streams.told import opened


def test_9_vbuckets_that_are_never_reopened(tmp_path: Path) -> None:
    """Trendyol/go-dcp#151: a few vbuckets stop for hours, and the pod is healthy."""
    talk = opened()
    streams = {vbucket: talk.stream(vbucket) for vbucket in (16, 17, 800, 801)}
    for stream in streams.values():
        stream.snapshot(0, 5, "memory")
        stream.mutation(5, "k")
        stream.end("state-changed")
    for vbucket in (16, 800):
        talk.stream(vbucket, start=5)
    talk.wait(60)
    talk.noop()
    case = Case(tmp_path, talk)
    found = case.finding("orphaned-vbucket")
    assert (found.vbuckets, found.severity, found.over, found.whose) == (
        (17, 801),
        "error",
        "open",
        "client",
    )
    assert case.accusations == ["orphaned-vbucket"]
    for one in found.cases:
        assert one.cause == "state-changed"
        assert one.message.startswith(
            'ended "state-changed", never reopened (2 other vbuckets were, within '
        )
        assert one.next == (
            "restart the client, because until then the vbucket delivers nothing; it missed the"
            " stream end, after which it has to reopen the vbucket"
        )


def test_13_a_stream_end_that_never_comes(tmp_path: Path) -> None:
    """MB-31481: a batch reader never finishes."""
    talk = opened()
    stream = talk.stream(12, end=5000)
    stream.snapshot(0, 5000, "disk")
    stream.mutation(5000, "k")
    talk.wait(30)
    talk.noop()
    case = Case(tmp_path, talk)
    found = case.finding("stream-end-missing")
    assert case.accusations == ["stream-end-missing"]
    assert (found.vbuckets, found.message) == (
        (12,),
        "requested end 5000 reached, no stream end for 30.0 s",
    )
    assert case.shows("stream-end-missing") == ["mutation", "stream_req"]


def test_13_a_client_that_leaves_when_no_stream_happens_to_be_open(tmp_path: Path) -> None:
    """couchbase/couchbase-kafka-connector#16: a batch reader finishes early."""
    talk = opened()
    first, second = talk.stream(1, end=5), talk.stream(2, end=9)
    first.snapshot(0, 5, "disk")
    first.mutation(5, "k")
    first.end()
    second.snapshot(0, 9, "disk")
    second.mutation(3, "k")
    talk.close()
    case = Case(tmp_path, talk)
    found = case.finding("closed-before-stream-end")
    assert case.accusations == ["closed-before-stream-end"]
    assert (found.vbuckets, found.message) == (
        (2,),
        "client closed with 1 of 2 finite streams unfinished",
    )
    assert case.shows("closed-before-stream-end") == ["mutation", "stream_req"]
    assert found.next == (
        "run the job again if it has to have everything; a client has to wait for the stream "
        "end of each stream before it closes the connection"
    )


def test_14_the_last_change_comes_with_the_next_one_only(tmp_path: Path) -> None:
    """MB-54591: the server has a seqno, the window is open, noops are alive, and it does not
    send.
    """
    talk = opened(enable_noop="true", connection_buffer_size="1000000")
    stream = talk.stream(88)
    stream.snapshot(0, 17, "memory")
    stream.mutation(17, "k")
    talk.high_seqnos({88: 18})
    talk.wait(41)
    talk.noop()
    case = Case(tmp_path, talk)
    found = case.finding("server-owes-seqno")
    assert case.accusations == ["server-owes-seqno"]
    assert (found.vbuckets, found.seqnos) == ((88,), (18, 17))
    assert found.message == "server has 18, sent 17, idle 41.0 s, window open"
    assert case.shows("server-owes-seqno") == ["get_all_vb_seqnos answer", "mutation", "stream_req"]
    assert found.next == (
        "look at the server's version and at this vbucket's checkpoints there; a client can "
        "only reopen the stream"
    )
    assert [
        case.tables.by_name[name].records()[0]["verdict"] for name in ("streams", "vbuckets")
    ] == ["behind", "behind"]


@pytest.mark.parametrize("every", [0.1, 0.5, 1.9, 5])
def test_14_however_often_the_client_asks_for_the_high_seqno(tmp_path: Path, every: float) -> None:
    talk = opened(enable_noop="true", connection_buffer_size="1000000")
    stream = talk.stream(88)
    stream.snapshot(0, 17, "memory")
    stream.mutation(17, "k")
    for number in range(int(20 / every)):
        talk.high_seqnos({88: 18 + number})
        talk.wait(every)
    talk.noop()
    case = Case(tmp_path, talk)
    assert case.accusations == ["server-owes-seqno"]
    assert [
        case.tables.by_name[name].records()[0]["verdict"] for name in ("streams", "vbuckets")
    ] == ["behind", "behind"]


def test_16_a_stream_that_is_open_already(tmp_path: Path) -> None:
    """couchbase/java-dcp-client#13: "Unhandled status: 2"."""
    talk = opened()
    talk.stream(420)
    talk.stream(420, status=Status.KEY_EEXISTS)
    case = Case(tmp_path, talk)
    found = case.finding("duplicate-stream-request")
    assert case.accusations == ["duplicate-stream-request"]
    assert (found.vbuckets, found.message) == (
        (420,),
        f"requested again while open since row {found.places[2].row}",
    )
    assert case.shows("duplicate-stream-request") == [
        "stream_req",
        "stream_req answer",
        "stream_req",
    ]
    assert found.next == (
        "report the client's version to its author; it has to wait for the stream end before "
        "the next request, or to use stream-ids"
    )


def test_17_a_client_that_knows_a_newer_manifest(tmp_path: Path) -> None:
    """MB-31326: a stream request is refused after a failover."""
    talk = opened()
    talk.stream(7, value={"uid": "5"}, status=Status.COLLECTIONS_MANIFEST_IS_AHEAD)
    case = Case(tmp_path, talk)
    assert case.accusations == ["manifest-ahead"]
    assert case.shows("manifest-ahead") == ["stream_req", "stream_req answer"]
    assert case.finding("manifest-ahead").next == (
        "wait, because this passes after a failover; a client has to ask again with growing pauses"
    )


def test_22_items_past_the_requested_end_complete_their_snapshot(tmp_path: Path) -> None:
    """JDCP-66: legal, so nothing is said."""
    talk = opened()
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 62, "memory")
    for seqno in range(1, 63):
        stream.mutation(seqno, f"k{seqno}")
    stream.end()
    case = Case(tmp_path, talk)
    assert case.findings == []
    (told,) = case.tables.streams.records()
    assert (told["last_seqno"], told["end_reason"], told["gaps"]) == (62, "ok", 0)


def test_23_seqnos_of_other_collections_are_no_lag(tmp_path: Path) -> None:
    """Trendyol/go-dcp#60: a lag that rises although data flows: SeqnoAdvanced is not counted."""
    talk = opened()
    stream = talk.stream(7, value={"collections": ["0"]})
    stream.snapshot(0, 4, "memory")
    stream.mutation(4, "k")
    stream.snapshot(5, 900, "memory", "checkpoint")
    stream.seqno_advanced(900)
    talk.high_seqnos({7: 900})
    talk.wait(10)
    talk.noop()
    case = Case(tmp_path, talk)
    assert case.accusations == []
    assert [one["cause"] for one in case.tables.gaps.records()][-1] == "seqno-advanced"
    (told,) = case.tables.vbuckets.records()
    assert (told["last_seqno"], told["high_seqno"], told["verdict"]) == (900, 900, "caught-up")
