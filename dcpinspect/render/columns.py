"""The columns of the messages table, explained: what ``read --columns`` prints."""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.escape import escape
from dcpinspect.tables.presets import COLUMN_SETS
from dcpinspect.tables.schema import BY_NAME, Column, ColumnKind
from dcpinspect.tables.vocabulary import vocabulary

_KINDS: dict[ColumnKind, str] = {
    "text": "text",
    "word": "text",
    "hex64": "0x-text",
    "words": "list",
    "records": "records",
    "time": "time",
    "bytes": "bytes",
    "bool": "boolean",
}
_MOST_WORDS = 10
"""Words of a column that are listed."""


def columns_list(saved: Mapping[str, str]) -> list[str]:
    """Lines: every column with its type and meaning, then the sets of columns, among them those the user saved by name."""
    sets = [
        *((name, preset.text, preset.doc) for name, preset in COLUMN_SETS.items() if name not in saved),
        *((name, text, "saved") for name, text in saved.items()),
    ]
    return [
        *(line for column in BY_NAME.values() for line in _column(column)),
        "",
        *(f"@{name:<21} {escape(doc)}: {escape(text)}" for name, text, doc in sets),
    ]


def _column(column: Column) -> list[str]:
    line = f"{column.name:<22} {_KINDS.get(column.kind, column.kind):<7}  {column.doc}"
    known = vocabulary(column.name)
    if known is None:
        return [line]
    more = ", …" if len(known.words) > _MOST_WORDS else ""
    return [line, " " * 34 + ", ".join(known.words[:_MOST_WORDS]) + more]
