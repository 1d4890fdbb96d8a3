"""Rules about markers that ask to be acknowledged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dcpinspect.findings.acknowledged import RULES, Acknowledged
from tests.encode import encode
from tests.findings.checked import checked, findings
from tests.peers.script import Stream
from tests.streams.told import Told, opened, packets

IDS = [rule.id for rule in RULES]


def found(talk: Told) -> list[tuple[str, str]]:
    whole = findings(talk, rules=IDS)
    assert findings(talk, rules=IDS, sizes=[1] * 100) == whole
    return [(one.rule, one.message) for one in whole]


def snapshot(*flags: str) -> tuple[Told, Stream]:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory", *flags)
    stream.mutation(3, "k")
    return talk, stream


def goes_on(talk: Told) -> None:
    talk.wait(3)
    talk.noop()


def test_a_snapshot_that_is_not_acknowledged() -> None:
    talk, _ = snapshot("ack")
    goes_on(talk)
    assert found(talk) == [
        ("ack-missing", "snapshot 0–3 needs an acknowledgement, and has had none for 3.0 s")
    ]
    (whole,) = findings(talk, rules=IDS)
    assert (whole.severity, whole.vbuckets, whole.seqnos) == ("warning", (7,), (0, 3))


def test_a_snapshot_that_is_acknowledged_or_need_not_be() -> None:
    talk, stream = snapshot("ack")
    stream.snapshot_received()
    goes_on(talk)
    assert found(talk) == []
    talk, _ = snapshot()
    goes_on(talk)
    assert found(talk) == []


def test_nothing_is_missing_merely_because_the_capture_ends_or_the_snapshot_does_not() -> None:
    talk, _ = snapshot("ack")
    talk.noop()
    assert found(talk) == []
    talk = opened()
    talk.stream(7).snapshot(0, 9, "memory", "ack")
    goes_on(talk)
    assert found(talk) == []


def test_an_acknowledgement_in_a_hole_accuses_nobody() -> None:
    talk, stream = snapshot("ack")
    with talk.lost():
        stream.snapshot_received()
    goes_on(talk)
    assert found(talk) == []


def test_an_acknowledgement_that_is_read_before_its_marker_is_one() -> None:
    talk = opened()
    stream = talk.stream(7)
    with talk.lost():
        talk.send(
            "server", encode("dcp_noop", opaque=1)
        )  # what the server says after it waits for what may still fill the hole
    stream.snapshot(0, 3, "memory", "ack")
    stream.mutation(3, "k")
    stream.snapshot_received()
    goes_on(talk)
    assert found(talk) == []


def test_a_stream_that_the_client_closes_needs_no_acknowledgement() -> None:
    talk, stream = snapshot("ack")
    stream.close()
    goes_on(talk)
    assert found(talk) == []


def test_a_snapshot_that_is_acknowledged_before_its_end() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 3, "memory", "ack")
    stream.snapshot_received()
    talk.wait(0.5)
    stream.mutation(3, "k")
    ((rule, message),) = found(talk)
    assert (rule, message.partition(" 50")[0]) == ("ack-early", "snapshot 0–3 acknowledged")
    (whole,) = findings(talk, rules=IDS)
    assert (whole.severity, [place.direction for place in whole.places]) == ("note", ["c2s", "s2c"])


def test_within_a_round_trip_nobody_knows_which_was_first() -> None:
    talk = opened()
    asked = talk.stream_request(7, 0x700)
    talk.wait(0.8)
    talk.stream_answer(asked)
    asked.snapshot(0, 3, "memory", "ack")
    asked.snapshot_received()
    talk.wait(0.5)
    asked.mutation(3, "k")
    assert found(talk) == []


def test_one_acknowledgement_is_for_a_snapshot_and_its_history() -> None:
    talk = opened(change_streams="true")
    stream = talk.stream(7)
    stream.snapshot(0, 3, "disk", "checkpoint", "ack")
    stream.mutation(1, "k")
    stream.snapshot(0, 3, "disk", "checkpoint", "history", "ack")
    stream.mutation(3, "k")
    goes_on(talk)
    assert [rule for rule, _ in found(talk)] == ["ack-missing"]
    talk, stream = opened(change_streams="true"), stream
    stream = talk.stream(7)
    stream.snapshot(0, 3, "disk", "checkpoint", "ack")
    stream.mutation(1, "k")
    stream.snapshot(0, 3, "disk", "checkpoint", "history", "ack")
    stream.mutation(3, "k")
    stream.snapshot_received()
    goes_on(talk)
    assert found(talk) == []


def replica(
    *acknowledged: int,
    wait_s: float = 40,
    ends: int = 9,
    flags: Sequence[str] = (),
    noops: bool = True,
) -> Told:
    """A replica that is sent prepares 2 and 5, each the last of its snapshot, and 8 in one that
    goes up to ``ends``; and that acknowledges some of them.
    """
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7, flags=flags)
    for start, end, seqno in ((0, 2, 2), (3, 5, 5), (6, ends, 8)):
        stream.snapshot(start, end, "memory", "checkpoint")
        stream.prepare(seqno, f"k{seqno}", {"a": 1})
        if seqno in acknowledged:
            stream.seqno_acknowledged(seqno)
    stream.mutation(9, "k9")
    if 9 in acknowledged:
        stream.seqno_acknowledged(8)
    talk.wait(wait_s)
    if noops:
        talk.noop()
    return talk


def test_a_replica_that_stops_acknowledging_prepares() -> None:
    (one,) = findings(replica(2), rules=IDS)
    assert (one.rule, one.severity, one.cause, one.vbuckets, one.seqnos, one.whose) == (
        *("ack-missing", "warning", "prepares"),
        *((7,), (8, 2), "client"),
    )
    assert one.message == "prepares up to 8 not acknowledged for 40.0 s, after 2"
    assert [place.direction for place in one.places] == ["s2c", "c2s"]
    assert len(found(replica(2))) == 1


def test_a_replica_that_acknowledges_one_behind_and_then_stops() -> None:
    """What it acknowledges comes after the snapshot of the next prepare, as on a busy link."""
    talk = opened(enable_sync_writes="true")
    stream = talk.stream(7)
    for start, seqno in ((0, 2), (3, 5)):
        stream.snapshot(start, seqno, "memory", "checkpoint")
        stream.prepare(seqno, f"k{seqno}", {"a": 1})
    stream.seqno_acknowledged(2)
    talk.wait(40)
    talk.noop()
    (one,) = findings(talk, rules=IDS)
    assert one.message == "prepares up to 5 not acknowledged for 40.0 s, after 2"


@pytest.mark.parametrize(
    "talk",
    [
        replica(2, 5, 9),
        replica(2, 5, ends=20),
        replica(2, wait_s=20),
        replica(2, noops=False),
        replica(),
        replica(2, flags=["takeover"]),
    ],
    ids=[
        *("acknowledges all", "inside a snapshot", "20 s", "is silent itself"),
        *("never acknowledged any", "takes the vbucket over"),
    ],
)
def test_a_replica_that_may_have_nothing_to_acknowledge(talk: Told) -> None:
    assert found(talk) == []


def test_a_replica_whose_acknowledgement_may_be_in_a_hole() -> None:
    talk = replica(2)
    with talk.lost():
        talk.send("client", encode("dcp_noop", "response", opaque=1))
    talk.noop()
    assert found(talk) == []


# -- answers that nobody asked for
# --------------------------------------------------------------------------------------------------


def unneeded(talk: Told) -> list[tuple[str, str | None, int, str]]:
    whole = findings(talk, rules=["unexpected-reply"])
    assert findings(talk, rules=["unexpected-reply"], sizes=[1] * 100) == whole
    return [(one.severity, one.cause, one.count, one.message) for one in whole]


NEEDLESS = "dcp_snapshot_marker needs no answer, because its ack flag is not set"


def test_a_marker_that_is_answered_although_its_ack_flag_is_not_set() -> None:
    talk, stream = snapshot()
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    assert unneeded(talk) == [("warning", "not-asked", 1, NEEDLESS)]
    (whole,) = findings(talk, rules=["unexpected-reply"])
    assert (whole.vbuckets, whole.seqnos, [place.direction for place in whole.places]) == (
        (7,),
        (0, 3),
        ["c2s", "s2c"],
    )
    assert whole.next == (
        "update the client; it may answer a marker only if its ack flag is set, because "
        "during a takeover the server counts answers and may wait forever"
    )


def test_a_consumer_that_answers_every_marker() -> None:
    talk, stream = snapshot("ack")
    stream.snapshot_received()
    for number in range(1, 9):
        stream.snapshot(10 * number, 10 * number + 3, "memory")
        stream.mutation(10 * number + 3, f"k{number}")
        talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    assert unneeded(talk) == [("warning", "not-asked", 8, NEEDLESS)]


def test_an_answer_to_a_marker_that_asks_for_it() -> None:
    talk, stream = snapshot("ack")
    stream.snapshot_received()
    assert unneeded(talk) == []


def test_a_marker_whose_flag_may_lie_in_a_hole_or_before_the_capture() -> None:
    talk, stream = snapshot()
    with talk.lost():
        stream.snapshot(4, 9, "memory", "ack")
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    stream.mutation(9, "l")
    assert unneeded(talk) == []
    talk, stream = snapshot("ack")
    talk.begin()
    for seqno in range(10, 20, 2):
        stream.snapshot(seqno, seqno + 1, "memory")
        stream.mutation(seqno + 1, f"k{seqno}")
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    assert unneeded(talk) == []


def test_a_marker_whose_flags_the_snapshot_length_cut() -> None:
    for snaplen, expected in ((1 << 18, 1), (54 + 24 + 10, 0)):
        talk, stream = snapshot()
        talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
        assert len(findings(talk, rules=["unexpected-reply"], snaplen=snaplen)) == expected


def test_of_very_many_markers_whose_flags_the_snapshot_length_cut_only_the_connection_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.acknowledged.MOST", 5)
    talk, stream = snapshot()
    for vbucket in range(100, 120):
        talk.stream(vbucket).snapshot(0, 1, "memory")
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    checker, engine = checked(
        [packet.cut(54 + 24 + 10) for packet in packets(talk)], (), ["unexpected-reply"]
    )
    (watcher,) = [one for one in checker._watchers.values() if isinstance(one, Acknowledged)]
    assert len(watcher._unread) <= 6
    assert checker.findings(engine.links, engine.coverage) == []


def test_an_answer_in_a_hole() -> None:
    talk, stream = snapshot()
    with talk.lost():
        talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    goes_on(talk)
    assert unneeded(talk) == []


def test_an_answer_while_a_marker_that_asks_for_one_has_none_that_was_read() -> None:
    """The marker may have been held back by a gap before it."""
    talk, stream = snapshot()
    talk.answer("dcp_snapshot_marker", stream.opaque, by="client")
    stream.snapshot(4, 9, "memory", "ack")
    stream.mutation(9, "l")
    assert unneeded(talk) == []
