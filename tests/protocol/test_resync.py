from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.protocol.framing import Framer
from dcpinspect.protocol.resync import (
    ANSWERED,
    TRIAL_BYTES,
    KnownStreams,
    default_legal_extras,
    plausible_headers,
)
from tests import builders
from tests.builders import Row, chunk, message, mutation, mutations
from tests.catalogue import each
from tests.protocol.test_framing import framed, pieces

TAIL = b'n":"rest of a value"}'


def mid_stream(
    data: bytes, sizes: list[int] | None = None
) -> tuple[list[Row], list[tuple[int, int, str]]]:
    rows, skipped, _, _ = framed(pieces(data, sizes or [], is_start=False))
    return rows, skipped


@each("cut", [*range(0, 120, 7), 500, 777])
def test_a_mid_stream_start_finds_the_first_whole_message(cut: int) -> None:
    messages = mutations(20)
    data = b"".join(messages)[cut:]
    starts = np.cumsum([0, *map(len, messages[:-1])]).tolist()
    rows, skipped = mid_stream(data)
    assert [row.data for row in rows] == [
        one for start, one in zip(starts, messages, strict=True) if start >= cut
    ]
    first = min(start for start in starts if start >= cut) - cut
    assert skipped == ([(0, first, "mid-stream")] if first else [])
    assert not any(row.heuristic for row in rows)


def test_nothing_is_released_before_four_headers() -> None:
    messages = mutations(6)
    rows, _ = mid_stream(TAIL + b"".join(messages), [1] * 5000)
    fourth = len(TAIL) + sum(map(len, messages[:3])) + 24
    assert [row.release for row in rows[:3]] == [fourth - 1] * 3
    assert rows[4].release > fourth


@pytest.mark.parametrize("count", [1, 2, 3])
def test_at_the_end_the_best_chain_stands_and_is_marked(count: int) -> None:
    messages = mutations(count)
    rows, skipped = mid_stream(TAIL + b"".join(messages))
    assert [row.data for row in rows] == messages
    assert all(row.heuristic for row in rows)
    assert skipped == [(0, len(TAIL), "mid-stream")]


def test_two_headers_of_known_streams_suffice_after_a_hole() -> None:
    before, after = mutations(3), mutations(6)
    data = b"".join(before) + bytes(50) + TAIL + b"".join(after)
    at = len(b"".join(before))
    rows, skipped, _, _ = framed(pieces(data, [1] * len(data), [(at, at + 50)]))
    assert [row.data for row in rows] == [*before, *after]
    second = at + 50 + len(TAIL) + len(after[0]) + 24
    assert rows[3].release == second - 1
    assert skipped == [(at, at + 50 + len(TAIL), "hole")]
    assert not any(row.heuristic for row in rows)


EMBEDDED = b"".join(mutations(8, vbucket=900, opaque=0x77))


def test_a_value_that_is_a_capture_does_not_fool_a_trial() -> None:
    before, after = mutations(3), mutations(6)
    large = mutation(99, value=b"x" * 300 + EMBEDDED)
    data = b"".join(before) + large + b"".join(after)
    at = len(b"".join(before))
    rows, skipped, _, _ = framed(pieces(data, [], [(at, at + 100)]))
    assert [row.data for row in rows] == [*before, *after]
    assert skipped == [(at, at + len(large), "hole")]


def test_a_mid_stream_start_before_such_a_value_reads_it_as_a_value() -> None:
    messages = [mutation(1, value=EMBEDDED + b"padding"), *mutations(5)]
    rows, _ = mid_stream(TAIL + b"".join(messages))
    assert [row.data for row in rows] == messages


def test_whole_messages_between_two_holes_are_read() -> None:
    messages = mutations(12)
    data = b"".join(messages)
    starts = np.cumsum([0, *map(len, messages)]).tolist()
    holes = [(starts[4], starts[4] + 20), (starts[6], starts[6] + 20)]
    rows, _, _, _ = framed(pieces(data, [50] * 100, holes))
    assert [row.data for row in rows] == [one for i, one in enumerate(messages) if i not in (4, 6)]


