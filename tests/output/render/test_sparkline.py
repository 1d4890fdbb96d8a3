"""Numbers as blocks."""

from __future__ import annotations

from dcpinspect.output.render.sparkline import block_ns, sparkline


def test_the_greatest_is_the_highest_block_and_nothing_is_blank() -> None:
    assert sparkline([0, 1, 2, 4, 8]) == " ▁▂▄█"
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "  "
    assert sparkline([1, 10**18]) == "▁█"


def test_blocks_are_round_where_spans_allow_it() -> None:
    assert [block_ns(count, 20, 10) for count in (0, 10, 11, 30, 50, 51, 101)] == [
        *(20, 20, 40, 60, 100, 200, 300)
    ]
    assert block_ns(30, 7, 10) == 21
