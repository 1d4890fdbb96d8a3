"""Takes JSON apart one level at a time, so that a value of 20 MB, or with a million brackets, costs
only what is shown of it.

This module does not check whether the JSON is valid: text that does not fit ends a level, and the
level says so.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

Kind = Literal["object", "array", "string", "number", "literal"]

STEPS = 500_000
"""Number of runs of brackets that are searched for one level; this takes 0.2 seconds."""
LONGEST = 1 << 16
"""Greatest length in bytes of a string that is decoded; a longer string is shown as it is written.
"""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NAME = re.compile(rb"\s*+(" + _STRING + rb")\s*+:", re.DOTALL)
_VALUE = re.compile(rb"\s*+(?:(" + _STRING + rb")|([\[{])|([^\s,:\"\[\]{}]++))", re.DOTALL)
_NEXT = re.compile(rb"\s*+([,\]}])")
_EMPTY = re.compile(rb"\s*+[\]}]")
_BRACKETS = re.compile(
    rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+)*+([\[{]++|[\]}]++)', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Part:
    """A value inside a JSON text, from ``start`` to ``end``."""

    name: str
    """Name of the value in its object, or number in its array; safe for a terminal."""
    kind: Kind
    start: int
    end: int

    @property
    def is_container(self) -> bool:
        """Whether the value can contain other values."""
        return self.kind in ("object", "array")


@dataclass(frozen=True, slots=True)
class Level:
    """The values directly inside an object or array."""

    parts: tuple[Part, ...]
    why: str = ""
    """Why no more values are listed although the text goes on; empty if the level is complete."""


def root(text: bytes) -> Part | None:
    """Returns the object or array that a text consists of; None for other texts. Looks only at both
    ends of the text.
    """
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    bracket = text[start : start + 1]
    if end - start < 2 or (bracket, text[end - 1 : end]) not in ((b"{", b"}"), (b"[", b"]")):
        return None
    return Part("", "object" if bracket == b"{" else "array", start, end)


def level(text: bytes, inside: Part, limit: int) -> Level:
    """Returns the first ``limit`` values directly inside an object or array."""
    members: list[Part] = []
    offset, steps_left = inside.start + 1, STEPS
    if _EMPTY.match(text, offset):
        return Level(())
    while len(members) < limit:
        name = str(len(members))
        if inside.kind == "object":
            named = _NAME.match(text, offset, inside.end)
            if named is None:
                return Level(tuple(members), f"no JSON from byte {offset} on")
            name, offset = string(named[1])[1:-1], named.end()
        value = _VALUE.match(text, offset, inside.end)
        if value is None:
            return Level(tuple(members), f"no JSON from byte {offset} on")
        start = value.start(value.lastindex or 0)
        end, steps_left = (
            (value.end(), steps_left)
            if value[2] is None
            else _closed(text, start, inside.end, steps_left)
        )
        if end < 0:
            members.append(Part(name, _kind(value), start, inside.end))
            return Level(
                tuple(members),
                f"no end of what begins at byte {start}"
                if steps_left
                else "too much to look through behind this",
            )
        members.append(Part(name, _kind(value), start, end))
        behind = _NEXT.match(text, end, inside.end)
        if behind is None:
            return Level(tuple(members), f"no JSON from byte {end} on")
        if behind[1] != b",":
            return Level(tuple(members))
        offset = behind.end()
    return Level(tuple(members), "more")


def string(source: bytes) -> str:
    """Returns a string decoded, in quotes; safe for a terminal."""
    if len(source) <= LONGEST:
        try:
            return f'"{escape(json.loads(source))}"'
        except ValueError:
            pass
    return escape(source)


def _kind(value: re.Match[bytes]) -> Kind:
    if value[1] is not None:
        return "string"
    if value[2] is not None:
        return "object" if value[2] == b"{" else "array"
    return "literal" if value[3][:1].isalpha() else "number"


def _closed(text: bytes, start: int, end: int, steps: int) -> tuple[int, int]:
    """Returns the place behind the bracket that closes the one at ``start``, and the steps left.
    The place is -1 if none was found.
    """
    depth, offset = 0, start
    while steps:
        steps -= 1
        run = _BRACKETS.match(text, offset, end)
        if run is None:
            return -1, steps + 1
        offset, size = run.end(), run.end() - run.start(1)
        if run[1][:1] in (b"[", b"{"):
            depth += size
        elif size >= depth:
            return offset - (size - depth), steps
        else:
            depth -= size
    return -1, 0
