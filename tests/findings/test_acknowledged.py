"""Rules about markers that ask to be acknowledged."""

from __future__ import annotations

from dcpinspect.findings.acknowledged import RULES
from dcpinspect.protocol.encode import encode
from tests.findings.checked import findings
from tests.peers.script import Stream
from tests.streams.told import Told, opened

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
    assert found(talk) == [("ack-missing", "snapshot 0–3 was to be acknowledged, and was not for 3.0 s")]
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
        talk.send("server", encode("dcp_noop", opaque=1))  # what the server says after it waits for what may still fill the hole
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
