"""``dcpinspect gaps``: the table of gaps."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

gaps = command("gaps", "Print every run of seqnos that a stream did not deliver, and why.")
