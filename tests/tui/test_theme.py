from __future__ import annotations

from dataclasses import asdict

import pytest
from rich.segment import Segment
from textual.color import Color

from dcpinspect.tui.theme import ASCII, UNICODE, AsciiOnly


def test_ascii_glyphs_are_ascii_and_told_apart() -> None:
    assert all(text.isascii() for text in asdict(ASCII).values())
    for glyphs in (ASCII, UNICODE):
        assert len({glyphs.of(severity) for severity in ("error", "warning", "note", None)}) == 4


@pytest.mark.parametrize(("text", "shown"), [("╭─╮", "+-+"), ("é漢", "???"), ("▌…", "?."), ("a–b", "a-b")])
def test_what_is_left_is_replaced_column_by_column(text: str, shown: str) -> None:
    (segment,) = AsciiOnly().apply([Segment(text)], Color(0, 0, 0))
    assert segment.text == shown
    assert segment.cell_length == Segment(text).cell_length
