"""``dcpinspect snapshots``: the table of snapshots."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

snapshots = command("snapshots", "Print every snapshot: its range and type, and whether it is complete.")
