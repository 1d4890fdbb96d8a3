"""JSON by its grammar alone: as a parser has it, without the parser's limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.json_grammar import is_json_text

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3)
    ),
    max_leaves=20,
)


def loads(text: bytes) -> bool:
    """Whether the library's parser, told to refuse what it takes beyond the grammar, takes it."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text.decode(), parse_constant=refuse, parse_int=str)
    except ValueError:
        return False
    return True


@given(JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_whatever_is_written_as_json_is_json(
    value: object, indent: int | str | None, ascii_only: bool
) -> None:
    assert is_json_text(
        json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    )


@given(
    st.text(alphabet='{}[]:,"\\u0d8e+-.1tfn ax\n\x00é', max_size=12).map(str.encode)
    | st.binary(max_size=6)
)
def test_it_says_what_a_parser_says(text: bytes) -> None:
    assert is_json_text(text) == loads(text)


@given(JSON, st.data())
def test_a_damaged_text_is_what_a_parser_says(value: object, data: st.DataObject) -> None:
    text = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 1))] = data.draw(
        st.sampled_from([b"", b",", b"}", b"]", b'"', b"0", b"-", b"[", b"{"])
    )
    assert is_json_text(bytes(text)) == loads(bytes(text))


BEYOND = [
    b"1e999999",
    b"-1E-999999",
    b"9" * 400,
    b"0." + b"1" * 50_000,
    b"[" * 2_000 + b"]" * 2_000,
    b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    b'"\\ud800"',
    b'"' + b"\\n" * 100_000 + b'"',
]


@pytest.mark.parametrize("text", BEYOND, ids=lambda text: text[:12].decode())
def test_what_exceeds_the_limits_of_parsers_is_json(text: bytes) -> None:
    assert is_json_text(text)
    assert is_json_text(b'[{"a": ' + text + b"}, 1]")


@pytest.mark.parametrize("text", BEYOND, ids=lambda text: text[:12].decode())
def test_and_one_letter_more_or_less_is_not(text: bytes) -> None:
    assert not is_json_text(text + b"]")
    assert not is_json_text(b"[" + text)
    assert not is_json_text(b'"\xed\xa0\x80"')


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"01",
        b"1.",
        b"+1",
        b"NaN",
        b"-Infinity",
        b"[1,]",
        b"[}",
        b'{"a"}',
        b"\xef\xbb\xbf1",
        b"tru",
        b"1 2",
    ],
)
def test_what_is_none(text: bytes) -> None:
    assert not is_json_text(text)
