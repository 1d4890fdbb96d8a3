from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from dcpinspect.tui.line_view import LineView, strip

HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x07\u202e\u200b漢́[]")), max_size=40
)


@given(st.lists(HOSTILE, max_size=5), st.integers(1, 300))
def test_a_strip_is_as_wide_as_its_widget_and_steers_nothing(pieces: list[str], width: int) -> None:
    made = strip([(piece, Style()) for piece in pieces], width, Style())
    assert made.cell_length == width
    assert sum(segment.cell_length for segment in made) == width
    assert all(character.isprintable() for segment in made for character in segment.text)
    assert not any(segment.control for segment in made)


def test_blanks_stay() -> None:
    assert strip([("  é ", Style())], 6, Style()).text == "  é   "


def test_a_line_that_is_cut_ends_in_an_ellipsis() -> None:
    assert strip([("abcd", Style()), ("efgh", Style())], 5, Style()).text == "abcd…"
    assert strip([("abcd", Style()), ("efgh", Style())], 4, Style()).text == "abc…"
    assert strip([("漢字", Style()), ("x", Style())], 4, Style()).text == "漢 …"
    assert strip([("abcd", Style()), ("    ", Style())], 4, Style()).text == "abcd"


def test_before_the_layout_no_place_is_told_to_be_below() -> None:
    class Three(LineView):
        count = 3

    lines = Three()
    lines.entitle("three")
    assert lines.border_title == "three"
