"""``dcpinspect rollbacks``: the table of rollbacks."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

rollbacks = command("rollbacks", "Print every rollback: what was asked, the server's history, why, and the request that would work.")
