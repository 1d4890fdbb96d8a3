"""Words for values of the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.meanings import cas_time, is_json_text, json_error, stream_id_in


@pytest.mark.parametrize(
    ("cas", "time"),
    [(0, None), (1 << 40, None), (1_700_000_000_123_000_000, "2023-11-14 22:13:20.122 UTC")],
)
def test_a_cas_is_a_time_when_it_can_be_one(cas: int, time: str | None) -> None:
    assert cas_time(cas) == time


@given(st.integers(0, 2**64 - 1))
def test_every_cas_has_a_meaning_or_none_and_never_an_exception(cas: int) -> None:
    assert cas_time(cas) is None or "UTC" in str(cas_time(cas))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"sid":5,"collections":["8"]}', 5),
        (b'{"sid":65535}', 65535),
        *((text, None) for text in (b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"uid":"1"}')),
        *(
            (text, None)
            for text in (b'{"sid":"x"}', b'{"sid":70000}', b'{"sid":-1}', b'{"sid":true}')
        ),
    ],
)
def test_a_stream_id_is_a_number_of_16_bits(text: bytes, found: int | None) -> None:
    assert stream_id_in(text, "sid") == found


@pytest.mark.parametrize(
    "text", [b"", b"{", b'"\xff"', b"[1,]", b"nan", b'{"\xc3\xa9\xc3\xa9": x}']
)
def test_the_place_of_a_json_error_is_inside_the_text(text: bytes) -> None:
    error = json_error(text)
    assert error is not None
    assert 0 <= error[0] <= len(text)


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


@given(JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_whatever_is_written_as_json_is_json(
    value: object, indent: int | str | None, ascii_only: bool
) -> None:
    assert is_json_text(
        json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    )


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
    assert text[:1] in b"[{" or not is_json_text(text + b"]")
    assert text[:1] in b"[{" or not is_json_text(b"[" + text)
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
