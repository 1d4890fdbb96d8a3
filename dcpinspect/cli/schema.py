"""``dcpinspect schema``: prints the contract of an output."""

from __future__ import annotations

from typing import Annotated

from dcpinspect.cli.terminal import write_stdout
from dcpinspect.errors import UsageError
from dcpinspect.text import escape


def known_tables() -> list[str]:
    """Returns the names of the outputs that have a JSON Schema."""
    from dcpinspect.output.export.table_schema import SCHEMAS  # deferred, as all that loads NumPy

    return sorted(SCHEMAS)


def schema(
    table: Annotated[str, {"autocompletion": known_tables}],
) -> None:
    """Print the JSON Schema of an output.

    Options:
    table TABLE: The output, as in message, stream or gap.
    """
    import orjson  # deferred, as above

    from dcpinspect.output.export.table_schema import SCHEMAS

    if table not in SCHEMAS:
        raise UsageError(
            f"no schema for '{escape(table)}'; there is one for {', '.join(known_tables())}"
        )
    write_stdout(orjson.dumps(SCHEMAS[table], option=orjson.OPT_INDENT_2) + b"\n")
