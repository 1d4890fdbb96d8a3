"""A rule: what it looks for, when it keeps silent, what to do about what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import Whose
from dcpinspect.protocol.message import Severity

Blamed = Whose | Literal["sender", "receiver"]
"""The last two: of the message that the finding is about, client or server."""
_SENDS: Mapping[str | None, Whose] = {"c2s": "client", "s2c": "server"}
_RECEIVES: Mapping[str | None, Whose] = {"c2s": "server", "s2c": "client"}

Need = Literal["contents", "flow", "noops", "histories"]
"""What a tracker only follows for rules that need it, by the name that it has there."""

Family = Literal["wire", "session", "stream", "snapshot", "flow", "noop", "capture", "log", "lint"]

FAMILIES: tuple[Family, ...] = ("wire", "session", "stream", "snapshot", "flow", "noop", "capture", "log", "lint")

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Worst first."""


LONG_NS = 5_000_000_000
"""What waits for so long, and to the end, does not go on."""
GOES_ON, CLOSED, SILENT = "goes-on", "closed", "silent"
"""Causes of rules about an answer that does not come: what comes instead from that side. Where nothing does, a capture cannot tell a side
that hangs from a host that is down or a network that carries nothing, so that nobody is blamed, and a network never is."""


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
    whose: Blamed | Mapping[str, Blamed] = field(kw_only=True)
    """Who has to change something; by cause where that differs, and of other causes nobody knows."""
    cost: Cost | None = field(default=None, kw_only=True)
    """What it means for those that it happened to; none where nobody bears it, or its findings only recommend."""
    causes: tuple[str, ...] = ()
    """Kinds that its findings are told apart by."""
    reports: tuple[str, ...] = ()
    """Public reports of the same trouble."""
    is_told_once: bool = False
    """Two vbuckets that share a cause are one finding already."""
    needs: tuple[Need, ...] = ()
    """What the tracker has to follow for it."""

    def whose_is(self, cause: str | None, direction: str | None) -> Whose:
        """Whose a finding of this cause is. ``direction``: of the message that it is about, where there is one."""
        blamed = self.whose if isinstance(self.whose, str) else self.whose.get(cause or "", "unknown")
        if blamed != "sender" and blamed != "receiver":
            return blamed
        sides = _SENDS if blamed == "sender" else _RECEIVES
        return sides.get(cause) or sides.get(direction) or "unknown"
