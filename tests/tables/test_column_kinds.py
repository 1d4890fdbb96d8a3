"""A kind of columns is declared once; Arrow, the JSON Schema, filters and lists of columns
follow.
"""

from __future__ import annotations

import jsonschema
import pyarrow as pa
import pytest

from dcpinspect.tables.column_kinds import KINDS, Column, ColumnKind, arrow_type

VALUES: dict[ColumnKind, tuple[object, object]] = {
    "u8": (255, 256),
    "u16": (0xFFFF, -1),
    "u32": (2**32 - 1, 2**32),
    "u64": (2**64 - 1, 2**64),
    "i64": (-1, 0.5),
    "seconds": (0.5, "1"),
    "fraction": (0.5, "1"),
    "text": ("a", 1),
    "word": ("a", 1),
    "hex64": ("0x00000000000000ff", "0xff"),
    "time": ("2024-04-06T12:03:41.000000001Z", "12:03"),
    "bool": (True, 1),
    "words": (["a"], [1]),
    "numbers": ([1], ["a"]),
    "seqnos": ([2**64 - 1], [-1]),
    "counts": ({"a": 1}, {"a": -1}),
    "controls": (
        {"enable_noop": {"value": "true", "status": None}},
        {"enable_noop": {"value": "true"}},
    ),
    "log": ([{"uuid": "0x00000000000000ff", "seqno": 1}], [{"uuid": "0x00000000000000ff"}]),
    "places": (
        [{"connection": 1, "direction": "c2s", "stream_offset": 0, "file": "a", "frame": 1}],
        [{"connection": 1}],
    ),
    "object": ({"a": 1}, []),
    "objects": ([{}], [1]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_a_kind_is_one_in_arrow_and_in_json(kind: ColumnKind) -> None:
    value, other = VALUES[kind]
    jsonschema.validate(value, KINDS[kind].json)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(other, KINDS[kind].json)
    if kind not in ("time", "object", "objects"):  # numbers, and texts of JSON, in Arrow
        plain = list(value.items()) if isinstance(value, dict) else value
        assert pa.array([plain, None], arrow_type(Column("x", kind, ""))).null_count == 1


def test_every_kind_has_a_name_in_lists_of_columns() -> None:
    assert [kind for kind, one in KINDS.items() if not one.said] == []
    assert set(KINDS) - set(VALUES) == {"bytes", "records", "cases"}
