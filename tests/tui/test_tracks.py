from __future__ import annotations

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.tracks import Tracks, tracks_of
from tests.tui.screens import Keys, play


def of(app: InspectApp, vbucket: int) -> Tracks:
    return tracks_of(app.inspection, vbucket)


def test_what_was_noted_is_on_both_axes() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        (track,) = of(app, 417).tracks
        for shape in track.shapes.values():
            assert "".join(mark.letter for mark in shape.marks if mark.letter == "S") == "S" * 7
        assert "7 system events" in track.words["events"]
        assert list(track.words) == ["axis", "snapshots", "items", "gaps", "events"]

    play("tour.pcapng", scene)


def test_what_was_found_is_in_the_stream_that_shows_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        told = of(app, 7)
        first, refused, second = told.tracks
        assert [(one.row, one.seqno, one.severity) for one in refused.found] == [(row, 60, "note") for row in (99, 100, 111)]
        assert [one.row for one in second.found] == [112], "the request that followed the rollback"
        assert not any(one.severity != "note" for one in first.found)
        assert refused.found_at("time")[0][0] == refused.shapes["time"].begin
        assert list(told.connections) == [1, 2]

    play("rollback.pcap", scene)


def test_a_vbucket_without_streams_has_no_tracks() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        assert of(app, 1000).tracks == []

    play("rollback.pcap", scene)
