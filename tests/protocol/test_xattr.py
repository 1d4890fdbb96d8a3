"""Xattr sections in both directions, and the place of each kind of damage."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.xattr import decode_xattrs
from tests.encode import encode_xattrs

texts = st.binary(max_size=30).map(lambda data: data.replace(b"\0", b"0"))
pairs = st.dictionaries(texts.filter(bool), texts, max_size=5)


@given(pairs, st.binary(max_size=30))
def test_all_pairs_come_back_and_the_body_follows(xattrs: dict[bytes, bytes], body: bytes) -> None:
    section = decode_xattrs(encode_xattrs(xattrs.items()) + body)
    assert ({pair.key: pair.value for pair in section.pairs}, section.problem) == (xattrs, None)


@given(pairs, st.binary(max_size=30))
def test_the_body_begins_after_the_section(xattrs: dict[bytes, bytes], body: bytes) -> None:
    value = encode_xattrs(xattrs.items()) + body
    assert value[decode_xattrs(value).body_offset :] == body


@given(pairs)
def test_the_pairs_tile_the_section(xattrs: dict[bytes, bytes]) -> None:
    section = decode_xattrs(encode_xattrs(xattrs.items()))
    ends = [4, *(pair.offset + pair.size for pair in section.pairs)]
    assert [*(pair.offset for pair in section.pairs), section.body_offset] == ends


@given(st.binary(max_size=80))
def test_any_bytes_give_pairs_within_the_value_and_a_place_for_the_damage(value: bytes) -> None:
    section = decode_xattrs(value)
    assert all(
        pair.offset + pair.size <= section.body_offset <= len(value) for pair in section.pairs
    )
    assert 0 <= section.problem_offset <= len(value)


def test_every_cut_of_a_section_is_named() -> None:
    value = encode_xattrs([(b"_sync", b"{}"), (b"meta", b'"x"')])
    assert all(decode_xattrs(value[:cut]).problem for cut in range(len(value)))


def _pair(text: bytes) -> bytes:
    return pack(">I", len(text)) + text


@pytest.mark.parametrize(
    ("section", "problem", "offset"),
    [
        (b"\0\0", "2 bytes do not hold a section length", 0),
        (pack(">I", 0xFFFF_FFFF), "section of 4294967295 bytes exceeds the 0 that follow", 4),
        (pack(">I", 9) + b"abc", "section of 9 bytes exceeds the 3 that follow", 4),
        (_pair(b"\0\0"), "2 bytes are left where a pair length needs 4", 4),
        (
            _pair(pack(">I", 0xFFFF_FFFF) + b"k\0v\0"),
            "pair of 4294967295 bytes exceeds the 4 that are left",
            4,
        ),
        (_pair(_pair(b"k\0v")), "pair is not key, NUL, value, NUL", 4),
        (_pair(_pair(b"\0v\0")), "pair is not key, NUL, value, NUL", 4),
        (_pair(_pair(b"k\0v\0x\0")), "pair is not key, NUL, value, NUL", 4),
        (_pair(_pair(b"")), "pair is not key, NUL, value, NUL", 4),
        (_pair(_pair(b"k\x001\0") * 2), "key b'k' occurs twice", 20),
    ],
)
def test_damage_is_named_with_its_place(section: bytes, problem: str, offset: int) -> None:
    found = decode_xattrs(section)
    assert (found.problem, found.problem_offset) == (problem, offset)


def test_what_precedes_the_damage_is_kept() -> None:
    section = _pair(_pair(b"a\x001\0") + b"\0\0")
    assert [pair.key for pair in decode_xattrs(section).pairs] == [b"a"]


def test_an_empty_section_has_no_pairs_and_no_problem() -> None:
    section = decode_xattrs(b"\0\0\0\0body")
    assert (section.pairs, section.body_offset, section.problem) == ((), 4, None)


def test_a_key_longer_than_the_documented_15_bytes_is_no_problem() -> None:
    assert decode_xattrs(encode_xattrs([(b"_a_long_system_xattr", b"1")])).problem is None
