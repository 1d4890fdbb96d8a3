"""What a table of records shows at a width: what matters most first, the rest below each row if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dcpinspect.escape import cells
from dcpinspect.render.record_lines import record_lines

TABLE = pa.table(
    {
        "connection": [1, 2],
        "requested_end": pa.array([2**64 - 1, 60], pa.uint64()),
        "uuid": ["0xb8b8000000000007", None],
        "cause": ["purge", "unknown-uuid"],
        "explanation": ["tombstones up to the purge seqno are gone; the server has this branch up to 90", "no history in common"],
    }
)


def shown(first: Sequence[str] = (), *, width: int | None = None, is_folded: bool = False, table: Any = TABLE) -> list[str]:
    return [line for line, _ in record_lines(table, first, width=width, is_folded=is_folded)]


def test_without_a_width_every_column_is_in_the_line() -> None:
    assert shown()[0].split() == TABLE.schema.names


def test_what_matters_most_is_shown_and_what_is_left_out_is_counted() -> None:
    assert shown(["cause", "requested_end", "explanation"], width=40) == [
        "requested_end  cause",
        "       no end  purge",
        "           60  unknown-uuid",
        "3 more columns: -v",
    ]


def test_a_sentence_at_the_end_is_cut_rather_than_left_out() -> None:
    heading, first, *_ = shown(["cause", "explanation"], width=50)
    assert heading.split() == ["cause", "explanation"]
    assert cells(first) == 50
    assert first.endswith("…")


def test_the_rest_stands_below_each_row_if_asked_for() -> None:
    assert shown(["cause"], width=50, is_folded=True) == [
        "connection  requested_end  cause",
        "         1         no end  purge",
        "    uuid 0xb8b8000000000007",
        "    explanation tombstones up to the purge seqno",
        "    are gone; the server has this branch up to 90",
        "         2             60  unknown-uuid",
        "    explanation no history in common",
    ]


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_no_line_is_wider_than_the_width_where_words_can_be_parted(width: int) -> None:
    for is_folded in (False, True):
        assert max(cells(line) for line in shown(["cause"], width=width, is_folded=is_folded)) <= max(width, 27)


def test_every_value_is_in_the_lines_or_below_them() -> None:
    for width in (20, 40, 60, 200):
        text = " ".join(" ".join(shown(["cause"], width=width, is_folded=True)).split())
        assert all(value in text for value in ("0xb8b8000000000007", "no end", "unknown-uuid", "no history in common"))


def test_an_empty_table_is_its_heading() -> None:
    assert shown(["cause"], width=200, table=TABLE.slice(0, 0)) == ["connection  requested_end  uuid  cause  explanation"]


def test_nothing_steers_the_terminal_below_a_row_either() -> None:
    table = pa.table({"a": ["x" * 30], "b": ["\x1b[2J\n"]})
    assert all(line.isprintable() for line in shown(width=30, is_folded=True, table=table))
