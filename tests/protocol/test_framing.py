from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol import framing
from dcpinspect.protocol.framed import Framed
from dcpinspect.protocol.framing import Framer
from dcpinspect.transport.chunk import StreamChunk
from tests import builders
from tests.builders import Row, chunk, message, mutations
from tests.catalogue import each


def framed(
    chunks: Sequence[StreamChunk],
) -> tuple[list[Row], list[tuple[int, int, str]], int, Framer]:
    framer = Framer()
    parts: list[Framed] = [part for part in map(framer.feed, chunks) if part is not None]
    last = framer.finish()
    parts += [last] if last is not None else []
    rows = [row for part in parts for row in builders.rows_of(part)]
    skipped = [
        one
        for part in parts
        for one in zip(
            part.skipped_start.tolist(), part.skipped_end.tolist(), part.skipped_reason, strict=True
        )
    ]
    return rows, skipped, sum(part.unfinished for part in parts), framer


def pieces(
    data: bytes,
    sizes: Sequence[int],
    holes: Sequence[tuple[int, int]] = (),
    *,
    is_start: bool = True,
) -> list[StreamChunk]:
    """``data`` as chunks of ``sizes``, each from a packet of its own; bytes in ``holes`` are
    missing.
    """
    ends = np.cumsum(sizes).tolist()
    cuts = [0, *[end for end in ends if end < len(data)], len(data)]
    blank = bytearray(data)
    for start, end in holes:
        blank[start:end] = bytes(end - start)
    found = []
    for number, (start, end) in enumerate(pairwise(cuts)):
        inside = tuple((max(a, start), min(b, end)) for a, b in holes if a < end and b > start)
        found.append(
            chunk(
                bytes(blank[start:end]),
                offset=start,
                packet=number,
                holes=inside,
                is_start=is_start and number == 0,
                is_end=end == len(data),
            )
        )
    return found


STREAM = [
    message(opcode=0x0A),
    *mutations(12),
    message(magic=0x81, opcode=0x53, value=bytes(16)),
    message(magic=0x82, opcode=1, extras=bytes(4)),
]
DATA = b"".join(STREAM)


def test_every_message_comes_out_once() -> None:
    rows, skipped, unfinished, _ = framed([chunk(DATA, is_start=True, is_end=True)])
    assert [row.data for row in rows] == STREAM
    assert [row.stream_offset for row in rows] == np.cumsum([0, *map(len, STREAM[:-1])]).tolist()
    assert (skipped, unfinished) == ([], 0)


def test_byte_by_byte_gives_the_same_messages_with_their_packets() -> None:
    rows, skipped, unfinished, _ = framed(pieces(DATA, [1] * len(DATA)))
    assert [row.data for row in rows] == STREAM
    for row in rows:
        end = row.stream_offset + len(row.data)
        assert (row.frame, row.last_frame, row.release) == (row.stream_offset + 1, end, end - 1)
    assert (skipped, unfinished) == ([], 0)


@each("cut", range(1, len(STREAM[1]) + 25, 3))
def test_a_message_over_two_segments_is_one_message(cut: int) -> None:
    rows, _, _, _ = framed(pieces(DATA, [len(STREAM[0]) + cut]))
    assert [row.data for row in rows] == STREAM


@each("cut", range(1, len(STREAM[-1])))
def test_a_message_whose_end_never_comes_is_unfinished(cut: int) -> None:
    rows, skipped, unfinished, framer = framed([chunk(DATA[:-cut], is_start=True, is_end=True)])
    assert [row.data for row in rows] == STREAM[:-1]
    assert (skipped, unfinished) == ([], len(STREAM[-1]) - cut)
    assert framer.account.unfinished == unfinished


def test_a_hole_in_a_body_keeps_sync() -> None:
    at = len(STREAM[0])
    hole = (at + 30, at + 40)
    rows, skipped, _, _ = framed(pieces(DATA, [7] * 500, [hole]))
    assert len(rows) == len(STREAM)
    assert skipped == []
    assert [row.missing for row in rows if row.missing] == [((30, 40),)] or sum(
        end - start for start, end in rows[1].missing
    ) == 10


def test_a_hole_over_the_end_of_a_header_keeps_sync_without_a_row() -> None:
    at = len(STREAM[0])
    rows, skipped, _, _ = framed(
        [
            chunk(
                DATA[: at + 12] + bytes(8) + DATA[at + 20 :],
                holes=((at + 12, at + 20),),
                is_start=True,
                is_end=True,
            )
        ]
    )
    assert [row.data for row in rows] == [STREAM[0], *STREAM[2:]]
    assert skipped == [(at, at + len(STREAM[1]), "header-cut")]
    assert not any(row.heuristic for row in rows)


@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_hole_over_a_length_loses_that_message_only(place: int) -> None:
    at = len(STREAM[0]) + len(STREAM[1])
    hole = (at + place, at + place + 1)
    blank = DATA[: hole[0]] + b"\0" + DATA[hole[1] :]
    rows, skipped, _, _ = framed([chunk(blank, holes=(hole,), is_start=True, is_end=True)])
    assert [row.data for row in rows] == [*STREAM[:2], *STREAM[3:]]
    assert skipped == [(at, at + len(STREAM[2]), "hole")]


def test_a_byte_that_begins_no_message_is_skipped_with_what_follows() -> None:
    at = len(STREAM[0])
    rows, skipped, _, _ = framed(
        [chunk(DATA[:at] + b"garbage" * 9 + DATA[at:], is_start=True, is_end=True)]
    )
    assert [row.data for row in rows] == STREAM
    assert skipped == [(at, at + 63, "bad-magic")]


