"""``dcpinspect export``: what ``read`` shows, in a file of the format that its name says."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dcpinspect.cli import options
from dcpinspect.cli.read import Files, show


@options.shared(show)
def export(
    context: typer.Context,
    captures: options.Captures,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, which appears when it is complete.")],
    **choices: Any,  # show's
) -> int:
    """Write the messages of captures (pcap or pcapng) to a file, in the format that its name says."""
    return show(context, Files(captures), output=output, **choices)
