"""``dcpinspect schema``: prints the contract of an output, which is part of the package."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Annotated

import typer

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape


def known_tables() -> list[str]:
    """Returns the names of the outputs that have a JSON Schema."""
    folder = files("dcpinspect.export") / "schemas"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def schema(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The output, as in message, stream or gap.", autocompletion=known_tables)],
) -> None:
    """Print the JSON Schema of an output."""
    known = known_tables()
    if table not in known:
        raise UsageError(f"no schema for '{escape(table)}'; there is one for {', '.join(known)}")
    sys.stdout.write((files("dcpinspect.export") / "schemas" / f"{table}.json").read_text("utf-8"))
