"""Values in filters: each column takes its own kind, in its range, and the refusal of others says
what to write.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.errors import PlacedError
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.filter_tree import Compare, Constant, In, Like
from dcpinspect.tables.schema import COLUMNS
from tests.catalogue import each


def value_in(text: str) -> Any:
    """The value that a comparison's column is compared with."""
    condition = parse_filter(text).condition
    assert isinstance(condition, Compare)
    assert isinstance(condition.right, Constant)
    return condition.right.value


def refusal(text: str) -> str:
    with pytest.raises(PlacedError) as caught:
        parse_filter(text)
    return caught.value.what


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'0x17c39a1022010007'", "0x17c39a1022010007"),
        ("'0X17C39A1022010007'", "0x17c39a1022010007"),
        ("'0x1'", "0x0000000000000001"),
        ("'0x0'", "0x0000000000000000"),
    ],
)
def test_hexadecimal_text_gets_its_sixteen_digits(written: str, value: str) -> None:
    assert value_in(f"cas = {written}") == value
    condition = parse_filter(f"vbucket_uuid in ({written})").condition
    assert isinstance(condition, In)
    assert [one.value for one in condition.values] == [value]


def test_a_pattern_of_hexadecimal_digits_is_in_lower_case_as_they_are() -> None:
    condition = parse_filter("vbucket_uuid like '0xFEED%'").condition
    assert isinstance(condition, Like)
    assert condition.pattern == "0xfeed%"


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("2024-04-06 05:34", 1712381640_000000000),
        ("2024-04-06T05:34:37Z", 1712381677_000000000),
        ("2024-04-06 05:34:37.5", 1712381677_500000000),
        ("2024-04-06T05:34:37.411000123Z", 1712381677_411000123),
        ("2024-04-06t07:34:37.411000123+02:00", 1712381677_411000123),
        ("2024-04-06 00:34:37 -0500", 1712381677_000000000),
        ("1969-12-31 23:59:59.999999999", -1),
        ("0001-01-01", -62135596800_000000000),
        ("9999-12-31", 253402214400_000000000),
    ],
)
def test_times_are_nanoseconds(written: str, nanoseconds: int) -> None:
    assert value_in(f"time >= '{written}'") == nanoseconds


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_as_python_writes_it_is_the_same_time(moment: datetime) -> None:
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // (moment.resolution)
    assert value_in(f"time = '{moment.isoformat()}'") == microseconds * 1000


@pytest.mark.parametrize(
    "written",
    ["", "now", "2024", "2024-13-01", "2024-02-30", "2024-04-06 25:00", "2024-04-06 05:34:61", "2024-04-06 05:34:37.1234567890",
     "24-04-06", "2024-04-06 05:34 +99:00", "٢٠٢٤-04-06"],
)  # fmt: skip
def test_what_is_no_time_is_refused(written: str) -> None:
    assert (
        refusal(f"time = '{written}'")
        == "time is a moment: write UTC, as in '2024-04-06 05:34:37.411', or use time_ns"
    )


RANGES = {"u8": 2**8 - 1, "u16": 2**16 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1, "i64": 2**63 - 1}


@each("column", [column for column in COLUMNS if column.kind in RANGES])
def test_a_number_is_within_its_column(column: Any) -> None:
    most = RANGES[column.kind]
    least = -(2**63) if column.kind == "i64" else 0
    for value in (least, most):
        assert value_in(f"{column.name} = {value}") == value
    for value in (least - 1, most + 1):
        for text in (
            f"{column.name} < {value}",
            f"{value} = {column.name}",
            f"{column.name} in (0, {value})",
        ):
            assert refusal(text) == f"{column.name} is from {least} to {most}"