def test_a_message_longer_than_a_trial_stands_after_256_kib() -> None:
    large = mutation(1, value=b"x" * (TRIAL_BYTES * 2))
    data = TAIL + large + b"".join(mutations(5))
    rows, _ = mid_stream(data, [4096] * 300)
    assert [len(row.data) for row in rows[:2]] == [len(large), len(mutations(1)[0])]
    assert [row.heuristic for row in rows] == [True, *[False] * 5]


def test_a_search_keeps_no_bytes_and_a_trial_no_more_than_its_limit() -> None:
    framer = Framer()
    noise = b"text without any header " * 4000
    framer.feed(chunk(noise))
    assert framer._held is not None
    assert framer._held.size < 24
    large = mutation(1, value=b"x" * (20 << 20))
    for start in range(0, TRIAL_BYTES - 1000, 8192):
        framer.feed(chunk(large[start : start + 8192], offset=len(noise) + start))
    assert framer._held.size <= TRIAL_BYTES


def test_plain_text_and_random_bytes_give_no_message() -> None:
    for data in (
        b"HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nhello\r\n" * 500,
        np.random.default_rng(8).bytes(100_000),
    ):
        rows, skipped = mid_stream(data)
        assert rows == []
        assert skipped == [(0, len(data), "mid-stream")]


@pytest.mark.parametrize(
    "header",
    [
        message(opcode=0x57, extras=bytes(31), key=b"k", datatype=8),
        message(opcode=0x57, extras=bytes(7), key=b"k"),
        message(opcode=0x57, extras=bytes(31), key=b"k", specific=1024),
        message(opcode=0x00),
        message(opcode=0x7E, extras=bytes(4)),
        message(magic=0x81, opcode=0x53, specific=0x7777),
        bytes.fromhex("80570003 1f000000 00000010") + bytes(12),
        bytes.fromhex("8057ffff 1f000000 0001ffff") + bytes(12),
    ],
)
def test_implausible_headers_are_not_believed(header: bytes) -> None:
    at, _, _ = plausible_headers(np.frombuffer(header + bytes(60), np.uint8), default_legal_extras)
    assert at.tolist() == []


@pytest.mark.parametrize(
    "header",
    [
        mutation(),
        message(opcode=0x5C),
        message(magic=0x81, opcode=0x57, specific=0x23),
        message(magic=0x82, opcode=0x01, extras=bytes(16)),
        bytes.fromhex("08570303 1f010001 00000025") + bytes(49),
        bytes.fromhex("08580003 15000001 0000001b") + bytes(39),
    ],
)
def test_plausible_headers_are_believed(header: bytes) -> None:
    at, length, _ = plausible_headers(
        np.frombuffer(b"x" * 5 + header, np.uint8), default_legal_extras
    )
    assert (at.tolist(), length.tolist()) == ([5], [len(header)])


def test_a_stream_is_known_from_the_packet_that_showed_it_on() -> None:
    known = KnownStreams()
    known.learn([5], [10])
    assert [known.has(5, packet) for packet in (9, 10, 11)] == [False, True, True]
    assert not known.has(6, 100)


def test_of_too_many_streams_the_latest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownStreams, "LIMIT", 3)
    known = KnownStreams()
    for key in (1, 2, 3, 1, 4):
        known.learn([key], [key])
    assert [known.has(key, 10) for key in (1, 2, 3, 4)] == [False, True, True, True]


def test_the_servers_direction_knows_what_the_client_asked_for() -> None:
    known = KnownStreams()
    client, server = Framer(known_streams=known), Framer(known_streams=KnownStreams(client=known))
    client.feed(
        chunk(message(opcode=0x53, extras=bytes(48), specific=7, opaque=0x11), is_start=True)
    )
    part = server.feed(chunk(TAIL + b"".join(mutations(3)), packet=5))
    assert part is not None
    assert [row.heuristic for row in builders.rows_of(part)] == [False, False, False]


