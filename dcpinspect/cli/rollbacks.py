"""``dcpinspect rollbacks``: the table of rollbacks."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

rollbacks = command("rollbacks", "Print every rollback: the request, the server's history, the cause, and a request that would work.")
