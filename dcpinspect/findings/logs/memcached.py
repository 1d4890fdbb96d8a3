"""Reads the server's memcached.log: what lines about DCP say, and how many are others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import orjson

from dcpinspect.findings.logs.forms import (
    DCP,
    END_REASONS,
    JSON_FORMS,
    JSON_VERSIONS,
    KIND_COLUMNS,
    KIND_REASONS,
    KINDS,
    SAYING,
    TEXT_FORMS,
    JsonForm,
    LineKind,
    TextForm,
)
from dcpinspect.findings.logs.log_events import LEVELS, NUMBERS, ROLES, LogEvent
from dcpinspect.findings.logs.log_lines import json_object
from dcpinspect.protocol.flags import STREAM_END_REASONS

_LIMITS = {"i64": 2**63, "u64": 2**64, "hex64": 2**64}
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{1,9})(Z|[+-]\d\d:?\d\d) ([A-Za-z]{4,8}) (.*)", re.DOTALL
)
_HEAD = re.compile(
    r"(?:(?P<conn_id>\d{1,20}): )?(?:\((?!vb|sid)(?P<bucket>[A-Za-z0-9_.%-]{1,100}|No Engine)\) )?"
    r"(?:DCP \((?P<role>Producer|Consumer|Notifier)\) (?P<name>.+?) -[ ;]?)?"
    r"(?: ?\(?(?:vb[: ])(?P<vbucket>\d{1,5})\)? )?(?: ?\(sid:(?P<sid>\w{1,10})\) )?(?P<text>.*)",
    re.DOTALL,
)
_SID_AT_END = re.compile(r"sid:(\d{1,10})$")
_VB = re.compile(r"vb:(\d{1,5})")
_SID = re.compile(r"sid:(\d{1,10})")
_NAMES = frozenset(("conn_id", "bucket", "dcp", "dcp_name", "vb", "sid", "stream_id"))
"""Keys of the values that name what a line is about."""


class MemcachedLog:
    """Reads one log line by line, and counts the lines that it cannot use."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.events = 0
        """Number of lines that became records."""
        self.unknown = 0
        """Number of lines about DCP in no form that is known here."""
        self.others = 0
        """Number of lines of a log that are about other things."""

    def take(self, number: int, raw: bytes) -> LogEvent | bool | None:
        """Returns the record of a line; None for a line of a log that has no record; False for a
        line that belongs to no log at all.
        """
        line = _LINE.fullmatch(raw.decode("utf-8", "surrogateescape"))
        if line is None or line[4].lower() not in LEVELS:
            return False
        time_ns = _time_ns(line[1], line[2], line[3])
        if time_ns is None:
            return False
        event = self._event(number, line[5])
        if event is None:
            return None
        event.time, event.level = time_ns, line[4].lower()
        self.events += 1
        return event

    def _event(self, number: int, text: str) -> LogEvent | None:
        event = self._of_json(number, text) or self._of_text(number, text)
        if event is None:
            if DCP in text or '"dcp":' in text:
                self.unknown += 1
            else:
                self.others += 1
        return event

    def _of_json(self, number: int, text: str) -> LogEvent | None:
        """Returns the record of a line of 8.0 or later, or None."""
        message, brace, json_text = text.partition(" {")
        form = JSON_FORMS.get(message)
        if not brace or (form is None and '"dcp":' not in json_text):
            return None
        values = json_object(f"{{{json_text}")
        if values is None or (form is None and (form := _kind(message, values)) is None):
            return None
        event = LogEvent(self._file, number, form.event, versions=JSON_VERSIONS, text=text)
        return event if _fill(event, form, values) else None

    def _of_text(self, number: int, text: str) -> LogEvent | None:
        """Returns the record of an earlier version's line, or of one still text, or None."""
        forms: list[TextForm | LineKind] = [form for form in TEXT_FORMS if form.word in text]
        if DCP in text:
            forms += KINDS
        if not forms:
            return None
        values: Mapping[str, Any] = {}
        if (
            text.endswith("}")
            and (brace := text.find(' {"')) > 0
            and (named_values := json_object(text[brace + 1 :])) is not None
        ):
            # because texts of 8.0 and later are followed by names
            text, values = (text[:brace], named_values)
        head = _HEAD.fullmatch(text)
        assert head is not None, "it takes any text"
        for form in forms:
            fits = form.pattern.fullmatch(head["text"])
            if fits is None:
                continue
            event = LogEvent(
                self._file, number, form.event, versions=form.versions, text=head["text"]
            )
            if form.event in SAYING:
                event.reason = head["text"]
            named = (
                _filled(event, head.groupdict())
                and _filled(event, fits.groupdict())
                and _named(event, values)
            )
            if not named:
                return None
            if event.bucket == "No Engine":
                event.bucket = None
            if (
                event.sid is None
                and form.event == "stream-created"
                and (sid := _SID_AT_END.search(head["text"]))
            ):
                event.sid = int(sid[1])
            return event if _reason(event) else None
        return None


