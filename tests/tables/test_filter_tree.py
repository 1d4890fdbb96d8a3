"""The tree of a filter: equal filters are equal trees, and a tree says which columns it reads."""

from __future__ import annotations

import pytest

from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_tree import (
    And,
    ColumnName,
    Compare,
    Constant,
    FilterSource,
    IsNull,
    Not,
    TextPosition,
    names,
)
from dcpinspect.tables.schema import BY_NAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("vbucket = 5", "  VBUCKET == 5"),
        ("5 < vbucket", "vbucket > 5"),
        ("vbucket between 1 and 5", "vbucket >= 1 and vbucket <= 5"),
        ("vbucket not in (1, 5)", "not vbucket in (1, 5)"),
        ("key is not null", "not (key is null)"),
        ("cas = '0X1F'", "cas = '0x000000000000001f'"),
    ],
)
def test_what_means_the_same_is_the_same_tree(one: str, other: str) -> None:
    assert parse_filter(one).condition == parse_filter(other).condition


def test_the_tree_of_a_filter() -> None:
    text = "vbucket = 5 and key is not null"
    source = FilterSource("--filter", text)
    assert parse_filter(text).condition == And(
        (
            Compare(
                "=",
                ColumnName(BY_NAME["vbucket"], TextPosition(source, 0, 7)),
                Constant(5, TextPosition(source, 10, 11)),
            ),
            Not(IsNull(ColumnName(BY_NAME["key"], TextPosition(source, 16, 19)))),
        )
    )


def test_places_are_those_of_the_text() -> None:
    condition = parse_filter("vbucket = -0").condition
    assert isinstance(condition, Compare)
    assert isinstance(condition.right, Constant)
    assert (condition.left.place.start, condition.left.place.end) == (0, 7)
    assert (condition.right.place.start, condition.right.place.end) == (10, 12)


def test_names_are_those_of_all_branches() -> None:
    text = (
        "name = 'get' and (not key like 'a%' or start_seqno < end_seqno) or datatype = 'json' "
        "and cas in ('0x1') or true"
    )
    assert names(parse_filter(text).condition) == {
        "name",
        "key",
        "start_seqno",
        "end_seqno",
        "datatype",
        "cas",
    }
