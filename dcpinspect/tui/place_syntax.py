"""Parses the places that a user types to go there: a row, a frame, a vbucket and seqno, a time, or
a rule.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from dcpinspect.errors import UsageError
from dcpinspect.findings.registry import RULES
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import clip, did_you_mean, escape

FORMS = "a row 1047, frame f988, vb417, vb417@842, time 12.5s or 14:03:22, mark m2, or a rule"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go: exactly one of the fields is set, or ``vbucket`` and ``seqno``."""

    row: int | None = None
    frame: int | None = None
    vbucket: int | None = None
    seqno: int | None = None
    time_ns: int | None = None
    """Nanoseconds since 1970."""
    rule: str | None = None
    mark: int | None = None
    """Number of the mark, from 1."""


def parse_place(text: str, first_ns: int) -> Target:
    """Returns the place that a text names. ``first_ns``: time of the first packet, from which
    ``12.5s`` counts. Raises UsageError.
    """
    word = _short(text.strip().lower().removeprefix(":").replace(",", "").replace("_", ""))
    if re.fullmatch(r"\d{1,18}", word, re.ASCII):
        return Target(row=int(word))
    if match := re.fullmatch(r"f(\d{1,18})", word, re.ASCII):
        return Target(frame=int(match[1]))
    if match := re.fullmatch(r"m(\d{1,9})", word, re.ASCII):
        return Target(mark=int(match[1]))
    if match := re.fullmatch(r"vb?(\d{1,5})(?:@(\d{1,20}))?", word, re.ASCII):
        return Target(vbucket=int(match[1]), seqno=int(match[2]) if match[2] else None)
    if match := re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?s", word, re.ASCII):
        return Target(
            time_ns=first_ns + int(match[1]) * 10**9 + int((match[2] or "0").ljust(9, "0"))
        )
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", word, re.ASCII):
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        if hour > 23 or minute > 59 or second > 59:
            raise UsageError(f"{escape(word)} is no time of day")
        day = datetime.fromtimestamp(first_ns // 10**9, UTC).replace(
            hour=hour, minute=minute, second=second
        )
        return Target(time_ns=int(day.timestamp()) * 10**9 + int((match[4] or "0").ljust(9, "0")))
    rule = text.strip().removeprefix(":")
    if rule in RULES:
        return Target(rule=rule)
    advice = (
        did_you_mean(text.strip(), RULES)
        or "; give 1047, f988, vb417@842, 12.5s, 14:03:22, m2 or a rule"
    )
    raise UsageError(f"no place {clip(escape(text.strip()), 24)}{advice}")


_LETTERS = {"row": "", "frame": "f", "vbucket": "vb", "vb": "vb", "mark": "m", "time": ""}


def _short(word: str) -> str:
    """Returns a place without the noun before it, as in ``frame 988`` and ``frame f988``."""
    match = re.fullmatch(rf"({'|'.join(_LETTERS)})\s*(\S+)", word)
    if match is None or not match[2][-1:].isalnum():
        return word
    letters, number_text = _LETTERS[match[1]], match[2]
    return number_text if not letters or not number_text[0].isdigit() else letters + number_text
