"""``dcpinspect streams``: the table of streams."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

streams = command("streams", "Print every stream: its request, its answer, what was delivered and how it ended.")
