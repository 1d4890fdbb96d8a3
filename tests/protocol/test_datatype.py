"""Names of the datatype byte."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.datatype import DATATYPE_NAMES, UNDEFINED


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (0, ()),
        (1, ("json",)),
        (2, ("snappy",)),
        (4, ("xattr",)),
        (7, ("json", "snappy", "xattr")),
        (0x88, ("0x08", "0x80")),
    ],
)
def test_a_datatype_is_the_names_of_its_bits(value: int, names: tuple[str, ...]) -> None:
    assert DATATYPE_NAMES[value] == names


def test_every_byte_has_names() -> None:
    assert len(DATATYPE_NAMES) == 256


def test_the_bits_from_0x08_on_are_undefined() -> None:
    assert UNDEFINED == 0xFF & ~7
