"""Every byte of a stream that a capture holds has a place."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import ByteArray
from dcpinspect.reading.store.originals import BESIDE
from dcpinspect.reading.store.places import Places, from_batch, located
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
        offsets, numbers, numbers + 1, np.full(len(entries), 2), numbers, numbers, places
    )
    return StreamChunk(
        connection,
        direction,
        offset,
        np.frombuffer(data, np.uint8),
        segments,
        holes,
        is_placed=True,
    )


def placed(places: Places, flow: int) -> list[tuple[int, int, int, int]]:
    """Offset, length, file and place of each segment of a flow."""
    columns = (places.offset, places.length, places.file, places.place)
    rows = np.array(columns, np.int64)[:, places.flow == flow]
    return [(offset, length, file, place) for offset, length, file, place in rows.T.tolist()]


def nothing_beside(_: ByteArray) -> int:
    raise AssertionError


def test_a_segment_reaches_to_the_next_or_to_the_end_of_its_chunk() -> None:
    places = located([chunk((10, 500), (14, 900), data=bytes(9), offset=10)], (), nothing_beside)
    assert placed(places, 3) == [(10, 4, 2, 500), (14, 5, 2, 900)]


def test_holes_and_ends_have_no_place() -> None:
    made = chunk((0, 70), (2, NOWHERE), (5, 80), (6, NOWHERE), data=bytes(6), holes=((2, 5),))
    assert placed(located([made], (), nothing_beside), 3) == [(0, 2, 2, 70), (5, 1, 2, 80)]


def test_a_hole_before_the_first_byte_of_a_chunk_has_none_either() -> None:
    made = chunk((0, NOWHERE), (90_000, 4), data=b"x", offset=90_000, holes=((0, 90_000),))
    assert placed(located([made], (), nothing_beside), 3) == [(90_000, 1, 2, 4)]


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
    assert placed(places, 2) == [(0, 2, 2, 1), (2, 2, BESIDE, 41), (4, 2, BESIDE, 42)]
    assert placed(places, 3) == [(0, 5, 2, 7)]


def test_no_chunks_have_no_places() -> None:
    places = located([], (), nothing_beside)
    assert (len(places), placed(places, 2)) == (0, [])


def test_a_table_of_places_comes_back_from_arrow() -> None:
    places = located([chunk((0, 7), (3, 1 << 40), data=b"plain")], (), nothing_beside)
    again = from_batch(places.batch())
    assert placed(again, 3) == placed(places, 3) == [(0, 3, 2, 7), (3, 2, 2, 1 << 40)]
