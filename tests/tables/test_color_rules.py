from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.errors import UsageError
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.color_rules import MOST, ColorRules
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_tree import FilterSource

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def test_the_first_rule_that_is_true_counts() -> None:
    texts = {
        "vbucket = 8 and by_seqno > 30": "red",
        "vbucket = 8": "#ff8800",
        "@rollbacks": "Bright-Blue",
    }
    rules = ColorRules(texts, place="config [colors]")
    assert rules.colors == ["red", "#ff8800", "bright_blue"]
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        for batch in reading:
            rows = np.arange(0, len(batch), 2)
            expected = np.zeros(len(batch), np.int64)
            for number, text in reversed(list(enumerate(texts, 1))):
                expected[FilterRows(parse_filter(text)).rows(batch, rows)] = number
            assert rules.numbers(batch, rows).tolist() == expected[rows].tolist()
            assert set(expected[rows].tolist()) >= {0, 1, 2}


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        (
            {"vbucket = 7": "orang"},
            "config [colors] vbucket = 7: orang is no colour; write #rrggbb or one of black, red, ",
        ),
        (
            {"vbucket = 7": "magnta"},
            "config [colors] vbucket = 7: magnta is no colour; did you mean magenta?",
        ),
        ({"vbucket = 7": ""}, "config [colors] vbucket = 7: nothing is no colour; "),
        ({"vbucket = 70000": "red"}, "config [colors]: "),
        ({"@nope": "red"}, "config [colors]: "),
        (
            {f"row = {row}": "red" for row in range(MOST + 1)},
            "config [colors]: has more than 255 rules; leave some out",
        ),
    ],
)
def test_a_rule_that_is_none_is_refused_in_one_line(rules: dict[str, str], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        ColorRules(rules, place="config [colors]")
    assert str(caught.value).startswith(what)
    assert "\n" not in str(caught.value)


def test_a_rule_may_name_a_filter_that_is_saved() -> None:
    saved = {"mine": FilterSource("config [filters] mine", "vbucket = 7")}
    assert ColorRules({"@mine": "red"}, place="config [colors]", saved=saved).colors == ["red"]
