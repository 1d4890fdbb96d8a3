"""The same connection is known again by its bytes, and no other one is taken for it."""

from __future__ import annotations

import random

import numpy as np

from dcpinspect.spark.data_marks import EVERY, MOST, GroupMarks, Marker, are_same, together
from dcpinspect.transport.headers import CAPTURED, COLUMNS, PAYLOAD, SEQ


def marks(
    stream: bytes, start: int, segments: list[tuple[int, int]], batch: int = 10
) -> GroupMarks:
    """Of segments of a stream that begins at a sequence number, in batches of so many."""
    marker = Marker()
    for first in range(0, len(segments), batch):
        some = segments[first : first + batch]
        tcp = np.zeros((len(some), COLUMNS), np.int64)
        data = b"".join(stream[at : at + size] for at, size in some)
        tcp[:, SEQ] = [(start + at) % 2**32 for at, _ in some]
        tcp[:, CAPTURED] = [size for _, size in some]
        tcp[:, PAYLOAD] = np.cumsum([0, *(size for _, size in some[:-1])])
        marker.add(np.frombuffer(data, np.uint8), tcp, np.full(len(some), 3))
    return marker.marks_of(3)


def cut(rng: random.Random, size: int) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < size:
        found.append((at, min(rng.randrange(1, 1500), size - at)))
        at += found[-1][1]
    return found


def test_both_ends_have_the_same_marks_whatever_is_lost_or_late() -> None:
    rng = random.Random(5)
    stream, start = rng.randbytes(300_000), 2**32 - 100_000
    whole = marks(stream, start, cut(rng, len(stream)))
    assert len(whole) == MOST
    other = marks(stream, start, cut(rng, len(stream)), batch=3)
    assert are_same(whole, other)
    lossy = [
        marks(stream, start, [one for one in cut(rng, len(stream)) if rng.random() > 0.05])
        for _ in range(2)
    ]
    assert are_same(*lossy)
    late = marks(stream, start, [one for one in cut(rng, len(stream)) if one[0] > 200_000])
    assert are_same(whole, late)
    first = marks(stream, start, [one for one in cut(rng, len(stream)) if one[0] < 150_000])
    assert not are_same(first, late)
    assert (together([first, late]) == np.union1d(first, late)[:MOST]).all()


def test_other_connections_have_others() -> None:
    rng = random.Random(6)
    stream = rng.randbytes(100_000)
    one = marks(stream, 1000, cut(rng, len(stream)))
    assert not are_same(one, marks(rng.randbytes(100_000), 1000, cut(rng, 100_000)))
    assert not are_same(one, marks(stream, 1064, cut(rng, len(stream))))
    assert not are_same(one, one[:0])


def test_padding_is_no_mark() -> None:
    assert len(marks(b"x" * 100_000, 0, [(0, 100_000)])) == 0
    assert len(marks(b"0123456789abcdef" * 10_000, 0, [(0, EVERY * 10 + 47)])) == 10
