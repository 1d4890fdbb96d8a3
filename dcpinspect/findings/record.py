"""A finding as a record of the output contract ``dcpinspect.finding/1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.rule import Rule
from dcpinspect.tables.records import time_text

SCHEMA = "dcpinspect.finding/1"


def record(finding: Finding, rules: Mapping[str, Rule], files: Sequence[str]) -> dict[str, Any]:
    """The finding by key, in the order of the contract; ``files`` beside ``frames`` where several captures are read."""
    out: dict[str, Any] = {
        "schema": SCHEMA,
        "rule": finding.rule,
        "family": rules[finding.rule].family,
        "severity": finding.severity,
        "cause": finding.cause,
        "message": finding.message,
        "next": finding.next,
        "connection": finding.connection,
        "connections": list(finding.connections),
        "vbuckets": list(finding.vbuckets),
        "sid": finding.sid,
        "rows": [place.row for place in finding.places],
        "frames": [place.frame for place in finding.places],
    }
    if len(files) > 1:
        out["files"] = [files[place.file] for place in finding.places]
    return out | {
        "evidence": [
            {
                "connection": place.connection,
                "direction": place.direction,
                "stream_offset": place.stream_offset,
                "file": files[place.file],
                "frame": place.frame,
            }
            for place in finding.places
        ],
        "seqnos": list(finding.seqnos),
        "first_time": time_text(finding.first_time_ns),
        "last_time": time_text(finding.last_time_ns),
        "count": finding.count,
    }
