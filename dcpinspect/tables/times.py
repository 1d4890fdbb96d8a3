"""Spans of time that a user asks for: absolute, from the first packet, or back from the last."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.filter_values import nanoseconds
from dcpinspect.text import clip, escape

DAY_NS = 86_400_000_000_000
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": DAY_NS,
}
_SPAN = re.compile(r"([+-]?)(\d{1,12})(?:\.(\d{1,9}))?\s*(ns|us|ms|s|min|m|h|d)?", re.ASCII)
_CLOCK = re.compile(
    r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?\s*(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII | re.IGNORECASE
)
_EPOCH_S = 10**8
"""Seconds from which on a number without a unit is in seconds since 1970: as a time from the start,
it would be three years.
"""
_GREATEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time."""

    counts_from: Literal["epoch", "start", "end", "midnight"]
    ns: int

    def time_ns(self, first_ns: int, last_ns: Callable[[], int]) -> int:
        """Returns the moment in nanoseconds since 1970, in a capture from ``first_ns`` to
        ``last_ns()``.

        A time of day is on the day of the first packet, or on the next day if it would be more than
        half a day before that packet.
        """
        if self.counts_from == "midnight":
            time_ns = first_ns // DAY_NS * DAY_NS + self.ns
            return time_ns + DAY_NS if time_ns < first_ns - DAY_NS // 2 else time_ns
        return (
            self.ns
            + {"epoch": 0, "start": first_ns}.get(self.counts_from, 0)
            + (last_ns() if self.counts_from == "end" else 0)
        )


_START = Moment("start", 0)


def moment(text: str, option: str) -> Moment:
    """Parses the value of ``option``. Raises UsageError."""
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        sign, whole_units, _, unit = span.groups()
        if (ns := _length(span)) <= _GREATEST:
            if sign == "-":
                return Moment("end", -ns)
            is_epoch = unit is None and not sign and int(whole_units) >= _EPOCH_S
            return Moment("epoch" if is_epoch else "start", ns)
    elif _CLOCK.fullmatch(text.strip()):
        if (time_ns := nanoseconds(f"1970-01-01 {text.strip()}")) is not None:
            return Moment("midnight", time_ns)
    elif (epoch_ns := nanoseconds(text)) is not None:
        return Moment("epoch", epoch_ns)
    raise UsageError(
        f"{option} {clip(escape(text), 40)}: write a time in UTC ('2024-04-06 12:03:41', "
        "12:03:41), after the start (90s, 10m), or before the end (-10m)"
    )


def length(text: str, option: str, example: str = "30s or 10m", *, with_unit: bool = False) -> int:
    """Parses a length of time such as ``30s`` or ``10m``, and returns nanoseconds. ``with_unit``: a
    unit is required; else seconds are assumed.

    Raises UsageError, which contains the ``example``.
    """
    span = _SPAN.fullmatch(text.strip())
    if span is not None and not span[1] and (span[4] or not with_unit):
        ns = _length(span)
        if ns <= _GREATEST:
            return ns
    raise UsageError(f"{option} {clip(escape(text), 40)}: write a length of time, as in {example}")


def _length(span: re.Match[str]) -> int:
    """Returns the nanoseconds of a span, whatever its sign."""
    size = _UNITS[span[4] or "s"]
    return int(span[2]) * size + int((span[3] or "0").ljust(9, "0")) * size // 10**9


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span from ``since`` to before ``until``; None is no bound."""

    since: Moment | None
    until: Moment | None
    last_ns: Callable[[], int]
    """Returns the time of the last packet; called only if a bound counts from there."""

    def bounds(self, first_ns: int) -> tuple[int, int]:
        """Returns [from, to) in nanoseconds since 1970, in a capture beginning at ``first_ns``.

        Raises UsageError for an end before the beginning.
        """
        # packets may be older than the first one
        since = None if self.since == _START else self.since
        low, high = (
            None if moment_ is None else moment_.time_ns(first_ns, self.last_ns)
            for moment_ in (since, self.until)
        )
        if low is not None and high is not None and high < low:
            raise UsageError("--until: is before --since; give a later time")
        return (-_GREATEST if low is None else low), (_GREATEST if high is None else high)

    def within(self, first_ns: int | None, last_ns: int | None) -> tuple[int, int]:
        """Returns the bounds in a capture that was read, from its first packet to its last."""
        return replace(self, last_ns=lambda: last_ns or 0).bounds(first_ns or 0)


def in_words(bounds: tuple[int, int]) -> str:
    """Describes a span of time: ``from 12:01:00 to 12:02:00 UTC``."""
    since, until = (None if abs(bound) == _GREATEST else _clock(bound) for bound in bounds)
    if until is None:
        return f"from {since} UTC on" if since is not None else ""
    return f"before {until} UTC" if since is None else f"from {since} to {until} UTC"


def day_and_time(time_ns: int) -> str:
    """Returns day and time in UTC, as texts for people have them: ``2024-04-06 12:01:00.587``."""
    moment_utc = datetime.fromtimestamp(time_ns // 10**9, UTC)
    return f"{moment_utc:%Y-%m-%d %H:%M:%S}.{time_ns // 10**6 % 1000:03d}"


def _clock(time_ns: int) -> str:
    """Returns the time of day, with milliseconds if they are not 0."""
    seconds, millis = divmod(time_ns % DAY_NS // 10**6, 1000)
    fraction = f".{millis:03d}" if millis else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
