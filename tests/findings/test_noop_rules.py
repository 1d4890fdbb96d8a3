"""Rules about noops: each by its smallest conversation, those that look like it and are sound, and
the one with a hole in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.noop_rules import RULES
from dcpinspect.output.render.verdict import verdict
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls.keylog import KeyLog
from tests.damage import Packet
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.peers.script import Mark, Send, Side
from tests.streams.told import Told, opened, packets, sent_again
from tests.tls.damage import save
from tests.tls.forged import Forged

NOOPS = [rule.id for rule in RULES]


def check(*talks: Told, sizes: list[int] | None = None) -> list[Finding]:
    return findings(*talks, rules=NOOPS, sizes=sizes or [])


def told(*talks: Told) -> list[tuple[str, str]]:
    return [(one.rule, one.severity) for one in check(*talks)]


def nooping(interval: str = "20") -> Told:
    return opened(enable_noop="true", set_noop_interval=interval)


def ask(talk: Told, opaque: int) -> None:
    talk.send("server", encode("dcp_noop", opaque=opaque))


def answer(talk: Told, opaque: int) -> None:
    talk.answer("dcp_noop", opaque, by="client")


def go_on(talk: Told, seconds: float = 0) -> None:
    """Time passes, and both sides say something."""
    talk.wait(seconds)
    talk.failover_log(7, [(1, 0)])


# -- noop-unanswered
# --------------------------------------------------------------------------------------------------


def unanswered(seconds: float = 6, interval: str = "20") -> Told:
    talk = nooping(interval)
    ask(talk, 9)
    go_on(talk, seconds)
    return talk


def test_a_noop_that_is_never_answered() -> None:
    (found,) = check(unanswered())
    assert (found.rule, found.severity, found.message) == (
        "noop-unanswered",
        "warning",
        "noop with opaque 0x00000009 unanswered for 6.0 s",
    )
    assert [place.direction for place in found.places] == ["s2c"]


def test_it_is_the_clients_who_goes_on_or_whose_host_acknowledges_the_noop_and_of_nobody_known_if_nothing_comes() -> (
    None
):
    silent = nooping()
    ask(silent, 9)
    silent.wait(6)
    silent.send("server", encode("dcp_stream_end", opaque=1, vbucket=7, end_reason="ok"))
    acknowledged = packets(silent)
    *before, noop, _, end, _ = acknowledged
    those = [
        found_in(captured, rules=NOOPS)
        for captured in (packets(unanswered()), acknowledged, [*before, noop, end])
    ]
    whose = [
        [(one.cause, one.whose) for one in found if one.rule == "noop-unanswered"]
        for found in those
    ]
    assert whose == [[("goes-on", "client")], [("acknowledged", "client")], [("silent", "unknown")]]


def test_inside_tls_a_noop_counts_from_when_it_arrives_too(tmp_path: Path) -> None:
    talk, forged = unanswered(9), Forged(tmp_path)
    for event in talk.events:
        if isinstance(event, Send):
            forged.send(int(event.side == "server"), event.data)
        elif isinstance(event, Mark):
            forged._talk.time_ns += int(float(event.name.removeprefix("wait ")) * 1e9)
    recorded = forged.finish()
    captured = forged._talk.packets
    keys = KeyLog([str(recorded.keylog)])
    noop = next(
        number
        for number, one in enumerate(captured)
        if captured[number + 2].time_ns - one.time_ns > 5e9
    )
    for after_s, expected in (
        ((), ["noop with opaque 0x00000009 unanswered for 9.0 s"]),
        ((0.3, 0.9, 2.1), ["noop with opaque 0x00000009 unanswered for 6.9 s"]),
        ((0.3, 0.9, 2.1, 4.5), []),
    ):
        seen = sent_again(captured, noop, *after_s) if after_s else captured
        path = save(tmp_path / "seen.pcap", seen)
        with Reading([str(path)], keys=keys) as reading:
            reading.check(rules=NOOPS)
            for _ in reading:
                pass
            found = [one.message for one in reading.findings()]
        assert found == expected


@pytest.mark.parametrize("before", [2, 3, 5])
def test_and_in_a_capture_that_begins_inside_the_connection(before: int) -> None:
    for is_answered in (False, True):
        talk = nooping("1")
        talk.begin()
        for opaque in range(1, before + 1):
            ask(talk, opaque)
            answer(talk, opaque)
            talk.wait(1)
        ask(talk, 9)
        if is_answered:
            answer(talk, 9)
        for seqno in range(1, 9):
            talk.wait(1)
            talk.send("server", encode("dcp_stream_end", opaque=1, vbucket=seqno))
        found = [one.message for one in check(talk) if one.rule == "noop-unanswered"]
        assert found == (
            [] if is_answered else ["noop with opaque 0x00000009 unanswered for 8.0 s"]
        )


def test_a_noop_that_is_answered_late() -> None:
    talk = nooping()
    ask(talk, 9)
    talk.wait(7)
    answer(talk, 9)
    (found,) = check(talk)
    assert (found.rule, found.message) == (
        "noop-unanswered",
        "noop with opaque 0x00000009 unanswered for 7.0 s, then answered",
    )
    assert found.over == "recovered"
    assert found.next.startswith("operators have nothing to do, the answer came")
    assert verdict([found]) == "1 connection lets noops wait, and recovered"
    assert [place.direction for place in found.places] == ["s2c", "c2s"]
    ask(talk, 10)
    go_on(talk, 80)
    assert all("restart it" in found.next for found in check(talk))  # the second has no answer


def test_a_late_answer_is_told_also_after_slow_ones() -> None:
    """Patience is for what may still come; how long an answer took is known."""
    talk = nooping()
    ask(talk, 8)
    talk.wait(1)
    answer(talk, 8)
    ask(talk, 9)
    talk.wait(7)
    answer(talk, 9)
    (found,) = check(talk)
    assert found.message == "noop with opaque 0x00000009 unanswered for 7.0 s, then answered"


@pytest.mark.parametrize("years", [20, 56])
def test_a_clock_that_is_set_while_a_noop_waits_accuses_nobody(years: int) -> None:
    """A machine without a clock battery begins in 1970."""
    talk = nooping()
    ask(talk, 8)
    talk.wait(years * 365 * 86_400)
    answer(talk, 8)
    ask(talk, 9)
    answer(talk, 9)
    assert check(talk) == []


def test_a_noop_that_is_never_answered_is_no_recovery_of_one_that_was() -> None:
    talk = nooping()
    ask(talk, 8)
    talk.wait(7)
    answer(talk, 8)
    ask(talk, 9)
    go_on(talk, 80)
    (found,) = check(talk)
    assert (found.message, found.count) == ("noop with opaque 0x00000009 unanswered for 80.0 s", 2)
    assert found.over == "open"


@pytest.mark.parametrize("abort", [False, True])
def test_it_is_an_error_where_the_producer_closes_then(abort: bool) -> None:
    talk = unanswered(6, "5")
    talk.close("server", abort=abort)
    (found,) = check(talk)
    assert (found.rule, found.severity) == ("noop-unanswered", "error")
    assert (
        found.message == "noop with opaque 0x00000009 unanswered for 6.0 s, then the server "
        f"{'reset' if abort else 'closed'} the connection"
    )


def test_a_producer_that_closes_before_the_next_noop_is_due_does_so_for_another_reason() -> None:
    talk = unanswered(6, "20")
    talk.close("server")
    (found,) = check(talk)
    assert (found.severity, found.message) == (
        "warning",
        "noop with opaque 0x00000009 unanswered for 6.0 s",
    )


def test_it_is_none_where_the_client_closes() -> None:
    talk = unanswered()
    talk.close("client")
    assert told(talk) == [("noop-unanswered", "warning")]


@pytest.mark.parametrize(("seconds", "interval"), [(4, "20"), (1.5, "1"), (0.5, "0.1")])
def test_the_capture_has_to_go_on(seconds: float, interval: str) -> None:
    assert check(unanswered(seconds, interval)) == []
    talk = unanswered(seconds, interval)
    talk.close("server")
    assert check(talk) == []


def test_where_answers_are_slow_more_patience_is_had() -> None:
    talk = nooping()
    ask(talk, 8)
    talk.wait(1)
    answer(talk, 8)
    ask(talk, 9)
    go_on(talk, 9)
    assert check(talk) == []


def test_noops_that_are_answered_at_once() -> None:
    talk = nooping("1")
    for _ in range(20):
        talk.noop()
        talk.wait(1)
    assert check(talk) == []


def test_an_answer_that_may_be_in_a_hole() -> None:
    talk = nooping()
    ask(talk, 9)
    with talk.lost():
        answer(talk, 9)
    go_on(talk, 6)
    assert check(talk) == []


def test_an_answer_that_may_be_in_a_hole_at_the_end() -> None:
    talk = nooping()
    ask(talk, 9)
    with talk.lost():
        answer(talk, 9)
        talk.send("client", encode("dcp_get_failover_log", opaque=9))
    go_on(talk, 6)
    with talk.lost():
        go_on(talk)
    assert check(talk) == []


def test_a_consumer_that_says_nothing_to_any_of_several() -> None:
    talk = nooping()
    for opaque in (7, 8, 9):
        ask(talk, opaque)
        talk.wait(25)
    go_on(talk, 1)
    assert sorted(told(talk)) == [("noop-overlap", "warning"), ("noop-unanswered", "warning")]
    (found,) = [one for one in check(talk) if one.rule == "noop-unanswered"]
    assert (
        found.count == 2
    )  # the first and the last: of those between them no answer can be told from theirs


# -- noop-overlap
# --------------------------------------------------------------------------------------------------


def overlapping() -> Told:
    talk = nooping()
    ask(talk, 8)
    ask(talk, 9)
    go_on(talk, 1)
    answer(talk, 8)
    answer(talk, 9)
    return talk


def test_a_noop_before_the_one_before_is_answered() -> None:
    (found,) = check(overlapping())
    assert (found.rule, found.severity) == ("noop-overlap", "warning")
    assert found.message == "noop 0x00000009 sent while 0x00000008 had no answer"
    assert [place.direction for place in found.places] == ["s2c", "s2c"]


@pytest.mark.parametrize("opaque", [8, 9])
@pytest.mark.parametrize("sizes", [None, [1] * 100])
def test_an_answer_that_comes_first_and_late_excuses_no_overlap(
    opaque: int, sizes: list[int] | None
) -> None:
    """How long it took itself is what is in question, and so is any other answer that was under
    way.
    """
    talk = nooping()
    talk.stream(7).snapshot(0, 9, "memory", "ack")
    ask(talk, 8)
    talk.wait(1)
    ask(talk, 9)
    talk.wait(1)
    answer(talk, opaque)
    (found,) = check(talk, sizes=sizes)
    assert (found.rule, found.message) == (
        "noop-overlap",
        "noop 0x00000009 sent while 0x00000008 had no answer",
    )


def test_a_late_answer_to_something_else_excuses_no_overlap() -> None:
    talk = nooping()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory", "ack")
    ask(talk, 8)
    talk.wait(1)
    ask(talk, 9)
    talk.wait(1)
    stream.snapshot_received()
    answer(talk, 8)
    assert told(talk) == [("noop-overlap", "warning")]


def test_an_overlap_at_the_end() -> None:
    talk = nooping()
    ask(talk, 8)
    ask(talk, 9)
    talk.wait(1)
    talk.send("server", encode("dcp_stream_end", opaque=1, vbucket=7, end_reason="ok"))
    assert told(talk) == [("noop-overlap", "warning")]


def test_an_answer_that_the_capture_has_a_moment_late() -> None:
    talk = nooping()
    ask(talk, 8)
    ask(talk, 9)
    answer(talk, 8)
    answer(talk, 9)
    go_on(talk, 1)
    assert check(talk) == []


def test_an_overlap_whose_answer_may_be_in_a_hole() -> None:
    talk = nooping()
    ask(talk, 8)
    with talk.lost():
        answer(talk, 8)
    ask(talk, 9)
    answer(talk, 9)
    go_on(talk, 1)
    assert check(talk) == []


@pytest.mark.parametrize("seconds", [1, 9])
def test_without_the_consumers_direction_nobody_knows_of_answers(seconds: int) -> None:
    talk = nooping()
    talk.begin()
    for opaque in (8, 9):
        ask(talk, opaque)
        with talk.lost():
            answer(talk, opaque)
    talk.wait(seconds)
    talk.send("server", encode("dcp_stream_end", opaque=1, vbucket=7, end_reason="ok"))
    assert check(talk) == []


@pytest.mark.parametrize("seconds", [1, 50])
def test_the_first_answers_of_a_capture_that_begins_later_may_be_lost(seconds: int) -> None:
    talk = nooping()
    talk.begin()
    ask(talk, 8)
    with talk.lost():
        answer(talk, 8)
    talk.wait(seconds)
    for opaque in (9, 10):
        ask(talk, opaque)
        answer(talk, opaque)
    go_on(talk, 6)
    assert check(talk) == []


# -- noop-opaque
# --------------------------------------------------------------------------------------------------


def swapped() -> Told:
    talk = nooping()
    talk.noop()
    ask(talk, 0x81969800)
    answer(talk, 0x00989681)
    go_on(talk, 6)
    return talk


def test_an_answer_with_another_opaque_is_told_once() -> None:
    (found,) = check(swapped())
    assert (found.rule, found.severity) == ("noop-opaque", "warning")
    assert found.message == "noop 0x81969800 answered with opaque 0x00989681"
    assert [place.direction for place in found.places] == ["c2s", "s2c"]


@pytest.mark.parametrize("sizes", [None, [1] * 100])
def test_a_client_that_never_answers_with_the_right_opaque(sizes: list[int] | None) -> None:
    talk = nooping()
    for opaque in (0x81969800, 0x82969800):
        talk.wait(20)
        ask(talk, opaque)
        answer(talk, 0x00989681)
    go_on(talk, 6)
    (found,) = check(talk, sizes=sizes)
    assert (found.rule, found.count) == ("noop-opaque", 2)


def test_a_client_that_never_does_so_makes_no_overlap_where_the_capture_begins_later() -> None:
    talk = nooping("1")
    talk.begin()
    for opaque in range(1, 12):
        ask(talk, opaque)
        talk.wait(0.001)
        answer(talk, opaque << 24)
        talk.wait(1)
    assert [one.rule for one in check(talk) if one.rule == "noop-overlap"] == []


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_first_answer_after_a_hole(side: Side) -> None:
    """A noop, or an answer, may be in it."""
    talk = nooping()
    with talk.lost():
        talk.send(
            side,
            encode("dcp_noop", opaque=8)
            if side == "server"
            else encode("dcp_get_failover_log", opaque=8),
        )
    talk.failover_log(7, [(1, 0)])
    ask(talk, 9)
    answer(talk, 8)
    answer(talk, 9)
    go_on(talk, 6)
    assert check(talk) == []


def test_an_answer_to_a_noop_that_may_be_in_a_hole() -> None:
    talk = nooping()
    talk.noop()
    with talk.lost():
        ask(talk, 8)
    ask(talk, 9)
    answer(talk, 8)
    answer(talk, 9)
    go_on(talk, 6)
    assert check(talk) == []


def test_an_answer_to_a_noop_before_the_capture() -> None:
    talk = nooping()
    ask(talk, 8)
    talk.begin()
    ask(talk, 9)
    answer(talk, 8)
    answer(talk, 9)
    go_on(talk, 6)
    assert check(talk) == []


@pytest.mark.parametrize("what", ["a noop", "an answer of the server"])
def test_the_first_bytes_of_a_consumer_may_be_missing_where_the_capture_begins_later(
    what: str,
) -> None:
    """No hole tells of them: nothing of their direction is before them."""
    talk = nooping()
    talk.begin()
    with talk.lost():
        talk.send("client", encode("dcp_get_failover_log", opaque=5))
    if what != "a noop":
        talk.answer("dcp_get_failover_log", 5, status=1)
    ask(talk, 8)
    with talk.lost():
        answer(talk, 8)
    talk.wait(0.1)
    talk.send("client", encode("dcp_get_failover_log", opaque=6))
    talk.answer("dcp_get_failover_log", 6, status=1)
    for opaque in (9, 10):
        ask(talk, opaque)
        talk.wait(0.1)
        answer(talk, opaque)
        go_on(talk, 6)
    assert check(talk) == []


def test_two_noops_and_an_answer_to_neither() -> None:
    """It answers the first of them, whose answer may have been on its way when the second was
    sent.
    """
    talk = nooping()
    ask(talk, 8)
    ask(talk, 9)
    answer(talk, 7)
    go_on(talk, 1)
    (found,) = check(talk)
    assert (found.rule, found.message) == (
        "noop-opaque",
        "noop 0x00000008 answered with opaque 0x00000007",
    )


def test_a_late_answer_to_a_noop_that_is_no_longer_known() -> None:
    talk = nooping()
    for opaque in (6, 7, 8, 9):
        ask(talk, opaque)
    for opaque in (6, 7, 8, 9):
        answer(talk, opaque)
    go_on(talk, 6)
    assert [rule for rule, _ in told(talk) if rule != "noop-overlap"] == []


@pytest.mark.parametrize("ends", ["silence", "close"])
def test_an_answer_that_may_be_to_a_noop_that_nobody_saw_once_no_other_came(ends: str) -> None:
    talk = nooping("10")
    stream = talk.stream(7)
    stream.snapshot(0, 20, "memory")
    talk.begin()
    for seqno in range(1, 9):
        stream.mutation(seqno, f"k{seqno}")
        go_on(talk)
    ask(talk, 9)
    answer(talk, 8)
    go_on(talk, 6)
    if ends == "close":
        talk.close("server")
    (found,) = check(talk)
    assert (found.rule, found.severity, found.message) == (
        "noop-opaque",
        "warning",
        "noop 0x00000009 answered with opaque 0x00000008",
    )
    assert [place.direction for place in found.places] == ["c2s", "s2c"]


@pytest.mark.parametrize("sizes", [None, [1] * 100])
def test_noops_go_on_after_an_answer_that_may_be_to_one_that_nobody_saw(
    sizes: list[int] | None,
) -> None:
    talk = nooping()
    talk.begin()
    talk.stream(7).snapshot(0, 20, "memory")
    go_on(talk)
    for opaque in (9, 10, 11):
        talk.wait(3)
        ask(talk, opaque)
        answer(talk, 8)
    go_on(talk, 6)
    (found,) = check(talk, sizes=sizes)
    assert (found.rule, found.count) == ("noop-opaque", 3)


def test_one_sided_captures_say_nothing_of_opaques() -> None:
    talk = nooping()
    talk.begin()
    with talk.lost():
        ask(talk, 9)
    answer(talk, 8)
    go_on(talk, 6)
    assert "noop-opaque" not in [rule for rule, _ in told(talk)]


def test_noops_alone_tell_who_the_producer_is() -> None:
    talk = Told("test:1")
    talk.noop()
    ask(talk, 9)
    answer(talk, 8)
    talk.wait(6)
    talk.noop()
    assert [rule for rule, _ in told(talk)] == ["noop-opaque"]


# -- silent-connection
# --------------------------------------------------------------------------------------------------


def silent(seconds: float = 50, **controls: Any) -> Told:
    talk = opened(**(controls or {"enable_noop": "true", "set_noop_interval": "20"}))
    talk.noop()
    talk.wait(seconds)
    talk.send("client", encode("dcp_get_failover_log", opaque=9))
    return talk


def test_a_producer_that_says_nothing_any_more() -> None:
    (found,) = check(silent())
    assert (found.rule, found.severity, found.message) == (
        "silent-connection",
        "warning",
        "nothing came for 50.0 s, with a noop due every 20 s",
    )


def test_some_servers_send_no_noop_before_there_is_a_stream() -> None:
    talk = opened(enable_noop="true", set_noop_interval="20")
    talk.wait(200)
    talk.failover_log(7, [(1, 0)])
    assert check(talk) == []
    talk.stream(7)
    talk.wait(200)
    talk.failover_log(7, [(1, 0)])
    assert [one.rule for one in check(talk)] == ["silent-connection"]


def test_a_producer_that_was_silent_for_a_time() -> None:
    talk = nooping("1")
    talk.noop()
    go_on(talk, 5)
    (found,) = check(talk)
    assert (found.rule, found.message) == (
        "silent-connection",
        "nothing came for 5.0 s, with a noop due every 1 s",
    )
    assert len(found.places) == 2


@pytest.mark.parametrize("ends", ["open", "closed", "goes on"])
def test_a_producer_still_waits_after_an_answer_with_another_opaque(ends: str) -> None:
    talk = nooping("20")
    talk.noop()
    talk.wait(20)
    ask(talk, 0x81969800)
    answer(talk, 0x00989681)
    talk.wait(120)
    if ends == "closed":
        talk.close("server")
    else:
        go_on(talk)
    assert told(talk) == [("noop-opaque", "warning")]
    if ends == "goes on":
        talk.noop()
        go_on(talk, 50)
        assert told(talk) == [("noop-opaque", "warning"), ("silent-connection", "warning")]


@pytest.mark.parametrize(
    "controls",
    [
        {"enable_noop": "true"},
        {"set_noop_interval": "20"},
        {"enable_noop": "false", "set_noop_interval": "20"},
    ],
)
def test_without_noops_or_their_interval_silence_means_nothing(controls: dict[str, Any]) -> None:
    assert check(silent(**controls)) == []


@pytest.mark.parametrize(("seconds", "interval"), [(39, "20"), (1.5, "0.5")])
def test_two_intervals_and_two_seconds_may_pass(seconds: float, interval: str) -> None:
    assert check(silent(seconds, enable_noop="true", set_noop_interval=interval)) == []


def test_the_end_of_the_capture_is_no_silence() -> None:
    talk = nooping()
    talk.noop()
    talk.wait(100)
    assert check(talk) == []


def test_the_end_of_another_capture_neither() -> None:
    talk, other = nooping(), opened("other:1", port=50_001)
    talk.noop()
    other.wait(100)
    other.noop()
    assert told(talk, other) == [("silent-connection", "warning")]  # the same capture goes on
    talk.close("client")
    assert told(talk, other) == []


def test_a_noop_that_waits_for_its_answer_keeps_the_producer_silent() -> None:
    talk = nooping("1")
    ask(talk, 9)
    talk.wait(10)
    talk.send("client", encode("dcp_get_failover_log", opaque=9))
    assert told(talk) == [("noop-unanswered", "warning")]


def test_what_the_producer_said_may_be_in_a_hole() -> None:
    talk = nooping()
    talk.noop()
    talk.wait(30)
    with talk.lost():
        talk.send("server", encode("dcp_stream_end", opaque=1, vbucket=7, end_reason="ok"))
    go_on(talk, 30)
    assert check(talk) == []


def test_a_noop_that_was_lost_may_be_what_the_producer_waits_for() -> None:
    talk = nooping("1")
    talk.noop()
    with talk.lost():
        ask(talk, 9)
    talk.failover_log(7, [(1, 0)])
    talk.wait(10)
    answer(talk, 9)
    go_on(talk)
    assert "silent-connection" not in [rule for rule, _ in told(talk)]


# -- all
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [unanswered, overlapping, swapped, silent])
def test_a_capture_that_begins_in_the_middle_knows_no_interval(make: Callable[[], Told]) -> None:
    """What an answer may take at most is known without."""
    talk = make()
    event = next(
        number
        for number, event in enumerate(talk.events)
        if getattr(event, "data", b"")[1:2] == b"\x5c"
    )
    talk.begin()
    talk.events.insert(event, talk.events.pop())
    assert {one.rule for one in check(talk)} <= {"noop-unanswered", "noop-overlap", "noop-opaque"}


@pytest.mark.slow
@pytest.mark.parametrize("make", [unanswered, overlapping, swapped, silent])
def test_batches_change_nothing(make: Callable[[], Told]) -> None:
    whole = check(make())
    assert whole
    assert check(make(), sizes=[1] * 100) == whole
    assert check(make(), sizes=[3] * 40) == whole


def test_many_of_a_kind_are_one_finding() -> None:
    talk = nooping("1")
    for opaque in range(1, 30):
        ask(talk, opaque)
        talk.wait(3)
        answer(talk, opaque)
    (found,) = check(talk)
    assert (found.rule, found.count) == ("noop-unanswered", 29)
    talk = nooping("1")
    talk.noop()
    for opaque in range(1, 30):
        ask(talk, opaque)
        answer(talk, opaque + 100)
    (found,) = check(talk)
    assert (found.rule, found.count, len(found.places)) == ("noop-opaque", 29, 8)


# -- what arrived late
# --------------------------------------------------------------------------------------------------


def late_answer(seconds: float) -> list[Packet]:
    """A noop that is answered so late: the packet is the fourth one from the end."""
    talk = nooping()
    ask(talk, 9)
    talk.wait(seconds)
    answer(talk, 9)
    return packets(talk)


def test_a_noop_cannot_be_answered_before_it_arrives() -> None:
    captured = late_answer(9)
    for again, message in (
        ((), "9.0 s"),
        ((0.3, 0.9, 2.1, 4.5, 8.9), None),
        ((0.3, 0.9, 2.1), "6.9 s"),
    ):
        seen = sent_again(captured, -4, *again) if again else captured
        assert [one.message for one in found_in(seen, rules=NOOPS)] == (
            [f"noop with opaque 0x00000009 unanswered for {message}, then answered"]
            if message
            else []
        )


def test_of_a_noop_that_never_arrives_nobody_knows_whose_it_is_whatever_the_client_says() -> None:
    talk = nooping()
    ask(talk, 9)
    for _ in range(4):
        talk.wait(3)
        talk.send("client", encode("dcp_get_failover_log", opaque=7, vbucket=7))
    seen = sent_again(packets(talk), -10, 0.3, 0.9, 2.1, 4.5, arrives=False)
    (one,) = found_in(seen, rules=NOOPS)
    assert (one.rule, one.cause, one.whose) == ("noop-unanswered", "silent", "unknown")


def test_nobody_is_silent_whose_bytes_are_sent_again_until_they_arrive() -> None:
    talk = nooping("1")
    talk.noop()
    talk.failover_log(7, [(1, 0)])
    talk.wait(8)
    talk.failover_log(7, [(1, 0)])
    captured = packets(talk)
    assert [one.message for one in found_in(captured, rules=NOOPS)] == [
        "nothing came for 8.0 s, with a noop due every 1 s"
    ]
    assert found_in(sent_again(captured, -6, 0.3, 0.9, 2.1, 4.5, 7.9), rules=NOOPS) == []


def test_nobody_is_silent_whose_bytes_and_their_acknowledgements_were_not_captured() -> None:
    talk = nooping("1")
    for seconds in (0, 8, 0):
        talk.wait(seconds)
        talk.failover_log(7, [(1, 0)])
    captured = packets(talk)
    del captured[-8:-3], captured[-2:]  # an empty packet of the server shows what it sent before
    assert found_in(captured, rules=NOOPS) == []


def test_nobody_is_silent_whose_bytes_are_sent_again_and_never_arrive() -> None:
    talk = nooping("1")
    talk.failover_log(7, [(1, 0)])
    size = len(packets(talk))
    talk.wait(30)
    captured = packets(talk, opened("other:1", port=50_001))
    (finding,) = found_in(
        sent_again(captured, size - 2, 0.3, 0.9, 2.1, 4.5, 9.3, 18.9, arrives=False), rules=NOOPS
    )
    assert (
        finding.message == "bytes of the server were sent again for 29.7 s, and never acknowledged"
    )


def test_an_answer_cannot_leave_while_bytes_before_it_are_sent_again() -> None:
    talk = nooping()
    ask(talk, 9)
    talk.send("client", encode("dcp_get_failover_log", opaque=7, vbucket=7))
    talk.wait(9)
    answer(talk, 9)
    captured = packets(talk)
    assert len(found_in(captured, rules=NOOPS)) == 1
    assert found_in(sent_again(captured, -4, 0.3, 0.9, 2.1, 4.5, 8.9), rules=NOOPS) == []


def test_what_is_sent_again_for_long_is_told_of_either_side() -> None:
    sides: tuple[tuple[Side, str], ...] = (
        ("server", "dcp_stream_end"),
        ("client", "dcp_get_failover_log"),
    )
    for side, opcode in sides:
        talk = nooping()
        talk.send(side, encode(opcode, opaque=7, vbucket=7))
        size = len(packets(talk))
        talk.wait(30)
        captured = packets(talk, opened("other:1", port=50_001))
        times = (0.3, 0.9, 2.1, 4.5, 9.3, 18.9)
        (one,) = found_in(sent_again(captured, size - 2, *times, arrives=False), rules=NOOPS)
        assert (one.rule, one.cause, one.whose) == (
            "silent-connection",
            "not-acknowledged",
            "unknown",
        )
        assert one.message.startswith(f"bytes of the {side} were sent again for 29.")
        assert (one.over, one.severity) == ("unknown", "warning")
        (one,) = found_in(sent_again(captured, size - 2, *times), rules=NOOPS)
        assert one.message == f"bytes of the {side} were sent again for 18.6 s, then acknowledged"
        assert (one.over, one.whose) == ("recovered", "unknown")
        assert found_in(sent_again(captured, size - 2, *times[:5]), rules=NOOPS) == []


def test_who_closed_waits_no_more() -> None:
    talk = nooping("1")
    talk.noop()
    talk.failover_log(7, [(1, 0)])
    talk.wait(5)
    talk.close("client")
    talk.wait(10)
    talk.failover_log(7, [(1, 0)])
    (one,) = check(talk)
    assert (one.rule, one.message) == (
        "silent-connection",
        "nothing came for 5.0 s, with a noop due every 1 s",
    )
    assert one.last_time_ns - one.first_time_ns < 5.1e9


def test_what_the_network_lost_before_a_silence_is_no_capture_loss() -> None:
    talk = nooping("1")
    talk.noop()
    talk.failover_log(7, [(1, 0)])
    lost = len(packets(talk))
    talk.failover_log(8, [(1, 0)])
    talk.wait(8)
    talk.send("client", encode("dcp_get_failover_log", opaque=7, vbucket=7))
    captured = packets(talk, opened("other:1", port=50_001))
    gone = captured[lost + 2].data
    never_acked = sent_again(captured, lost + 2, 0.001, arrives=False)
    for packets_, expected in (
        (never_acked, ["silent-connection"]),
        (captured, []),
    ):
        seen = [packet for packet in packets_ if packet.data != gone]
        assert [one.rule for one in found_in(seen, rules=NOOPS)] == expected


def test_what_was_lost_was_not_said_before_the_packet_that_shows_it_but_at_some_time() -> None:
    talk = nooping("1")
    talk.noop()
    talk.failover_log(7, [(1, 0)])
    captured = packets(talk)
    lost = len(captured)
    talk.failover_log(8, [(1, 0)])
    answer_ = packets(talk)[lost + 2]
    header = bytearray(answer_.data[: answer_.payload])
    ip, tcp = answer_.payload - 40, answer_.payload - 20
    header[ip + 2 : ip + 4] = (40).to_bytes(2, "big")
    seq = int.from_bytes(header[tcp + 4 : tcp + 8], "big") + answer_.size
    header[tcp + 4 : tcp + 8] = (seq & 0xFFFF_FFFF).to_bytes(4, "big")
    bare = replace(answer_, data=bytes(header), wire=len(header), time_ns=answer_.time_ns + 10**10)
    assert found_in([*packets(talk)[: lost + 2], bare], rules=NOOPS) == []


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [("dcp_control", []), ("dcp_buffer_acknowledgement", ["silent-connection"])],
)
def test_a_hole_of_the_client_may_have_set_another_interval(
    opcode: str, expected: list[str]
) -> None:
    talk = nooping("1")
    talk.noop()
    with talk.lost():
        is_control = opcode == "dcp_control"
        parts = {"key": "set_noop_interval", "value": "60"} if is_control else {"ack_bytes": 9}
        talk.send("client", encode(opcode, opaque=8, **parts))
    talk.send("client", encode("dcp_get_failover_log", opaque=7, vbucket=7))
    talk.failover_log(7, [(1, 0)])
    talk.wait(50)
    talk.noop()
    assert [one.rule for one in check(talk)] == expected


@pytest.mark.parametrize(("pieces", "expected"), [(6, []), (1, ["silent-connection"])])
def test_nobody_is_silent_while_bytes_of_a_message_come(pieces: int, expected: list[str]) -> None:
    talk = nooping("1")
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k", bytes(40))
    sent = talk.events.pop()
    assert isinstance(sent, Send)
    for piece in range(pieces):
        talk.send("server", sent.data[8 * piece : 8 * piece + 8])
        talk.wait(1.5)
    talk.wait(9 - 1.5 * pieces)
    other = opened("other:1", port=50_001)
    assert told(talk, other) == [(rule, "warning") for rule in expected]
