"""A rule: what it looks for, when it keeps silent, what to do about what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dcpinspect.protocol.message import Severity

Need = Literal["contents", "flow", "noops", "histories"]
"""What a tracker only follows for rules that need it, by the name that it has there."""

Family = Literal["wire", "session", "stream", "snapshot", "flow", "noop", "capture", "lint"]

FAMILIES: tuple[Family, ...] = ("wire", "session", "stream", "snapshot", "flow", "noop", "capture", "lint")

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong; ids are stable."""

    id: str
    family: Family
    severity: Severity
    """Of most of its findings; a finding may be milder or worse where ``fires`` says so."""
    fires: str
    """What must be known to have happened."""
    unless: str
    """What looks like it and is none."""
    next: str
    """What to do about it."""
    causes: tuple[str, ...] = ()
    """Kinds that its findings are told apart by."""
    reports: tuple[str, ...] = ()
    """Public reports of the same trouble."""
    is_told_once: bool = False
    """Two vbuckets that share a cause are one finding already."""
    needs: tuple[Need, ...] = ()
    """What the tracker has to follow for it."""
