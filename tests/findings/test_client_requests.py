"""What one client asked for of one vbucket: the look-ups, by a few streams one after the other."""

from __future__ import annotations

from dcpinspect.findings.client_requests import EmptySnapshots, OpenedInOrder
from dcpinspect.protocol.statuses import Status
from tests.findings.test_context import context
from tests.streams.told import Told, opened


def asked(talk: Told) -> OpenedInOrder:
    found = context(talk)
    return OpenedInOrder(found.streams, range(len(found.streams)), EmptySnapshots(found))


def test_what_was_asked_before_and_since() -> None:
    talk = opened()
    talk.stream(7, end=90, status=Status.NOT_MY_VBUCKET)
    talk.stream(7, end=0)
    talk.stream(7, start=5)
    found = asked(talk)
    assert [found.wanting_more(place) for place in range(3)] == [None, 0, 0]
    assert found.asked_wrong == {1: 1}
    streams = context(talk).streams
    assert [found.since(place, streams[place].answered) for place in range(3)] == [1, 2, 3]
    assert found.since(0, streams[1].answered) == 2
    told = streams[0].answered
    streams.opened.time[:] -= 1_000_000_000  # the client has a clock of its own
    assert OpenedInOrder(streams, range(3), EmptySnapshots(context(talk))).since(0, told) == 1


def test_streams_that_are_open_and_snapshots_without_items() -> None:
    talk = opened()
    first = talk.stream(7)
    first.snapshot(0, 9, "memory")
    first.end("too-slow")
    talk.stream(7).snapshot(0, 8, "memory")
    talk.stream(7, status=Status.KEY_EEXISTS)
    found = asked(talk)
    assert [found.open_on(1, place) for place in range(3)] == [None, None, 1]
    assert [found.bare_snapshot(place, 0, 9) for place in range(2)] == [None, 0]
    assert found.bare_snapshot(2, 0, 8) == 1
    assert found.bare_snapshot(2, 1, 8) is None
