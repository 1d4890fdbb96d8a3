"""Snappy blocks: every element of the format, round trips, and bombs."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.header import MAX_BODY
from dcpinspect.protocol.snappy import SnappyError, decode_snappy, inflated_size
from tests.encode import encode_leb128, encode_snappy

CASES = (
    ("empty", "00", b""),
    ("literal", "03 08 616263", b"abc"),
    ("literal, length in one byte", "40 f0 3f" + "61" * 64, b"a" * 64),
    ("literal, length in two bytes", "40 f4 3f00" + "61" * 64, b"a" * 64),
    ("literal, length in three bytes", "40 f8 3f0000" + "61" * 64, b"a" * 64),
    ("literal, length in four bytes", "40 fc 3f000000" + "61" * 64, b"a" * 64),
    ("copy with one byte of offset, over its own output", "0c 0c 61626364 11 04", b"abcdabcdabcd"),
    ("copy with two bytes of offset", "0c 0c 61626364 1e 0400", b"abcdabcdabcd"),
    ("copy with four bytes of offset", "0c 0c 61626364 1f 04000000", b"abcdabcdabcd"),
)


@pytest.mark.parametrize(("_name", "block", "expected"), CASES, ids=[case[0] for case in CASES])
def test_every_element_of_the_format_inflates(_name: str, block: str, expected: bytes) -> None:
    assert decode_snappy(bytes.fromhex(block)) == expected


@pytest.mark.parametrize(("_name", "block", "_expected"), CASES, ids=[case[0] for case in CASES])
def test_a_block_cut_anywhere_is_refused(_name: str, block: str, _expected: bytes) -> None:
    raw = bytes.fromhex(block)
    for cut in range(len(raw)):
        with pytest.raises(SnappyError):
            decode_snappy(raw[:cut])


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("", "has no length preamble"),
        ("ffffffffff", "has no length preamble"),
        ("ffffffff0f00", "claims 4294967295 bytes, more than the 30 MiB a document may have"),
        ("8080800a00", "claims 20971520 bytes, more than a block of 5 can hold"),
        ("0008616263", "is not a snappy block"),
        ("0408616263", "is not a snappy block|inflates to 3 bytes where 4 were declared"),
        ("04 08 616263 1104", "is not a snappy block"),
        ("08 08 616263 0100", "is not a snappy block"),
    ],
)
def test_a_block_that_does_not_add_up_says_why(block: str, reason: str) -> None:
    with pytest.raises(SnappyError, match=reason):
        decode_snappy(bytes.fromhex(block))


def test_a_bomb_takes_no_memory() -> None:
    bomb = encode_leb128(MAX_BODY) + b"\xfe\x01\x00" * 1000
    tracemalloc.start()
    with pytest.raises(SnappyError, match="more than a block of 3004 can hold"):
        decode_snappy(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_the_best_ratio_of_the_format_is_accepted() -> None:
    data = b"a" * 100_000
    assert decode_snappy(encode_snappy(data)) == data


@given(st.binary(max_size=5000) | st.binary(max_size=40).map(lambda data: data * 300))
def test_all_bytes_come_back(data: bytes) -> None:
    block = encode_snappy(data)
    assert (decode_snappy(block), inflated_size(block)) == (data, len(data))


@given(st.binary(max_size=200))
def test_any_bytes_inflate_to_the_declared_length_or_are_refused(data: bytes) -> None:
    try:
        inflated = decode_snappy(data)
    except SnappyError:
        return
    assert len(inflated) == inflated_size(data)
