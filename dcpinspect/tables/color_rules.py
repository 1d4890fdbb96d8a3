"""Colours of one's own: filters, each with the colour of the messages for which it is true. The first one that is true counts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.protocol.columns import Rows
from dcpinspect.suggest import did_you_mean
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FirstTrue
from dcpinspect.tables.filter_tree import Source
from dcpinspect.tables.messages import MessageBatch

NAMES = tuple(
    f"{bright}{hue}" for bright in ("", "bright_") for hue in ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
)
"""The colours that every terminal has; what they look like is its own affair."""
MOST = 255
"""Rules; who writes lines tells them apart by a byte."""


class ColorRules:
    """The rules of a config file."""

    def __init__(self, rules: Mapping[str, str], *, place: str, saved: Mapping[str, Source] | None = None) -> None:
        """``rules``: colours by filter. ``place``: where they were written, for errors. Raises UsageError, PlacedError."""
        if len(rules) > MOST:
            raise UsageError(f"{place}: has more than {MOST} rules; leave some out")
        self._first = FirstTrue([parse_filter(text, name=place, saved=saved) for text in rules])
        self.colors = [_color(text, color, place) for text, color in rules.items()]
        """By the numbers that ``numbers`` gives, less one."""

    def numbers(self, batch: MessageBatch, rows: Rows) -> Rows:
        """For each of these messages the number of the rule that counts, from 1; 0: none does."""
        return self._first.numbers(batch, rows)


def _color(text: str, color: str, place: str) -> str:
    name = color.strip().lower()
    if re.fullmatch("#[0-9a-f]{6}", name):
        return name
    name = name.replace("-", "_")
    if name not in NAMES:
        close = did_you_mean(name, NAMES) or f"; write #rrggbb or one of {', '.join(NAMES)}"
        raise UsageError(f"{place} {escape(text)}: {escape(color) or 'nothing'} is no colour{close}")
    return name
