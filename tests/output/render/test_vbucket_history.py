"""A history tells what the command prints, whatever part of it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import dcpinspect
from dcpinspect.output.render.vbucket_history import VbucketHistory
from dcpinspect.reading.reading import Reading
from tests.findings.test_stalled import standing
from tests.peers.truth import SAMPLES
from tests.scenarios.test_real_servers import RECORDINGS
from tests.streams.told import capture


def told(
    path: Path, history: VbucketHistory, bounds: tuple[int, int] | None = None
) -> VbucketHistory:
    with Reading([str(path)], track=True) as reading:
        for batch in reading:
            history.feed(batch)
    history.read(reading, reading.by_name(), None, bounds)
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


@pytest.mark.parametrize(("seconds", "verdict"), [(20, "advancing"), (41, "stalled")])
def test_the_state_at_the_end_is_the_verdict_of_the_table_of_vbuckets(
    seconds: int, verdict: str, tmp_path: Path
) -> None:
    """It stands still by a finding."""
    path = tmp_path / "standing.pcap"
    path.write_bytes(capture(standing(kind="memory", seconds=seconds)))
    with dcpinspect.open(path) as recording:
        (vbucket,) = recording.records("vbuckets").values("verdict")
        *_, last = recording.timeline(7).events
    assert (vbucket, last.text) == (verdict, f"the capture ends: {verdict}, after seqno 40")


def test_system_events_beyond_the_most_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.output.render.vbucket_history.MOST_NOTED", 0)
    history = told(SAMPLES / "tour.pcapng", VbucketHistory(33))
    assert (
        history.left_out,
        [event for event in history.events if event.kind == "system-event"],
    ) == (1, [])


@pytest.mark.parametrize(
    ("name", "vbucket", "kind"),
    [("end-reasons", 5, "connection-closed"), ("6.6.5-dcp", 1, "state")],
)
def test_what_no_message_shows_has_the_time_of_the_close_or_of_the_end_and_its_place(
    name: str, vbucket: int, kind: str
) -> None:
    path = RECORDINGS / f"{name}.pcap.gz"
    with Reading([str(path)], track=True) as reading:
        for _ in reading:
            pass
        links = {link.number: link for link in reading.links}
        _, end_ns = reading.ends
    history = told(path, VbucketHistory(vbucket))
    shown = [event for event in history.events if event.kind == kind]
    assert shown
    for event in shown:
        link = links[event.connection]
        assert event.time_ns == (link.closed_ns if kind == "connection-closed" else end_ns)
    times = [event.time_ns for event in history.events if event.time_ns is not None]
    assert times == sorted(times)


def test_the_end_of_a_stream_has_the_time_of_its_message() -> None:
    history = told(SAMPLES / "orphans.pcap", VbucketHistory(40))
    ends = [event for event in history.events if event.kind == "stream-end"]
    assert [(event.row, event.time_ns is not None) for event in ends] == [(67, True)]
    with Reading([str(SAMPLES / "orphans.pcap")]) as reading:
        times = {
            row: time
            for batch in reading
            for row, time in zip(batch.row.tolist(), batch.time_ns.tolist(), strict=True)
        }
    assert ends[0].time_ns == times[67]
