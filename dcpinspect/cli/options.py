"""Flags that mean the same in every command that has them: declared once, used in a command's signature as a type.

``def read(captures: Captures, vbucket: VBuckets = None, …)``. They carry text as typed; the command parses it where it uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.export.formats import Format

if TYPE_CHECKING:
    from dcpinspect.tables.select import Selection

Captures = Annotated[
    list[str], typer.Argument(metavar="CAPTURE…", help="Capture files, read as one in order of time; - is standard input.")
]
Port = Annotated[
    list[str] | None,
    typer.Option(
        "--port", metavar="PORT|auto", help="A server port besides 11210 and 11207, or auto: any that carries DCP; may be repeated."
    ),
]
Stats = Annotated[bool, typer.Option("--stats", help="Say at the end, on standard error, what became of every packet and byte.")]
Limit = Annotated[int | None, typer.Option("-n", "--limit", metavar="N", min=0, help="Stop after N messages, counted after the filters.")]
Skip = Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Leave out the first N messages, counted after the filters.")]
OutputFormat = Annotated[
    Format | None,
    typer.Option("--format", "-f", show_default=False, help="How to write them; without, as the name of -o FILE says, else text."),
]
OutputFile = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file, which appears when it is complete; - is standard output."),
]
CsvGuard = Annotated[
    bool,
    typer.Option("--csv-guard/--no-csv-guard", help="CSV: put an apostrophe before texts that a spreadsheet would run as formulas."),
]

VBuckets = Annotated[str | None, typer.Option("--vbucket", metavar="LIST", help="Only these vbuckets, as in 1,5-9.")]
Opcodes = Annotated[
    str | None, typer.Option("--opcode", metavar="LIST", help="Only these commands, by name or number, as in dcp_mutation,0x58.")
]
Connections = Annotated[str | None, typer.Option("--connection", metavar="LIST", help="Only these connections, as in 1,3-4.")]
Key = Annotated[str | None, typer.Option("--key", metavar="GLOB", help="Only keys that match, as in 'user::*'.")]
Statuses = Annotated[str | None, typer.Option("--status", metavar="LIST", help="Only responses of these statuses, by name or number.")]
Collections = Annotated[str | None, typer.Option("--collection", metavar="LIST", help="Only these collections, by id, as in 0,8-0xa.")]


def ports(values: list[str] | None) -> tuple[list[int], bool]:
    """The ports that ``--port`` names, and whether others are to be found. Raises UsageError."""
    numbers = [value for value in values or () if value != "auto"]
    for value in numbers:
        if not (value.isascii() and value.isdecimal() and len(value) <= 5 and 0 < int(value) < 65_536):
            raise UsageError(f"--port {escape(value)}: write a number from 1 to 65535, or auto")
    return [int(value) for value in numbers], "auto" in (values or ())


def selection(
    *, vbucket: str | None, opcode: str | None, connection: str | None, key: str | None, status: str | None, collection: str | None
) -> Selection:
    """The conditions that these options set. Raises UsageError, naming the option."""
    from dcpinspect.tables import select  # deferred: NumPy, which --help does without

    return select.Selection(
        vbuckets=select.number_ranges(vbucket, "--vbucket", most=0xFFFF) if vbucket is not None else (),
        commands=select.commands(opcode) if opcode is not None else None,
        connections=select.number_ranges(connection, "--connection", most=(1 << 31) - 1) if connection is not None else (),
        keys=select.key_pattern(key) if key is not None else None,
        statuses=select.statuses(status) if status is not None else (),
        collections=select.number_ranges(collection, "--collection", most=0xFFFF_FFFF) if collection is not None else (),
    )


def column_names(text: str | None) -> list[str] | None:
    """The columns that ``--columns`` names, in that order. Raises UsageError, saying which there are."""
    if text is None:
        return None
    from dcpinspect.tables.schema import BY_NAME  # deferred, as above
    from dcpinspect.tables.select import did_you_mean

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in BY_NAME:
            close = did_you_mean(name, list(BY_NAME)) or f"; there are {', '.join(BY_NAME)}"
            raise UsageError(f"--columns {escape(name)}: messages have no such column{close}")
        if names.count(name) > 1:
            raise UsageError(f"--columns {escape(text)}: {name} is there twice")
    if not names:
        raise UsageError("--columns: name at least one column, as in name,vbucket,by_seqno")
    return names
