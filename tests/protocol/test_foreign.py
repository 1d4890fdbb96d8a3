from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.foreign import MAX_LOOKED_AT, MEMCACHED_TEXT, TLS, Recogniser
from dcpinspect.protocol.framed import Framed
from dcpinspect.protocol.framing import Framer
from tests import builders


def record(kind: int, body: bytes, version: int = 0x0303) -> bytes:
    return struct.pack(">BHH", kind, version, len(body)) + body


RNG = random.Random(3)
HELLO = record(0x16, b"\x01" + RNG.randbytes(300), 0x0301)
APPLICATION = b"".join(
    record(0x17, RNG.randbytes(size)) for size in (1000, 16_401, 40, 16_401, 900, 120) * 3
)
TLS_CLIENT = HELLO + record(0x14, b"\x01") + APPLICATION
TEXT_CLIENT = (
    b"set k 0 0 5\r\nhello\r\nget k\r\ngets a b c\r\nincr n 4\r\nstats\r\nmg k v t\r\nquit\r\n"
)
TEXT_SERVER = (
    b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\nSTAT pid 4\r\nSTAT uptime 9\r\nEND\r\nERROR\r\n" * 40
)
DCP = b"".join(builders.mutations(200))


def framed(
    data: bytes,
    *,
    is_start: bool,
    sizes: Sequence[int] = (),
    holes: tuple[tuple[int, int], ...] = (),
) -> tuple[Framer, list[Framed]]:
    framer = Framer()
    parts = []
    at = 0
    cuts = [*np.cumsum(sizes).tolist(), len(data)]
    for number, end in enumerate(min(cut, len(data)) for cut in cuts):
        if end > at or number == len(cuts) - 1:
            inside = tuple((max(a, at), min(b, end)) for a, b in holes if a < end and b > at)
            body = bytearray(data[at:end])
            for a, b in inside:
                body[a - at : b - at] = bytes(b - a)
            part = framer.feed(
                builders.chunk(
                    bytes(body),
                    offset=at,
                    packet=number,
                    holes=inside,
                    is_start=is_start and at == 0,
                )
            )
            parts += [part] if part else []
            at = end
    part = framer.finish()
    return framer, [*parts, part] if part else parts


def skipped(parts: Sequence[Framed]) -> list[tuple[int, int, str]]:
    return [
        (int(start), int(end), reason)
        for part in parts
        for start, end, reason in zip(
            part.skipped_start, part.skipped_end, part.skipped_reason, strict=True
        )
    ]


CASES = {
    "TLS from its hello": (TLS_CLIENT, TLS),
    "TLS from its hello alone": (HELLO, TLS),
    "TLS alert": (record(0x15, b"\x02\x28"), TLS),
    "text client": (TEXT_CLIENT, MEMCACHED_TEXT),
    "text server": (TEXT_SERVER, MEMCACHED_TEXT),
    "one command": (b"get key\r\n", MEMCACHED_TEXT),
    "one answer": (b"END\r\n", MEMCACHED_TEXT),
}


@pytest.mark.parametrize("name", CASES)
def test_a_direction_from_its_start_is_named(name: str) -> None:
    data, expected = CASES[name]
    framer, parts = framed(data, is_start=True)
    assert skipped(parts) == [(0, len(data), expected)]
    assert framer.account.reasons == {expected: len(data)}
    assert sum(len(part.start) for part in parts) == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (APPLICATION[700:], TLS),
        (APPLICATION[1005:18_000], TLS),
        (record(0x17, bytes(100)), TLS),
        (record(0x17, bytes(100)) * 2, TLS),
        (TEXT_SERVER[3:], MEMCACHED_TEXT),
        (TEXT_CLIENT[4:], MEMCACHED_TEXT),
        (b"lo\r\nEND\r\nEND\r\n", MEMCACHED_TEXT),
    ],
)
def test_a_direction_from_its_middle_is_named(data: bytes, expected: str) -> None:
    _, parts = framed(data, is_start=False)
    assert skipped(parts) == [(0, len(data), expected)]


def test_after_a_hole_records_are_found_again() -> None:
    hole = (1500, 30_000)
    framer, parts = framed(APPLICATION, is_start=False, sizes=[4000] * 30, holes=(hole,))
    assert skipped(parts) == [(0, len(APPLICATION), TLS)]
    assert framer.account.skipped == len(APPLICATION) - (hole[1] - hole[0])


@pytest.mark.parametrize(
    "data",
    [
        DCP,
        DCP[33:],
        RNG.randbytes(300_000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
        b"SSH-2.0-OpenSSH_9.2\r\n" + RNG.randbytes(5000),
        b"\x16",
    ],
)
@pytest.mark.parametrize("is_start", [True, False])
def test_nothing_else_is_taken_for_these(data: bytes, is_start: bool) -> None:
    framer, _ = framed(data, is_start=is_start)
    assert not framer.account.reasons.keys() & {TLS, MEMCACHED_TEXT}


def test_messages_whose_values_hold_the_other_protocols_stay_messages() -> None:
    data = b"".join(
        builders.mutations(20, value=lambda _: TEXT_SERVER[:600] + APPLICATION[:40_000])
    )
    for start in (0, 24, 900):
        framer, parts = framed(data[start:], is_start=start == 0)
        assert sum(len(part.start) for part in parts) == 20 - (start > 0)
        assert not framer.account.reasons.keys() & {TLS, MEMCACHED_TEXT}


@given(
    st.sampled_from(sorted(CASES)),
    st.integers(0, 400),
    st.lists(st.integers(1, 900), max_size=40),
    st.booleans(),
)
def test_the_cut_into_chunks_changes_nothing(
    name: str, skip: int, sizes: list[int], is_start: bool
) -> None:
    data = (CASES[name][0] * 3)[skip:]
    framer, parts = framed(data, is_start=is_start)
    other, pieces = framed(data, is_start=is_start, sizes=sizes)
    assert skipped(parts) == skipped(pieces)
    assert framer.account == other.account


def test_what_a_direction_begins_with_stays_certain_after_a_hole() -> None:
    recogniser = Recogniser()
    recogniser.add(np.frombuffer(HELLO, np.uint8), 0, ((50, 90),), is_start=True)
    assert recogniser.certain() == (TLS, 6)
    recogniser.add(np.zeros(100, np.uint8), len(HELLO), (), is_start=False)
    assert (recogniser.certain(), recogniser.name()) == ((TLS, 6), TLS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [b"AAAAAAAA", b"get ", b"get k" + b" k" * 40_000, b"\x17\x03\x03\x40\x00", bytes(range(256))],
)
def test_little_is_kept_however_much_comes(data: bytes) -> None:
    recogniser = Recogniser()
    tracemalloc.start()
    try:
        for at in range(0, 2 * MAX_LOOKED_AT, len(data)):
            recogniser.add(np.frombuffer(data, np.uint8), at, (), is_start=False)
        assert tracemalloc.get_traced_memory()[0] < 12_000
    finally:
        tracemalloc.stop()
    assert recogniser.name() is None


@pytest.mark.parametrize("more", [b"", b"END\r\n" * 2])
def test_a_long_line_of_text_counts(more: bytes) -> None:
    line = b"get" + b" some-key" * 2000 + b"\r\n"
    _, parts = framed(line * 3 + more, is_start=False, sizes=[700] * 100)
    assert [reason for _, _, reason in skipped(parts)] == [MEMCACHED_TEXT]
    _, parts = framed((line[:9000] + b"\0" + line[9000:]) * 3, is_start=False, sizes=[700] * 100)
    assert [reason for _, _, reason in skipped(parts)] == ["mid-stream"]
