from __future__ import annotations

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.tui.place_syntax import Target, parse_place

FIRST = 1_712_381_640_000_000_000  # 2024-04-06 05:34:00 UTC


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("1047", Target("row", 1047)),
        ("1,047", Target("row", 1047)),
        ("f988", Target("frame", 988)),
        (":f988", Target("frame", 988)),
        ("frame f988", Target("frame", 988)),
        ("frame 988", Target("frame", 988)),
        ("row 1,047", Target("row", 1047)),
        ("vb 417@842", Target("vbucket", 417, 842)),
        ("vbucket 417", Target("vbucket", 417)),
        ("time 12.5s", Target("time", FIRST + 12_500_000_000)),
        ("vb417", Target("vbucket", 417)),
        ("vb417@842", Target("vbucket", 417, 842)),
        ("12.5s", Target("time", FIRST + 12_500_000_000)),
        ("3s", Target("time", FIRST + 3_000_000_000)),
        ("05:35", Target("time", FIRST + 60_000_000_000)),
        ("05:34:01.25", Target("time", FIRST + 1_250_000_000)),
        ("rollback", Target("rule", rule="rollback")),
    ],
)
def test_a_place(text: str, target: Target) -> None:
    assert parse_place(text, FIRST) == target


@pytest.mark.parametrize(
    "text",
    [
        "bananas",
        "vb",
        "frame",
        "row ",
        "frame bananas",
        "m2",
        "-3",
        "25:00",
        "1e5",
        "rolback",
        "\x1b[31m",
        "٣",
    ],
)
def test_no_place(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_place(text, FIRST)
    assert "\x1b" not in str(caught.value)


def test_a_rule_that_is_misspelt_is_suggested() -> None:
    with pytest.raises(UsageError, match="rollback"):
        parse_place("rolback", FIRST)
