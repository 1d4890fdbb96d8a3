"""One vbucket's part of the tables, stream by stream."""

from __future__ import annotations

from dcpinspect.reading.engine import Engine
from dcpinspect.streams.items import VbucketItems
from dcpinspect.streams.story import StreamStory, stories
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, batches
from tests.streams.test_markers import refused
from tests.streams.told import Told, opened, packets


def told(*talks: Told, vbucket: int = 7, connections: tuple[range, ...] = ()) -> list[StreamStory]:
    return with_links(*talks, vbucket=vbucket, connections=connections)[0]


def with_links(
    *talks: Told, vbucket: int = 7, connections: tuple[range, ...] = ()
) -> tuple[list[StreamStory], dict[int, TcpConnection]]:
    engine, tracker, items = (
        Engine(["told.pcap"], ports=(PORT,)),
        Tracker(),
        VbucketItems(vbucket, connections),
    )
    for batch in [*(engine.feed(part) for part in batches(packets(*talks))), engine.finish()]:
        if batch is not None:
            tracker.feed(batch)
            items.feed(batch)
    links = engine.links
    found = stories(tracker.tables(links).by_name, vbucket, connections, items)
    return found, {link.number: link for link in links}


def twice() -> tuple[Told, Told]:
    first = opened()
    stream = first.stream(7)
    stream.snapshot(0, 9, "disk", "checkpoint")
    for seqno in (2, 3, 9):
        stream.mutation(seqno, "a")
    stream.snapshot(10, 20, "memory", "checkpoint")
    stream.mutation(12, "b")
    other = first.stream(8)
    other.snapshot(0, 1, "memory")
    other.mutation(1, "c")
    first.close("server")
    second = opened(port=50_001)
    stream = second.stream(7, start=12)
    stream.snapshot(12, 13, "memory", "checkpoint")
    stream.mutation(13, "d")
    return first, second


def test_each_stream_has_its_own_snapshots_gaps_and_events() -> None:
    first, second = told(*twice())
    assert [story.key for story in (first, second)] == [(1, -1, 1), (2, -1, 1)]
    assert first.item_first.tolist() == [2, 3, 9, 12]
    assert second.item_first.tolist() == [13]
    assert first.item_count.tolist() == [1] * 4 == [1] * first.stream["items"]
    assert list(zip(first.after.tolist(), first.before.tolist(), strict=True)) == [
        (0, 2),
        (3, 9),
        (9, 12),
    ]
    assert (len(first.snapshots), len(first.gaps), len(second.snapshots), len(second.gaps)) == (
        2,
        3,
        1,
        0,
    )
    assert first.row.records()[0]["vbucket"] == 7


def test_bars_say_what_was_promised_and_how_much_of_it_came() -> None:
    first, second = told(*twice())
    assert (first.bars.first.tolist(), first.bars.last.tolist(), first.bars.received.tolist()) == (
        [0, 10],
        [9, 20],
        [9, 12],
    )
    assert (second.bars.first.tolist(), second.bars.received.tolist()) == ([12], [13])
    assert sorted(first.seqnos())[0] == 0
    assert max(first.seqnos()) == 20


def test_only_connections_that_were_asked_for() -> None:
    (only,) = told(*twice(), connections=(range(2, 3),))
    assert only.key == (2, -1, 1)
    assert told(*twice(), vbucket=9) == []


def test_a_refused_request_takes_no_events_from_the_stream_that_runs() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 4, "memory")
    stream.mutation(1, "a")
    talk.stream_answer(talk.stream_request(7, 99), status=0x02)
    stream.mutation(4, "b")
    first, second = told(talk)
    assert first.item_first.tolist() == [1, 4]
    assert (second.stream["answer"], len(second.item_first)) == ("refused", 0)


def test_a_snapshot_of_seqnos_that_no_server_has_is_drawn_all_the_same() -> None:
    talk = opened()
    talk.stream(7).snapshot(2**64 - 2, 2**64 - 1, "memory")
    (story,) = told(talk)
    assert story.bars.last.tolist() == [2**64 - 1]
    assert story.bars.received.tolist() == [2**64 - 3]


def test_bars_hold_nothing_of_what_came_outside_of_their_marker() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(10, 19, "memory")
    stream.mutation(5, "a")
    stream.mutation(30, "b")
    (story,) = told(talk)
    assert (story.bars.first.tolist(), story.bars.last.tolist(), story.bars.received.tolist()) == (
        [10],
        [19],
        [9],
    )


def test_a_refused_marker_has_no_bar() -> None:
    (story,) = told(refused("behind")[0])
    assert (story.bars.first.tolist(), story.bars.received.tolist()) == ([0], [10])
    assert len(story.snapshots) == 2
