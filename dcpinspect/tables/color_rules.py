"""Colour rules of the user: filters, each with the colour of the messages that match. The first
filter that matches counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dcpinspect.errors import UsageError
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FirstTrue
from dcpinspect.tables.filter_tree import FilterSource
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import did_you_mean, escape

NAMES = tuple(
    f"{bright}{hue}"
    for bright in ("", "bright_")
    for hue in ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
)
"""The colours that every terminal has; the terminal decides what they look like."""
MOST = 255
"""Greatest number of rules; the number of a rule must fit into a byte."""


class ColorRules:
    """The rules of a config file."""

    def __init__(
        self,
        rules: Mapping[str, str],
        *,
        place: str,
        saved: Mapping[str, FilterSource] | None = None,
    ) -> None:
        """Reads the rules. ``rules``: colours by filter. ``place``: where they are written, for
        errors. Raises UsageError, PlacedError.
        """
        if len(rules) > MOST:
            raise UsageError(f"{place}: has more than {MOST} rules; leave some out")
        self._first = FirstTrue([parse_filter(text, name=place, saved=saved) for text in rules])
        self.colors = [_color(text, color, place) for text, color in rules.items()]
        """Colours by the numbers from ``numbers``, less one."""

    def numbers(self, batch: MessageBatch, rows: RowNumbers) -> RowNumbers:
        """Returns for each of these messages the number of its rule, from 1; 0: none matches."""
        return self._first.numbers(batch, rows)


def _color(text: str, color: str, place: str) -> str:
    name = color.strip().lower()
    if re.fullmatch("#[0-9a-f]{6}", name):
        return name
    name = name.replace("-", "_")
    if name not in NAMES:
        close = did_you_mean(name, NAMES) or f"; write #rrggbb or one of {', '.join(NAMES)}"
        raise UsageError(
            f"{place} {escape(text)}: {escape(color) or 'nothing'} is no colour{close}"
        )
    return name
