"""Rules about flow control: each by its smallest conversation, those that look like it and are
sound, and the one with a hole in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.flow_rules import RULES
from dcpinspect.output.render.verdict import verdict
from tests.damage import sample
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.peers.script import Side, Stream
from tests.streams.told import Told, opened, packets, sent_again

FLOW = [rule.id for rule in RULES]
MUTATION = 24 + 31 + 3 + 100
"""Size of the mutations below."""


def check(*talks: Told, sizes: list[int] | None = None) -> list[Finding]:
    return findings(*talks, rules=FLOW, sizes=sizes or [])


def told(*talks: Told) -> list[tuple[str, str | None, str]]:
    return [(one.rule, one.cause, one.severity) for one in check(*talks)]


def windowed(window: int = 10_000, **controls: Any) -> tuple[Told, Stream]:
    talk = opened(connection_buffer_size=str(window), **controls)
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    return talk, stream


def ack(talk: Told, size: int) -> None:
    talk.send("client", encode("dcp_buffer_acknowledgement", ack_bytes=size))
    talk.counted -= size


def mutate(stream: Stream, seqno: int, count: int = 1) -> None:
    for number in range(seqno, seqno + count):
        stream.mutation(number, f"{number:02d}"[-2:], b"x" * 100)


# -- flow-control-stall
# --------------------------------------------------------------------------------------------------


def stalled(seconds: float, window: int = 500) -> Told:
    talk, stream = windowed(window)
    mutate(stream, 1)
    ack(talk, 100)
    mutate(stream, 2, 3)
    talk.wait(seconds)
    return talk


def nooped(talk: Told) -> Told:
    talk.noop()
    return talk


@pytest.mark.parametrize(("seconds", "severity"), [(6, "warning"), (2, "note")])
def test_a_full_window_up_to_an_acknowledgement(seconds: float, severity: str) -> None:
    talk = stalled(seconds)
    ack(talk, 100)
    (found,) = check(talk)
    assert (found.rule, found.severity, found.count) == ("flow-control-stall", severity, 1)
    assert found.message.startswith(
        f"flow-control window full for {seconds}.0 s, {44 + 4 * MUTATION - 100} of 500 bytes "
        "not acknowledged,"
        f" last acknowledgement {seconds}.0 s before"
    )
    full, acked, control = found.places
    assert (full.direction, acked.direction, control.direction) == ("s2c", "c2s", "c2s")
    assert control.row < full.row, "what asked for the window is shown, too"
    assert found.vbuckets == (), "nobody waits any more"


def test_a_full_window_up_to_the_end_names_the_vbuckets_that_wait() -> None:
    talk = stalled(30)
    talk.noop()
    (found,) = check(talk)
    assert (found.rule, found.severity, found.vbuckets) == ("flow-control-stall", "error", (7,))
    assert "for 30.0 s" in found.message


def test_a_window_that_was_asked_for_after_the_stall_does_not_show_it() -> None:
    talk = stalled(6)
    ack(talk, 100)
    talk.control("connection_buffer_size", "100000")
    (found,) = check(talk)
    assert found.rule == "flow-control-stall"
    assert [place.direction for place in found.places] == ["s2c", "c2s"]


def test_a_full_window_up_to_the_end_of_another_connection() -> None:
    """The capture goes on: nothing was seen on this one."""
    other = opened("other:1", port=50_001)
    other.wait(20)
    other.noop()
    (found,) = check(stalled(0), other)
    assert (found.rule, found.connections) == ("flow-control-stall", (1,))


def test_nobody_waits_where_no_stream_is_open() -> None:
    talk, stream = windowed(210)
    mutate(stream, 1)
    stream.end("ok")
    talk.wait(20)
    talk.noop()
    assert check(talk) == []


def test_a_full_window_for_a_moment() -> None:
    talk = stalled(0.5)
    ack(talk, 500)
    talk.wait(20)
    talk.noop()
    assert check(talk) == []


@pytest.mark.parametrize(
    ("full_s", "idle_s", "rounds", "expected"),
    [
        (0.9, 0.0, 40, ["full for 36.0 s of 36.0 s in all, 40 times"]),
        (0.5, 0.4, 40, ["full for 20.0 s of 36.0 s in all, 40 times"]),
        (0.4, 0.5, 40, []),
        (0.9, 0.0, 30, []),
    ],
)
def test_a_window_that_is_full_most_of_the_time(
    full_s: float, idle_s: float, rounds: int, expected: list[str]
) -> None:
    """However short each time is: the server mostly waits for the client."""
    talk, stream = windowed(150)
    for seqno in range(1, rounds + 1):
        talk.wait(idle_s)
        mutate(stream, seqno)
        talk.wait(full_s)
        talk.acknowledge()
    found = check(talk)
    assert [(one.cause, one.severity, one.whose, one.message) for one in found] == [
        ("mostly-full", "note", "unknown", f"flow-control window {words}") for words in expected
    ]


def test_of_several_stalls_the_longest_is_told() -> None:
    talk, stream = windowed(150)
    for seqno, seconds in ((1, 2), (2, 8), (3, 2), (4, 2), (5, 2), (6, 2)):
        mutate(stream, seqno)
        talk.wait(seconds)
        talk.acknowledge()
    (found,) = check(talk)
    assert (found.severity, found.count) == ("warning", 6)
    assert "for 8.0 s" in found.message


@pytest.mark.parametrize(
    ("seconds", "by", "words"),
    [
        (
            30,
            "server",
            ", last acknowledgement 30.0 s before; then the server closed the connection",
        ),
        (
            30,
            "client",
            ", last acknowledgement 30.0 s before; then the client closed the connection",
        ),
        (
            719,
            "server",
            ", last acknowledgement 12 min before; then the server closed the connection",
        ),
        (
            721,
            "server",
            " before; then the server closed the connection; a server may give up after 720 s",
        ),
        (
            721,
            "client",
            " before; then the client closed the connection; a server may give up after 720 s",
        ),
    ],
)
@pytest.mark.parametrize("abort", [True, False])
def test_the_servers_limit_is_named_and_explains_its_close(
    seconds: int, by: Side, words: str, abort: bool
) -> None:
    talk = stalled(seconds)
    talk.close(by, abort=abort)
    found = {one.rule: one for one in findings(talk, rules=[*FLOW, "connection-closed"])}
    stall, close = found["flow-control-stall"], found["connection-closed"]
    assert stall.message.endswith(words.replace("closed", "reset" if abort else "closed"))
    assert (stall.over, verdict([stall])) == (
        "unknown",
        "1 connection has stalled until it was closed",
    )
    assert (close.effect_of == stall.id) is (by == "server")
    assert ("(720 by default, perhaps less)" in stall.next) is (by == "server" and seconds < 720)
    assert not close.message.endswith(", after flow-control-stall") or (by, close.whose) == (
        "server",
        "client",
    )


def test_a_client_that_was_stuck_beyond_the_servers_limit_and_goes_on() -> None:
    talk = stalled(800)
    ack(talk, 100)
    (found,) = check(talk)
    assert found.message.endswith(
        "last acknowledgement 13 min before; a server may give up after 720 s"
    )
    assert found.next == (
        "look in the client's log for what stopped it from processing its messages then; a client "
        "has to count all its bytes, because servers from 7.2.7, 7.6.6 and 8.0 on disconnect it"
        " after dcp_disconnect_when_stuck_timeout_seconds (720 by default) if"
        " dcp_disconnect_when_stuck_name_regex matches its name"
    )


def test_the_close_is_explained_by_the_stall_before_it_and_no_earlier_one() -> None:
    talk = stalled(800)
    talk.acknowledge()
    talk.close("server")
    assert {one.rule for one in findings(talk, rules=[*FLOW, "connection-closed"])} == {
        "flow-control-stall",
        "connection-closed",
    }


def test_a_close_in_a_hole_explains_nothing() -> None:
    talk = stalled(721)
    with talk.lost():
        talk.acknowledge()
        talk.send("client", encode("dcp_get_failover_log", opaque=9))
    talk.close("server")
    assert [one.rule for one in findings(talk, rules=[*FLOW, "connection-closed"])] == [
        "connection-closed"
    ]


# -- windows that no server can keep
# --------------------------------------------------------------------------------------------------

GIB_4 = 1 << 32


def test_of_a_window_above_four_gib_servers_keep_the_lower_bits() -> None:
    talk = stalled(6, GIB_4 + 500)
    ack(talk, 100)
    (found,) = check(talk)
    assert (found.rule, found.severity) == ("flow-control-stall", "warning")
    assert found.message.startswith(
        f"flow-control window full for 6.0 s, {44 + 4 * MUTATION - 100} of 500 bytes"
    )
    assert found.message.endswith(
        "; the client asked for 4,294,967,796, and servers before 7.6 keep only the lower 32 bits"
    )


@pytest.mark.parametrize("goes_on", [2, 4])
def test_a_server_that_keeps_more_of_a_window_is_accused_of_nothing(goes_on: int) -> None:
    talk, stream = windowed(GIB_4 + 300)
    mutate(stream, 1, goes_on)
    talk.wait(0.1)
    mutate(stream, 1 + goes_on)
    talk.wait(6)
    talk.noop()
    assert check(talk) == []


def test_a_window_of_exactly_four_gib_is_none() -> None:
    talk, stream = windowed(GIB_4)
    mutate(stream, 1, 9)
    talk.wait(6)
    ack(talk, 44)
    (found,) = check(talk)
    assert (found.rule, found.severity) == ("ack-without-window", "note")
    assert (
        "servers before 7.6 keep only the lower 32 bits of the window of 4,294,967,296, and "
        "these are 0"
    ) in found.message


def test_the_largest_window_is_as_it_was_asked_for() -> None:
    talk, stream = windowed(GIB_4 - 1)
    mutate(stream, 1, 9)
    talk.wait(6)
    talk.acknowledge()
    assert check(talk) == []


# -- under-acknowledged
# --------------------------------------------------------------------------------------------------


def advanced(stream: Stream, seqno: int) -> int:
    stream.seqno_advanced(seqno)
    return 32


def marked(stream: Stream, seqno: int) -> int:
    stream.snapshot(1000 + 10 * seqno, 1009 + 10 * seqno, "memory", "checkpoint")
    return 44


def oso(stream: Stream, seqno: int) -> int:
    stream.oso("start" if seqno % 2 else "end")
    return 28


def event(stream: Stream, seqno: int) -> int:
    stream.system_event(
        seqno, "begin-collection", "orders", manifest_uid=seqno, collection_id=8 + seqno
    )
    return 24 + 13 + 6 + 16


def prepared(stream: Stream, seqno: int) -> int:
    stream.prepare(seqno, f"k{seqno}", {})
    return 2


LEAKS: dict[str, tuple[Callable[[Stream, int], int], dict[str, Any]]] = {
    "without-seqno-advanced": (advanced, {}),
    "without-snapshot-marker": (marked, {}),
    "without-oso-snapshot": (oso, {}),
    "without-system-event": (event, {}),
    "without-prepare-surplus": (prepared, {"enable_sync_writes": "true"}),
}


COUNT_ALL = (
    "count all bytes of every message of a stream: header, framing extras, extras, key and value"
)


def leaking(cause: str, rounds: int = 4) -> tuple[Told, int]:
    """A consumer that leaves something out; and how much it owes."""
    left_out, controls = LEAKS[cause]
    talk, stream = windowed(**controls)
    owed = 44 if cause == "without-snapshot-marker" else 0
    talk.counted -= owed
    for number in range(rounds):
        mutate(stream, 4 * number + 1)
        missing = left_out(stream, 4 * number + 2)
        ack(talk, talk.counted - missing)
        talk.counted = 0
        owed += missing
    return talk, owed


@pytest.mark.parametrize("cause", LEAKS)
def test_messages_that_a_consumer_does_not_count(cause: str) -> None:
    talk, owed = leaking(cause)
    (found,) = check(talk)
    assert (found.rule, found.cause, found.severity) == ("under-acknowledged", cause, "warning")
    assert found.message.startswith(
        f"under-acknowledged by {owed:,} bytes: {5 if 'marker' in cause else 4} x "
    )
    assert {place.direction for place in found.places} == {"c2s"}
    assert found.next == "restart the client when its window is full; it has to " + (
        "count each prepare as header and body plus 2 bytes, because servers do"
        if cause == "without-prepare-surplus"
        else COUNT_ALL
    )


def test_framing_extras_that_a_consumer_does_not_count() -> None:
    talk = opened(connection_buffer_size="10000", enable_stream_id="true")
    stream = talk.stream(7, value={"sid": 9})
    stream.snapshot(0, 1000, "memory")
    for seqno in range(1, 5):
        mutate(stream, seqno)
        ack(talk, talk.counted - (6 if seqno == 1 else 3))
        talk.counted = 0
    (found,) = check(talk)
    assert (found.cause, found.message) == (
        "without-flex-frames",
        "under-acknowledged by 15 bytes: 5 x framing extras",
    )
    assert found.next == (
        f"restart the client when its window is full; it has to {COUNT_ALL}; servers before 7.0 "
        "left the stream-id out of most messages themselves (MB-40277)"
    )


def test_stream_ends_that_a_consumer_does_not_count() -> None:
    talk = opened(connection_buffer_size="10000")
    for vbucket in range(4):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        stream.end("ok")
        ack(talk, 44)
    (found,) = check(talk)
    assert (found.cause, found.message) == (
        "without-stream-end",
        "under-acknowledged by 112 bytes: 4 x stream end (0x55)",
    )


def test_headers_that_a_consumer_does_not_count() -> None:
    talk, stream = windowed()
    ack(talk, 20)
    for seqno in range(1, 4):
        mutate(stream, seqno)
        ack(talk, MUTATION - 24)
    (found,) = check(talk)
    assert (found.cause, found.message) == (
        "without-header",
        "under-acknowledged by 96 bytes: 4 x the header of 24 bytes",
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (
            "replication:ns_1@a->ns_1@b:default",
            f"look at the client's version; it has to {COUNT_ALL}; a node that replicates does not acknowledge what it had buffered at "
            "the end of a stream (before 7.2, MB-56275); it acknowledges buffered messages with "
            "a wrong size (before 6.6.5 and 7.0.4, MB-47318), and V2.2 markers with the size of "
            "V2.0 (builds before 8.0.0, MB-64936)",
        ),
        ("reader:1", f"restart the client when its window is full; it has to {COUNT_ALL}"),
    ],
)
def test_versions_of_servers_that_count_otherwise_are_named_to_nodes_and_where_nothing_fits(
    name: str, advice: str
) -> None:
    talk = opened(name, connection_buffer_size="10000")
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    ack(talk, 20)
    for seqno in range(1, 4):
        mutate(stream, seqno)
        ack(talk, MUTATION - 24)
    (found,) = check(talk)
    assert (found.rule, found.cause, found.next) == (
        "under-acknowledged",
        "without-header",
        advice,
    )
    talk = opened(name, connection_buffer_size="10000")
    talk.stream(7).snapshot(0, 1000, "memory")
    (found,) = check(excess(talk))
    assert (found.rule, found.cause) == ("over-acknowledged", None)
    assert found.next == (
        "look at the client's version; it has to count the bytes on the wire, and only those of the server's requests that belong to "
        "streams; a node that replicates with full eviction acknowledges a message twice if the"
        " message had to wait for the disk (5.5 to 8.0.2, MB-72321); it acknowledges buffered "
        "messages with a wrong size (before 6.6.5 and 7.0.4, MB-47318)"
    )
    (found,) = [one for one in check(growing()) if one.rule == "under-acknowledged"]
    assert found.next == (
        f"look at the client's version; it has to {COUNT_ALL}; a node that replicates does not "
        "acknowledge what it had buffered at the end of a stream (before 7.2, MB-56275); it "
        "acknowledges buffered messages with a wrong size (before 6.6.5 and 7.0.4, MB-47318), and "
        "V2.2 markers with the size of V2.0 (builds before 8.0.0, MB-64936)"
    )


def test_two_acknowledgements_prove_nothing() -> None:
    assert check(leaking("without-seqno-advanced", rounds=2)[0]) == []


def test_the_right_sizes_whenever_they_are_acknowledged() -> None:
    talk, stream = windowed(enable_sync_writes="true")
    for seqno in range(1, 40, 4):
        mutate(stream, seqno)
        stream.prepare(seqno + 1, f"k{seqno}", {})
        stream.commit(seqno + 1, seqno + 2, f"k{seqno}")
        stream.seqno_advanced(seqno + 3)
        if seqno % 3:
            talk.acknowledge()
    assert check(talk) == []


def test_acknowledgements_of_any_size_that_keep_up() -> None:
    talk, stream = windowed()
    for seqno in range(1, 20):
        mutate(stream, seqno)
        ack(talk, 100 if seqno % 2 else 200)
    assert check(talk) == []


def growing(rounds: int = 5) -> Told:
    """A consumer that acknowledges some of what it gets, up to a full window."""
    talk, stream = windowed(550)
    for seqno in range(1, rounds + 1):
        mutate(stream, seqno)
        ack(talk, 51)
    talk.wait(10)
    talk.noop()
    return talk


def test_what_waits_only_grows_up_to_a_full_window() -> None:
    assert sorted(told(growing())) == [
        ("flow-control-stall", None, "error"),
        ("under-acknowledged", "no-fit", "warning"),
    ]
    (found,) = [one for one in check(growing()) if one.rule == "under-acknowledged"]
    assert found.message == (
        "under-acknowledged: unacknowledged bytes only grew over 5 acknowledgements, to "
        f"{44 + 5 * (MUTATION - 51)} of 550"
    )


@pytest.mark.parametrize("room", [False, True])
def test_an_acknowledgement_that_makes_no_room_ends_no_stall(room: bool) -> None:
    talk, stream = windowed(800)
    for seqno in range(1, 6):
        mutate(stream, seqno)
    for number in range(8):
        talk.wait(1)
        ack(talk, 1)
        if room and number == 3:
            ack(talk, 100)
    stalls = [one for one in check(talk) if one.rule == "flow-control-stall"]
    assert [(one.severity, one.over) for one in stalls] == [
        ("note", "recovered") if room else ("warning", "open")
    ]
    assert stalls[0].message.startswith(
        "flow-control window full for 4.0 s" if room else "flow-control window full for 8.0 s"
    )


def test_three_acknowledgements_before_a_full_window_prove_nothing() -> None:
    talk, stream = windowed(400)
    for seqno in range(1, 4):
        mutate(stream, seqno)
        ack(talk, 51)
    mutate(stream, 4)
    talk.wait(10)
    talk.noop()
    assert told(talk) == [("flow-control-stall", None, "error")]


def test_bytes_before_the_window_are_not_held_against_a_consumer() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    talk.control("connection_buffer_size", "1000")
    ack(talk, 44)
    for seqno in range(1, 6):
        mutate(stream, seqno)
        ack(talk, MUTATION)
    assert check(talk) == []


# -- over-acknowledged
# --------------------------------------------------------------------------------------------------


def inflating() -> Told:
    talk = opened(connection_buffer_size="10000")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for seqno in range(1, 5):
        before = talk.counted
        stream.mutation(seqno, "kk", b"x" * 600, snappy=True)
        ack(talk, 24 + 31 + 3 + 600 + (before if seqno == 1 else 0))
        talk.counted = 0
    talk.wait(1)
    talk.noop()
    return talk


def answering() -> Told:
    talk = opened(connection_buffer_size="10000")
    for vbucket in range(4):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        ack(talk, 24 + 16 + 44)
    talk.wait(1)
    talk.noop()
    return talk


def controlling() -> Told:
    talk = opened(connection_buffer_size="10000", enable_noop="true")
    first = 24
    for vbucket in range(4):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        ack(talk, first + 24 + 16 + 44)
        first = 0
    talk.wait(1)
    talk.noop()
    return talk


def nooping() -> Told:
    talk = opened(connection_buffer_size="10000")
    stream = talk.stream(7)
    for number in range(4):
        stream.snapshot(10 * number, 10 * number + 9, "memory")
        talk.noop()
        ack(talk, 44 + 24)
    talk.wait(1)
    talk.noop()
    return talk


OVERS = {
    "decompressed-sizes": inflating,
    "stream-answers-counted": answering,
    "answers-counted": controlling,
    "noops-counted": nooping,
}


@pytest.mark.parametrize("cause", OVERS)
def test_what_a_consumer_counts_too_much(cause: str) -> None:
    (found,) = check(OVERS[cause]())
    assert (found.rule, found.cause, found.severity) == ("over-acknowledged", cause, "warning")
    assert " bytes were acknowledged, but only " in found.message
    assert found.places[0].direction == "c2s"


def excess(talk: Told) -> Told:
    ack(talk, 45)
    talk.wait(1)
    talk.noop()
    return talk


def test_more_than_was_sent_for_no_known_reason() -> None:
    (found,) = check(excess(windowed()[0]))
    assert (found.rule, found.cause, found.message) == (
        "over-acknowledged",
        None,
        "45 bytes were acknowledged, but only 44 sent",
    )


def test_an_acknowledgement_that_the_capture_has_before_what_it_acknowledges() -> None:
    talk, stream = windowed()
    ack(talk, 44 + MUTATION)
    mutate(stream, 1)
    assert check(talk) == []


def test_bytes_sent_before_the_window_may_be_acknowledged() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    talk.control("connection_buffer_size", "1000")
    mutate(stream, 1)
    ack(talk, 44 + MUTATION)
    talk.wait(1)
    talk.noop()
    assert check(talk) == []


# -- flow-control-overrun
# --------------------------------------------------------------------------------------------------


def overrun() -> Told:
    talk, stream = windowed(300)
    mutate(stream, 1, 5)
    talk.wait(0.1)
    talk.noop()
    return talk


def test_messages_that_begin_when_the_window_is_full() -> None:
    (found,) = check(overrun())
    assert (found.rule, found.severity, found.message) == (
        "flow-control-overrun",
        "warning",
        f"{44 + 5 * MUTATION - 300} bytes past the window of 300",
    )
    assert found.places[0].direction == "s2c"


def test_an_overrun_before_an_acknowledgement() -> None:
    talk, stream = windowed(300)
    mutate(stream, 1, 5)
    talk.wait(0.1)
    talk.acknowledge()
    (found,) = check(talk)
    assert (found.rule, found.count, len(found.places)) == ("flow-control-overrun", 1, 1)


def test_one_message_may_go_beyond_the_window() -> None:
    talk, stream = windowed(300)
    mutate(stream, 1, 2)
    talk.wait(0.1)
    talk.noop()
    assert check(talk) == []


def test_an_acknowledgement_under_way_makes_room() -> None:
    talk, stream = windowed(300)
    mutate(stream, 1, 3)
    talk.acknowledge()
    mutate(stream, 4)
    talk.wait(0.1)
    talk.noop()
    assert check(talk) == []


def test_a_window_that_became_smaller_is_no_overrun() -> None:
    talk, stream = windowed(1000)
    mutate(stream, 1, 3)
    talk.control("connection_buffer_size", "300")
    mutate(stream, 4)
    talk.wait(0.1)
    talk.noop()
    assert check(talk) == []


# -- ack-without-window
# --------------------------------------------------------------------------------------------------


def unasked(talk: Told) -> Told:
    talk.stream(7).snapshot(0, 9, "memory")
    ack(talk, 44)
    return talk


def test_an_acknowledgement_without_flow_control() -> None:
    (found,) = check(unasked(opened()))
    assert (found.rule, found.severity, found.count) == ("ack-without-window", "note", 1)


def test_an_acknowledgement_while_a_window_is_asked_for() -> None:
    talk = opened()
    talk.send(
        "client", encode("dcp_control", opaque=99, key="connection_buffer_size", value="1000")
    )
    unasked(talk)
    assert check(talk) == []


# -- what nobody knows
# --------------------------------------------------------------------------------------------------


def leak(talk: Told, stream: Stream) -> None:
    for seqno in range(1, 9, 2):
        mutate(stream, seqno)
        stream.seqno_advanced(seqno + 1)
        ack(talk, MUTATION)


def fill(talk: Told, stream: Stream) -> None:
    mutate(stream, 1, 8)
    talk.wait(10)
    talk.noop()


def exceed(talk: Told, _: Stream) -> None:
    ack(talk, 5000)
    talk.wait(1)
    talk.noop()


UNKNOWN: dict[str, Callable[[Told, Stream], None]] = {
    "under": leak,
    "stall and overrun": fill,
    "over": exceed,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_fault_is_seen_where_nothing_is_missing(name: str) -> None:
    talk, stream = windowed(300)
    ack(talk, 44)
    UNKNOWN[name](talk, stream)
    assert check(talk)


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("missing", ["ack", "message", "control", "answer"])
def test_what_lies_in_a_hole_accuses_nobody(name: str, missing: str) -> None:
    talk = opened()
    if missing == "control":
        with talk.lost():
            talk.control("connection_buffer_size", "300")
        talk.control("enable_noop", "true")
    elif missing == "answer":
        talk.send(
            "client", encode("dcp_control", opaque=77, key="connection_buffer_size", value="300")
        )
        with talk.lost():
            talk.answer("dcp_control", 77)
    else:
        talk.control("connection_buffer_size", "300")
    stream = talk.stream(7)
    stream.snapshot(0, 1000, "memory")
    with talk.lost():
        if missing == "ack":
            ack(talk, 44)
        elif missing == "message":
            stream.mutation(1, "lost")
    if missing in ("ack", "message"):
        talk.failover_log(7, [(1, 0)])  # something behind the hole, in both directions
    UNKNOWN[name](talk, stream)
    assert check(talk) == []


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize(("snaplen", "is_known"), [(54 + 24 + 27, False), (54 + 24 + 28, True)])
def test_an_acknowledgement_that_the_snapshot_length_cut_accuses_nobody(
    name: str, snaplen: int, is_known: bool
) -> None:
    """It is the second message of its segment: a byte less than its header and its number need, and
    nobody knows the balance.
    """
    talk, stream = windowed(300)
    talk.send(
        "client",
        encode("dcp_get_failover_log", opaque=5)
        + encode("dcp_buffer_acknowledgement", ack_bytes=44),
    )
    UNKNOWN[name](talk, stream)
    assert bool(findings(talk, rules=FLOW, snaplen=snaplen)) is is_known


@pytest.mark.parametrize("snaplen", [80, 92, 104, 120])
def test_samples_that_a_snapshot_length_cut_are_accused_of_nothing_new(snaplen: int) -> None:
    for name in ("tour", "lossy", "loop"):
        whole, cut = (
            [packet.cut(size) for packet in sample(name).packets] for size in (1 << 18, snaplen)
        )
        known = {(one.rule, one.connections) for one in found_in(whole, rules=FLOW)}
        assert {
            (one.rule, one.connections)
            for one in found_in(cut, rules=FLOW)
            if one.severity != "note"
        } <= known


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_capture_that_begins_in_the_middle_accuses_nobody(name: str) -> None:
    talk, stream = windowed(300)
    talk.begin()
    UNKNOWN[name](talk, stream)
    assert check(talk) == []


def test_what_was_known_before_a_hole_stays_known() -> None:
    talk, _ = leaking("without-seqno-advanced")
    with talk.lost():
        talk.acknowledge()
    talk.failover_log(7, [(1, 0)])
    assert [one.rule for one in check(talk)] == ["under-acknowledged"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        growing,
        overrun,
        inflating,
        lambda: nooped(stalled(6)),
        lambda: leaking("without-snapshot-marker")[0],
    ],
)
def test_batches_change_nothing(make: Callable[[], Any]) -> None:
    whole = check(make())
    assert whole
    assert check(make(), sizes=[1] * 200) == whole
    assert check(make(), sizes=[7] * 40) == whole


def test_a_stall_explains_why_a_connection_is_silent() -> None:
    def talk(window: str) -> Told:
        talk = opened(connection_buffer_size=window, enable_noop="true", set_noop_interval="1")
        stream = talk.stream(7)
        stream.snapshot(0, 9, "memory")
        talk.wait(20)
        talk.send("client", encode("dcp_get_failover_log", opaque=9))
        return talk

    def rules(window: str) -> list[str]:
        return [one.rule for one in findings(talk(window), rules=[*FLOW, "silent-connection"])]

    assert rules("40") == ["flow-control-stall"]
    assert rules("400") == ["silent-connection"]


@pytest.mark.parametrize(("pause_s", "silences"), [(20, ["nothing came for 26.0 s"]), (0, [])])
def test_stalls_explain_only_the_silences_in_them(pause_s: int, silences: list[str]) -> None:
    """However many stalls there are before and behind."""
    talk, stream = windowed(500, enable_noop="true", set_noop_interval="1")
    mutate(stream, 1)
    for number in range(8):
        mutate(stream, 2 + 3 * number, 3)
        talk.wait(6)
        ack(talk, 3 * MUTATION)
        if number == 4:
            talk.wait(pause_s)
    talk.noop()
    stall, *silent = findings(talk, rules=["flow-control-stall", "silent-connection"])
    assert stall.rule == "flow-control-stall"
    assert [one.message.partition(",")[0] for one in silent] == silences
    assert [one.count for one in silent] == [1] * len(silences)


# -- what arrived late
# --------------------------------------------------------------------------------------------------


def test_a_consumer_acknowledges_nothing_before_what_fills_the_window_arrives() -> None:
    talk = stalled(9)
    ack(talk, 400)
    captured = packets(talk)
    for again, expected in (
        ((), ["for 9.0 s"]),
        ((0.3, 0.9, 2.1, 4.5, 8.9), []),
        ((0.3, 0.9, 2.1), ["for 6.9 s"]),
    ):
        seen = sent_again(captured, -4, *again) if again else captured
        found = found_in(seen, rules=FLOW)
        assert [word in one.message for word, one in zip(expected, found, strict=True)] == [
            True for _ in expected
        ]


def test_a_stall_after_the_consumer_had_it_all_is_not_excused_by_a_later_outage() -> None:
    talk = stalled(9)
    ack(talk, 400)
    talk.noop()
    talk.wait(9)
    talk.noop()
    seen = sent_again(packets(talk), -8, 0.3, 0.9, 2.1, 4.5, 8.9)
    assert ["for 9.0 s" in one.message for one in found_in(seen, rules=FLOW)] == [True]


def test_of_a_window_whose_bytes_never_arrive_nobody_knows_whose_it_is() -> None:
    other = opened("other:1", port=50_001)
    captured = packets(stalled(9), other)
    full = len(packets(stalled(9))) - 2
    for seen, severity, whose in (
        (captured, "error", "client"),
        (sent_again(captured, full, 0.3, 0.9, 2.1, 4.5, arrives=False), "warning", "unknown"),
    ):
        (one,) = found_in(seen, rules=FLOW)
        assert (one.severity, one.whose) == (severity, whose)