@each(
    ("text", "says"),
    [
        ("vbucket = '5'", "vbucket is a number: write 5, without quotes"),
        ("opaque = '0x14'", "opaque is a number: write 20, without quotes"),
        ("vbucket = 'five'", "vbucket is a number"),
        ("vbucket = x'05'", "vbucket is a number"),
        ("vbucket = true", "vbucket is a number"),
        (
            "durability_level = 'all'",
            "durability_level is a number: 1 majority, 2 majority-and-persist-on-active, 3 "
            "persist-to-majority",
        ),
        (
            "version = 'V2.2'",
            "not every version of 2 is 'v2.2': write name in ('dcp_snapshot_marker') and "
            "version = 2",
        ),
        (
            "end_seqno in (5, 'no end')",
            "not every end_seqno of 18446744073709551615 is 'no end': write name in "
            "('dcp_stream_req') and end_seqno = 18446744073709551615",
        ),
        ("version = 'v9'", "version is a number: dcp_snapshot_marker: 0 v2.0, 1 v2.1, 2 v2.2"),
        ("opcode = 'dcp_mutation'", "opcode is a number; names are in name"),
        ("status = 'rollback'", "status is a number; names are in status_name"),
        ("name = 87", "name is text; numbers are in opcode"),
        ("status_name = 35", "status_name is text; numbers are in status"),
        ("key = 5", "key is text: put it in single quotes"),
        ("key = x'05'", "key is text"),
        ("cas = '5'", "cas is 0x and up to 16 hexadecimal digits, as text"),
        ("cas = '0x12345678901234567'", "cas is 0x and up to 16 hexadecimal digits, as text"),
        ("cas = '0x'", "cas is 0x and up to 16 hexadecimal digits, as text"),
        (
            "time = 5",
            "time is a moment: write UTC, as in '2024-04-06 05:34:37.411', or use time_ns",
        ),
        (
            "key_bytes = 'a'",
            "key_bytes is bytes: write hexadecimal digits, as in x'00ff'; key is its text",
        ),
        ("datatype = 1", "datatype is a list of words: put it in single quotes"),
        (
            "datatype < 'json'",
            "datatype is a list of words: it has a word (= 'x') or not (<> 'x'), and no order",
        ),
        ("datatype like 'js%'", "like is for text, and datatype is a list of words"),
        ("vbucket like '5%'", "like is for text, and vbucket is a number"),
        ("key like 5", "like takes a pattern in single quotes, as in 'user::%'"),
        ("key like 'a' escape 'ab'", "escape takes one character, as in escape '!'"),
        ("key like 'a' escape '%'", "escape takes one character, as in escape '!'"),
        ("key like 'a!b' escape '!'", "after the escape ! only %, _ or ! may stand"),
        ("key like 'a!!!' escape '!'", "after the escape ! only %, _ or ! may stand"),
        ("row = name", "name is text, and row is a number"),
        ("cas = key", "key is text, and cas is 0x and up to 16 hexadecimal digits, as text"),
        ("datatype = flags", "lists cannot be compared with each other"),
        (
            "name = 'dcp_mutaton'",
            "name is never 'dcp_mutaton'; did you mean dcp_mutation or tap_mutation?",
        ),
        ("direction <> 'up'", "direction is never 'up'; it is c2s, s2c"),
        ("side = 'consumer'", "side is never 'consumer'; it is request, response"),
        ("side = 'response '", "side is never 'response '; did you mean response?"),
        ("flags = 'produce'", "flags is never 'produce'; did you mean producer?"),
        ("datatype = '0x03'", "datatype is never '0x03'; it is json, snappy, xattr"),
        ("status_name = 'rolback'", "status_name is never 'rolback'; did you mean rollback?"),
        (
            "layout = 'v9'",
            (
                "layout is never 'v9'; it is v1, upr, v2.0, v2.2, v2.1, v2.2-short, "
                "5.0-collections, v2, v0, unknown, failover, old, …"
            ),
        ),
        (
            "name = '\x1b[2J'",
            (
                "name is never '\\x1b[2J'; it is get, set, add, replace, delete, increment, "
                "decrement, quit, flush, getq, noop, version, …"
            ),
        ),
        (
            "client = '10.0.0.9'",
            (
                "client has a port, as in '10.0.0.9:50312'; for any port write client like "
                "'10.0.0.9:%'"
            ),
        ),
    ],
)
def test_another_kind_of_value_is_refused(text: str, says: str) -> None:
    assert refusal(text) == says


@pytest.mark.parametrize(
    "text",
    [
        "name = 'opcode_0x7e'",
        "status_name = 'status_0xff01'",
        "flags = '0x400'",
        "datatype = '0x08'",
        "state = 'unknown (7)'",
        "layout = 'error'",
        "problem = 'truncated'",
        "name like 'DCP%'",
        "key like '%!_!!!%' escape '!'",
        "server = '[::1]:11210'",
        "cas <= vbucket_uuid",
    ],
)
def test_values_that_columns_can_take_are_taken(text: str) -> None:
    parse_filter(text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("name = 'mutation'", "name = 'dcp_mutation'"),
        ("name in ('get', 'DCP_NOOP')", "name in ('get', 'dcp_noop')"),
        ("name = 'noop'", "name = 'noop'"),
        ("name <> 'Snapshot-Marker'", "name <> 'dcp_snapshot_marker'"),
        ("flags = 'include_xattrs'", "flags = 'include-xattrs'"),
        ("status_name = 'KEY_ENOENT'", "status_name = 'key_enoent'"),
        ("opaque = 0x14 and vbucket in (0X1F, 5)", "opaque = 20 and vbucket in (31, 5)"),
        ("cas = 0x17c39a1022010007", "cas = '0x17c39a1022010007'"),
        ("cas = 5", "cas = '0x5'"),
        (
            "by_seqno between 0x0 and 0xffffffffffffffff",
            "by_seqno between 0 and 18446744073709551615",
        ),
    ],
)
def test_other_spellings_of_a_value_are_read(written: str, read: str) -> None:
    assert Sql().condition(parse_filter(written).condition) == Sql().condition(
        parse_filter(read).condition
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("durability_level = 'majority'", 1),
        ("durability_level in ('persist_to_majority')", 3),
        ("deleted = 'yes'", 1),
    ],
)
def test_a_word_stands_for_its_number_where_a_number_has_one(text: str, number: int) -> None:
    assert str(number) in str(parse_filter(text).condition)
