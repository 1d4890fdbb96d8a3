"""What rules over a finished reading look at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dcpinspect.findings.context import Context
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, batches
from tests.findings.checked import findings
from tests.streams.told import Told, opened, packets, tables


def context(*talks: Told) -> Context:
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    for batch in [*(engine.feed(part) for part in batches(packets(*talks), [])), engine.finish()]:
        if batch is not None:
            tracker.feed(batch)
    return Context(tracker, engine.links)


def test_streams_are_followed_over_connections_by_their_client() -> None:
    first, second = opened("indexer:1", port=50_001), opened("indexer:2", port=50_002)
    first.stream(7)
    second.stream(7)
    second.stream(8)
    assert list(context(first, second).of_client.values()) == [[0, 1], [2]]


def test_requests_and_answers_have_their_places() -> None:
    talk = opened()
    talk.stream(7)
    found = context(talk)
    asked, answered = found.request(0), found.answer(0)
    assert asked is not None
    assert answered is not None
    assert (asked.direction, answered.direction, answered.row) == ("c2s", "s2c", asked.row + 1)
    assert found.captured_until_ns(1) >= answered.time_ns


def test_a_request_that_was_not_captured_has_no_place() -> None:
    talk = opened()
    stream = talk.stream(7)
    talk.begin()
    stream.snapshot(0, 3, "memory")
    assert context(talk).request(0) is None


def test_a_connection_is_there_up_to_its_end_or_that_of_the_capture() -> None:
    first, second = opened("indexer:1", port=50_001), opened("indexer:2", port=50_002)
    second.wait(60)
    second.noop()
    found = context(first, second)
    last_ns = found.links[1].last_ns
    assert last_ns - found.links[0].last_ns > 60e9
    assert found.until_ns(found.links[0]) == last_ns
    first.close("client")
    found = context(first, second)
    assert (
        found.until_ns(found.links[0]) == found.links[0].closed_ns < found.links[1].last_ns - 60e9
    )


def test_another_capture_says_nothing_of_a_connection() -> None:
    found = context(opened("indexer:1", port=50_001))
    (link,) = found.links
    apart = replace(
        link,
        number=2,
        first_seq=(7, 7),  # else it were a copy
        first_file=1,
        last_file=1,
        first_ns=link.last_ns + 1,
        last_ns=link.last_ns + 9,
    )
    assert Context(found.tracker, [link, apart]).until_ns(link) == link.last_ns
    across = replace(apart, first_ns=link.last_ns - 1)
    assert Context(found.tracker, [link, across]).until_ns(link) == across.last_ns
    elsewhere = replace(across, points=("other", "other"))
    found = Context(found.tracker, [link, elsewhere])
    assert (found.until_ns(link), found.until_ns(elsewhere)) == (link.last_ns, across.last_ns)
    assert found.captured_until_ns(1) == link.last_ns
    both = replace(across, number=3, first_seq=(9, 9), first_file=0, points=("", "other"))
    found = Context(found.tracker, [link, elsewhere, both])
    assert (found.until_ns(link), found.until_ns(both)) == (link.last_ns, across.last_ns)


def merging(*flags: str, asks: bool = False, lost: bool = False) -> Told:
    """A snapshot from disk that goes on from memory with an overlapping marker."""
    talk = opened()
    if asks:
        talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 12}]}, state="replica")
    if lost:
        with talk.lost():
            talk.ask(
                "get_all_vb_seqnos", {"seqnos": [{"vbucket": 7, "seqno": 12}]}, state="replica"
            )
    stream = talk.stream(7, flags=flags)
    stream.snapshot(0, 10, "disk", "checkpoint")
    stream.mutation(5, "a")
    stream.snapshot(6, 12, "memory")
    stream.mutation(6, "b")
    for _ in range(4):
        talk.noop()
    return talk


@pytest.mark.parametrize(
    ("talk", "state", "severities"),
    [
        (merging(), "incomplete", ["warning"]),
        (merging(asks=True), "continued", ["note"]),
        (merging(lost=True), "unknown", []),
        (merging("active-only", lost=True), "unknown", ["error"]),
    ],
    ids=["active", "replica", "perhaps a replica", "asked for the active one alone"],
)
def test_who_merges_snapshots(talk: Told, state: str, severities: list[str]) -> None:
    assert tables(talk).snapshots[0]["state"] == state
    assert [one.severity for one in findings(talk) if one.rule == "marker-overlap"] == severities
