"""The writer kernel's numbers and times, against Python's own."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.escape import shown_characters
from dcpinspect.export import row_text as rt
from dcpinspect.export.json import rfc3339
from dcpinspect.protocol.meanings import cas_time

SHOWN = np.frombuffer(shown_characters(0x20000), np.uint8)


def written(
    operation: int, first: int, second: int, *, column: int = 0, data: bytes = b"", compiled: bool = True, limit: int = rt.UNLIMITED
) -> bytes:
    """What one operation writes."""
    texts = rt.Texts()
    builder = rt.ProgramBuilder(texts)
    builder.add(operation, first, second)
    program = builder.finish()
    out, ends = np.zeros(program.size + 10 * len(data) + 8, np.uint8), np.zeros(1, np.int64)
    pool, fragments = texts.arrays()
    numbers = np.array([[column], [len(data)]], dtype=np.int64)
    operations = np.array(program.operations, dtype=np.int64)
    run = rt.write_rows.compiled if compiled else rt.write_rows.interpreted
    source = np.frombuffer(data or b"\0", np.uint8)
    zero = np.zeros(1, np.int64)
    run(zero, np.array([[0, 1]], dtype=np.int64), operations, numbers, source, source, pool, fragments, zero, SHOWN, limit, out, ends)
    return b"REFUSED" if ends[0] == rt.REFUSED else out[: ends[0]].tobytes()


both = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])


@both
@given(number=st.integers(-(2**63) + 1, 2**63 - 1))
def test_columns_are_written_in_decimal(compiled: bool, number: int) -> None:
    assert written(rt.COLUMN, 0, 0, column=number, compiled=compiled) == str(number).encode()


@both
@given(number=st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 10**9 - 1, 10**9, 2**63, 2**64 - 1])))
def test_numbers_of_the_wire_are_unsigned(compiled: bool, number: int) -> None:
    assert written(rt.NUMBER, 0, 8, data=number.to_bytes(8, "big"), compiled=compiled) == str(number).encode()


@both
@given(time=st.integers(-(2**63), 2**63 - 1))
def test_capture_times_have_nine_digits(compiled: bool, time: int) -> None:
    expected = rfc3339(time)
    assert written(rt.TIME_NS, 0, 0, column=time, compiled=compiled) == expected.encode()


@both
@given(seconds=st.integers(0, 2**32 - 1))
def test_seconds_are_a_date_or_none(compiled: bool, seconds: int) -> None:
    expected = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC" if seconds else "none"
    assert written(rt.SECONDS, 0, 0, data=seconds.to_bytes(4, "big"), compiled=compiled) == expected.encode()


@both
@given(cas=st.one_of(st.integers(0, 2**64 - 1), st.integers(1_199_999_999 * 10**9, 4_102_444_801 * 10**9)))
def test_the_time_of_a_cas_is_that_of_the_annotation(compiled: bool, cas: int) -> None:
    expected = cas_time(cas)
    text = "null" if expected is None else f'"{expected}"'
    assert written(rt.CAS_TIME, 0, 0, data=cas.to_bytes(8, "big"), compiled=compiled) == text.encode()


@both
@given(data=st.binary(max_size=30))
def test_digits_are_hexadecimal(compiled: bool, data: bytes) -> None:
    assert written(rt.SPAN_HEX, 0, 0, data=data, compiled=compiled) == data.hex().encode()
