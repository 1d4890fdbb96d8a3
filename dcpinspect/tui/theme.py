"""Glyphs in Unicode and in ASCII, and colours: those of Textual's themes and of the palette."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.render.lanes import LOUD
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.protocol.message import Severity
from dcpinspect.text import cells, did_you_mean, escape

if TYPE_CHECKING:
    from dcpinspect.findings.finding import Finding
    from dcpinspect.tui.base_app import ThemedApp


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters that are drawn beside text."""

    error: str = "✖"
    warning: str = "!"
    note: str = "·"
    cursor: str = "▌"
    mark: str = "●"
    remark: str = "✎"
    """Stands beside a message that has a note, and before the note."""
    folded: str = "▸"
    open: str = "▾"
    link: str = "↗"
    effect: str = "└"
    """Stands before a finding that is an effect of the one above."""
    blocks: str = "▁▂▃▄▅▆▇█"
    shades: str = "█▓▒░■□"
    """For vbuckets that are caught up, advancing, backfilling, silent, ended, and unknown."""

    @property
    def verdicts(self) -> Mapping[str, str]:
        """The characters for verdicts that are not bad."""
        return dict(
            zip(
                ("caught-up", "advancing", "backfilling", "silent", "ended", "unknown-capture"),
                self.shades,
                strict=True,
            )
        )

    def of_finding(self, finding: Finding | None) -> str:
        """Returns the character for a finding: an effect, which is not counted, has its own."""
        if finding is not None and finding.effect_of is not None:
            return self.effect
        return self.of_severity(None if finding is None else finding.severity)

    def of_severity(self, severity: Severity | None) -> str:
        """Returns the character for the severity of a finding; a blank for None."""
        return (
            " "
            if severity is None
            else {"error": self.error, "warning": self.warning, "note": self.note}[severity]
        )


def glyphs_of(app: App[Any]) -> Glyphs:
    """Returns the characters that an application draws with."""
    return cast("ThemedApp", app).glyphs


def variables(theme: Theme, *, has_color: bool) -> dict[str, str]:
    """Returns the colours for the background of a theme, by their names in style sheets."""
    colors = {name: _color(name, theme, has_color=has_color) for name in PAINTS}
    return {
        f"paint-{name}": f"ansi_{color}" if theme.ansi else color for name, color in colors.items()
    }


def _color(name: str, theme: Theme, *, has_color: bool) -> str:
    if (
        theme.ansi
    ):  # uses the terminal's own 16 colours, because only the terminal knows its background
        return PAINTS[name].text or "default"
    # without colour, text is as bright as possible: the greys that stand for red and green would
    # say nothing
    is_plain = not has_color and name.startswith(("kind-", "severity-"))
    paint = PAINTS["kind-item" if is_plain else name]
    return paint.dark if theme.dark else paint.light


THEMES = tuple(BUILTIN_THEMES)
"""Names of Textual's themes."""
DEFAULT_THEME, LIGHT_THEME, TERMINAL_THEME = "textual-dark", "textual-light", "ansi-dark"
"""The default themes, by the terminal's background, and the one that uses its own 16 colours."""


def known_theme(name: str, place: str) -> str:
    """Returns the name if a theme has it. Raises UsageError, whose text begins with the ``place``
    where the theme was named.
    """
    if name not in THEMES:
        close = did_you_mean(name, THEMES) or f"; there are {', '.join(THEMES)}"
        raise UsageError(f"{place} {escape(name)}: no theme has this name{close}")
    return name


def sign_on_cursor(sign: Style, base: Style) -> Style:
    """Returns the style of a sign in the row of the cursor: a block of the sign's colour, so that
    the cursor's colour does not hide it.
    """
    return Style(color=base.bgcolor, bgcolor=sign.color, bold=True)


def style_of(app: App[Any], paint: str) -> Style:
    """Returns the style for a colour of the palette in the current theme. Important causes of gaps
    are reversed and bold.

    A component class for each colour would do the same, but Textual would work out all of them for
    every widget: 30 ms at the start.
    """
    return _style(paint, app.theme, app.no_color) if paint else Style()


@lru_cache(4 * len(PAINTS))
def _style(paint: str, theme: str, no_color: bool) -> Style:
    is_loud = paint in LOUD
    color = _color(paint, BUILTIN_THEMES[theme], has_color=not no_color)
    return Style(color=color, reverse=is_loud or None, bold=is_loud or None)


UNICODE = Glyphs()
ASCII = Glyphs("X", "!", "n", ">", "*", "@", "+", "-", "->", "`", "_.:-=+*#", "#%=-:.")

_DRAWN = str.maketrans(
    {
        **dict.fromkeys("─━▔╌", "-"),
        **dict.fromkeys("│┃▏▕▎▊", "|"),
        **dict.fromkeys("╭╮╰╯┌┐┘├┤┬┴┼┏┓┗┛┣┫┳┻╋", "+"),
        **dict(zip(UNICODE.blocks, ASCII.blocks, strict=True)),
        **dict(zip("└•●✖…–·→←↑↓×", "`*oX~--><^vx", strict=True)),
    }
)


class AsciiOnly(LineFilter):
    """Replaces frames, bars and dashes by ASCII, and all other characters, such as keys in other
    scripts, by a question mark per column.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Changes the segments of a line; Textual calls it for every line."""
        del background
        return [
            segment
            if segment.text.isascii()
            else Segment(_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def _ascii(text: str) -> str:
    return "".join(
        letter if letter.isascii() else "?" * cells(letter) for letter in text.translate(_DRAWN)
    )
