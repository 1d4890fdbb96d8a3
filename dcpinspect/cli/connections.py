"""``dcpinspect connections``: the table of connections."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

connections = command("connections", "Print every connection: its client, what it negotiated and its state.")
