"""``read --columns`` alone: every column and every set, explained."""

from __future__ import annotations

from collections.abc import Callable

from dcpinspect.output.render.column_help import columns_list
from dcpinspect.tables.schema import BY_NAME


def test_the_list_of_columns(golden: Callable[[str, str], None]) -> None:
    golden("columns.txt", "\n".join(columns_list({})) + "\n")


def test_every_column_is_there_in_order() -> None:
    lines = columns_list({})
    assert [line.split()[0] for line in lines[: lines.index("")] if not line.startswith(" ")] == [
        column.name for column in BY_NAME.values()
    ]


def test_saved_sets_come_last_and_before_those_of_the_same_name() -> None:
    lines = columns_list({"mine": "row,key", "keys": "key\x1b[2J"})
    assert lines[-2:] == [
        "@mine                  saved: row,key",
        "@keys                  saved: key\\x1b[2J",
    ]
    assert sum(line.startswith("@keys") for line in lines) == 1
