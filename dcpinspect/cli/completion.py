"""Completions for values of options: commands, statuses, columns, rules, saved filters. Each is
looked up only when a shell asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from dcpinspect.errors import DcpInspectError

if TYPE_CHECKING:
    from dcpinspect.tables.record_tables import RecordTable


def opcodes(incomplete: str) -> list[str]:
    """Returns completions for the last command of a list."""
    # deferred, as all imports below: --help does not need them
    from dcpinspect.tables.vocabulary import vocabulary

    names = vocabulary("name")
    return _last_of_list(incomplete, names.words if names is not None else ())


def statuses(incomplete: str) -> list[str]:
    """Returns completions for the last status of a list."""
    from dcpinspect.tables.vocabulary import vocabulary

    names = vocabulary("status_name")
    return _last_of_list(incomplete, (*(names.words if names is not None else ()), "ok", "error"))


def message_columns(incomplete: str) -> list[str]:
    """Returns completions for the last column, or set of columns, of a list."""
    from dcpinspect.cli.config import COLUMN_SETS
    from dcpinspect.tables import presets
    from dcpinspect.tables.schema import BY_NAME

    sets = {*presets.COLUMN_SETS, *_saved(COLUMN_SETS)}
    return _last_of_list(incomplete, (*BY_NAME, *(f"@{name}" for name in sorted(sets))))


def one_column(incomplete: str) -> list[str]:
    """Returns columns by which messages can be sorted."""
    from dcpinspect.tables.schema import BY_NAME, is_ordered

    return _beginning(incomplete, (name for name in BY_NAME if is_ordered(name)))


def record_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns completions for the last column of a list, from the table that the command prints."""
    return _last_of_list(
        incomplete, [column.name for table in tables_of(ctx) for column in table.columns]
    )


def sort_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns completions for a list's last column, from those that sort the table."""
    from dcpinspect.tables import record_rows

    return _last_of_list(
        incomplete, [name for table in tables_of(ctx) for name in record_rows.sort_columns(table)]
    )


def tables_of(ctx: typer.Context) -> Sequence[RecordTable]:
    """Returns the tables of which a command prints one; for commands that print no messages."""
    from dcpinspect.diff.difference_columns import DIFFERENCES, PATHS
    from dcpinspect.findings.finding_records import FINDINGS
    from dcpinspect.findings.logs.log_events import LOG_EVENTS
    from dcpinspect.streams.table_columns import BY_TABLE

    tables = {
        **{name: (table,) for name, table in BY_TABLE.items()},
        "diff": (DIFFERENCES, PATHS),
        "check": (FINDINGS,),
        "log": (LOG_EVENTS,),
    }
    return tables.get(ctx.info_name or "", ())


def message_filters(incomplete: str) -> list[str]:
    """Returns built-in and saved filters, if the last word begins with @."""
    from dcpinspect.tables.presets import FILTERS

    return _filters(incomplete, FILTERS)


def record_filters(incomplete: str) -> list[str]:
    """Returns saved filters, if the last word begins with @."""
    return _filters(incomplete, ())


def rules(incomplete: str) -> list[str]:
    """Returns rules."""
    from dcpinspect.findings.registry import RULES

    return _beginning(incomplete, RULES)


def families(incomplete: str) -> list[str]:
    """Returns families of rules."""
    from dcpinspect.findings.rule import FAMILIES

    return _beginning(incomplete, FAMILIES)


def words(incomplete: str) -> list[str]:
    """Returns all names that explain knows."""
    from dcpinspect.findings.registry import RULES
    from dcpinspect.output.render.glossary import GLOSSARY
    from dcpinspect.protocol.control_keys import CONTROL_KEYS

    glossary_words = {word for meanings in GLOSSARY.values() for word in meanings}
    return sorted(
        {
            *opcodes(incomplete),
            *statuses(incomplete),
            *_beginning(
                incomplete,
                (*RULES, *glossary_words, *(control_key.key for control_key in CONTROL_KEYS)),
            ),
        }
    )


def _filters(incomplete: str, built_in: Iterable[str]) -> list[str]:
    from dcpinspect.cli.config import FILTERS

    before, sign, name = incomplete.rpartition("@")
    if incomplete and not sign:
        return []
    return [
        f"{before}@{filter_name}"
        for filter_name in sorted({*built_in, *_saved(FILTERS)})
        if filter_name.startswith(name)
    ]


def _saved(table: str) -> list[str]:
    """Returns the names in a table of the config file; empty if the file is broken, because only a
    command that runs reports this.
    """
    from dcpinspect.cli import config, main

    try:
        return list(config.load(main.tables()).saved(table))
    except DcpInspectError:
        return []


def _last_of_list(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    written = set(before.split(","))
    return [
        f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in written
    ]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
