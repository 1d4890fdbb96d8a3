from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.render.event_lines import folded
from dcpinspect.output.render.vbucket_history import VbucketHistory
from dcpinspect.reading.reading import Reading
from dcpinspect.tui.tracks import Tracks, tracks_of
from tests.captures import field, real_server
from tests.streams.told import capture, opened
from tests.tui.screens import SAMPLES, read


def of(name: str | Path, vbucket: int) -> Tracks:
    with read(name) as inspection:
        return tracks_of(inspection, vbucket)


def test_what_was_noted_is_on_both_axes() -> None:
    (track,) = of("tour.pcapng", 417).tracks
    for shape in track.shapes.values():
        assert "".join(mark.letter for mark in shape.marks if mark.letter == "S") == "S" * 7
    assert "7 system events" in track.words["events"]
    assert list(track.words) == ["axis", "snapshots", "items", "gaps", "events"]


def test_what_was_found_is_in_the_stream_that_shows_it() -> None:
    told = of("loop.pcap", 31)
    begin = told.tracks[1].shapes["time"].begin
    found = [told.found_at(track, "time") for track in range(len(told.tracks))]
    assert (begin, "error") in found[1]
    assert [{severity for _, severity in of_track} for of_track in found[::2]] == [set()] * 5
    assert {len(of_track) for of_track in found[1::2]} == {2}, "request and answer of each round"
    assert told.found_at(1, "seqno") == {(60, "error"), (0, "error")}
    assert list(told.connections) == [1, 2, 3, 4, 5]


def test_an_effect_has_no_place_on_an_axis() -> None:
    told = of("orphans.pcap", 48)
    found = [one.event for one in told.events if one.event.severity]
    assert [(event.row, event.cause is None) for event in found] == [(31, True), (31, False)]
    assert told.found_at(0, "seqno") == {(77, "error"), (50, "error")}, "the request, the answer"


@pytest.mark.parametrize("name", ["consumer-errors-66", "v85-consumer-errors"])
def test_a_refused_event_is_at_its_own_seqno(name: str) -> None:
    places = [of(real_server(name), vbucket) for vbucket in range(3)]
    assert [told.found_at(0, "seqno") for told in places] == [
        {(4, "error"), (2, "error")},
        {(1, "error")},
        {(7, "error")},
    ]
    assert [told.bounds("seqno") for told in places] == [(0, 5), (0, 1), (0, 7)]
    (track,) = places[1].tracks
    assert not len(track.story.item_row), "what was refused is no item"


def test_a_finding_about_the_connection_has_a_sign() -> None:
    with read(field("p06-zero-window")) as inspection:
        told = tracks_of(inspection, 6)
    assert [severity for _, severity in told.found_at(0, "seqno")] == ["error"]


def test_a_vbucket_without_streams_has_no_tracks() -> None:
    assert of("rollback.pcap", 1000).tracks == []


def test_reading_a_vbucket_can_be_stopped() -> None:
    with read("rollback.pcap") as inspection, pytest.raises(InterruptedError):
        tracks_of(inspection, 7, lambda share: share > 0)


@pytest.mark.parametrize(
    ("sample", "vbucket", "kind", "text"),
    [
        ("real-server/stuck.pcap.gz", 0, "connection-closed", "connection reset by the server"),
        ("midstream.pcap", 101, "state", "the capture ends: advancing"),
    ],
)
def test_the_axis_of_time_reaches_the_close_or_the_end_of_the_capture(
    sample: str, vbucket: int, kind: str, text: str
) -> None:
    told = of(sample, vbucket)
    (shape,) = (track.shapes["time"] for track in told.tracks)
    (over,) = [event for event in told.events if event.event.kind == kind]
    assert over.event.text.startswith(text)
    assert shape.end == over.time
    assert shape.end > int(shape.item_last.max())
    assert [mark.at for mark in shape.marks if mark.letter == "C"] == (
        [shape.end] if kind == "connection-closed" else []
    )


def test_of_streams_with_stream_ids_only_that_of_the_message_has_the_finding() -> None:
    told = of("tour.pcapng", 9)
    assert [track.name for track in told.tracks] == ["#1 sid 1", "#1 sid 2", "#1"]
    found = [(one.event.row, one.event.sid, one.track) for one in told.events if one.event.severity]
    assert found == [(295, None, 2), (322, 2, 1)]
    assert [event.event.row for event in told.events if event.finding is not None] == [295, 322]


def test_the_end_of_the_capture_stands_below_the_findings_of_the_last_message(
    tmp_path: Path,
) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(5, "a")
    stream.mutation(3, "b")
    path = tmp_path / "backwards.pcap"
    path.write_bytes(capture(talk))
    texts = [event.event for event in of(path, 7).events]
    assert texts[-2].severity == "error"
    assert texts[-1].text.startswith("the capture ends")
    assert texts[-2].row == texts[-1].row


@pytest.mark.parametrize("vbucket", [6, 900])
def test_a_finding_beside_a_row_has_its_time_and_says_how_much_later_it_is(vbucket: int) -> None:
    with read(field("p06-zero-window")) as inspection:
        told = tracks_of(inspection, vbucket).events
        (event,) = (one.event for one in told if one.finding is not None)
        (time_ns,) = inspection.store.numbers([event.row], ("time_ns",))[0].values.tolist()
        (finding,) = inspection.results.findings
    assert event.time_ns == time_ns
    assert finding.first_time_ns - time_ns == 394_958
    assert event.text.endswith("; in a packet 0.395 ms after row 434")


@pytest.mark.parametrize(
    ("sample", "vbucket"),
    [
        *(("loop.pcap", 30), ("loop.pcap", 31), ("orphans.pcap", 48), ("tour.pcapng", 9)),
        *((field("p06-zero-window"), 6), (field("p06-zero-window"), 900)),
    ],
    ids=str,
)
def test_the_events_are_those_of_the_command_in_its_order(sample: str | Path, vbucket: int) -> None:
    history = VbucketHistory(vbucket)
    with Reading([str(SAMPLES / sample)]) as reading:
        reading.check(vbucket=vbucket)
        for batch in reading:
            history.feed(batch)
        history.read(reading, reading.by_name(), findings=reading.findings())
    texts = [one.event for one in of(sample, vbucket).events]
    assert [(one.row, one.sign, one.text) for one in texts] == [
        (one.row, one.sign, one.text) for one in folded(history.events)
    ]
    times = [one.time_ns for one in texts if one.severity]
    assert times == [one.time_ns for one in history.events if one.severity] != []


def test_a_finding_is_when_it_began_on_a_timeline_and_on_charts() -> None:
    with read("loop.pcap") as inspection:
        first_ns = inspection.reading.first_time_ns or 0
        marks = inspection.results.finding_marks
        begun = marks.where(marks.row == 0)
        assert begun.vbucket.tolist() == [30, 31]
        for vbucket, time_ns in zip(begun.vbucket.tolist(), begun.time_ns.tolist(), strict=True):
            told = tracks_of(inspection, vbucket)
            for at, _ in told.found_at(1, "time"):
                assert abs(time_ns - first_ns - at) < 1_000_000, "the answer, and its request"


@pytest.mark.slow
def test_a_snapshot_of_unknown_type_does_not_say_unknown_twice() -> None:
    texts = [
        event.event.text for event in of("upr.pcap", 0).events if event.event.kind == "snapshot"
    ]
    assert texts == ["snapshot of unknown type: perhaps complete, no items"]
