from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa

from dcpinspect.output.export.json_table import json_objects, plain_json


def test_times_have_the_digits_of_their_unit() -> None:
    units = {unit: pa.array([1], pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")}
    (line,) = json_objects(pa.RecordBatch.from_pydict(units))
    assert json.loads(line) == {
        "s": "1970-01-01T00:00:01Z",
        "ms": "1970-01-01T00:00:00.001Z",
        "us": "1970-01-01T00:00:00.000001Z",
        "ns": "1970-01-01T00:00:00.000000001Z",
    }


def test_numbers_stay_whole_however_long() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "u": pa.array([2**64 - 1], pa.uint64()),
            "sum": pa.array([Decimal(2**64 * 3)], pa.decimal128(38, 0)),
        }
    )
    (line,) = json_objects(batch)
    assert line == b'{"u":18446744073709551615,"sum":55340232221128654848}'


def test_what_json_has_no_type_for_has_a_text() -> None:
    assert (
        plain_json({"raw": b"\xff", "part": Decimal("1.25"), 1: None})
        == b'{"raw":"ff","part":1.25,"1":null}'
    )


def test_nothing_in_it_steers_a_terminal() -> None:
    assert plain_json("\x1b\x9b\u202e") == b'"\\u001b\\u009b\\u202e"'
