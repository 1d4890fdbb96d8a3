"""What the kernel calls JSON is JSON to a parser; what documents usually look like is recognised."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.json_check import check_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def recognised(texts: list[bytes], *, compiled: bool = True) -> list[bool]:
    size = np.array([len(text) for text in texts], dtype=np.int64)
    found = np.zeros(len(texts), np.uint8)
    data = np.frombuffer(b"".join(texts) or b" ", np.uint8)
    run = check_json.compiled if compiled else check_json.interpreted
    run(data, np.cumsum(size) - size, size, found)
    return found.astype(bool).tolist()


def parses(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


both = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])


@both
@given(
    texts=st.lists(
        st.one_of(st.binary(max_size=20), st.text(alphabet='[]{}",:0123456789-+.eE\\ truefalsn\n', max_size=20).map(str.encode)), max_size=8
    )
)
def test_nothing_is_recognised_that_a_parser_refuses(compiled: bool, texts: list[bytes]) -> None:
    for text, found in zip(texts, recognised(texts, compiled=compiled), strict=True):
        assert not found or parses(text), text


@given(value=JSON, edit=st.tuples(st.integers(0, 200), st.integers(0, 255)), indent=st.sampled_from([None, 1]))
def test_edited_documents_are_recognised_only_when_they_parse(value: object, edit: tuple[int, int], indent: int | None) -> None:
    text = bytearray(json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "surrogatepass"))
    text[edit[0] % len(text)] = edit[1]
    (found,) = recognised([bytes(text)])
    assert not found or parses(bytes(text)), text


@both
@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1,"name":"Z\xc3\xbcrich","tags":["a","b"],"n":-1.5e-7,"o":{"x":null,"y":[]},"t":true,"f":false}',
        b' [1, 2 ,{ } , "\\u00e9\\n\\\\" ]\r\n',
        b'""',
        b"0",
        b"-0.0",
        b"12345678901234567890",
    ],
)
def test_usual_documents_are_recognised(compiled: bool, text: bytes) -> None:
    assert recognised([text], compiled=compiled) == [True]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"[",
        b"[1,]",
        b"{1:2}",
        b'{"a"}',
        b'{"a":1,}',
        b"01",
        b"1.",
        b"1e",
        b"+1",
        b"[1 2]",
        b'"\x01"',
        b'"\\x"',
        b'"\\ud800"',
        b"nul",
        b"[]]",
        b"1 2",
        b'"a',
        b"{",
    ],
)
def test_broken_documents_are_not(text: bytes) -> None:
    assert recognised([text]) == [False]


def test_deep_nesting_is_left_to_the_parser() -> None:
    assert recognised([b"[" * 60 + b"]" * 60, b"[" * 61 + b"]" * 61]) == [True, False]
