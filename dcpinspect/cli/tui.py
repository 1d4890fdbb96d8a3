"""``dcpinspect tui``: the terminal UI."""

from __future__ import annotations

import os
import sys

import typer

from dcpinspect.cli import options
from dcpinspect.errors import UsageError


def tui(
    context: typer.Context,
    captures: options.Captures,
    filter_: options.Filter = None,
    ascii_: options.Ascii = False,
    port: options.Port = None,
) -> int:
    """Look through captures in the terminal: messages and their bytes, every vbucket, timelines, findings."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UsageError("tui: standard input and output must be a terminal; 'dcpinspect read' prints messages, 'check' what is wrong")
    extra_ports, find_ports = options.ports(port)
    # Deferred: Textual and the decoder; --help and completion do without.
    from dcpinspect.tui.app import InspectApp
    from dcpinspect.tui.inspection import Inspection

    inspection = Inspection(captures, extra_ports=extra_ports, find_ports=find_ports)
    app = InspectApp(
        inspection,
        is_ascii=ascii_ or os.environ.get("TERM") == "linux",
        saved=options.saved_filters(context.obj),
        filter_text=filter_ or "",
    )
    try:
        app.run()
    finally:
        app.close()
    return app.return_code or 0
