"""``dcpinspect vbuckets``: the table of vbuckets."""

from __future__ import annotations

from dcpinspect.cli.record_tables import command

vbuckets = command("vbuckets", "Print the state of every vbucket, over all connections of a client.")
