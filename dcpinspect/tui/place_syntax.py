"""Parses the places that a user types: a row, frame, vbucket and seqno, time, or rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from dcpinspect.errors import UsageError
from dcpinspect.findings.registry import RULES
from dcpinspect.text import clip, did_you_mean, escape

FORMS = "a row 1047, frame f988, vb417, vb417@842, time 12.5s or 14:03:22, or a rule"


class Target(NamedTuple):
    """Where to go."""

    kind: Literal["row", "frame", "vbucket", "time", "rule"]
    number: int = 0
    """Of a time: nanoseconds since 1970."""
    seqno: int | None = None
    rule: str = ""


_NUMBERED: Mapping[Literal["row", "frame", "vbucket"], str] = {
    "row": r"(?:row)?(\d{1,18})",
    "frame": r"(?:frame|f){1,2}(\d{1,18})",
    "vbucket": r"(?:vbucket|vb|v){1,2}(\d{1,5})(?:@(\d{1,20}))?",
}


def parse_place(text: str, first_ns: int) -> Target:
    """Returns the place that a text names. ``first_ns``: time of the first packet, from which
    ``12.5s`` counts. Raises UsageError.
    """
    word = re.sub("^:?(time )?|[,_ ]", "", text.strip().lower())
    for kind, form in _NUMBERED.items():
        if match := re.fullmatch(form, word, re.ASCII):
            seqno = match[2] if kind == "vbucket" else None
            return Target(kind, int(match[1]), int(seqno) if seqno else None)
    if match := re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?s", word, re.ASCII):
        since_ns = int(match[1]) * 10**9 + int((match[2] or "0").ljust(9, "0"))
        return Target("time", first_ns + since_ns)
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", word, re.ASCII):
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        if hour > 23 or minute > 59 or second > 59:
            raise UsageError(f"{escape(word)} is no time of day")
        day = datetime.fromtimestamp(first_ns // 10**9, UTC).replace(
            hour=hour, minute=minute, second=second
        )
        return Target("time", int(day.timestamp()) * 10**9 + int((match[4] or "0").ljust(9, "0")))
    rule = text.strip().removeprefix(":")
    if rule in RULES:
        return Target("rule", rule=rule)
    advice = (
        did_you_mean(text.strip(), RULES)
        or "; give 1047, f988, vb417@842, 12.5s, 14:03:22 or a rule"
    )
    raise UsageError(f"no place {clip(escape(text.strip()), 24)}{advice}")
