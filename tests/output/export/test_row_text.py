"""The writer kernel's numbers and times, against Python's own."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.kernels.kernel import Kernel
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.export.json import rfc3339
from dcpinspect.protocol.meanings import cas_time
from dcpinspect.text import escape, shown_characters
from tests.output.export.forms import only

SHOWN = shown_characters(0x20000)


def written(
    operation: int,
    first: int,
    second: int = 0,
    third: int = 0,
    *,
    column: int = 0,
    data: bytes = b"",
    compiled: bool = True,
    limit: int = rt.UNLIMITED,
) -> bytes:
    """What one operation writes."""
    writer = rt.RowWriter()
    builder = writer.builder()
    builder.add(operation, first, second, third)
    program = np.array([writer.add(builder)])
    source = np.frombuffer(data or b"\0", np.uint8)
    with only(Kernel.compiled if compiled else Kernel.interpreted):
        text, ends = writer.write(
            program,
            np.array([[column], [len(data)]]),
            (source, source),
            base=np.zeros(1, np.int64),
            room=builder.size + 10 * len(data) + 8,
            shows=(SHOWN, limit),
        )
    return b"REFUSED" if ends[0] == rt.REFUSED else text.tobytes()


both = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])


@both
@given(number=st.integers(-(2**63) + 1, 2**63 - 1))
def test_columns_are_written_in_decimal(compiled: bool, number: int) -> None:
    assert written(rt.COLUMN, 0, 0, column=number, compiled=compiled) == str(number).encode()


@both
@given(
    number=st.one_of(
        st.integers(0, 2**64 - 1), st.sampled_from([0, 10**9 - 1, 10**9, 2**63, 2**64 - 1])
    )
)
def test_numbers_of_the_wire_are_unsigned(compiled: bool, number: int) -> None:
    assert (
        written(rt.NUMBER, 0, 8, data=number.to_bytes(8, "big"), compiled=compiled)
        == str(number).encode()
    )


@both
@given(time=st.integers(-(2**63), 2**63 - 1))
def test_capture_times_have_nine_digits(compiled: bool, time: int) -> None:
    expected = rfc3339(time)
    assert written(rt.TIME_NS, 0, 0, column=time, compiled=compiled) + b"Z" == expected.encode()


@both
@given(seconds=st.integers(0, 2**32 - 1))
def test_seconds_are_a_date_or_none(compiled: bool, seconds: int) -> None:
    expected = (
        f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC" if seconds else "none"
    )
    assert (
        written(rt.SECONDS, 0, 0, data=seconds.to_bytes(4, "big"), compiled=compiled)
        == expected.encode()
    )


@both
@given(
    cas=st.one_of(
        st.integers(0, 2**64 - 1), st.integers(1_199_999_999 * 10**9, 4_102_444_801 * 10**9)
    )
)
def test_the_time_of_a_cas_is_that_of_the_annotation(compiled: bool, cas: int) -> None:
    expected = cas_time(cas)
    text = "null" if expected is None else f'"{expected}"'
    assert (
        written(rt.CAS_TIME, 0, 0, data=cas.to_bytes(8, "big"), compiled=compiled) == text.encode()
    )


@both
@given(data=st.binary(max_size=30))
def test_digits_are_hexadecimal(compiled: bool, data: bytes) -> None:
    assert written(rt.SPAN_HEX, 0, 0, data=data, compiled=compiled) == data.hex().encode()


SIZES = [
    0,
    1,
    9,
    10,
    999_999_999,
    10**9,
    10**18,
    2**31,
    2**32 - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**63 + 1,
    2**64 - 10**9,
    2**64 - 1,
]


@both
@pytest.mark.parametrize("number", SIZES)
def test_numbers_of_all_sizes_are_written(compiled: bool, number: int) -> None:
    signed = number - 2**64 if number >= 2**63 else number
    assert written(rt.COLUMN, 0, column=signed, compiled=compiled) == str(signed).encode()
    assert written(rt.HEX64, 0, column=signed, compiled=compiled) == f'"0x{number:016x}"'.encode()
    for width in (0, 1, 9, 18):
        assert (
            written(rt.UNSIGNED, 0, width, column=signed, compiled=compiled)
            == f"{number:{width or 1}}".encode()
        )


@both
@given(text=st.text(max_size=12), limit=st.integers(0, 14))
def test_text_is_shown_as_on_a_terminal(compiled: bool, text: str, limit: int) -> None:
    raw, whole = text.encode(errors="ignore"), escape(text.encode(errors="ignore").decode())
    expected = whole if len(whole) <= limit else f"{whole[:limit]}… ({len(raw)} bytes)"
    shown = written(rt.SPAN_SHOWN, 0, data=raw, limit=limit, compiled=compiled)
    assert shown in (expected.encode(), b"REFUSED")
    assert shown != b"REFUSED" or any(ord(letter) >= 0x20000 for letter in text)
