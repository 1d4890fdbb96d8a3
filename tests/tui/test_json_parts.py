from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui.json_parts import Part, level, root, string

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


def read(text: bytes, part: Part) -> object:
    """The value of a part, by its parts."""
    if not part.is_container:
        return json.loads(text[part.start : part.end])
    inside = level(text, part, 1000)
    assert not inside.why
    values = [read(text, one) for one in inside.parts]
    if part.kind == "array":
        return values
    whole = json.loads(text[part.start : part.end])
    return dict(zip(whole, values, strict=True))


@given(
    st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=5), VALUES, max_size=4),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_parts_are_what_a_parser_reads(value: object, indent: int | None, is_ascii: bool) -> None:
    text = f" {json.dumps(value, indent=indent, ensure_ascii=is_ascii)} ".encode()
    part = root(text)
    assert part is not None
    assert read(text, part) == value


@given(st.binary(max_size=60))
def test_anything_between_brackets_is_told_without_a_fault(middle: bytes) -> None:
    for text in (b"{" + middle + b"}", b"[" + middle + b"]"):
        part = root(text)
        assert part is not None
        inside = level(text, part, 10)
        assert all(part.start < one.start < one.end <= part.end for one in inside.parts)


@pytest.mark.parametrize(
    ("text", "count", "why"),
    [
        (b"[" * 1_000_000 + b"]" * 1_000_000, 1, ""),
        (b"[" + b"[]," * 500_000 + b"[]]", 5, "more"),
        (b"[[" + b"[]," * 1_000_000 + b"[]],2]", 1, "too much to look through behind this"),
        (b'{"a":"' + b'x"' * 500_000 + b"}", 1, "no JSON from byte 8 on"),
        (b"[" + b"," * 1_000_000 + b"]", 0, "no JSON from byte 1 on"),
    ],
    ids=["deep", "wide", "many brackets", "quotes", "commas"],
)
def test_hostile_text_is_bounded(text: bytes, count: int, why: str) -> None:
    part = root(text)
    assert part is not None
    inside = level(text, part, 5)
    assert (len(inside.parts), inside.why) == (count, why)


@pytest.mark.parametrize("text", [b"", b"{", b"{]", b"7", b'"text"', b"{} x"])
def test_only_objects_and_arrays_have_parts(text: bytes) -> None:
    assert root(text) is None


def test_strings_read_as_they_are_and_steer_nothing() -> None:
    assert string(b'"M\\u00fcnchen \\u001b[31m"') == '"München \\x1b[31m"'
    assert string(b'"\\x"') == '"\\\\x"'