def test_an_absurd_body_is_no_message() -> None:
    wrong = bytes.fromhex("8057000000000000ffffffff") + bytes(12)
    rows, skipped, _, _ = framed([chunk(STREAM[0] + wrong + DATA, is_start=True, is_end=True)])
    assert [row.data for row in rows] == [STREAM[0], *STREAM]
    assert skipped == [(24, 48, "absurd-body")]


def test_a_hole_that_was_stepped_over_completes_the_message_it_ends() -> None:
    first = message(extras=bytes(31), value=bytes(5000))
    far = 100 << 20
    chunks = [
        chunk(first[:100], is_start=True),
        chunk(DATA, offset=far, packet=5, holes=((100, far),), is_end=True),
    ]
    rows, skipped, _, framer = framed(chunks)
    assert [row.missing for row in rows[:2]] == [((100, len(first)),), ()]
    assert [row.data for row in rows[1:]] == STREAM
    assert skipped == [(len(first), far, "hole")]
    assert framer.account.messages == 100 + len(DATA)


@pytest.mark.parametrize("start", [0, 5, 12, 23, 24, 40])
@pytest.mark.parametrize("length", [3, 30, 10_000])
@pytest.mark.parametrize("is_start", [False, True])
def test_a_hole_that_was_stepped_over_gives_what_a_filled_one_does(
    start: int, length: int, is_start: bool
) -> None:
    first = message(extras=bytes(31), value=bytes(3000))
    start += 0 if is_start else len(first)
    data = first + first + bytes(length) + DATA
    hole = (start, start + length)
    before = chunk(data[:start], is_start=is_start)
    filled = chunk(
        bytes(length) + data[hole[1] :],
        offset=start,
        packet=5,
        sizes=(length,),
        holes=(hole,),
        is_end=True,
    )
    stepped = replace(filled, offset=hole[1], data=filled.data[length:])
    filled.segments.packet.frame[0] = 0
    results = [framed([before, after]) for after in (filled, stepped)]
    assert results[0][:3] == results[1][:3]
    assert results[0][3].account == results[1][3].account


def test_a_large_message_byte_by_byte_does_not_keep_every_segment() -> None:
    large = message(extras=bytes(31), value=bytes(20_000))
    framer = Framer()
    for part in pieces(large + DATA, [1] * 15_000)[:15_000]:
        framer.feed(part)
    assert framer._held is not None
    assert len(framer._held.segments.packet.number) <= 300


def test_nothing_is_handed_out_after_the_end() -> None:
    framer = Framer()
    framer.feed(chunk(DATA, is_start=True, is_end=True))
    assert framer.feed(chunk(DATA, offset=len(DATA))) is None
    assert framer.finish() is None


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[int], list[int], list[tuple[int, int]]]:
    parts = draw(st.lists(st.one_of(st.sampled_from(STREAM), st.binary(max_size=60)), max_size=12))
    data = b"".join(parts)
    sizes = st.lists(st.integers(1, 200), max_size=40)
    holes: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(holes[-1][1] + 1 if holes else 0, max(len(data), 1) + 60))
        end = start + draw(st.integers(1, 60))
        if end <= len(data):
            holes.append((start, end))
    return data, draw(sizes), draw(sizes), holes


@given(streams(), st.booleans())
def test_any_bytes_in_any_pieces_add_up(
    stream: tuple[bytes, list[int], list[int], list[tuple[int, int]]], is_start: bool
) -> None:
    data, one, _, holes = stream
    if not data:
        return
    rows, skipped, unfinished, framer = framed(pieces(data, one, holes, is_start=is_start))
    missing = sum(end - start for start, end in holes)
    account = framer.account
    assert account.messages + account.skipped + account.unfinished == len(data) - missing
    assert unfinished == account.unfinished
    covered = [(row.stream_offset, row.stream_offset + len(row.data)) for row in rows] + [
        (start, end) for start, end, _ in skipped
    ]
    covered.sort()
    assert all(a[1] <= b[0] for a, b in pairwise(covered))
    assert sum(end - start for start, end in covered) + unfinished <= len(data)


@given(streams(), st.booleans())
def test_chunks_change_nothing(
    stream: tuple[bytes, list[int], list[int], list[tuple[int, int]]], is_start: bool
) -> None:
    data, one, _, holes = stream
    if not data:
        return
    small = pieces(data, one, holes, is_start=is_start)
    whole = builders.glued(small)
    results = [framed(chunks)[:3] for chunks in (small, [whole])]
    for rows, _, _ in results:
        assert [row.release for row in rows] == sorted(row.release for row in rows)
    assert [bare(row) for row in results[0][0]] == [bare(row) for row in results[1][0]]
    assert results[0][1:] == results[1][1:]


def bare(row: Row) -> tuple[object, ...]:
    """A row with adjacent missing ranges joined: where a hole was divided between chunks is no
    property of the message.
    """
    joined: list[tuple[int, int]] = []
    for start, end in row.missing:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return (
        row.stream_offset,
        row.data,
        row.frame,
        row.last_frame,
        row.release,
        row.heuristic,
        tuple(joined),
    )


def test_zeros_for_long_holes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "_FILL_FREE", 10_000)
    monkeypatch.setattr(framing, "_FILL_RATIO", 0)
    first = message(extras=bytes(31), key=b"k", value=bytes(3000))
    chunks = [chunk(first[:100], is_start=True)]
    for number in range(1, 6):
        at = 20_000 * number
        chunks.append(chunk(first[:100], offset=at, packet=number, holes=((at - 19_900, at),)))
    rows, _, _, framer = framed(chunks)
    assert [row.stream_offset for row in rows] == [0, 20_000, 40_000]
    assert framer.account.messages + framer.account.skipped + framer.account.unfinished == 600
