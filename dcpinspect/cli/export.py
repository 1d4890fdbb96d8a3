"""``dcpinspect export``: what ``read`` shows, in a file of the format that its name says."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from dcpinspect.cli.read import read


def export(**choices: Any) -> int:  # Any: they are read's parameters, which the signature below declares
    """Write the messages of captures (pcap, pcapng; - is standard input) to a file, in the format that its name says."""
    return read(**choices)


def _signature() -> inspect.Signature:
    """That of ``read``, but for the file, which is asked for."""
    original = inspect.signature(read, eval_str=True)
    file = inspect.Parameter(
        "output",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[
            str, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, which appears when it is complete.")
        ],
    )
    others = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, one in original.parameters.items() if name != "output"]
    return original.replace(parameters=[others[0], file, *others[1:]])


setattr(export, "__signature__", _signature())  # noqa: B010 - typer reads it; functions do not declare it
