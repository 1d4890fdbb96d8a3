"""Rows of a table of records by vbucket, connection and condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcpinspect.errors import PlacedError
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.streams.table_columns import BY_TABLE, GAPS, VBUCKETS
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.record_rows import RecordSelection, filter_columns, parse_record_filter
from dcpinspect.tables.record_tables import LazyColumn, Records, WordColumn


def gaps(*rows: tuple[int, int, int, int]) -> Records:
    """(connection, vbucket, width, cause) of each."""
    connection, vbucket, width, cause = (
        np.array(column, dtype=np.uint64) for column in zip(*rows, strict=True)
    )
    columns: dict[str, Any] = {column.name: [None] * len(rows) for column in GAPS.columns}
    columns |= {
        "connection": NumberColumn(connection.astype(np.int64)),
        "vbucket": NumberColumn(vbucket.astype(np.int64)),
        "width": NumberColumn(width),
        "cause": WordColumn(cause.astype(np.int64), ("capture-loss", "rollback")),
        "evidence": LazyColumn(len(rows), lambda some: [f"row {row}" for row in some.tolist()]),
    }
    return Records(GAPS, columns, len(rows))


SOME = gaps((1, 5, 10, 0), (1, 6, 2**63 + 5, 1), (2, 5, 1, 1))


def kept(selection: RecordSelection) -> list[str]:
    return [str(text) for text in selection.matching(SOME).values("evidence")]


def test_without_conditions_all_are_kept() -> None:
    assert RecordSelection().matching(SOME) is SOME


def test_conditions_are_all_to_be_met() -> None:
    assert kept(RecordSelection(vbuckets=[range(5, 6)])) == ["row 0", "row 2"]
    assert kept(RecordSelection(connections=[range(1, 2)], vbuckets=[range(6, 9)])) == ["row 1"]
    assert kept(RecordSelection(vbuckets=[range(7, 9)])) == []


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("width > 9223372036854775808", ["row 1"]),
        ("cause = 'rollback' and vbucket = 5", ["row 2"]),
        ("sid is null", ["row 0", "row 1", "row 2"]),
    ],
)
def test_a_filter_is_over_the_tables_own_columns(text: str, rows: list[str]) -> None:
    assert kept(RecordSelection(filter=parse_record_filter(text, GAPS))) == rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("by_seqno = 5", "no column is called by_seqno"),
        ("cause = 'rolback'", "cause is never 'rolback'; did you mean rollback?"),
        ("width = -1", "width is from 0 to"),
        ("@errors", "no filter is saved as @errors"),
    ],
)
def test_what_the_table_does_not_have_is_refused(text: str, says: str) -> None:
    with pytest.raises(PlacedError, match=says):
        parse_record_filter(text, GAPS)


def test_times_are_compared_to_the_nanosecond() -> None:
    columns: dict[str, Any] = {column.name: [None, None] for column in VBUCKETS.columns}
    columns["last_time"] = NumberColumn(
        np.array([1_712_381_677_411_000_123, 1_712_381_677_411_000_124], dtype=np.int64)
    )
    columns["connections"] = [[1, 2], [3]]
    records = Records(VBUCKETS, columns, 2)
    later = parse_record_filter("last_time > '2024-04-06 05:34:37.411000123'", VBUCKETS)
    assert RecordSelection(filter=later).matching(records).values("connections") == [[3]]
    assert RecordSelection(connections=[range(2, 3)]).matching(records).values("connections") == [
        [1, 2]
    ]


@pytest.mark.parametrize("table", BY_TABLE.values(), ids=BY_TABLE)
def test_every_table_has_columns_to_filter_by(table: Any) -> None:
    assert "vbucket" in filter_columns(table) or "connection" in filter_columns(table)


def test_a_condition_on_a_table_without_rows_leaves_none() -> None:
    records = Records(GAPS, {column.name: [] for column in GAPS.columns}, 0)
    assert (
        len(RecordSelection(vbuckets=(range(5, 6),), connections=(range(1, 2),)).matching(records))
        == 0
    )


def test_saved_filters_have_names_and_those_of_messages_are_none_of_them() -> None:
    saved = {"wide": FilterSource("[filters] wide", "width > 1")}
    assert (
        parse_record_filter("@wide", GAPS, saved=saved).condition
        == parse_record_filter("width > 1", GAPS).condition
    )
    with pytest.raises(PlacedError, match="no filter is saved as @errors; there are @wide"):
        parse_record_filter("@errors", GAPS, saved=saved)
    with pytest.raises(
        PlacedError, match="no filter is saved as @errors; the config file has none"
    ):
        parse_record_filter("@errors", GAPS)
