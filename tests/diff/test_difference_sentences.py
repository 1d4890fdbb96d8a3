"""What shows a difference, in words."""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.diff.difference_columns import KINDS
from dcpinspect.diff.difference_sentences import evidence
from dcpinspect.streams import words as w

ROW: dict[str, Any] = {
    "connection": 2,
    "fields": ["cas", "value"],
    "a_cas": 1,
    "b_cas": 2,
    "a_asks": ["x"],
    "b_asks": ["y", "z"],
    "ends": 3,
    "a_ends": 4,
    "b_ends": 5,
    "began": None,
    "reached": None,
    "gap_after": 5,
    "gap_before": 9,
    "cause": w.DEDUPLICATED,
    "high": None,
    "snapshot_start": None,
    "is_lost": False,
}
RANGE = {"began": 3, "reached": 8, "gap_after": None, "gap_before": None}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_short_sentence(kind: str) -> None:
    for row in (ROW, ROW | RANGE, ROW | {"high": 10}):
        assert 10 < len(evidence(kind, "b", row)) < 120


@pytest.mark.parametrize(
    ("kind", "more", "told"),
    [
        (
            "differs",
            {},
            "both sides have it: CAS 0x0000000000000001 and 0x0000000000000002, another value",
        ),
        ("filter", {}, "A asked for x; B for y and z"),
        (
            "not-sent",
            {"high": 10},
            "connection 2 of B goes from 5 to 9 in a snapshot that ends at 10",
        ),
        (
            "not-sent",
            {"cause": w.UNEXPLAINED},
            "connection 2 of B goes from 5 to 9, and nothing explains the gap",
        ),
        (
            "not-reached",
            RANGE | {"is_lost": True},
            "B's streams cover 4–8, with capture loss behind that",
        ),
        (
            "other-history",
            {"snapshot_start": 7},
            "B's failover log has another branch there, which left this one at 7",
        ),
    ],
)
def test_numbers_are_told(kind: str, more: dict[str, Any], told: str) -> None:
    assert evidence(kind, "b", ROW | more) == told
