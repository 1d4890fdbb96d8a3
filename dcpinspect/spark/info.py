"""What there is in an output: captures, points, connections, tables."""

from __future__ import annotations

from typing import Any

from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.outputs import problems, rows_of, state_of
from dcpinspect.tables.records import time_text

INFO = "dcpinspect.pipeline_info/1"
"""Name and version of the contract."""


def pipeline_info(manifest: Manifest) -> dict[str, Any]:
    """All of it, for JSON."""
    counting = [manifest.units[number] for number in manifest.counting]
    points = []
    for point in dict.fromkeys(one.unit.point for one in manifest.units):
        here = [one for one in counting if one.unit.point == point]
        times = [time for one in here for time in (one.report.first_ns, one.report.last_ns) if time is not None]
        points.append(
            {
                "point": point,
                "captures": len(here),
                "bytes": sum(one.report.size for one in here),
                "packets": sum(one.report.packets for one in here),
                "first_time": time_text(min(times)) if times else None,
                "last_time": time_text(max(times)) if times else None,
            }
        )
    states = [state_of(manifest, one) for one in manifest.units]
    return {
        "schema": INFO,
        "runs": manifest.number,
        "program": manifest.program,
        "options": dict(manifest.options),
        "captures": {state: states.count(state) for state in ("ok", "damaged", "bad", "continued")},
        "points": points,
        "tables": dict(rows_of(manifest)),
        "problems": list(problems(manifest)),
    }
