"""What a comparison has found."""

from __future__ import annotations

from typing import Any

import pytest

from dcpinspect.diff import difference_columns
from dcpinspect.diff.difference_columns import Differences


def row(kind: str, vbucket: int, lacks: str | None = "b") -> dict[str, Any]:
    return {"kind": kind, "vbucket": vbucket, "lacks": lacks, "first_seqno": 1, "events": 1}


def test_records_are_in_order_and_counts_too() -> None:
    one = Differences({}, 0)
    one.rows = [
        row("capture-loss", 2),
        row("not-sent", 5),
        row("capture-loss", 1),
        row("differs", 7, None),
    ]
    for kind in ("capture-loss", "not-sent", "differs"):
        one.count(kind, "b", 1, 1)
    one.in_order()
    assert [(each["kind"], each["vbucket"]) for each in one.rows] == [
        ("differs", 7),
        ("not-sent", 5),
        ("capture-loss", 1),
        ("capture-loss", 2),
    ]
    assert [kind for kind, _ in one.counts] == ["differs", "not-sent", "capture-loss"]
    assert one.is_different


@pytest.mark.parametrize("kind", ["not-sent", "capture-loss"])
def test_of_too_many_records_the_first_stay_and_the_rest_is_counted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(difference_columns, "MOST", 2)
    one = Differences({}, 0)
    one.rows = [row(kind, vbucket) for vbucket in (4, 3, 2, 1)]
    one.count(kind, "b", 4, 4)
    one.in_order()
    assert ([each["vbucket"] for each in one.rows], one.left_out) == ([1, 2], 2)


@pytest.mark.parametrize(
    ("shows", "alike"), [(set(), True), ({5}, True), ({5, 6}, False), ({-1}, False)]
)
def test_values_are_compared_where_both_sides_are_shown_them_alike(
    shows: set[int], alike: bool
) -> None:
    one = Differences({}, 0)
    one.shows = shows
    assert one.are_shown_alike == alike