@pytest.mark.parametrize(("lost", "believed"), [(0, False), (71, False), (72, True)])
def test_unknown_streams_are_believed_where_the_client_may_have_asked_unseen(
    lost: int, believed: bool
) -> None:
    known = KnownStreams()
    client, server = Framer(known_streams=known), Framer(known_streams=KnownStreams(client=known))
    asked = [message(opcode=0x53, extras=bytes(48), specific=7, opaque=0x11)] * 3
    data = asked[0] + bytes(lost) + b"".join(asked[1:])
    client.feed(chunk(data, packet=1, holes=((72, 72 + lost),) if lost else (), is_start=True))
    shown = mutations(2)
    data = b"".join(shown) + bytes(100) + EMBEDDED + bytes(40)
    at, end = len(b"".join(shown)), len(data)
    part = server.feed(
        chunk(data, packet=5, holes=((at, at + 100), (end - 40, end)), is_start=True)
    )
    assert part is not None
    assert len(part.start) == 2 + 8 * believed


def test_a_chain_that_was_given_up_is_not_waited_for() -> None:
    before, after = mutations(3), mutations(6)
    strange = mutation(1, vbucket=900, opaque=0x77, value=bytes(TRIAL_BYTES))
    at = len(b"".join(before))
    rows, _, _, _ = framed(
        pieces(b"".join([*before, bytes(50), strange, *after]), [], [(at, at + 50)])
    )
    assert [row.data for row in rows] == [*before, *after]


def test_the_packet_that_showed_the_hole_releases_what_stood_before_it() -> None:
    """Also when another hole, which a later packet decided, touches it."""
    found = mutations(2)
    data = TAIL + b"".join(found) + bytes(100)
    at = len(data) - 100
    whole = chunk(
        data + b"".join(mutations(5)),
        sizes=(at, 50, 50),
        holes=((at, at + 50), (at + 50, at + 100)),
    )
    rows = builders.rows_of(part) if (part := Framer().feed(whole)) else []
    assert [(row.data, row.release, row.heuristic) for row in rows[:2]] == [
        (one, 1, True) for one in found
    ]


def test_a_message_alone_that_begins_where_a_hole_ends_is_read() -> None:
    before, alone, after = mutations(3), message(magic=0x81, opcode=0x52), mutations(6)
    at = len(b"".join(before))
    data = b"".join([*before, bytes(50), alone, after[0]]) + b"".join(after[1:])
    end = at + 50 + len(alone)
    rows, _, _, _ = framed(pieces(data, [], [(at, at + 50), (end + 1, end + 20)]))
    assert [row.data for row in rows] == [*before, alone, *after[1:]]


ANSWER = message(magic=0x81, opcode=0x53, opaque=0x77)
"""To a request for ``EMBEDDED``'s stream."""
OTHERS = mutations(5, vbucket=900, opaque=0x77)


def behind_a_hole(
    before: list[bytes], behind: list[bytes], *, lost: int = 72
) -> tuple[list[bytes], list[bytes]]:
    """(messages found behind it, those of them that are marked) where the client's side lacks
    ``lost`` bytes from the start on.
    """
    known = KnownStreams()
    client, server = Framer(known_streams=known), Framer(known_streams=KnownStreams(client=known))
    asked = message(opcode=0x53, extras=bytes(48), specific=7, opaque=0x11)
    client.feed(
        chunk(
            asked + bytes(lost) + asked,
            packet=1,
            holes=((72, 72 + lost),) if lost else (),
            is_start=True,
        )
    )
    at = len(b"".join(before))
    whole = chunk(
        b"".join([*before, bytes(50), *behind]),
        packet=5,
        holes=((at, at + 50),),
        is_start=True,
        is_end=True,
    )
    rows = builders.rows_of(part) if (part := server.feed(whole)) else []
    assert [row.data for row in rows[: len(before)]] == before
    found = rows[len(before) :]
    return [row.data for row in found], [row.data for row in found if row.heuristic]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("known", [0, 1, 5])
