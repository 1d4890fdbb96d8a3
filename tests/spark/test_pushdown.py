"""Conditions of Spark's, looked at before columns are made, keep all messages that Spark would
keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcpinspect.spark.pushdown import pushed
from dcpinspect.tables.schema import BY_NAME
from tests.encode import encode
from tests.tables.build import batch

datasource = pytest.importorskip("pyspark.sql.datasource")
NAMES = {**{name: name for name in BY_NAME}, "VB": "vbucket"}
MESSAGES = batch(
    encode("dcp_mutation", vbucket=1, by_seqno=2**64 - 1, cas=2**63, key=b"a_b"),
    encode("dcp_mutation", vbucket=2, by_seqno=5, cas=7, key=b"axb"),
    encode("dcp_mutation", vbucket=3, by_seqno=6, key=b"\xff"),
    encode("noop"),
)


def kept(*filters: Any) -> list[int] | None:
    found = pushed(filters, NAMES)
    return None if found is None else found.rows(MESSAGES, np.arange(len(MESSAGES))).tolist()


@pytest.mark.parametrize(
    ("kind", "column", "value", "rows"),
    [
        ("EqualTo", "VB", 2, [1]),
        ("EqualTo", "by_seqno", -1, [0]),
        ("EqualTo", "cas", -(2**63), [0]),
        ("EqualTo", "key_bytes", b"\xff", [2]),
        ("GreaterThan", "vbucket", 1, [1, 2]),
        ("LessThanOrEqual", "vbucket", 2, [0, 1, 3]),
        ("In", "vbucket", (1, 3, None), [0, 2]),
        ("StringStartsWith", "key", "a_", [0]),
        ("StringEndsWith", "key", "_b", [0]),
        ("StringContains", "name", "utat", [0, 1, 2]),
        ("GreaterThan", "by_seqno", 5, None),
        ("EqualTo", "datatype", ["json"], None),
        ("EqualTo", "error", "x", None),
        ("EqualTo", "key", "a\0b", None),
        ("EqualNullSafe", "vbucket", 1, None),
    ],
)
def test_a_condition(kind: str, column: str, value: Any, rows: list[int] | None) -> None:
    assert kept(getattr(datasource, kind)((column,), value)) == rows


def test_several_and_their_contraries() -> None:
    is_null, is_there = datasource.IsNull(("by_seqno",)), datasource.IsNotNull(("by_seqno",))
    assert kept(is_null) == [3]
    assert kept(is_there, datasource.Not(datasource.EqualTo(("vbucket",), 2))) == [0, 2]
    assert kept(datasource.Not(datasource.EqualTo(("items", "cas"), 2))) is None
    assert kept(datasource.EqualTo(("items", "cas"), 2), is_null) == [3]
    assert kept() is None
