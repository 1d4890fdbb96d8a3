"""The colours of a timeline: each glyph of a lane by meaning, and the legend of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from dcpinspect.output.render.lanes import LETTERS, UNICODE, Glyphs
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.streams import words as w
from dcpinspect.text import cells

Painted = tuple[str, str]
"""A text, and its colour as named in ``palette.PAINTS``; empty for none."""

_OF_EVENTS = {
    **{
        "Q": "kind-request",
        "R": "kind-rollback",
        "S": "kind-system-event",
        "V": "kind-system-event",
    },
    **{"^": "kind-marker", "E": "kind-end", "C": "kind-upkeep", "B": "kind-marker"},
}
EVENTS = tuple(_OF_EVENTS)
"""Letters of events."""
LOUD = ("cause-capture-loss", "cause-unexplained", "cause-rollback")
"""Colours of gaps that are used as background."""
_CAUSES = {letter: cause for cause, letter in LETTERS.items()}


def paint_of(lane: str, glyph: str, glyphs: Glyphs) -> str:
    """Returns the colour of a glyph of a lane."""
    if glyph == " ":
        return ""
    if lane == "gaps":
        return f"cause-{_CAUSES[glyph]}"
    if lane == "items":
        return "chart-bar"
    if lane == "snapshots":
        kinds = [
            kind for number, kind in enumerate(w.SNAPSHOT_TYPES) if glyph in glyphs.of_type(number)
        ]
        if kinds:
            return f"snapshot-{kinds[0]}"
        if glyph in glyphs.history:
            return "snapshot-disk"
        return "snapshot-unknown"
    return _OF_EVENTS.get(glyph, "")


def paints_of(lane: str, text: Iterable[str], glyphs: Glyphs) -> list[str]:
    """Returns the colour of each glyph of a lane; an axis that leads back has a rollback's."""
    text = list(text)
    paints = [paint_of(lane, glyph, glyphs) for glyph in text]
    if lane == "axis" and glyphs.back in text:
        paints = [
            paint or ("kind-rollback" if glyph != " " else "")
            for paint, glyph in zip(paints, text, strict=True)
        ]
    return paints


def joined(text: Iterable[str], paints: Iterable[str]) -> Iterator[Painted]:
    """Joins neighbours of one colour to one piece."""
    for paint, group in groupby(zip(text, paints, strict=True), key=lambda pair: pair[1]):
        yield "".join(glyph for glyph, _ in group), paint


def style_of(paint: str) -> str:
    """Returns a colour of the terminal's own 16, as a style of Rich."""
    colour = PAINTS[paint].text if paint else ""
    return f"{colour} reverse" if paint in LOUD else colour


class Sign(NamedTuple):
    """A glyph or a letter, and its meaning."""

    glyph: str
    paint: str
    word: str


def legend(glyphs: Glyphs = UNICODE) -> list[list[Sign]]:
    """Returns the meanings of glyphs and letters, in lines."""
    bars = [
        Sign(pair, f"snapshot-{kind}", word)
        for pair, kind, word in (
            (glyphs.memory, "memory", "memory"),
            (glyphs.disk, "disk", "disk"),
            (glyphs.oso[0], "oso", "out of order"),
        )
    ]
    bars += [
        Sign(glyphs.history[0], "snapshot-disk", "history"),
        Sign(glyphs.promised, "snapshot-unknown", "promised, did not come"),
    ]
    letters = [Sign(letter, f"cause-{cause}", cause) for cause, letter in LETTERS.items()]
    return [bars, letters, events_legend()]


def events_legend() -> list[Sign]:
    """Returns the meanings of the letters of events."""
    words = (
        "request",
        "rollback",
        "system event",
        "state",
        "seqno advanced",
        "stream end",
        "connection closed",
        "branch",
    )
    return [
        Sign(letter, _OF_EVENTS[letter], word) for letter, word in zip(EVENTS, words, strict=True)
    ]


def legend_lines(signs: Sequence[Sign], width: int | None = None) -> Iterator[list[Painted]]:
    """Yields a line of the legend, broken between two signs where it is wider than ``width``."""
    line: list[Painted] = []
    used = 0
    for sign in signs:
        size = cells(sign.glyph) + 1 + cells(sign.word)
        if line and width is not None and used + 2 + size > width:
            yield line
            line, used = [], 0
        line += [*([("  ", "")] if line else []), (sign.glyph, sign.paint), (f" {sign.word}", "")]
        used += size + (2 if used else 0)
    yield line
