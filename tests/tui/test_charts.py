from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.arrays import IntArray
from dcpinspect.output.render.lanes import Scale
from dcpinspect.output.render.sparkline import BLOCKS
from dcpinspect.protocol.message import Severity
from dcpinspect.text import cells
from dcpinspect.tui.charts import (
    LABEL,
    a_cell,
    axis,
    chart,
    columns,
    over,
    short,
    time_scale,
)
from dcpinspect.tui.theme import UNICODE

VALUES = st.lists(st.integers(0, 2**40), max_size=130).map(
    lambda values: np.array(values, np.int64)
)


@given(VALUES, st.integers(1, 300))
def test_the_greatest_value_is_in_a_cell_of_its_time(
    values: np.ndarray[tuple[int], np.dtype[np.int64]], width: int
) -> None:
    scale = time_scale(7 * len(values), width)
    found = over(scale, values, 7)
    assert len(found) == scale.cells
    assert found.max(initial=0) == values.max(initial=0)


@given(VALUES, st.integers(1, 9))
def test_columns_are_as_high_as_their_share_and_nothing_is_only_for_nothing(
    values: np.ndarray[tuple[int], np.dtype[np.int64]], height: int
) -> None:
    lines = columns(values, height)
    assert len(lines) == height
    assert all(len(line) == len(values) for line in lines)
    eighths = [
        sum((" " + BLOCKS).index(line[place]) for line in lines) for place in range(len(values))
    ]
    most = max(values.tolist(), default=0)
    for value, drawn in zip(values.tolist(), eighths, strict=True):
        assert (drawn == 0) == (value == 0)
        assert value * height * 8 / max(most, 1) <= drawn + 1e-6
        assert drawn <= value * height * 8 / max(most, 1) + 1
        assert drawn < height * 8 or value * height * 8 > most * (height * 8 - 1)


@given(VALUES, st.integers(1, 300), st.integers(2, 8))
def test_a_chart_keeps_to_its_width(
    values: np.ndarray[tuple[int], np.dtype[np.int64]], width: int, height: int
) -> None:
    series = values, 100_000_000, (0, 12_250_000_000)
    lines = [line for line, _ in chart(*series, width=width, height=height, glyphs=UNICODE)]
    assert len(lines) == height + 1
    assert all(cells(line) <= width for line in lines)


def test_findings_have_signs_below_the_chart_and_an_error_covers_a_warning() -> None:
    found: dict[Severity, IntArray] = {"warning": np.array([107, 103]), "error": np.array([102])}
    form: dict[str, Any] = {"width": 19, "height": 2, "glyphs": UNICODE}
    drawn = chart(np.array([1, 2, 4]), 4, (100, 110), events=found, **form)
    lines = [line for line, _ in drawn]
    assert lines[2] == "          ✖ !  "
    both = chart(
        np.array([1]),
        10,
        (100, 110),
        events={"warning": np.array([103]), "error": np.array([103])},
        **form,
    )
    assert "!" not in "".join(line for line, _ in both)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (950, "950"),
        (36_000, "36k"),
        (999_400, "999k"),
        (999_900, "1M"),
        (7_663_000, "7.66M"),
    ],
)
def test_numbers_are_short(number: int, text: str) -> None:
    assert short(number) == text


@given(st.integers(0, 10**12), st.integers(10, 300))
def test_no_label_of_an_axis_stands_close_to_the_end(length_ns: int, width: int) -> None:
    text = axis(time_scale(length_ns, width), length_ns)
    assert len(text) == width or length_ns < width * width
    assert width // 2 < len(text) <= width, "cells of whole columns fill the half at least"
    text = text.rstrip()
    assert re.search(r"(^ ?| {2})[\d.]+ (s|min|h|d)$", text) or len(text) <= len(
        f"{length_ns / 1e9:.9f} s"
    )


def test_an_axis_begins_and_ends_with_the_capture() -> None:
    text = axis(time_scale(3_009_000_000, 71), 3_009_000_000)
    assert text.startswith("0.0 s ")
    assert text.endswith("2.0 s            3.009 s")
    assert "2.5 s" not in text
    assert axis(time_scale(930_000_000, 107), 930_000_000).endswith("  0.7 s       0.8 s   0.930 s")
    assert axis(Scale(0, 1, 61), 60).endswith("40        50       60"), "seqnos end, too"
    assert axis(Scale(0, 1, 11, 6), 10).split() == ["0", "2", "4", "6", "8", "10"], "each once"
    assert axis(Scale(20, 1, 1, 68), 20).split() == ["20"]


def test_what_came_late_stands_late() -> None:
    three = chart(np.array([0, 1, 2, 4]), 2, (0, 9), width=19, height=1, glyphs=UNICODE)
    assert next(three)[0] == "       4   ▂▂▄▄██  "


def test_the_end_of_an_axis_stands_where_its_cell_begins() -> None:
    assert axis(Scale(20, 1, 1, 68), 20).startswith("20 ")
    assert axis(Scale(0, 1, 3, 20), 2) == f"{'0':<20}{'1':<20}{'2':<20}"


def test_a_cell_of_several_columns_is_no_column() -> None:
    assert a_cell(Scale(0, 1, 3, 20)) == "a cell of 20 columns is"
    assert a_cell(Scale(0, 7, 3)) == "a cell is"


def test_what_happens_in_a_span_stands_below_its_bar() -> None:
    for width in range(LABEL + 3, 120):
        *bars, signs, _ = [
            line
            for line, _ in chart(
                np.array([0, 5, 0, 9]),
                25,
                (0, 100),
                width=width,
                height=2,
                glyphs=UNICODE,
                events={"error": np.array([25, 75])},
            )
        ]
        assert all(bars[-1][at] != " " for at, sign in enumerate(signs) if sign == "✖")
        assert signs.count("✖") == 2
