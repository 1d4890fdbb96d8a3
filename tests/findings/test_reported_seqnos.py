"""What servers say of vbuckets against what they stream: seqnos owed, nothing persisted, clients
that are too slow.
"""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.findings.finding import Finding
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.peers.script import Send
from tests.streams.told import Told, opened, packets, sent_again

RULES = ("server-owes-seqno", "never-persisted", "slow-stream")


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=RULES)


# -- server-owes-seqno
# ------------------------------------------------------------------------------------------


def behind(
    talk: Told | None = None,
    *,
    high: int = 18,
    end: int = 2**64 - 1,
    value: dict[str, Any] | None = None,
) -> Told:
    """The stream is at 17."""
    talk = talk or opened()
    stream = talk.stream(7, end=end, value=value)
    stream.snapshot(0, 17, "memory")
    stream.mutation(17, "k")
    talk.high_seqnos({7: high, 8: 3})
    talk.wait(41)
    talk.noop()
    return talk


def test_a_seqno_that_the_server_has_and_does_not_send() -> None:
    (one,) = found(behind())
    assert (one.rule, one.severity, one.vbuckets, one.seqnos) == (
        "server-owes-seqno",
        "error",
        (7,),
        (18, 17),
    )
    assert one.message == "server has 18, sent 17, idle 41.0 s, window open"
    assert [place.row for place in one.places] == [10, 8, 5]


def test_what_a_connection_lost_when_another_replaced_it_takes_no_later_seqno_back() -> None:
    first = opened()
    first.stream(8)
    assert [one.vbuckets for one in found(first, behind(opened()))] == [(7,)]


def test_it_is_a_warning_where_it_has_not_waited_for_long_and_where_another_stream_has_brought_the_seqno() -> (
    None
):
    short, first, later = opened(), behind(opened("a:1")), opened("a:2", port=50_001)
    stream = short.stream(7)
    short.high_seqnos({7: 5})
    short.wait(3)
    short.noop()
    assert found(short) == []  # its backfill may not have begun
    stream.snapshot(0, 4, "memory")
    stream.mutation(4, "k")
    short.wait(3)
    short.noop()
    ((early),) = found(short)
    assert (early.severity, early.over) == ("warning", "open")
    stream = later.stream(7, start=17)
    stream.snapshot(17, 18, "memory")
    stream.mutation(18, "k")
    (one,) = found(first, later)
    assert (one.severity, one.over) == ("warning", "recovered")


def test_it_is_the_servers_if_that_says_something_later_and_of_nobody_known_if_not() -> None:
    silent = opened()
    silent.stream(7)
    silent.high_seqnos({7: 5})
    silent.wait(41)
    silent.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    assert [[(one.cause, one.whose) for one in found(talk)] for talk in (behind(), silent)] == [
        [("goes-on", "server")],
        [("silent", "unknown")],
    ]


def test_the_wait_begins_with_the_first_answer_that_told_it() -> None:
    talk = behind()
    for high in (18, 19, 20):
        talk.high_seqnos({7: high})
        talk.wait(1)
    talk.noop()
    (one,) = found(talk)
    assert one.message == "server has 20, sent 17, idle 44.0 s, window open"
    assert one.places[0].row == 10


def test_observe_seqno_tells_it_too() -> None:
    talk = opened()
    talk.stream(7)
    talk.observe(7, 5, persisted=5)
    talk.wait(5)
    talk.noop()
    assert [one.rule for one in found(talk)] == ["server-owes-seqno"]


@pytest.mark.parametrize("controls", [{}, {"enable_sync_writes": "true"}])
def test_clients_without_collections_do_not_see_every_seqno(controls: dict[str, str]) -> None:
    talk = Told("old:1")
    talk.hello("old/1", "XATTR")
    talk.open("old:1", "producer")
    for key, value in controls.items():
        talk.control(key, value)
    assert [one.severity for one in found(behind(talk))] == ["note"]


