from __future__ import annotations

import numpy as np

from dcpinspect.protocol.stretch import Stretch, captured
from tests import builders


def test_appended_bytes_and_their_segments_follow() -> None:
    stretch = Stretch(builders.chunk(b"abc", sizes=(1, 1)))
    stretch.append(builders.chunk(b"defg", offset=3, packet=7))
    assert stretch.data.tobytes() == b"abcdefg"
    assert stretch.segments.offset.tolist() == [0, 1, 2, 3]
    assert stretch.segments.packet.number.tolist() == [0, 1, 2, 7]
    assert (stretch.size, stretch.end, stretch.release) == (7, 7, 7)


def test_the_rest_keeps_the_segment_it_begins_in() -> None:
    stretch = Stretch(builders.chunk(b"abcdefg", offset=10, sizes=(3, 3)))
    rest = stretch.bytes_from(14)
    assert rest is not None
    assert rest.data.tobytes() == b"efg"
    assert rest.segments.packet.number.tolist() == [1, 2]
    assert stretch.bytes_from(17) is None


def test_the_rest_is_a_copy() -> None:
    data = np.array([1, 2, 3], np.uint8)
    chunk = builders.chunk(b"")
    stretch = Stretch(type(chunk)(1, 1, 0, data, builders.chunk(b"abc").segments))
    rest = stretch.bytes_from(1)
    data[:] = 9
    assert rest is not None
    assert rest.data.tolist() == [2, 3]


def test_long_holes_stay_zero_and_are_listed() -> None:
    hole = 100_000
    stretch = Stretch(builders.chunk(b"a"))
    stretch.append(builders.chunk(b"b" + bytes(hole) + b"c", offset=1, holes=((2, 2 + hole),)))
    assert stretch.data.tobytes() == b"ab" + bytes(hole) + b"c"
    rest = stretch.bytes_from(50)
    assert rest is not None
    assert rest.holes().tolist() == [[50, 2 + hole]]
    assert rest.data.tobytes() == bytes(hole + 2 - 50) + b"c"


def test_collapsing_keeps_least_greatest_and_last_packet() -> None:
    stretch = Stretch(builders.chunk(bytes(30), packet=50))
    for i in range(200):
        stretch.append(builders.chunk(b"x", offset=30 + i, packet=(i * 37) % 300))
    before = stretch.segments.packet.number
    for i in range(200):
        stretch.append(builders.chunk(b"x", offset=230 + i, packet=40))
    stretch.collapse()
    assert len(stretch.segments.packet.number) == 3
    assert (stretch.segments.packet.number.min(), stretch.segments.packet.number.max()) == (
        before.min(),
        before.max(),
    )
    assert stretch.release == 40 or stretch.release == before.max()


def test_captured_bytes_are_those_in_no_hole() -> None:
    holes = np.array([(10, 20), (30, 35)], np.int64)
    assert [
        captured(*span, holes) for span in ((0, 40), (12, 18), (15, 32), (40, 50), (9, 9), (9, 8))
    ] == [25, 0, 10, 10, 0, 0]
    assert captured(3, 8, holes[:0]) == 5
