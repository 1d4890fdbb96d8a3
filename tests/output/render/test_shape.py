"""A stream on either axis: the same things, at seqnos or at times."""

from __future__ import annotations

import pytest

from dcpinspect.output.render.shape import Shape, by_seqno, by_time
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.items import VbucketItems
from dcpinspect.streams.story import StreamStory, stories
from tests.peers.truth import SAMPLES


def of_sample(sample: str, vbucket: int) -> tuple[list[StreamStory], int]:
    items = VbucketItems(vbucket)
    with Reading([str(SAMPLES / sample)], track=True) as reading:
        for batch in reading:
            items.feed(batch)
        return stories(reading.by_name(), vbucket, (), items), reading.first_time_ns or 0


def times(sample: str, rows: list[int]) -> list[int]:
    with Reading([str(SAMPLES / sample)]) as reading:
        known = {
            int(row): int(time)
            for batch in reading
            for row, time in zip(batch.row, batch.time_ns, strict=True)
        }
    return [known[row] for row in rows]


@pytest.mark.parametrize(
    ("sample", "vbucket"),
    [("rollback.pcap", 7), ("rollback.pcap", 10), ("snapshots.pcap", 12), ("tour.pcapng", 417)],
)
def test_both_axes_hold_the_same(sample: str, vbucket: int) -> None:
    streams, first_ns = of_sample(sample, vbucket)
    for story in streams:
        on_seqnos, in_time = by_seqno(story), by_time(story, first_ns)
        assert sorted(
            (mark.letter, mark.row, mark.text) for mark in on_seqnos.marks if mark.letter != "^"
        ) == sorted(
            (mark.letter, mark.row, mark.text) for mark in in_time.marks if mark.letter != "^"
        )
        assert len(on_seqnos.bars.first) == len(in_time.bars.first)
        assert on_seqnos.cause.tolist() == in_time.cause.tolist()
        assert (in_time.item_first.astype(int) + first_ns).tolist() == times(
            sample, story.item_row.tolist()
        )
        assert (in_time.bars.first.astype(int) + first_ns).tolist() == times(
            sample, story.bars.row.tolist()
        )
        for shape in (on_seqnos, in_time):
            holds(shape)


def holds(shape: Shape) -> None:
    """Everything lies within the places that the shape names, and no bar ends before it begins."""
    low, high = min(shape.seqno_ranges()), max(shape.seqno_ranges())
    assert all(low <= mark.at <= high for mark in shape.marks)
    assert (shape.bars.last >= shape.bars.first).all()
    assert [mark.at for mark in shape.marks] == sorted(mark.at for mark in shape.marks)


def test_rows_of_marks_are_those_that_show_them() -> None:
    streams, first_ns = of_sample("rollback.pcap", 7)
    assert [(mark.letter, mark.row) for mark in by_time(streams[1], first_ns).marks] == [
        ("Q", 99),
        ("R", 100),
    ]
    assert [(mark.letter, mark.row) for mark in by_time(streams[2], first_ns).marks] == [
        ("Q", 112),
        ("E", 152),
    ]
    assert by_time(streams[0], first_ns).marks[-1].text == "connection closed"


def test_a_snapshot_goes_on_until_its_last_item() -> None:
    streams, first_ns = of_sample("rollback.pcap", 7)
    story = streams[0]
    shape = by_time(story, first_ns)
    for bar in range(len(shape.bars.first)):
        own = (story.item_first >= story.bars.first[bar]) & (
            story.item_first <= story.bars.last[bar]
        )
        assert int(shape.bars.last[bar]) + first_ns == int(story.item_until[own].max())


def test_what_was_promised_and_did_not_come_is_open_until_the_end() -> None:
    streams, first_ns = of_sample("rollback.pcap", 10)
    shape = by_time(streams[0], first_ns)
    assert streams[0].bars.received[-1] < streams[0].bars.last[-1]
    assert int(shape.bars.received[-1]) <= int(shape.bars.last[-1]) == shape.end
