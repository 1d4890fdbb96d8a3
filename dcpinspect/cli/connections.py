"""``dcpinspect connections``: the table of connections."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

connections = command("connections", "Print every connection: who it is, what it negotiated and how it is.")
