"""Streams with a last seqno: the end that the server does not say, and the client that does not
wait for it.
"""

from __future__ import annotations

import pytest

from dcpinspect.findings.finding import Finding
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.findings.test_transport_rules import taking_nothing
from tests.streams.told import Told, opened, packets, sent_again

RULES = ("stream-end-missing", "closed-before-stream-end", "stream-end-early")


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=RULES)


def reached(end: int = 50, *, seqno: int = 50, snapshot: int = 50, window: int = 0) -> Told:
    """A stream asked to end at 50, with an event of that seqno."""
    talk = opened(connection_buffer_size=str(window))
    stream = talk.stream(7, end=end)
    stream.snapshot(0, snapshot, "memory")
    stream.mutation(seqno, "k")
    return talk


# -- stream-end-missing
# --------------------------------------------------------------------------------------


def test_the_requested_end_without_a_stream_end() -> None:
    talk = reached()
    talk.wait(30)
    talk.noop()
    (one,) = found(talk)
    assert (one.rule, one.severity, one.vbuckets, one.seqnos) == (
        "stream-end-missing",
        "warning",
        (7,),
        (50,),
    )
    assert one.message == "requested end 50 reached, no stream end for 30.0 s"
    assert [place.row for place in one.places] == [10, 7]


@pytest.mark.parametrize(
    ("then", "cause", "whose"),
    [("noop", "goes-on", "server"), ("close", "closed", "server"), ("", "silent", "unknown")],
)
def test_nothing_is_lost_without_it_and_it_is_the_servers_if_that_is_still_there(
    then: str, cause: str, whose: str
) -> None:
    talk = reached()
    talk.wait(30)
    if then == "noop":
        talk.noop()
    elif then == "close":
        talk.close("server")
    else:
        talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    (one,) = found(talk)
    assert (one.severity, one.cause, one.whose) == ("warning", cause, whose)


def test_seqno_advanced_reaches_it_too() -> None:
    talk = opened()
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 50, "memory")
    stream.mutation(40, "k")
    stream.seqno_advanced(50)
    talk.wait(30)
    talk.noop()
    assert len(found(talk)) == 1


def test_a_server_that_closes_first_says_it_no_more() -> None:
    talk = reached()
    talk.close("server")
    (one,) = found(talk)
    assert one.message.endswith(", closed by the server")


def test_a_client_that_closes_at_once_may_not_have_heard_it() -> None:
    talk = reached()
    talk.close()
    assert found(talk) == []


@pytest.mark.parametrize(
    "sound",
    [
        reached(2**64 - 1),
        reached(0, seqno=50),
        reached(seqno=40),  # not reached
        reached(snapshot=60),  # the snapshot goes on, and so does the stream
        reached(window=60),  # the window is full
    ],
    ids=["endless", "end 0", "not reached", "snapshot open", "window full"],
)
def test_streams_that_go_on(sound: Told) -> None:
    sound.wait(30)
    sound.noop()
    assert found(sound) == []


def test_a_stream_that_the_client_closed_ends_otherwise() -> None:
    talk = opened()
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 50, "memory")
    stream.mutation(50, "k")
    stream.close()
    talk.wait(30)
    talk.noop()
    assert found(talk) == []


def test_the_capture_may_end_first() -> None:
    talk = reached()
    talk.wait(1.9)
    talk.noop()
    assert found(talk) == []


def test_a_server_that_is_slow_has_ten_times_as_long() -> None:
    talk = opened()
    for vbucket in (6, 7):
        stream = talk.stream(vbucket, end=50)
        stream.snapshot(0, 50, "memory")
        stream.mutation(50, "k")
        if vbucket == 6:
            talk.wait(1)
            stream.end()
    talk.wait(9)
    talk.noop()
    assert found(talk) == []
    talk.wait(2)
    talk.noop()
    assert len(found(talk)) == 1


def test_the_end_may_be_in_a_hole() -> None:
    talk = opened()
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 50, "memory")
    stream.mutation(50, "k")
    with talk.lost():
        stream.end()
    talk.wait(30)
    talk.noop()
    assert found(talk) == []


# -- closed-before-stream-end
# -----------------------------------------------------------------------------------


def left(*, end: int = 50) -> Told:
    """Three streams: one ended, one is at its end, one is not."""
    talk = opened()
    streams = [talk.stream(vbucket, end=end) for vbucket in (7, 8, 9)]
    for stream, last in zip(streams, (50, 50, 20), strict=True):
        stream.snapshot(0, 50, "memory")
        stream.mutation(last, "k")
    streams[0].end()
    return talk


def test_a_client_that_does_not_wait_for_all() -> None:
    talk = left()
    talk.close()
    (one,) = [one for one in found(talk) if one.rule == "closed-before-stream-end"]
    assert (one.severity, one.vbuckets, one.message) == (
        "warning",
        (9,),
        "client closed with 1 of 3 finite streams unfinished",
    )


@pytest.mark.parametrize("how", [("client", True), ("server", False), ("server", True)])
def test_a_reset_or_a_server_that_closes_is_no_such_client(how: tuple[str, bool]) -> None:
    talk = left()
    talk.close(how[0], abort=how[1])  # type: ignore[arg-type] # one of the sides
    assert [one for one in found(talk) if one.rule == "closed-before-stream-end"] == []


