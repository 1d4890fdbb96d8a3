"""A history tells what the command prints, whatever part of it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.render.vbucket_history import VbucketHistory
from dcpinspect.reading.reading import Reading
from tests.peers.truth import SAMPLES


def told(
    path: Path, history: VbucketHistory, bounds: tuple[int, int] | None = None
) -> VbucketHistory:
    with Reading([str(path)], track=True) as reading:
        for batch in reading:
            history.feed(batch)
    history.read(reading, None, bounds)
    return history


def test_a_history_has_the_streams_of_the_connections_that_are_asked_for() -> None:
    path = SAMPLES / "rollback.pcap"
    assert repr(told(path, VbucketHistory(7))) == "<timeline of vbucket 7: 3 streams, 35 events>"
    second = told(path, VbucketHistory(7, [range(2, 3)]))
    assert {event.connection for event in second.events} == set(second.connections) == {2}
    assert "rollback to 50" in str(second)


def test_events_outside_of_a_span_of_time_are_left_out() -> None:
    path = SAMPLES / "rollback.pcap"
    whole = told(path, VbucketHistory(7))
    request = next(event.time_ns for event in whole.events if event.row == 112)
    assert request is not None
    within = told(path, VbucketHistory(7), (request, request + 1))
    assert [event.row for event in within.events] == [112]


def test_system_events_beyond_the_most_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.output.render.vbucket_history.MOST_NOTED", 0)
    history = told(SAMPLES / "tour.pcapng", VbucketHistory(33))
    assert (
        history.left_out,
        [event for event in history.events if event.kind == "system-event"],
    ) == (1, [])
