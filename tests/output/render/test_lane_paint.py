"""Every glyph of a timeline has the colour of what it means, and the legend has them all."""

from __future__ import annotations

from dcpinspect.output.render.lane_paint import (
    LOUD,
    joined,
    legend,
    legend_lines,
    paint_of,
    paints_of,
    style_of,
)
from dcpinspect.output.render.lanes import ASCII, LETTERS, UNICODE
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.streams.words import SNAPSHOT_TYPES


def test_the_legend_has_the_colours_of_what_it_names() -> None:
    for glyphs in (UNICODE, ASCII):
        bars, letters, events = legend(glyphs)
        for sign in bars:
            for glyph in sign.glyph:
                assert paint_of("snapshots", glyph, glyphs) == sign.paint
        assert [(sign.glyph, sign.word) for sign in letters] == [
            (letter, cause) for cause, letter in LETTERS.items()
        ]
        assert all(paint_of("gaps", sign.glyph, glyphs) == sign.paint for sign in letters)
        assert all(paint_of("events", sign.glyph, glyphs) == sign.paint for sign in events)
        assert {sign.paint for line in (bars, letters, events) for sign in line} <= set(PAINTS)


def test_snapshots_of_each_type_have_the_colour_of_the_type() -> None:
    for number, kind in enumerate(SNAPSHOT_TYPES):
        assert {paint_of("snapshots", glyph, UNICODE) for glyph in UNICODE.of_type(number)} == {
            f"snapshot-{kind}"
        }


def test_the_line_of_a_rollback_has_its_colour_and_other_lines_have_none() -> None:
    assert list(joined("R◂──Q", paints_of("axis", "R◂──Q", UNICODE))) == [
        ("R◂──", "kind-rollback"),
        ("Q", "kind-request"),
    ]
    assert list(joined("Q──┤", paints_of("axis", "Q──┤", UNICODE))) == [
        ("Q", "kind-request"),
        ("──┤", ""),
    ]


def test_what_is_loud_is_a_ground_in_the_colours_of_a_terminal() -> None:
    assert style_of("cause-unexplained") == "bright_red reverse"
    assert style_of("cause-deduplicated") == "bright_black"
    assert style_of("") == ""
    assert set(LOUD) <= set(PAINTS)


def test_lines_of_the_legend_break_between_two_signs() -> None:
    whole = ["".join(text for text, _ in line) for line in legend_lines(legend()[1])]
    assert whole == ["  ".join(f"{letter} {cause}" for cause, letter in LETTERS.items())]
    narrow = ["".join(text for text, _ in line) for line in legend_lines(legend()[1], 40)]
    assert len(narrow) > 2
    assert all(len(line) <= 40 for line in narrow)
    assert "  ".join(narrow) == whole[0]