@pytest.mark.parametrize(("silence_s", "rule"), [(12, "silent-connection"), (1, RULES[1])])
def test_a_client_that_gives_up_a_silent_server_does_what_it_has_to(
    silence_s: int, rule: str
) -> None:
    talk = opened(enable_noop="true", set_noop_interval="5")
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 50, "memory")
    stream.mutation(20, "k")
    talk.noop()
    talk.wait(silence_s)
    talk.close()
    assert [one.rule for one in findings(talk) if one.severity == "warning"] == [rule]


def test_a_client_that_nothing_reaches_may_close_before_the_end() -> None:
    talk = left()
    latest = len(packets(talk)) - 2
    talk.wait(9)
    talk.close()
    captured = packets(talk)
    assert [one.rule for one in found_in(captured, rules=RULES[1:])] == ["closed-before-stream-end"]
    seen = sent_again(captured, latest, 0.3, 0.9, 2.1, 4.5, 8.7, arrives=False)
    assert found_in(seen, rules=RULES[1:]) == []


def test_streams_without_an_end_are_left_at_any_time() -> None:
    talk = left(end=2**64 - 1)
    talk.close()
    assert found(talk) == []


def test_a_stream_that_the_client_closed_is_finished() -> None:
    talk = opened()
    talk.stream(7, end=50).close()
    talk.close()
    assert found(talk) == []


@pytest.mark.parametrize("by", ["server", "client"])
def test_what_finished_it_may_be_in_a_hole(by: str) -> None:
    talk = opened()
    stream = talk.stream(7, end=50)
    with talk.lost():
        if by == "server":
            stream.end()
        else:
            stream.close()
    talk.noop()
    talk.close()
    assert found(talk) == []


def test_the_end_is_not_missing_while_the_network_carries_nothing_or_a_message_comes() -> None:
    talk = reached()
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    talk.wait(30)
    talk.noop()
    captured = packets(talk)
    assert len(found_in(captured, rules=RULES)) == 1
    for arrives in (True, False):
        seen = sent_again(captured, -6, 0.3, 5, 29, arrives=arrives)
        assert found_in(seen, rules=RULES) == []
    coming = reached()
    coming.send("server", encode("dcp_noop", opaque=9)[:9])
    coming.wait(30)
    coming.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    assert found(coming) == []


def test_a_network_that_carries_nothing_in_the_end_may_have_lost_the_end_of_the_stream() -> None:
    talk = reached()
    talk.wait(30)
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    captured = packets(talk)
    assert len(found_in(captured, rules=RULES)) == 1
    assert found_in(sent_again(captured, -2, 0.3, 0.9, 2.1, arrives=False), rules=RULES) == []


def test_the_end_is_not_missing_while_the_client_takes_nothing() -> None:
    talk = reached()
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    talk.wait(30)
    talk.noop()
    captured = packets(talk)
    assert found_in(taking_nothing(captured, len(captured) - 6, len(captured)), rules=RULES) == []


# -- stream-end-early
# ----------------------------------------------------------------------------------------


def early(
    talk: Told | None = None, *, upto: int = 30, reason: str = "ok", **request: object
) -> Told:
    """A stream asked to end at 50, which ends behind a snapshot up to 30."""
    talk = talk or opened()
    stream = talk.stream(7, end=50, **request)  # type: ignore[arg-type] # parts of a request
    stream.snapshot(0, upto, "memory")
    stream.mutation(upto, "k")
    stream.end(reason)
    return talk


def versioned(text: str) -> Told:
    talk = opened()
    talk.ask("version", {"value": text})
    return talk


@pytest.mark.parametrize(
    ("version", "severity", "cause", "whose"),
    [
        ("", "warning", "not-told", "unknown"),
        ("7.2.4", "warning", "not-told", "server"),
        ("8.0.0", "note", "hidden", "normal"),
    ],
)
def test_a_stream_that_ends_before_the_requested_seqno(
    version: str, severity: str, cause: str, whose: str
) -> None:
    (one,) = found(early(versioned(version) if version else None))
    assert (one.rule, one.severity, one.cause, one.whose) == (
        "stream-end-early",
        severity,
        cause,
        whose,
    )
    assert one.message == "ended ok after seqno 30: seqnos 31–50 did not come, nor a SeqnoAdvanced"
    assert (one.vbuckets, one.seqnos) == ((7,), (31, 50))


def holed() -> Told:
    talk = opened()
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 30, "memory")
    stream.mutation(30, "k")
    with talk.lost():
        stream.snapshot(31, 50, "memory")
        stream.mutation(50, "k")
    stream.end()
    return talk


def advanced() -> Told:
    talk = opened()
    stream = talk.stream(7, end=50)
    stream.snapshot(0, 50, "memory")
    stream.mutation(30, "k")
    stream.seqno_advanced(50)
    stream.end()
    return talk


def plain() -> Told:
    talk = Told("old:1")
    talk.hello("old/1", "XATTR")
    talk.open("old:1", "producer")
    return talk


@pytest.mark.parametrize(
    "sound",
    [
        early(upto=49),
        early(upto=60),
        early(reason="state-changed"),
        early(flags=["to-latest"]),
        early(flags=["takeover"]),
        early(value={"collections": ["8"]}),
        early(plain()),
        early(versioned("6.6.5")),
        holed(),
        advanced(),
    ],
)
def test_streams_that_end_where_they_may(sound: Told) -> None:
    assert found(sound) == []
