"""What the kernel accepts is sound to the library and the parser; what documents usually look like is accepted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpinspect.protocol.document_check import MAX_INFLATED, MAX_XATTRS, are_sound, check_documents
from dcpinspect.protocol.meanings import json_error
from dcpinspect.protocol.snappy import SnappyError, decode_snappy, encode_snappy
from dcpinspect.protocol.xattr import decode_xattrs, encode_xattrs

JSON, SNAPPY, XATTR = 1, 2, 4


def accepted(values: list[bytes], datatypes: list[int], *, is_bodyless: bool = False, compiled: bool = True) -> list[bool]:
    size = np.array([len(value) for value in values], dtype=np.int64)
    found = np.zeros(len(values), np.uint8)
    data = np.frombuffer(b"".join(values) or b" ", np.uint8)
    run = check_documents.compiled if compiled else check_documents.interpreted
    run(data, np.cumsum(size) - size, size, np.array(datatypes, dtype=np.int64), np.empty(4096, np.uint8), int(is_bodyless), found)
    return found.astype(bool).tolist()


def is_sound(value: bytes, datatype: int, *, is_bodyless: bool = False) -> bool:
    """The same by the library, one thing after the other."""
    try:
        content = decode_snappy(value) if datatype & SNAPPY else value
    except SnappyError:
        return False
    if datatype & XATTR and content:
        section = decode_xattrs(content)
        if section.problem is not None:
            return False
        content = content[section.body_offset :]
    return not content or not (is_bodyless or (datatype & JSON and json_error(content) is not None))


both = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
TEXTS = st.sampled_from([b"a", b"_sync", b"", b"k" * 40, b"a\0"])
DOCUMENTS = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"", b"{}", b'{"city":"Z\xc3\xbcrich"}', json.dumps(["order"] * 200).encode(), bytes(3000)])
)


@st.composite
def values(draw: st.DrawFn) -> tuple[bytes, int]:
    """A value as its datatype says, then perhaps edited."""
    datatype = draw(st.integers(0, 7))
    value = draw(DOCUMENTS)
    if datatype & XATTR:
        value = encode_xattrs(draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=3))) + value
    if datatype & SNAPPY:
        value = encode_snappy(value)
    if value and draw(st.booleans()):
        edited = bytearray(value)
        for at in draw(st.lists(st.integers(0, len(value) - 1), max_size=3)):
            edited[at] = draw(st.integers(0, 255))
        value = bytes(edited[: draw(st.integers(0, len(edited)))])
    return value, datatype


@both
@settings(max_examples=300)
@given(given_values=st.lists(values(), min_size=1, max_size=6), is_bodyless=st.booleans())
def test_nothing_is_accepted_that_is_not_sound(compiled: bool, given_values: list[tuple[bytes, int]], is_bodyless: bool) -> None:
    found = accepted([value for value, _ in given_values], [one for _, one in given_values], is_bodyless=is_bodyless, compiled=compiled)
    for (value, datatype), is_accepted in zip(given_values, found, strict=True):
        assert not is_accepted or is_sound(value, datatype, is_bodyless=is_bodyless), (value, datatype)


DOCUMENT = json.dumps({"city": "Zürich", "items": [{"sku": "A-17", "n": 2}] * 30}).encode()
SECTION = encode_xattrs([(b"_sync", b'{"rev":"1-af"}'), (b"_syncs", b"2")])


@both
@pytest.mark.parametrize(
    ("value", "datatype"),
    [
        (DOCUMENT, JSON),
        (encode_snappy(DOCUMENT), JSON | SNAPPY),
        (SECTION + DOCUMENT, JSON | XATTR),
        (encode_snappy(SECTION + DOCUMENT), JSON | XATTR | SNAPPY),
        (encode_snappy(bytes(range(256)) * 9), SNAPPY),
        (SECTION, XATTR),
        (b"\xff", 0),
    ],
)
def test_what_is_usual_is_accepted(compiled: bool, value: bytes, datatype: int) -> None:
    assert accepted([b"x", value, b"{"], [0, datatype, JSON], compiled=compiled) == [True, True, False]
    assert accepted([value], [datatype], is_bodyless=True, compiled=compiled) == [value == SECTION]


@pytest.mark.parametrize(
    ("value", "datatype"),
    [
        (encode_snappy(bytes(5000)), SNAPPY),  # more than there is room for
        (b"\xff\xff\xff\xff\x0f", SNAPPY),
        (b"\x04\x00a\x01\x05", SNAPPY),  # copies from before the start
        (b"\x02\x00a", SNAPPY),  # less than announced
        (encode_xattrs([(f"{number}".encode(), b"1") for number in range(MAX_XATTRS + 1)]), XATTR),
        (encode_xattrs([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]), XATTR),
        (b"\0\0\0\xff", XATTR),
        (b"\0\0", XATTR),
    ],
)
def test_the_rest_is_for_who_can_say_what_is_wrong(value: bytes, datatype: int) -> None:
    assert accepted([value], [datatype]) == [False]


def test_few_documents_are_for_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    columns: list[Any] = [np.zeros(1, np.int64), np.array([len(DOCUMENT)]), np.array([JSON], np.uint8)]
    data = np.frombuffer(DOCUMENT, np.uint8)
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", True)
    assert are_sound(data, *columns, is_bodyless=False) is None
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", False)
    found = are_sound(data, *columns, is_bodyless=False)
    assert found is not None
    assert found.tolist() == [True]
    assert MAX_INFLATED >= 4096
