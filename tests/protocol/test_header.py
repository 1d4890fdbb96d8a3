"""The header in both directions, for all six magics."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.header import Header, Magic, decode_header, encode_header, header_fields
from tests.catalogue import each


@pytest.mark.parametrize(
    ("magic", "side", "flex", "server"),
    [
        (0x80, "request", False, False),
        (0x81, "response", False, False),
        (0x08, "request", True, False),
        (0x18, "response", True, False),
        (0x82, "request", False, True),
        (0x83, "response", False, True),
        (0x42, "request", False, False),
    ],
)
def test_the_magic_says_side_framing_and_opcode_table(
    magic: int, side: str, flex: bool, server: bool
) -> None:
    header = decode_header(bytes([magic]) + bytes(23))
    assert (header.side, header.is_flex, header.is_server) == (side, flex, server)


def test_bytes_2_and_3_are_one_key_length_without_flex_framing() -> None:
    header = decode_header(bytes.fromhex("80570203") + bytes(20))
    assert (header.framing_size, header.key_size) == (0, 0x0203)


def test_bytes_2_and_3_are_two_lengths_with_flex_framing() -> None:
    header = decode_header(bytes.fromhex("08570203") + bytes(20))
    assert (header.framing_size, header.key_size) == (2, 3)


def test_a_key_length_is_unsigned() -> None:
    assert decode_header(bytes.fromhex("8057ffff") + bytes(20)).key_size == 65535


def test_the_value_is_what_the_other_sections_leave() -> None:
    assert Header(0x08, 0x57, 3, 5, 31, 0, 0, 44, 0, 0).value_size == 5


def test_contradicting_lengths_leave_a_negative_value() -> None:
    assert Header(0x80, 0x57, 0, 5, 31, 0, 0, 30, 0, 0).value_size == -6


def test_the_opaque_is_read_big_endian() -> None:
    assert decode_header(bytes(12) + bytes.fromhex("deadbeef") + bytes(8)).opaque == 0xDEADBEEF


@given(st.binary(min_size=24, max_size=24))
def test_every_header_comes_back(data: bytes) -> None:
    assert encode_header(decode_header(data)) == data


@each("size", range(24))
def test_fewer_than_24_bytes_are_refused(size: int) -> None:
    with pytest.raises(struct.error):
        decode_header(bytes(size))


@pytest.mark.parametrize("magic", [*Magic, 0x42])
def test_the_rows_of_the_field_table_tile_the_header(magic: int) -> None:
    ends = [0]
    for field in header_fields(magic):
        assert field.offset == ends[-1]
        ends.append(field.offset + field.kind.size)
    assert ends[-1] == 24


@pytest.mark.parametrize(
    ("magic", "name"),
    [(0x80, "vbucket"), (0x08, "vbucket"), (0x82, "vbucket"), (0x81, "status"), (0x18, "status")],
)
def test_bytes_6_and_7_are_a_vbucket_or_a_status(magic: int, name: str) -> None:
    assert next(field.name for field in header_fields(magic) if field.offset == 6) == name
