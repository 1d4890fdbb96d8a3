"""Explains the columns of tables; ``--columns`` alone prints this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dcpinspect.tables.column_kinds import KINDS, Column
from dcpinspect.tables.presets import COLUMN_SETS
from dcpinspect.tables.record_tables import RecordTable
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tables.vocabulary import named_numbers, vocabulary
from dcpinspect.text import escape

_MOST_WORDS = 10
"""Number of words of a column that are listed."""


def columns_list(saved: Mapping[str, str]) -> list[str]:
    """Returns lines with every column, its type and its meaning, then the sets of columns,
    including those that the user saved by name.
    """
    sets = [
        *(
            (name, preset.text, preset.doc)
            for name, preset in COLUMN_SETS.items()
            if name not in saved
        ),
        *((name, text, "saved") for name, text in saved.items()),
    ]
    return [
        *(line for column in BY_NAME.values() for line in _lines(column)),
        "",
        *(f"@{name:<21} {escape(doc)}: {escape(text)}" for name, text, doc in sets),
    ]


def columns_of_tables(tables: Sequence[RecordTable]) -> list[str]:
    """Returns lines with every column of the tables, its type and its meaning; for several tables,
    the name of each above its columns.
    """
    return [
        line
        for table in tables
        for line in (
            *((f"{table.name}:",) if len(tables) > 1 else ()),
            *(line for column in table.columns for line in _lines(column)),
        )
    ]


def words_of(column: Column) -> str:
    """Returns the words of a column, those for numbers with their numbers; empty if it has none."""
    words: Sequence[str] = named_numbers(column) or column.words
    if BY_NAME.get(column.name) is column:
        words = getattr(vocabulary(column.name), "words", words)
    return ", ".join(words[:_MOST_WORDS]) + (", …" if len(words) > _MOST_WORDS else "")


def _lines(column: Column) -> list[str]:
    line = f"{column.name:<22} {KINDS[column.kind].said:<7}  {column.doc}"
    return [line, " " * 34 + words] if (words := words_of(column)) else [line]
