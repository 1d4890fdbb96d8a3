"""FlatBuffer tables of system events in both directions, with offsets that point anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpinspect.protocol.fields import Slot
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table, encode_table

SLOTS = (
    Slot(0, "uid", "u64", "u64"),
    Slot(1, "scope", "u32", "u32"),
    Slot(2, "valid", "bool", "bool"),
    Slot(3, "name", "string", "text"),
    Slot(4, "late", "u64", "with a default", default=7),
)
VALUES: dict[str, int | bool | str] = {
    "uid": 1 << 60,
    "scope": 9,
    "valid": True,
    "name": "héllo",
    "late": 3,
}

values = st.fixed_dictionaries(
    {},
    optional={
        "uid": st.integers(0, 2**64 - 1),
        "scope": st.integers(0, 2**32 - 1),
        "valid": st.booleans(),
        "name": st.text(st.characters(codec="utf-8"), max_size=20),
        "late": st.integers(0, 2**64 - 1),
    },
)


def read(data: bytes) -> dict[str, object]:
    return {slot.name: value for slot, value, _offset, _size in decode_table(data, SLOTS)}


@pytest.mark.slow
@given(values)
def test_all_tables_come_back_with_defaults_for_what_is_absent(
    table: dict[str, int | bool | str],
) -> None:
    assert (
        read(encode_table(SLOTS, table))
        == {"uid": 0, "scope": 0, "valid": False, "name": "", "late": 7} | table
    )


def test_a_table_of_the_official_layout_is_read() -> None:
    # Root offset 12; vtable of 8 bytes at 4: table of 16 bytes, slot 0 at 4, slot 1 at 12; table at
    # 12.
    data = bytes.fromhex("0c000000 0800 1000 0400 0c00 08000000 0200000000000000 09000000")
    assert read(data) == {"uid": 2, "scope": 9, "valid": False, "name": "", "late": 7}


def test_a_field_stands_where_its_bytes_are() -> None:
    data = encode_table(SLOTS, VALUES)
    places = {
        slot.name: data[offset : offset + size]
        for slot, _value, offset, size in decode_table(data, SLOTS)
    }
    assert (places["uid"], places["name"]) == ((1 << 60).to_bytes(8, "little"), "héllo".encode())


def test_an_absent_field_has_no_place() -> None:
    assert {
        (offset, size)
        for _slot, _value, offset, size in decode_table(encode_table(SLOTS, {}), SLOTS)
    } == {(0, 0)}


def test_a_cut_table_is_refused_or_ends_in_padding() -> None:
    data = encode_table(SLOTS, VALUES)
    readable = 0
    for cut in range(len(data)):
        try:
            assert read(data[:cut]) == VALUES
        except FlatBufferError:
            continue
        readable += 1
    assert readable < 4


@settings(max_examples=300)
@given(st.integers(0, 60), st.binary(min_size=1, max_size=4))
def test_offsets_that_point_anywhere_are_refused_or_read_within_the_value(
    at: int, number: bytes
) -> None:
    data = bytearray(encode_table(SLOTS, VALUES))
    data[at : at + len(number)] = number
    try:
        fields = decode_table(bytes(data), SLOTS)
    except FlatBufferError:
        return
    assert all(offset >= 0 and offset + size <= len(data) for _slot, _value, offset, size in fields)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        fields = decode_table(data, SLOTS)
    except FlatBufferError:
        return
    assert len(fields) == len(SLOTS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "root offset at byte 0 is outside the 0 bytes of the value"),
        ("ffffffff", "table at byte 4294967295 is outside the 4 bytes of the value"),
        ("04000000 ff000000", "table at byte -251 is outside the 8 bytes of the value"),
        ("04000000 ffffff7f", "table at byte -2147483643 is outside"),
        ("04000000 00000080", "table at byte 2147483652 is outside"),
        ("08000000 0200 0400 04000000", "vtable of 2 bytes at byte 4 does not fit"),
        ("08000000 ffff 0400 04000000", "vtable of 65535 bytes at byte 4 does not fit"),
    ],
)
def test_a_wild_offset_is_named(text: str, reason: str) -> None:
    with pytest.raises(FlatBufferError, match=reason.replace("(", r"\(")):
        decode_table(bytes.fromhex(text), SLOTS)


def test_a_name_that_is_not_utf8_keeps_its_bytes() -> None:
    data = encode_table(SLOTS, {"name": "abc"}).replace(b"abc", b"a\xffc")
    assert read(data)["name"] == b"a\xffc"
