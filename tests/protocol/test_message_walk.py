from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from dcpinspect.protocol import message_walk
from dcpinspect.protocol.message_walk import Walk, WalkState, WalkTables
from dcpinspect.protocol.resync import ANSWERED
from dcpinspect.protocol.stretch import Stretch
from tests import builders
from tests.builders import chunk, message, mutation
from tests.protocol.test_framing import pieces, streams

FIRST, SECOND = mutation(1, vbucket=3, opaque=0x33), mutation(2, vbucket=3, opaque=0x33)
ANSWER = message(magic=0x81, opcode=0x53, opaque=0x44)
DATA = FIRST + SECOND + ANSWER


def memo() -> npt.NDArray[np.int64]:
    return np.full(64, -1, np.int64)


def test_a_run_says_where_messages_are_and_which_streams_are_new() -> None:
    one = Walk(Stretch(chunk(DATA, offset=500)))
    run = one.follow(500, memo())
    assert (run.end, run.why, run.need, run.events) == (500 + len(DATA), "", 24, 2)
    assert run.rows == slice(0, 3)
    assert one.tables.start[:3].tolist() == [0, len(FIRST), len(FIRST + SECOND)]
    assert one.tables.length[:3].tolist() == [len(FIRST), len(SECOND), len(ANSWER)]
    assert one.tables.key[:3].tolist() == [3 << 32 | 0x33, -1, ANSWERED | 0x44]
    assert one.new_streams(run)[0].tolist() == [3 << 32 | 0x33, ANSWERED | 0x44]
    assert (run.streams, run.cut) == (2, 0)


@pytest.mark.parametrize(
    ("magic", "opcode", "status"), [(0x81, 0x53, 0x23), (0x80, 0x53, 0), (0x81, 0x52, 0)]
)
def test_only_an_answer_that_opens_a_stream_shows_one(magic: int, opcode: int, status: int) -> None:
    data = message(magic=magic, opcode=opcode, specific=status)
    walk = Walk(Stretch(chunk(data)))
    keys, _ = walk.new_streams(walk.follow(0, memo()))
    assert not [key for key in keys.tolist() if key >= ANSWERED]


def test_streams_are_new_once() -> None:
    known = memo()
    Walk(Stretch(chunk(FIRST))).follow(0, known)
    assert not Walk(Stretch(chunk(SECOND))).follow(0, known).streams


def test_a_stream_is_shown_by_the_packet_that_completes_the_message() -> None:
    whole = builders.glued(pieces(DATA, [len(FIRST) - 1, 5, 500]))
    one = Walk(Stretch(whole))
    run = one.follow(0, memo())
    assert one.new_streams(run)[1].tolist() == [1, 2]
    assert [one.release_at(at) for at in (0, len(FIRST) - 2, len(FIRST) - 1, len(DATA) - 1)] == [
        0,
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("size", [0, 23, 24, len(FIRST) - 1])
def test_an_incomplete_message_says_how_much_it_needs(size: int) -> None:
    run = Walk(Stretch(chunk(FIRST[:size]))).follow(0, memo())
    assert (run.end, run.why, run.need, run.rows.stop) == (
        0,
        "",
        24 if size < 24 else len(FIRST),
        0,
    )


@pytest.mark.parametrize(
    ("after", "hole", "why"),
    [
        (b"x" * 24, (), "bad-magic"),
        (b"\x80\x57\0\0\0\0\0\0" + b"\xff" * 16, (), "absurd-body"),
        (SECOND, ((len(FIRST) + 11, len(FIRST) + 12),), "hole"),
    ],
)
def test_a_run_ends_where_no_header_can_be_read(
    after: bytes, hole: tuple[tuple[int, int], ...], why: str
) -> None:
    one = Walk(Stretch(chunk(FIRST + after, holes=hole)))
    run = one.follow(0, memo())
    assert (run.end, run.why) == (len(FIRST), why)


def test_a_message_whose_header_is_cut_is_told_and_not_kept() -> None:
    at = len(FIRST)
    one = Walk(Stretch(chunk(DATA, offset=100, holes=((100 + at + 12, 100 + at + 20),))))
    run = one.follow(100, memo())
    assert one.cut_off(run) == [(100 + at, 100 + at + len(SECOND))]
    one.keep(run, 0, -1)
    rows = builders.rows_of(one.framed())
    assert [row.data for row in rows] == [FIRST, ANSWER]
    assert [row.missing for row in rows] == [(), ()]


def test_what_was_kept_is_framed_with_its_marks() -> None:
    one = Walk(Stretch(chunk(FIRST + b"?" + SECOND, packet=4, holes=((30, 35),))))
    assert not one.has_messages
    known = memo()
    one.keep(one.follow(0, known), heuristic_until=1, floor=-1)
    one.keep(one.follow(len(FIRST) + 1, known), heuristic_until=1, floor=90)
    assert one.has_messages
    framed = one.framed()
    assert framed.stream_offset.tolist() == [0, len(FIRST) + 1]
    assert framed.heuristic.tolist() == [True, False]
    assert framed.release.tolist() == [4, 90]
    assert (
        framed.missing_row.tolist(),
        framed.missing_start.tolist(),
        framed.missing_end.tolist(),
    ) == ([0], [30], [35])


@given(streams())
def test_interpreted_and_compiled_agree_on_any_bytes(
    stream: tuple[bytes, list[int], list[int], list[tuple[int, int]]],
) -> None:
    data, one, _, holes = stream
    whole = builders.glued(pieces(data, one, holes)) if data else chunk(b"")
    results = []
    for name in ("interpreted", "compiled"):
        missing = np.array(whole.holes, np.int64).reshape(-1, 2) - whole.offset
        whole.segments.source = whole.segments.offset - whole.offset
        tables = WalkTables.begin(whole.data, whole.segments, missing)
        tables.memo = np.full(4096, -1, np.int64)
        why = getattr(message_walk.frame_messages, name)(whole.data, message_walk.ROLES, tables)
        count = tables.walk.count
        written = [tables.start, tables.length, tables.key]
        written += [tables.least, tables.greatest, tables.last]
        walk = [getattr(tables.walk, field) for field in WalkState.fields]
        results.append(
            (why, walk, tables.memo.tolist(), *(column[:count].tolist() for column in written))
        )
    assert results[0] == results[1]