@pytest.mark.parametrize(
    "sound",
    [
        behind(high=17),
        behind(end=17),
        behind(value={"collections": ["8"]}),
        behind(opened(connection_buffer_size="60")),
    ],
    ids=["nothing more", "an end", "a filter", "window full"],
)
def test_servers_that_owe_nothing(sound: Told) -> None:
    assert found(sound) == []


def test_a_stream_that_has_ended_is_owed_nothing() -> None:
    talk = opened()
    talk.stream(7).end("state-changed")
    talk.high_seqnos({7: 5})
    talk.wait(41)
    talk.noop()
    assert found(talk) == []


def test_a_message_of_the_stream_begins_the_wait_anew() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.high_seqnos({7: 18})
    talk.wait(30)
    stream.snapshot(0, 18, "memory")
    talk.wait(1.9)
    talk.noop()
    assert found(talk) == []


def test_backfills_wait_for_each_other() -> None:
    talk = opened()
    talk.stream(7)
    other = talk.stream(8)
    talk.high_seqnos({7: 18, 8: 100})
    other.snapshot(0, 100, "disk")
    for seqno in range(1, 9):
        talk.wait(1)
        other.mutation(seqno, f"k{seqno}")
    assert found(talk) == []


def test_the_item_may_be_in_a_hole() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.high_seqnos({7: 18})
    with talk.lost():
        stream.snapshot(0, 18, "memory")
        stream.mutation(18, "k")
    talk.noop()
    talk.wait(41)
    talk.noop()
    assert found(talk) == []


def test_an_answer_in_a_hole_tells_nothing() -> None:
    talk = opened()
    talk.stream(7)
    with talk.lost():
        talk.high_seqnos({7: 18})
    talk.wait(41)
    talk.noop()
    assert found(talk) == []


def test_what_another_client_was_told_of_the_same_bucket_counts() -> None:
    application = Told("app", port=50_001)
    application.hello("app/1")
    application.select_bucket("b")
    application.observe(7, 20, persisted=20)
    reader = Told("reader:1", port=50_002)
    reader.hello("reader/1", "Collections")
    reader.select_bucket("b")
    reader.open("reader:1", "producer")
    reader.stream(7)
    reader.wait(10)
    reader.noop()
    assert [one.vbuckets for one in found(application, reader)] == [(7,)]
    application.events = [
        *application.events[:2],
        *application.events[4:],
    ]  # of another bucket, for all that is known
    assert found(application, reader) == []


# -- never-persisted
# -----------------------------------------------------------------------------------------------


def observed(*persisted: int, current: int = 9, every: float = 3) -> Told:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    for seqno in range(1, 10):
        stream.mutation(seqno, f"k{seqno}")
    for one in persisted:
        talk.observe(7, current, one)
        talk.wait(every)
    return talk


def test_a_bucket_that_persists_nothing() -> None:
    (one,) = found(observed(0, 0, 0))
    assert (one.rule, one.severity, one.vbuckets) == ("never-persisted", "warning", (7,))
    assert one.message == "persisted seqno stays 0, 9 items received"
    assert len(one.places) == 3
    assert one.next == (
        "switch rollback mitigation off for an ephemeral bucket; it persists nothing, so a "
        "client that waits for persistence delivers nothing"
    )


@pytest.mark.parametrize(
    "sound",
    [
        observed(0, 0),
        observed(0, 0, 0, every=1),
        observed(0, 0, 0, 9),
        observed(9, 0, 0, 0),
        observed(0, 0, 0, current=0),
    ],
    ids=["too few", "too soon", "late", "before", "nothing to persist"],
)
def test_buckets_that_may_persist(sound: Told) -> None:
    assert found(sound) == []


def test_two_answers_are_too_few_where_the_third_is_in_a_hole() -> None:
    talk = observed(0, 0)
    with talk.lost():
        talk.observe(7, 9)
    talk.noop()
    assert found(talk) == []


# -- slow-stream
# -------------------------------------------------------------------------------------------------


