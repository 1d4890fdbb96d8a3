"""Every byte of a stream that a capture holds is found again by its place."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.arrays import ByteArray
from dcpinspect.reading.store.originals import BESIDE
from dcpinspect.reading.store.places import Places, Segment, from_batch, joined, located
from dcpinspect.transport.chunk import NOWHERE, SCATTERED, StreamChunk
from tests.transport_views import segments_of


def column(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def chunk(
    *entries: tuple[int, int],
    data: bytes,
    offset: int = 0,
    connection: int = 1,
    direction: int = 1,
    holes: tuple[tuple[int, int], ...] = (),
) -> StreamChunk:
    """``entries``: stream offset and place of each segment."""
    offsets, places = column(*(one for one, _ in entries)), column(*(place for _, place in entries))
    numbers = np.arange(len(entries), dtype=np.int64)
    segments = segments_of(
        offsets, numbers, numbers + 1, np.full(len(entries), 2), numbers, numbers
    )
    return StreamChunk(
        connection, direction, offset, np.frombuffer(data, np.uint8), segments, holes, places=places
    )


def nothing_beside(_: ByteArray) -> int:
    raise AssertionError


def test_a_segment_reaches_to_the_next_or_to_the_end_of_its_chunk() -> None:
    places = located([chunk((10, 500), (14, 900), data=bytes(9), offset=10)], (), nothing_beside)
    assert list(places.segments_of(3, 0, 100)) == [Segment(14, 5, 2, 900), Segment(10, 4, 2, 500)]


def test_holes_and_ends_have_no_place() -> None:
    made = chunk((0, 70), (2, NOWHERE), (5, 80), (6, NOWHERE), data=bytes(6), holes=((2, 5),))
    assert list(located([made], (), nothing_beside).segments_of(3, 0, 9)) == [
        Segment(5, 1, 2, 80),
        Segment(0, 2, 2, 70),
    ]


def test_a_hole_before_the_first_byte_of_a_chunk_has_none_either() -> None:
    made = chunk((0, NOWHERE), (90_000, 4), data=b"x", offset=90_000, holes=((0, 90_000),))
    assert list(located([made], (), nothing_beside).segments_of(3, 0, 90_001)) == [
        Segment(90_000, 1, 2, 4)
    ]


def test_bytes_in_no_one_piece_are_put_beside() -> None:
    beside: list[bytes] = []

    def put(data: ByteArray) -> int:
        beside.append(data.tobytes())
        return 40 + len(beside)

    chunks = [
        chunk((0, 7), data=b"plain"),
        chunk((0, 1), (2, SCATTERED), (4, SCATTERED), data=b"abcdef", direction=0),
    ]
    places = located(chunks, (), put)
    assert beside == [b"cd", b"ef"]
    assert list(places.segments_of(2, 0, 6)) == [
        Segment(4, 2, BESIDE, 42),
        Segment(2, 2, BESIDE, 41),
        Segment(0, 2, 2, 1),
    ]
    assert list(places.segments_of(3, 0, 5)) == [Segment(0, 5, 2, 7)]


def test_no_chunks_have_no_places() -> None:
    places = located([], (), nothing_beside)
    assert (len(places), list(places.segments_of(2, 0, 10))) == (0, [])


def test_a_table_of_places_comes_back_from_arrow() -> None:
    places = located([chunk((0, 7), (3, 1 << 40), data=b"plain")], (), nothing_beside)
    again = from_batch(places.batch())
    assert (
        list(again.segments_of(3, 0, 5))
        == list(places.segments_of(3, 0, 5))
        == [Segment(3, 2, 2, 1 << 40), Segment(0, 3, 2, 7)]
    )


@given(st.data())
def test_a_range_gives_just_the_segments_that_touch_it(data: st.DataObject) -> None:
    rows = []
    for flow in data.draw(st.lists(st.integers(0, 5), unique=True, max_size=4)):
        at = 0
        for gap, length in data.draw(
            st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)
        ):
            at += gap
            rows.append((flow, at, length))
            at += length
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    places = joined([_places(shuffled[:cut]), _places(shuffled[cut:])])
    flow, start, size = data.draw(
        st.tuples(st.integers(0, 6), st.integers(0, 40), st.integers(1, 20))
    )
    expected = [
        (offset, length)
        for one, offset, length in sorted(rows)
        if one == flow and offset < start + size and offset + length > start
    ]
    assert [
        (one.offset, one.length) for one in places.segments_of(flow, start, start + size)
    ] == expected[::-1]


def _places(rows: list[tuple[int, int, int]]) -> Places:
    flow, offset, length = np.array(rows, np.int64).reshape(-1, 3).T
    zero = np.zeros(len(rows), np.int64)
    return Places(
        flow.astype(np.uint32), offset, length.astype(np.uint32), zero.astype(np.int32), zero
    )