def test_an_answer_shows_the_stream_of_a_lost_request(count: int, known: int) -> None:
    behind = [*OTHERS[:count], *mutations(known)]
    assert behind_a_hole([*mutations(2), ANSWER], [TAIL, *behind])[0] == behind


def test_a_stream_behind_known_ones_is_believed_in_front_of_them() -> None:
    behind = [*OTHERS[:3], *mutations(4), OTHERS[3]]
    assert behind_a_hole(mutations(2), [TAIL, *behind]) == (behind, [])
    assert behind_a_hole(mutations(2), [TAIL, mutation(vbucket=901), *behind]) == (behind, [])


@pytest.mark.parametrize("lost", [0, 72])
@pytest.mark.parametrize("known", [2, 3, 50])
def test_a_recording_in_a_value_that_runs_into_the_stream_is_not_believed(
    lost: int, known: int
) -> None:
    behind = mutations(known)
    assert behind_a_hole(mutations(2), [EMBEDDED, *behind], lost=lost)[0] == behind
    assert behind_a_hole(mutations(2), [TAIL, EMBEDDED, *behind], lost=lost)[0] == behind


def test_an_answer_shows_the_stream_of_one_vbucket() -> None:
    before, behind = [*mutations(2), ANSWER, mutation(vbucket=3, opaque=0x77)], mutations(5)
    assert behind_a_hole(before, [EMBEDDED, *behind])[0] == behind


def test_an_answer_to_a_request_that_is_there_shows_no_other_stream() -> None:
    known = KnownStreams()
    server = KnownStreams(client=known)
    known.learn([7 << 32 | 0x11], [4])
    server.learn([ANSWERED | 0x11], [3])
    assert [server.has(8 << 32 | 0x11, packet) for packet in (2, 3, 4)] == [False, True, False]


def test_known_streams_are_read_up_to_where_they_break() -> None:
    """Also where strangers in front of them kept the trial from ending."""
    found, marked = behind_a_hole(mutations(2), [*OTHERS, *mutations(4), b"not a message" * 30])
    assert (found, marked) == (mutations(4), [])


def looks_longer(seqno: int) -> bytes:
    """Its seqno and revision look like an answer of 16 MiB."""
    found = mutation(seqno, vbucket=900, opaque=0x77, value=b"v" * 500)
    assert seqno % 256 == 0x81
    assert 31 in plausible_headers(np.frombuffer(found, np.uint8), default_legal_extras)[0]
    return found


def test_numbers_that_look_like_a_long_answer_do_not_stand_for_want_of_a_better() -> None:
    behind = [
        mutation(i, vbucket=900, opaque=0x77, value=b"v" * 500) for i in range(0x82, 0x82 + 600)
    ]
    assert behind_a_hole(mutations(2), [looks_longer(0x81)[12:], *behind])[0] == behind
    rows, skipped = mid_stream(
        b"".join([*mutations(5), b"garbage", looks_longer(0x81)[12:], *behind])
    )
    assert [row.data for row in rows] == mutations(5) + behind
    assert [why for _, _, why in skipped] == ["bad-magic"]


def test_numbers_that_look_like_a_long_answer_keep_no_known_ones_waiting() -> None:
    behind = mutations(5)
    assert behind_a_hole(mutations(2), [looks_longer(0x81)[12:], *behind, b"garbage" * 20]) == (
        behind,
        [],
    )


def test_doubt_about_what_was_asked_ends_where_nothing_was() -> None:
    known = KnownStreams()
    server = KnownStreams(client=known)
    known.begin(1)
    known.doubt(5)
    known.no_doubt(9)
    known.doubt(8)  # it may begin before the packet that ended the one before
    known.no_doubt(12)
    assert [server.has_all(packet) for packet in (0, 1, 4, 5, 9, 11, 12, 20)] == [
        False,
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    known.doubt(15)
    known.doubt(17)
    known.no_doubt(18)
    assert [server.has_all(packet) for packet in (14, 15, 18, 30)] == [True, False, False, False]
