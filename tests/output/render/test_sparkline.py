"""Numbers as blocks."""

from __future__ import annotations

from dcpinspect.output.render.sparkline import sparkline


def test_the_greatest_is_the_highest_block_and_nothing_is_blank() -> None:
    assert sparkline([0, 1, 2, 4, 8], 10) == " ▁▂▄█"
    assert sparkline([], 10) == ""
    assert sparkline([0, 0], 10) == "  "
    assert sparkline([1, 10**18], 10) == "▁█"


def test_neighbours_are_added_up_until_they_fit() -> None:
    assert sparkline([1, 1, 2, 0, 4], 3) == sparkline([2, 2, 4], 3) == "▄▄█"
