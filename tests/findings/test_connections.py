"""Rules about connections and the capture."""

from __future__ import annotations

from dcpinspect.protocol.statuses import Status
from tests.findings.checked import findings, told
from tests.streams.told import Told, opened


def test_an_open_that_is_refused() -> None:
    talk = Told("x:1")
    talk.hello("test/1.0", "JSON")
    talk.open("x:1", "producer", status=Status.EACCESS)
    (found,) = findings(talk)
    assert (found.rule, found.severity, found.cause) == ("open-refused", "warning", "eaccess")
    assert found.message == "DCP open x:1: eaccess, No permission"
    assert [place.direction for place in found.places] == ["c2s"]


def test_controls_that_are_refused_or_unknown() -> None:
    talk = opened()
    talk.control("make_coffee", "black", status=Status.EINVAL)
    talk.control("enable_noop", "true")
    assert told(talk) == [("note", "control-rejected", "make_coffee"), ("note", "control-unknown-key", "make_coffee")]


def test_a_connection_that_is_closed_under_its_streams() -> None:
    for abort, cause, words in ((True, "reset", "reset by the client"), (False, "by-client", "closed by the client")):
        talk = opened()
        stream = talk.stream(7)
        stream.snapshot(0, 3, "memory")
        talk.close(abort=abort)
        (found,) = findings(talk)
        assert (found.rule, found.cause, found.message) == ("connection-closed", cause, f"{words} with 1 stream open")


def test_a_close_after_all_streams_ended_is_no_news() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.end("ok")
    talk.close()
    assert findings(talk) == []


def test_what_the_capture_lacks_is_told_once_a_direction() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    with talk.lost():
        stream.mutation(3, "k")
    stream.mutation(9, "l")
    (found,) = findings(talk)
    assert (found.rule, found.cause, found.severity) == ("capture-hole", "s2c", "note")
    assert found.message.endswith(" bytes in 1 hole, s2c")
    assert found.places[0].row > 0


def test_a_capture_that_begins_in_the_middle() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    stream.snapshot(0, 3, "memory")
    stream.mutation(3, "k")
    assert ("note", "mid-stream-start", None) in told(talk)
