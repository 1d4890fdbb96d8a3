"""The language of layouts: words, bits and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.fields import (
    Bit,
    Field,
    FieldKind,
    Layout,
    RecordList,
    bit_names,
    bits_value,
    fixed_size,
)

BITS = (Bit(0x01, "one", ""), Bit(0x04, "four", ""))


def test_set_bits_are_named_and_unknown_ones_are_numbers() -> None:
    assert bit_names(BITS, 0x25) == ["one", "four", "0x20"]


@given(st.integers(0, 2**32 - 1))
def test_names_of_bits_come_back(value: int) -> None:
    assert bits_value(BITS, bit_names(BITS, value)) == value


def test_a_name_that_is_no_bit_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        bits_value(BITS, ["two"])


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        (Field("a", 0, FieldKind.U8, "", values={1: "active"}), 1, "active"),
        (Field("a", 0, FieldKind.U8, "", values={1: "active"}), 2, None),
        (Field("a", 0, FieldKind.U8, "", values={1: "active"}, words=True), 2, "unknown (2)"),
        (Field("a", 0, FieldKind.U8, "", flags=BITS), 5, "one, four"),
        (Field("a", 0, FieldKind.U8, "", flags=BITS), 0, None),
        (Field("a", 0, FieldKind.U8, "", flags=BITS, values={0: "none"}), 0, "none"),
        (Field("a", 0, FieldKind.U8, ""), 5, None),
    ],
)
def test_a_value_has_the_word_that_its_field_gives(
    field: Field, value: int, word: str | None
) -> None:
    assert field.word(value) == word


@pytest.mark.parametrize(
    ("field", "title"),
    [(Field("a_b", 0, FieldKind.U8, ""), "a b"), (Field("a_b", 0, FieldKind.U8, "", "A/B"), "A/B")],
)
def test_a_title_is_the_label_or_the_name_with_blanks(field: Field, title: str) -> None:
    assert field.title == title


@pytest.mark.parametrize(
    ("items", "size"),
    [
        ((), 0),
        ((Field("a", 0, FieldKind.U16, ""), Field("b", 2, FieldKind.BYTES, "", size=16)), 18),
        ((Field("a", 0, FieldKind.TEXT, ""),), None),
        ((Field("a", 0, FieldKind.TEXT, "", size="length"),), None),
        ((RecordList("a", (Field("b", 0, FieldKind.U16, ""),), ""),), None),
    ],
)
def test_a_section_has_a_size_when_all_its_items_have(
    items: tuple[Field | RecordList, ...], size: int | None
) -> None:
    assert fixed_size(items) == size


@pytest.mark.parametrize(
    ("extras", "fits"), [(b"\0\1", True), (b"\0\2", False), (b"\1", False), (b"\0\1\0", False)]
)
def test_extras_fit_by_size_and_by_the_numbers_a_layout_asks_for(extras: bytes, fits: bool) -> None:
    layout = Layout(
        0, "request", "v1", "", extras=(Field("a", 0, FieldKind.U16, ""),), when=((1, 1, 1),)
    )
    assert layout.fits_extras(extras) is fits


@pytest.mark.parametrize(
    ("required", "size", "fits"),
    [(True, 8, True), (True, 0, False), (False, 0, True), (False, 7, False)],
)
def test_a_value_of_fixed_size_may_be_absent_only_when_not_required(
    required: bool, size: int, fits: bool
) -> None:
    layout = Layout(
        0, "request", "v1", "", value=(Field("a", 0, FieldKind.U64, ""),), value_required=required
    )
    assert layout.fits_value(size) is fits
