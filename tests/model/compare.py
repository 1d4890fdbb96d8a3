"""Where a reading's tables differ from those of the tape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.model.expect import Tables
from tests.model.facts import Record

IDENTITY: dict[str, tuple[str, ...]] = {
    "connections": ("connection",),
    "streams": ("connection", "vbucket", "sid", "stream"),
    "snapshots": ("connection", "row"),
    "gaps": ("connection", "vbucket", "sid", "stream", "after_seqno", "before_seqno"),
    "vbuckets": ("client", "vbucket"),
}
"""What tells the records of a table apart."""


def nanoseconds(value: Any) -> Any:
    """A time as a number; anything else as it is."""
    if not isinstance(value, str) or len(value) != 30:
        return value
    seconds = datetime.strptime(value[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return int(seconds.timestamp()) * 10**9 + int(value[20:29])


def differences(name: str, expected: Sequence[Record], found: Sequence[Record]) -> list[str]:
    """One line a record that is missing, not expected, or other than expected."""
    identity = IDENTITY[name]

    def key(record: Record) -> tuple[Any, ...]:
        return tuple(repr(record.get(part)) for part in identity)

    theirs = {key(record): record for record in found}
    ours = {key(record): record for record in expected}
    out = (
        [f"{name}: {len(found) - len(theirs)} records with the same {identity}"]
        if len(theirs) != len(found)
        else []
    )
    for place, record in ours.items():
        if place not in theirs:
            out.append(f"{name}: missing {shown(record)}")
            continue
        out += unequal(name, record, theirs[place])
    out += [
        f"{name}: not expected {shown(record)}"
        for place, record in theirs.items()
        if place not in ours
    ]
    return out


def unequal(name: str, record: Record, other: Record, *, without: Iterable[str] = ()) -> list[str]:
    """The keys of a record in which another one differs."""
    out = []
    for part, value in record.items():
        if part.startswith("_") or part in without:
            continue
        got = (
            nanoseconds(other.get(part, "(no such key)"))
            if part.endswith("time")
            else other.get(part, "(no such key)")
        )
        if value != got:
            place = " ".join(
                f"{key} {record[key]}" for key in IDENTITY[name] if record[key] is not None
            )
            out.append(f"{name}: {part} of {place} is {got!r}, expected {value!r}")
    return out


def shown(record: Record) -> str:
    """A record in one line, without what is empty."""
    return " ".join(
        f"{key}={value}"
        for key, value in record.items()
        if not key.startswith("_") and value not in (None, [], {})
    )


def all_differences(expected: Tables, found: Mapping[str, Sequence[Record]]) -> list[str]:
    """Of all tables."""
    return [
        line for name in IDENTITY for line in differences(name, expected.table(name), found[name])
    ]
