"""Clients that begin anew again and again: the smallest conversation, and what looks like it."""

from __future__ import annotations

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.reconnecting import LEAST_TIMES, PAUSE_NS
from tests.findings.checked import findings
from tests.streams.told import Told, opened

LOG = ((0xA, 0),)


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=("reconnect-loop",))


def round_of(
    number: int, start: int = 0, *, items: int = 3, name: str = "test:1", vbuckets: int = 1
) -> Told:
    """A connection on which streams begin at a seqno and deliver items."""
    talk = opened(name, port=50_000 + number)
    for vbucket in range(7, 7 + vbuckets):
        stream = talk.stream(vbucket, start=start, uuid=0xA if start else 0, log=LOG)
        stream.snapshot(start, start + 10, "memory")
        for seqno in range(start + 1, start + 1 + items):
            stream.mutation(seqno, f"k{seqno}")
    return talk


def looping(*talks: Told, side: str = "client", abort: bool = False) -> list[Told]:
    """Connections that are closed while their streams run."""
    for talk in talks:
        talk.close(side, abort=abort)  # type: ignore[arg-type] # it is a side
    return list(talks)


def test_each_connection_asks_from_the_same_seqno() -> None:
    (one,) = found(*looping(*(round_of(number, 20) for number in range(LEAST_TIMES))))
    assert (one.severity, one.cause, one.vbuckets, one.seqnos) == (
        "warning",
        "by-client",
        (7,),
        (20,),
    )
    assert one.message.startswith("connected 5 times in ")
    assert one.message.endswith(", from the same seqno each time, 12 items sent again")
    assert len(one.places) == LEAST_TIMES
    assert one.whose == "client"


def test_vbuckets_of_a_client_are_one_finding() -> None:
    (one,) = found(*looping(*(round_of(number, vbuckets=3) for number in range(8))))
    assert one.vbuckets == (7, 8, 9)


@pytest.mark.parametrize(
    ("side", "abort", "cause", "whose", "advice"),
    [
        (
            "client",
            False,
            "by-client",
            "client",
            "look in the client's log for what it did last on a connection; it has to store "
            "checkpoints, so that it gets further each time",
        ),
        (
            "server",
            False,
            "by-server",
            "server",
            "the server's memcached.log says why it closes them; the client has to store "
            "checkpoints, and to start from them",
        ),
        (
            "client",
            True,
            "reset",
            "unknown",
            "look in the logs of both sides, or for a device between that cuts connections; the "
            "client has to store checkpoints, and to start from them",
        ),
    ],
)
def test_who_closes_it_is_the_cause(
    side: str, abort: bool, cause: str, whose: str, advice: str
) -> None:
    (one,) = found(
        *looping(*(round_of(number) for number in range(LEAST_TIMES)), side=side, abort=abort)
    )
    assert (one.cause, one.whose, one.next) == (cause, whose, advice)


def test_fewer_times_are_no_loop() -> None:
    assert found(*looping(*(round_of(number) for number in range(LEAST_TIMES - 1)))) == []


def test_who_asks_from_a_higher_seqno_gets_on() -> None:
    assert found(*looping(*(round_of(number, 3 * number) for number in range(8)))) == []


def test_the_loop_is_over_once_the_client_gets_on() -> None:
    loop = looping(*(round_of(number) for number in range(LEAST_TIMES)))
    (one,) = found(*loop)
    assert one.over == "open"
    (one,) = found(*loop, *looping(round_of(9, 3)))
    assert one.over == "recovered"
    (one,) = found(*loop, round_of(9))
    assert (one.over, one.message.split()[1]) == ("unknown", "6")


def test_where_nothing_was_delivered_nothing_is_lost() -> None:
    assert found(*looping(*(round_of(number, items=0) for number in range(8)))) == []


def test_streams_that_have_ended_are_no_loop() -> None:
    talks = []
    for number in range(8):
        talk = opened(port=50_000 + number)
        stream = talk.stream(7, log=LOG)
        stream.snapshot(0, 1, "memory")
        stream.mutation(1, "k")
        stream.end("ok")
        talks.append(talk)
    assert found(*looping(*talks)) == []


def test_a_rollback_in_between_is_for_other_rules() -> None:
    talks = []
    for number in range(8):
        talk = opened(port=50_000 + number)
        talk.stream(7, start=20, uuid=0xA, rollback=0)
        stream = talk.stream(7, log=LOG)
        stream.snapshot(0, 10, "memory")
        stream.mutation(1, "k")
        talks.append(talk)
    assert found(*looping(*talks)) == []


def test_other_clients_and_long_pauses_are_no_loop() -> None:
    assert found(*looping(*(round_of(number, name=f"test{number}:1") for number in range(8)))) == []
    talks = [round_of(number) for number in range(8)]
    for talk in talks:
        talk.close("client")
        talk.wait(PAUSE_NS / 1e9 + 1)
    assert found(*talks) == []


def reopening(
    how: str,
    times: int = LEAST_TIMES + 1,
    *,
    end: int = 2**64 - 1,
    progress: int = 0,
    wait: float = 0,
) -> Told:
    """A client that asks for a vbucket from 0 each time, on one connection."""
    talk = opened()
    for number in range(times):
        stream = talk.stream(
            7, start=number * progress, end=end, uuid=0xA if number * progress else 0, log=LOG
        )
        stream.snapshot(number * progress, number * progress + 10, "disk")
        for seqno in range(3):
            stream.mutation(number * progress + seqno + 1, f"k{seqno}")
        if how == "close":
            stream.close()
            stream.end("closed")
        else:
            if how == "ok":
                stream.mutation(number * progress + 10, "z")
            stream.end(how)
        talk.wait(wait)
    return talk


