from __future__ import annotations

import pytest

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
        told = of(app, 31)
        first, refused, second, *_ = told.tracks
        assert [(one.row, one.seqno, one.severity) for one in refused.found] == [(79, 60, "warning"), (80, 0, "warning")]
        assert ([*first.found], [one.row for one in second.found]) == ([], [82]), "the answer to the next request has the log"
        assert refused.found_at("time")[0][0] == refused.shapes["time"].begin
        assert list(told.connections) == [("", number) for number in (1, 2, 3, 4, 5)]

    play("loop.pcap", scene)


def test_a_request_that_followed_a_rollback_is_among_what_shows_it() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        _, refused, second = of(app, 7).tracks
        assert [(one.row, one.seqno, one.severity) for one in refused.found] == [(99, 60, "note"), (100, 50, "note"), (111, 60, "note")]
        assert [(one.row, one.severity) for one in second.found] == [(112, "note")]

    play("rollback.pcap", scene)


def test_a_vbucket_without_streams_has_no_tracks() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        assert of(app, 1000).tracks == []

    play("rollback.pcap", scene)


def test_reading_a_vbucket_can_be_stopped() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        del pilot
        with pytest.raises(InterruptedError):
            tracks_of(app.inspection, 7, lambda share: share > 0)

    play("rollback.pcap", scene)
