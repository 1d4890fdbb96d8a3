"""Framing extras in both directions, escapes included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.flex import (
    REQUEST_FRAMES,
    RESPONSE_FRAMES,
    decode_frames,
    duration_us,
    encode_frames,
    frame_spec,
)

frames = st.lists(st.tuples(st.integers(0, 270), st.binary(max_size=270)), max_size=6)

CASES = (
    ("barrier", "00", [(0, b"")]),
    ("durability with timeout", "13011388", [(1, b"\x01\x13\x88")]),
    ("stream-id", "220047", [(2, b"\x00\x47")]),
    ("server duration", "02004e", [(0, b"\x00\x4e")]),
    ("two elements", "2200 4750", [(2, b"\x00\x47"), (5, b"")]),
    ("escaped id", "f1 05 aa", [(20, b"\xaa")]),
    ("escaped length", "4f 00" + "61" * 15, [(4, b"a" * 15)]),
    ("both escaped, 0xFF", "ff 02 05" + "62" * 20, [(17, b"b" * 20)]),
    ("longest", "ff ff ff" + "63" * 270, [(270, b"c" * 270)]),
)


@pytest.mark.parametrize(("_name", "text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_elements_decode(_name: str, text: str, expected: list[tuple[int, bytes]]) -> None:
    raw = bytes.fromhex(text)
    found, used = decode_frames(raw)
    assert ([(frame.id, frame.data) for frame in found], used) == (expected, len(raw))


@pytest.mark.parametrize(("_name", "text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_elements_encode(_name: str, text: str, expected: list[tuple[int, bytes]]) -> None:
    assert encode_frames(expected) == bytes.fromhex(text)


@pytest.mark.parametrize("text", ["22", "2200", "f0", "0f", "ff", "ff00", "ff0000", "01"])
def test_an_element_that_runs_over_the_end_is_left_whole(text: str) -> None:
    assert decode_frames(bytes.fromhex("00" + text)) == (decode_frames(b"\0")[0], 1)


@given(frames)
def test_all_elements_come_back(pairs: list[tuple[int, bytes]]) -> None:
    raw = encode_frames(pairs)
    found, used = decode_frames(raw)
    assert ([(frame.id, frame.data) for frame in found], used) == (pairs, len(raw))


@given(st.binary(max_size=255))
def test_any_bytes_give_elements_that_tile_what_is_used(data: bytes) -> None:
    found, used = decode_frames(data)
    starts = [frame.offset for frame in found]
    ends = [frame.data_offset + len(frame.data) for frame in found]
    assert starts == [0, *ends][: len(starts)]
    assert used == (ends[-1] if ends else 0) <= len(data)


@pytest.mark.parametrize(
    ("encoded", "expected"), [(0, 0.0), (78, 979.974), (1, 0.5), (65535, 120_125_042.1)]
)
def test_a_duration_is_its_1_74th_power_by_two(encoded: int, expected: float) -> None:
    assert duration_us(encoded) == pytest.approx(expected, rel=1e-5)


def test_requests_and_responses_number_their_elements_separately() -> None:
    names = [
        spec.name for side in ("request", "response") if (spec := frame_spec(side, 0)) is not None
    ]
    assert names == ["barrier", "server_duration"]


def test_all_ids_of_the_reference_are_known() -> None:
    assert (sorted(REQUEST_FRAMES), sorted(RESPONSE_FRAMES)) == (
        [0, 1, 2, 3, 4, 5, 6, 7],
        [0, 1, 2, 3],
    )


def test_an_id_that_nobody_described_is_none() -> None:
    assert frame_spec("request", 8) is None


def test_no_stream_id_is_0() -> None:
    spec = frame_spec("request", 2)
    assert spec is not None
    assert spec.fields[0].word(0) == "no stream-id is 0"