@pytest.mark.parametrize(
    ("how", "cause", "more"),
    [
        ("close", "stream-closed", ""),
        (
            "disconnected",
            "stream-ended",
            "; the findings about stream ends say why the server ended them",
        ),
    ],
)
def test_streams_that_begin_anew_on_one_connection_are_a_loop_too(
    how: str, cause: str, more: str
) -> None:
    (one,) = found(reopening(how))
    assert (one.severity, one.cause, one.vbuckets, one.seqnos, one.whose) == (
        "warning",
        cause,
        (7,),
        (0,),
        "client",
    )
    assert one.message.startswith("asked for 6 times in ")
    assert one.message.endswith(", from the same seqno each time, 15 items sent again")
    assert one.next == (
        "look in the client's log for why it begins again; it has to store checkpoints, and to "
        f"resume each stream from the last seqno that it received{more}"
    )


def test_a_stream_that_the_server_ended_may_begin_anew_on_another_connection() -> None:
    talks = []
    for number in range(LEAST_TIMES):
        talk = opened(port=50_000 + number)
        stream = talk.stream(7, log=LOG)
        stream.snapshot(0, 10, "disk")
        stream.mutation(1, "k")
        stream.end("state-changed")
        talks.append(talk)
    assert [one.cause for one in found(*talks)] == ["stream-ended"]


def test_whoever_reads_everything_each_time_may_mean_to() -> None:
    (one,) = found(reopening("ok", end=10))
    assert (one.severity, one.cause) == ("note", "stream-finished")
    assert one.next == (
        "look in the client's log for why it begins again; it has to store checkpoints, and to "
        "resume each stream from the last seqno that it received, unless it is meant to read "
        "everything each time"
    )


@pytest.mark.parametrize(
    "sound",
    [
        reopening("close", LEAST_TIMES - 1),
        reopening("close", progress=3),
        reopening("disconnected", progress=3),
        reopening("close", wait=PAUSE_NS / 1e9 + 1),
        reopening("rollback"),
        reopening("filter-empty"),
    ],
    ids=[
        "too few",
        "gets on",
        "gets on after ends",
        "long pauses",
        "rollbacks",
        "nothing to stream",
    ],
)
def test_what_looks_like_streams_that_begin_anew(sound: Told) -> None:
    assert found(sound) == []


def test_jobs_of_one_name_begin_where_each_begins() -> None:
    """A backup streams from 0 to a seqno once, and the next one has a connection of its own."""
    for how in ("close", "ok"):
        talks = []
        for number in range(8):
            talk = reopening(how, 1, end=10)
            talk.port += number
            talk.close()
            talks.append(talk)
        assert found(*talks) == []


def test_a_request_may_be_in_a_hole() -> None:
    talk = opened()
    for number in range(8):
        with talk.lost():
            stream = talk.stream(7, log=LOG)
        stream.snapshot(0, 10, "disk")
        stream.mutation(1 + number, "k")
        stream.close()
    assert found(talk) == []


def bare(number: int) -> Told:
    """A connection that is opened for DCP, and on which nothing else is said."""
    return opened(port=50_000 + number)


@pytest.mark.parametrize(
    ("side", "abort", "cause", "whose"),
    [
        ("client", False, "by-client", "client"),
        ("server", False, "by-server", "server"),
        ("client", True, "reset", "unknown"),
    ],
)
def test_who_opens_dcp_again_and_again_and_never_asks_for_a_stream_is_told(
    side: str, abort: bool, cause: str, whose: str
) -> None:
    (one,) = found(*looping(*(bare(number) for number in range(8)), side=side, abort=abort))
    assert (one.severity, one.cause, one.whose, one.vbuckets) == ("warning", cause, whose, ())
    assert one.message.startswith("connected 8 times in ")
    assert one.message.endswith(", opened DCP, and never asked for a stream")
    assert len(one.places) == len(set(one.places)) <= 8


def test_fewer_connections_without_a_stream_are_no_loop() -> None:
    assert found(*looping(*(bare(number) for number in range(LEAST_TIMES - 1)))) == []


def test_connections_without_a_stream_that_run_together_are_no_loop() -> None:
    assert found(*(bare(number) for number in range(8))) == []


def test_a_stream_or_a_question_in_between_shows_that_the_client_gets_on() -> None:
    asking = bare(4)
    asking.high_seqnos({7: 100})
    for other in (round_of(4), asking):
        rest = (*(bare(number) for number in range(4)), other, *map(bare, range(5, 9)))
        assert found(*looping(*rest)) == []


def test_connections_that_come_after_a_long_pause_are_no_loop() -> None:
    rounds = looping(*map(bare, range(8)))
    for one in rounds:
        one.wait(PAUSE_NS / 1e9 + 1)
    assert found(*rounds) == []


def test_a_connection_without_a_stream_of_which_bytes_are_missing_is_not_counted() -> None:
    lossy = bare(4)
    with lossy.lost():
        lossy.control("noop", "true")
    rest = (*(bare(number) for number in range(4)), lossy, *map(bare, range(5, 9)))
    assert found(*looping(*rest)) == []
