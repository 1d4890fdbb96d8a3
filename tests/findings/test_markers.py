"""Rules about snapshots as a whole."""

from __future__ import annotations

import pytest

from tests.findings.checked import findings
from tests.peers.script import Stream
from tests.streams.told import Told, opened


def of(rule: str, *talks: Told) -> list[tuple[str, str]]:
    return [(one.severity, one.message) for one in findings(*talks) if one.rule == rule]


def streaming(talk: Told, **request: object) -> Stream:
    return talk.stream(7, **request)  # type: ignore[arg-type] # passed on


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (5, []),
        (2, []),
        (9, [("note", "first snapshot starts at 9; 2 or 5 expected")]),
        (3, [("warning", "first snapshot starts at 3; 2 or 5 expected")]),
    ],
)
def test_a_first_marker_starts_where_it_was_asked_to(start: int, expected: list[tuple[str, str]]) -> None:
    talk = opened()
    stream = streaming(talk, start=5, snapshot=(2, 9))
    stream.snapshot(start, 12, "memory")
    stream.mutation(12, "k")
    assert of("first-marker-start", talk) == expected


def test_a_first_marker_may_start_anywhere_from_the_latest_or_behind_a_hole() -> None:
    talk = opened()
    stream = streaming(talk, flags=["from-latest"])
    stream.snapshot(50, 60, "memory")
    assert of("first-marker-start", talk) == []
    talk = opened()
    with talk.lost():
        stream = streaming(talk)
        stream.snapshot(0, 9, "memory")
    stream.snapshot(50, 60, "memory", "checkpoint")
    stream.mutation(60, "k")
    assert of("first-marker-start", talk) == []


@pytest.mark.parametrize(("features", "severity"), [(("JSON", "Collections"), "warning"), (("JSON",), "note")])
def test_a_snapshot_that_another_marker_cuts_short(features: tuple[str, ...], severity: str) -> None:
    talk = Told("test:1")
    talk.hello("test/1.0", *features)
    talk.open("test:1", "producer")
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    stream.mutation(12, "l")
    assert of("snapshot-incomplete", talk) == [(severity, "8 of 9 when the next marker came: no SeqnoAdvanced")]


def test_a_stream_that_brought_all_it_was_asked_for_owes_nothing_of_its_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7, end=5)
    stream.snapshot(0, 9, "disk")
    stream.mutation(7, "k")
    stream.end()
    assert of("snapshot-incomplete", talk) == []


def test_a_snapshot_that_seqno_advanced_completes_or_a_hole_hides() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.seqno_advanced(9)
    stream.snapshot(10, 20, "memory", "checkpoint")
    with talk.lost():
        stream.mutation(20, "l")
    stream.snapshot(21, 22, "memory", "checkpoint")
    stream.mutation(22, "m")
    assert of("snapshot-incomplete", talk) == []


def test_a_client_that_resumes_above_what_it_had() -> None:
    first = opened("c:1", port=50_001)
    stream = first.stream(7)
    stream.snapshot(0, 8, "memory")
    stream.mutation(8, "k")
    first.close()
    second = opened("c:1", port=50_002)
    second.stream(7, start=11)
    (found,) = [one for one in findings(first, second) if one.rule == "resume-skipped"]
    assert found.message == "resumed at 11, received only to 8: 3 seqnos never delivered"
    assert [place.connection for place in found.places] == [2, 1]
    third = opened("c:1", port=50_003)
    third.stream(7, start=8)
    assert of("resume-skipped", first, third) == []


def test_what_came_of_an_incomplete_snapshot_is_what_lies_inside_of_it() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(4, "a")
    stream.mutation(30, "b")
    stream.snapshot(40, 50, "memory")
    assert [message for _, message in of("snapshot-incomplete", talk)] == ["4 of 9 when the next marker came: no SeqnoAdvanced"]


def test_a_marker_behind_what_came_is_not_called_incomplete_as_well() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "a")
    stream.snapshot(3, 5, "memory")
    stream.snapshot(10, 12, "memory")
    assert len(of("marker-behind", talk)) == 1
    assert of("snapshot-incomplete", talk) == []
