"""Markers with the opaque of another stream: they are one fault, and what they leave behind on that
stream is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dcpinspect.findings.strays import Strays
from tests.findings.checked import findings
from tests.peers.script import Stream
from tests.streams.told import Told, opened


def astray(
    *seqnos: int, start: int = 10, end: int = 15, is_first: bool = False
) -> tuple[Told, Stream]:
    """Vbucket 7's marker names vbucket 8, so the events of vbucket 7 come without it."""
    talk = opened()
    one, other = talk.stream(7), talk.stream(8)
    for stream in (one, other):
        if not is_first:
            stream.snapshot(0, 9, "memory")
            stream.mutation(9, "b")
    Stream(talk, other.vbucket, one.opaque).snapshot(start, end, "memory")
    for seqno in seqnos:
        one.mutation(seqno, f"k{seqno}")
    return talk, one


@pytest.mark.parametrize("sizes", [(), (1,) * 200])
def test_the_events_of_a_marker_that_went_astray_are_no_fault_of_their_own(
    sizes: Sequence[int],
) -> None:
    assert [one.rule for one in findings(astray(*range(10, 16))[0], sizes=sizes)] == [
        "opaque-mismatch"
    ]
    assert [
        one.rule for one in findings(astray(*range(1, 16), start=0, is_first=True)[0], sizes=sizes)
    ] == ["opaque-mismatch"]


def test_events_that_it_does_not_announce_either_are_told() -> None:
    assert [one.rule for one in findings(astray(10, 11, 99)[0]) if one.severity == "error"] == [
        "opaque-mismatch",
        "seqno-outside-snapshot",
    ]


def test_the_next_marker_of_their_own_ends_that() -> None:
    talk, one = astray(10, end=30)
    one.snapshot(11, 15, "memory", "checkpoint")
    one.mutation(15, "l")
    one.mutation(20, "m")
    assert [(one.rule, one.seqnos) for one in findings(talk) if one.severity == "error"] == [
        ("opaque-mismatch", ()),
        ("seqno-outside-snapshot", (20, 11, 15)),
    ]


def test_nothing_is_kept_of_connections_that_are_over() -> None:
    strays = Strays()
    strays._latest.update({(1, 7): (9, 0, 5), (2, 7): (9, 0, 5)})
    strays.leave([1])
    assert [*strays._latest] == [(2, 7)]
