from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from dcpinspect.errors import UsageError
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.theme import (
    ASCII,
    THEMES,
    UNICODE,
    AsciiOnly,
    _style,
    known_theme,
    sign_on_cursor,
    variables,
)
from tests.catalogue import each
from tests.output.render.test_palette import contrast
from tests.tui.screens import Keys, colours, play, press


def test_ascii_glyphs_are_ascii_and_told_apart() -> None:
    assert all(text.isascii() for text in asdict(ASCII).values())
    for glyphs in (ASCII, UNICODE):
        assert (
            len({glyphs.of_severity(severity) for severity in ("error", "warning", "note", None)})
            == 4
        )


@pytest.mark.parametrize(
    ("text", "shown"),
    [("╭─╮", "+-+"), (UNICODE.effect, ASCII.effect), ("é漢", "???"), ("▌…", "?~"), ("a–b", "a-b")],
)
def test_what_is_left_is_replaced_column_by_column(text: str, shown: str) -> None:
    (segment,) = AsciiOnly().apply([Segment(text)], Color(0, 0, 0))
    assert segment.text == shown
    assert segment.cell_length == Segment(text).cell_length


LOOKS = (
    *(("1", "n"), ("right",), ("2",), ("vertical_line",), ("3",)),
    *(("4", "n"), ("5",), ("0",)),
)
"""Keys that lead from one view and layout to the next."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["textual-dark", "textual-light"])
def test_what_is_drawn_can_be_read(name: str) -> None:
    """Text as large as a terminal's needs a contrast of 4.5, what is meant to stay in the
    background 3; blocks are no text.
    """

    async def scene(app: InspectApp, pilot: Keys) -> None:
        for keys in LOOKS:
            await press(app, pilot, *keys)
            for line in app.screen._compositor.render_strips():
                for segment in line:
                    text, style = segment.text.strip(), segment.style
                    if (
                        any(one.isalnum() for one in text)
                        and style is not None
                        and style.color
                        and style.bgcolor
                    ):
                        pair = (
                            (style.color, style.bgcolor)
                            if not style.reverse
                            else (style.bgcolor, style.color)
                        )
                        front, back = (one.get_truecolor().hex for one in pair)
                        assert contrast(front, back) >= 3, f"{keys}: {text} is {front} on {back}"

    play("orphans.pcap", scene, theme_name=name)


def test_without_colour_what_is_wrong_stands_out_by_more_than_its_grey(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(app: InspectApp, pilot: Keys) -> None:
        await press(app, pilot, "n")
        signs = [
            segment
            for line in app.screen._compositor.render_strips()
            for segment in line
            if "✖" in segment.text
        ]
        assert any(
            sign.style is not None and sign.style.reverse and sign.style.bold for sign in signs
        )

    play("orphans.pcap", scene)


def test_the_row_of_the_cursor_does_not_hide_its_sign() -> None:
    assert sign_on_cursor(Style.parse("#ff6b6b"), Style.parse("white on #121212")) == Style.parse(
        "bold #121212 on #ff6b6b"
    )


@each("name", THEMES)
def test_every_theme_has_the_colours_of_the_palette(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    colours = variables(theme, has_color=True)
    assert set(colours) == {f"paint-{one}" for one in PAINTS}
    assert all(one.startswith("ansi_") for one in colours.values()) == theme.ansi


def test_a_theme_that_nobody_knows_is_refused_with_one_that_is_like_it() -> None:
    assert known_theme("nord", "--theme") == "nord"
    with pytest.raises(
        UsageError, match=r"^--theme nrod: no theme has this name; did you mean nord\?$"
    ):
        known_theme("nrod", "--theme")


@pytest.mark.slow
def test_the_terminals_own_colours_are_enough_for_every_view() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        for keys in LOOKS:
            await press(app, pilot, *keys)
            styles = [
                segment.style
                for line in app.screen._compositor.render_strips()
                for segment in line
                if segment.style
            ]
            colours = {
                one.name
                for style in styles
                for one in (style.color, style.bgcolor)
                if one is not None
            }
            assert not {one for one in colours if one.startswith("#")}, keys

    play("orphans.pcap", scene, has_few_colors=True)


COLOURED = {
    "overview": ("0",),
    "packets": ("1", "n"),
    "vbuckets": ("2",),
    "heat": ("vertical_line",),
    "timeline": ("3",),
    "findings": ("4",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["textual-dark", "textual-light"])
def test_views_have_the_same_colours_in_all_themes(
    name: str, golden: Callable[[str, str], None]
) -> None:
    """Beside the text of a screen, in the same places."""

    async def scene(app: InspectApp, pilot: Keys) -> None:
        for view, keys in COLOURED.items():
            await press(app, pilot, *keys)
            golden(f"tui/colours/{view}.txt", colours(app))

    play("rollback.pcap", scene, theme_name=name)


def test_without_colour_messages_of_all_kinds_are_as_bright_as_can_be() -> None:
    assert _style("kind-removal", "textual-dark", True) == _style(
        "kind-item", "textual-dark", False
    )
    assert _style("kind-removal", "textual-dark", False) != _style(
        "kind-item", "textual-dark", False
    )