def test_a_stream_that_falls_back_to_disk() -> None:
    talk = opened()
    stream = talk.stream(7)
    for start, end, kind in ((0, 9, "memory"), (10, 40, "disk"), (41, 50, "memory")):
        stream.snapshot(start, end, kind, "checkpoint")
        stream.mutation(end, f"k{end}")
    (one,) = found(talk)
    assert (one.rule, one.severity, one.cause, one.message) == (
        "slow-stream",
        "note",
        "from-disk",
        "fell back to disk at seqno 9",
    )
    assert [place.row for place in one.places] == [9, 7]


def test_a_stream_that_ends_because_it_is_too_slow() -> None:
    talk = opened()
    talk.stream(7).end("too-slow")
    assert [(one.rule, one.cause) for one in found(talk)] == [("slow-stream", "too-slow")]


@pytest.mark.parametrize("is_too_slow", [False, True])
@pytest.mark.parametrize("stalls_before", [False, True])
def test_a_full_window_explains_a_stream_that_was_too_slow(
    is_too_slow: bool, stalls_before: bool
) -> None:
    talk = opened(connection_buffer_size="500")
    stream = talk.stream(7)

    def stall(first: int) -> None:
        for seqno in range(first, first + 4):
            stream.mutation(seqno, f"k{seqno}", b"x" * 100)
        talk.wait(2)
        talk.acknowledge()

    stream.snapshot(0, 4, "memory")
    stall(1)
    if stalls_before:
        stream.snapshot(5, 6, "memory")
        stream.mutation(6, "k6")
    if is_too_slow:
        stream.end("too-slow")
    else:
        stream.snapshot(7, 9, "disk", "checkpoint")
    by_rule = {one.rule: one for one in findings(talk)}
    stalled, slow = by_rule["flow-control-stall"], by_rule["slow-stream"]
    assert slow.effect_of == (None if stalls_before else stalled.id)
    assert bool(slow.next) == stalls_before


def test_a_backfill_before_memory_is_the_usual_beginning() -> None:
    talk = opened()
    stream = talk.stream(7)
    for start, end, kind in ((0, 9, "disk"), (10, 40, "memory")):
        stream.snapshot(start, end, kind, "checkpoint")
        stream.mutation(end, f"k{end}")
    assert found(talk) == []


def test_a_stream_may_have_begun_anew_in_a_hole() -> None:
    talk = opened()
    stream = talk.stream(7, opaque=9)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    with talk.lost():
        stream.end("state-changed")
        again = talk.stream(7, opaque=9, start=9)
    again.snapshot(9, 40, "disk", "checkpoint")
    again.mutation(40, "l")
    assert found(talk) == []


# -- what the network carries
# --------------------------------------------------------------------------------------------------


def test_what_a_server_owes_is_not_counted_while_the_network_carries_nothing() -> None:
    talk = behind()
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    talk.wait(5)
    talk.noop()
    captured = packets(talk)
    assert ["idle 46.0 s" in one.message for one in found_in(captured, rules=RULES)] == [True]
    for arrives in (True, False):
        seen = sent_again(captured, -6, 0.3, 0.9, 2.1, 4.5, arrives=arrives)
        assert ["idle 41" in one.message for one in found_in(seen, rules=RULES)] == [True]


@pytest.mark.parametrize(("pieces", "expected"), [(6, 0), (0, 1)])
def test_a_server_owes_nothing_while_it_sends_a_message(pieces: int, expected: int) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 17, "memory")
    stream.mutation(17, "k")
    talk.high_seqnos({7: 18})
    stream.mutation(18, "k", bytes(40))
    sent = talk.events.pop()
    assert isinstance(sent, Send)
    for piece in range(pieces):
        talk.send("server", sent.data[8 * piece : 8 * piece + 8])
        talk.wait(1.5)
    talk.wait(9)
    talk.send("client", encode("dcp_control", opaque=78, key="enable_noop", value="true"))
    assert len(found(talk)) == expected
