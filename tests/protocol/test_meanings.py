"""Words for values of the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.meanings import cas_time, json_error, stream_id_in


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