@lru_cache(256)
def _event(message: str) -> str | None:
    """Returns the event that a message of 8.0 or later tells; there are few such messages."""
    return next((kind.event for kind in KINDS if kind.message.fullmatch(message)), None)


def _kind(message: str, values: Mapping[str, Any]) -> JsonForm | None:
    """Returns the form of a line of 8.0 or later that only ``KINDS`` knows, with its reason; None
    if they do not know it either.
    """
    event = _event(message)
    if event is None:
        return None
    if event in KIND_REASONS:
        return JsonForm(event, {**KIND_COLUMNS, KIND_REASONS[event]: "reason"})
    unnamed = [f"{key} {value}" for key, value in values.items() if key not in _NAMES]
    return JsonForm(
        event,
        KIND_COLUMNS,
        f"{message}{': ' if unnamed else ''}{', '.join(unnamed)}" if event in SAYING else None,
    )


def _time_ns(whole: str, fraction: str, zone: str) -> int | None:
    """Returns nanoseconds since 1970; None if there is no such time, or 64 bits do not hold it."""
    try:
        moment = datetime.fromisoformat(whole).replace(tzinfo=UTC)
        if zone != "Z":
            ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            moment = moment - ahead if zone[0] == "+" else moment + ahead
    except (ValueError, OverflowError):
        return None
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    time_ns = seconds * 10**9 + int(fraction.ljust(9, "0"))
    return time_ns if abs(time_ns) < 2**63 else None


def _filled(event: LogEvent, groups: Mapping[str, str | None]) -> bool:
    """Sets the columns of an event; returns whether all numbers are ones that a column can hold."""
    for name, text in groups.items():
        if text is None or name == "text":
            continue
        if name == "sid" and not text.isdecimal():
            continue  # a stream-id of "none"
        if name == "role":
            event.role = text.lower()
        elif name in NUMBERS:
            if not _set_number(event, name, int(text)):
                return False
        else:
            setattr(event, name, text)
    return True


def _fill(event: LogEvent, form: JsonForm, values: Mapping[str, Any]) -> bool:
    if not _named(event, values):
        return False
    snapshot = values.get("snapshot")
    if snapshot is not None and not (isinstance(snapshot, list) and len(snapshot) == 2):
        return False
    numbers = dict(zip(("snapshot_start", "snapshot_end"), snapshot or (), strict=False))
    event.reason = form.reason
    for key, name in form.columns.items():
        value = values.get(key)
        if value is None:
            continue
        if name in NUMBERS:
            numbers[name] = value
        else:
            setattr(event, name, value if isinstance(value, str) else orjson.dumps(value).decode())
    return all(_set_number(event, name, value) for name, value in numbers.items()) and _reason(
        event
    )


def _named(event: LogEvent, values: Mapping[str, Any]) -> bool:
    """Sets the names that follow every line of 8.0 and later."""
    for key, name in (("bucket", "bucket"), ("dcp_name", "name")):
        value = values.get(key)
        if isinstance(value, str):
            setattr(event, name, value)
    if values.get("dcp") in ROLES:
        event.role = values["dcp"]
    connection = values.get("conn_id")
    if connection is not None and not _set_number(event, "conn_id", connection):
        return False
    for key, name, pattern in (
        ("vb", "vbucket", _VB),
        ("sid", "sid", _SID),
        ("stream_id", "sid", _SID),
    ):
        value = values.get(key)
        if isinstance(value, str):
            matched = pattern.fullmatch(value)
            value = int(matched[1]) if matched else None
        if value is not None and not _set_number(event, name, value):
            return False
    return True


def _set_number(event: LogEvent, name: str, value: object) -> bool:
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not 0 <= value < _LIMITS[NUMBERS[name]]
    ):
        return False
    if name == "vbucket" and value > 0xFFFF:
        return False
    setattr(event, name, value)
    return True


def _reason(event: LogEvent) -> bool:
    """Replaces the reason of a stream's end by its word; returns whether that is known."""
    if event.event in ("stream-closed", "end-received"):
        reason = event.reason or ""
        event.reason = END_REASONS.get(reason)
        if event.event == "end-received" and reason.isdecimal():
            event.reason = STREAM_END_REASONS.get(int(reason))  # as up to 7.6
        return event.reason is not None
    return True
