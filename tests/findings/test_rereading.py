"""Clients that ask again for what they have received: when it is told, and what looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.reading.reading import Reading
from tests.advice import kinds
from tests.captures import real_server
from tests.encode import encode
from tests.findings.checked import findings, found_in
from tests.streams.told import Told, opened, packets, sent_again

OWN, OTHER = 0xA, 0xB
LOG = ((OWN, 0),)
ENDLESS = 2**64 - 1


def read(
    talk: Told,
    start: int,
    upto: int,
    *,
    vbucket: int = 7,
    end: int = ENDLESS,
    whole: int | None = None,
    log: Sequence[tuple[int, int]] = LOG,
    value: Mapping[str, Any] | None = None,
    flags: Sequence[str] = (),
    ended: str = "",
) -> Told:
    """The client receives a vbucket from a seqno up to another one; ``whole``: the end of the
    snapshot, unless it is the last seqno.
    """
    stream = talk.stream(
        vbucket, start=start, end=end, uuid=OWN if start else 0, log=log, value=value, flags=flags
    )
    stream.snapshot(start + (start > 0), whole or upto, "memory")
    for seqno in range(start + 1, upto + 1):
        stream.mutation(seqno, f"k{seqno}")
    if ended == "close":
        stream.close()
        stream.end("closed")
    elif ended:
        stream.end(ended)
    return talk


def session(number: int = 0, name: str = "test:1", **controls: str) -> Told:
    return opened(name, port=50_000 + number, **controls)


def closed(talk: Told) -> Told:
    talk.close("client")
    return talk


def found(*talks: Told) -> list[Finding]:
    return findings(*talks, rules=["read-again"])


def test_a_client_that_comes_back_and_begins_from_0_reads_everything_again() -> None:
    (one,) = found(closed(read(session(), 0, 50)), read(session(1), 0, 70))
    assert (one.severity, one.cause, one.whose, one.vbuckets, one.seqnos) == (
        "note",
        "restart",
        "client",
        (7,),
        (0, 50),
    )
    assert (
        one.message
        == f"asked from the start again (from row {one.places[0].row}): 50 seqnos delivered again"
    )
    assert one.facts == {"requested start": 0, "received to": 50, "seqnos delivered again": 50}
    assert [place.connection for place in one.places] == [2, 1]
    assert one.next == (
        "operators have nothing to do if the client means to read everything each time; else it"
        " has to store checkpoints, and to start from them"
    )
    # it speaks of the program, not of what to do with this vbucket now: others may say of that
    # that nothing is left to do
    assert kinds(one.next) == set()


def test_a_client_that_comes_back_below_what_it_received_reads_that_part_again() -> None:
    (one,) = found(closed(read(session(), 0, 50)), read(session(1), 30, 70))
    assert (one.cause, one.whose, one.seqnos) == ("re-read", "client", (30, 50))
    assert one.message.endswith(": 20 seqnos delivered again")


@pytest.mark.parametrize(("start", "count"), [(45, 0), (0, 1)])
def test_what_the_client_did_not_acknowledge_it_did_not_receive(start: int, count: int) -> None:
    received = len(packets(read(session(), 0, 45, whole=50)))
    captured = packets(closed(read(session(), 0, 50)), read(session(1), start, 70))
    assert len(found_in(captured, rules=["read-again"])) == 1
    lost = sent_again(captured, received, 0.001, arrives=False)
    assert len(found_in(lost, rules=["read-again"])) == count


def test_what_has_not_come_again_yet_does_not_count() -> None:
    (one,) = found(closed(read(session(), 0, 50)), read(session(1), 0, 5, whole=70))
    assert one.message.endswith(": 5 seqnos delivered again")
    first = closed(read(session(), 0, 50))
    talk = session(1)
    talk.stream(7, log=LOG)
    assert found(first, talk) == []


def test_all_vbuckets_of_a_client_are_one_finding_that_adds_up() -> None:
    first, again = session(), session(1)
    for vbucket in (7, 8, 9):
        read(first, 0, 10 + vbucket, vbucket=vbucket)
        read(again, 0, 30, vbucket=vbucket)
    (one,) = found(closed(first), again)
    assert (one.vbuckets, one.count) == ((7, 8, 9), 3)
    assert f": {17 + 18 + 19} seqnos delivered again on 3 vbuckets" in one.message


@pytest.mark.parametrize("ended", ["close", "ok", "too-slow", "state-changed"])
def test_it_is_told_of_streams_that_are_over_on_the_same_connection(ended: str) -> None:
    (one,) = found(read(read(session(), 0, 9, ended=ended), 0, 9))
    assert (one.cause, one.count) == ("restart", 1)


@pytest.mark.parametrize(("behind", "count"), [(0, 1), (1, 0)])
def test_what_came_after_the_request_was_under_way(behind: int, count: int) -> None:
    talk = session()
    old = talk.stream(7, log=LOG)
    old.snapshot(0, 9, "memory")
    for seqno in range(1, 10):
        old.mutation(seqno, f"k{seqno}")
    talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=77))
    new = talk.stream_request(7, 78, start=8 + behind, uuid=OWN, snapshot=(0, 9))
    if behind:
        old.snapshot(10, 10, "memory")
        old.mutation(10, "k10")
    talk.answer("dcp_close_stream", 77)
    old.end("closed")
    talk.stream_answer(new, log=LOG)
    new.snapshot(9, 20, "memory")
    for seqno in range(9 + behind, 21):
        new.mutation(seqno, f"k{seqno}")
    assert len(found(talk)) == count


def test_a_client_that_asks_for_the_same_range_on_purpose_is_one_note_that_counts() -> None:
    talk = session()
    for _ in range(4):
        read(talk, 0, 9, end=9, ended="ok")
    (one,) = found(talk)
    assert (one.severity, one.count) == ("note", 3)
    assert one.message.endswith(": 27 seqnos delivered again")


def test_what_was_received_on_several_streams_one_behind_the_other_counts_as_one() -> None:
    (one,) = found(
        closed(read(session(), 0, 20)), closed(read(session(1), 20, 50)), read(session(2), 10, 60)
    )
    assert one.message.endswith(": 40 seqnos delivered again")


def test_a_client_that_goes_back_although_a_rollback_asked_for_less_reads_again() -> None:
    talk = session(1)
    talk.stream(7, start=50, uuid=OTHER, rollback=0)
    (one,) = found(closed(read(session(), 0, 50)), read(talk, 30, 70))
    assert (one.cause, one.seqnos) == ("re-read", (30, 50))


@pytest.mark.parametrize("capture", ["resume", "resume-lost"])
def test_a_client_of_a_real_server_asks_again_for_20_seqnos(capture: str) -> None:
    """The client rolls back to 0 by the answer, and goes on from 30, which it still has; also where
    some items were not captured.
    """
    with Reading([str(real_server(capture))], track=True) as reading:
        reading.check(["read-again"])
        for _ in reading:
            pass
        (one,) = reading.findings()
    assert (one.cause, one.vbuckets, one.seqnos, one.count) == ("re-read", (1,), (30, 50), 1)
    assert one.message.endswith(": 20 seqnos delivered again")


def test_it_is_an_effect_of_a_loop() -> None:
    several = findings(
        *(closed(read(session(number), 0, 9)) for number in range(6)),
        rules=["read-again", "reconnect-loop"],
    )
    (loop,) = (one for one in several if one.rule == "reconnect-loop")
    assert {one.effect_of for one in several if one.rule == "read-again"} == {loop.id}


# -- what looks like it
# ------------------------------------------------------------------------------------


def test_a_client_that_goes_on_where_it_was_reads_nothing_again() -> None:
    assert found(closed(read(session(), 0, 50)), read(session(1), 50, 70)) == []
    assert found(closed(read(session(), 50, 90)), read(session(1), 0, 50, end=50)) == [], (
        "another part"
    )


def test_a_rollback_to_the_seqno_asks_for_it() -> None:
    talk = session(1)
    talk.stream(7, start=50, uuid=OWN, rollback=20)
    assert found(closed(read(session(), 0, 50)), read(talk, 20, 70)) == []
    assert found(read(read(session(), 0, 50, ended="rollback"), 0, 50)) == [], (
        "the end says that a rollback follows"
    )


@pytest.mark.parametrize("start", [20, 35])
def test_a_snapshot_that_did_not_come_whole_is_asked_for_again(start: int) -> None:
    talk = session()
    stream = talk.stream(7, log=LOG)
    for low, upto, high in ((1, 20, 20), (21, 35, 50)):
        stream.snapshot(low, high, "memory")
        for seqno in range(low, upto + 1):
            stream.mutation(seqno, f"k{seqno}")
    assert found(closed(talk), read(session(1), start, 70)) == []
    (one,) = found(talk, read(session(1), 10, 70))
    assert one.seqnos == (10, 35)


@pytest.mark.parametrize("is_whole", [False, True])
def test_an_oso_snapshot_that_did_not_come_whole_is_asked_for_again(is_whole: bool) -> None:
    talk = session(enable_out_of_order_snapshots="true")
    stream = talk.stream(7, log=LOG)
    stream.oso("start")
    for seqno in (30, 10, 20):
        stream.mutation(seqno, f"k{seqno}")
    if is_whole:
        stream.oso("end")
    assert len(found(closed(talk), read(session(1), 0, 70))) == is_whole


def test_another_branch_is_another_history() -> None:
    assert (
        found(closed(read(session(), 0, 50)), read(session(1), 0, 50, log=((OTHER, 20), *LOG)))
        == []
    )


def test_another_name_is_another_client() -> None:
    assert found(closed(read(session(), 0, 50)), read(session(1, "test:2"), 0, 50)) == []
    assert found(closed(read(session(), 0, 50)), read(session(1, "other"), 0, 50)) == []


def test_who_connects_before_the_other_one_is_gone_may_be_another_program() -> None:
    assert found(read(session(), 0, 50), read(session(1), 0, 50)) == []
    assert found(read(session(), 0, 50, ended="disconnected"), read(session(1), 0, 50)) == []


def test_another_filter_or_stream_id_asks_for_something_else() -> None:
    talk = closed(read(session(), 0, 50, value={"collections": ["8"]}))
    assert found(talk, read(session(1), 0, 50, value={"collections": ["9"]})) == []
    assert found(talk, read(session(1), 0, 50)) == []
    (one,) = found(talk, read(session(1), 0, 50, value={"collections": ["8"]}))
    assert one.cause == "restart"
    first = session(enable_stream_id="true")
    for sid in (1, 2):
        read(first, 0, 50, value={"sid": sid}, ended="ok")
    assert found(first) == []


def test_nodes_that_replicate_build_a_replica_again() -> None:
    name = "replication:ns_1@n1->ns_1@n2:travel"
    assert found(closed(read(session(name=name), 0, 50)), read(session(1, name), 0, 50)) == []


def test_a_server_that_chooses_the_start_is_not_asked_for_it() -> None:
    assert (
        found(closed(read(session(), 0, 50)), read(session(1), 0, 50, flags=["from-latest"])) == []
    )


def test_a_hole_may_hide_a_rollback_or_who_asked_for_it() -> None:
    talk = session(1)
    with talk.lost():
        talk.stream(7, start=50, uuid=OWN, rollback=0)
    talk.noop()
    assert found(closed(read(session(), 0, 50)), read(talk, 0, 50)) == []
    first = read(session(), 0, 50)
    with first.lost():
        first.failover_log(7, LOG)
    first.noop()
    assert found(closed(first), read(session(1), 0, 50)) == [], (
        "the end of the stream may have been for a rollback"
    )


def test_an_answer_that_was_not_captured_may_be_a_rollback() -> None:
    talk = session(1)
    talk.stream_request(7, 77, start=50, uuid=OWN)
    assert found(closed(read(session(), 0, 50)), read(talk, 0, 50)) == []


@pytest.mark.slow
def test_batches_do_not_matter() -> None:
    talks = closed(read(session(), 0, 50)), read(session(1), 0, 70)
    whole = found(*talks)
    assert findings(*talks, rules=["read-again"], sizes=[1] * len(packets(*talks))) == whole
